"""GEO: a worker trains its own copy of a table's rows, and every so many batches workers bring together what they have
changed (Paddle: GeoCommunicator). The table is one of sums. Paddle's formulas, with T workers:

    latest                                 what this worker trains
    old                                    what it had from the servers, and told them
    delta = (latest - old) / T             pushed; old += delta
    latest += server - old; old = server   of rows that workers have pushed meanwhile

The copies are tables of a cluster inside this process: C keeps them. A row is fetched when it is first asked for.

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

AT_ONCE = 1 << 16  # rows of a request
TOUCHED_MAX = 1 << 20  # keys that are noted before each is noted once


class Copy:
    """A worker's copy of one table."""

    def __init__(self, table: "Table", home: Client, changes: "Changes", workers: int) -> None:
        self.table, self.workers, self._changes = table, workers, changes
        self._width = width = table.pull_width
        # Behind a row of `latest` is 1 where it is there.
        self._latest = home.table(f"latest_{table.number}", accessor="plain", dim=width + 1, rule="sum")
        self._old = home.table(f"old_{table.number}", accessor="plain", dim=width, rule="sum")
        self._known: List[Keys] = []
        self._touched: List[Keys] = []  # keys that were added to; some repeat
        self._n_touched = 0
        self._last = np.zeros(0, np.uint64)  # keys that were pulled last, which a program mostly sends next
        self.sends = 0  # since the last exchange
        self._others = changes.reader(table.number, False)
        self._others.skip()  # rows are fetched from now on

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
        """Rows as this worker has them."""
        k = keys_of(keys)
        rows = self._pulled(k.ravel())[:, :self._width]
        self._last = k.ravel().copy()
        return np.ascontiguousarray(rows).reshape(k.shape + (self._width,))

    def add(self, keys: Any, values: Any) -> None:
        """Adds to this worker's rows; keys that repeat are added up."""
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
        """Each key once."""
        touched = np.unique(np.concatenate(self._touched)) if self._touched else np.zeros(0, np.uint64)
        self._touched, self._n_touched = [touched], 0
        return touched

    def assign(self, keys: Keys, values: Floats) -> None:
        """Rows that the servers and this worker have from now on."""
        self.table.assign(keys, values)
        self._pulled(keys)
        self._old.assign(keys, values)
        self._latest.assign(keys, np.hstack([values, np.ones((len(keys), 1), np.float32)]))
        self._changes.add(self.table.number, keys)

    def exchange(self) -> None:
        """Tells the servers what this worker has changed, and takes what others have."""
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
            some = some[self._latest.pull(some)[:, self._width] != 0]  # others are fetched when they are asked for
            server, old = self.table.pull(some), self._old.pull(some)
            self._latest.push(some, np.hstack([server - old, np.zeros((len(some), 1), np.float32)]))
            self._old.assign(some, server)


class DenseCopy:
    """A worker's own dense variables: the arrays that its program trains."""

    def __init__(self, pull: Any, push: Any, arrays: Dict[str, Floats], workers: int) -> None:
        self._pull, self._push, self.arrays, self.workers = pull, push, arrays, workers
        self._old: Dict[str, Floats] = pull()
        for name, array in arrays.items():
            array[...] = self._old[name]

    def exchange(self) -> None:
        """The same formulas, of whole arrays."""
        delta = {name: (array - self._old[name]) / np.float32(self.workers) for name, array in self.arrays.items()}
        self._push(delta)
        old = {name: self._old[name] + one for name, one in delta.items()}
        self._old = self._pull()
        for name, array in self.arrays.items():
            array += self._old[name] - old[name]


class Geo:
    """All copies of a worker. Any thread may use it."""

    def __init__(self, tables: Dict[int, "Table"], changes: "Changes", workers: int, k_steps: int,
                 wait_seconds: float) -> None:
        self._home = local(wait_seconds=wait_seconds)
        _open.discard(self._home)  # at the program's end the worker's client needs it to exchange what is left
        self._lock = threading.RLock()
        self.k_steps = k_steps
        self.dense: List[DenseCopy] = []
        try:
            self._copies = {number: Copy(table, self._home, changes, workers) for number, table in tables.items()}
        except BaseException:
            self._home.close()
            raise

    def pull(self, number: int, keys: Any) -> Floats:
        """This worker's rows."""
        with self._lock:
            return self._copies[number].pull(keys)

    def add(self, number: int, keys: Any, values: Any) -> None:
        """Adds to them, and exchanges every k_steps calls."""
        with self._lock:
            one = self._copies[number]
            one.add(keys, values)
            if one.sends >= self.k_steps:
                one.exchange()
                if one is next(iter(self._copies.values())):
                    self.exchange_dense()

    def assign(self, number: int, keys: Keys, values: Floats) -> None:
        """Sets rows, here and at the servers."""
        with self._lock:
            self._copies[number].assign(keys, values)

    def exchange_dense(self) -> None:
        """Of the dense variables."""
        with self._lock:
            for one in self.dense:
                one.exchange()

    def exchange(self) -> None:
        """Of all tables."""
        with self._lock:
            for one in self._copies.values():
                one.exchange()
            self.exchange_dense()

    def holds(self) -> Tuple[int, ...]:
        """Numbers of its tables."""
        return tuple(self._copies)

    @property
    def closed(self) -> bool:
        """Whether the copies are gone."""
        return self._home.closed

    def close(self) -> None:
        """Forgets the copies."""
        with self._lock:
            self._home.close()
