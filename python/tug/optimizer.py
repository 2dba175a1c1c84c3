"""Optimizers of tug.kvstore. An optimizer is a name with numbers; the store, or on a cluster its servers, apply it.

    kv.set_optimizer(tug.optimizer.create("adam", learning_rate=0.01, rescale_grad=1 / batch))
    kv.set_optimizer(tug.optimizer.SGD(0.1, momentum=0.9))

Names, numbers and formulas are those of mxnet.optimizer (2.0); docs/from-mxnet.md lists them.

SPDX-License-Identifier: Apache-2.0
"""

import sys
from typing import Any, Dict, List, Optional, Tuple, Union

from tug._abi import ffi
from tug._errors import ArgumentTypeError, UsageError, warn_of
from tug._kvarrays import StoredRows
from tug._kvnames import of_module
from tug._library import lib, text_of
from tug.lr_scheduler import LRScheduler, learning_rate, number_text

__all__ = ["DCASGD", "FTML", "LAMB", "LARS", "NAG", "SGD", "SGLD", "AdaDelta", "AdaGrad", "Adam", "AdamW", "Adamax",
           "Ftrl", "Nadam", "Optimizer", "RMSProp", "Signum", "Test", "Updater", "create", "get_updater"]

Key = Union[int, str]

_NONE_AT_0 = ("clip_gradient", "clip_weights", "lower_bound", "upper_bound")
_FLAGS = ("multi_precision", "lazy_update", "centered", "correct_bias", "bias_correction")
_COUNTS = ("begin_num_update", "seed")
# Arguments that are not numbers and are stored, and arguments that only change MXNet's speed and are ignored.
_KEPT = ("lr_scheduler", "param_idx2name", "param_dict")
_IGNORED = ("aggregate_num", "use_fused_step")
_TAKE_RATE = ("factor", "multifactor")  # schedulers that use learning_rate in place of their base_lr
_PLAIN = ("gamma", "beta", "bias")  # lars does not scale keys whose names end in one of these


def _table() -> Dict[str, Dict[str, float]]:
    """Returns the library's list of optimizers: for each name its fields with their defaults, in the order of MXNet's
    arguments."""
    found: Dict[str, Dict[str, float]] = {}
    while True:
        text = lib.tug_kvstore_optimizer(len(found))
        if text == ffi.NULL:
            return found
        name, _, fields = text_of(text).partition(":")
        found[name] = {field: float(value) for field, value in (pair.split("=") for pair in fields.split(","))}


_TABLE = _table()


def _key_text(key: Any) -> str:
    if isinstance(key, str):
        return "'" + key.replace("'", "''") + "'"
    if isinstance(key, int) and not isinstance(key, bool):
        return str(key)
    raise ArgumentTypeError(f"the key of a multiplier must be an int or a str, not {type(key).__name__}")


def _name_of(given: Any) -> str:
    if not isinstance(given, str) or given.lower() not in _TABLE:
        raise UsageError(f"there is no optimizer {given!r}; there are {', '.join(_TABLE)}")
    return given.lower()


class Optimizer:
    """An optimizer, whose numbers are attributes. A store of one process reads them at each push. On a cluster a
    changed number takes effect when the optimizer is given to set_optimizer again.

    Further arguments: lr_scheduler, a scheduler of tug.lr_scheduler; param_idx2name, a dictionary of names for integer
    keys; param_dict, a dictionary of objects with lr_mult and wd_mult, by key."""

    def __init__(self, name: str, *in_order: Any, **given: Any) -> None:
        object.__setattr__(self, "name", _name_of(name))
        own = list(self._fields())
        own = own[:own.index("wd")]  # wd and the other common fields are accepted by name only
        if len(in_order) > len(own):
            raise ArgumentTypeError(f"optimizer {self.name} takes {len(own)} arguments in order, not {len(in_order)}")
        for field, value in zip(own, in_order):
            if field in given:
                raise ArgumentTypeError(f"optimizer {self.name} got {field} twice")
            given[field] = value
        if given.pop("sym", None) is not None:
            raise UsageError("sym is not supported: set multipliers with set_lr_mult and set_wd_mult")
        for field in _IGNORED:
            given.pop(field, None)
        kept = {field: given.pop(field, None) for field in _KEPT}
        for field, value in (("_numbers", {}), ("_local", None), ("_changes", 0), ("lr_mult", {}), ("wd_mult", {}),
                             ("idx2name", dict(kept["param_idx2name"] or {})),
                             ("param_dict", dict(kept["param_dict"] or {}))):
            object.__setattr__(self, field, value)
        self.lr_scheduler: Optional[LRScheduler] = kept["lr_scheduler"]
        for field, value in given.items():
            self._set(field, value)
        self._look_at_rate()
        learning_rate(self.text(), 0) # raises for wrong arguments

    def _fields(self) -> Dict[str, float]:
        return _TABLE[self.name]

    def _set(self, field: str, value: Any) -> None:
        if value is None:  # the default
            self._numbers.pop(field, None)
        else:
            self._numbers[field] = float(number_text(value, f"{field} of optimizer {self.name}"))

    def _look_at_rate(self) -> None:
        rate, schedule = self._numbers.get("learning_rate"), self.lr_scheduler
        if schedule is not None and rate not in (None, schedule.base_lr) and schedule._name not in _TAKE_RATE:
            warn_of(f"learning_rate={rate:g} has no effect, as in MXNet: {type(schedule).__name__} begins with "
                    f"its base_lr={schedule.base_lr:g}")

    def __getattr__(self, field: str) -> Any:
        if "name" not in self.__dict__:  # a copy under construction, whose fields are not set yet
            raise AttributeError(field)
        if field.startswith("_") or field not in self._fields():
            raise AttributeError(f"optimizer {self.name} has no {field}")
        value = self._numbers.get(field, self._fields()[field])
        if field in _NONE_AT_0 and value == 0:
            return None
        return bool(value) if field in _FLAGS else int(value) if field in _COUNTS else value

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_local": None}  # a copy belongs to no store

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __setattr__(self, field: str, value: Any) -> None:
        object.__setattr__(self, "_changes", self._changes + 1)
        if field == "lr_scheduler":
            if value is not None and not isinstance(value, LRScheduler):
                raise ArgumentTypeError("lr_scheduler must be a scheduler of tug.kvstore.lr_scheduler, not "
                                        f"{type(value).__name__}")
            object.__setattr__(self, field, value)
        elif field in ("idx2name", "lr_mult", "wd_mult", "param_dict", "_local"):
            object.__setattr__(self, field, value)
        elif field in ("lr", "learning_rate"):
            self.set_learning_rate(value)
        elif field in self._fields():
            self._set(field, value)
        else:
            raise AttributeError(f"optimizer {self.name} has no {field}")

    @property
    def lr(self) -> float:
        """The learning rate that was set, without the scheduler."""
        return float(self._numbers.get("learning_rate", self._fields()["learning_rate"]))

    @property
    def learning_rate(self) -> float:
        """The learning rate; with a scheduler, the one at update num_update."""
        return self.lr if self.lr_scheduler is None else learning_rate(self.text(), self.num_update)

    @property
    def num_update(self) -> int:
        """The number of updates of the key with the most updates, plus begin_num_update. On a cluster the servers count
        updates, and this stays begin_num_update."""
        store = self._local() if self._local is not None else None
        return int(self.begin_num_update if store is None else store._num_update())

    def set_learning_rate(self, lr: float) -> None:
        """Sets the learning rate. Raises UsageError if there is a scheduler."""
        if self.lr_scheduler is not None:
            raise UsageError("the learning rate comes from lr_scheduler: set lr_scheduler to None first")
        object.__setattr__(self, "_changes", self._changes + 1)
        self._set("learning_rate", lr)

    def set_lr_mult(self, args_lr_mult: Dict[Key, float]) -> None:
        """Sets factors of the learning rate by key, or by the key's name in param_idx2name. Replaces all earlier
        factors."""
        self.lr_mult = dict(args_lr_mult)
        learning_rate(self.text(), 0)

    def set_wd_mult(self, args_wd_mult: Dict[Key, float]) -> None:
        """Sets factors of wd by key, or by the key's name in param_idx2name. Replaces all earlier factors."""
        self.wd_mult = dict(args_wd_mult)
        learning_rate(self.text(), 0)

    def _multipliers(self) -> List[Tuple[str, Key, Any]]:
        """Returns the multipliers as (field, key, value). A key in param_idx2name gets them under its number and under
        its name, because a store uses either numbers or names."""
        found: Dict[Tuple[str, Key], Any] = {}
        for field, given in (("lr_mult", self.lr_mult), ("wd_mult", self.wd_mult)):
            for key, value in given.items():
                found[field, key] = value
            for index, name in self.idx2name.items():
                for one, other in ((index, name), (name, index)):
                    if one not in given and other in given:
                        found[field, one] = given[other]
            for index, parameter in self.param_dict.items():
                for key in (index, self.idx2name.get(index, index)):
                    found[field, key] = getattr(parameter, field)
        if self.name == "lars":
            for index, name in self.idx2name.items():
                if name.endswith(_PLAIN):
                    found["layer", index] = 0
        return [(field, key, value) for (field, key), value in found.items()]

    def text(self) -> str:
        """Returns the optimizer as text for tug_kvstore_set_optimizer."""
        numbers, schedule = dict(self._numbers), self.lr_scheduler
        parts = []
        if schedule is not None:
            parts.append(schedule.text())
            if schedule._name not in _TAKE_RATE:
                numbers.pop("learning_rate", None)
        parts = [f"{field}={value!r}" for field, value in numbers.items()] + parts
        parts += [f"{field}({_key_text(key)})={number_text(value, field)}" for field, key, value in self._multipliers()]
        return ":".join([self.name, ",".join(parts)] if parts else [self.name])

    def __repr__(self) -> str:
        return f"Optimizer({self.text()!r})"

    @staticmethod
    def register(klass: Any) -> Any:
        """Raises UsageError, because servers run no code of workers."""
        raise UsageError(f"an optimizer of the program's own, such as {getattr(klass, '__name__', klass)}, cannot be "
                         "registered: use set_updater for a store of one process, or tug.kvserver.run(updater) in the "
                         "servers' program")

    @staticmethod
    def create_optimizer(name: str, **numbers: Any) -> "Optimizer":
        """Does the same as create()."""
        return create(name, **numbers)


register = Optimizer.register


class _Named(Optimizer):
    def __init__(self, *in_order: Any, **numbers: Any) -> None:
        super().__init__(next(c.__name__ for c in type(self).__mro__ if c.__name__.lower() in _TABLE), *in_order,
                         **numbers)


class SGD(_Named):
    """sgd(learning_rate=0.1, momentum=0, lazy_update=True): gradient descent with momentum."""


class NAG(_Named):
    """nag(learning_rate=0.1, momentum=0.9): Nesterov's accelerated gradient."""


class Adam(_Named):
    """adam(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, lazy_update=True): Kingma & Ba 2014."""


class AdaGrad(_Named):
    """adagrad(learning_rate=0.01, epsilon=1e-6): Duchi, Hazan & Singer 2011."""


class AdaDelta(_Named):
    """adadelta(learning_rate=1, rho=0.9, epsilon=1e-6): Zeiler 2012."""


class RMSProp(_Named):
    """rmsprop(learning_rate=0.001, rho=0.9, momentum=0.9, epsilon=1e-8, centered=False, clip_weights=None): Tieleman &
    Hinton 2012, or centred as by Graves 2013."""


class Ftrl(_Named):
    """ftrl(learning_rate=0.1, lamda1=0.01, beta=1): FTRL-proximal."""


class Signum(_Named):
    """signum(learning_rate=0.01, momentum=0.9, wd_lh=0): steps have the sign of the momentum."""


class AdamW(_Named):
    """adamw(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-6, correct_bias=True): Adam with decoupled weight
    decay."""


class LAMB(_Named):
    """lamb(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-6, lower_bound=None, upper_bound=None,
    bias_correction=True): Adam with a rate for each array."""


class LARS(_Named):
    """lars(learning_rate=0.1, momentum=0, eta=0.001, epsilon=1e-8, lazy_update=True): gradient descent with a rate for
    each array."""


class FTML(_Named):
    """ftml(learning_rate=0.0025, beta1=0.6, beta2=0.999, epsilon=1e-8): follow the moving leader."""


class Nadam(_Named):
    """nadam(learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8, schedule_decay=0.004): Adam with Nesterov's
    momentum."""


class Adamax(_Named):
    """adamax(learning_rate=0.002, beta1=0.9, beta2=0.999, epsilon=1e-8): Adam with a maximum norm."""


class DCASGD(_Named):
    """dcasgd(learning_rate=0.1, momentum=0, lamda=0.04): gradient descent with delay compensation."""


class SGLD(_Named):
    """sgld(learning_rate=0.1, seed=0): stochastic gradient Langevin dynamics."""


class Test(_Named):
    """test(learning_rate=-1): adds rescale_grad times the gradient."""

    __test__ = False  # pytest collects classes of such names


def create(name: str, **numbers: Any) -> Optimizer:
    """Returns the optimizer of this name, in upper or lower case: sgd, nag, adam, adagrad, adadelta, rmsprop, ftrl,
    signum, adamw, lamb, lars, ftml, nadam, adamax, dcasgd, sgld or test. numbers: learning_rate, wd, rescale_grad,
    clip_gradient, multi_precision, begin_num_update, lr_scheduler, param_idx2name, and those that only this optimizer
    has."""
    return Optimizer(name, **numbers)


class Updater:
    """Applies an optimizer to arrays of the program's own: updater(index, grad, weight) changes `weight` in place. The
    optimizer's state is kept for each index."""

    def __init__(self, optimizer: Optimizer) -> None:
        from tug._kvstore import KVStore  # pylint: disable=import-outside-toplevel,cyclic-import

        if not isinstance(optimizer, Optimizer):
            raise ArgumentTypeError(f"an updater needs an optimizer, not {type(optimizer).__name__}")
        self.optimizer = optimizer
        self._store = KVStore("local")
        self._known: Dict[Key, bool] = {}

    def __call__(self, index: Any, grad: Any, weight: Any) -> None:
        if isinstance(index, (list, tuple)):
            for one in zip(index, grad, weight):
                self(*one)
            return
        # the array that an updater of a store is given
        array = weight.data if isinstance(weight, StoredRows) else weight
        if index in self._known:
            self._store.set_updater(None)  # without an updater a push replaces the array
            self._store.push(index, array)
        else:
            self._store.init(index, array)
            self._known[index] = True
        self._store.set_optimizer(self.optimizer)
        self._store.push(index, grad)
        self._store.pull(index, out=array)


def get_updater(optimizer: Optimizer) -> Updater:
    """Returns an Updater with this optimizer, for set_updater of a store of one process or for arrays of the program's
    own."""
    return Updater(optimizer)


def __getattr__(name: str) -> Any:
    if name in ("AdaBelief", "LANS", "LBSGD", "GroupAdaGrad"):
        raise AttributeError(f"tug.optimizer has no {name}; it has {', '.join(_TABLE)}, and an updater of the "
                             "program's own can have any formula")
    raise of_module(sys.modules[__name__], name)
