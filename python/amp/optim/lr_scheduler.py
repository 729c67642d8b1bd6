"""Learning rates that change from step to step, under the names of torch.optim.lr_scheduler and by its formulas. A scheduler
sets the rates of its optimizer when it is made; `step()` goes after the optimizer's."""
from typing import Any, Callable, Dict, List, Sequence, Union

from amp import _amp
from amp._train import kind_of


def _rates(optimizer: Any) -> List[float]:
    return [optimizer.get("lr", group) for group in range(optimizer.group_count)]


class LRScheduler:
    """What all have that go by the step. The rates at the beginning are those that the optimizer has then."""

    def __init__(self, optimizer: Any, options: Dict[str, Any], function: Any = None) -> None:
        self._scheduler = _amp.Scheduler(kind_of(self, __name__), optimizer, options, function)
        self.optimizer = optimizer

    def step(self) -> None:
        """Goes to the next step, and sets the learning rate of each group."""
        self._scheduler.step()

    @property
    def last_epoch(self) -> int:
        """Steps made: PyTorch's name for them."""
        return self._scheduler.get_step()

    def get_last_lr(self) -> List[float]:
        """The rate of each group."""
        return _rates(self.optimizer)

    def state_dict(self) -> Dict[str, int]:
        """The step. Options are not in it, nor are the rates at the beginning."""
        return {"last_epoch": self.last_epoch}

    def load_state_dict(self, state: Dict[str, int]) -> None:
        """Goes to the step of a state."""
        self._scheduler.set_step(state["last_epoch"])


class StepLR(LRScheduler):
    """Times gamma at each step_size steps."""

    def __init__(self, optimizer: Any, step_size: int, gamma: float = 0.1) -> None:
        super().__init__(optimizer, {"step_size": step_size, "gamma": gamma})


class MultiStepLR(LRScheduler):
    """Times gamma at each of milestones, of which there are at most eight."""

    def __init__(self, optimizer: Any, milestones: Sequence[int], gamma: float = 0.1) -> None:
        super().__init__(optimizer, {"milestones": milestones, "gamma": gamma})


class ConstantLR(LRScheduler):
    """Times factor until total_iters."""

    def __init__(self, optimizer: Any, factor: float = 1 / 3, total_iters: int = 5) -> None:
        super().__init__(optimizer, {"factor": factor, "total_iters": total_iters})


class LinearLR(LRScheduler):
    """Times start_factor to end_factor within total_iters."""

    def __init__(self, optimizer: Any, start_factor: float = 1 / 3, end_factor: float = 1.0, total_iters: int = 5) -> None:
        super().__init__(optimizer, {"start_factor": start_factor, "end_factor": end_factor, "total_iters": total_iters})


class ExponentialLR(LRScheduler):
    """Times gamma at each step."""

    def __init__(self, optimizer: Any, gamma: float) -> None:
        super().__init__(optimizer, {"gamma": gamma})


class PolynomialLR(LRScheduler):
    """To 0 within total_iters, as a power."""

    def __init__(self, optimizer: Any, total_iters: int = 5, power: float = 1.0) -> None:
        super().__init__(optimizer, {"total_iters": total_iters, "power": power})


class CosineAnnealingLR(LRScheduler):
    """Down to eta_min within T_max, and up again."""

    def __init__(self, optimizer: Any, T_max: int, eta_min: float = 0.0) -> None:  # pylint: disable=invalid-name
        super().__init__(optimizer, {"t_max": T_max, "eta_min": eta_min})


class CosineAnnealingWarmRestarts(LRScheduler):
    """Down to eta_min within T_0, then from the beginning, T_mult times as long."""

    def __init__(self, optimizer: Any, T_0: int, T_mult: int = 1, eta_min: float = 0.0) -> None:  # pylint: disable=invalid-name
        super().__init__(optimizer, {"t_0": T_0, "t_mult": T_mult, "eta_min": eta_min})


class OneCycleLR(LRScheduler):
    """Up to max_lr and down, within total_steps. Momentum stays as it is: PyTorch's cycle_momentum=False."""

    def __init__(self, optimizer: Any, max_lr: float, total_steps: int, pct_start: float = 0.3, anneal_strategy: str = "cos",
                 div_factor: float = 25.0, final_div_factor: float = 1e4, three_phase: bool = False) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"OneCycleLR: anneal_strategy is {anneal_strategy!r}; expected 'cos' or 'linear'")
        super().__init__(optimizer, {"max_lr": max_lr, "total_steps": total_steps, "pct_start": pct_start,
                                     "linear_anneal": anneal_strategy == "linear", "div_factor": div_factor,
                                     "final_div_factor": final_div_factor, "three_phase": three_phase})


class LambdaLR(LRScheduler):
    """Times what a function of the step gives."""

    def __init__(self, optimizer: Any, lr_lambda: Callable[[int], float]) -> None:
        super().__init__(optimizer, {}, lr_lambda)


class ReduceLROnPlateau:
    """Rates times factor where a metric has got no better for more than patience steps."""

    def __init__(self, optimizer: Any, mode: str = "min", factor: float = 0.1, patience: int = 10, threshold: float = 1e-4,
                 threshold_mode: str = "rel", cooldown: int = 0, min_lr: Union[float, Sequence[float]] = 0.0,
                 eps: float = 1e-8) -> None:
        for name, value, known in (("mode", mode, ("min", "max")), ("threshold_mode", threshold_mode, ("rel", "abs"))):
            if value not in known:
                raise ValueError(f"ReduceLROnPlateau: {name} is {value!r}; expected '{known[0]}' or '{known[1]}'")
        options = {"maximize": mode == "max", "absolute": threshold_mode == "abs", "factor": factor, "patience": patience,
                   "threshold": threshold, "cooldown": cooldown, "min_lr": min_lr, "eps": eps}
        self._plateau = _amp.Plateau(optimizer, options)
        self.optimizer = optimizer

    def step(self, metrics: Any) -> None:
        """Takes the metric, a number or a tensor of one element, and changes the rates where it is time."""
        self._plateau.step(metrics)

    def get_last_lr(self) -> List[float]:
        """The rate of each group."""
        return _rates(self.optimizer)

    def state_dict(self) -> Dict[str, Any]:
        """All of its state; the optimizer's has the rates."""
        return dict(zip(("best", "num_bad_epochs", "cooldown_counter"), self._plateau.state()))

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        """Takes such a state."""
        self._plateau.load_state(state["best"], state["num_bad_epochs"], state["cooldown_counter"])
