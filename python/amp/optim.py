"""Optimizers, under PyTorch's names: `optim.AdamW(params, lr=3e-4)`. A list of parameters, or of groups:
`[{"params": […], "lr": 1e-3}, …]`. Options are those of torch.optim, and master_weights: an f32 copy of each 16-bit parameter
is what is updated."""
from amp import _amp
from amp._amp import Tensor


def _options(options):
    """PyTorch's betas are two options here."""
    options = dict(options)
    if "betas" in options:
        options["beta1"], options["beta2"] = options.pop("betas")
    return options


def _groups(parameters):
    """[(tensors, options)]."""
    listed = list(parameters.values() if isinstance(parameters, dict) else parameters)
    if listed and isinstance(listed[0], dict):
        return [(group["params"], {k: v for k, v in group.items() if k != "params"}) for group in listed]
    return [(listed, {})]


class Optimizer:
    """What all optimizers have."""

    def __init__(self, params, **options):
        groups, defaults = _groups(params), _options(options)
        self._optimizer = None
        for tensors, own in groups:
            tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
            self._add(tensors, defaults, _options(own))

    def _add(self, tensors, defaults, own):
        if self._optimizer is None:  # the first group's options are the optimizer's, so that of another group they must be said
            self._defaults = defaults
            self._optimizer = _amp.Optimizer(type(self).__name__, tensors, {**defaults, **own})
        else:
            first_says = {k: v for k, v in self._defaults.items() if k != "master_weights"}
            self._optimizer.add_group(tensors, {**first_says, **own})

    def add_param_group(self, group):
        """Adds {"params": […]} with options of its own."""
        (tensors, own), = _groups([group])
        self._add([tensors] if isinstance(tensors, Tensor) else list(tensors), self._defaults, _options(own))

    def step(self):
        """Updates every parameter that has a gradient."""
        self._optimizer.step()

    def zero_grad(self):
        """Takes the gradient of each parameter away."""
        self._optimizer.zero_grad()

    def get(self, option, group=0):
        """An option of a group: opt.get("lr")."""
        return self._optimizer.get(group, option)

    def set(self, option, value, group=-1):
        """Sets an option from the next step on; group -1 is all of them."""
        self._optimizer.set(group, option, value)

    @property
    def group_count(self):
        """How many groups there are."""
        return self._optimizer.group_count()

    def state_dict(self):
        """The state as tensors by name, as amp.save_file takes them: shared, not copied."""
        return self._optimizer.state()

    def load_state_dict(self, state):
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
