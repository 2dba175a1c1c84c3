"""Clients: a client is a process's membership in a cluster, or holds a cluster inside the process.

SPDX-License-Identifier: Apache-2.0
"""

import collections
import os
import threading
import time
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, List, Optional, Sequence, Set, Tuple, Union

from tug import _table
from tug._abi import ffi
from tug._arrays import Path, choice, seconds, whole, word
from tug._errors import ArgumentTypeError, Error, Timeout, UsageError, warn_of
from tug._exit import at_exit
from tug._library import Handle, check, deadline_of, lib, opened, text_of
from tug._request import Flight, reap, wait_for

if TYPE_CHECKING:
    from tug._communicator import Communicator
    from tug._table import Setting, Table

SAVE_MODES = {"checkpoint": "TUG_CHECKPOINT", "base": "TUG_BASE", "delta": "TUG_DELTA", "day": "TUG_DAY"}
TABLES_MAX: int = lib.TUG_TABLES_MAX
Known = Tuple[str, int, int, int]  # a table's name, number, pull width and push width

_open: "weakref.WeakSet[Client]" = weakref.WeakSet()


def _usual_wait() -> float:
    """Returns the limit of waits in seconds: TUG_WAIT_SECONDS, or 600. The library reads the variable itself."""
    try:
        return float(os.environ.get("TUG_WAIT_SECONDS", "")) or 600.0
    except ValueError:
        return 600.0


class Client(Handle):
    """A worker of a cluster (tug.connect), or a cluster inside this process (tug.local).

    Any thread may use it. Close the client, or use it as a context manager, so that it leaves in order: the cluster
    counts a worker that ends without leaving as dead. Calls of a client and of its tables raise UsageError for a wrong
    argument; SystemFailure if a server has died, the cluster has ended, or the result has not come within wait_seconds;
    Interrupted if a process has stopped the cluster; ClosedError after close(); ForkedError in a process that was
    forked from this one."""

    def __init__(self, **options: Any) -> None:
        self._flights: Set[Flight] = set()  # requests under way, whose arrays the library uses
        self._dropped: Deque[Flight] = collections.deque()
        self._failed: List[Error] = []
        self._tables: Dict[int, Known] = {}  # the tables that this client has made or found, by number
        self._told_left_out = False
        self.local = bool(options.get("local_loops"))  # whether the client runs a cluster inside this process
        self._communicators: List[Communicator] = []
        self._before_close: List[Callable[[], None]] = []
        self._lock = threading.Lock()
        super().__init__("client", None)
        self._closing = True  # no calls until the library's client is open
        self._c = self._begin(options)
        self.wait_seconds: float = options["wait_seconds"] or _usual_wait()
        self._closing = False
        _open.add(self)

    # Opening and closing. Subclasses that use another object's C client override the first two methods.

    def _begin(self, options: Dict[str, Any]) -> Any:
        return _open_client(options)

    def _end(self) -> None:
        check(lib.tug_client_close(self._c))

    @property
    def _opened(self) -> Any:
        """Returns the library's client, for objects that use it. Raises UsageError if it was closed."""
        if self.closed:
            raise UsageError("the client was closed")
        return self._c

    def close(self) -> None:
        """Waits for the requests in flight and leaves the cluster. If a push that nothing waited for has failed, its
        error is raised after the client is closed. A second call does nothing."""
        if self.closed:
            return
        while self._before_close:
            try:
                self._before_close.pop(0)()
            except Error as error:
                self._failed.append(error)
        for communicator in list(self._communicators):
            try:
                communicator.close()
            except Error as error:
                self._failed.append(error)
        try:
            self.flush()
        except Error as error:
            self._failed.append(error)
        if not self._begin_closing():
            return
        _open.discard(self)
        try:
            self._end()
        finally:
            self._c = None
            self._flights.clear()
            self._dropped.clear()
        if self._failed:
            raise self._failed[0]

    def __del__(self) -> None:
        if getattr(self, "_closing", True) or self._pid != os.getpid():
            return
        warnings.warn("a tug.Client was not closed", ResourceWarning, stacklevel=2)
        try:
            self.close()
        except Error:
            pass

    def __repr__(self) -> str:
        return f"<tug.Client, {'closed' if self.closed else 'open'}>"

    # ---------------------------------------------------------------- rank and numbers of processes

    @property
    def rank(self) -> int:
        """The rank among the workers, from 0; a guest's rank is among the guests."""
        return self._status_of(lib.tug_client_rank)

    @property
    def workers(self) -> int:
        """The number of worker processes with which the cluster was started."""
        return self._status_of(lib.tug_client_workers)

    @property
    def servers(self) -> int:
        """The number of server processes with which the cluster was started."""
        return self._status_of(lib.tug_client_servers)

    def barrier(self) -> None:
        """Waits, at most wait_seconds, until all workers that still run have called barrier() as often as this one.
        Raises UsageError for a guest."""
        self._run(lib.tug_barrier)

    # ---------------------------------------------------------------- tables

    def table(self, name: str, *, number: Optional[int] = None, settings: str = "",
              **more: "Setting") -> "Table":
        """Creates a table, or finds the one that another worker has created: dim=16, rule="adagrad:lr=0.1", and so
        on; docs/tables.md has all settings, whose '-' is '_' here. `settings` is the same as text.

        A table has a number in the cluster: `number`, or else the lowest number that this client does not use yet. So
        workers that make the same tables in the same order need not give numbers. A client can make only one table of
        each name."""
        word(name, "name")
        text = _table.settings_text(name, settings, more)
        with self._lock:
            if number is None:
                number = self._unused_number(name)
            chosen = whole(number, "number", 0, TABLES_MAX - 1)
            try:
                self._run(lib.tug_table_create, chosen, text)
            except UsageError as error:
                error.args = (_table.in_keywords(str(error), settings),)
                raise
            return self._keep(_table.Table(self, chosen, name))

    def find(self, name: str) -> "Table":
        """Returns the table of this name that any client has created. Raises UsageError if there is none."""
        number = ffi.new("uint32_t *")
        with self._lock:
            self._run(lib.tug_table_find, word(name, "name"), number)
            return self._keep(_table.Table(self, int(number[0]), name))

    def _unused_number(self, name: str) -> int:
        for number, made in self._tables.items():
            if made[0] == name:
                raise UsageError(f"this client already has a table '{name}': use client.find('{name}'), "
                                 "or drop() the table before you make another one")
        for number in range(TABLES_MAX):
            if number not in self._tables:
                return number
        raise UsageError(f"this client has {TABLES_MAX} tables, as many as a cluster can have")

    def _keep(self, table: "Table") -> "Table":
        self._tables[table.number] = table._known
        return table

    def table_names(self) -> Dict[int, str]:
        """Returns the names of the tables that this client has created or found, in the order of their numbers."""
        with self._lock:
            return {number: made[0] for number, made in self._tables.items()}

    def _forget(self, number: int) -> None:
        """Forgets a dropped table, whose number is free again."""
        with self._lock:
            self._tables.pop(number, None)

    # ---------------------------------------------------------------- requests

    def _begin_request(self, function: Any, table: "Table", arrays: Sequence[Any], n: int, pulls: bool) -> Flight:
        """Sends a request with `arrays` (the keys first), which the library uses until the request has ended. Returns
        its Flight."""
        table._check()
        if self._dropped:
            reap(self, 8)
        flight = Flight(tuple(arrays), pulls)
        self._flights.add(flight)
        try:
            self._run(function, table.number, arrays[0], n, *arrays[1:], ffi.NULL, ffi.NULL, flight.ts)
        except BaseException:
            self._give_up(flight)
            raise
        return flight

    def _end_request(self, flight: Flight) -> None:
        """Waits for a request. Afterwards the library no longer uses its arrays, even if this raises."""
        left_out: List[int] = []

        def wait(c: Any) -> int:
            status: int = lib.tug_wait(c, flight.ts[0], 0.0)
            if not self._told_left_out:
                left_out.append(lib.tug_left_out(c, ffi.NULL, ffi.NULL))
            return status

        try:
            self._run(wait)
        except BaseException:
            self._give_up(flight)
            raise
        self._flights.discard(flight)
        if any(left_out):
            self._warn_of_left_out()

    def _left_out(self) -> Tuple[int, int, int]:
        table, key = ffi.new("uint32_t *"), ffi.new("uint64_t *")
        n = self._status_of(lambda c: int(lib.tug_left_out(c, table, key)))
        return n, int(table[0]), int(key[0])

    def _warn_of_left_out(self) -> None:
        if self._told_left_out:
            return
        n, number, key = self._left_out()
        if n > 0:
            self._told_left_out = True
            name = self._tables[number][0] if number in self._tables else str(number)
            warn_of(f"{n} {'push' if n == 1 else 'pushes'} of table {name}, key {key}: the update was left out, "
                    "because a state of its rule would become infinite (the gradient is too large: clip "
                    "gradients); warned once, Client.left_out counts")

    @property
    def left_out(self) -> int:
        """How many pushes contained an update that a server left out, because a state of the rule would have become
        infinite."""
        return self._left_out()[0]

    def _give_up(self, flight: Flight) -> None:
        """Cancels a request, whatever its state. If the client is being closed, close() waits for the request
        instead."""
        if flight.ts[0] != 0 and not self.closed:
            self._run(lib.tug_cancel, flight.ts[0])
        if flight.ts[0] == 0 or not self.closed:
            self._flights.discard(flight)

    def flush(self, timeout: Optional[float] = None) -> None:
        """Waits for the requests whose objects were dropped without wait(), and raises the error of the first that
        failed. timeout: seconds; None: wait_seconds. Raises Timeout if some requests are not done by then."""
        end = deadline_of(self.wait_seconds if timeout is None else seconds(timeout))
        reap(self, len(self._dropped))
        while self._dropped:
            flight = self._dropped.popleft()
            try:
                wait_for(self, flight, max(end - time.monotonic(), 0.001))
            except Timeout:
                self._dropped.appendleft(flight)
                raise
            except Error as error:
                self._failed.append(error)
            except BaseException:
                self._dropped.appendleft(flight)
                raise
            self._flights.discard(flight)
        self._warn_of_left_out()
        if self._failed:
            first = self._failed[0]
            self._failed.clear()
            raise first

    # ------------------------------------------------------------- passes, steps and saves of a run

    def again(self, again: bool = True) -> None:
        """Tells the tables that later pushes come from examples that were trained on before, so that their shows and
        clicks are not counted a second time (tug_again). again(False): later pushes come from new examples."""
        self._status_of(_again, bool(again))

    def step(self, steps: int = 1) -> int:
        """Adds to this worker's number of steps. Returns the steps of all workers together, on which learning rate
        schedules and the setting ttl-steps depend."""
        all_steps = ffi.new("uint64_t *")
        self._run(lib.tug_step, whole(steps, "steps", 0, 2 ** 48), all_steps)
        return int(all_steps[0])

    def save(self, directory: Path, *, mode: str = "checkpoint",
             tables: Optional[Sequence[Union["Table", int]]] = None, zstd: int = 0, keep: int = 0,
             about: Optional[str] = None, mark: int = 0) -> str:
        """Saves tables: the servers write their rows below `directory`, which must lie below the save root of every
        server. Returns the path of the save, which becomes visible only when it is complete. Only one worker calls
        save().

        mode: "checkpoint" (all rows), "base" (the rows that the accessor deems worth publishing), "delta" (those of
        them that have changed since the last base or delta), "day" (a checkpoint, after which the tables' day ends).
        tables: Tables or their numbers; None means all. zstd: the compression level; 0: not compressed. keep: the
        number of bases and checkpoints that stay in the directory, the newest ones; 0: all. about: JSON text that is
        stored in the save. mark: see save_mark."""
        choice(mode, "mode", tuple(SAVE_MODES))
        numbers = [] if tables is None else [self._number_of(t) for t in _list(tables)]
        if tables is not None and not numbers:
            raise UsageError("tables: is empty; None means all tables")
        path = ffi.new("char[]", lib.TUG_PATH_MAX)
        kept = [ffi.new("char[]", word(directory, "directory")), ffi.new("uint32_t[]", numbers),
                ffi.NULL if about is None else ffi.new("char[]", word(about, "about"))]
        o = ffi.new("struct tug_save_options *", {
            "directory": kept[0], "mode": getattr(lib, SAVE_MODES[mode]), "tables": kept[1],
            "n_tables": len(numbers), "zstd": whole(zstd, "zstd", 0, 22), "keep": whole(keep, "keep", 0, 2 ** 32 - 1),
            "about": kept[2], "mark": whole(mark, "mark", 0, 2 ** 63 - 1)})
        self._run(lib.tug_save, o, path)
        return text_of(path)

    def _number_of(self, table: Any) -> int:
        if not isinstance(table, _table.Table):
            return whole(table, "tables", 0, TABLES_MAX - 1)
        self._check_own(table)
        return table.number

    def _check_own(self, table: "Table") -> None:
        if table.client is not self:
            raise UsageError(f"table {table.number} '{table.name}' belongs to another client: give tables of "
                             "this client")
        table._check()

    def save_mark(self, mark: int) -> None:
        """Fixes which of this worker's pushes a later save(mark=mark) holds: those made before this call, and none
        after it. Each worker calls save_mark between two of its batches, with the same mark; then one worker calls
        save(mark=mark)."""
        self._run(lib.tug_save_mark, whole(mark, "mark", 1, 2 ** 63 - 1))

    def communicator(self, tables: Sequence["Table"], *, queue: int = 0, merge: int = 0,
                     grad_reduce: str = "sum") -> "Communicator":
        """Returns a communicator: a thread that merges and sends pushes to these tables (tug.Communicator)."""
        from tug._communicator import Communicator
        made = Communicator(self, tables, queue=queue, merge=merge, grad_reduce=grad_reduce)
        self._communicators.append(made)
        return made

    def before_close(self, function: Callable[[], None]) -> None:
        """Registers a function that close() calls first, while the client can still be used."""
        self._before_close.append(function)

    def _forget_communicator(self, communicator: "Communicator") -> None:
        """Forgets a communicator that was closed."""
        if communicator in self._communicators:
            self._communicators.remove(communicator)

    def profile_start(self) -> None:
        """Starts recording the times of requests on all servers."""
        self._run(lib.tug_profile_start)

    def profile_stop(self, file: Path) -> None:
        """Ends the recording and writes a trace file for Chrome and Perfetto."""
        self._run(lib.tug_profile_stop, word(file, "file"))

    def stop(self, why: str = "ended by a program") -> None:
        """Ends the whole cluster in order. Waiting calls of other processes raise Interrupted, whose message contains
        `why`."""
        self._run(lib.tug_stop, word(why, "why"))


def _again(c: Any, again: bool) -> int:
    lib.tug_again(c, again)
    return 0


def _list(tables: Any) -> Sequence[Any]:
    if not isinstance(tables, (list, tuple)):
        raise ArgumentTypeError(f"tables: must be a list of tables or their numbers, not {type(tables).__name__}")
    return tables


_TEXTS = ("scheduler", "cluster", "ca", "cert", "key")


def _open_client(options: Dict[str, Any]) -> Any:
    o = ffi.new("struct tug_client_options *")
    kept = []
    for name, value in options.items():
        if name in _TEXTS:
            if value is not None:
                kept.append(ffi.new("char[]", word(value, name)))
                setattr(o, name, kept[-1])
        elif name in ("wait_seconds", "spin_us"):
            setattr(o, name, seconds(value, name))
        elif name == "local_loops":
            o.local_loops = value
        else:
            setattr(o, name, bool(value))
    return opened(lib.tug_client_open, lib.tug_client_close, o)


def connect(scheduler: Optional[str] = None, *, cluster: Optional[str] = None, ca: Optional[str] = None,
            cert: Optional[str] = None, key: Optional[str] = None, insecure: bool = False,
            guest: bool = False, wait_seconds: float = 0, spin_us: float = 0, bf16: bool = False,
            pack_keys: bool = False, cache_keys: bool = False) -> Client:
    """Joins a cluster as a worker and waits until all servers and workers have joined.

    Arguments that are not given come from the environment: TUG_SCHEDULER, TUG_CLUSTER, DMLC_* or PADDLE_*, as tug
    launch and the launchers of ps-lite and Paddle set them, and TUG_CA, TUG_CERT, TUG_KEY, TUG_INSECURE,
    TUG_WAIT_SECONDS, TUG_SPIN_US.

    scheduler: HOST:PORT. ca, cert, key: files for TLS; insecure: allow a connection without TLS. guest: join as an
    extra worker, for which barriers and the end of the run do not wait. wait_seconds: the limit of every wait; 0: 600.
    spin_us: the time that a wait spins before it sleeps. bf16: send values as bf16. pack_keys: compress keys, which
    saves bytes if ids are from a small range. cache_keys: send a list of keys that is used repeatedly only once."""
    return Client(scheduler=scheduler, cluster=cluster, ca=ca, cert=cert, key=key, insecure=insecure,
                  guest=guest, wait_seconds=wait_seconds, spin_us=spin_us, bf16=bf16, pack_keys=pack_keys,
                  cache_keys=cache_keys)


def local(loops: int = 1, *, wait_seconds: float = 0, spin_us: float = 0) -> Client:
    """Returns the client of a cluster inside this process, which needs no other processes and ends with the client.
    loops: server threads, each with its own part of the tables."""
    return Client(local_loops=whole(loops, "loops", 1, 256), wait_seconds=wait_seconds, spin_us=spin_us)


@at_exit
def _close_all() -> Optional[str]:
    """Closes clients that are still open at exit, so that the cluster does not count them as dead."""
    failed = []
    for client in list(_open):
        try:
            client.close()
        except Error:  # a push without a wait has failed, or the cluster has ended
            failed += [f"tug: a client was closed when the program ended: {error}" for error in client._failed[:1]]
    return "\n".join(failed) or None
