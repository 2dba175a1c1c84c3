"""A frame and the csv file that its library writes from it are the same data for tug, for every type of column: a model
of either predicts the other.

SPDX-License-Identifier: Apache-2.0
"""

import csv
import datetime
import decimal

import numpy as np
import pytest

import tug
from tug import _frames
from tug._abi import ffi

FIXED = {"epochs": 2, "threads": 1, "deterministic": True, "progress": False, "model": "lr"}
N = 240


def drawn():
    random = np.random.default_rng(3)
    return random.integers(0, 4, N), random.random(N)


def labels_of(which, noise):
    return ((which % 2 == 1) ^ (noise < 0.1)).astype(int)


def chosen(values, which, dtype=object):
    column = np.empty(4, object)
    column[:] = values
    return np.array([column[i] for i in which], dtype) if dtype is not object else column[which]


def columns(pandas, which):
    """Returns a pandas column of each type, by name."""
    def of(values, dtype):
        return pandas.Series(chosen(values, which).tolist(), dtype=dtype)

    days = pandas.to_datetime(pandas.Series(chosen(["2020-01-01", "2021-12-31", None, "2020-02-29"], which)))
    times = pandas.to_datetime(pandas.Series(chosen(["2020-01-01", "2020-01-01 12:30:01", None, "2022-05-05 23:00:00"],
                                                    which)))
    return {
        "bool": of([True, False, True, False], bool),
        "nullable bool": of([True, False, None, False], "boolean"),
        "object bool": of([True, False, None, False], object),
        "int": of([19, 0, -7, 10 ** 12], "int64"),
        "uint64": of([2 ** 63, 2 ** 64 - 1, 0, 1], "uint64"),
        "Int64": of([19, 0, None, -1], "Int64"),
        "float with missing": of([19.0, 2.5, None, 1e16], "float64"),
        "float": of([1e-5, 0.0001, 123456789012345680.0, 0.1], "float64"),
        "float32": of([0.1, 16777216, 123456789, 1e16], "float32"),
        "float16": of([0.1, 2, 3, 4], "float16"),
        "Float64": of([19.0, 2.5, None, -0.0], "Float64"),
        "text": of(["007", "1e5", "7.0", "True"], object),
        "string": of(["007", None, "x,y", 'say "hi"'], "string"),
        "category of text": of(["a", "b", None, "d"], "category"),
        "category of bool": of([True, False, True, False], "category"),
        "category of int": of([19, 7, 3, 4], "category"),
        "category of float": of([19.0, 7.5, None, 4.0], "category"),
        "category of days": days.astype("category"),
        "days": days,
        "times": times,
        "microseconds": times + pandas.to_timedelta(np.where(which == 1, 1, 0), "us"),
        "with zone": times.dt.tz_localize("Europe/Berlin"),
        "timedelta": pandas.to_timedelta(pandas.Series(which), "h"),
        "decimal": of([decimal.Decimal("1.50"), decimal.Decimal("2"), None, decimal.Decimal("7.10")], object),
        "date": of([datetime.date(2020, 1, 1), datetime.date(2020, 2, 1), None, datetime.date(1999, 1, 1)], object),
        "mixed": of(["a", 1, 2.5, True], object),
        "period": pandas.Series(pandas.period_range("2020-01", periods=4, freq="M")[which]),
    }


def tables():
    pandas = pytest.importorskip("pandas", reason="pandas is not there: python3-pandas")
    which, noise = drawn()
    for name, column in columns(pandas, which).items():
        yield name, pandas.DataFrame({"y": labels_of(which, noise), "x": column, "z": which % 3})


def test_pandas_both_ways(tmp_path):
    wrong = []
    for name, frame in tables():
        path = str(tmp_path / "frame.csv")
        frame.to_csv(path, index=False)
        with tug.train(frame, "y", categorical=["x", "z"], **FIXED) as of_frame, \
                tug.train(path, "y", format="csv", **FIXED) as of_csv:
            wanted = of_csv.predict(path)
            assert of_csv.evaluate(path)["auc"] > 0.6, name
            found = {"frame -> frame": of_frame.predict(frame), "frame -> csv": of_frame.predict(path),
                     "csv -> frame": of_csv.predict(frame)}
            wrong += [f"{name}: {way}" for way, p in found.items() if not np.array_equal(p, wanted)]
            of_frame.save(tmp_path / name)
            with tug.Scorer(tmp_path / name) as scorer:
                if not np.array_equal(scorer.predict(frame), wanted):
                    wrong.append(f"{name}: scorer")
    assert not wrong


def test_spellings(tmp_path):
    """A model trained on a frame reads other spellings of the same values."""
    pandas = pytest.importorskip("pandas", reason="pandas is not there: python3-pandas")
    which, noise = drawn()
    spellings = {
        "bool": (pandas.Series(which % 2 == 1), {"True": ["true", "TRUE"], "False": ["false", "FALSE"]}),
        "int": (pandas.Series(which + 18), {str(i): [f"{i}.0", f"+{i}", f"0{i}", f"{i}e0"] for i in range(18, 22)}),
        "float": (pandas.Series(which + 18.0), {f"{i}.0": [f"{i}", f"{i}.00"] for i in range(18, 22)}),
        "days": (pandas.to_datetime(pandas.Series(chosen([f"2020-01-0{i}" for i in range(1, 5)], which))),
                 {f"2020-01-0{i}": [f"2020-01-0{i} 00:00:00", f"2020-01-0{i}T00:00:00.000000"] for i in range(1, 5)}),
        "times": (pandas.to_datetime(pandas.Series(chosen([f"2020-01-01 0{i}:00" for i in range(4)], which))),
                  {f"2020-01-01 0{i}:00:00": [f"2020-01-01T0{i}:00:00.000000", f"2020-01-01 0{i}:00"]
                   for i in range(4)}),
    }
    for name, (column, others) in spellings.items():
        frame = pandas.DataFrame({"y": labels_of(which, noise), "x": column})
        with tug.train(frame, "y", categorical=["x"], **FIXED) as model:
            wanted = model.predict(frame)
            lines = frame.to_csv(index=False).splitlines()
            for k in range(max(map(len, others.values()))):
                path = tmp_path / "other.csv"
                cells = [line.split(",") for line in lines[1:]]
                path.write_text("y,x\n" + "".join(f"{y},{(others[x] * 4)[k]}\n" for y, x in cells))
                assert np.array_equal(model.predict(path), wanted), (name, k)


class Arrow:
    """An Arrow table in the form in which polars exports it."""

    def __init__(self, columns, n):
        self.table = _frames._Column("", "+s", n, [None], columns)

    def __arrow_c_array__(self, requested_schema=None):
        import ctypes
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        schema, array = ffi.new("struct ArrowSchema *", self.table.schema[0]), \
            ffi.new("struct ArrowArray *", self.table.array[0])
        self.kept = getattr(self, "kept", []) + [schema, array]
        return (new(int(ffi.cast("uintptr_t", schema)), b"arrow_schema", None),
                new(int(ffi.cast("uintptr_t", array)), b"arrow_array", None))


def arrow_columns(which):
    """Returns Arrow columns by name, each with the text that polars' csv writer writes for it."""
    column = _frames._Column
    bits = _frames._bits(which % 2 == 1)
    seconds = np.array([0, 86399, 951782400, -1])[which]
    iso = ["1970-01-01T00:00:00.{}", "1970-01-01T23:59:59.{}", "2000-02-29T00:00:00.{}", "1969-12-31T23:59:59.{}"]
    return {
        "bool": (column("x", "b", N, [None, bits]), ["false", "true", "false", "true"]),
        "int": (column("x", "l", N, [None, which.astype(np.int64)]), ["0", "1", "2", "3"]),
        "float": (column("x", "g", N, [None, np.array([19, 1e16, 1e-6, 1e-5])[which]]),
                  ["19.0", "1e16", "1e-6", "0.00001"]),
        "days": (column("x", "tdD", N, [None, np.array([0, 59, -1, 18262], np.int32)[which]]),
                 ["1970-01-01", "1970-03-01", "1969-12-31", "2020-01-01"]),
        "us": (column("x", "tsu:", N, [None, seconds * 10 ** 6]), [t.format("000000") for t in iso]),
        "ms": (column("x", "tsm:", N, [None, seconds * 1000]), [t.format("000") for t in iso]),
        "zone": (column("x", "tsu:UTC", N, [None, seconds * 10 ** 6]), [t.format("000000+0000") for t in iso]),
        "clock": (column("x", "ttn", N, [None, np.arange(4)[which] * 10 ** 9]),
                  [f"00:00:0{i}.000000000" for i in range(4)]),
        "decimal": (column("x", "d:9,2,64", N, [None, np.array([150, -5, 0, 1234], np.int64)[which]]),
                    ["1.50", "-0.05", "0.00", "12.34"]),
    }


def test_arrow_both_ways(tmp_path):
    which, noise = drawn()
    y = labels_of(which, noise)
    for name, (column, texts) in arrow_columns(which).items():
        path = tmp_path / "frame.csv"
        path.write_text("y,x\n" + "".join(f"{a},{texts[i]}\n" for a, i in zip(y, which)))
        frame = Arrow([_frames._of_array("y", y), column], N)
        with tug.train(frame, "y", categorical=["x"], **FIXED) as of_frame, \
                tug.train(path, "y", format="csv", **FIXED) as of_csv:
            wanted = of_csv.predict(path)
            for found in (of_frame.predict(frame), of_frame.predict(path), of_csv.predict(frame)):
                assert np.array_equal(found, wanted), name


def test_lists_as_python_writes_them(tmp_path):
    which, noise = drawn()
    y = labels_of(which, noise).tolist()
    for values in ([1, 2 ** 63, 2 ** 64 - 1, 5], [True, False, True, False], [1, None, 2.5, 3], ["a", "b", None, "d"]):
        data = {"y": y, "x": [values[i] for i in which]}
        path = tmp_path / "lists.csv"
        with open(path, "w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([("y", "x"), *zip(*data.values())])
        with tug.train(path, "y", format="csv", **FIXED) as model:
            assert np.array_equal(model.predict(data), model.predict(path)), values


def test_records():
    which, noise = drawn()
    data = {"y": labels_of(which, noise), "x": which, "member": which % 2 == 1}
    with tug.train(data, "y", categorical="all", **FIXED) as model:
        wanted = model.predict(data)
        structured = np.rec.fromarrays(list(data.values()), names=list(data))
        records = [dict(zip(data, (v.item() for v in row))) for row in zip(*data.values())]
        for kind in (structured, records):
            assert np.array_equal(model.predict(kind), wanted)
            with tug.train(kind, "y", categorical=["x"], **FIXED) as same:
                assert np.array_equal(same.predict(data), wanted)
        assert model.predict(records[5])[0] == wanted[5]
    with pytest.raises(TypeError, match="categorical: must be 'all' or a list of columns' names, not bool True"):
        tug.train(data, "y", categorical=True, **FIXED)


def test_what_is_masked_or_missing():
    which, noise = drawn()
    y, x = labels_of(which, noise), np.stack([which, which % 3], 1).astype(float)
    masked = np.ma.masked_array(x, mask=np.arange(N)[:, None] == [0, 1])
    bad = np.ma.masked_array(y, mask=np.arange(N) == 4)
    for call in (lambda: tug.train(masked, y, **FIXED), lambda: tug.train(x, bad, **FIXED),
                 lambda: tug.train(x, y, weight=np.ma.masked_array(np.ones(N), mask=y == 1), **FIXED)):
        with pytest.raises(tug.UsageError, match="masked"):
            call()
    with pytest.raises(tug.UsageError, match="label: row 2 is missing"):
        tug.train(x, [0, 1, None] + y[3:].tolist(), **FIXED)
    column = np.ma.masked_array(which, mask=which == 2)
    with tug.train({"x": column}, y, categorical=["x"], **FIXED) as model:
        texts = np.array([None if i == 2 else str(i) for i in which], object)
        assert np.array_equal(model.predict({"x": column}), model.predict({"x": texts}))


def test_lone_surrogates():
    y = [0, 1] * 20
    with tug.train({"y": y, "x": ["\ud800", "\udc80"] * 20}, "y", **FIXED) as model:
        assert model.evaluate({"y": y, "x": ["\ud800", "\udc80"] * 20})["auc"] == 1
