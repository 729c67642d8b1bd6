"""What Python adds to Tensor: operators, indices, NumPy."""
import array
import sys
import warnings
from typing import Any, Callable, List, Optional, Union

from amp import _amp
from amp._amp import Op, Tensor
from amp._indexing import get_item, set_item

_NUMBERS = (bool, int, float, complex)
# Operators of two tensors, or a tensor and a number: their ops.
_BINARY = {"add": "add", "sub": "sub", "mul": "mul", "matmul": "matmul", "truediv": "div", "floordiv": "floor_divide",
           "mod": "remainder", "pow": "pow", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
           "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift"}
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_ONE = {"neg": "neg", "abs": "abs", "invert": "bitwise_not"}
# `n + x` where n is a number; the other operators of two make a tensor of it.
_NUMBER_ON_THE_LEFT = {"add": lambda n, x: x + n, "mul": lambda n, x: x * n, "sub": lambda n, x: -x + n,
                       "truediv": lambda n, x: x.reciprocal() * n, "pow": lambda n, x: _POW(n, x),
                       "and": lambda n, x: x & n, "or": lambda n, x: x | n, "xor": lambda n, x: x ^ n}
# x.float(): the dtype of that name.
_CONVERSIONS = {"double": _amp.float64, "float": _amp.float32, "half": _amp.float16, "bfloat16": _amp.bfloat16,
                "long": _amp.int64, "int": _amp.int32, "short": _amp.int16, "char": _amp.int8, "byte": _amp.uint8,
                "bool": _amp.bool}


def _operator(name):
    return Op(name, f"{name}_out", None, operator=True)


_POW = _operator("pow")


def _as_tensor(number, like):
    """A number as a tensor without dimensions, which gives way to `like` in the dtype of a result."""
    floating = like.dtype.is_floating_point or like.dtype.is_complex
    return tensor(number, dtype=like.dtype if isinstance(number, float) and floating else None)


def _from_right(op, with_number):
    """`a - x`, where a is no tensor."""
    def operator(self, other):
        if not isinstance(other, _NUMBERS):
            return op(other, self)
        return with_number(other, self) if with_number else op(_as_tensor(other, self), self)
    return operator


def _conversion(dtype):
    def convert(self):
        return self.to(dtype)
    convert.__doc__ = f"self.to({dtype!r})"
    return convert


# ---- NumPy ------------------------------------------------------------------------------------------------------------

def _bfloat16_of_numpy():
    """The dtype of ml_dtypes, or None."""
    try:
        import ml_dtypes  # pylint: disable=import-outside-toplevel
    except ImportError:
        return None
    return ml_dtypes.bfloat16


def _numpy(self):
    """The same memory as an array of NumPy's. bfloat16 is that of ml_dtypes, or else its bits as uint16. Whoever writes to it
    tells the tensor: x.mark_dirty()."""
    import numpy  # pylint: disable=import-outside-toplevel
    if self.dtype is not _amp.bfloat16:
        return numpy.asarray(memoryview(self))
    bfloat16 = _bfloat16_of_numpy()
    if bfloat16 is None:
        warnings.warn("NumPy has no bfloat16, and ml_dtypes is not installed: these are its bits, as uint16", stacklevel=2)
    return numpy.asarray(memoryview(self._bits())).view(bfloat16 or numpy.uint16)


def _array(self, dtype=None, copy=None):
    found = self.numpy()
    if dtype is not None and found.dtype != dtype:
        return found.astype(dtype)
    return found.copy() if copy else found


def from_numpy(array_: Any) -> Tensor:
    """A tensor over the memory of an array, without a copy; it keeps the array alive. Whoever writes to the array tells the
    tensor: x.mark_dirty()."""
    dtype = getattr(array_, "dtype", None)
    if getattr(dtype, "name", "") == "bfloat16":
        return _amp.from_buffer(array_.view("uint16"), _amp.bfloat16)
    if dtype is not None and getattr(dtype, "byteorder", "=") == (">" if sys.byteorder == "little" else "<"):
        raise TypeError(f"from_numpy: {dtype!r} is of the other byte order: array.astype(dtype.newbyteorder('=')) first")
    return _amp.from_buffer(array_)


def from_dlpack(other: Any) -> Tensor:
    """A tensor over the memory of another library's, without a copy."""
    try:
        capsule = other.__dlpack__(max_version=(1, 0))
    except TypeError:  # of an older protocol
        capsule = other.__dlpack__()
    return _amp.from_capsule(capsule)


# ---- Tensors from Python's numbers --------------------------------------------------------------------------------------

def _flatten(data, shape, depth, numbers):
    """Numbers in nested lists, row by row; `shape` grows with the first of each depth."""
    if not isinstance(data, (list, tuple)):
        if depth != len(shape):
            raise ValueError("tensor: lists of one depth are wanted")
        numbers.append(data.item() if hasattr(data, "item") else data)
        return
    if depth == len(shape):
        if numbers:
            raise ValueError("tensor: lists of one depth are wanted")
        shape.append(len(data))
    if len(data) != shape[depth]:
        raise ValueError(f"tensor: lists of one length are wanted, not of {shape[depth]} and {len(data)}")
    for item in data:
        _flatten(item, shape, depth + 1, numbers)


# Kinds of numbers, the widest first: the letter of an array, what it is read as, and the dtype of a tensor of such.
_KINDS = [(complex, "d", _amp.complex128, _amp.complex64), (float, "d", _amp.float64, _amp.float32),
          (int, "q", _amp.int64, _amp.int64), (bool, "b", _amp.int8, _amp.bool)]


def _tensor_of(numbers, shape, dtype):
    """A tensor of numbers in a row; of a kind that all of them fit."""
    kinds = set(map(type, numbers)) or {float}
    kind, letter, read_as, natural = next((row for row in _KINDS if row[0] in kinds), _KINDS[1])
    if kind is complex:
        numbers = [part for n in map(complex, numbers) for part in (n.real, n.imag)]
    flat = _amp.from_buffer(memoryview(array.array(letter, numbers)).cast("B"), read_as)
    return flat.reshape(shape).to(dtype or natural, copy=True)


def tensor(data: Any, dtype: Union[_amp.dtype, str, None] = None, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of data: a number, nested lists of numbers, an array, a tensor. Without a dtype numbers become
    float32, int64, bool or complex64."""
    if isinstance(data, Tensor):
        made = data.detach().clone() if dtype is None else data.detach().to(dtype, copy=True)
    elif hasattr(data, "__dlpack__") or hasattr(data, "__array_interface__") and getattr(data, "shape", ()) != ():
        made = tensor(from_numpy(data), dtype)
    else:
        shape: List[int] = []
        numbers: List[Any] = []
        _flatten(data, shape, 0, numbers)
        made = _tensor_of(numbers, shape, dtype)
    return made.requires_grad_() if requires_grad else made


# ---- Put together --------------------------------------------------------------------------------------------------------

def _iterate(self):
    return iter(self.unbind(0))


def _format(self, spec):
    return format(self.item(), spec) if self.ndim == 0 and spec else repr(self)


def _rebuild(data, dtype, shape, requires_grad):
    """What a pickle holds."""
    flat = _amp.from_buffer(bytearray(data), dtype)
    return flat.reshape(shape).clone().requires_grad_(requires_grad)


def _reduce(self):
    dense = self.detach().contiguous()
    data = memoryview(dense._bits() if self.dtype is _amp.bfloat16 else dense).tobytes()
    return _rebuild, (data, self.dtype.name, self.shape, self.requires_grad)


def _deepcopy(self, memo):
    copy = self.detach().clone().requires_grad_(self.requires_grad)
    memo[id(self)] = copy
    return copy


class RemovableHandle:
    """A hook that may be taken away again: remove(), or the end of a `with`."""

    def __init__(self, hook: Callable[[Tensor], Optional[Tensor]]) -> None:
        self._hook: Optional[Callable[[Tensor], Optional[Tensor]]] = hook

    def __call__(self, gradient: Tensor) -> Optional[Tensor]:
        return self._hook(gradient) if self._hook else None

    def remove(self) -> None:
        """The hook is not called any more."""
        self._hook = None

    def __enter__(self) -> "RemovableHandle":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.remove()


def _register_hook(self, hook):
    if not callable(hook):
        raise TypeError(f"register_hook: a function of the gradient is wanted, but a {type(hook).__name__} was given")
    handle = RemovableHandle(hook)
    self._register_hook(handle)
    return handle


def _add_operators():
    for name, op in _BINARY.items():
        setattr(Tensor, f"__{name}__", _operator(op))
        setattr(Tensor, f"__r{name}__", _from_right(_operator(op), _NUMBER_ON_THE_LEFT.get(name)))
        if hasattr(Tensor, f"{op}_"):
            setattr(Tensor, f"__i{name}__", _operator(f"{op}_"))
    for name, op in {**{name: name for name in _COMPARISONS}, **_ONE}.items():
        setattr(Tensor, f"__{name}__", _operator(op))
    Tensor.__hash__ = object.__hash__


def _add_methods():
    for name, dtype in _CONVERSIONS.items():
        setattr(Tensor, name, _conversion(dtype))
    methods = {"__getitem__": get_item, "__setitem__": set_item, "__iter__": _iterate, "__array__": _array,
               "__format__": _format, "__reduce__": _reduce, "__deepcopy__": _deepcopy, "numpy": _numpy, "register_hook": _register_hook,
               "__array_ufunc__": None,
               "T": property(lambda self: self.t() if self.ndim <= 2 else self.permute(*reversed(range(self.ndim)))),
               "mT": property(lambda self: self.transpose(-2, -1))}
    for name, method in methods.items():
        setattr(Tensor, name, method)


_add_operators()
_add_methods()
