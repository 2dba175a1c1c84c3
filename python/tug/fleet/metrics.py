"""fleet.metrics: of all workers together, by states that layers.auc has.

SPDX-License-Identifier: Apache-2.0
"""

from typing import Any

import numpy as np

from tug.fleet._fleet import fleet
from tug.fleet._metric import area
from tug.fleet._program import Tensor, Variable


def _reduced(state: Any) -> Any:
    if isinstance(state, Variable):
        state = Tensor(state.program, state.name)
    given = np.asarray(state, np.float64)
    return fleet.util.all_reduce(given) if fleet.in_run() else given


def auc(stat_pos: Any, stat_neg: Any, scope: Any = None, util: Any = None) -> float:
    """The AUC of all workers' examples, NaN without both classes (Paddle: 0.5). All workers call it."""
    del scope, util
    return area(_reduced(stat_pos), _reduced(stat_neg))


def sum(value: Any, scope: Any = None, util: Any = None) -> Any:  # noqa: A001
    """The sum over the workers."""
    del scope, util
    return fleet.util.all_reduce(value) if fleet.in_run() else value
