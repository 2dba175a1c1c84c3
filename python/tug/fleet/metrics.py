"""fleet.metrics: metrics over all workers, from the states of layers.auc or from sums. In a run, all workers call them
together.

SPDX-License-Identifier: Apache-2.0
"""

from typing import Any

import numpy as np

from tug._errors import ArgumentTypeError, UsageError
from tug.fleet._fleet import fleet
from tug.fleet._metric import area
from tug.fleet._program import Tensor, Variable, global_scope


def _reduced(state: Any) -> Any:
    if isinstance(state, str):
        found = global_scope().find_var(state)
        if found is None:
            raise UsageError(f"metrics: the program has no variable '{state}'")
        state = found
    if isinstance(state, Variable):
        state = Tensor(state.program, state.name)
    try:
        given = np.asarray(state, np.float64)
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(f"metrics: must be a number, an array, a variable or its name, not "
                                f"{type(state).__name__}: {error}") from error
    return fleet.util.all_reduce(given) if fleet.in_run() else given


def auc(stat_pos: Any, stat_neg: Any, scope: Any = None, util: Any = None) -> float:
    """Returns the AUC over all workers' examples; NaN if a class has no examples (Paddle returns 0.5). All workers call
    it."""
    del scope, util
    return area(_reduced(stat_pos), _reduced(stat_neg))


def sum(value: Any, scope: Any = None, util: Any = None) -> Any:  # noqa: A001
    """Returns the sum over the workers."""
    del scope, util
    return fleet.util.all_reduce(value) if fleet.in_run() else value


def max(value: Any, scope: Any = None, util: Any = None) -> Any:  # noqa: A001
    """Returns the maximum over the workers."""
    del scope, util
    return fleet.util.all_reduce(value, "max") if fleet.in_run() else value


def min(value: Any, scope: Any = None, util: Any = None) -> Any:  # noqa: A001
    """Returns the minimum over the workers."""
    del scope, util
    return fleet.util.all_reduce(value, "min") if fleet.in_run() else value


def acc(correct: Any, total: Any, scope: Any = None, util: Any = None) -> float:
    """Returns the accuracy over all workers, correct / total; NaN without examples. All workers call it."""
    del scope, util
    right, n = (float(np.sum(_reduced(one))) for one in (correct, total))
    return right / n if n else float("nan")


def mae(abserr: Any, total_ins_num: Any, scope: Any = None, util: Any = None) -> float:
    """Returns the mean absolute error over all workers. abserr: the sum over this worker's examples. All workers call
    it."""
    return acc(abserr, total_ins_num, scope, util)


def mse(sqrerr: Any, total_ins_num: Any, scope: Any = None, util: Any = None) -> float:
    """Returns the mean squared error over all workers. sqrerr: the sum over this worker's examples. All workers call
    it."""
    return acc(sqrerr, total_ins_num, scope, util)


def rmse(sqrerr: Any, total_ins_num: Any, scope: Any = None, util: Any = None) -> float:
    """Returns the root of the mean squared error over all workers; see mse."""
    return float(np.sqrt(mse(sqrerr, total_ins_num, scope, util)))
