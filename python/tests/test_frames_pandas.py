"""Data of pandas: a dictionary of a frame's columns equals the frame, names may be in lists of any type, and an index
in another order is warned of.

SPDX-License-Identifier: Apache-2.0
"""

import decimal
import warnings

import numpy as np
import pytest

import tug

pandas = pytest.importorskip("pandas")

FIXED = {"epochs": 2, "threads": 1, "deterministic": True, "progress": False, "model": "lr"}
N = 240


def drawn():
    random = np.random.default_rng(5)
    which = random.integers(0, 6, N)
    return which, ((which % 2 == 1) ^ (random.random(N) < 0.1)).astype(int)


def columns(which):
    """Returns columns of types that only pandas has, by name."""
    days = pandas.to_timedelta(which, "D")
    times = pandas.to_datetime("2020-01-01") + pandas.to_timedelta(which * 7, "H")
    return {
        "category of int": pandas.Categorical(which),
        "category of float, missing": pandas.Categorical([None if i == 2 else i / 2 for i in which]),
        "category of intervals": pandas.cut(pandas.Series(which), 3),
        "category of durations": pandas.Categorical(days),
        "category of times with a zone": pandas.Categorical(times.tz_localize("Europe/Oslo")),
        "category of periods": pandas.Categorical(pandas.period_range("2020-01", periods=6, freq="M")[which]),
        "intervals": pandas.arrays.IntervalArray(pandas.cut(pandas.Series(which), 3)),
        "durations": days,
        "periods": pandas.period_range("2020-01", periods=6, freq="M")[which],
        "times with a zone": times.tz_localize("Europe/Oslo"),
        "complex": which + 1j,
        "Int64": pandas.array([None if i == 2 else i for i in which], dtype="Int64"),
        "boolean": pandas.array([None if i == 2 else bool(i % 2) for i in which], dtype="boolean"),
        "sparse": pandas.arrays.SparseArray(which),
    }


def test_dictionaries_of_columns(tmp_path):
    """A dictionary such as `{name: column[part] for name, column in frame.items()}` equals the frame."""
    which, labels = drawn()
    for name, column in columns(which).items():
        frame = pandas.DataFrame({"c": column, "y": labels})
        path = str(tmp_path / "a.csv")
        frame.to_csv(path, index=False)
        with tug.train(frame, label="y", **FIXED) as model, tug.train(dict(frame.items()), label="y", **FIXED) as other:
            wanted = model.predict(frame)
            assert len(np.unique(wanted)) > 1, name
            for data in (frame, dict(frame.items()), path):
                assert np.array_equal(model.predict(data), wanted), name
                assert np.array_equal(other.predict(data), wanted), name
            if isinstance(column, pandas.Categorical):
                assert np.array_equal(other.predict({"c": column, "y": labels}), wanted), name


def test_rows_by_their_place():
    """Rows are matched by position, while pandas would match Series by their indexes; a difference is an error or a
    warning."""
    which, labels = drawn()
    frame = pandas.DataFrame({"a": which.astype(str), "b": (which * 7 % 5).astype(str)})
    mixed = frame.sample(frac=1, random_state=1)
    with pytest.raises(tug.UsageError, match="the columns 'a' and 'b' have the same index in different orders"):
        tug.train({"a": frame["a"], "b": mixed["b"]}, label=labels, **FIXED)
    beside = pandas.Series(labels)
    for name, given in (("label", {"label": beside}), ("weight", {"label": labels, "weight": beside + 1})):
        with pytest.warns(UserWarning, match=f"^{name}: its index has the labels of the data frame's index in another"):
            tug.train(mixed, **given, **FIXED).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tug.train(mixed, label=beside.loc[mixed.index], **FIXED).close()
        tug.train(mixed, label=beside.to_numpy(), **FIXED).close()
        tug.train(mixed.set_index(np.arange(1000, 1000 + N)), label=beside, **FIXED).close()


def test_names_of_any_kind():
    which, labels = drawn()
    frame = pandas.DataFrame({"a": which, "b": which % 4, "p": which / 7, "y": labels})
    for kind in (list, tuple, np.array, pandas.Index, pandas.Series, lambda names: dict.fromkeys(names).keys()):
        names = kind(["a", "b"])
        with tug.train(frame, label="y", categorical=names, **FIXED) as model:
            features = model.explain(frame[:1])[0]["features"]
            assert {f["column"]: f["word"] != "" for f in features} == {"a": True, "b": True, "p": False}
            assert model.evaluate(frame, by=names)["by"]["columns"] == "a,b"
            assert len(model.importance(frame, only=names)) == 2
        with tug.train(frame, label="y", drop=names, **FIXED) as model:
            assert [f["column"] for f in model.explain(frame[:1])[0]["features"]] == ["p"]
    with tug.train(frame, label="y", drop=[], categorical=pandas.Index([]), numeric=[], **FIXED) as model:
        assert len(model.explain(frame[:1])[0]["features"]) == 3
        assert "by" not in model.evaluate(frame, by=[])
        with pytest.raises(tug.DataError, match="the data has no column '', which by names"):
            model.evaluate(frame, by="")
    for wrong in ("a", np.str_("ab"), {"a", "b"}):
        with pytest.raises(TypeError, match="^categorical: must be 'all' or a list of columns' names, not"):
            tug.train(frame, label="y", categorical=wrong, **FIXED)


def test_labels_beside():
    which, labels = drawn()
    frame = pandas.DataFrame({"a": which.astype(str)})
    with tug.train(frame, label=labels, **FIXED) as model:
        wanted = model.predict(frame)
    for kind in (labels.reshape(-1, 1), pandas.DataFrame({"y": labels}),
                 [decimal.Decimal(int(y)) for y in labels]):
        with tug.train(frame, label=kind, **FIXED) as model:
            assert np.array_equal(model.predict(frame), wanted)
    with pytest.raises(tug.UsageError, match=r"^label: has the shape \(240, 2\), but must have one dimension"):
        tug.train(frame, label=np.stack([labels, labels], axis=1), **FIXED)
    for kind in (labels.astype(str), pandas.Series(labels).astype(str)):
        with pytest.raises(TypeError, match="^label: row 0 is the text '[01]', but label= must be"):
            tug.train(frame, label=kind, **FIXED)


def test_large_numbers_of_a_model_that_learns_on(tmp_path):
    """A model that continues its training knows its columns, so its ids are not warned of as large numbers."""
    which, labels = drawn()
    frame = pandas.DataFrame({"zip": which + 10000, "y": labels})
    with pytest.warns(UserWarning, match="the column 'zip' has large numbers, and is taken as numbers"):
        tug.train(frame, label="y", **FIXED).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with tug.train(frame, label="y", categorical=pandas.Index(["zip"]), out=tmp_path / "m", **FIXED) as model:
            model.train(frame)
        with tug.load(tmp_path / "m", label="y", **FIXED) as model:
            model.train(frame)
        tug.train(frame, label="y", init_from=tmp_path / "m", **FIXED).close()


def test_estimators_and_types_that_numpy_lacks():
    pytest.importorskip("sklearn", reason="scikit-learn is not there: python3-sklearn")
    from tug.sklearn import FMClassifier
    which, labels = drawn()
    frame = pandas.DataFrame({"a": which, "b": (which * 7 % 5).astype(str), "c": which / 7})
    model = FMClassifier(epochs=2, random_state=0, categorical=pandas.Index(["a", "b"])).fit(frame, labels)
    wanted = model.predict_proba(frame)
    for types in ({"a": "Int64"}, {"a": "UInt8", "b": "string"}, {"c": "Float64"}, {"a": "category", "b": "category"}):
        assert np.array_equal(model.predict_proba(frame.astype(types)), wanted)
        assert np.array_equal(model.fit(frame.astype(types), labels).predict_proba(frame), wanted)
    frame["a"] = frame["a"].astype("Int64").where(frame["a"] > 1)
    with pytest.raises(ValueError, match="Input contains NaN"):
        model.fit(frame, labels)
    days = frame[["b", "c"]].assign(day=pandas.Timestamp("2020-01-01"))
    with pytest.raises(ValueError, match="X: column 'day' has a Timestamp, '2020-01-01 00:00:00', and is not in categ"):
        FMClassifier(categorical=["b"]).fit(days, labels)
    with pytest.raises(ValueError, match="X: has texts, as '[0-4x]*': name their columns in categorical"):
        FMClassifier().fit(frame[["c"]].assign(b="x"), labels)
