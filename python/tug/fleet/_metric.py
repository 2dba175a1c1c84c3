"""AUC and its states with names (tug/metric.h), over one pass or all since they were zeroed.

SPDX-License-Identifier: Apache-2.0
"""

import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from tug._abi import ffi
from tug._arrays import Floats, of_floats, word
from tug._library import check, lib

STATES = ("batch_stat_pos", "batch_stat_neg", "stat_pos", "stat_neg")  # in the order of Paddle's layers.auc


class Metric:
    """What threads add their predictions to."""

    def __init__(self, name: str, buckets: int, window: int) -> None:
        ret = ffi.new("struct tug_metric **")
        o = ffi.new("struct tug_metric_options *", {"buckets": buckets, "window": window})
        check(lib.tug_metric_open(ret, word(name, "name"), o))
        self._c = ffi.gc(ret[0], lib.tug_metric_close)
        self._lock = threading.Lock()
        self.name, self.buckets = name, buckets

    def add(self, probabilities: Floats, labels: Floats) -> None:
        """A batch."""
        with self._lock:
            check(lib.tug_metric_add(self._c, of_floats(probabilities), of_floats(labels), len(labels)))

    def read(self) -> Any:
        """Its values: auc, batch_auc, mae, rmse, copc, ... (struct tug_metric_values)."""
        ret = ffi.new("struct tug_metric_values *")
        with self._lock:
            lib.tug_metric_read(self._c, ret)
        return ret[0]

    def state(self, name: str) -> npt.NDArray[np.float64]:
        """A state by its whole name."""
        ret = np.empty(self.buckets, np.float64)
        n = ffi.new("size_t *")
        with self._lock:
            check(lib.tug_metric_state(self._c, word(name, "name"), ffi.from_buffer("double[]", ret), len(ret), n))
        return ret[:n[0]]

    def reset(self, name: str) -> None:
        """Zeroes a state."""
        with self._lock:
            check(lib.tug_metric_reset(self._c, word(name, "name")))
