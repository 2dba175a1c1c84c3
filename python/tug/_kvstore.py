"""Stores of tug.kvstore: the methods of mxnet.kvstore on top of tug/kvstore.h.

SPDX-License-Identifier: Apache-2.0
"""

import sys
import threading
import weakref
from types import TracebackType
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Type, Union

import numpy as np

from tug._abi import ffi
from tug._arrays import Shape, check_whole, whole, word
from tug._errors import ArgumentTypeError, ClosedError, Error, UsageError
from tug._exit import at_exit
from tug._kvarrays import CArray, Out, RowSparse, array_of, is_array, of_c, refuse_returned, to_push, wrapper_of, \
    written_back
from tug._kvbase import KVStoreBase
from tug._kvnames import OF_STORE, no_such
from tug._library import Handle, callback_of_program, check, lib, opened, text_of
from tug.optimizer import Optimizer

Key = Union[int, str]
Updater = Callable[[Key, Any, Any], Any]

_open: "weakref.WeakSet[KVStore]" = weakref.WeakSet()


class _KeyOf(NamedTuple):
    """The shape of a key's array, whether it is sparse, and the function that wraps it for updaters."""

    shape: Shape
    sparse: bool
    wrap: Callable[[Any], Any]  # wraps the key's arrays for updaters


def _name(key: Key) -> str:
    return f"key {key!r}"


def _key(given: Any) -> Key:
    if isinstance(given, str):
        return given
    if isinstance(given, (int, np.integer)) and not isinstance(given, (bool, np.bool_)):
        return int(given)
    raise ArgumentTypeError(f"a key is an int or a str, not {type(given).__name__}")


def _keys(given: Any) -> List[Key]:
    if isinstance(given, (list, tuple)):
        return [_key(k) for k in given]
    return [_key(given)]


def _groups(given_keys: Any, values: Any, what: str) -> List[Tuple[Key, List[Any]]]:
    """Returns each key with its list of arrays. A single key has an array or a list of arrays; a list of keys has a
    list with an array or a list of arrays for each key."""
    if values is None:
        raise UsageError(f"{what} is missing")
    keys = _keys(given_keys)
    if not isinstance(given_keys, (list, tuple)):
        values = [values]
    elif is_array(values) or not isinstance(values, (list, tuple)) or len(values) != len(keys):
        n = len(values) if isinstance(values, (list, tuple)) else 1
        raise UsageError(f"{what}: {len(keys)} keys need as many arrays or lists of arrays, but {n} were given")
    groups = []
    for key, value in zip(keys, values):
        arrays = list(value) if isinstance(value, (list, tuple)) and not is_array(value) else [value]
        if not arrays:
            raise UsageError(f"{what}: {_name(key)} has no array")
        groups.append((key, arrays))
    return groups


class _Items:
    """An array of struct tug_kvstore_item, together with the arrays to which it points."""

    def __init__(self, pairs: Sequence[Tuple[Key, CArray]]) -> None:
        self.n = len(pairs)
        self.c = ffi.new("struct tug_kvstore_item[]", max(self.n, 1))
        self._kept: List[Any] = []
        for item, (key, array) in zip(self.c, pairs):
            item.array = array.c
            self._kept.append(array)
            if isinstance(key, str):
                name = ffi.new("char[]", word(key, "key"))
                self._kept.append(name)
                item.key.name = name
            else:
                item.key.number = whole(key, "key", -2 ** 63, 2 ** 63 - 1)


def _copied(merged: Any) -> Any:
    # Returns a copy: the next push overwrites the library's memory, and an updater may keep the array.
    if isinstance(merged, RowSparse):
        return RowSparse(merged.indices.copy(), merged.data.copy(), merged.shape)
    return merged.copy()


def _memory_of(stored: Any) -> "weakref.ReferenceType[Any]":
    # A weak reference to the array that owns the memory; it is alive as long as any view of it.
    array = stored.data if isinstance(stored, RowSparse) else stored
    while isinstance(array.base, np.ndarray):
        array = array.base
    return weakref.ref(array)


def call_updater(updater: Updater, c_key: Any, merged: Any, stored: Any, shape: Optional[Shape],
                 wrap: Callable[[Any], Any], views: Optional[List[Any]] = None) -> None:
    """Calls the program's updater with arrays around the library's `merged` and `stored`. A weak reference to the array
    around the store's memory is appended to `views`. shape: of the key's array; None in a server, which has only a part
    of it."""
    key: Key = text_of(c_key.name) if c_key.name != ffi.NULL else int(c_key.number)
    rows, width = int(stored.rows), int(stored.width)
    if shape is None:  # in a server
        shape = (rows,) if width == 1 else (rows, width)
    array = of_c(stored, shape, True)
    if views is not None:
        views.append(_memory_of(array))
    wrapped = wrap(array)
    refuse_returned(updater(key, wrap(_copied(of_c(merged, shape, False))), wrapped), wrapped, array, _name(key))
    written_back(wrapped, array, _name(key))


class KVStore(KVStoreBase):
    """A store of arrays under keys, with the methods of mxnet.kvstore.KVStore. kvstore.create() makes it.

    A key is an int or a str. A list of keys needs a list with an array, or a list of arrays, for each key. An array is
    a numpy array, a torch tensor, a RowSparse, or an object of a class that the program has registered, with elements
    of float16, float32, float64, int32 or int64. Pushed arrays are read during the call; arrays that are pulled into
    are written in place. Several threads may use a store; their calls run one at a time. Methods raise UsageError for a
    key that init has not made, a wrong shape or type of key, or a call from an updater; ArgumentTypeError; and
    SystemFailure if a server has died or a wait has timed out."""

    def __init__(self, name: str) -> None:
        kept = ffi.new("char[]", word(name, "name"))
        if "dist" in name.lower():
            _check_first()
        o = ffi.new("struct tug_kvstore_options *", {"type": kept})
        found = opened(lib.tug_kvstore_open, lib.tug_kvstore_close, o)
        self._handle: Handle = Handle("store", found)
        self._known: Dict[Key, _KeyOf] = {}
        self._updater: Optional[Updater] = None
        self._callback: Any = None
        self._raised: Optional[BaseException] = None
        self._turn = threading.RLock()  # the library's stores are used by one thread at a time
        # the optimizer of a store of one process; if a program changes the optimizer's numbers, the next push applies
        # them
        self._given: Optional[Optimizer] = None
        self._changes = 0
        self._updating: Optional[int] = None  # the thread in which an updater runs at present
        self._views: List[Any] = []  # weak references to arrays around the store's memory that an updater may have kept
        self._at_exit = True
        self._type: str = text_of(lib.tug_kvstore_type(found))
        self._dist: bool = bool(lib.tug_kvstore_is_dist(found))
        self._rank = int(lib.tug_kvstore_rank(found))
        self._workers = int(lib.tug_kvstore_workers(found))
        self._recovers = bool(lib.tug_kvstore_recovers(found))
        _open.add(self)

    # ---------------------------------------------------------------- closing

    def close(self) -> None:
        """Waits for all pushes and, on a cluster, for the other workers; then leaves the cluster. Raises the error of a
        failed push. If an updater has kept views of `stored`, they stay readable, and the store's memory is freed only
        at the end of the process. A second call does nothing."""
        self._check_not_updating()
        if self._handle._begin_closing():
            _open.discard(self)
            if any(view() is not None for view in self._views):
                return
            check(lib.tug_kvstore_close(self._handle._c))

    def __enter__(self) -> "KVStore":
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], _error: Optional[BaseException],
                 _trace: Optional[TracebackType]) -> None:
        if kind is not None:
            self.barrier_before_exit = False  # a worker that has failed does not wait for the others
        try:
            self.close()
        except Error:
            if kind is None:  # otherwise the exception of the `with` block is raised
                raise

    def __repr__(self) -> str:
        return f"KVStore({self._type!r}, rank {self._rank} of {self._workers})"

    # ---------------------------------------------------------------- properties

    def __getattr__(self, name: str) -> Any:
        raise no_such("a store", name, dir(type(self)), OF_STORE)

    @property
    def type(self) -> str:
        """The name that create() was called with, in lower case, such as "dist_sync"."""
        return self._type

    @property
    def rank(self) -> int:
        """The rank of this worker, from 0."""
        return self._rank

    @property
    def num_workers(self) -> int:
        """The number of workers."""
        return self._workers

    @property
    def is_recovery(self) -> bool:
        """Whether this worker replaces one that died."""
        return self._recovers

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Returns whether a store can run an "optimizer", which every store can."""
        if not isinstance(capability, str) or capability.lower() != "optimizer":
            raise UsageError(f"there is no capability {capability!r}; the only one is 'optimizer'")
        return True

    # ---------------------------------------------------------------- arrays

    def _known_key(self, key: Key) -> _KeyOf:
        found = self._known.get(key)
        if found is None:
            other = next(iter(self._known), None)
            if other is not None and isinstance(other, str) != isinstance(key, str):
                raise UsageError(f"{_name(key)} is {'a str' if isinstance(key, str) else 'an int'}, but the keys of "
                                 f"this store are {'str' if isinstance(other, str) else 'int'}")
            if self.num_workers > 1:
                raise UsageError(f"{_name(key)} has not been made in this worker (rank {self.rank}): every worker "
                                 "calls init before push and pull, and rank 0 sets the values")
            raise UsageError(f"{_name(key)} has not been made: call init before push and pull")
        return found

    def _check_shape(self, key: Key, shape: Shape) -> None:
        known = self._known_key(key)
        if shape != known.shape:
            raise UsageError(f"{_name(key)} has the shape {known.shape}, not {shape}")

    def init(self, key: Any, value: Any) -> None:
        """Creates a key with its array, or a list of keys with theirs. On a cluster, the arrays of rank 0 are used."""
        self._check_open()
        for one, arrays in _groups(key, value, "value"):
            if len(arrays) != 1:
                raise UsageError(f"value: init takes one array for {_name(one)}, not {len(arrays)}")
            c = to_push(arrays[0], "value")
            items = _Items([(one, c)])
            self._run(lib.tug_kvstore_init, items.c, items.n)
            self._known[one] = _KeyOf(c.shape, bool(c.c.sparse), wrapper_of(arrays[0]))

    def _pushed(self, key: Any, value: Any) -> _Items:
        pairs = []
        for one, arrays in _groups(key, value, "value"):
            for array in arrays:
                self._known_key(one)
                c = to_push(array, "value")
                self._check_shape(one, c.shape)
                pairs.append((one, c))
        return _Items(pairs)

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Adds up the arrays of each key, in a synchronous store over all workers, and lets the optimizer or updater
        change the key's stored array with the sum. Without either, the sum replaces the stored array."""
        self._check_open()
        if self._given is not None and self._given._changes != self._changes:
            self.set_optimizer(self._given)
        items = self._pushed(key, value)
        self._run(lib.tug_kvstore_push, items.c, items.n, whole(priority, "priority", -2 ** 31, 2 ** 31 - 1))

    def _outs(self, key: Any, out: Any) -> List[Tuple[Key, Out]]:
        outs = []
        for one, arrays in _groups(key, out, "out"):
            for array in arrays:
                self._known_key(one)
                o = Out(array, "out")
                self._check_shape(one, tuple(o.array.shape))
                outs.append((one, o))
        return outs

    def _pull(self, function: Any, outs: List[Tuple[Key, Out]], priority: int) -> None:
        items = _Items([(key, o.c) for key, o in outs])
        self._run(function, items.c, items.n, whole(priority, "priority", -2 ** 31, 2 ** 31 - 1))
        for _, o in outs:
            o.finish()

    def pull(self, key: Any, out: Any = None, priority: int = 0, ignore_sparse: bool = True) -> None:
        """Pulls the arrays of keys into `out`, in place. If `out` has a RowSparse, it is left unchanged, unless
        ignore_sparse is False: then it gets the rows that are not all zero."""
        self._check_open()
        outs = self._outs(key, out)
        if ignore_sparse:
            outs = [(one, o) for one, o in outs if not o.sparse]
        for _, o in outs:
            if o.sparse:
                o.take_all()
        self._pull(lib.tug_kvstore_pull, outs, priority)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Pushes, then pulls into `out`, or into `value` if `out` is None."""
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority, ignore_sparse=False)

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Calls init with `value`, then pulls into `out`."""
        self.init(key, value)
        self.pull(key, out, priority, ignore_sparse=False)

    def row_sparse_pull(self, key: Any, out: Any = None, priority: int = 0, row_ids: Any = None) -> None:
        """Pulls the rows `row_ids` of sparse keys into the RowSparse arrays of `out`, whose rows they replace. row_ids:
        an array of any shape for all of `out`, or a list with one for each."""
        self._check_open()
        if row_ids is None:
            raise UsageError("row_ids is missing")
        outs = self._outs(key, out)
        ids = _row_ids(row_ids, _groups(key, out, "out"))
        for (one, o), rows in zip(outs, ids):
            if not o.sparse:
                raise UsageError(f"{_name(one)}: rows are pulled into a RowSparse, but out is dense")
            if not self._known_key(one).sparse:
                raise UsageError(f"{_name(one)} is dense: its rows cannot be pulled")
            if rows.size > 0 and not 0 <= rows[0] <= rows[-1] < o.array.shape[0]:
                raise UsageError(f"{_name(one)} has {o.array.shape[0]} rows, numbered from 0, but row_ids go from "
                                 f"{rows[0]} to {rows[-1]}")
            o.take_rows(rows)
        self._pull(lib.tug_kvstore_pull_rows, outs, priority)

    def rounds(self, key: Key) -> int:
        """Returns the number of applied pushes to the key; in a synchronous store, the number of rounds of all
        workers."""
        self._check_open()
        self._known_key(key)
        n = ffi.new("uint64_t *")
        items = _Items([(key, CArray((1,), np.dtype(np.float32), "key"))])
        self._run(lib.tug_kvstore_rounds, ffi.addressof(items.c[0], "key"), n)
        return int(n[0])

    def wait(self) -> None:
        """Waits until all pushes are done; raises the error of the first that failed."""
        self._check_open()
        self._run(lib.tug_kvstore_wait)

    # ----------------------------------- the effect of pushes: updaters, optimizers and compression

    def set_updater(self, updater: Optional[Updater]) -> None:
        """Makes the store call updater(key, recv, stored) for each push to a key; the function changes `stored` in
        place. Only stores of one process have updaters; on a cluster the servers' program sets one (tug.kvserver)."""
        self._check_open()
        if updater is not None and not callable(updater):
            raise ArgumentTypeError(f"an updater is a function, not {type(updater).__name__}")
        if updater is None:
            callback = ffi.cast("tug_updater_fn", 0)
        else:
            me = weakref.ref(self)  # otherwise the store and its callback would keep each other alive
            callback = ffi.callback(
                "tug_updater_fn", lambda _ctx, key, merged, stored: _updated(me, key, merged, stored), error=-5)
        with self._turn:
            self._run_now(lib.tug_kvstore_set_updater, callback, ffi.NULL)
            self._updater, self._callback, self._given = updater, callback, None

    _set_updater = set_updater

    def set_optimizer(self, optimizer: Union[Optimizer, str]) -> None:
        """Sets the optimizer, an object of tug.optimizer.create() or its text. On a cluster the servers apply it, and
        every worker must set it."""
        self._check_open()
        if isinstance(optimizer, str):
            text = optimizer
        elif isinstance(optimizer, Optimizer):
            text = optimizer.text()
        elif isinstance(optimizer, (bytes, bytearray, memoryview)):
            raise ArgumentTypeError("a pickled optimizer is refused, because unpickling it would run a worker's code "
                                    "on the servers: give set_optimizer the optimizer that tug.optimizer.create makes")
        else:
            raise ArgumentTypeError("an optimizer must be made by tug.optimizer.create, because only its name and "
                                    f"numbers are sent to the servers; this is a {type(optimizer).__name__}")
        with self._turn:
            self._run_now(lib.tug_kvstore_set_optimizer, ffi.new("char[]", word(text, "optimizer")))
            self._updater = None
        self._given = None
        if isinstance(optimizer, Optimizer) and not self._dist:
            object.__setattr__(optimizer, "_local", weakref.ref(self))
            self._given, self._changes = optimizer, optimizer._changes

    def _num_update(self) -> int:
        """Returns the largest number of updates that the optimizer has made to a key."""
        n = ffi.new("uint64_t *")
        self._run(lib.tug_kvstore_num_update, n)
        return int(n[0])

    def set_gradient_compression(self, compression_params: Dict[str, Any]) -> None:
        """Compresses dense float32 arrays that are pushed from now on. compression_params: {"type": "2bit" or "1bit",
        "threshold": 0.5}."""
        self._check_open()
        if not isinstance(compression_params, dict):
            raise ArgumentTypeError(f"compression_params is a dict, not {type(compression_params).__name__}")
        rest = {k: v for k, v in compression_params.items() if k not in ("type", "threshold")}
        if rest or "type" not in compression_params:
            raise UsageError("compression_params takes 'type', which must be given, and 'threshold'" +
                             (f", but not {', '.join(map(str, rest))}" if rest else ""))
        threshold = compression_params.get("threshold", 0.5)
        try:
            number = float(threshold)
        except (TypeError, ValueError) as error:
            raise ArgumentTypeError(f"threshold is a number, not {threshold!r}") from error
        if number != number:
            raise UsageError("threshold is a number, not nan")
        name = ffi.new("char[]", word(compression_params["type"], "type"))
        self._run(lib.tug_kvstore_set_compression, name, number)

    def save_optimizer_states(self, fname: Any, dump_optimizer: bool = False) -> None:
        """Writes the state of the optimizer, on a cluster the state of all servers, to a file."""
        self._check_open()
        if dump_optimizer:
            raise UsageError("dump_optimizer is not supported, because a file of states does not have the optimizer: "
                             "leave it out, and call set_optimizer before load_optimizer_states")
        self._run(lib.tug_kvstore_save_states, ffi.new("char[]", word(fname, "fname")))

    def load_optimizer_states(self, fname: Any) -> None:
        """Reads a file of save_optimizer_states. The keys and the optimizer must have been set before. Raises DataError
        if the file is damaged or has other keys, UsageError if it is from another optimizer or number of servers."""
        self._check_open()
        self._run(lib.tug_kvstore_load_states, ffi.new("char[]", word(fname, "fname")))

    # ---------------------------------------------------------------- other workers and servers

    def barrier(self) -> None:
        """Waits until all workers have called it."""
        self._check_open()
        self._run(lib.tug_kvstore_barrier)

    _barrier = barrier

    @property
    def barrier_before_exit(self) -> bool:
        """Whether close() waits for the other workers; can be set."""
        return self._at_exit

    @barrier_before_exit.setter
    def barrier_before_exit(self, wait: bool) -> None:
        self._check_open()
        self._at_exit = bool(wait)
        lib.tug_kvstore_barrier_before_exit(self._handle._c, self._at_exit)

    def get_num_dead_node(self, node_id: int, timeout: int = 60) -> int:
        """Returns the number of nodes of a group that have died, or left without the last barrier, and were not
        replaced. node_id: 1 for the scheduler, 2 for servers, 4 for workers, or a sum of these. timeout has no effect:
        the scheduler's TUG_DEAD_SECONDS decides when a node is dead. A store of one process returns 0."""
        self._check_open()
        whole(timeout, "timeout", 0, 2 ** 31)
        if not self._dist:
            return 0
        n = ffi.new("uint32_t *")
        self._run(lib.tug_kvstore_dead, whole(node_id, "node_id", 1, 7), n)
        return int(n[0])

    def _send_command_to_servers(self, head: int, body: Any) -> None:
        """Sends a command to the controllers of all servers (tug.kvserver), and waits until each has executed it."""
        self._check_open()
        raw = word(body, "body") if not isinstance(body, bytes) else body
        self._run(lib.tug_kvstore_command, whole(head, "head", -2 ** 31, 2 ** 31 - 1), raw, len(raw))

    def _check_not_updating(self) -> None:
        if self._updating == threading.get_ident():
            raise UsageError("an updater must not use its store, which is in the middle of a push: only change "
                             "`stored` in it, and use the store after the push has returned")

    def _check_open(self) -> None:
        self._handle._check_process()
        self._check_not_updating()
        if self._handle._closing:
            raise ClosedError("this store is closed")

    def _run(self, function: Any, *args: Any) -> None:
        """Calls function(handle, *args), in which an updater may run, and raises the updater's exception."""
        with self._turn:
            self._run_now(function, *args)

    def _run_now(self, function: Any, *args: Any) -> None:
        self._raised = None
        try:
            self._handle._run(function, *args)
        except BaseException as error:
            raised, self._raised = self._raised, None
            if raised is not None:
                raise raised from None
            raise error


def _check_first() -> None:
    if any(store._dist and not store._handle.closed for store in _open):
        raise UsageError("this process has already joined its cluster with an earlier store: use that store")


def _updated(me: "weakref.ReferenceType[KVStore]", key: Any, merged: Any, stored: Any) -> int:
    store = me()
    if store is None or store._updater is None:
        return -5
    store._updating = threading.get_ident()
    try:
        with callback_of_program():
            name: Key = text_of(key.name) if key.name != ffi.NULL else int(key.number)
            known = store._known[name]
            call_updater(store._updater, key, merged, stored, known.shape, known.wrap, store._views)
    except BaseException as error:  # pylint: disable=broad-exception-caught
        store._raised = error
        return -1
    finally:
        store._updating = None
        store._views = [view for view in store._views if view() is not None]
    return 0


def _ids(given: Any) -> Any:
    if is_array(given):
        given = array_of(given, "row_ids")
    array = np.asarray(given).reshape(-1)
    if array.size > 0 and array.dtype.kind not in "iuf":
        raise ArgumentTypeError(f"row_ids: must be numbers, not {array.dtype}")
    check_whole(array, "row_ids")
    return np.unique(array).astype(np.int64)


def _is_list_of_lists(given: Any) -> bool:
    return isinstance(given, (list, tuple)) and any(
        is_array(g) and np.ndim(array_of(g, "row_ids")) > 0 or isinstance(g, (list, tuple)) for g in given)


def _row_ids(given: Any, groups: List[Tuple[Key, List[Any]]]) -> List[Any]:
    """Returns the row numbers for each array of each key, ascending and without repetition."""
    n = sum(len(arrays) for _, arrays in groups)
    if not _is_list_of_lists(given):
        return [_ids(given)] * n
    found: List[Any] = []
    if len(groups) == 1 and len(given) == len(groups[0][1]):
        found = [_ids(g) for g in given]
    elif len(given) == len(groups):
        for g, (_, arrays) in zip(given, groups):
            each = [_ids(x) for x in g] if _is_list_of_lists(g) else [_ids(g)] * len(arrays)
            found += each
    elif len(given) == 1:
        return [_ids(given[0])] * n
    if len(found) != n:
        raise UsageError(f"row_ids: there are {len(given)} lists for {n} arrays of {len(groups)} keys")
    return found


def create(name: str = "local") -> KVStore:
    """Makes a store: "local", "device", "dist_sync", "dist_async", "dist_sync_device", or another name that
    mxnet.kvstore has for one of these; or an object of the class that was registered under this name
    (KVStoreBase.register). The stores "dist_..." join the cluster that DMLC_* in the environment describes, as `tug
    launch` sets it."""
    if not isinstance(name, str):
        raise ArgumentTypeError(f"the name of a type of store is a str, not {type(name).__name__}")
    own = KVStoreBase.kv_registry.get(name.lower())
    if own is not None:
        store: KVStore = own()
        return store
    try:
        return KVStore(name)
    except Error as error:
        raise error.with_traceback(None) from None  # the frames of the package would precede the sentence


# If the program of a worker ends with an exception, the worker must not wait at the last barrier. Its store is
# therefore not closed: the connection breaks, and the scheduler declares the worker dead.
_failed = False
_hook = sys.excepthook


def _note(kind: Type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
    global _failed  # pylint: disable=global-statement
    _failed = True
    _hook(kind, error, trace)


sys.excepthook = _note


@at_exit
def _close_all() -> Optional[str]:
    failed = None
    for store in list(_open):
        try:
            if not (_failed and store._dist):
                store.close()
        except Error as error:  # perhaps a push that nothing waited for has failed
            failed = f"tug.kvstore: {error}"
    return failed
