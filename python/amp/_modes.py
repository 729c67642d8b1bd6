"""What a block runs in: regions of autocast, without recording, with a report, under a label."""
import contextlib
import json
import os
from typing import Any, Callable, Dict, List, Optional, TypeVar, Union, overload

from amp import _amp

F = TypeVar("F", bound=Callable[..., Any])


class autocast(contextlib.ContextDecorator):  # pylint: disable=invalid-name
    """A region in which every op runs in the type that suits it, as torch.autocast: `with amp.autocast("cpu"):`, or a
    decorator. It is the thread's that opens it.

    dtype: the lower type; by default that of the region around it, outermost bfloat16 on the CPU. strict: an op that would
    have been cast and bypasses it is an error. allow_banned: banned ops run in float32. table: "torch", "ipex" or "apex"."""

    def __init__(self, device_type: str = "cpu", dtype: Union[_amp.dtype, str, None] = None, enabled: bool = True,
                 cache_enabled: bool = True, *, strict: bool = False, allow_banned: bool = False,
                 table: Optional[str] = None) -> None:
        self._device = device_type
        self._options = (device_type, dtype, enabled, cache_enabled, strict, allow_banned, table)

    def __enter__(self) -> "autocast":
        _amp.autocast_enter(*self._options)
        return self

    def __exit__(self, *exception: Any) -> None:
        _amp.autocast_exit(self._device)


class _grad_mode(contextlib.ContextDecorator):  # pylint: disable=invalid-name
    """Sets whether calls are recorded, for a block."""

    def __init__(self, enabled: bool) -> None:
        self._enabled = enabled
        self._before: List[bool] = []

    def _recreate_cm(self) -> "_grad_mode":
        return _grad_mode(self._enabled)

    def __enter__(self) -> None:
        self._before.append(_amp.set_grad_enabled(self._enabled))

    def __exit__(self, *exception: Any) -> None:
        _amp.set_grad_enabled(self._before.pop())


def _mode_or_function(enabled: bool, function: Optional[F]) -> Any:
    mode = _grad_mode(enabled)
    return mode(function) if function else mode


@overload
def no_grad() -> _grad_mode: ...
@overload
def no_grad(function: F) -> F: ...
def no_grad(function: Optional[F] = None) -> Any:
    """A block, or a decorator, in which nothing is recorded: results require no gradients."""
    return _mode_or_function(False, function)


@overload
def enable_grad() -> _grad_mode: ...
@overload
def enable_grad(function: F) -> F: ...
def enable_grad(function: Optional[F] = None) -> Any:
    """The way back inside of no_grad."""
    return _mode_or_function(True, function)


class explain:  # pylint: disable=invalid-name
    """`with amp.explain() as report:` records what ops the process calls. After the block str(report) is a table, and
    report.dict what AMP_EXPLAIN writes: what ran in which type, by which kernel, and why. Blocks inside of one another
    share the record."""

    _open = 0

    def __init__(self) -> None:
        self.table, self.json = "", "{}"

    def __enter__(self) -> "explain":
        if explain._open == 0 and "AMP_EXPLAIN" not in os.environ:
            _amp.explain_reset()
        explain._open += 1
        _amp.explain_begin()
        return self

    def __exit__(self, *exception: Any) -> None:
        _amp.explain_end()
        explain._open -= 1
        self.table, self.json = _amp.explain_report(False), _amp.explain_report(True)

    @property
    def dict(self) -> Dict[str, Any]:
        """The report as a dict."""
        found: Dict[str, Any] = json.loads(self.json)
        return found

    def __str__(self) -> str:
        return self.table


class label(contextlib.ContextDecorator):  # pylint: disable=invalid-name
    """A name for what the block calls, in reports."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> "label":
        _amp.label_enter(self._name)
        return self

    def __exit__(self, *exception: Any) -> None:
        _amp.label_exit()
