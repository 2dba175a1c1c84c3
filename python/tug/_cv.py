"""Cross-validation of models.

SPDX-License-Identifier: Apache-2.0
"""

import math
import re
from typing import Any, List, NamedTuple, Optional, Tuple

import numpy as np

from tug._arrays import whole
from tug._errors import ArgumentTypeError, Error
from tug._model import Weight, train
from tug._passes import Hears, Pass

_ELSEWHERE = ("valid", "out", "patience", "refit", "resume", "table", "test", "publish", "history",
              "init_from", "tfevents")
_OF_VALID = (  # errors about the option `valid`, which cv sets for each run, reworded for `folds`
    (re.compile(r"\bvalid=\S+ leaves none of the (\d+) examples to (\w+ on):.*", re.DOTALL),
     r"folds={folds}: one of the parts leaves none of the \1 examples to \2; use fewer folds"),
    (re.compile(r"\bvalid(?:='?[0-9./]+'?(?=:)|(?=:| and ))"), "folds={folds}"))


class CvPass(NamedTuple):
    """One pass over all runs: the mean of the validation loss and AUC, and the standard deviations. None: not
    measured."""

    pass_: int
    loss: Optional[float]
    loss_deviation: Optional[float]
    auc: Optional[float]
    auc_deviation: Optional[float]


class CrossValidation(NamedTuple):
    """The result of tug.cv."""

    passes: List[CvPass]
    best: CvPass  # the pass with the smallest mean loss
    folds: List[List[Pass]]  # the history of each run, one for each part


def _mean(found: List[Optional[float]]) -> Tuple[Optional[float], Optional[float]]:
    """Returns mean and standard deviation; (None, None) if a run has no value."""
    there = [x for x in found if x is not None]
    return (None, None) if len(there) < len(found) else (float(np.mean(there)), float(np.std(there)))


def _mean_of(runs: List[Pass]) -> CvPass:
    return CvPass(runs[0].pass_, *_mean([p.valid_loss for p in runs]), *_mean([p.valid_auc for p in runs]))


def _runs(folds: int, data: Any, label: Any, **options: Any) -> List[List[Pass]]:
    found = []
    try:
        for part in range(1, folds + 1):
            with train(data, label, valid=f"{part}/{folds}", alone=True, patience=0, **options) as model:
                found.append(model.history)
    except Error as error:
        text = str(error)
        for pattern, instead in _OF_VALID:
            text = pattern.sub(instead.format(folds=folds), text)
        error.args = (text,)
        raise
    return found


def cv(data: Any, label: Any = None, *, folds: int = 5, weight: Weight = None,
       categorical: Optional[List[str]] = None, progress: Hears = False, **options: Any) -> CrossValidation:
    """Cross-validates: splits the data into `folds` parts and trains one model for each part. The model is trained on
    all other parts, and validated on its part after each pass. Keywords are the options of tug.train. The option seed
    determines the parts.

        found = tug.cv(frame, label="clicked", model="fm", epochs=10)
        print(found.best.pass_, found.best.auc, found.best.auc_deviation)
    """
    for name in _ELSEWHERE:
        if options.get(name) is not None:
            raise ArgumentTypeError(f"cv: does not take {name}=: cv validates each model on a part of the data, makes "
                                    "all passes, and keeps none of the models")
    found = _runs(whole(folds, "folds", 2, 1000), data, label, weight=weight, categorical=categorical,
                  progress=progress, **options)
    passes = [_mean_of(list(of_pass)) for of_pass in zip(*found)]
    return CrossValidation(passes, min(passes, key=lambda p: math.inf if p.loss is None else p.loss), found)
