"""Bags of rows (tug/bags.h) on numpy arrays: finds the distinct keys of a batch, sums rows, and computes gradients.

SPDX-License-Identifier: Apache-2.0
"""

from typing import Optional, Tuple

import numpy as np
import numpy.typing as npt

from tug._abi import ffi
from tug._arrays import Floats, Keys, empty, of_floats, of_keys
from tug._library import check, lib

Places = npt.NDArray[np.uint32]


def distinct(keys: Keys) -> Tuple[Keys, Places]:
    """Returns the distinct keys in the order of their first occurrence, and for each given key its index among them."""
    found, which = np.empty(keys.size, np.uint64), np.empty(keys.size, np.uint32)
    n = ffi.new("size_t *")
    check(lib.tug_distinct(of_keys(keys), keys.size, of_keys(found), ffi.from_buffer("uint32_t[]", which), n))
    return found[:n[0]], which


class Bags:
    """Bags of weighted rows. Bag b has the entries i from offsets[b] up to, but without, offsets[b + 1]; entry i is row
    which[i] times weights[i]. offsets None: bag b is entry b alone. The arrays are not checked: offsets must ascend to
    which.size, and `rows` of later calls must have all rows that `which` names."""

    def __init__(self, which: Places, offsets: Optional[Keys], weights: Optional[Floats], width: int) -> None:
        self.n = which.size if offsets is None else offsets.size - 1
        self.width = width
        self._entries = which.size
        self._kept = [ffi.from_buffer("uint32_t[]", which), ffi.NULL if offsets is None else of_keys(offsets),
                      ffi.NULL if weights is None else of_floats(weights)]
        self._c = ffi.new("struct tug_bags *", {"n": self.n, "offsets": self._kept[1], "which": self._kept[0],
                                                "weights": self._kept[2], "width": width})

    def pool(self, rows: Floats) -> Floats:
        """Returns the sum of each bag."""
        sums = empty((self.n, self.width), "bags")
        lib.tug_bags_pool(self._c, of_floats(rows), of_floats(sums, True))
        return sums

    def spread(self, gradients: Floats, rows: int) -> Floats:
        """Returns the gradients with respect to each of `rows` rows, given those with respect to the sums."""
        by_rows = np.zeros((rows, self.width), np.float32)
        lib.tug_bags_spread(self._c, of_floats(gradients), of_floats(by_rows, True))
        return by_rows

    def weigh(self, rows: Floats, gradients: Floats) -> Floats:
        """Returns the gradients with respect to the weights, given those with respect to the sums."""
        by_weights = empty((self._entries,), "weights")
        lib.tug_bags_weigh(self._c, of_floats(rows), of_floats(gradients), of_floats(by_weights, True))
        return by_weights
