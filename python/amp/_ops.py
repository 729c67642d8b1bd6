"""The ops as functions, made of the table; those that take a tensor first are methods of Tensor too."""
from collections import namedtuple

from amp._amp import Op, Tensor
from amp._op_table import ROWS


def _op(row, form=""):
    name, _, sizes_at, returns_list, results, _, doc = row
    made = namedtuple(f"{name}_result", results, module="amp._ops", rename=True) if results and not form else None
    return Op(name + form, f"{name}_out", doc, -1 if form else sizes_at, returns_list, made)


def _functions():
    found = {}
    for row in ROWS:
        name, forms, is_method = row[0], row[1], row[5]
        for form in [""] + ["_"] * ("_" in forms):
            op = found[name + form] = _op(row, form)
            if op.results is not None:
                globals()[op.results.__name__] = op.results
            if is_method and not hasattr(Tensor, name + form):
                setattr(Tensor, name + form, op)
    return found


_FUNCTIONS = _functions()
globals().update(_FUNCTIONS)
__all__ = list(_FUNCTIONS)
