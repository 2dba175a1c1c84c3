"""Mode GEO (Paddle's GeoCommunicator): each worker trains its own copy of a table's rows. After every k_steps pushes a
worker sends its changes to the servers and gets the changes of the other workers. The servers' table adds up the pushed
changes. Paddle's formulas, with T workers:

    latest                                 what this worker trains
    old                                    the values that it has received from the servers, or sent to them
    delta = (latest - old) / T             pushed; old += delta
    latest += server - old; old = server   of rows that workers have pushed meanwhile

The copies are tables of a cluster inside this process, so that C holds them. A row is fetched from the servers when it
is first used.

SPDX-License-Identifier: Apache-2.0
"""

import threading
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

import numpy as np

from tug._arrays import Floats, Keys, floats_of, keys_of
from tug._client import Client, _open, local

if TYPE_CHECKING:
    from tug._table import Table
    from tug.fleet._changes import Changes

AT_ONCE = 1 << 16  # the most rows of one request
TOUCHED_MAX = 1 << 20  # the length of the list of changed keys at which repeated keys are removed


class Copy:
    """A worker's copy of one table."""

    def __init__(self, table: "Table", home: Client, changes: "Changes", workers: int) -> None:
        self.table, self.workers, self._changes = table, workers, changes
        self._width = width = table.pull_width
        # The last float of a row of `latest` is 1 if the row was fetched.
        self._latest = home.table(f"latest_{table.number}", accessor="plain", dim=width + 1, rule="sum")
        self._old = home.table(f"old_{table.number}", accessor="plain", dim=width, rule="sum")
        self._known: List[Keys] = []
        self._touched: List[Keys] = []  # keys changed since the last exchange; some repeat
        self._n_touched = 0
        self._last = np.zeros(0, np.uint64)  # the keys of the last pull, which a program mostly pushes to next
        self.sends = 0  # pushes since the last exchange
        self._others = changes.reader(table.number, False)
        self._others.skip()  # earlier changes are in the rows when they are fetched

    def _pulled(self, keys: Keys) -> Floats:
        rows = self._latest.pull(keys)
        lacks = rows[:, self._width] == 0
        missing = np.unique(keys[lacks])
        if len(missing) == 0:
            return rows
        fetched = np.ones((len(missing), self._width + 1), np.float32)
        for first in range(0, len(missing), AT_ONCE):
            some = missing[first:first + AT_ONCE]
            server = self.table.pull(some)
            fetched[first:first + AT_ONCE, :self._width] = server
            self._old.assign(some, server)
            self._latest.assign(some, fetched[first:first + AT_ONCE])
        self._known.append(missing)
        rows[lacks] = fetched[np.searchsorted(missing, keys[lacks])]
        return rows

    def pull(self, keys: Any) -> Floats:
        """Returns this worker's copies of the rows, and fetches those that it does not have yet."""
        k = keys_of(keys)
        rows = self._pulled(k.ravel())[:, :self._width]
        self._last = k.ravel().copy()
        return np.ascontiguousarray(rows).reshape(k.shape + (self._width,))

    def add(self, keys: Any, values: Any) -> None:
        """Adds values to this worker's copies of the rows; values of a repeated key are added up."""
        k = keys_of(keys)
        v = floats_of(values, k.shape + (self._width,), "values").reshape(-1, self._width)
        k = k.ravel()
        if not np.array_equal(k, self._last):
            self._pulled(k)
        self._latest.push(k, np.hstack([v, np.zeros((len(k), 1), np.float32)]))
        self._touched.append(k.copy())
        self._n_touched += len(k)
        if self._n_touched > TOUCHED_MAX:
            self._all_touched()
        self.sends += 1

    def _all_touched(self) -> Keys:
        """Returns the changed keys, each once."""
        touched = np.unique(np.concatenate(self._touched)) if self._touched else np.zeros(0, np.uint64)
        self._touched, self._n_touched = [touched], 0
        return touched

    def assign(self, keys: Keys, values: Floats) -> None:
        """Sets rows on the servers and in this worker's copy."""
        self.table.assign(keys, values)
        self._pulled(keys)
        self._old.assign(keys, values)
        self._latest.assign(keys, np.hstack([values, np.ones((len(keys), 1), np.float32)]))
        self._changes.add(self.table.number, keys)

    def exchange(self) -> None:
        """Pushes this worker's changes to the servers, and takes over the changes of other workers."""
        touched = self._all_touched()
        for first in range(0, len(touched), AT_ONCE):
            some = touched[first:first + AT_ONCE]
            old = self._old.pull(some)
            delta = (self._latest.pull(some)[:, :self._width] - old) / np.float32(self.workers)
            moved = (delta != 0).any(axis=1)
            some, old, delta = some[moved], old[moved], delta[moved]
            self.table.push(some, delta)
            self._old.assign(some, old + delta)
            self._changes.add(self.table.number, some)
        self._touched, self.sends = [], 0
        self._take_changed()

    def _take_changed(self) -> None:
        changed = self._others.read()
        known = np.concatenate(self._known) if self._known else np.zeros(0, np.uint64)
        self._known = [known]
        keys = changed.keys if changed.complete else known
        for first in range(0, len(keys), AT_ONCE):
            some = keys[first:first + AT_ONCE]
            # rows without a copy are fetched when they are used
            some = some[self._latest.pull(some)[:, self._width] != 0]
            server, old = self.table.pull(some), self._old.pull(some)
            self._latest.push(some, np.hstack([server - old, np.zeros((len(some), 1), np.float32)]))
            self._old.assign(some, server)


class DenseCopy:
    """A worker's copy of dense variables: the arrays that its program trains."""

    def __init__(self, pull: Any, push: Any, arrays: Dict[str, Floats], workers: int) -> None:
        self._pull, self._push, self.arrays, self.workers = pull, push, arrays, workers
        self._old: Dict[str, Floats] = pull()
        for name, array in arrays.items():
            array[...] = self._old[name]

    def exchange(self) -> None:
        """Does what Copy.exchange does, for whole arrays."""
        delta = {name: (array - self._old[name]) / np.float32(self.workers) for name, array in self.arrays.items()}
        self._push(delta)
        old = {name: self._old[name] + one for name, one in delta.items()}
        self._old = self._pull()
        for name, array in self.arrays.items():
            array += self._old[name] - old[name]


class Geo:
    """All copies of a worker, by the tables' numbers. Any thread may use it."""

    def __init__(self, tables: Dict[int, "Table"], changes: "Changes", workers: int, k_steps: int,
                 wait_seconds: float) -> None:
        self._home = local(wait_seconds=wait_seconds)
        # not closed at exit with the other clients: the worker's client closes later and still needs the copies
        _open.discard(self._home)
        self._lock = threading.RLock()
        self.k_steps = k_steps
        self.dense: List[DenseCopy] = []
        try:
            self._copies = {number: Copy(table, self._home, changes, workers) for number, table in tables.items()}
        except BaseException:
            self._home.close()
            raise

    def pull(self, number: int, keys: Any) -> Floats:
        """Returns this worker's copies of a table's rows."""
        with self._lock:
            return self._copies[number].pull(keys)

    def add(self, number: int, keys: Any, values: Any) -> None:
        """Adds to this worker's copies, and exchanges after every k_steps calls. The first table's exchange includes
        the dense variables."""
        with self._lock:
            one = self._copies[number]
            one.add(keys, values)
            if one.sends >= self.k_steps:
                one.exchange()
                if one is next(iter(self._copies.values())):
                    self.exchange_dense()

    def assign(self, number: int, keys: Keys, values: Floats) -> None:
        """Sets rows on the servers and in this worker's copies."""
        with self._lock:
            self._copies[number].assign(keys, values)

    def exchange_dense(self) -> None:
        """Exchanges the changes of the dense variables."""
        with self._lock:
            for one in self.dense:
                one.exchange()

    def exchange(self) -> None:
        """Exchanges the changes of all tables and of the dense variables."""
        with self._lock:
            for one in self._copies.values():
                one.exchange()
            self.exchange_dense()

    def holds(self) -> Tuple[int, ...]:
        """Returns the numbers of the tables that have copies."""
        return tuple(self._copies)

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._home.closed

    def close(self) -> None:
        """Frees the copies."""
        with self._lock:
            self._home.close()
