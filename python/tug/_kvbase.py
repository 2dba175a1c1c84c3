"""The base class of stores that a program writes itself and creates by name (mxnet.kvstore.KVStoreBase).

SPDX-License-Identifier: Apache-2.0
"""

from typing import Any, ClassVar, Dict, Type, TypeVar

from tug._errors import ArgumentTypeError, warn_of

C = TypeVar("C", bound="Type[KVStoreBase]")


class KVStoreBase:
    """The interface of a store. A program can derive a class from it and register the class, which kvstore.create then
    finds by name:

        @kvstore.KVStoreBase.register
        class MyStore(kvstore.KVStoreBase):
            ...
        kv = kvstore.create("mystore")

    A method that the class does not define raises NotImplementedError."""

    OPTIMIZER = "optimizer"
    kv_registry: ClassVar[Dict[str, Any]] = {}

    @staticmethod
    def register(klass: C) -> C:
        """Makes kvstore.create return an object of the class for the class's name, in upper or lower case. A class
        replaces an earlier one of the same name."""
        if not isinstance(klass, type):
            raise ArgumentTypeError(f"register takes a class, not {type(klass).__name__}")
        name = klass.__name__.lower()
        if name in KVStoreBase.kv_registry:
            warn_of(f"the store {name} was registered before; the new class replaces it")
        KVStoreBase.kv_registry[name] = klass
        return klass

    def _lacks(self, what: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} does not define {what}")

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Calls init with `value`, then pulls into `out`."""
        raise self._lacks("broadcast")

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Pushes `value`, then pulls into `out`, or into `value` if `out` is None."""
        raise self._lacks("pushpull")

    def set_optimizer(self, optimizer: Any) -> None:
        """Lets the store apply the optimizer."""
        raise self._lacks("set_optimizer")

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Returns whether the store has a capability, such as "optimizer"."""
        raise NotImplementedError("this class of stores does not define is_capable")

    def save_optimizer_states(self, fname: Any, dump_optimizer: bool = False) -> None:
        """Writes the optimizer's states."""
        raise self._lacks("save_optimizer_states")

    def load_optimizer_states(self, fname: Any) -> None:
        """Reads the optimizer's states."""
        raise self._lacks("load_optimizer_states")

    @property
    def type(self) -> str:
        """The name under which kvstore.create finds the class."""
        return type(self).__name__.lower()

    @property
    def rank(self) -> int:
        """The rank of this worker, from 0."""
        raise self._lacks("rank")

    @property
    def num_workers(self) -> int:
        """The number of workers."""
        raise self._lacks("num_workers")
