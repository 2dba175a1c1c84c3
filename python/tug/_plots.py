"""Plots of a model, drawn by matplotlib, which is imported by the first plot.

SPDX-License-Identifier: Apache-2.0
"""

import math
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from tug._arrays import instance, whole
from tug._errors import ArgumentTypeError, UsageError
from tug._options import Option
from tug._passes import Pass

if TYPE_CHECKING:
    from tug._model import Model, Weight

Limits = Optional[Tuple[float, float]]
_NAMES = {"loss": "loss", "auc": "AUC"}  # the metrics of a pass, as axes name them


class _Frame(NamedTuple):
    """The arguments that all plots have: the axes to draw on, their title, labels and limits, and the size."""

    ax: Any
    title: Optional[str]
    xlabel: Optional[str]
    ylabel: Optional[str]
    xlim: Limits
    ylim: Limits
    figsize: Optional[Tuple[float, float]]
    dpi: Optional[float]
    grid: bool

    def open(self, function: str) -> Any:
        """Returns the axes to draw on: those given, or new ones."""
        for name, limits in (("xlim", self.xlim), ("ylim", self.ylim), ("figsize", self.figsize)):
            if limits is not None and (not isinstance(limits, (tuple, list)) or len(limits) != 2):
                raise ArgumentTypeError(f"{name}: must be a tuple of two numbers")
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError(f"{function} needs matplotlib, which is not installed: 'pip install matplotlib', or "
                              "Debian's python3-matplotlib") from error
        if self.ax is None:
            return plt.subplots(figsize=self.figsize, dpi=self.dpi)[1]
        if not hasattr(self.ax, "plot"):
            raise ArgumentTypeError(f"ax: must be axes of matplotlib, not {type(self.ax).__name__}")
        return self.ax

    def close(self, ax: Any) -> Any:
        """Adds title, labels and limits, and returns the axes. An empty text, or None, is left out."""
        for text, put in ((self.title, ax.set_title), (self.xlabel, ax.set_xlabel), (self.ylabel, ax.set_ylabel)):
            if text:
                put(_plain(text))
        for limits, put in ((self.xlim, ax.set_xlim), (self.ylim, ax.set_ylim)):
            if limits is not None:
                put(limits)
        ax.grid(self.grid)
        ax.set_axisbelow(True)
        return ax


def _plain(text: str) -> str:
    """Returns a text in which matplotlib finds no formula, because names of columns may contain dollar signs."""
    return text.replace("$", r"\$")


def _the_model(model: Any) -> Any:
    """The model itself, or that of a fitted estimator with only one."""
    models = getattr(model, "models_", None)
    return models[0] if isinstance(models, list) and len(models) == 1 else model


def _numbers(values: Sequence[Optional[float]]) -> List[float]:
    return [math.nan if x is None else float(x) for x in values]


def _marker(n: int) -> Optional[str]:
    return "o" if n < 30 else None  # a line with a single pass would be invisible


def _passes_of(model: Any) -> List[Pass]:
    model = _the_model(model)
    passes = model if isinstance(model, list) else getattr(model, "history", None)
    if not isinstance(passes, list) or not all(isinstance(p, Pass) for p in passes):
        raise ArgumentTypeError("model: must be a tug.Model or its history, a list of tug.Pass, not "
                                f"{type(model).__name__}")
    if not passes:
        raise UsageError("model: was not trained, so it has no history")
    return passes


def plot_history(model: Any, metric: str = "loss", *, ax: Any = None, title: Optional[str] = "Metric during training",
                 xlabel: Optional[str] = "Pass", ylabel: Optional[str] = "@metric@", xlim: Limits = None,
                 ylim: Limits = None, figsize: Optional[Tuple[float, float]] = None, dpi: Optional[float] = None,
                 grid: bool = True) -> Any:
    """Plots loss or AUC of each pass for training and validation examples, and marks the pass that validation found
    best. Returns the axes of matplotlib.

    model: a tug.Model, its history, or a fitted estimator of tug.sklearn with one model. metric: "loss" or "auc". ax:
    axes to draw on; None: new ones, of the size `figsize` in inches and the resolution `dpi`. "@metric@" in `title` and
    `ylabel` becomes the metric's name. Training examples are scored before the pass trains on them, validation examples
    at the end of the pass."""
    if not isinstance(metric, str):
        raise ArgumentTypeError(f"metric: must be 'loss' or 'auc', not {type(metric).__name__}")
    if metric not in _NAMES:
        raise UsageError(f"metric: must be 'loss' or 'auc', not {metric!r}")
    passes = _passes_of(model)
    trained = _numbers([getattr(p, metric) for p in passes])
    valid = _numbers([getattr(p, f"valid_{metric}") for p in passes])
    if all(map(math.isnan, trained + valid)):
        raise UsageError("metric: the history has no AUC: the model was trained with loss='squared', or all labels are "
                         "equal")
    title, ylabel = (text and text.replace("@metric@", _NAMES[metric]) for text in (title, ylabel))
    frame = _Frame(ax, title, xlabel, ylabel, xlim, ylim, figsize, dpi, grid)
    ax = frame.open("plot_history")
    numbers, marker = [p.pass_ for p in passes], _marker(len(passes))
    ax.plot(numbers, trained, marker=marker, label="training")
    if not all(map(math.isnan, valid)):
        ax.plot(numbers, valid, marker=marker, label="validation")
        best = max((p.pass_ for p in passes if p.best), default=None)
        if best is not None:
            ax.axvline(best, linestyle=":", color="gray", label=f"best: pass {best}")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend()
    return frame.close(ax)


def _rows_of(what: Any, data: Any, argument: str, column: str, ask: Callable[[Any], Any]) -> List[Dict[str, Any]]:
    """Returns the result of a method of the model: computed from `data`, or `what` itself if it is such a result."""
    what = _the_model(what)
    if isinstance(what, list) and what and all(isinstance(one, dict) and column in one for one in what):
        if data is not None:
            raise UsageError(f"data: is given, and so is the result of {argument}(): give only one of them")
        return what
    if isinstance(what, list) and not what:
        raise UsageError(f"model: the list is empty: {argument}() found nothing in its data")
    if not hasattr(what, argument):
        raise ArgumentTypeError(f"model: must be a tug.Model, or the result of its {argument}(), not "
                                f"{type(what).__name__}")
    if data is None:
        raise UsageError("data: give data with labels, such as the test data")
    found: List[Dict[str, Any]] = ask(what)
    return found


def plot_calibration(model: Any, data: Any = None, label: Any = None, *, weight: "Weight" = None, ax: Any = None,
                     title: Optional[str] = "Calibration", xlabel: Optional[str] = "Mean prediction",
                     ylabel: Optional[str] = "Share of positives", xlim: Limits = None, ylim: Limits = None,
                     figsize: Optional[Tuple[float, float]] = None, dpi: Optional[float] = None, grid: bool = True,
                     **options: Option) -> Any:
    """Plots the observed share of positives against the mean prediction, for ten bins with equally many examples each;
    a calibrated model lies on the diagonal. Returns the axes of matplotlib.

    model: a tug.Model, with data and labels as in Model.evaluate(), whose options are further keywords; or the list
    that Model.calibration() has returned, without data. The other arguments are those of plot_history()."""
    bins = _rows_of(model, data, "calibration", "predicted",
                    lambda m: m.calibration(data, label, weight=weight, **options))
    frame = _Frame(ax, title, xlabel, ylabel, xlim, ylim, figsize, dpi, grid)
    ax = frame.open("plot_calibration")
    predicted, observed = _numbers([b["predicted"] for b in bins]), _numbers([b["observed"] for b in bins])
    most = max(x for x in predicted + observed if not math.isnan(x))
    ax.plot([0, most], [0, most], linestyle=":", color="gray", label="calibrated")
    lines = ax.plot(predicted, observed, marker="o", label="model")
    if all("low" in b and "high" in b for b in bins):  # intervals of the observed share
        ax.vlines(predicted, _numbers([b["low"] for b in bins]), _numbers([b["high"] for b in bins]),
                  color=lines[0].get_color(), alpha=0.5)
    ax.legend()
    return frame.close(ax)


def plot_importance(model: Any, data: Any = None, label: Any = None, *, weight: "Weight" = None,
                    importance_type: Optional[str] = None, max_num_features: Optional[int] = None,
                    ignore_zero: bool = False, precision: Optional[int] = 4, height: float = 0.6, ax: Any = None,
                    title: Optional[str] = "Feature importance", xlabel: Optional[str] = None,
                    ylabel: Optional[str] = "Column", xlim: Limits = None, ylim: Limits = None,
                    figsize: Optional[Tuple[float, float]] = None, dpi: Optional[float] = None, grid: bool = True,
                    **options: Option) -> Any:
    """Plots the importance of each column as horizontal bars, the most important column at the top. Returns the axes of
    matplotlib.

    model: a tug.Model, with data and labels as in Model.importance(), whose options are further keywords; or the list
    that Model.importance() has returned, without data. importance_type: "auc_drop" or "logloss_rise"; None: auc_drop
    where the model has an AUC. max_num_features: the number of columns shown; None: all. ignore_zero: leave out columns
    with importance 0. precision: digits of the number at each bar; None: no numbers. height: of a bar, where 1 leaves
    no gap. The other arguments are those of plot_history()."""
    if importance_type not in (None, "auc_drop", "logloss_rise"):
        raise UsageError(f"importance_type: must be 'auc_drop' or 'logloss_rise', not {importance_type!r}")
    if max_num_features is not None:
        max_num_features = whole(max_num_features, "max_num_features", 1, 1 << 31)
    if precision is not None:
        precision = whole(precision, "precision", 0, 17)
    rows = _rows_of(model, data, "importance", "auc_drop",
                    lambda m: m.importance(data, label, weight=weight, **options))
    drops = _numbers([row["auc_drop"] for row in rows])
    if importance_type is None:
        importance_type = "logloss_rise" if all(map(math.isnan, drops)) else "auc_drop"
    values = _numbers([row[importance_type] for row in rows])
    if all(map(math.isnan, values)):
        raise UsageError("importance_type: the model has no AUC on this data: use 'logloss_rise'")
    shown = sorted(((x, str(row["column"])) for x, row in zip(values, rows)
                    if not math.isnan(x) and not (ignore_zero and x == 0)), key=lambda one: -one[0])[:max_num_features]
    if xlabel is None:
        xlabel = ("AUC lost" if importance_type == "auc_drop" else "Rise of the loss") + " with the column shuffled"
    frame = _Frame(ax, title, xlabel, ylabel, xlim, ylim, figsize, dpi, grid)
    ax = frame.open("plot_importance")
    places = list(range(len(shown)))
    bars = ax.barh(places, [x for x, _ in shown], height=height)
    if precision is not None:
        for bar, (x, _) in zip(bars, shown):
            ax.annotate(f"{x:.{precision}f}", (max(x, 0), bar.get_y() + bar.get_height() / 2), xytext=(3, 0),
                        textcoords="offset points", va="center")
    ax.set_yticks(places)
    ax.set_yticklabels([_plain(name) for _, name in shown])
    ax.invert_yaxis()
    ax.margins(x=0.15)
    return frame.close(ax)
