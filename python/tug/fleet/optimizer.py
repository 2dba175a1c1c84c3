"""Optimizers with Paddle's names. An optimizer sets the servers' update rule, for features and for layers.

SPDX-License-Identifier: Apache-2.0
"""

from typing import TYPE_CHECKING, Any, Dict, Optional

from tug._arrays import real
from tug._errors import ArgumentTypeError, UsageError
from tug.fleet import _program
from tug.fleet._names import Named
from tug.fleet.strategy import DistributedStrategy, strategy_of

if TYPE_CHECKING:
    from tug.fleet._program import Variable


class L2Decay:
    """Paddle's regularization=L2Decay(c), which adds c w to each gradient, like the option l2 of `tug train`."""

    def __init__(self, regularization_coeff: float = 0.0) -> None:
        self.coefficient = real(regularization_coeff, "regularization_coeff", 0, 1e30)


_DEFAULTS = ("parameter_list", "parameters", "grad_clip", "name", "regularization", "weight_decay")
_OFF = {"multi_precision": "weights are floats of 32 bits", "use_multi_tensor": "rows are updated one by one",
        "amsgrad": "Adam keeps no maximum of its sums", "centered": "sums of squares are not centred"}


def _penalty(optimizer: str, settings: Dict[str, Any]) -> Dict[str, float]:
    """Returns the penalty that regularization or weight_decay gives. Raises for other arguments that are not None."""
    found: Dict[str, float] = {}
    for name, value in settings.items():
        if name in _OFF:
            if value not in (False, None):
                raise UsageError(f"{optimizer}: {name} can only be False: {_OFF[name]}")
            continue
        if name not in _DEFAULTS:
            raise ArgumentTypeError(f"{optimizer}: there is no argument '{name}'")
        if value is None:
            continue
        if name not in ("regularization", "weight_decay"):
            raise UsageError(f"{optimizer}: {name} can only be None: " + (
                "all parameters of a net are trained" if name.startswith("parameter") else
                "gradients are not clipped" if name == "grad_clip" else "optimizers have no names"))
        if not isinstance(value, (L2Decay, float)):
            raise UsageError(f"{optimizer}: {name} must be L2Decay(c) or a float c, such as 1e-4")
        found["l2"] = value.coefficient if isinstance(value, L2Decay) else real(value, name, 0, 1e30)
    return found


class Optimizer(Named):
    """The base of the optimizers: an update rule and its numbers, as `tug train --optimizer` has them."""

    holders = ("an optimizer",)

    def __init__(self, rule: str, learning_rate: Any, penalties: Optional[Dict[str, float]] = None,
                 settings: Optional[Dict[str, Any]] = None, **numbers: float) -> None:
        if isinstance(learning_rate, bool) or not isinstance(learning_rate, (int, float)):
            raise ArgumentTypeError("learning_rate: must be a number; for a schedule use the setting `rate` of a table "
                                    "(docs/tables.md)")
        if not learning_rate > 0:
            raise UsageError(f"learning_rate: must be above 0, not {learning_rate}")
        said = ",".join(f"{name}={float(value)!r}" for name, value in numbers.items())
        self.rule: Dict[str, Any] = {"optimizer": f"{rule}:{said}" if said else rule, "lr": float(learning_rate),
                                     **(penalties or {}), **_penalty(type(self).__name__, settings or {})}

    def minimize(self, loss: "Variable", *, startup_program: Any = None, parameter_list: Any = None,
                 no_grad_set: Any = None) -> None:
        """Sets this optimizer for the net of the loss."""
        del startup_program
        if parameter_list or no_grad_set:
            raise UsageError("minimize: all parameters of a net are trained; leave parameter_list and no_grad_set out")
        _program.net_of(loss).train_by(self.rule)


class SGD(Optimizer):
    """Gradient descent: w -= lr g."""

    def __init__(self, learning_rate: Any = 0.001, **settings: Any) -> None:
        super().__init__("sgd", learning_rate, settings=settings)


class Momentum(Optimizer):
    """Gradient descent with momentum: m = momentum m + g; w -= lr m."""

    def __init__(self, learning_rate: Any = 0.001, momentum: float = 0.9, use_nesterov: bool = False,
                 **settings: Any) -> None:
        if use_nesterov:
            raise UsageError("use_nesterov=True: not supported; Momentum takes the gradient at the present weights")
        super().__init__("momentum", learning_rate, settings=settings, beta1=momentum)


class Adagrad(Optimizer):
    """Adagrad: n += g^2; w -= lr g / (sqrt n + epsilon), where n begins with initial_accumulator_value."""

    def __init__(self, learning_rate: Any, epsilon: float = 1e-6, initial_accumulator_value: float = 0.0,
                 **settings: Any) -> None:
        super().__init__("adagrad", learning_rate, settings=settings, n0=initial_accumulator_value, beta=epsilon)


class DecayedAdagrad(Optimizer):
    """Adagrad with decaying sums: n = decay n + (1 - decay) g^2; w -= lr g / (sqrt n + epsilon)."""

    def __init__(self, learning_rate: Any, decay: float = 0.95, epsilon: float = 1e-6, **settings: Any) -> None:
        super().__init__("rmsprop", learning_rate, settings=settings, beta2=decay, beta=epsilon)


class Adam(Optimizer):
    """Adam (Kingma & Ba 2014). Only rows of a batch's features are updated, as with Paddle's lazy_mode=True."""

    def __init__(self, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
                 lazy_mode: bool = True, **settings: Any) -> None:
        if not lazy_mode:
            raise UsageError("lazy_mode=False: not supported; a batch updates only the rows of its own features")
        super().__init__("adam", learning_rate, settings=settings, beta1=beta1, beta2=beta2, beta=epsilon)


class Ftrl(Optimizer):
    """FTRL-proximal (McMahan et al. 2013), whose l1 makes models sparse. As in Paddle, l2 counts twice, and no 1 is
    added to the root of the sum of squares."""

    def __init__(self, learning_rate: Any, l1: float = 0.0, l2: float = 0.0, lr_power: float = -0.5,
                 **settings: Any) -> None:
        if lr_power != -0.5:
            raise UsageError(f"lr_power={lr_power}: only -0.5 is supported")
        super().__init__("ftrl", learning_rate, {"l1": l1, "l2": 2 * l2}, settings, beta=0)


SGDOptimizer, MomentumOptimizer, AdagradOptimizer = SGD, Momentum, Adagrad
DecayedAdagradOptimizer, AdamOptimizer, FtrlOptimizer = DecayedAdagrad, Adam, Ftrl


class DistributedOptimizer(Named):
    """The result of fleet.distributed_optimizer."""

    holders = ("an optimizer",)

    def __init__(self, optimizer: Optimizer, strategy: Any) -> None:
        if not isinstance(optimizer, Optimizer):
            raise ArgumentTypeError("optimizer: must be one of tug.fleet.optimizer, not "
                                    f"{type(optimizer).__name__}")
        self.optimizer = optimizer
        self.strategy: DistributedStrategy = strategy_of(strategy)

    def minimize(self, losses: Any, scopes: Any = None, startup_programs: Any = None,
                 parameter_list: Optional[Any] = None, no_grad_set: Optional[Any] = None) -> None:
        """Sets the optimizer for the net of the loss. losses: one loss, or a list with one."""
        del scopes, startup_programs
        if isinstance(losses, (list, tuple)):
            if len(losses) != 1:
                raise UsageError(f"minimize: got {len(losses)} losses, but a process trains only one net")
            losses = losses[0]
        self.optimizer.minimize(losses, parameter_list=parameter_list, no_grad_set=no_grad_set)
