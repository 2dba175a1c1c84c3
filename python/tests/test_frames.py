"""Data frames: the same rows as a csv file, a dictionary, a pandas frame and Arrow data give the same model, bit for
bit.

SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import warnings

import numpy as np
import pytest

import tug
from tug import _frames
from tug._abi import ffi

FIXED = {"epochs": 2, "threads": 2, "deterministic": True, "progress": False}
N = 1500


def table():
    random = np.random.default_rng(5)
    city = random.choice(["Oslo", 'a "b"', "x,y", "", "Bonn"], N).astype(object)
    city[::7] = None
    age = random.integers(18, 80, N)
    price = random.normal(size=N) * 100
    price[::5] = np.nan
    price[1] = 1 + 2.0 ** -24  # a double midway between two floats, whose text rounds differently
    premium = random.random(N) < 0.5
    tags = np.empty(N, object)
    tags[:] = [list(random.choice(["red", "green", "blue"], k)) for k in random.integers(0, 3, N)]
    clicked = ((age > 40) ^ premium).astype(np.int64)
    return {"clicked": clicked, "city": city, "age": age, "price": price, "premium": premium,
            "tags": tags, "user": age * 10 ** 9}


def quoted(x):
    return '"' + x.replace('"', '""') + '"' if isinstance(x, str) else x


def write_csv(path, data):
    with open(path, "w", encoding="utf-8") as file:
        print(",".join(data), file=file)
        for row in zip(*data.values()):
            cells = []
            for x in row:
                if isinstance(x, list):
                    x = "|".join(x)
                elif isinstance(x, (bool, np.bool_)):
                    x = "True" if x else "False"
                elif x is None or x != x:
                    x = ""
                elif isinstance(x, (float, np.floating)):
                    x = repr(float(x))
                cells.append(str(quoted(x)))
            print(",".join(cells), file=file)
    return str(path)


class Stream:
    """An Arrow producer: passes on a table as a stream of record batches, sliced and with offsets."""

    def __init__(self, data, cuts=(0, 700, 700, N), fails=False):
        self.columns = data
        self.cuts, self.fails, self.released, self.kept = cuts, fails, 0, []

    def _table(self, first, end, pad):
        part = {k: np.concatenate([v[:pad], v[first:end]]) if v.dtype != object else
                np.array(list(v[:pad]) + list(v[first:end]) + [None], object)[:-1] for k, v in self.columns.items()}
        columns = [_frames._of_array(k, v) for k, v in part.items()]
        found = _frames._Column("", "+s", end - first, [None], columns, metadata={"python": "1"})
        found.array.offset = pad
        self.kept.append(found)
        return found

    def __arrow_c_stream__(self, requested_schema=None):
        stream = ffi.new("struct ArrowArrayStream *")
        tables = [self._table(a, b, 3) for a, b in zip(self.cuts, self.cuts[1:])]
        message = ffi.new("char[]", b"the disk is on fire")

        @ffi.callback("int (*)(struct ArrowArrayStream *, struct ArrowSchema *)")
        def get_schema(_stream, out):
            out[0] = tables[0].schema[0]
            return 0

        @ffi.callback("int (*)(struct ArrowArrayStream *, struct ArrowArray *)")
        def get_next(_stream, out):
            if self.fails:
                return 5
            if tables:
                out[0] = tables.pop(0).array[0]
            else:
                out.release = ffi.NULL
            return 0

        @ffi.callback("char *(*)(struct ArrowArrayStream *)")
        def get_last_error(_stream):
            return message

        @ffi.callback("void (*)(struct ArrowArrayStream *)")
        def release(stream):
            self.released += 1
            stream.release = ffi.NULL

        stream.get_schema, stream.get_next = get_schema, get_next
        stream.get_last_error, stream.release = get_last_error, release
        self.kept.append((stream, get_schema, get_next, get_last_error, release, message))
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(int(ffi.cast("uintptr_t", stream)), b"arrow_array_stream", None)


def frames(data):
    yield data
    yield Stream(data)
    try:
        import pandas
    except ImportError:
        return
    frame = pandas.DataFrame(data)
    yield frame
    frame["city"] = frame["city"].astype("category")
    frame["age"] = frame["age"].astype("Int64")
    yield frame


@pytest.mark.parametrize("options", [{"model": "fm", "dim": 4}, {"model": "ffm", "dim": 2}])
def test_same_as_text(tmp_path, options):
    data = table()
    path = write_csv(tmp_path / "a.csv", data)
    with tug.train(path, "clicked", format="csv", numeric="age,price", lists="tags", valid=0.2, **options,
                   **FIXED) as model:
        wanted = model.predict(path)
        metrics = model.evaluate(path)
        model.save(tmp_path / "text")
    for frame in frames(data):
        with tug.train(frame, "clicked", categorical=["user"], valid=0.2, **options, **FIXED) as model:
            assert np.array_equal(model.predict(frame), wanted)
            assert np.array_equal(model.predict(path), wanted)
            assert repr(model.evaluate(frame)) == repr(metrics)
        with tug.load(tmp_path / "text") as model:
            assert np.array_equal(model.predict(frame), wanted)


def test_labels_beside(tmp_path):
    data = table()
    labels = data.pop("clicked")
    with tug.train(data, labels, valid=(data, labels), **FIXED) as model:
        wanted = model.predict(data)
        assert model.train(data, labels).results["epochs"] == 4
        assert model.evaluate(data, labels)["examples"] == N
    with tug.train(dict(mine=labels, **data), "mine", **FIXED) as model:
        assert np.array_equal(model.predict(data), wanted)
    with pytest.raises(tug.UsageError, match="there are 1499 labels, and 1500 rows"):
        tug.train(data, labels[1:], **FIXED)
    with pytest.raises(tug.UsageError, match="in the column 'age'"):
        tug.Model(label="age", progress=False).train(data, labels)


def test_columns_called_by_numbers():
    pandas = pytest.importorskip("pandas", reason="pandas is not there: python3-pandas")
    frame = pandas.DataFrame({0: [0, 1] * 50, 1: [1.0, 2.0] * 50})
    with tug.train(frame, label=0, **FIXED) as model:
        assert model.results["examples"] == 100 and model.evaluate(frame)["auc"] > 0.9
    with pytest.raises(tug.UsageError, match="data: there are no rows"):
        tug.train(frame[:0], label=0, **FIXED)


def test_ids_that_are_taken_as_numbers():
    """One warning names the columns with large numbers, which mostly are ids and make the model bad as numbers."""
    data = {"clicked": [0, 1] * 50, "zip": np.arange(10000, 10100), "age": np.arange(100) % 80, "n": np.full(100, 1e9)}
    kinds = [data]
    try:
        import pandas
        kinds.append(pandas.DataFrame(data))
    except ImportError:
        pass
    for kind in kinds:
        with pytest.warns(tug.Warning, match="the columns 'zip', 'n' have large numbers.*numeric='zip:log'"):
            tug.train(kind, "clicked", model="lr", **FIXED).close()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tug.train(kind, "clicked", model="lr", categorical=["zip"], numeric="n:log", **FIXED).close()
            tug.train(kind, "clicked", model="lr", categorical=["zip"], drop=["n"], **FIXED).close()


def test_released_once():
    data = table()
    stream = Stream(data)
    tug.train(stream, "clicked", **FIXED).close()
    assert stream.released == 1
    stream = Stream(data, fails=True)
    with pytest.raises(tug.DataError, match="the producer of the Arrow stream failed: the disk is on fire"):
        tug.train(stream, "clicked", **FIXED)
    assert stream.released == 1


def test_errors():
    data = table()
    with pytest.raises(tug.DataError, match="no column 'clickd', which label names"):
        tug.train(data, "clickd", **FIXED)
    with pytest.raises(tug.DataError, match="no column 'usr', which categorical names"):
        tug.train(data, "clicked", categorical=["usr"], **FIXED)
    with pytest.raises(tug.UsageError, match="the label is missing"):
        tug.train(data, **FIXED)
    with pytest.raises(tug.UsageError, match="column 0 has 1500 rows, but column 1 has 2"):
        tug.train({"a": data["age"], "b": [1, 2]}, "a", **FIXED)
    with pytest.raises(TypeError, match="column 'city' has objects, and row 1 is a set: convert the column"):
        tug.train({"y": [0, 1], "city": np.array(["a", {3}], object)}, "y", **FIXED)
    with pytest.raises(tug.DataError, match="data: row 1: the label '2' is not one of 0, 1"):
        tug.train({"y": [0, 2], "x": [1.5, 2]}, "y", **FIXED)
    with pytest.raises(tug.DataError, match="value 'inf' of column 'x' is not finite"):
        tug.train({"y": [0, 1], "x": [1.5, np.inf]}, "y", **FIXED)
    when = {"y": [0, 1], "x": [1.5, 2], "when": np.array([1, 2], "timedelta64[s]")}
    with pytest.raises(tug.DataError, match="column 'when' has the Arrow format 'numpy's timedelta64'"):
        tug.train(when, "y", **FIXED)
    tug.train(when, "y", drop="when", **FIXED).close()


def test_validated_by_the_other_kind(tmp_path):
    """A file gives the same validation as the frame it was written from, and vice versa."""
    data, held = table(), {k: v[:400] for k, v in table().items()}
    path, other = write_csv(tmp_path / "a.csv", data), write_csv(tmp_path / "b.csv", held)
    options = {"label": "clicked", "format": "csv", "numeric": "age,price", "lists": "tags", "drop": "user", **FIXED}
    for more in ({}, {"data_in": "stream"}):
        found = [[p[:-2] for p in tug.train(a, valid=b, **options, **more).history]
                 for a in (data, path) for b in (held, other, (held, "clicked"))]
        assert all(repr(one) == repr(found[0]) for one in found)
    with pytest.raises(tug.UsageError, match="the validation data is rows in memory of format libsvm, and the data is"):
        tug.train(data, valid=(np.ones((2, 2)), [0, 1]), **options)
    with pytest.raises(tug.UsageError, match="has to be one path, or rows in memory"):
        tug.train(data, valid=[path, other], **options)


def test_labels_by_name():
    data = {"y": [0, 1] * 50, "x": [1.0, 2.0] * 50}
    with pytest.raises(tug.UsageError, match="label: the column of the label is an option of the model, and this model "
                                             "has none: use tug.train.data, label='y'. or tug.Model.label='y'."):
        tug.Model(**FIXED).train(data, label="y")
    with tug.train(data, label="y", valid=(data, "y"), **FIXED) as model:
        assert model.evaluate(data, label="y")["examples"] == model.train(data, label=["y"]).results["examples"] == 100
        with pytest.raises(tug.UsageError, match="and this model has 'y': use tug.train.data, label='x'."):
            model.evaluate(data, label="x")
        with pytest.raises(tug.UsageError, match="data: labels are missing: give them as an array of their own, or add "
                                                 "a column 'y'"):
            model.evaluate({"x": data["x"]})
    with tug.train({"label": data["x"], "label2": ["a", "b"] * 50}, data["y"], **FIXED) as model:
        assert model.labels == ["label3"]
        assert model.evaluate({"label": data["x"], "label2": ["a", "b"] * 50}, data["y"])["auc"] > 0.9
        assert len(model.explain({"label": [1.5], "label2": ["a"]})[0]["features"]) == 2


def test_a_run_that_begins_or_goes_on(tmp_path):
    """With resume="auto" the same call begins a training and continues it, also for data in memory, which has no
    format."""
    data = table()
    matrix, labels = np.eye(40, 4, dtype=np.float32), np.arange(40) % 2
    for first, beside in ((data, "clicked"), (matrix, labels)):
        out = tmp_path / str(len(beside))
        for epochs, resume in ((1, False), (2, "auto"), (3, True)):
            with tug.train(first, beside, categorical="all" if first is data else None, out=out, resume=resume,
                           **{**FIXED, "model": "lr", "epochs": epochs}) as model:
                assert len(model.history) == epochs
    with pytest.raises(tug.DataError, match="the size of 'data' is 39, but it was 40"):
        tug.train(matrix[1:], labels[1:], out=out, resume="auto", **{**FIXED, "model": "lr", "epochs": 4})


def test_tested_on_what_is_in_memory(tmp_path):
    """test= accepts the same data as valid=, and data in memory gives the same metrics as a file."""
    frame = {name: column for name, column in table().items() if name in ("clicked", "age", "premium")}
    path = tmp_path / "t.csv"
    path.write_text("clicked,age,premium\n" + "".join(f"{c},{a},{p}\n" for c, a, p in zip(*frame.values())))
    fixed = {**FIXED, "label": "clicked", "valid": 0.2, "group": "age"}
    with tug.train(frame, test=str(path), **fixed) as wanted, tug.train(frame, test=frame, **fixed) as found:
        names = [name for name in wanted.results if name.startswith("test.")]
        assert {"test.auc", "test.logloss", "test.gauc"} <= set(names)
        assert [found.results[name] for name in names] == [wanted.results[name] for name in names]
        parts = sum(value for name, value in found.results.items() if name.endswith("_seconds"))
        assert found.results["test_seconds"] > 0 and abs(parts - 2 * found.results["total_seconds"]) < 1e-6
    matrix, labels = np.arange(1.0, 41).reshape(20, 2) / 40, np.arange(20) % 2
    with tug.train(matrix, labels, test=(matrix, labels), **FIXED) as model:
        assert model.results["test.auc"] == model.evaluate(matrix, labels)["auc"]
    for wrong, sentence in ((True, "test: must be data, not True"), (matrix, "^test: labels are missing"),
                            ((matrix, [1]), r"^test: label: has the shape \(1,\)"),
                            ((matrix, [None] * 20), "^test: label: row 0 is missing"),
                            (matrix[:, :1], "^test: the matrix has 1 columns")):
        with pytest.raises(tug.Error, match=sentence):
            tug.train(matrix, labels, test=wrong, **FIXED)
    with pytest.raises(tug.Error, match="^valid: column 'a' has objects, and row 1 is a bytes"):
        tug.train({"y": [0, 1], "a": ["x", "y"]}, label="y", valid={"y": [0, 1], "a": ["x", b"y"]}, **FIXED)


def test_frames_and_matrices_are_told_apart():
    """A model that was trained on a matrix refuses a frame, and vice versa; the error speaks of the data."""
    matrix, labels = np.arange(80.0).reshape(20, 4) / 80, np.arange(20) % 2
    frame = {"y": labels, **{f"c{i}": matrix[:, i] for i in range(4)}}
    with tug.train(matrix, labels, model="lr", **FIXED) as of_matrix, \
            tug.train(frame, label="y", model="lr", **FIXED) as of_frame:
        for call in (of_matrix.predict, of_matrix.evaluate, of_matrix.explain):
            with pytest.raises(tug.UsageError, match="^data: the data is a frame, and the model was trained on libsvm"):
                call(frame)
        for call in (of_frame.predict, of_frame.explain):
            with pytest.raises(tug.UsageError, match="^data: the features of a matrix have numbers and no names, and "):
                call(matrix)


def test_bool_for_a_value(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("history", "out", "drop", "label"):
        with pytest.raises(TypeError, match=f"^{name}: needs a value .*, not True"):
            tug.Model(**{name: True})
    with pytest.raises(TypeError, match="not False; Model.history has the passes, also without a file"):
        tug.Model(history=False)
    for name in ("history", "out", "init_from", "dump", "tfevents"):  # a list of names is not joined by commas
        for several in (["a", "b"], ("a",), np.zeros(3), np.array(["a"]), []):
            with pytest.raises(TypeError, match=f"^{name}: must be one path, not "):
                tug.Model(**{name: several})
    assert not list(tmp_path.iterdir())


def test_explained_by_rows_and_a_column_without_a_name(tmp_path):
    frame = {"clicked": [0, 1] * 20, "": ["a", "b"] * 20, "x": [0.5, 1.5] * 20}
    with tug.train(frame, label="clicked", **FIXED) as model:
        first, second = model.explain({name: column[:2] for name, column in frame.items()})
        assert (first["row"], second["row"]) == (0, 1) and "line" not in first and "file" not in first
        assert {(f["column"], f["word"]) for f in second["features"]} == {("", "b"), ("x", "")}
        assert [one["column"] for one in model.importance(frame, only=[""])] == [""]


def test_errors_about_columns_name_no_lines():
    """Errors about a frame name rows, counted from 0, and not lines."""
    frame = {"y": [0, 1] * 50, "x": [1.0, 2.0] * 50}
    for wrong, given, sentence in (
            (frame, {"label": "z"}, "^data: the header has no column 'z', which label names .did you mean 'y'"),
            ({"y": [0, 1]}, {"label": "y"}, "^data: no column could be a feature$"),
            (frame, {"label": (i for i in [0, 1])}, "^label: must have a number for each row, but is a generator"),
            ({"y": [0, 1], "x": 3}, {"label": "y"}, "^data: column 'x' is an int, and not one value"),
            ({**frame, "x": [1e19, 2e19] * 50}, {"label": "y", "model": "fm"}, r"\(first in data: row \d+\)")):
        with pytest.raises(tug.Error, match=sentence), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tug.train(wrong, **{**FIXED, **given})
