"""Optimizers of tug.kvstore: a name and numbers, applied by the store or its servers.

    kv.set_optimizer(tug.optimizer.create("adam", learning_rate=0.01, rescale_grad=1 / batch))

Names, numbers and formulas are mxnet.optimizer's (2.0); tug/kvstore.h lists them.

SPDX-License-Identifier: Apache-2.0
"""

from typing import Any, Dict

import numpy as np

from tug._errors import ArgumentTypeError, UsageError

__all__ = ["Optimizer", "create"]

_FOR_ALL = ("learning_rate", "wd", "rescale_grad", "clip_gradient", "multi_precision")
# The library's list, for attributes and sentences; defaults are the library's alone.
_TAKES = {
    "sgd": ("momentum",),
    "nag": ("momentum",),
    "adam": ("beta1", "beta2", "epsilon"),
    "adagrad": ("epsilon",),
    "adadelta": ("rho", "epsilon"),
    "rmsprop": ("rho", "momentum", "epsilon", "centered", "clip_weights"),
    "ftrl": ("lamda1", "beta"),
    "signum": ("momentum", "wd_lh"),
    "test": (),
}


class Optimizer:
    """An optimizer; its numbers are attributes, which count when it is given to set_optimizer (again)."""

    def __init__(self, name: str, **numbers: Any) -> None:
        if not isinstance(name, str) or name.lower() not in _TAKES:
            raise UsageError(f"there is no optimizer {name!r}; there are {', '.join(_TAKES)}")
        self.name = name.lower()
        self._numbers: Dict[str, Any] = {}
        takes = _TAKES[self.name]
        for field, value in numbers.items():
            if field not in _FOR_ALL and field not in takes:
                raise UsageError(f"optimizer {self.name} does not take {field}; it takes "
                                 f"{', '.join([*_FOR_ALL, *takes])}")
            self._set(field, value)

    def _set(self, field: str, value: Any) -> None:
        if value is None:  # the default
            self._numbers.pop(field, None)
        elif isinstance(value, (bool, int, float, np.number, np.bool_)):
            self._numbers[field] = float(value)
        else:
            raise ArgumentTypeError(f"{field} of optimizer {self.name} is a number, not {type(value).__name__}")

    def __getattr__(self, field: str) -> Any:
        if field.startswith("_") or field not in (*_FOR_ALL, *_TAKES[self.name]):
            raise AttributeError(f"optimizer {self.name} has no {field}")
        return self._numbers.get(field)

    def __setattr__(self, field: str, value: Any) -> None:
        if field in ("name", "_numbers"):
            object.__setattr__(self, field, value)
        elif field in (*_FOR_ALL, *_TAKES[self.name]):
            self._set(field, value)
        else:
            raise AttributeError(f"optimizer {self.name} has no {field}")

    def set_learning_rate(self, learning_rate: float) -> None:
        """As the attribute learning_rate."""
        self.learning_rate = learning_rate

    def text(self) -> str:
        """The text that tug_kvstore_set_optimizer takes."""
        numbers = ",".join(f"{field}={value!r}" for field, value in self._numbers.items())
        return f"{self.name}:{numbers}" if numbers else self.name

    def __repr__(self) -> str:
        return f"Optimizer({self.text()!r})"


def create(name: str, **numbers: Any) -> Optimizer:
    """An optimizer by its name: sgd, nag, adam, adagrad, adadelta, rmsprop, ftrl, signum or test, with
    learning_rate, wd, rescale_grad, clip_gradient, multi_precision and the numbers of its own."""
    return Optimizer(name, **numbers)
