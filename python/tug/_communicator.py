"""Communicators: a thread of the library merges and sends a program's pushes in the background.

SPDX-License-Identifier: Apache-2.0
"""

from typing import TYPE_CHECKING, NamedTuple, Optional, Sequence

from tug._abi import ffi
from tug._arrays import (ArrayLike, choice, floats_of, instance, instances, keys_of, of_floats, of_keys, timeout_of,
                         whole)
from tug._errors import Error, UsageError
from tug._library import Handle, lib
from tug._table import Table

if TYPE_CHECKING:
    from tug._client import Client

REDUCE = {"sum": "TUG_GRAD_SUM", "mean": "TUG_GRAD_MEAN"}


class CommunicatorStats(NamedTuple):
    """The counts of a table's pushes (struct tug_communicator_stats)."""

    taken: int  # pushes that send() has accepted
    sent: int  # merged pushes that were sent and have ended
    failed: int  # merged pushes that have failed, out of `sent`
    queued: int  # pushes that wait to be sent at present
    waits: int  # calls of send() that found the queue full
    waited_seconds: float  # the total time that these calls waited


class Communicator(Handle):
    """A thread that merges and sends pushes in the background; Client.communicator makes it. Used as a context manager,
    it is started at the beginning, and stopped and closed at the end.

    queue: the most pushes of a table that wait to be sent; 0: 16. merge: the most pushes that are merged to one; 0: as
    many as the queue holds. grad_reduce: whether merged gradients are added up ("sum") or averaged ("mean"). Any thread
    may use it. If a push has failed, every send raises its error and accepts nothing, until the next flush or stop has
    raised it."""

    def __init__(self, client: "Client", tables: Sequence[Table], *, queue: int, merge: int,
                 grad_reduce: str) -> None:
        choice(grad_reduce, "grad_reduce", tuple(REDUCE))
        if not instances(tables, Table, "tables"):
            raise UsageError("tables: is empty; give at least one")
        for table in tables:
            client._check_own(table)
        self.client = client
        c = ffi.new("struct tug_communicator_table[]", len(tables))
        for i, table in enumerate(tables):
            c[i].table = table.number
            c[i].queue = whole(queue, "queue", 0, 2 ** 32 - 1)
            c[i].merge = whole(merge, "merge", 0, 2 ** 32 - 1)
            c[i].grad_reduce = getattr(lib, REDUCE[grad_reduce])
        ret = ffi.new("struct tug_communicator **")
        client._run(lambda one: lib.tug_communicator_open(ret, one, c, len(tables)))
        super().__init__("communicator", ret[0])

    def start(self) -> None:
        """Starts the thread that sends."""
        self._run(lib.tug_communicator_start)

    def is_running(self) -> bool:
        """Returns whether the sending thread runs."""
        return bool(self._status_of(lib.tug_communicator_is_running))

    def send(self, table: Table, keys: ArrayLike, values: ArrayLike, timeout: Optional[float] = None) -> None:
        """Queues a push: keys of any shape, and values of keys.shape + (push_width,). The arrays are copied. While the
        queue is full, waits at most `timeout` seconds (None: the client's wait_seconds). Raises SystemFailure if the
        queue stays full; then the push is not queued."""
        self.client._check_own(instance(table, Table, "table"))
        k = keys_of(keys)
        v = floats_of(values, k.shape + (table.push_width,), "values")
        self._run(lib.tug_communicator_send, table.number, of_keys(k), k.size, of_floats(v), timeout_of(timeout))

    def flush(self, timeout: Optional[float] = None) -> None:
        """Waits, at most `timeout` seconds (None: the client's wait_seconds), until the servers have applied all queued
        pushes. Raises SystemFailure if this takes longer."""
        self._run(lib.tug_communicator_flush, timeout_of(timeout))

    def stop(self, timeout: Optional[float] = None) -> None:
        """Flushes, and ends the sending thread; start() starts it again. Pushes that were not sent in time stay
        queued."""
        self._run(lib.tug_communicator_stop, timeout_of(timeout))

    def stat(self, table: Table) -> CommunicatorStats:
        """Returns the counts of a table's pushes since the communicator was opened."""
        s = ffi.new("struct tug_communicator_stats *")
        self.client._check_own(instance(table, Table, "table"))
        self._run(lib.tug_communicator_stat, table.number, s)
        return CommunicatorStats(*(getattr(s, name) for name in CommunicatorStats._fields))

    def close(self) -> None:
        """Stops the thread, frees the communicator, and raises the error of a failed push. Closing the client does
        this, too."""
        if self.closed:
            return
        failed: Optional[Error] = None
        try:
            self.stop()
        except Error as error:
            failed = error
        if self._begin_closing():
            c, self._c = self._c, None
            lib.tug_communicator_close(c)
            self.client._forget_communicator(self)
        if failed is not None:
            raise failed

    def __enter__(self) -> "Communicator":
        self.start()
        return self
