"""Batches that several threads of a worker compute together: the pushes are sent when all threads have called barrier()
(Paddle's HalfAsyncCommunicator). With SyncRounds all workers compute a batch together (Paddle's SyncCommunicator).

SPDX-License-Identifier: Apache-2.0
"""

import threading
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

import numpy as np

from tug._arrays import Floats, Keys, floats_of, keys_of
from tug._errors import Timeout, UsageError

if TYPE_CHECKING:
    from tug._client import Client
    from tug._table import Table
    from tug.fleet._changes import Changes

PENDING = 64  # the most pushes of one thread to one table in a batch
PARTS_MAX = 16  # the most workers that can share a batch (tug_batch)
LOOK_SECONDS = 0.02  # the interval between two checks while waiting


class Rounds:
    """Collects the pushes of all threads, and sends one push to each table at the end of the batch."""

    def __init__(self, tables: Dict[int, "Table"], threads: int, wait_seconds: float) -> None:
        self.tables, self._wait_seconds = tables, wait_seconds
        self._threads, self._here, self._round = threads, 0, 0
        self._failed: Optional[BaseException] = None
        self._pending: Dict[int, List[Tuple[Keys, Floats]]] = {number: [] for number in tables}
        self._changed = threading.Condition()
        self._limit = PENDING * threads

    def send(self, number: int, keys: Any, values: Any) -> None:
        """Adds a thread's push to the batch. A worker with one thread pushes at once."""
        table = self.tables[number]
        k = keys_of(keys)
        v = floats_of(values, k.shape + (table.push_width,), "values").reshape(-1, table.push_width)
        with self._changed:
            if self._threads <= 1:
                self.apply(number, k.ravel(), v)
                return
            if len(self._pending[number]) >= self._limit:
                raise UsageError(f"{self._limit} pushes to table {number} wait for the end of the batch: each of the "
                                 f"{self._threads} threads must call barrier() after its part")
            self._pending[number].append((k.ravel().copy(), v.copy()))

    def apply(self, number: int, keys: Keys, values: Floats) -> None:
        """Pushes the collected keys and values to one table."""
        self.tables[number].push(keys, values)

    def _finish(self) -> None:
        # The last thread that finishes its part of a batch calls this, with the lock held.
        self._failed = None
        try:
            for number, parts in self._pending.items():
                table = self.tables[number]
                keys = np.concatenate([k for k, _ in parts]) if parts else np.zeros(0, np.uint64)
                values = np.concatenate([v for _, v in parts]) if parts else np.zeros((0, table.push_width), np.float32)
                if parts or self.is_of_all():
                    self.apply(number, keys, values)
                parts.clear()
        except BaseException as error:
            self._failed = error
            raise
        finally:
            self._here, self._round = 0, self._round + 1
            self._changed.notify_all()

    def is_of_all(self) -> bool:
        """Returns whether a table is pushed to even if this worker has nothing for it."""
        return False

    def barrier(self) -> None:
        """Ends this thread's part of the batch. Returns when all threads have ended theirs and the batch is pushed."""
        with self._changed:
            if self._threads <= 1:
                return
            self._here += 1
            now = self._round
            if self._here >= self._threads:
                self._finish()
                return
            if not self._changed.wait_for(lambda: self._round != now, self._wait_seconds):
                self._here -= 1
                raise Timeout(f"barrier: {self._threads} threads compute a batch together, but only {self._here + 1} "
                              f"of them have called it after {self._wait_seconds:.3g} s")
            if self._failed is not None:
                raise UsageError(f"the batch was not pushed: {self._failed}") from self._failed

    def leave(self) -> None:
        """Removes one thread, which has no more data, from the number of threads."""
        with self._changed:
            self._threads -= 1
            if 0 < self._here >= self._threads:
                self._finish()

    def stop(self) -> None:
        """Pushes what threads have sent of an unfinished batch."""
        with self._changed:
            if self._here > 0 or any(self._pending.values()):
                self._finish()  # also wakes the threads that wait in barrier()


class SyncRounds(Rounds):
    """Batches that all workers compute together: tables of mode sync apply a batch when all workers have pushed their
    part."""

    def __init__(self, tables: Dict[int, "Table"], threads: int, client: "Client", changes: "Changes") -> None:
        super().__init__(tables, threads, client.wait_seconds)
        self._client, self._changes = client, changes
        if changes.workers > PARTS_MAX:
            raise UsageError(f"SYNC: a batch can have parts of at most {PARTS_MAX} workers, but this run has "
                             f"{changes.workers}")
        self._batch = {number: table.stat().clock for number, table in tables.items()}
        for number in tables:
            self._begin(number)
        client.barrier()  # all workers begin with the same batch

    def is_of_all(self) -> bool:
        return True

    def apply(self, number: int, keys: Keys, values: Floats) -> None:
        self.tables[number].push(keys, values)
        self._batch[number] += 1
        self._begin(number)

    def _begin(self, number: int) -> None:
        # From now on pulls return rows to which all batches before this one are applied.
        self.tables[number].batch(self._batch[number], self._changes.worker, self._changes.workers)

    def _empty(self, number: int, upto: int) -> None:
        width = self.tables[number].push_width
        while self._batch[number] < upto:
            self.apply(number, np.zeros(0, np.uint64), np.zeros((0, width), np.float32))

    def stop(self) -> None:
        """Pushes what is left, then pushes empty parts until all workers have stopped, because others may have more
        batches and each batch waits for a part of every worker. At the end all workers have pushed parts of the same
        batches."""
        super().stop()
        end = time.monotonic() + self._wait_seconds
        self._changes.leave(0)
        while len(self._changes.left()) < self._changes.workers:
            for number, table in self.tables.items():
                self._empty(number, table.stat().clock + 1)
            if time.monotonic() > end:
                raise Timeout(f"stop: the other workers have not stopped after {self._wait_seconds:.3g} s")
            time.sleep(LOOK_SECONDS)
        for number in self.tables:
            self._changes.leave(self._batch[number])
            self._client.barrier()
            self._empty(number, max(self._changes.left()))
            self._client.barrier()
        self._changes.forget_leave()
        self._client.barrier()
