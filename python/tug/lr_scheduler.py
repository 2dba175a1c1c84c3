"""Learning rates that change with the updates: mxnet.lr_scheduler (2.0), for optimizers of tug.kvstore.

    schedule = kvstore.lr_scheduler.FactorScheduler(step=1000, factor=0.5, base_lr=0.1, warmup_steps=100)
    kv.set_optimizer(kvstore.optimizer.create("sgd", lr_scheduler=schedule))

The store asks for the rate before each update, on a cluster each server by itself: num_update is the number of pushes
of the key that has had most. schedule(num_update) says what it gets.

SPDX-License-Identifier: Apache-2.0
"""

from typing import Any, Sequence

import numpy as np

from tug._abi import ffi
from tug._arrays import whole, word
from tug._errors import ArgumentTypeError, UsageError
from tug._library import check, lib

__all__ = ["CosineScheduler", "FactorScheduler", "LRScheduler", "MultiFactorScheduler", "PolyScheduler"]


def learning_rate(optimizer: str, num_update: int) -> float:
    """The rate of an optimizer's text at an update. UsageError: there is no such optimizer or number."""
    ret = ffi.new("double *")
    check(lib.tug_kvstore_learning_rate(ffi.new("char[]", word(optimizer, "optimizer")),
                                        whole(num_update, "num_update", 0, 2 ** 62), ret))
    return float(ret[0])


def number_text(value: Any, what: str) -> str:
    """A number as an optimizer's text has it."""
    if not isinstance(value, (bool, int, float, np.number, np.bool_)):
        raise ArgumentTypeError(f"{what} is a number, not {type(value).__name__}")
    return repr(float(value))


class LRScheduler:
    """The base of all schedulers. warmup_steps: for so many updates the rate moves from warmup_begin_lr to
    base_lr (warmup_mode "linear"), or stays at warmup_begin_lr ("constant"). A class of the program's own can compute
    rates, but cannot be given to an optimizer."""

    _name = ""
    _fields: Sequence[str] = ()

    def __init__(self, base_lr: float = 0.01, warmup_steps: int = 0, warmup_begin_lr: float = 0,
                 warmup_mode: str = "linear") -> None:
        self.base_lr = base_lr
        self.warmup_steps = warmup_steps
        self.warmup_begin_lr = warmup_begin_lr
        self.warmup_mode = warmup_mode

    def _begun(self) -> None:
        learning_rate("sgd:" + self.text(), 0)  # what is wrong is said now

    def text(self) -> str:
        """The part of an optimizer's text that says this."""
        if type(self).__call__ is not LRScheduler.__call__ or not self._name:
            raise UsageError(f"the lr_scheduler {type(self).__name__} is the program's own, and servers run no code of "
                             "workers: take FactorScheduler, MultiFactorScheduler, PolyScheduler or CosineScheduler, "
                             "or change learning_rate and call set_optimizer again")
        parts = [f"lr_scheduler={self._name}"]
        for field in (*self._fields, "base_lr", "warmup_steps", "warmup_begin_lr"):
            value = getattr(self, field)
            if field == "step" and isinstance(value, (list, tuple)):
                parts.append("step=" + "|".join(number_text(one, "step") for one in value))
            else:
                parts.append(f"{field}={number_text(value, field)}")
        if not isinstance(self.warmup_mode, str) or not self.warmup_mode.isalpha():
            raise UsageError(f"warmup_mode is 'linear' or 'constant', not {self.warmup_mode!r}")
        return ",".join([*parts, f"warmup_mode={self.warmup_mode}"])

    def __call__(self, num_update: int) -> float:
        """The learning rate at an update, which are counted from 1."""
        return learning_rate("sgd:" + self.text(), num_update)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.text()!r})"


class FactorScheduler(LRScheduler):
    """base_lr times `factor` for each `step` updates, but not below stop_factor_lr."""

    _name, _fields = "factor", ("step", "factor", "stop_factor_lr")

    def __init__(self, step: int, factor: float = 1, stop_factor_lr: float = 1e-8, base_lr: float = 0.01,
                 warmup_steps: int = 0, warmup_begin_lr: float = 0, warmup_mode: str = "linear") -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.step, self.factor, self.stop_factor_lr = step, factor, stop_factor_lr
        self._begun()


class MultiFactorScheduler(LRScheduler):
    """base_lr times `factor` behind each of the updates of the list `step`."""

    _name, _fields = "multifactor", ("step", "factor")

    def __init__(self, step: Sequence[int], factor: float = 1, base_lr: float = 0.01, warmup_steps: int = 0,
                 warmup_begin_lr: float = 0, warmup_mode: str = "linear") -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        if not isinstance(step, (list, tuple)) or not step:
            raise ArgumentTypeError(f"step of MultiFactorScheduler is a list of updates, not {step!r}")
        self.step, self.factor = list(step), factor
        self._begun()


class PolyScheduler(LRScheduler):
    """Falls from base_lr to final_lr at max_update, with (1 - n / max_update) to the power pwr."""

    _name, _fields = "poly", ("max_update", "pwr", "final_lr")

    def __init__(self, max_update: int, base_lr: float = 0.01, pwr: float = 2, final_lr: float = 0,
                 warmup_steps: int = 0, warmup_begin_lr: float = 0, warmup_mode: str = "linear") -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.max_update, self.pwr, self.final_lr = max_update, pwr, final_lr
        self._begun()


class CosineScheduler(LRScheduler):
    """Falls from base_lr to final_lr at max_update, along half a cosine."""

    _name, _fields = "cosine", ("max_update", "final_lr")

    def __init__(self, max_update: int, base_lr: float = 0.01, final_lr: float = 0, warmup_steps: int = 0,
                 warmup_begin_lr: float = 0, warmup_mode: str = "linear") -> None:
        super().__init__(base_lr, warmup_steps, warmup_begin_lr, warmup_mode)
        self.max_update, self.final_lr = max_update, final_lr
        self._begun()
