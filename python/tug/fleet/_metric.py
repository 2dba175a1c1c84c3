"""The AUC of layers.auc. Its states are arrays with names, which count examples by prediction over all calls since the
states were zeroed.

Each pass returns counts (tug_model_spread), which are added to the states. The batch states have those of the last call
only.

SPDX-License-Identifier: Apache-2.0
"""

from typing import Any, Dict

import numpy as np
import numpy.typing as npt

from tug._errors import UsageError

STATES = ("batch_stat_pos", "batch_stat_neg", "stat_pos", "stat_neg")  # in the order of Paddle's layers.auc
SCORES = 8.0  # the library's buckets divide the scores from -SCORES to SCORES

Counts = npt.NDArray[np.float64]


def area(positive: Any, negative: Any) -> float:
    """Returns the AUC of counts that are ordered by ascending prediction; NaN if a class has no examples."""
    pos, neg = np.asarray(positive, np.float64)[::-1], np.asarray(negative, np.float64)[::-1]
    if not pos.sum() or not neg.sum():
        return float("nan")
    above = np.cumsum(pos) - pos / 2
    return float((above * neg).sum() / (pos.sum() * neg.sum()))


class Metric:
    """The states of one layers.auc."""

    def __init__(self, name: str, buckets: int) -> None:
        self.name, self.buckets = name, buckets
        self._counts: Dict[str, Counts] = {f"{name}.{one}": np.zeros(buckets) for one in STATES}

    def _by_probability(self, counts: Counts) -> Counts:
        if len(counts) == 0:
            return np.zeros(self.buckets)
        score = (np.arange(len(counts)) + 0.5) * (2 * SCORES / len(counts)) - SCORES
        place = (1 / (1 + np.exp(-score)) * (self.buckets - 1)).astype(np.int64)
        return np.bincount(place, counts, self.buckets).astype(np.float64)

    def add(self, positive: Counts, negative: Counts) -> None:
        """Adds the library's counts of one call."""
        for end, counts in (("pos", positive), ("neg", negative)):
            found = self._by_probability(counts)
            self._counts[f"{self.name}.batch_stat_{end}"] = found
            self._counts[f"{self.name}.stat_{end}"] += found

    @property
    def auc(self) -> float:
        """The AUC over all examples since the states were zeroed."""
        return area(self.state(f"{self.name}.stat_pos"), self.state(f"{self.name}.stat_neg"))

    @property
    def batch_auc(self) -> float:
        """The AUC of the examples of the last call."""
        return area(self.state(f"{self.name}.batch_stat_pos"), self.state(f"{self.name}.batch_stat_neg"))

    def state(self, name: str) -> Counts:
        """Returns a copy of a state. `name` has the metric's name and a dot before the state's."""
        if name not in self._counts:
            raise UsageError(f"there is no state '{name}'; there are {', '.join(self._counts)}")
        return self._counts[name].copy()

    def reset(self, name: str) -> None:
        """Sets a state to zeros."""
        self.state(name)
        self._counts[name] = np.zeros(self.buckets)
