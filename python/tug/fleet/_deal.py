"""Exchanges lines between workers for global_shuffle, through a table that is empty before and afterwards.

Each worker draws a target worker for each of its lines and writes the lines for each target as rows, which hold a
16-bit word in each float. Then each worker reads the rows that are meant for it.

SPDX-License-Identifier: Apache-2.0
"""

from typing import TYPE_CHECKING, List, Sequence

import numpy as np
import numpy.typing as npt

from tug._errors import DataError
from tug.fleet._exchange import shown

if TYPE_CHECKING:
    from tug.fleet._fleet import Fleet

TABLE = 4 # the table's number
ROW = 1024 # floats of a row, each of which holds two bytes
AT_ONCE = 2048  # the most rows of one request


def _packed(lines: Sequence[bytes]) -> npt.NDArray[np.float32]:
    said = b"".join(lines)
    said = len(said).to_bytes(8, "little") + said
    said += b"\0" * (-len(said) % (2 * ROW))
    return np.frombuffer(said, "<u2").astype(np.float32).reshape(-1, ROW)


def _unpacked(rows: npt.NDArray[np.float32]) -> List[bytes]:
    said = rows.astype("<u2").tobytes()
    return said[8:8 + int.from_bytes(said[:8], "little")].splitlines(keepends=True)


def _keys(source: int, target: int, first: int, n: int) -> npt.NDArray[np.uint64]:
    return np.arange(first, first + n, dtype=np.uint64) + np.uint64((source << 44) | (target << 32))


def deal(fleet: "Fleet", lines: Sequence[bytes], seed: int) -> List[bytes]:
    """Returns this worker's part of all workers' lines. Each line goes to a random worker, all with the same
    probability. All workers call it."""
    me, n = fleet.worker_index(), fleet.worker_num()
    table = fleet.client.table("fleet_shuffle", number=TABLE, accessor="plain", dim=ROW, rule="sum")
    target = np.random.default_rng([seed, me]).integers(0, n, len(lines))
    sizes: List[int] = []
    for other in range(n):
        rows = _packed([lines[i] for i in np.flatnonzero(target == other)])
        for first in range(0, len(rows), AT_ONCE):
            some = rows[first:first + AT_ONCE]
            table.assign(_keys(me, other, first, len(some)), some)
        sizes.append(len(rows))
    said: Sequence[Sequence[int]] = fleet.util.all_gather(sizes)
    dealt = [rows for one in said if isinstance(one, list) and len(one) == n for rows in one
             if isinstance(rows, int) and rows > 0]
    if len(dealt) != n * n or sum(dealt) != table.stat().rows:
        raise DataError(f"global_shuffle: workers say that they have dealt {shown(said)} rows, but the servers have "
                        f"{table.stat().rows}")
    taken: List[bytes] = []
    for other in range(n):
        parts = [table.pull(_keys(other, me, first, min(AT_ONCE, said[other][me] - first)))
                 for first in range(0, said[other][me], AT_ONCE)]
        taken += _unpacked(np.concatenate(parts))
    fleet.barrier_worker()
    if me == 0:
        table.clear()
    fleet.barrier_worker()
    return taken
