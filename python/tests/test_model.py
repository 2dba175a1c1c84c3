"""Models: tug.train gives the same models as the command, from files and from matrices.

SPDX-License-Identifier: Apache-2.0
"""

import copy
import glob
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest

import tug

COMMAND = os.environ.get("TUG_BINARY", "tug")
FIXED = {"dim": 4, "threads": 2, "deterministic": True, "data_in": "memory"}
FLAGS = ["--dim", "4", "--threads", "2", "--deterministic", "--data-in", "memory"]


@pytest.fixture(scope="module")
def data():
    """Returns a sparse matrix of 2,000 rows, and labels that depend on it."""
    random = np.random.default_rng(1)
    matrix = np.where(random.random((2000, 30)) < 0.2, random.normal(size=(2000, 30)), 0).astype(np.float32)
    score = matrix @ random.normal(size=30) + 2 * matrix[:, 0] * matrix[:, 1]
    return matrix, (score + random.normal(size=2000) > 0).astype(np.float32)


def write_libsvm(path, matrix, labels):
    with open(path, "w", encoding="ascii") as file:
        for row, label in zip(matrix, labels):
            words = [f"{label:.0f}"] + [f"{j}:{row[j]:.9g}" for j in np.flatnonzero(row)]
            file.write(" ".join(words) + "\n")
    return str(path)


def run(*words, cwd):
    done = subprocess.run([COMMAND, *words], cwd=cwd, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows_of(directory):
    found = {}
    for path in glob.glob(os.path.join(directory, "save-*", "*.rows")):
        with open(path, "rb") as file:
            found[os.path.basename(path)] = file.read()
    assert found
    return found


def test_same_as_the_command(data, tmp_path):
    matrix, labels = data
    path = write_libsvm(tmp_path / "a.txt", matrix, labels)
    run("train", "--data", path, "--format", "libsvm", "--epochs", "2", *FLAGS, "--out", "out", cwd=tmp_path)
    said = np.array(run("predict", "--from", "out", "--data", path, cwd=tmp_path).split(), np.float32)

    with tug.train(path, format="libsvm", epochs=2, **FIXED) as model:
        model.save(tmp_path / "file")
        assert np.allclose(model.predict(path), said, rtol=1e-6, atol=0)
        of_file = model.predict(path)
        assert model.results["epochs"] == 2 and model.results["examples"] == 2000
    with tug.train(matrix, labels, epochs=2, **FIXED) as model:
        model.save(tmp_path / "matrix")
        assert np.array_equal(model.predict(matrix), of_file)
        assert np.array_equal(model.predict(matrix, threads=1), of_file)
        metrics = model.evaluate(matrix, labels)
        assert metrics["auc"] > 0.8 and metrics["examples"] == 2000
        of_path = model.evaluate(path, format="libsvm")
        assert {k: repr(v) for k, v in of_path.items()} == {k: repr(v) for k, v in metrics.items()}
        raw = model.predict(matrix, raw=True)
        assert np.allclose(1 / (1 + np.exp(-raw)), of_file, atol=1e-6)
    assert rows_of(tmp_path / "out") == rows_of(tmp_path / "file") == rows_of(tmp_path / "matrix")


class Csr:
    """Acts like scipy's csr_matrix."""

    has_canonical_format = True

    def __init__(self, matrix):
        self.shape = matrix.shape
        rows, self.indices = np.nonzero(matrix)
        self.indices = self.indices.astype(np.int32)
        self.data = matrix[rows, self.indices]
        self.indptr = np.concatenate([[0], np.cumsum(np.count_nonzero(matrix, 1))]).astype(np.int32)

    def tocsr(self):
        return self


def test_csr(data):
    matrix, labels = data
    kinds = [Csr(matrix)]
    try:
        import scipy.sparse
        kinds.append(scipy.sparse.coo_matrix(matrix))
    except ImportError:
        pass
    dense = tug.train(matrix, labels, epochs=1, **FIXED).predict(matrix)
    for kind in kinds:
        with tug.train(kind, labels, epochs=1, **FIXED) as model:
            assert np.array_equal(model.predict(kind), dense)


def test_weights(data, tmp_path):
    matrix, labels = data
    weight = np.arange(2000) % 4
    ones = tug.train(matrix, labels, weight=np.ones(2000), epochs=1, **FIXED).predict(matrix)
    assert np.array_equal(ones, tug.train(matrix, labels, epochs=1, **FIXED).predict(matrix))
    for kind in (matrix, matrix.astype(float), Csr(matrix)):
        with tug.train(kind, labels, weight=weight, valid=(kind, labels, weight), epochs=1, **FIXED) as model:
            found = model.predict(matrix).astype(float)
            loss = -np.average(np.where(labels > 0, np.log(found), np.log(1 - found)), weights=weight)
            assert abs(model.evaluate(kind, labels, weight=weight)["logloss"] - loss) < 1e-6
            assert abs(model.results["valid.logloss"] - loss) < 1e-6
            assert not np.array_equal(found, ones)
    with pytest.raises(tug.DataError, match="data: row 2: the weight is -2, but weights must be finite"):
        tug.train(matrix, labels, weight=np.where(weight == 2, -2, weight), epochs=1, **FIXED)
    with pytest.raises(tug.UsageError, match="weight: has the shape"):
        tug.train(matrix, labels, weight=weight[1:], epochs=1, **FIXED)
    with pytest.raises(tug.UsageError, match="with the option weight_column"):
        tug.train(write_libsvm(tmp_path / "a", matrix, labels), format="libsvm", weight=weight)


def test_another_width(data):
    """Features are columns by position, so a matrix with another number of columns is refused."""
    matrix, labels = data
    with tug.train(matrix, labels, epochs=1, **FIXED) as model:
        for wrong in (matrix[:, 1:], np.hstack([np.ones((2000, 1), np.float32), matrix])):
            for call in (model.predict, model.explain, lambda x: model.evaluate(x, labels),
                         lambda x: model.train(x, labels), copy.deepcopy(model).predict):
                with pytest.raises(tug.UsageError, match=f"{wrong.shape[1]} columns, but the model was trained on 30"):
                    call(wrong)
        assert np.array_equal(model.predict(Csr(matrix)), model.predict(matrix))
    with pytest.raises(tug.UsageError, match="valid: the matrix has 29 columns, but that of data has 30"):
        tug.train(matrix, labels, valid=(matrix[:, 1:], labels), **FIXED)


def test_fields_and_passes_one_by_one(data, tmp_path):
    matrix, labels = data
    csr = Csr(matrix)
    rows = tug.Rows(csr.indptr, csr.indices, csr.data, fields=csr.indices % 5)
    with tug.Model(model="ffm", epochs=1, **FIXED) as model:
        for _ in range(3):
            assert model.train(rows, labels, valid=(rows, labels)) is model
        assert model.results["epochs"] == 3 and model.results["valid.auc"] > 0.8
        scores = model.predict(rows)
        model.save(tmp_path / "saved")
    # The validation data, which the option patience needs, may be given with the data instead of as an option.
    with tug.train(rows, labels, valid=(rows, labels), patience=1, model="ffm", epochs=3, **FIXED):
        pass
    with pytest.raises(tug.UsageError, match="^patience needs valid"):
        tug.train(rows, labels, patience=1, **FIXED)
    with tug.train(rows, labels, valid=(rows, labels), model="ffm", epochs=3, **FIXED) as model:
        assert np.array_equal(model.predict(rows), scores)
    with tug.load(tmp_path / "saved") as model:
        assert np.array_equal(model.predict(rows), scores)
        with pytest.raises(tug.UsageError, match="without options"):
            model.train(rows, labels)
    with tug.load(tmp_path / "saved", model="ffm", epochs=1, **FIXED) as model:
        assert model.train(rows, labels, valid=(rows, labels)).results["epochs"] == 4


def test_explain(data, tmp_path):
    matrix, labels = data
    path = write_libsvm(tmp_path / "a.txt", matrix[:20], labels)
    for options in ({"model": "fm"}, {"model": "lr"}):
        with tug.train(matrix, labels, epochs=2, **options, **FIXED) as model:
            model.save(tmp_path / options["model"])
            found = model.explain(matrix[:20], top=3)
            said = run("predict", "--from", options["model"], "--data", path, "--explain", "--json", "--top", "3",
                       cwd=tmp_path).splitlines()
            predictions, scores = model.predict(matrix[:20]), model.predict(matrix[:20], raw=True)
        for i, (one, line) in enumerate(zip(found, said)):
            same = json.loads(line)
            assert [f["key"] for f in one["features"]] == [int(f["key"]) for f in same["features"]]
            assert one["score"] == same["score"] and one["largest_pairs"] == same["largest_pairs"]
            assert abs(one["score"] - scores[i]) < 1e-5 and abs(one["prediction"] - predictions[i]) < 1e-6
            assert abs(one["bias"] + one["linear"] + one["pairs"] - scores[i]) < 1e-5
            assert len(one["features"]) == np.count_nonzero(matrix[i]) and len(one["largest_pairs"]) <= 3
        assert len(found) == 20
    with pytest.raises(tug.UsageError, match="^raw is not supported in a program.*tug predict"):
        tug.load(tmp_path / "fm").explain(matrix, raw=True)
    # characters at which str.splitlines() breaks lines
    frame = {"city": ["a\u2028b", "c\x85"] * 20, "clicked": [0, 1] * 20}
    with tug.train(frame, "clicked", model="lr", epochs=1, progress=False) as model:
        assert [one["features"][0]["word"] for one in model.explain(frame)] == ["a\u2028b", "c\x85"] * 20


@pytest.fixture(scope="module")
def clicks():
    """Returns a frame in which the label depends more on column `ad` than on `user`, and a model of it."""
    random = np.random.default_rng(7)
    frame = {"user": random.integers(0, 9, 4000).astype(str), "ad": random.integers(0, 5, 4000).astype(str)}
    frame["clicked"] = random.random(4000) < np.where(frame["ad"] == "1", 0.8, 0.2) + 0.1 * (frame["user"] == "3")
    return frame, tug.train(frame, label="clicked", model="lr", epochs=5, progress=False)


def test_importance_of_columns(clicks, tmp_path):
    frame, model = clicks
    found = model.importance(frame)
    assert [one["column"] for one in found] == ["ad", "user"] and found[0]["auc_drop"] > 0.1
    model.save(tmp_path / "m")
    path = tmp_path / "d.csv"
    path.write_text("clicked,user,ad\n" + "".join(f"{int(c)},{u},{a}\n" for u, a, c in zip(*frame.values())))
    said = run("eval", "--from", "m", "--data", str(path), "--importance", "--json", cwd=tmp_path)
    assert json.loads(said.splitlines()[-1])["importance"] == found
    both = model.importance(frame, only=["user", "user+ad"])
    assert [one["column"] for one in both] == ["user+ad", "user"] and both[1] == found[1]
    by = model.evaluate(frame, by=["ad"])["by"]
    assert by["columns"] == "ad" and sum(one["examples"] for one in by["table"]) == 4000
    assert "by" not in model.evaluate(frame)
    with pytest.raises(tug.UsageError, match="importance cannot be combined with group or by"):
        model.evaluate(frame, by="ad", importance=True)


def test_importance_of_a_matrix(data, capfd):
    matrix, labels = data
    with tug.train(matrix, labels, model="fm", epochs=5, progress=False) as model:
        found = model.importance(matrix, labels, only=[0, 5])
        kept = matrix.copy()
        assert {one["column"] for one in found} == {0, 5} and np.array_equal(kept, matrix)
        assert found[0]["auc_drop"] >= found[1]["auc_drop"] and found[0]["auc_drop"] > 0.005
        capfd.readouterr()
        shuffled = matrix.copy()
        shuffled[:, 0] = matrix[np.random.default_rng(0).permutation(len(matrix)), 0]
        first = next(one for one in found if one["column"] == 0)
        said = model.evaluate(shuffled, labels)
        assert np.allclose([first["auc"], first["logloss"]], [said["auc"], said["logloss"]], atol=1e-6)
        capfd.readouterr()
        model.importance(matrix, labels, only=[0])
        assert "worse than a guess" not in capfd.readouterr().err
        with pytest.raises(tug.UsageError, match="only: 30 is not from 0 to 29"):
            model.importance(matrix, labels, only=[30])


def test_calibration(clicks):
    frame, model = clicks
    bins = model.calibration(frame)
    assert sum(one["examples"] for one in bins) == 4000
    assert all(abs(one["predicted"] - one["observed"]) < 0.12 for one in bins)
    with tug.train(frame, label="clicked", model="lr", loss="squared", epochs=1, progress=False) as other:
        with pytest.raises(tug.UsageError, match="calibration needs probabilities"):
            other.calibration(frame)


def test_cross_validation(clicks, data, tmp_path):
    frame, _ = clicks
    found = tug.cv(frame, label="clicked", folds=4, model="lr", epochs=3, threads=1)
    assert len(found.passes) == 3 and len(found.folds) == 4 and found.best in found.passes
    held = [run[0].valid_examples for run in found.folds]
    assert sum(held) == 4000 and all(run[0].examples == 4000 - n for run, n in zip(found.folds, held))
    losses = [run[1].valid_loss for run in found.folds]
    second = found.passes[1]
    assert np.isclose(second.loss, np.mean(losses)) and np.isclose(second.loss_deviation, np.std(losses))
    assert found.best.loss == min(p.loss for p in found.passes)
    matrix, labels = data
    path = write_libsvm(tmp_path / "cv.svm", matrix, labels)
    mine = tug.cv(matrix, labels, folds=3, model="lr", epochs=2, **FIXED)
    said = run("train", "--data", path, "--format", "libsvm", "--model", "lr", "--epochs", "2", *FLAGS, "--cv", "3",
               "--json", "--quiet", cwd=tmp_path)
    theirs = json.loads(said.splitlines()[-1])["cv"]
    assert theirs["folds"] == 3 and theirs["best"] == mine.best.pass_
    for a, b in zip(theirs["passes"], mine.passes):
        assert np.allclose([a["loss"], a["auc"], a["auc_deviation"]], [b.loss, b.auc, b.auc_deviation], atol=1e-9)
    with pytest.raises(tug.UsageError, match="folds: 1 is not from 2"):
        tug.cv(frame, label="clicked", folds=1)
    with pytest.raises(tug.ArgumentTypeError, match="cv: does not take out="):
        tug.cv(frame, label="clicked", out="m")
    with pytest.raises(tug.DataError, match="folds=5: one of the parts leaves none of the 3 examples to validate on"):
        tug.cv(frame.__class__({k: v[:3] for k, v in frame.items()}), label="clicked", model="lr", threads=1)


def told(function, *args):
    """Calls a function and returns its warnings as text; checks that they point to this file."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        function(*args)
    assert all(w.category is tug.Warning and w.filename == __file__ for w in found)
    return "; ".join(str(w.message) for w in found)


def test_a_file_counts_from_one(data, tmp_path, capfd):
    """A libsvm file counts features from 1 and a matrix from 0, so a mix of both is warned of."""
    matrix, labels = data
    shifted = np.hstack([np.zeros((len(matrix), 1), np.float32), matrix])
    one, zero = write_libsvm(tmp_path / "one.svm", shifted, labels), write_libsvm(tmp_path / "zero.svm", matrix, labels)
    from_0 = "numbered from 0 to 29, and the model knows features 1 to 30"
    from_1 = "numbered from 1 to 30, and the model knows features 0 to 29"
    options = {"format": "libsvm", "model": "lr", "epochs": 1, "progress": False, "threads": 1}
    with tug.train(one, **options) as model:
        assert from_0 in told(model.predict, matrix)
        assert np.array_equal(model.predict(shifted), model.predict(one))
        assert told(model.predict, shifted) == told(model.predict, one) == ""
        assert told(model.predict, matrix) == ""  # each warning is given only once
        model.save(tmp_path / "one")
    for name, given, label in (("zero", zero, None), ("csr", Csr(matrix), labels), ("dense", matrix, labels)):
        with tug.train(given, label, **options) as model:
            assert told(model.evaluate, matrix, labels) == told(model.evaluate, zero) == ""
            assert from_1 in told(model.evaluate, one)
            model.save(tmp_path / name)
    for name, other, says in (("one", matrix, from_0), ("one", Csr(matrix), from_0), ("one", zero, from_0),
                              ("zero", one, from_1), ("csr", one, from_1), ("dense", one, from_1)):
        with tug.load(tmp_path / name) as model, tug.Scorer(tmp_path / name) as scorer:
            assert says in told(model.predict, other) and "data: " in told(tug.load(tmp_path / name).explain, other)
            text = open(other, encoding="ascii").read() if isinstance(other, str) else other
            assert says in told(scorer.predict, text) and told(scorer.predict, text) == ""
    assert "are numbered" not in capfd.readouterr().err


def test_widths_of_matrices(data, tmp_path):
    """A save has the number of columns that the model was trained on."""
    matrix, labels = data
    wide = np.hstack([matrix, matrix])
    with tug.train(Csr(matrix), labels, model="lr", epochs=1, progress=False, threads=1) as trained:
        trained.save(tmp_path / "model")
        for model in (trained, pickle.loads(pickle.dumps(trained)), tug.load(tmp_path / "model")):
            assert "has 60 columns, and the model learnt from 30: the columns from 30 on are ignored" in told(
                model.predict, Csr(wide))
            assert "has 20 columns, and the model learnt from 30: the columns that are missing count as 0" in told(
                model.evaluate, Csr(matrix[:, :20]), labels)
            for other in (wide, matrix[:, :20]):
                with pytest.raises(tug.UsageError, match="columns, but the model was trained on 30"):
                    model.predict(other)
            assert told(model.predict, matrix) == ""
    for other, says in ((wide, "has 60 columns"), (Csr(matrix[:, :20]), "has 20 columns"), (matrix[3:4], "")):
        with tug.Scorer(tmp_path / "model") as scorer:
            assert says in told(scorer.predict, other) and (says or told(scorer.predict, other) == "")


def test_errors(data, tmp_path):
    matrix, labels = data
    with pytest.raises(TypeError, match="^valid: must be a share of the data.*not True"):
        tug.train(matrix, labels, valid=True)
    for given, why in (({"offsets": [0, -1]}, "^offsets: element 1 is -1, but must not be negative"),
                       ({"fields": [-3]}, "^fields: element 0 is -3, but must not be negative")):
        with pytest.raises(tug.UsageError, match=why):
            tug.Rows(**{"offsets": [0, 1], "keys": [5], **given})
    with pytest.raises(tug.UsageError, match="^data: there are no rows"):
        tug.train(Csr(matrix[:0]), labels[:0])
    with pytest.raises(TypeError, match="no option 'epoch'; did you mean 'epochs'?"):
        tug.train(matrix, labels, epoch=2)
    with pytest.raises(tug.UsageError, match="^lr: "):
        tug.train(matrix, labels, lr="fast")
    with pytest.raises(tug.UsageError, match="an lr model has no layers"):
        tug.train(matrix, labels, model="lr", hidden=[8, 8])
    with pytest.raises(tug.UsageError, match="label: has the shape"):
        tug.train(matrix, labels[:-1])
    with pytest.raises(tug.UsageError, match="labels are missing"):
        tug.train(matrix)
    with pytest.raises(tug.DataError, match="data: row 0: the value of feature 0 is NaN"):
        tug.train(np.where(matrix == 0, np.nan, 0), labels)
    with pytest.raises(TypeError, match="data: "):
        tug.train(3, labels)
    with pytest.raises(tug.ArgumentTypeError, match="progress: must be a function or a bool, not int"):
        tug.Model(progress=5)
    with pytest.raises(tug.ArgumentTypeError, match="client: must be a tug.Client, not int"):
        tug.Model(client=3)
    offsets = np.array([0, 1, 2], np.uint64)
    rows = tug.Rows(offsets, np.array([1, 2], np.uint64))
    offsets[2] = 1000  # Rows does not copy the array
    with pytest.raises(tug.UsageError, match="an offset is 1000, but there are 2 keys"):
        tug.train(rows, [0, 1])
    with pytest.raises(tug.DataError, match="none.txt"):
        tug.train(tmp_path / "none.txt", format="libsvm")
    with pytest.raises(tug.UsageError, match="^valid needs a driver"):
        os.environ.update(TRAINING_ROLE="TRAINER", PADDLE_PSERVERS_IP_PORT_LIST="127.0.0.1:9", PADDLE_TRAINERS_NUM="1",
                          PADDLE_TRAINER_ID="0")
        try:
            tug.train(matrix, labels, alone=True, epochs=1).close()
            tug.train(matrix, labels, valid=0.1)
        finally:
            del os.environ["TRAINING_ROLE"]
    model = tug.train(matrix, labels, epochs=1)
    path = write_libsvm(tmp_path / "a.txt", matrix[:20], labels[:20])
    for call in (model.train, model.evaluate):
        with pytest.raises(tug.UsageError, match="label: data files contain the labels"):
            call(path, 1 - labels[:20])
    with pytest.raises(TypeError, match="did you mean 'threads'"):
        model.predict(matrix, thread=1)
    with pytest.raises(tug.UsageError, match="^out is not supported in a program"):
        model.predict(matrix, out="x")
    model.close()
    with pytest.raises(tug.ClosedError):
        model.predict(matrix)


def test_progress(data, capfd):
    matrix, labels = data
    heard = []
    with tug.train(matrix, labels, epochs=3, progress=heard.append) as model:
        assert model.labels == [""]
    assert [p.pass_ for p in heard if p.done] == [1, 2, 3]
    assert heard[-1].pass_ == 3 and heard[-1].auc > 0.6
    assert str(heard[-1]).startswith("pass 3/3  loss 0.")

    def fails(progress):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        tug.train(matrix, labels, epochs=3, progress=fails)
    assert capfd.readouterr().err == ""


def test_history(data, tmp_path):
    matrix, labels = data
    heard, passes, path = [], [], tmp_path / "history.jsonl"
    settings = {"model": "lr", "valid": 0.25, "patience": 0, "history": path, "on_pass": passes.append}
    with tug.train(matrix, labels, epochs=30, progress=heard.append, **settings) as model:
        history, results = model.history, model.results
        assert passes == history and [p.pass_ for p in history] == list(range(1, 31))
        assert [p.pass_ for p in heard if p.done] == list(range(1, 31))
        assert {p.examples for p in history} == {results["examples"]} and results["held_out"] > 400
        assert results["examples"] + results["held_out"] == 2000
        assert {p.valid_examples for p in history} == {results["held_out"]}
        assert history[-1].auc == results["train.auc"]
        best = max(p.pass_ for p in history if p.best)
        assert best == results["best_epoch"] and history[best - 1].valid_loss == results["valid.logloss"]
        model.save(tmp_path / "saved")
        model.train(matrix, labels)
        assert model.history[:30] == history and [p.pass_ for p in model.history[30:]] == list(range(31, 61))
        assert passes == model.history
        assert copy.deepcopy(model).history == model.history
    lines = [json.loads(line) for line in path.read_text().split("\n") if line]
    assert [line["pass"] for line in lines] == list(range(1, 61))
    assert [line["valid"]["loss"] for line in lines] == [p.valid_loss for p in passes]
    with tug.load(tmp_path / "saved") as loaded:
        assert loaded.history == history
    with tug.Model(model="lr") as untrained:
        assert untrained.history == []


@pytest.mark.parametrize("name, meant", [("learning_rate", "lr"), ("n_estimators", "epochs"), ("num_epochs", "epochs"),
                                         ("batch_size", "batch"), ("epocs", "epochs"),
                                         ("max_badlines", "max_bad_lines")])
def test_what_was_meant(name, meant):
    with pytest.raises(tug.ArgumentTypeError, match=f"there is no option '{name}'; did you mean '{meant}'"):
        tug.Model(**{name: 1})


def test_on_pass_that_uses_the_model(data):
    matrix, labels = data[:2]
    for name in ("on_pass", "progress"):
        hears = {"progress": False, name: lambda _: model.evaluate(matrix, labels)}
        with tug.Model(model="lr", epochs=1, **hears) as model:
            with pytest.raises(tug.UsageError, match="on_pass and progress must not use a model.*epochs=1"):
                model.train(matrix, labels)


def test_on_pass_that_raises(data):
    matrix, labels = data

    def fails(_one):
        raise RuntimeError("enough")

    with tug.Model(model="lr", epochs=5, progress=False, on_pass=fails) as model:
        with pytest.raises(RuntimeError, match="enough"):
            model.train(matrix, labels)
    with pytest.raises(tug.ArgumentTypeError, match="on_pass: must be a function, not int"):
        tug.Model(on_pass=5)


def test_interrupt(data, tmp_path, monkeypatch):
    matrix, labels = data
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    model = tug.train(matrix, labels, epochs=1, **FIXED)
    before = model.predict(matrix)
    model.save(tmp_path / "saved")
    model.close()
    model = tug.load(tmp_path / "saved", epochs=10 ** 6, **FIXED)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        model.train(matrix, labels)
    timer.join()
    assert np.array_equal(model.predict(matrix), before)
    model.close()
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        tug.train(matrix, labels, epochs=10 ** 6, out=tmp_path / "out", **FIXED)
    timer.join()
    assert os.listdir(temporary) == []
    with tug.load(tmp_path / "out") as model:  # the finished passes are saved
        assert model.predict(matrix).shape == (2000,)


def test_threads_share_a_model(data, tmp_path):
    """Each thread gets the results of its own call, even if other threads call the same model meanwhile."""
    matrix, labels = data
    path = write_libsvm(tmp_path / "a.txt", matrix[:200], labels[:200])
    with tug.train(matrix, labels, epochs=1) as model:
        calls = {"predict": lambda: model.predict(matrix).tolist(), "files": lambda: model.predict(path).tolist(),
                 "evaluate": lambda: sorted(model.evaluate(path).items()), "explain": lambda: model.explain(path),
                 "spread": lambda: [one.tolist() for one in model.spread()], "labels": lambda: model.labels}
        wanted = {name: repr(call()) for name, call in calls.items()}
        wrong = []

        def ask(name):
            try:
                for _ in range(5):
                    if repr(calls[name]()) != wanted[name]:
                        wrong.append(name)
            except Exception as error:
                wrong.append(f"{name}: {error!r}")

        threads = [threading.Thread(target=ask, args=(name,)) for name in [*calls] * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_terminal(data, tmp_path):
    """Progress is drawn on a line in a terminal, and is not written to a pipe."""
    import pty
    path = write_libsvm(tmp_path / "a.txt", *data)
    program = f"import tug; tug.train({path!r}, format='libsvm', epochs=2).close()"
    try:
        master, slave = pty.openpty()
    except OSError:
        pytest.skip("no pseudo terminals: /dev/pts is not mounted")
    done = subprocess.run([sys.executable, "-c", program], stderr=slave, stdout=subprocess.PIPE, timeout=60)
    os.close(slave)
    said = os.read(master, 1 << 16).decode()
    os.close(master)
    assert done.returncode == 0 and done.stdout == b""
    assert "pass 2/2  loss 0." in said


def test_with_options_keeps_the_others(data, tmp_path):
    """with_options keeps the options that the call leaves out, here lr and seed. For an option set to None, the save's
    value is used."""
    matrix, labels = data
    heard, passes = [], []
    options = {"model": "fm", "dim": 4, "lr": 0.3, "seed": 9, "l2": 0.01, "threads": 1}
    with tug.train(matrix, labels, epochs=2, progress=heard.append, on_pass=passes.append, out=tmp_path / "out",
                   **options) as model:
        with model.with_options(epochs=1, progress=False) as copied:
            wanted = copied.train(matrix, labels).predict(matrix)
            assert copied.results["epochs"] == 3 and [p.pass_ for p in passes] == [1, 2, 3]
        whole = model.with_options(epochs=1, progress=False, on_pass=None, **options).train(matrix, labels)
        assert np.array_equal(whole.predict(matrix), wanted) and len(passes) == 3
        with pytest.raises(tug.UsageError, match="had lr=0.3, but this run has 0.1"):
            model.with_options(epochs=1, lr=0.1).train(matrix, labels)
        with model.with_options(epochs=1, progress=False, on_pass=None, lr=None) as unsaid:  # lr comes from the save
            assert np.array_equal(unsaid.train(matrix, labels).predict(matrix), wanted)
        before = os.listdir(tmp_path / "out")
        model.with_options(epochs=1).train(matrix, labels).close()
        assert any(p.pass_ == 3 for p in heard) and len(passes) == 4
        assert os.listdir(tmp_path / "out") == before  # the copy does not write to the directory of the first model


def test_what_was_not_measured_is_none(data, tmp_path):
    """Figures that were not measured are None: with NaN, which is not equal to itself, histories could not be
    compared."""
    matrix, labels = data
    with tug.train(matrix, labels, model="lr", epochs=2, loss="squared", progress=False) as model:
        model.save(tmp_path / "saved")
        assert model.history[0].auc is model.history[0].valid_loss is model.history[0].valid_auc is None
        with tug.load(tmp_path / "saved") as loaded:
            assert loaded.history == model.history
    found = tug.cv(matrix, labels, model="lr", epochs=2, loss="squared", folds=2)
    assert found.best.auc is found.best.auc_deviation is None and found.best.loss > 0


def test_seconds_add_up(data, tmp_path):
    matrix, labels = data
    path = write_libsvm(tmp_path / "a", matrix, labels)
    with tug.train(path, format="libsvm", model="lr", valid=0.2, test=path, out=tmp_path / "out", **FIXED) as model:
        found = model.results
        parts = [found[f"{name}_seconds"] for name in ("read", "train", "valid", "save", "test", "other")]
        assert np.isclose(sum(parts), found["total_seconds"]) and min(parts) >= 0


def test_warnings_name_keywords(capfd):
    """Warnings name options as keywords, as errors do: lr, not --lr."""
    frame = {"y": [0, 1] * 200, "x": [300.0 * (i % 3) for i in range(400)]}
    with tug.train(frame, label="y", numeric="x", epochs=2, model="lr", optimizer="sgd", lr=1000, threads=1,
                   progress=False):
        pass
    said = capfd.readouterr().err
    assert "try a smaller lr" in said and "l2" in said and "--" not in said
