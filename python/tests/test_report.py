"""Pages of Model.report: their numbers are those of history and evaluate(), and a file that is something else stays.

SPDX-License-Identifier: Apache-2.0
"""

import html.parser
import json
import math

import numpy as np
import pytest
import tug


class Page(html.parser.HTMLParser):
    """The numbers of a page by their place in the result, and its text."""

    def __init__(self, path):
        super().__init__()
        self.numbers, self.text = {}, path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag, attrs):
        if tag == "data":
            self.numbers[dict(attrs)["data-of"]] = json.loads(dict(attrs)["value"])


def frame(n=3000, seed=1):
    draw = np.random.default_rng(seed)
    data = {"user <b>": draw.integers(0, 30, n), "ad": draw.integers(0, 9, n)}
    data["y"] = (draw.random(n) < 0.2 + 0.5 * (data["user <b>"] % 3 == data["ad"] % 3)).astype(int)
    return data


def trained(**options):
    return tug.train(frame(), label="y", categorical=["user <b>", "ad"], model="fm", epochs=3, valid=0.2, patience=0,
                     progress=False, alone=True, deterministic=True, **options)


def test_report(tmp_path):
    model, path, test = trained(), tmp_path / "r.html", frame(900, 2)
    model.report(path)
    numbers = Page(path).numbers
    for i, done in enumerate(model.history):
        assert numbers[f"/history/{i}/loss"] == done.loss and numbers[f"/history/{i}/valid/auc"] == done.valid_auc
    assert numbers["/valid/epoch"] == model.results["best_epoch"]
    assert not any(place.startswith("/roc") for place in numbers)
    model.report(path, test)
    page, found = Page(path), model.evaluate(test, calibration=True, importance=True)
    for name in ("auc", "logloss", "copc", "pr_auc"):
        assert page.numbers[f"/{name}"] == found[name]
    for i, one in enumerate(found["calibration"]):
        assert page.numbers[f"/calibration/{i}/low"] == one["low"] <= one["observed"] <= one["high"]
    assert page.numbers["/importance/0/auc_drop"] == found["importance"][0]["auc_drop"]
    assert "user &lt;b&gt;" in page.text and "(in memory)" in page.text and "<script" not in page.text


def test_loaded_model_and_matrix(tmp_path):
    draw = np.random.default_rng(3)
    matrix = draw.random((500, 3), np.float32)
    model = tug.train(matrix, (matrix[:, 0] > 0.5).astype(np.float32), model="lr", epochs=2, progress=False, alone=True)
    model.save(tmp_path / "m")
    again = tug.load(tmp_path / "m")
    again.report(tmp_path / "r.html", matrix, (matrix[:, 0] > 0.5).astype(np.float32))
    numbers = Page(tmp_path / "r.html").numbers
    assert numbers["/auc"] == again.evaluate(matrix, (matrix[:, 0] > 0.5).astype(np.float32))["auc"]
    assert numbers["/history/1/loss"] == model.history[1].loss
    assert math.isclose(numbers["/lift/0/captured"], 0.2, abs_tol=0.02)


def test_warnings_and_place(tmp_path):
    """The page has the warnings of its model, which name the program's lines, and no temporary directory."""
    data, path = frame(), tmp_path / "w.html"
    data["y"] = data["y"] * 0
    model = tug.train(data, label="y", categorical=["user <b>", "ad"], model="lr", epochs=1, progress=False, alone=True)
    model.report(path)
    text = Page(path).text
    assert "all 3000 labels are 0" in text and "saved in" not in text and "tug-model" not in text
    assert "0000000000000001" not in text and "constant" in text
    with pytest.warns(tug.Warning, match="all labels of this data are 0") as told:
        model.evaluate(data, report=path)
    assert {one.filename for one in told} == {__file__}
    assert "all labels of this data are 0" in Page(path).text
    with pytest.warns(tug.Warning) as told:
        model.importance(data)
    assert {one.filename for one in told} == {__file__}


def test_refusals(tmp_path):
    model, mine = trained(), tmp_path / "notes.html"
    mine.write_text("mine")
    for data in (None, frame(100, 2)):
        with pytest.raises(tug.UsageError, match="not a report"):
            model.report(mine, data)
        with pytest.raises(tug.Error, match="absent"):
            model.report(tmp_path / "absent" / "r.html", data)
    assert mine.read_text() == "mine"
    with pytest.raises(tug.UsageError, match="Model.report"):
        tug.Model(report="r.html")
    with pytest.raises(tug.UsageError, match="not trained yet"):
        tug.Model(model="lr").report(tmp_path / "r.html")
