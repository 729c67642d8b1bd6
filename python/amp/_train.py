"""Gradients and what is done to them before a step."""
from typing import Any, Iterable, List, Tuple, Union

from amp import _amp
from amp._amp import Tensor

Tensors = Union[Tensor, Iterable[Tensor]]


def kind_of(made: Any, module: str) -> str:
    """The class of that module that it is, perhaps by way of a program's own."""
    return next(kind.__name__ for kind in type(made).__mro__ if kind.__module__ == module)


def listed(tensors: Tensors) -> List[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _that_learn(parameters: Tensors) -> List[Tensor]:
    return [p for p in listed(parameters) if p.requires_grad]


def grad(outputs: Tensors, inputs: Tensors, retain_graph: bool = False, create_graph: bool = False,
         allow_unused: bool = False) -> Tuple[Tensor, ...]:
    """The gradients of the sum of the outputs by the inputs, as a tuple; leaves are left as they are."""
    return tuple(_amp.grad(listed(outputs), listed(inputs), retain_graph, create_graph, allow_unused))


def clip_grad_norm_(parameters: Tensors, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False) -> float:
    """Scales all gradients so that their norm together is at most max_norm. The norm before, a float."""
    return _amp.clip_grad_norm(_that_learn(parameters), max_norm, norm_type, error_if_nonfinite)


def clip_grad_value_(parameters: Tensors, clip_value: float) -> None:
    """Every element of a gradient becomes one from -clip_value to clip_value."""
    _amp.clip_grad_value(_that_learn(parameters), clip_value)
