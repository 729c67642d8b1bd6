"""x[…]: views for integers, slices, None and …; a copy of what tensors choose."""
from amp import _amp, _ops
from amp._amp import Tensor


def _is_index(item):
    return isinstance(item, (Tensor, list)) or hasattr(item, "__dlpack__")


def _index_tensor(item):
    if isinstance(item, Tensor):
        return item
    from amp._tensor import tensor  # pylint: disable=import-outside-toplevel
    return tensor(item)


def _uses(item):
    """How many dimensions an item stands for."""
    if item is None or isinstance(item, bool):
        return 0
    return item.ndim if isinstance(item, Tensor) and item.dtype is _amp.bool else 1


def _complete(key, rank):
    """The items of a key, with slices in the place of …."""
    items = [_index_tensor(i) if _is_index(i) else i for i in (key if isinstance(key, tuple) else (key,))]
    dots = [n for n, item in enumerate(items) if item is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index has one … at most")
    used = sum(_uses(item) for item in items if item is not Ellipsis)
    if used > rank:
        raise IndexError(f"too many indices: {used} for a tensor of {rank} dimensions")
    where = dots[0] if dots else len(items)
    return items[:where] + [slice(None)] * (rank - used) + items[where + len(dots):]


def _select(x, dim, item):
    index, extent = item.__index__(), x.shape[dim]
    if not -extent <= index < extent:
        raise IndexError(f"index {index} is outside of dimension {dim}, which has {extent}")
    return _ops.select(x, dim, index)


def _slice(x, dim, item):
    if item == slice(None):
        return x
    start, end, step = item.indices(x.shape[dim])
    if step <= 0:
        raise ValueError("a slice's step must be above 0: x.flip(dim) turns a dimension round")
    return _ops.slice(x, dim, start, max(start, end), step)


def _view(x, key):
    """The view that integers, slices and None make, and the tensors that are left to choose by, one for each dimension."""
    dim, chosen = 0, []
    for item in _complete(key, x.ndim):
        if isinstance(item, Tensor):
            uses = _uses(item)
            chosen += [None] * (dim - len(chosen)) + [item]
            dim += uses
            if uses > 1:
                chosen_dims = item.nonzero().unbind(1)
                chosen[-1:] = chosen_dims
        elif item is None:
            x, dim = _ops.unsqueeze(x, dim), dim + 1
        elif isinstance(item, slice):
            x, dim = _slice(x, dim, item), dim + 1
        elif hasattr(item, "__index__") and not isinstance(item, bool):
            x = _select(x, dim, item)
        else:
            raise TypeError(f"an index is an integer, a slice, None, … or a tensor, not {type(item).__name__}")
    return x, chosen


def get_item(x, key):
    view, chosen = _view(x, key)
    if chosen:
        return _ops.index(view, chosen)
    return _ops.slice(x) if view is x and x.ndim else view if view is not x else x.view(())


def set_item(x, key, value):
    view, chosen = _view(x, key)
    if chosen:
        value = value if isinstance(value, Tensor) else _ops.full((), value, dtype=x.dtype)
        _ops.index_put_(view, chosen, value)
    elif isinstance(value, (bool, int, float, complex)):
        _ops.fill_(view, value)
    else:
        _ops.copy_(view, value)
