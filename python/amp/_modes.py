"""What a block runs in: regions of autocast, without recording, with a report, under a label."""
import contextlib
import json
import os

from amp import _amp


class autocast(contextlib.ContextDecorator):  # pylint: disable=invalid-name
    """A region in which every op runs in the type that suits it, as torch.autocast: `with amp.autocast("cpu"):`, or a
    decorator. It is the thread's that opens it.

    dtype: the lower type; by default that of the region around it, outermost bfloat16 on the CPU. strict: an op that would
    have been cast and bypasses it is an error. allow_banned: banned ops run in float32. table: "torch", "ipex" or "apex"."""

    def __init__(self, device_type="cpu", dtype=None, enabled=True, cache_enabled=True, *, strict=False, allow_banned=False,
                 table=None):
        self._device = device_type
        self._options = (device_type, dtype, enabled, cache_enabled, strict, allow_banned, table)

    def __enter__(self):
        _amp.autocast_enter(*self._options)
        return self

    def __exit__(self, *exception):
        _amp.autocast_exit(self._device)


class _grad_mode(contextlib.ContextDecorator):  # pylint: disable=invalid-name
    """Sets whether calls are recorded, for a block."""

    def __init__(self, enabled):
        self._enabled, self._before = enabled, []

    def _recreate_cm(self):
        return _grad_mode(self._enabled)

    def __enter__(self):
        self._before.append(_amp.set_grad_enabled(self._enabled))

    def __exit__(self, *exception):
        _amp.set_grad_enabled(self._before.pop())


def _mode_or_function(enabled, function):
    mode = _grad_mode(enabled)
    return mode(function) if function else mode


def no_grad(function=None):
    """A block, or a decorator, in which nothing is recorded: results require no gradients."""
    return _mode_or_function(False, function)


def enable_grad(function=None):
    """The way back inside of no_grad."""
    return _mode_or_function(True, function)


class explain:  # pylint: disable=invalid-name
    """`with amp.explain() as report:` records what ops the process calls. After the block str(report) is a table, and
    report.dict what AMP_EXPLAIN writes: what ran in which type, by which kernel, and why. Blocks inside of one another
    share the record."""

    _open = 0

    def __init__(self):
        self.table, self.json = "", "{}"

    def __enter__(self):
        if explain._open == 0 and "AMP_EXPLAIN" not in os.environ:
            _amp.explain_reset()
        explain._open += 1
        _amp.explain_begin()
        return self

    def __exit__(self, *exception):
        _amp.explain_end()
        explain._open -= 1
        self.table, self.json = _amp.explain_report(False), _amp.explain_report(True)

    @property
    def dict(self):
        return json.loads(self.json)

    def __str__(self):
        return self.table


class label(contextlib.ContextDecorator):  # pylint: disable=invalid-name
    """A name for what the block calls, in reports."""

    def __init__(self, name):
        self._name = name

    def __enter__(self):
        _amp.label_enter(self._name)
        return self

    def __exit__(self, *exception):
        _amp.label_exit()
