"""Cross-validation of models.

SPDX-License-Identifier: Apache-2.0
"""

from typing import Any, List, NamedTuple, Optional

import numpy as np
import numpy.typing as npt

from tug._arrays import whole
from tug._errors import ArgumentTypeError
from tug._model import Hears, Pass, train

_ELSEWHERE = ("valid", "out", "patience", "refit", "resume", "test")


class CvPass(NamedTuple):
    """A pass of all runs: the mean of their validation, and its standard deviation."""

    pass_: int
    loss: float
    loss_deviation: float
    auc: float
    auc_deviation: float


class CrossValidation(NamedTuple):
    """What cv found."""

    passes: List[CvPass]
    best: CvPass  # that with the smallest loss
    folds: List[List[Pass]]  # the history of each run


def _mean_of(runs: List[Pass]) -> CvPass:
    loss, auc = np.array([p.valid_loss for p in runs]), np.array([p.valid_auc for p in runs])
    return CvPass(runs[0].pass_, float(loss.mean()), float(loss.std()), float(auc.mean()), float(auc.std()))


def cv(data: Any, label: Any = None, *, folds: int = 5, weight: Optional[npt.ArrayLike] = None,
       categorical: Optional[List[str]] = None, progress: Hears = False, **options: Any) -> CrossValidation:
    """Cross-validation: `folds` models, each trained as by tug.train and validated after each pass on another of so
    many parts of the data, which it is not trained on. Keywords are the options of tug.train; the parts follow from
    the option seed.

        found = tug.cv(frame, label="clicked", model="fm", epochs=10)
        print(found.best.pass_, found.best.auc, found.best.auc_deviation)
    """
    for name in _ELSEWHERE:
        if options.get(name) is not None:
            raise ArgumentTypeError(f"cv: has no option '{name}': each model is validated on a part of the data after "
                                    "all passes, and none is kept")
    runs = []
    for part in range(1, whole(folds, "folds", 2, 1000) + 1):
        with train(data, label, weight=weight, valid=f"{part}/{folds}", categorical=categorical, progress=progress,
                   alone=True, patience=0, **options) as model:
            runs.append(model.history)
    passes = [_mean_of(list(of_pass)) for of_pass in zip(*runs)]
    return CrossValidation(passes, min(passes, key=lambda p: p.loss), runs)
