"""Examples as a dataset holds them: columns of values, cut into examples.

SPDX-License-Identifier: Apache-2.0
"""

from typing import NamedTuple, Sequence

import numpy as np
import numpy.typing as npt


class Lines(NamedTuple):
    """Examples as the slots have them: of example i values start[i] to start[i + 1] - 1."""

    start: npt.NDArray[np.int64]
    slot: npt.NDArray[np.uint16]  # place in use_var
    raw: npt.NDArray[np.uint64]  # ids; of numbers their places
    value: npt.NDArray[np.float32]  # numbers; 1 of ids

    def take(self, order: npt.NDArray[np.int64]) -> "Lines":
        """These examples, in this order."""
        sizes = self.start[order + 1] - self.start[order]
        start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        at = np.repeat(self.start[order] - start[:-1], sizes) + np.arange(start[-1])
        return Lines(start, self.slot[at], self.raw[at], self.value[at])

    @property
    def n(self) -> int:
        """Examples."""
        return len(self.start) - 1


def joined(parts: Sequence[Lines]) -> Lines:
    """One behind the other."""
    if not parts:
        return Lines(np.zeros(1, np.int64), *(np.zeros(0, t) for t in (np.uint16, np.uint64, np.float32)))
    starts, end = [np.zeros(1, np.int64)], 0
    for part in parts:
        starts.append(part.start[1:] + end)
        end += int(part.start[-1])
    return Lines(np.concatenate(starts), *(np.concatenate([getattr(p, f) for p in parts])
                                           for f in ("slot", "raw", "value")))
