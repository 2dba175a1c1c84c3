"""global_shuffle: examples travel between workers, by way of a table that is empty before and afterwards.

Each worker writes what is another's as rows of 16-bit words in floats, and takes what the others wrote for it.

SPDX-License-Identifier: Apache-2.0
"""

from typing import TYPE_CHECKING, Any, List, Sequence

import numpy as np
import numpy.typing as npt

from tug.fleet._lines import Lines, joined

if TYPE_CHECKING:
    from tug.fleet._fleet import Fleet

TABLE = 4  # its number
ROW = 1024  # floats, two bytes each
AT_ONCE = 2048  # rows of a request

_PARTS = (("start", "<i8"), ("raw", "<u8"), ("value", "<f4"), ("slot", "<u2"))


def _packed(lines: Lines) -> npt.NDArray[np.float32]:
    said = b"".join(np.ascontiguousarray(getattr(lines, name), kind).tobytes() for name, kind in _PARTS)
    said = len(lines.start).to_bytes(8, "little") + len(lines.slot).to_bytes(8, "little") + said
    said += b"\0" * (-len(said) % (2 * ROW))
    return np.frombuffer(said, "<u2").astype(np.float32).reshape(-1, ROW)


def _unpacked(rows: Any) -> Lines:
    said = rows.astype("<u2").tobytes()
    starts, values = int.from_bytes(said[:8], "little"), int.from_bytes(said[8:16], "little")
    at, found = 16, {}
    for name, kind in _PARTS:
        n = starts if name == "start" else values
        found[name] = np.frombuffer(said, kind, n, at).copy()
        at += n * np.dtype(kind).itemsize
    return Lines(found["start"], found["slot"], found["raw"], found["value"])


def _keys(source: int, target: int, first: int, n: int) -> npt.NDArray[np.uint64]:
    return np.arange(first, first + n, dtype=np.uint64) + np.uint64((source << 44) | (target << 32))


def deal(fleet: "Fleet", lines: Lines, seed: int) -> Lines:
    """This worker's part of all workers' examples, each of which falls to any worker with the same chance. All call
    it."""
    me, n = fleet.worker_index(), fleet.worker_num()
    table = fleet.client.table("fleet_shuffle", number=TABLE, accessor="plain", dim=ROW, rule="sum")
    target = np.random.default_rng([seed, me]).integers(0, n, lines.n)
    sizes: List[int] = []
    for other in range(n):
        rows = _packed(lines.take(np.flatnonzero(target == other)))
        for first in range(0, len(rows), AT_ONCE):
            some = rows[first:first + AT_ONCE]
            table.assign(_keys(me, other, first, len(some)), some)
        sizes.append(len(rows))
    said: Sequence[Sequence[int]] = fleet.util.all_gather(sizes)
    parts = []
    for other in range(n):
        taken = [table.pull(_keys(other, me, first, min(AT_ONCE, said[other][me] - first)))
                 for first in range(0, said[other][me], AT_ONCE)]
        parts.append(_unpacked(np.concatenate(taken)))
    fleet.barrier_worker()
    if me == 0:
        table.clear()
    fleet.barrier_worker()
    return joined(parts)
