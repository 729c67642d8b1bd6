"""Optimizers, under PyTorch's names: `optim.AdamW(params, lr=3e-4)`. A list of parameters, or of groups:
`[{"params": […], "lr": 1e-3}, …]`. Options are those of torch.optim, and master_weights: an f32 copy of each 16-bit parameter
is what is updated. optim.lr_scheduler has the schedulers."""
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple, Union

from amp import _amp
from amp._amp import Tensor
from amp._train import kind_of, listed
from amp.optim import lr_scheduler

__all__ = ["Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "NAdam", "Optimizer", "RAdam", "RMSprop", "SGD",
           "lr_scheduler"]

Parameters = Union[Iterable[Tensor], Iterable[Dict[str, Any]], Dict[str, Tensor]]
Options = Dict[str, Any]


def _options(options: Options) -> Options:
    """PyTorch's betas are two options here."""
    options = dict(options)
    if "betas" in options:
        options["beta1"], options["beta2"] = options.pop("betas")
    return options


def _groups(parameters: Parameters) -> List[Tuple[Any, Options]]:
    """[(tensors, options)]."""
    listed: List[Any] = list(parameters.values() if isinstance(parameters, dict) else parameters)
    if listed and isinstance(listed[0], dict):
        return [(group["params"], {k: v for k, v in group.items() if k != "params"}) for group in listed]
    return [(listed, {})]


class Optimizer:
    """What all optimizers have."""

    def __init__(self, params: Parameters, **options: Any) -> None:
        (tensors, own), *others = _groups(params)
        self._defaults = _options(options)
        self._optimizer = _amp.Optimizer(kind_of(self, __name__), listed(tensors), {**self._defaults, **_options(own)})
        self._defaults.pop("master_weights", None)  # of the optimizer as a whole
        for tensors, own in others:
            self._add(tensors, own)

    def _add(self, tensors: Any, own: Options) -> None:
        """A group: what it does not say itself is as the optimizer was told, not as the first group."""
        self._optimizer.add_group(listed(tensors), {**self._defaults, **_options(own)})

    def add_param_group(self, group: Options) -> None:
        """Adds {"params": […]} with options of its own."""
        for tensors, own in _groups([group]):
            self._add(tensors, own)

    def step(self) -> None:
        """Updates every parameter that has a gradient."""
        self._optimizer.step()

    def zero_grad(self) -> None:
        """Takes the gradient of each parameter away."""
        self._optimizer.zero_grad()

    def get(self, option: str, group: int = 0) -> float:
        """An option of a group: opt.get("lr")."""
        return self._optimizer.get(group, option)

    def set(self, option: str, value: float, group: int = -1) -> None:
        """Sets an option from the next step on; group -1 is all of them."""
        self._optimizer.set(group, option, value)

    @property
    def group_count(self) -> int:
        """How many groups there are."""
        return self._optimizer.group_count()

    def state_dict(self) -> Dict[str, Tensor]:
        """The state as tensors by name, as amp.save_file takes them: shared, not copied."""
        return self._optimizer.state()

    def load_state_dict(self, state: Dict[str, Tensor]) -> None:
        """Takes the values of a state of an optimizer of the same kind, groups and parameters."""
        self._optimizer.load_state(dict(state))


class SGD(Optimizer):
    """lr=1e-3, momentum=0, dampening=0, weight_decay=0, nesterov=False."""


class Adam(Optimizer):
    """lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False."""


class AdamW(Optimizer):
    """lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, amsgrad=False."""


class Adagrad(Optimizer):
    """lr=1e-2, lr_decay=0, weight_decay=0, initial_accumulator_value=0, eps=1e-10."""


class RMSprop(Optimizer):
    """lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0, momentum=0, centered=False."""


class Adadelta(Optimizer):
    """lr=1, rho=0.9, eps=1e-6, weight_decay=0."""


class NAdam(Optimizer):
    """lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, momentum_decay=4e-3."""


class RAdam(Optimizer):
    """lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0."""


class Adamax(Optimizer):
    """lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0."""


class LBFGS:
    """For small problems: its step asks for the loss several times. lr=1, max_iter=20, max_eval=max_iter*5//4,
    tolerance_grad=1e-7, tolerance_change=1e-9, history_size=100, line_search_fn=None or "strong_wolfe"."""

    def __init__(self, params: Iterable[Tensor], lr: float = 1.0, max_iter: int = 20, max_eval: Optional[int] = None,
                 tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
                 line_search_fn: Optional[str] = None) -> None:
        if line_search_fn not in (None, "strong_wolfe"):
            raise ValueError(f"LBFGS: line_search_fn is {line_search_fn!r}; expected None or 'strong_wolfe'")
        options = {"lr": lr, "max_iter": max_iter, "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change,
                   "history_size": history_size}
        if max_eval is not None:
            options["max_eval"] = max_eval
        self._params = listed(params)
        self._lbfgs = _amp.LBFGS(self._params, options, line_search_fn is not None)

    def step(self, closure: Callable[[], Union[Tensor, float]]) -> float:
        """Up to max_iter iterations. The closure takes the gradients away, computes the loss, calls backward and returns
        the loss. Gives the loss before the step. After an exception of the closure's the parameters are what they
        were."""
        return self._lbfgs.step(closure)

    def zero_grad(self) -> None:
        """Takes the gradient of each parameter away."""
        for parameter in self._params:
            parameter.grad = None

    def state_dict(self) -> Dict[str, Tensor]:
        """What is known of the curvature, as tensors by name."""
        return self._lbfgs.state()

    def load_state_dict(self, state: Dict[str, Tensor]) -> None:
        """Takes the values of such a state."""
        self._lbfgs.load_state(dict(state))
