"""Optimizers by Paddle's names: the update rules of the servers, for features and layers alike.

SPDX-License-Identifier: Apache-2.0
"""

from typing import TYPE_CHECKING, Any, Dict, Optional

from tug._errors import ArgumentTypeError, UsageError
from tug.fleet import _program
from tug.fleet.strategy import DistributedStrategy, strategy_of

if TYPE_CHECKING:
    from tug.fleet._program import Variable


class Optimizer:
    """A rule and its numbers."""

    def __init__(self, rule: str, learning_rate: Any, **numbers: float) -> None:
        if isinstance(learning_rate, bool) or not isinstance(learning_rate, (int, float)):
            raise ArgumentTypeError("learning_rate: must be a number; rates that change with the step are `rate` of a "
                                    "table (docs/tables.md)")
        if not learning_rate > 0:
            raise UsageError(f"learning_rate: {learning_rate} learns nothing")
        self.rule: Dict[str, Any] = {"optimizer": rule, "lr": float(learning_rate), **numbers}

    def minimize(self, loss: "Variable", *, startup_program: Any = None, parameter_list: Any = None,
                 no_grad_set: Any = None) -> None:
        """The net of this loss is trained by this rule."""
        del startup_program
        if parameter_list or no_grad_set:
            raise UsageError("minimize: all parameters of a net are trained; leave parameter_list and no_grad_set out")
        _program.net_of(loss).train_by(self.rule)


class SGD(Optimizer):
    """w -= lr g"""

    def __init__(self, learning_rate: Any = 0.01) -> None:
        super().__init__("sgd", learning_rate)


class Adagrad(Optimizer):
    """A rate per weight."""

    def __init__(self, learning_rate: Any = 0.1) -> None:
        super().__init__("adagrad", learning_rate)


class Adam(Optimizer):
    """Rows that a batch lacks stay as they are, which Paddle calls lazy_mode=True."""

    def __init__(self, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8,
                 lazy_mode: bool = True) -> None:
        if not lazy_mode:
            raise UsageError("lazy_mode=False: rows that a batch lacks are on servers, and are not touched")
        if (beta1, beta2, epsilon) != (0.9, 0.999, 1e-8):
            raise UsageError("Adam: has beta1=0.9, beta2=0.999, epsilon=1e-8, which cannot be changed; tables of the "
                             "program's own can have others (docs/tables.md)")
        super().__init__("adam", learning_rate)


class Ftrl(Optimizer):
    """FTRL-proximal; with l1 it makes sparse models."""

    def __init__(self, learning_rate: Any = 0.1, l1: float = 0.0, l2: float = 0.0) -> None:
        super().__init__("ftrl", learning_rate, l1=l1, l2=l2)


SGDOptimizer, AdagradOptimizer, AdamOptimizer, FtrlOptimizer = SGD, Adagrad, Adam, Ftrl


class DistributedOptimizer:
    """What fleet.distributed_optimizer returns."""

    def __init__(self, optimizer: Optimizer, strategy: Any) -> None:
        if not isinstance(optimizer, Optimizer):
            raise ArgumentTypeError("optimizer: must be one of tug.fleet.optimizer, not "
                                    f"{type(optimizer).__name__}")
        self.optimizer = optimizer
        self.strategy: DistributedStrategy = strategy_of(strategy)

    def minimize(self, losses: Any, scopes: Any = None, startup_programs: Any = None,
                 parameter_list: Optional[Any] = None, no_grad_set: Optional[Any] = None) -> None:
        """As the optimizer's; one loss."""
        del scopes, startup_programs
        if isinstance(losses, (list, tuple)):
            if len(losses) != 1:
                raise UsageError(f"minimize: {len(losses)} losses; a process trains one net")
            losses = losses[0]
        self.optimizer.minimize(losses, parameter_list=parameter_list, no_grad_set=no_grad_set)
