"""Plots by matplotlib, and what a notebook shows of a model: each number is that of the model.

SPDX-License-Identifier: Apache-2.0
"""

import html.parser
import os
import re
import subprocess
import sys
import threading
import xml.etree.ElementTree

import numpy as np
import pytest
import tug

os.environ.setdefault("MPLBACKEND", "Agg")
MARKUP = "<script>alert(1)</script>&$x$"  # the name of a column


def plt():
    return pytest.importorskip("matplotlib.pyplot", reason="matplotlib is not there: python3-matplotlib")


def frame(n=2000):
    random = np.random.default_rng(1)
    user = random.integers(0, 9, n)
    return {"user": user.astype(str), MARKUP: random.random(n),
            "clicked": (random.random(n) < 0.2 + 0.6 * (user % 2)).astype(float)}


@pytest.fixture(scope="module")
def model():
    with tug.train(frame(), label="clicked", model="lr", epochs=5, valid=0.25, patience=0, progress=False) as trained:
        yield trained


def lines_of(ax):
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in ax.get_lines()}


def test_history(model):
    plt()
    passes = model.history
    for metric in ("loss", "auc"):
        for ax in (model.plot_history(metric), tug.plot_history(passes, metric=metric)):
            lines = lines_of(ax)
            numbers = [p.pass_ for p in passes]
            assert lines["training"] == (numbers, [getattr(p, metric) for p in passes])
            assert lines["validation"] == (numbers, [getattr(p, f"valid_{metric}") for p in passes])
            best = max(p.pass_ for p in passes if p.best)
            assert lines[f"best: pass {best}"][0] == [best, best]
            assert ax.get_ylabel() == {"loss": "loss", "auc": "AUC"}[metric]


def test_axes_and_their_frame(model):
    pyplot = plt()
    figure, (left, right) = pyplot.subplots(1, 2)
    assert tug.plot_history(model, ax=right, title="A", xlabel="B", ylabel="C", xlim=(0, 9), ylim=(0, 2)) is right
    assert (right.get_title(), right.get_xlabel(), right.get_ylabel()) == ("A", "B", "C")
    assert right.get_xlim() == (0, 9) and right.get_ylim() == (0, 2) and not left.get_lines()
    assert figure.get_axes() == [left, right]
    own = tug.plot_history(model, figsize=(3, 2), dpi=50, title=None).figure
    assert list(own.get_size_inches()) == [3, 2] and own.dpi == 50 and own.axes[0].get_title() == ""
    pyplot.close("all")


def test_without_validation_and_without_auc():
    plt()
    matrix = np.random.default_rng(1).random((200, 3))
    with tug.train(matrix, matrix[:, 0], model="lr", loss="squared", epochs=1, progress=False) as squared:
        assert set(lines_of(squared.plot_history())) == {"training"}
        with pytest.raises(tug.UsageError, match="^metric: the history has no AUC: .*loss='squared'"):
            squared.plot_history("auc")
        bars = squared.plot_importance(matrix, matrix[:, 0])
        assert bars.get_xlabel() == "Rise of the loss with the column shuffled" and len(bars.patches) == 3
        with pytest.raises(tug.UsageError, match="^importance_type: the model has no AUC"):
            squared.plot_importance(matrix, matrix[:, 0], importance_type="auc_drop")


def test_calibration(model):
    plt()
    bins = model.calibration(frame())
    for ax in (model.plot_calibration(frame()), tug.plot_calibration(bins)):
        assert lines_of(ax)["model"] == ([b["predicted"] for b in bins], [b["observed"] for b in bins])
        (intervals,) = ax.collections
        assert [list(line[:, 1]) for line in intervals.get_segments()] == [[b["low"], b["high"]] for b in bins]
    without = tug.plot_calibration([{name: b[name] for name in ("predicted", "observed")} for b in bins])
    assert len(without.collections) == 0


def test_importance(model):
    plt()
    rows = model.importance(frame())
    for ax in (model.plot_importance(frame()), tug.plot_importance(rows)):
        assert [bar.get_width() for bar in ax.patches] == [row["auc_drop"] for row in rows]
        ax.figure.canvas.draw()  # a name with dollar signs is not a formula
        names = [text.get_text().replace("\\$", "$") for text in ax.get_yticklabels()]
        assert names == [row["column"] for row in rows] and MARKUP in names
        assert ax.yaxis_inverted()  # the first one is at the top
    by_loss = tug.plot_importance(rows, importance_type="logloss_rise", max_num_features=1, precision=2)
    most = max(rows, key=lambda row: row["logloss_rise"])
    assert [bar.get_width() for bar in by_loss.patches] == [most["logloss_rise"]]
    assert [text.get_text() for text in by_loss.texts] == [f"{most['logloss_rise']:.2f}"]
    nothing = [{"column": "a", "auc_drop": 0.0, "logloss_rise": 0.0},
               {"column": "b", "auc_drop": 0.1, "logloss_rise": 0}]
    assert len(tug.plot_importance(nothing, ignore_zero=True, precision=None).patches) == 1
    matrix = np.random.default_rng(2).random((200, 3))
    with tug.train(matrix, matrix[:, 0] > 0.5, model="lr", epochs=1, progress=False) as numbered:
        ax = numbered.plot_importance(matrix, matrix[:, 0] > 0.5)
        assert sorted(text.get_text() for text in ax.get_yticklabels()) == ["0", "1", "2"]


def test_of_an_estimator():
    plt()
    sklearn = pytest.importorskip("tug.sklearn", reason="scikit-learn is not there: python3-sklearn")
    matrix = np.random.default_rng(1).random((200, 3))
    fitted = sklearn.LRClassifier(epochs=2, random_state=0).fit(matrix, matrix[:, 0] > 0.5)
    assert len(lines_of(tug.plot_history(fitted))["training"][0]) == 2


def test_wrong_arguments(model):
    plt()
    for call, kind, words in (
            (lambda: tug.plot_history(3), TypeError, "^model: must be a tug.Model or its history"),
            (lambda: tug.plot_history([]), ValueError, "^model: was not trained"),
            (lambda: model.plot_history("ndcg"), ValueError, "^metric: must be 'loss' or 'auc', not 'ndcg'"),
            (lambda: model.plot_history(["auc"]), TypeError, "^metric: must be 'loss' or 'auc', not list"),
            (lambda: tug.plot_metric, AttributeError, r"tug has no 'plot_metric': use tug.plot_history\(model"),
            (lambda: model.plot_history(ax=3), TypeError, "^ax: must be axes of matplotlib, not int"),
            (lambda: model.plot_history(xlim=3), TypeError, "^xlim: must be a tuple of two numbers"),
            (lambda: tug.plot_calibration(model), ValueError, "^data: give data with labels"),
            (lambda: tug.plot_calibration([{"predicted": 1}], frame()), ValueError, "^data: is given, and so is the"),
            (lambda: tug.plot_calibration("x"), TypeError, r"^model: must be a tug.Model, or the result of its calib"),
            (lambda: tug.plot_importance([]), ValueError, r"^model: the list is empty: importance\(\) found nothing"),
            (lambda: tug.plot_importance(model, frame(), importance_type="gain"), ValueError, "^importance_type: must"),
            (lambda: tug.plot_importance(model, frame(), max_num_features=0), ValueError, "^max_num_features: 0 is"),
            (lambda: tug.plot_importance(model, frame(), nothing=0), TypeError, "there is no option 'nothing'")):
        with pytest.raises(kind, match=words):
            call()


def test_without_matplotlib(tmp_path):
    """The package works without matplotlib; a plot says what is missing."""
    program = """
import sys
sys.modules["matplotlib"] = sys.modules["matplotlib.pyplot"] = None
import numpy as np, tug
matrix = np.random.default_rng(1).random((200, 3))
model = tug.train(matrix, matrix[:, 0] > 0.5, model="lr", epochs=1, progress=False)
assert "<svg" in model._repr_html_()
for plot in (model.plot_history, lambda: model.plot_importance(matrix, matrix[:, 0] > 0.5)):
    try:
        plot()
    except ImportError as error:
        assert "needs matplotlib, which is not installed: 'pip install matplotlib'" in str(error), error
    else:
        raise AssertionError("it plots")
"""
    run = subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=tmp_path, capture_output=True, text=True,
                         timeout=90)
    assert run.returncode == 0, run.stderr


class Page(html.parser.HTMLParser):
    """The elements and texts of a page; the elements must be closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.texts = [], set(), []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.open.append(tag)
        assert not any(name.startswith("on") or (value or "").startswith("javascript") for name, value in attrs)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_a_notebook_shows_the_model(model):
    with model.with_options() as copied:  # nothing has asked the copy for its columns
        before = Page(copied._repr_html_())
    assert any("model.importance(data, label)" in text for text in before.texts)
    rows = model.importance(frame())
    text = model._repr_html_()
    page = Page(text)
    assert "script" not in page.tags and MARKUP in page.texts
    for name in ("train.auc", "train.logloss", "valid.auc", "valid.logloss"):
        assert f"{model.results[name]:.5g}" in page.texts
    for row in rows:
        assert f"{row['auc_drop']:.5g}" in page.texts and f"{100 * row['unknown']:.3g} %" in page.texts
    charts = re.findall(r"<svg.*?</svg>", text)
    assert len(charts) == 2
    for chart, field in zip(charts, ("loss", "auc")):
        svg = xml.etree.ElementTree.fromstring(chart)
        curves = svg.findall("{http://www.w3.org/2000/svg}polyline")
        assert [len(curve.get("points").split()) for curve in curves] == [5, 5]  # training and validation
        # y grows downwards, so a point with a higher metric has a smaller y
        heights = [float(point.split(",")[1]) for point in curves[0].get("points").split()]
        values = [getattr(p, field) for p in model.history]
        assert (np.argsort(heights, kind="stable") == np.argsort(-np.array(values), kind="stable")).all()


def test_a_notebook_shows_a_loaded_model(model, tmp_path):
    model.save(tmp_path / "saved")
    with tug.load(tmp_path / "saved") as loaded:
        page = Page(loaded._repr_html_())
        last, best = model.history[-1], next(p for p in reversed(model.history) if p.best)
        for value in (last.auc, last.loss, best.valid_auc, best.valid_loss):
            assert f"{value:.5g}" in page.texts
        assert lines_of(loaded.plot_history()).keys() == lines_of(model.plot_history()).keys()
        assert loaded.plot_importance(frame(), max_num_features=1).get_xlabel().startswith("AUC lost")


def test_a_notebook_shows_any_model():
    """A model without passes, labels, times or a lock is shown, too."""
    untrained = tug.Model(model="lr", drop="<b>")
    page = Page(untrained._repr_html_())
    assert "svg" not in page.tags and "b" not in page.tags and "0 passes" in page.texts
    inside, done = threading.Event(), threading.Event()

    def hold():
        with untrained._turn:
            inside.set()
            done.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(60)
    assert "is being used by another thread" in untrained._repr_html_()
    done.set()
    thread.join()
    untrained.close()
    assert "is closed" in untrained._repr_html_()
    labels = {**frame(), "bought": frame()["clicked"]}
    with tug.train(labels, label=["clicked", "bought"], model="mlp", hidden=[4], dim=2, epochs=1, progress=False) as m:
        assert any("label clicked, bought" in text for text in Page(m._repr_html_()).texts)
