"""What the tests of tug.kvstore share, and the scripts that they run on a cluster.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np

SHAPE = (4, 3)


def pulled(store, key, shape=SHAPE, dtype=np.float32):
    out = np.full(shape, 77, dtype)
    store.pull(key, out=out)
    return out


def simulated(kind, threshold, g, left):
    """What compression sends of g and of what was left, and what is left then."""
    left = left + g
    if kind == "1bit":
        sent = np.where(left > threshold, np.float32(1), np.float32(-1))
    else:
        sent = np.where(left >= threshold, np.float32(threshold),
                        np.where(left <= -threshold, np.float32(-threshold), np.float32(0)))
    return sent, left - sent
