"""Records which rows of a table workers have changed (Paddle's GeoRecorder). Each worker keeps a list of changed keys
on the servers, and other workers read what was added since their last read. No worker waits for another: a list is a
ring. If a reader falls behind by more than the ring's size, it gets the answer that any row may have changed.

The lists are rows of one table, with a 16-bit word in each float. For each table and worker, the head row has two
numbers: the rows that were ever written to the list, and the rows that will have been written when the present write is
done. The rows of the ring follow the head.

SPDX-License-Identifier: Apache-2.0
"""

import threading
from typing import TYPE_CHECKING, Dict, List, NamedTuple, Sequence

import numpy as np

from tug._arrays import Floats, Keys
from tug._errors import DataError, UsageError
from tug._library import lib

if TYPE_CHECKING:
    from tug._client import Client

ROW = 1024  # floats of a row
KEYS = ROW // 4 - 1  # keys of a row, which begins with their number; each takes four floats
RING = 4096  # rows of a worker's list for one table
AT_ONCE = 512  # the most rows of one request
COUNT_MAX = 2 ** 48  # a limit for the counts in a head, to detect damaged heads
LEFT = 1 << 60  # the key of worker 0's note (leave); those of other workers follow
NAME = "fleet_changes"


class Changed(NamedTuple):
    """Changed keys that a reader had not read yet."""

    keys: Keys
    complete: bool  # False: the ring was overwritten, so any row may have changed, and keys is empty


def number_for(numbers: Sequence[int]) -> int:
    """Returns a number for the table of lists: the highest that is free. All workers have the tables `numbers`, so they
    choose the same one."""
    for number in range(lib.TUG_TABLES_MAX - 1, -1, -1):
        if number not in numbers:
            return number
    raise UsageError("there is no table number left for the table of changes: create fewer tables")


def _words_of(values: Sequence[int]) -> Floats:
    return np.array(values, "<u8").view("<u2").astype(np.float32)


def _numbers_of(words: Floats) -> Keys:
    if not ((words >= 0) & (words < 1 << 16) & (words == np.floor(words))).all():
        raise DataError("the servers' list of changed rows is damaged")
    return np.ascontiguousarray(words.astype("<u2")).view("<u8")


class Changes:
    """The lists of changed keys of all workers."""

    def __init__(self, client: "Client", numbers: Sequence[int], worker: int, workers: int) -> None:
        self.worker, self.workers = worker, workers
        self._table = client.table(NAME, number=number_for(numbers), accessor="plain", dim=ROW, rule="sum")
        self._mine: Dict[int, int] = {}  # rows that this worker ever wrote to its lists, by table
        self._lock = threading.Lock()

    @staticmethod
    def _base(table: int, worker: int) -> int:
        return table << 48 | worker << 32

    def heads(self, table: int) -> List[List[int]]:
        """Returns, for each worker's list, the number of rows that were ever written, and the number including rows
        that are being written."""
        keys = [self._base(table, worker) for worker in range(self.workers)]
        heads: List[List[int]] = _numbers_of(self._table.pull(np.array(keys, np.uint64))[:, :8]).tolist()
        for worker, (had, will) in enumerate(heads):
            if not had <= will <= COUNT_MAX:
                raise DataError(f"worker {worker}'s list of changed rows is damaged: it has {had} rows of {will}")
        return heads

    def _say(self, table: int, had: int, will: int) -> None:
        row = np.zeros((1, ROW), np.float32)
        row[0, :8] = _words_of([had, will])
        self._table.assign([self._base(table, self.worker)], row)

    def add(self, table: int, keys: Keys) -> None:
        """Appends to this worker's list the keys that it has changed."""
        if len(keys) == 0:
            return
        with self._lock:
            self._add(table, keys)

    def _add(self, table: int, keys: Keys) -> None:
        had = self._mine.get(table)
        if had is None:
            had = self.heads(table)[self.worker][1]  # continues the list of an earlier process with this rank
        n = -(-len(keys) // KEYS)
        rows = np.zeros((n, ROW), np.float32)
        for i in range(n if n <= RING else 0):  # of more rows than the ring holds, only the count is written
            some = keys[i * KEYS:(i + 1) * KEYS]
            rows[i, :4 * (len(some) + 1)] = _words_of([len(some), *some.tolist()])
        self._say(table, had, had + n)
        if n <= RING:
            at = np.arange(had, had + n, dtype=np.uint64) % np.uint64(RING) + np.uint64(1)
            for first in range(0, n, AT_ONCE):
                self._table.assign(at[first:first + AT_ONCE] + np.uint64(self._base(table, self.worker)),
                                   rows[first:first + AT_ONCE])
        self._mine[table] = had + n
        self._say(table, had + n, had + n)

    # A row of the table marks a worker as stopped (_rounds.py): it holds 1 and then a number for the other workers,
    # or two zeros.

    def _note(self, said: Sequence[int]) -> None:
        row = np.zeros((1, ROW), np.float32)
        row[0, :8] = _words_of(said)
        self._table.assign([LEFT + self.worker], row)

    def leave(self, number: int) -> None:
        """Marks this worker as stopped, with a number for the others."""
        self._note([1, number])

    def forget_leave(self) -> None:
        """Removes the mark of leave()."""
        self._note([0, 0])

    def left(self) -> List[int]:
        """Returns the numbers of the workers that are marked as stopped."""
        keys = np.arange(LEFT, LEFT + self.workers, dtype=np.uint64)
        return [number for there, number in _numbers_of(self._table.pull(keys)[:, :8]).tolist() if there == 1]

    def reader(self, table: int, own: bool) -> "Reader":
        """Returns a reader of the workers' lists for a table. own: include this worker's list."""
        return Reader(self, table, [worker for worker in range(self.workers) if own or worker != self.worker])

    def rows(self, table: int, worker: int, begin: int, end: int) -> List[Keys]:
        """Returns the keys in rows `begin` to `end` of a worker's list. The caller checks afterwards that they were not
        overwritten."""
        found: List[Keys] = []
        for first in range(begin, end, AT_ONCE):
            at = np.arange(first, min(first + AT_ONCE, end), dtype=np.uint64) % np.uint64(RING) + np.uint64(1)
            for row in _numbers_of(self._table.pull(at + np.uint64(self._base(table, worker)))):
                found.append(row[1:1 + min(int(row[0]), KEYS)])
        return found


class Reader:
    """Reads the lists of some workers for a table, from where it stopped the last time."""

    def __init__(self, changes: Changes, table: int, of: Sequence[int]) -> None:
        self._changes, self._table, self._of = changes, table, of
        self._read = [0] * changes.workers

    def skip(self) -> None:
        """Skips the keys that were listed so far."""
        self._read = [had for had, _ in self._changes.heads(self._table)]

    def read(self) -> Changed:
        """Returns the keys that were listed since the last call, each once."""
        read, changes, found, complete = self._read, self._changes, [], True
        upto = [had for had, _ in changes.heads(self._table)]
        for worker in self._of:
            if upto[worker] - read[worker] <= RING:
                found += changes.rows(self._table, worker, read[worker], upto[worker])
        heads = changes.heads(self._table)
        for worker in self._of:  # rows that were overwritten while they were read are not valid
            complete = complete and heads[worker][1] - read[worker] <= RING
        self._read = upto
        keys = np.unique(np.concatenate(found)) if found and complete else np.zeros(0, np.uint64)
        return Changed(keys, complete)
