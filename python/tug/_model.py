"""Models (tug/train.h): trains, evaluates, predicts and saves, on files, matrices and data frames.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import json
import math
import os
import re
import threading
import time
import weakref
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple, TypeVar, Union

import numpy as np
import numpy.typing as npt

from tug import _disk, _html, _plots
from tug._abi import ffi
from tug._arrays import Floats, Path, instance, of_floats, whole, word
from tug._client import Client
from tug._errors import ArgumentTypeError, Error, UsageError, warn_of
from tug._examples import Examples, categorical_names, is_names, paths_of, words_of
from tug._frames import far_numbers, is_frame
from tug._library import (OwnedHandle, hearing, last_warnings, lib, opened, raise_after_call, text_of,
                          warn_after_call)
from tug._options import Option, option_words
from tug._passes import Hears, OnPass, Pass, Printer, Progress, pass_of
from tug._roles import serve_and_exit
from tug._saved import read_save, write_save

Found = TypeVar("Found")
Weight = Union[None, int, str, npt.ArrayLike]
_KEPT: Any = object()  # the default of arguments whose value is that of the copied model
_OF_ONE = {"init-from", "resume", "out", "publish", "history", "dump", "tfevents"}  # options that a copy does not get
_OF_COLUMNS = {"drop", "label", "lists", "numeric", "weight-column"}  # options that name columns


class Place(NamedTuple):
    """The cluster or process that trains a model."""

    alone: bool
    client: Optional[Client]
    own_files: bool


class Model(OwnedHandle):
    """A model as `tug train` trains it, in this process or as one worker of a cluster. Keywords are the command's long
    options, with _ for -.

    progress: None prints progress in terminals and notebooks, False never. A function is called with a Progress a few
    times a second (with log_every=N, every N batches) and at the end of each pass, on the training thread; it must not
    use the model. on_pass: a function that is called in the same way with a Pass at the end of each pass; `history` has
    all of them. alone: train in this process, even if the environment gives it a role in a cluster. client: the client
    of the cluster to train on, which must outlive the model; None: the cluster that the environment names. own_files:
    each worker of the cluster has files of its own.

    Several threads may use a model: its calls run one at a time, and each returns its own results. Matrices of float32
    and float64, Rows and columns are not copied. A model can be copied and pickled; the copy has all that was learnt,
    and is independent of the original. Methods raise ArgumentTypeError for an unknown option or a wrong type of data,
    UsageError for a wrong option or data that does not fit the model, and DataError, which names the file and line or
    the row. A call that raises, even KeyboardInterrupt, leaves the model unchanged."""

    def __init__(self, *, progress: Hears = None, on_pass: OnPass = None, alone: bool = False,
                 client: Optional[Client] = None, own_files: bool = False, **options: Option) -> None:
        self._open(None, progress, Place(alone, client, own_files), option_words("Model", "train", options), on_pass)

    def _open(self, saved: Optional[Path], progress: Hears, place: Place, words: Optional[List[str]],
              on_pass: OnPass = None) -> None:
        self._turn = threading.RLock()  # held until a call has read its results, which the next call replaces
        self._opened_by = (progress, Place(place.alone, None, False), words, on_pass)
        self._removed: Optional[Callable[[], Any]] = None  # removes the save that a copy began with
        self.results: Dict[str, float] = {}  # the results of the last train()
        # the number of columns of the matrices that the model was trained on; None: not known yet
        self._width: Optional[int] = None
        self._importance: Optional[List[Dict[str, Any]]] = None  # of the last importance(), which notebooks show
        kept: List[Any] = []
        c = ffi.NULL if words is None else self._options(progress, on_pass, place, words, kept)
        m = (opened(lib.tug_model_open, lib.tug_model_close, c) if saved is None
             else opened(lib.tug_model_load, lib.tug_model_close, word(saved, "path"), c))
        super().__init__("model", m, lib.tug_model_close)
        self._warned_at_opening = last_warnings()
        for text in self._warned_at_opening:
            warn_of(text)

    def _options(self, progress: Hears, on_pass: OnPass, place: Place, words: List[str], kept: List[Any]) -> Any:
        """Returns a struct tug_model_options. Its texts are appended to `kept`, which must live until the model is
        open."""
        c = ffi.new("struct tug_model_options *", {"alone": place.alone, "own_files": place.own_files})
        c.options, texts = both = words_of(words)
        c.n_options = len(words)
        kept += both
        if place.client is not None:
            self._client = instance(place.client, Client, "client")
            c.client = self._client._opened
        by_batches = any(word.startswith("log-every=") for word in words)
        printer = Printer(by_batches) if progress is None or progress is True else progress or None
        if printer is not None:
            if not callable(printer):
                raise ArgumentTypeError(f"progress: must be a function or a bool, not {type(progress).__name__}")
            hears: Callable[[Progress], None] = printer
            c.progress = self._hears = self._callback("tug_progress", lambda p: hears(
                Progress(getattr(p, "pass"), p.passes, p.share, bool(p.done), p.examples, p.loss, p.auc, p.valid_loss,
                         p.valid_auc)))
        if on_pass is not None:
            if not callable(on_pass):
                raise ArgumentTypeError(f"on_pass: must be a function, not {type(on_pass).__name__}")
            hears_pass: Callable[[Pass], None] = on_pass
            c.on_pass = self._hears_of_passes = self._callback("tug_pass", lambda p: hears_pass(pass_of(p)))
        return c

    def _callback(self, struct: str, hear: Callable[[Any], None]) -> Any:
        def told(_context: Any, p: Any) -> None:
            with hearing():
                hear(p)

        def caught(_kind: Any, error: BaseException, _trace: Any) -> None:
            raise_after_call(error)
            lib.tug_model_interrupt(self._c)

        return ffi.callback(f"void (*)(void *, const struct {struct} *)", told, onerror=caught)

    def _ask(self, read: Callable[[Any], Found], function: Any, *args: Any) -> Found:
        """Calls function(model, *args), and returns read(model), which gets the result from the library. Both run under
        one lock, because another call would replace the result."""
        found: List[Found] = []

        def ask(m: Any) -> int:
            status: int = function(m, *args)
            if status == 0:
                found.append(read(m))
            return status

        self._check_process()
        with self._turn:
            self._run(ask)
        return found[0]

    def _read(self, read: Callable[[Any], Found]) -> Found:
        return self._ask(read, lambda _model: 0)

    def _examples(self, data: Any, label: Any, name: str = "data", **further: Any) -> Examples:
        if is_names(label):
            self._check_label(label, name)
            label = None
        examples = Examples(data, label, "label" if name == "data" else name, **further)
        if self._width is None and examples.width is not None and self.labels:
            self._width = self._read(lambda m: int(lib.tug_model_columns(m)))
        if examples.width is not None and self._width and examples.width != self._width:
            raise UsageError(f"{name}: the matrix has {examples.width} columns, but the model was trained on "
                             f"{self._width}: give the same columns in the same order")
        return examples

    def _check_label(self, label: Any, name: str) -> None:
        """Raises an error if a call names another column of labels than the model's option."""
        mine = [label] if isinstance(label, str) else list(label)
        known = next((option.partition("=")[2].split(",") for option in self._opened_by[2] or []
                      if option.startswith("label=")), None) or self.labels
        if mine != known:
            said = repr(label) if isinstance(label, str) else repr(mine)
            is_known = f"this model has {', '.join(map(repr, known))}" if known else "this model has none"
            raise UsageError(f"{'label' if name == 'data' else name}: the column of the label is an option of the model"
                             f", and {is_known}: use tug.train(data, label={said}) or tug.Model(label={said})")

    def _warn_of_far_numbers(self, data: Any, categorical: Any) -> None:
        given = self._opened_by[2] or []
        if self.labels or any(option.startswith(("init-from=", "resume=")) for option in given):
            return  # a trained model knows its columns already
        known = set() if categorical is None else set(categorical_names(data, categorical))
        for option in given:
            name, _, value = option.partition("=")
            if name in _OF_COLUMNS:
                known |= {part.split(":")[0] for part in value.split(",")}
        if far := far_numbers(data, known):
            names, one = ", ".join(map(repr, far)), len(far) == 1
            columns = f"the column {names} has large numbers, and is" if one else f"the columns {names} have large " \
                "numbers, and are"
            warn_of(f"data: {columns} taken as numbers: list ids and codes in categorical=, real numbers in "
                    f"numeric= (as numeric='{far[0]}:log' or '{far[0]}:bins:32'), and columns without "
                    "information in drop=")

    def train(self, data: Any, label: Any = None, *, weight: Weight = None, valid: Any = None,
              categorical: Union[None, str, List[str]] = None) -> "Model":
        """Trains for `epochs` passes (an option of the model), continuing from its current state, and returns the model
        itself. data: a path or a list of paths; a numpy matrix, a sparse one of scipy, or Rows, with `label`, a number
        for each row; or a data frame. weight: for each row a factor of its loss, not negative. valid: validation data,
        as a path, (data, label) or (data, label, weight). Afterwards `results` has the metrics and times of the whole
        training, and `history` has those of each pass. Raises SystemFailure if a worker of the cluster has died or
        left."""
        examples = self._examples(data, label, categorical=categorical, weight=weight)
        if is_frame(data):
            self._warn_of_far_numbers(data, categorical)
        held = None
        if valid is not None:
            with _named("valid"):
                beside = _pair(valid)
                held = self._examples(beside[0], beside[1], "valid", weight=beside[2])
            if None not in (examples.width, held.width) and examples.width != held.width:
                raise UsageError(f"valid: the matrix has {held.width} columns, but that of data has {examples.width}")
        self.results = self._ask(_results_of, lib.tug_model_train, examples.c, ffi.NULL if held is None else held.c)
        self._importance = None
        self._width = None  # later matrices may have more columns
        for text in last_warnings():
            if text not in self._warned_at_opening:
                warn_of(text)
        return self

    def evaluate(self, data: Any, label: Any = None, *, weight: Weight = None,
                 **options: Option) -> Dict[str, Any]:
        """Returns metrics by name: examples, auc, logloss, copc and the others of `tug eval --json`. A metric that is
        not defined is NaN. With several labels, "auc" is that of the first label, and the others are named like
        "label:auc". The data is given as in train(); keywords are the options of `tug eval`. by=["ad"] adds "by", a
        dictionary whose "table" has the metrics for each value of the column; importance=True and calibration=True add
        the results of importance() and calibration()."""
        words, kept = words_of(given := option_words("evaluate", "eval", options))
        examples = self._examples(data, label, weight=weight)
        found = self._ask(_evaluation_of, lib.tug_model_evaluate, examples.c, words, len(given))
        warn_after_call()
        del examples, kept
        return found

    def importance(self, data: Any, label: Any = None, *, weight: Weight = None,
                   **options: Option) -> List[Dict[str, Any]]:
        """Returns the importance of each column on data with labels: a dictionary for each column, with "column",
        "auc_drop" (the loss of AUC if each example gets this column's features from another, random example),
        "logloss_rise" and "unknown" (the share of its values that the model does not know); the most important column
        comes first. only=["user", "user+ad"] measures these columns, and several columns together. The data and the
        other keywords are those of evaluate(). Columns of a numpy matrix are given and named by their numbers, and have
        no "unknown"."""
        if isinstance(data, np.ndarray) and data.ndim == 2 and data.dtype.names is None:
            found = self._worth(data, label, weight, options)
        else:
            found = self.evaluate(data, label, weight=weight, importance=True, **options)["importance"]
        self._importance = [dict(one) for one in found]
        return found

    def _worth(self, matrix: npt.NDArray[Any], label: Any, weight: Any,
               options: Dict[str, Any]) -> List[Dict[str, Any]]:
        only = options.pop("only", None)
        columns = range(matrix.shape[1]) if only is None else [
            whole(c, "only", 0, matrix.shape[1] - 1) for c in (only if isinstance(only, (list, tuple)) else [only])]
        first = self.evaluate(matrix, label, weight=weight, **options)
        squared = bool(np.isnan(first["auc"]) and np.isclose(first["rmse"] ** 2, first["logloss"]))
        whole_loss, whole_auc = first["logloss"], first["auc"]
        changed, partners = matrix.copy(), np.random.default_rng(0).permutation(len(matrix))
        found: List[Dict[str, Any]] = []
        for column in columns:
            changed[:, column] = matrix[partners, column]
            loss, auc = self._scored(changed, label, weight, squared)
            changed[:, column] = matrix[:, column]
            found.append({"column": int(column), "auc_drop": whole_auc - auc, "logloss_rise": loss - whole_loss,
                          "auc": auc, "logloss": loss})
        by = "logloss_rise" if np.isnan(whole_auc) else "auc_drop"
        return sorted(found, key=lambda one: float(-one[by]))

    def _scored(self, matrix: npt.NDArray[Any], label: Any, weight: Any, squared: bool) -> Tuple[float, float]:
        """Returns loss and AUC without the warnings of evaluate(): with a shuffled column, bad metrics are expected."""
        y = np.asarray(label, np.float64)
        w = np.ones(len(y)) if weight is None else np.asarray(weight, np.float64)
        scores = self.predict(matrix, raw=True).astype(np.float64)
        if squared:
            return float(np.average((scores - y) ** 2, weights=w)), math.nan
        loss = np.average(np.logaddexp(0, scores) - np.where(y > 0, scores, 0), weights=w)
        _, tie = np.unique(scores, return_inverse=True)
        positive, negative = np.bincount(tie, w * (y > 0)), np.bincount(tie, w * (y <= 0))
        below = np.cumsum(negative) - negative
        pairs = positive.sum() * negative.sum()
        return float(loss), float((positive * (below + negative / 2)).sum() / pairs) if pairs > 0 else math.nan

    def calibration(self, data: Any, label: Any = None, *, weight: Weight = None,
                    **options: Option) -> List[Dict[str, Any]]:
        """Compares predictions with observed labels. Returns ten bins with equally many examples each, from the lowest
        predictions to the highest, as dictionaries with "predicted" (the mean prediction), "observed" (the share of
        positives), its 95 % interval from "low" to "high", "examples", "weight", "from" and "to" (the range of the
        bin's predictions). The data and keywords are those of evaluate()."""
        found: List[Dict[str, Any]] = self.evaluate(data, label, weight=weight, calibration=True,
                                                    **options)["calibration"]
        return found

    def predict(self, data: Any, **options: Option) -> Floats:
        """Returns a prediction for each example as a new float32 array of shape (n,), or (n, labels) with several
        labels. Predictions are probabilities, or numbers if the model has loss="squared"; with raw=True they are
        scores. The data is given as in train(); labels in it are ignored. A line that max_bad_lines allows to skip has
        the prediction NaN."""
        words, kept = words_of(given := option_words("predict", "predict", options))
        examples = self._examples(data, None)
        self._check_process()
        with self._turn:
            labels = max(len(self.labels), 1)
            room = None if examples.n is None else np.empty(examples.n * labels, np.float32)
            to, size = (ffi.NULL, 0) if room is None else (of_floats(room, written=True), room.size)
            ret = self._ask(lambda m: _predictions_of(m) if room is None else room, lib.tug_model_predict,
                            examples.c, words, len(given), to, size, ffi.new("size_t *"))
            warn_after_call()
        del examples, kept
        return ret if labels == 1 else ret.reshape(-1, labels)

    def explain(self, data: Any, **options: Option) -> List[Dict[str, Any]]:
        """Explains each prediction, as `tug predict --explain --json` does. Returns a dictionary for each example, with
        its position ("row", or "file" and "line"), the score, the bias, "features" (first those whose removal changes
        the score most) and "largest_pairs". top: how many pairs are
        returned at most (default 10)."""
        words, kept = words_of(given := option_words("explain", "predict", options))
        examples = self._examples(data, None)
        text = ffi.new("char **")
        lines = self._ask(lambda _model: text_of(text[0]), lib.tug_model_explain, examples.c, words, len(given), text)
        warn_after_call()
        in_memory = not examples.files
        del examples, kept
        found = [json.loads(line) for line in lines.split("\n") if line]
        if in_memory:  # examples in memory are named by rows, counted from 0 as in errors
            found = [{"row": example.pop("line"), **{k: v for k, v in example.items() if k != "file"}}
                     for example in found]
        for feature in (f for example in found for f in example.get("features", ())):
            feature["key"] = int(feature["key"])  # a string in JSON, because 64-bit keys are too large for JSON numbers
        return found

    def spread(self) -> Tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Returns two histograms of the predictions of the last evaluate(), or of the last pass of train()
        (tug_model_spread): the weights of the positive and of the other examples in buckets of the score, as two
        float64 arrays of the same length. They are empty if there was no such call."""
        return self._read(_spread_of)

    @property
    def history(self) -> List[Pass]:
        """A Pass for each pass so far, including those before a save and load. With several labels, the figures are
        those of the first one."""
        return self._read(_history_of)

    @property
    def labels(self) -> List[str]:
        """The names of an example's labels ("" for a label without a name); empty if the model was not trained."""
        return self._read(lambda m: [text_of(lib.tug_model_label(m, i)) for i in range(lib.tug_model_labels(m))])

    def plot_history(self, metric: str = "loss", **look: Any) -> Any:
        """Calls tug.plot_history for this model, and returns the axes of matplotlib."""
        return _plots.plot_history(self, metric, **look)

    def plot_calibration(self, data: Any, label: Any = None, **more: Any) -> Any:
        """Calls tug.plot_calibration for this model, and returns the axes of matplotlib."""
        return _plots.plot_calibration(self, data, label, **more)

    def plot_importance(self, data: Any, label: Any = None, **more: Any) -> Any:
        """Calls tug.plot_importance for this model, and returns the axes of matplotlib."""
        return _plots.plot_importance(self, data, label, **more)

    def _of_history(self) -> Dict[str, float]:
        """Returns the part of `results` that follows from the history, for a loaded model, which has no results."""
        passes, found = self.history, {}
        best = next((p for p in reversed(passes) if p.best), None)
        if passes:
            found.update({"examples": passes[-1].examples, "train.auc": passes[-1].auc,
                          "train.logloss": passes[-1].loss})
        if best is not None:
            found.update({"valid.auc": best.valid_auc, "valid.logloss": best.valid_loss})
        return {name: math.nan if x is None else x for name, x in found.items()}

    def _repr_html_(self) -> str:
        """Returns what a notebook shows of the model: metrics, the curves of its passes, and the most important columns
        of the last importance()."""
        if self.closed:
            return _html.notice("is closed")
        if not self._turn.acquire(blocking=False):
            return _html.notice("is being used by another thread")
        try:
            return _html.screen(self._opened_by[2], self.results or self._of_history(), self.history, self.labels,
                                self._importance)
        finally:
            self._turn.release()

    def save(self, directory: Path) -> None:
        """Saves the model into a directory that is empty or does not exist, like --out of `tug train`; tug.load opens
        it. The save becomes visible only when it is complete. Raises UsageError if the directory has other files, or
        the model was not trained."""
        self._run(lib.tug_model_save, word(directory, "directory"))

    def report(self, path: Path, data: Any = None, label: Any = None, *, weight: Weight = None) -> None:
        """Writes an HTML page about the model: its passes and options, and, if `data` with labels is given (as in
        train()), its metrics, ROC, calibration, predictions and the importance of columns on this data. The page needs
        neither scripts nor a network. path: a new file or an earlier report, which is replaced. Raises UsageError if
        the file is something else, or the model was not trained."""
        if data is None:
            self._run(lib.tug_model_report, word(path, "path"))
        else:
            self.evaluate(data, label, weight=weight, report=os.fspath(path))

    def __reduce__(self) -> Tuple[Any, ...]:
        return _copy_of, (read_save(self.save) if self.labels else None, *self._opened_by, self.results)

    def with_options(self, *, progress: Hears = _KEPT, on_pass: OnPass = _KEPT, alone: Optional[bool] = None,
                     **options: Option) -> "Model":
        """Returns a copy of the model with these options changed; None resets an option. Options that determine the
        model's shape cannot change. The copy does not get this model's options init_from, resume, out,
        publish, history, dump and tfevents, unless they are given again."""
        words = option_words("with_options", "train", options)
        changed = _OF_ONE | {keyword.replace("_", "-") for keyword in options}
        hears, place, mine, hears_of_passes = self._opened_by
        words = [word for word in mine or [] if word.partition("=")[0] not in changed] + words
        return _copy_of(read_save(self.save), hears if progress is _KEPT else progress,
                        Place(place.alone if alone is None else alone, None, False), words,
                        hears_of_passes if on_pass is _KEPT else on_pass, self.results)

    def close(self) -> None:
        """Frees the model; training that was not saved is lost."""
        mine = not self.closed
        super().close()
        if mine and self._removed is not None:
            self._removed()
        if mine:
            _disk.sweep()


def _results_of(m: Any) -> Dict[str, float]:
    found: Dict[str, float] = {}
    name, value = ffi.new("char **"), ffi.new("double *")
    while lib.tug_model_result(m, len(found), name, value):
        found[text_of(name[0])] = value[0]
    return found


def _history_of(m: Any) -> List[Pass]:
    found: List[Pass] = []
    c = ffi.new("struct tug_pass *")
    while lib.tug_model_pass(m, len(found), 0, c):
        found.append(pass_of(c))
    return found


def _evaluation_of(m: Any) -> Dict[str, Any]:
    return {**_results_of(m), **json.loads(text_of(lib.tug_model_tables(m)))}


def _copied(at: Any, n: int, kind: Any) -> npt.NDArray[Any]:
    return np.frombuffer(ffi.buffer(at, n * np.dtype(kind).itemsize), kind).copy() if n > 0 else np.empty(0, kind)


def _predictions_of(m: Any) -> Floats:
    n = ffi.new("size_t *")
    at = lib.tug_model_predictions(m, n)
    return _copied(at, n[0], np.float32)


def _spread_of(m: Any) -> Tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    found = ffi.new("double *[2]")
    n = lib.tug_model_spread(m, found, found + 1)
    return _copied(found[0], n, np.float64), _copied(found[1], n, np.float64)


def _copy_of(saved: Optional[Dict[str, bytes]], progress: Hears, place: Place, words: Optional[List[str]],
             on_pass: OnPass, results: Dict[str, float]) -> Model:
    model = Model.__new__(Model)
    directory = write_save(saved) if saved is not None else None
    try:
        model._open(directory, progress, place, words, on_pass)
    except BaseException:
        _disk.remove_of_process(directory)
        raise
    model._removed = weakref.finalize(model, _disk.remove_of_process, directory)
    model.results = dict(results)
    return model


_PART = re.compile(r"[0-9]+/[0-9]+")  # the option `valid` as a part of the data


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """A context in which errors about data begin with the argument's name, such as "valid"."""
    try:
        yield
    except Error as error:
        first, colon, rest = str(error).partition(": ")
        if first == "data":
            error.args = (f"{name}: {rest}",)
        elif first in ("label", "weight") and colon:
            error.args = (f"{name}: {error}",)
        raise


def _pair(given: Any) -> Tuple[Any, Any, Any]:
    """Splits the argument `valid` or `test` into data, label and weight."""
    if isinstance(given, tuple) and len(given) in (2, 3) and paths_of(given) is None:
        return given[0], given[1], given[2] if len(given) == 3 else None
    return given, None, None


def _test(model: Model, test: Any, group: Option) -> None:
    """Evaluates the model on `test`, data in memory, and adds the metrics to its results."""
    began = time.monotonic()
    data, label, weight = _pair(test)
    with _named("test"):
        found = model.evaluate(data, label, weight=weight, group=group)
    del found["examples"]
    model.results.update({f"test.{name}": value for name, value in found.items()})
    seconds = time.monotonic() - began
    for name in ("test_seconds", "total_seconds"):
        model.results[name] += seconds


def train(data: Any, label: Any = None, *, weight: Weight = None, valid: Any = None, test: Any = None,
          progress: Hears = None, on_pass: OnPass = None, alone: bool = False, client: Optional[Client] = None,
          own_files: bool = False, categorical: Union[None, str, List[str]] = None, **options: Option) -> Model:
    """Trains a model and returns it. `data` can be a path or a list of paths (with format=...; `label` names the column
    of csv files); a numpy matrix, a sparse matrix of scipy, or Rows, with `label`, a number for each row; or a data
    frame of pandas, a dictionary of arrays, or an object that exports Arrow data (pyarrow, polars, duckdb), where
    `label` is a column's name or a number for each row. In a data frame, texts, bools and categories are categorical;
    numbers are numeric unless `categorical` names their column; a list holds several values.

        model = tug.train(frame, label="clicked", categorical=["user"], model="fm")
        model = tug.train("day.tsv", format="criteo", model="deepfm", epochs=2, valid=0.1)
        model = tug.train(X, y, model="fm", dim=8, valid=(X_valid, y_valid))

    Keywords are the long options of `tug train`, with _ for -. weight: a factor of the loss for each row. valid:
    validation data, as a share of the data such as 0.1, a part of it such as "2/5", a path, a frame, (data, label) or
    (data, label, weight). test: data on which the trained model is evaluated, given like valid, but not as a share;
    `results` has its metrics, such as "test.auc". Ctrl-C ends training and leaves no unfinished files.

    `tug launch --servers S --workers W -- python3 script.py` starts the script in all roles. In this call the servers
    and the scheduler then serve and exit, and the workers train together; see Model."""
    serve_and_exit(alone or client is not None)
    named = False  # whether `weight` named a column
    if is_names(label) or (np.isscalar(label) and is_frame(data)):  # columns of a frame may have numbers as names
        options["label"] = label if is_names(label) else str(label)
        label = None
    if isinstance(weight, str) or (np.isscalar(weight) and is_frame(data)):
        if options.get("weight_column") is not None:
            raise UsageError("weight: is given, and so is weight_column: give only one of them")
        options["weight_column"] = str(weight)
        weight = None
        named = True
    if isinstance(valid, (bool, np.bool_)):
        raise ArgumentTypeError(f"valid: must be a share of the data as 0.1, a part as '2/5', or data, not {valid}")
    if isinstance(valid, (int, float, np.floating)):
        options["valid"] = float(valid)
        valid = None
    elif isinstance(valid, str) and _PART.fullmatch(valid):
        options["valid"] = valid
        valid = None
    if isinstance(test, (bool, np.bool_)):
        raise ArgumentTypeError(f"test: must be data, not {test}")
    if test is not None and paths_of(test) is not None:
        options["test"], test = test, None
    model = Model(progress=progress, on_pass=on_pass, alone=alone, client=client, own_files=own_files, **options)
    try:
        model.train(data, label, weight=weight, valid=valid, categorical=categorical)
        if test is not None:
            _test(model, test, options.get("group"))
        return model
    except BaseException as error:
        model.close()
        if named and isinstance(error, Error):
            error.args = (str(error).replace("weight_column", "weight"),)
        raise


def load(path: Path, *, progress: Hears = None, on_pass: OnPass = None, alone: bool = False,
         client: Optional[Client] = None, own_files: bool = False, **options: Option) -> Model:
    """Loads a model that Model.save or `tug train --out` has saved. path: a save, or a directory, whose newest save is
    loaded. If the options of the training are given, as keywords of tug.train, train() can continue it; without any
    options the model cannot be trained. Raises DataError if there is no save."""
    model = Model.__new__(Model)
    words = option_words("load", "train", options) if options else None
    model._open(path, progress, Place(alone, client, own_files), words, on_pass)
    return model
