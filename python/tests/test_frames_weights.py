"""Weights of data frames: an array, a Series or a column's name give the same bits as a csv file with the weights, in
all calls that take weights. An error about a wrong weight names its row.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest

import tug

FIXED = {"epochs": 2, "threads": 2, "deterministic": True, "progress": False, "model": "fm", "dim": 4}
N = 600


def table():
    random = np.random.default_rng(3)
    data = {"y": random.integers(0, 2, N), "city": random.choice(["Oslo", "Bonn", "Rome"], N),
            "x": random.normal(size=N)}
    weight = random.random(N) * 3
    weight[3] = 1 + 2.0 ** -24  # a double midway between two floats, whose text rounds differently
    weight[7] = 0
    return data, weight


@pytest.fixture
def written(tmp_path):
    """Writes the frame and its weights as a csv file; returns predictions and metrics of a model trained on it."""
    data, weight = table()
    path = str(tmp_path / "a.csv")
    with open(path, "w", encoding="utf-8") as file:
        print("y,city,x,w", file=file)
        for y, city, x, w in zip(*data.values(), weight):
            print(y, city, repr(float(x)), repr(float(w)), sep=",", file=file)
    with tug.train(path, label="y", weight="w", format="csv", numeric="x", **FIXED) as model:
        yield path, model.predict(path), model.evaluate(path)


def kinds(data):
    yield data
    try:
        import pandas
        yield pandas.DataFrame(data)
    except ImportError:
        pass


def test_a_weight_of_0():
    """An example of weight 0 is in no metric, table or count, neither in evaluate() nor in the validation of
    train()."""
    data, weight = table()
    weight[::3] = 0
    with tug.train(data, label="y", weight=weight, valid=(data, "y", weight), **FIXED) as model:
        n = int(np.count_nonzero(weight))
        found = model.evaluate(data, weight=weight, by=["city"])
        kept = {name: column[weight > 0] for name, column in data.items()}
        for name, value in model.evaluate(kept, weight=weight[weight > 0]).items():
            assert found[name] == value or value != value, name
        assert found["examples"] == n == sum(one["examples"] for one in found["by"]["table"])
        assert sum(one["examples"] for one in model.calibration(data, weight=weight)) == n
        assert model.history[0].valid_examples == n and model.history[0].examples == N == model.results["examples"]
        assert len(model.predict(data)) == N


def test_beside_the_columns(written):
    _, wanted, metrics = written
    data, weight = table()
    for frame in kinds(data):
        for kind in (weight, list(weight), weight.astype(object)):
            with tug.train(frame, label="y", weight=kind, **FIXED) as model:
                assert np.array_equal(model.predict(frame), wanted)
                assert repr(model.evaluate(frame, weight=kind)) == repr(metrics)
                assert model.evaluate(frame)["logloss"] != metrics["logloss"]
                assert model.calibration(frame, weight=kind) != model.calibration(frame)
        series = frame["y"] * 0 + weight
        with tug.train(frame, label="y", weight=series, valid=(frame, "y", series), **FIXED) as model:
            assert model.history[-1].valid_loss == model.evaluate(frame, weight=series)["logloss"]


def test_a_column(written):
    path, wanted, metrics = written
    data, weight = table()
    for frame in kinds(dict(data, w=weight)):
        with tug.train(frame, label="y", weight="w", **FIXED) as model:
            assert np.array_equal(model.predict(frame), wanted) and np.array_equal(model.predict(path), wanted)
            for found in (model.evaluate(frame), model.evaluate(frame, weight="w"), model.evaluate(path),
                          model.evaluate(data, weight=weight)):
                assert repr(found) == repr(metrics)
            with pytest.raises(tug.UsageError, match="the weights are missing: the model was trained with those in the "
                                                     "column 'w'"):
                model.evaluate(data)
            with pytest.raises(tug.UsageError, match="weights are given twice, .* in the column 'w'"):
                model.evaluate(frame, weight=weight)
        with tug.train(data, label="y", weight=weight, **FIXED) as model:  # the model has no column of weights
            assert repr(model.evaluate(frame, weight="w")) == repr(metrics)
        with tug.Model(label="y", **FIXED) as model:
            assert np.array_equal(model.train(frame, weight="w").predict(data), wanted)
            assert repr(model.train(frame, weight="w").evaluate(frame, weight="w", label="y")) == \
                repr(model.evaluate(data, weight=weight))
        with tug.train(frame, label="y", weight="w", valid=(frame, "y", "w"), **FIXED) as model:
            best = min(model.history, key=lambda p: p.valid_loss)
            assert best.valid_loss == model.evaluate(frame)["logloss"]


def test_cv(written):
    path, _, _ = written
    data, weight = table()
    options = {"label": "y", "folds": 3, "threads": 1, "deterministic": True, "model": "lr"}
    wanted = tug.cv(path, weight="w", format="csv", numeric="x", **options).passes
    assert tug.cv(data, weight=weight, **options).passes == wanted
    assert tug.cv(dict(data, w=weight), weight="w", **options).passes == wanted
    assert tug.cv(data, **options).passes != wanted


def test_columns_called_by_numbers():
    pandas = pytest.importorskip("pandas", reason="pandas is not there: python3-pandas")
    frame = pandas.DataFrame({0: [0, 1] * 50, 1: [1.0, 2.0] * 50, 2: [1, 3] * 50})
    with tug.train(frame, label=0, weight=2, model="lr", epochs=1, progress=False) as model:
        assert model.evaluate(frame)["copc"] > 0 and model.explain(frame[:1])[0]["features"][0]["column"] == "1"
        assert len(model.explain(frame[:1])[0]["features"]) == 1


@pytest.mark.parametrize("bad, beside, column", [
    (-1, "the weight is -1", "weight '-1.0' is negative"),
    (np.nan, "the weight is nan", "weight of column 'w' is missing"),
    (np.inf, "the weight is inf", "weight 'inf' of column 'w' is not finite")])
def test_bad_weights(bad, beside, column):
    data, weight = table()
    with tug.train(data, label="y", weight=weight, **FIXED) as model:
        weight[5] = bad
        frame = dict(data, w=weight)
        for call in (lambda: tug.train(data, label="y", weight=weight, **FIXED),
                     lambda: tug.cv(data, label="y", weight=weight, **FIXED),
                     lambda: model.evaluate(data, weight=weight)):
            with pytest.raises(tug.DataError, match=f"data: row 5: {beside}"):
                call()
        with pytest.raises(tug.DataError, match=f"data: row 5: {column}"):
            tug.train(frame, label="y", weight="w", **FIXED)
        with pytest.raises(tug.DataError, match="row 5: "):
            model.evaluate(frame, weight="w")
        with pytest.raises(tug.DataError, match=f"valid: row 5: {beside}"):
            tug.train(data, label="y", valid=(data, "y", weight), **FIXED)


def test_refused():
    data, weight = table()
    frame, matrix = dict(data, w=weight), data["x"].reshape(-1, 1)
    for wrong, why in ((weight[1:], "there are 599 weights, and 600 rows"), (0 * weight, "data: all weights are 0"),
                       (np.hstack([matrix, matrix]), "weight: has the shape"),
                       ("w", "no column 'w', which weight names"),
                       (["w", "x"], "weight: names one column")):
        with pytest.raises(tug.Error, match=why):
            tug.train(data, label="y", weight=wrong, **FIXED)
    with pytest.raises(tug.UsageError, match="data: all weights are 0"):
        tug.train(matrix, data["y"], weight=0 * weight, epochs=1, progress=False)
    with tug.train(data, label="y", **FIXED) as model:
        with pytest.raises(tug.UsageError, match="weight: there is no column 'v'"):
            model.evaluate(frame, weight="v")
        with pytest.raises(tug.DataError, match="weight: row 0: column 'city': '(Bonn|Oslo|Rome)' is not a number"):
            model.evaluate(frame, weight="city")
    with pytest.raises(tug.UsageError, match="weights are given twice, .* in the column 'w'"):
        tug.train(frame, label="y", weight=weight, weight_column="w", **FIXED)
    with pytest.raises(tug.UsageError, match="weight: is given, and so is weight_column"):
        tug.train(frame, label="y", weight="w", weight_column="w", **FIXED)
    with pytest.raises(tug.UsageError, match="weight: names one column of a data frame; for a matrix"):
        tug.Model(progress=False).train(matrix, data["y"], weight="w")
