"""tug: a parameter server, from Python.

    import numpy as np, tug

    with tug.local() as client:                       # a cluster inside this process
        table = client.table("w", dim=16, rule="adagrad:lr=0.1")
        keys = np.array([3, 7, 7], np.uint64)
        rows = table.pull(keys)                       # float32, keys.shape + (16,)
        table.push(keys, np.ones_like(rows))          # gradients; repeated keys are added up

tug.connect() joins a cluster that is already running, and tug.launch() starts one on this machine. docs/python.md is
the manual. All errors derive from tug.Error. Ctrl-C ends every wait.

SPDX-License-Identifier: Apache-2.0
"""

from typing import TYPE_CHECKING, NoReturn

from tug._build import VERSION as __version__
from tug._client import Client, connect, local
from tug._communicator import Communicator, CommunicatorStats
from tug._cv import CrossValidation, CvPass, cv
from tug._dense import Dense, operate
from tug._errors import (ArgumentTypeError, ClosedError, DataError, Error, ForkedError, InternalError, Interrupted,
                         LaunchError, OutOfMemory, SystemFailure, Timeout, UsageError, Warning)
from tug._examples import Rows
from tug._launch import Cluster, Process, launch
from tug._model import Model, load, train
from tug._passes import Pass, Progress
from tug._plots import plot_calibration, plot_history, plot_importance
from tug._request import Request
from tug._roles import role, serve
from tug._scorer import Scorer, ScorerStatus
from tug._table import Table, TableLearning, TableStats, count

__all__ = [
    "ArgumentTypeError", "Client", "ClosedError", "Cluster", "Communicator", "CommunicatorStats", "CrossValidation",
    "CvPass", "DataError", "Dense", "Error", "ForkedError", "InternalError", "Interrupted", "LaunchError", "Model",
    "OutOfMemory", "Pass", "Process", "Progress", "Request", "Rows", "Scorer", "ScorerStatus", "SystemFailure", "Table",
    "TableLearning", "TableStats", "Timeout", "UsageError", "Warning", "__version__", "connect", "count", "cv",
    "launch", "load", "local", "operate", "plot_calibration", "plot_history", "plot_importance", "role", "serve",
    "train",
]


if not TYPE_CHECKING:  # if a type checker saw it, it would accept all names
    _MODELS = "use tug.Model(model={!r}, ...) or tug.train(data, model={!r}, ...) (docs/from-xlearn-and-vw.md)"
    _ELSEWHERE = {f"create_{name}": _MODELS.format(model, model)
                  for name, model in (("ffm", "ffm"), ("fm", "fm"), ("linear", "lr"))}
    _ELSEWHERE["DMatrix"] = "give the data to tug.train or Model.train itself: a path, a frame, or a matrix and a label"
    _ELSEWHERE["plot_metric"] = "use tug.plot_history(model, 'loss') or 'auc'"
    _ELSEWHERE["plot_roc"] = "use model.report(path, data, label), a page with ROC, calibration and importance"
    _MODULES = ("fleet", "kvserver", "kvstore", "lr_scheduler", "optimizer", "sklearn", "torch")
    _ELSEWHERE.update((name, f"write import tug.{name}") for name in _MODULES)

    def __getattr__(name: str) -> NoReturn:
        why = _ELSEWHERE.get(name)
        raise AttributeError(f"tug has no {name!r}" + (f": {why}" if why else ""))
