"""Helpers for the tests of tug.kvstore, and for the scripts that these tests run on a cluster.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np

SHAPE = (4, 3)


def pulled(store, key, shape=SHAPE, dtype=np.float32):
    out = np.full(shape, 77, dtype)
    store.pull(key, out=out)
    return out


def simulated(kind, threshold, g, left):
    """Returns what gradient compression sends for the gradient g and the earlier remainder `left`, and the new
    remainder."""
    left = left + g
    if kind == "1bit":
        sent = np.where(left > threshold, np.float32(1), np.float32(-1))
    else:
        sent = np.where(left >= threshold, np.float32(threshold),
                        np.where(left <= -threshold, np.float32(-threshold), np.float32(0)))
    return sent, left - sent
