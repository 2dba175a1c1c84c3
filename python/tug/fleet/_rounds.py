"""Batches that a worker's threads compute together: their pushes are sent when all threads have called barrier()
(Paddle: HalfAsyncCommunicator); with SyncRounds such a batch is one of all workers (SyncCommunicator).

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

PENDING = 64  # pushes of a thread's batch to one table
PARTS_MAX = 16  # of a batch (tug_batch)
LOOK_SECONDS = 0.02  # between two looks


class Rounds:
    """One push of each table for a batch of all threads."""

    def __init__(self, tables: Dict[int, "Table"], threads: int, wait_seconds: float) -> None:
        self.tables, self._wait_seconds = tables, wait_seconds
        self._threads, self._here, self._round = threads, 0, 0
        self._failed: Optional[BaseException] = None
        self._pending: Dict[int, List[Tuple[Keys, Floats]]] = {number: [] for number in tables}
        self._changed = threading.Condition()
        self._limit = PENDING * threads

    def send(self, number: int, keys: Any, values: Any) -> None:
        """A part of the batch; with one thread it is one."""
        table = self.tables[number]
        k = keys_of(keys)
        v = floats_of(values, k.shape + (table.push_width,), "values").reshape(-1, table.push_width)
        with self._changed:
            if self._threads <= 1:
                self.apply(number, k.ravel(), v)
                return
            if len(self._pending[number]) >= self._limit:
                raise UsageError(f"{self._limit} pushes to table {number} wait for the end of the batch: each of the "
                                 f"{self._threads} threads calls barrier() after its part")
            self._pending[number].append((k.ravel().copy(), v.copy()))

    def apply(self, number: int, keys: Keys, values: Floats) -> None:
        """Pushes what was sent to one table."""
        self.tables[number].push(keys, values)

    def _finish(self) -> None:
        # The last thread of a round; the lock is held.
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
        """Whether a table without parts takes part, too."""
        return False

    def barrier(self) -> None:
        """This thread's part is sent. Returns when the batch is applied."""
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
                raise Timeout(f"barrier: {self._threads} threads compute a batch together, and after "
                              f"{self._wait_seconds:.3g} s {self._here + 1} of them were here")
            if self._failed is not None:
                raise UsageError(f"the batch was not pushed: {self._failed}") from self._failed

    def leave(self) -> None:
        """A thread has no data left."""
        with self._changed:
            self._threads -= 1
            if 0 < self._here >= self._threads:
                self._finish()

    def stop(self) -> None:
        """Pushes what is left."""
        with self._changed:
            if self._here > 0 or any(self._pending.values()):
                self._finish()  # threads that wait go on


class SyncRounds(Rounds):
    """A batch is of all workers: tables of mode sync apply it when all have pushed their part."""

    def __init__(self, tables: Dict[int, "Table"], threads: int, client: "Client", changes: "Changes") -> None:
        super().__init__(tables, threads, client.wait_seconds)
        self._client, self._changes = client, changes
        if changes.workers > PARTS_MAX:
            raise UsageError(f"SYNC: a batch has parts of {PARTS_MAX} workers at most, and this run has "
                             f"{changes.workers}")
        self._batch = {number: table.stat().clock for number, table in tables.items()}
        for number in tables:
            self._begin(number)
        client.barrier()  # all begin with the same batch

    def is_of_all(self) -> bool:
        return True

    def apply(self, number: int, keys: Keys, values: Floats) -> None:
        self.tables[number].push(keys, values)
        self._batch[number] += 1
        self._begin(number)

    def _begin(self, number: int) -> None:
        # Pulls see all batches before this one from now on.
        self.tables[number].batch(self._batch[number], self._changes.worker, self._changes.workers)

    def _empty(self, number: int, upto: int) -> None:
        width = self.tables[number].push_width
        while self._batch[number] < upto:
            self.apply(number, np.zeros(0, np.uint64), np.zeros((0, width), np.float32))

    def stop(self) -> None:
        """Pushes what is left. Other workers may have more batches: this one takes part with nothing, until all have
        stopped; then all have pushed parts of the same batches."""
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
