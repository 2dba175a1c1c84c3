"""The gate of a run, at which workers wait until server 0 opens it. Server 0 opens it by writing a note that names the
save which the run begins with. In the same table each worker may leave a note when it leaves (_asked.py).

A note is a head row and rows of JSON after it. The head's first float is 1 once the note is complete, the second is
the number of JSON bytes. The rows hold two bytes in each float.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from tug._errors import DataError, Error, Timeout, warn_of
from tug.fleet._exchange import said_of, shown, value_of
from tug.fleet._program import TABLES

if TYPE_CHECKING:
    from tug._client import Client
    from tug._table import Table

GATE = 3  # the number of the table of notes
ROW = 1024 # floats of a row
NOTE_MAX = 16 << 10  # the most bytes of the gate's note
LEFT_MAX = 1 << 20  # the most bytes of a worker's note
WORKERS_NOTES = 1 << 32  # the key of worker 0's note, and the distance between the keys of two workers' notes
SOON = 20  # a warning names the reason for a wait after 1 / SOON of the longest wait
LOOK_SECONDS = 0.02  # the interval between two pulls while waiting

_NEEDS_SERVERS = ("servers must run this script, too, up to fleet.run_server() (tug launch starts it in every "
                  "role, and so does python3 -m tug launch --all-roles)")


class Begins(NamedTuple):
    """The save that a run begins with: its directory, and the tables to load ("sparse,dense"); None: all tables."""

    directory: str
    tables: Optional[str]


def _table(client: "Client") -> "Table":
    return client.table("fleet_gate", accessor="plain", dim=ROW, rule="sum", number=GATE)


def _write(table: "Table", key: int, said: bytes) -> None:
    """Writes a note. The head is written last, so that readers see only complete notes."""
    if said:
        padded = said + b"\0" * (-len(said) % (2 * ROW))
        rows = np.frombuffer(padded, "<u2").astype(np.float32).reshape(-1, ROW)
        table.assign(np.arange(key + 1, key + 1 + len(rows), dtype=np.uint64), rows)
    head = np.zeros((1, ROW), np.float32)
    head[0, :2] = 1, len(said)
    table.assign([key], head)


def _read(table: "Table", key: int, size: float, most: int, who: str) -> Any:
    """Returns the value of a note of `who`; the note's head gives its length, `size` bytes. Raises DataError if it is
    damaged."""
    if not 0 < size <= most or size != int(size):
        raise DataError(f"{who} has left a note of {size:.3g} bytes, more than {most}")
    n = int(size)
    rows = table.pull(np.arange(key + 1, key + 1 + -(-n // (2 * ROW)), dtype=np.uint64))
    if not ((rows >= 0) & (rows < 1 << 16)).all():
        raise DataError(f"the answer of {who} is not a value")
    return value_of(rows.astype("<u2").tobytes()[:n], who)


def open_gate(client: "Client", begins: Optional[Begins]) -> None:
    """Opens the gate, so that workers continue. `begins` is the save with which they begin; None: with empty tables."""
    said = b"" if begins is None else said_of(list(begins))
    if len(said) > NOTE_MAX:
        raise DataError(f"init_server: the path is longer than {NOTE_MAX} bytes")
    _write(_table(client), 0, said)


def _begins(table: "Table", size: float) -> Optional[Begins]:
    if size == 0:
        return None
    said: List[Optional[str]] = _read(table, 0, size, NOTE_MAX, "server 0")
    if not (isinstance(said, list) and len(said) == 2 and isinstance(said[0], str) and os.path.isabs(said[0])):
        raise DataError("the save that server 0 names for the run is not a path")
    if said[1] is not None and not (isinstance(said[1], str) and set(said[1].split(",")) <= set(TABLES.values())):
        raise DataError(f"server 0 says that the run begins with tables that a net does not have: {shown(said[1])}")
    return Begins(said[0], said[1])


def leave_note(client: "Client", worker: int, value: Any) -> None:
    """Leaves a value that other workers can read after this one has left the run."""
    said = said_of(value)
    if len(said) > LEFT_MAX:
        raise DataError(f"the note of worker {worker} is longer than {LEFT_MAX} bytes")
    _write(_table(client), WORKERS_NOTES * (worker + 1), said)


def notes_left(client: "Client", workers: Sequence[int]) -> Dict[int, Any]:
    """Returns the notes that these workers have left so far, by worker."""
    table = _table(client)
    heads = table.pull(np.array([WORKERS_NOTES * (one + 1) for one in workers], np.uint64))
    return {one: _read(table, WORKERS_NOTES * (one + 1), float(head[1]), LEFT_MAX, f"worker {one}")
            for one, head in zip(workers, heads) if head[0] != 0}


def wait_for_end(guest: "Client") -> None:
    """Waits, at most wait_seconds, until the last worker has left and the cluster ends; then closes the client."""
    end = time.monotonic() + guest.wait_seconds
    with contextlib.suppress(Error):  # a call fails once the cluster has ended
        table = _table(guest)
        while time.monotonic() < end:
            table.pull([0])
            time.sleep(LOOK_SECONDS)
    with contextlib.suppress(Error):
        guest.close()


def wait_at_gate(client: "Client") -> Optional[Begins]:
    """Waits until the gate is open. Returns the save that the run begins with; None if it begins with empty tables."""
    table, begin, told = _table(client), time.monotonic(), False
    while True:
        head = table.pull([0])[0]
        if head[0] != 0:
            return _begins(table, float(head[1]))
        passed = time.monotonic() - begin
        if passed > client.wait_seconds:
            raise Timeout(f"server 0 has not opened the run after {client.wait_seconds:.3g} s: {_NEEDS_SERVERS}")
        if passed > client.wait_seconds / SOON and not told:
            told = True
            warn_of(f"this worker waits until server 0 opens the run: {_NEEDS_SERVERS}")
        time.sleep(LOOK_SECONDS)
