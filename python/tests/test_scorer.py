"""Scorers: many threads get the predictions of Model.predict, and a scorer follows new saves of a model.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import threading
import time
import warnings

import numpy as np
import pytest

import tug
from tug._abi import ffi
from tug._library import lib, text_of

FIELDS = 6


def rows_of(seed, n=300, unseen=False):
    random = np.random.default_rng(seed)
    fields = np.tile(np.arange(FIELDS), n)
    keys = random.integers(0, 50, n * FIELDS) * FIELDS + fields
    values = np.where(random.random(n * FIELDS) < 0.3, random.normal(size=n * FIELDS), 1).astype(np.float32)
    labels = ((keys[::FIELDS] // FIELDS + keys[1::FIELDS] // FIELDS) % 2).astype(np.float32)
    if unseen:
        keys[::7] += 100000 * FIELDS
    return tug.Rows(np.arange(0, (n + 1) * FIELDS, FIELDS), keys, values, fields), labels


@pytest.mark.parametrize("model", ["lr", "fm", "ffm", "mlp", "wide_deep", "deepfm", "dcn"])
@pytest.mark.parametrize("table", [None, "embedx-threshold=2; base-threshold=0"])
def test_same_bits(model, table, tmp_path):
    rows, labels = rows_of(1)
    others, _ = rows_of(2, 333, unseen=True)
    layers = {"hidden": "8,4"} if model in ("mlp", "wide_deep", "deepfm", "dcn") else {}
    with tug.train(rows, labels, model=model, dim=4, table=table, threads=2, **layers) as trained:
        trained.save(tmp_path / "model")
        with tug.Scorer(tmp_path / "model") as scorer:
            assert np.array_equal(scorer.predict(others), trained.predict(others))
            assert np.array_equal(scorer.predict(others, raw=True), trained.predict(others, raw=True))
            assert scorer.status.save == 1 and scorer.status.rows > 0 and scorer.labels == [""]


def write_csv(path, n, labels=("click",)):
    random = np.random.default_rng(3)
    lines = [",".join([*labels, "site", "age", "income", "tags"])]
    for _ in range(n):
        site, age = random.integers(9), random.integers(80)
        clicks = [str((site + age) % (2 + i)) if i == 0 else str(age % 2) for i in range(len(labels))]
        lines.append(",".join([*clicks, f"s{site}", str(age), f"{random.random() * 1e4:.2f}",
                               "|".join(f"t{t}" for t in random.integers(0, 5, random.integers(0, 4)))]))
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def test_text_by_names(tmp_path):
    path = write_csv(tmp_path / "a.csv", 400)
    with tug.train(path, format="csv", label="click", numeric="age:bins:8,income:log", lists="tags", model="ffm",
                   cross_columns="site*tags", dim=2) as model, tug.Scorer(_save(model, tmp_path)) as scorer:
        whole = model.predict(path)
        text = (tmp_path / "a.csv").read_text()
        assert np.array_equal(scorer.predict(text), whole)
        # The columns may come in another order, and without the label.
        rows = [line.split(",") for line in text.split()]
        other = "\n".join(",".join([r[4], r[2], r[1], r[3]]) for r in rows)
        assert np.array_equal(scorer.predict(other.encode()), whole)
        with pytest.raises(tug.DataError, match="line 1: the header lacks the feature columns 'income', 'tags'"):
            scorer.predict("site,age\ns1,30\n")
        with pytest.raises(tug.DataError, match="line 3"):
            scorer.predict(text.split("\n", 1)[0] + "\n1,s1,30,5,t1\n1,s1,30\n")
        assert np.array_equal(scorer.predict(text), whole)
        key, field = scorer.feature("site=s3")
        assert field == 0 and key > 0 and scorer.feature("site=s4")[0] != key
        with pytest.raises(tug.UsageError, match="'sight'"):
            scorer.feature("sight=s3")


@pytest.mark.parametrize("options", [{"model": "fm"}, {"model": "deepfm", "hidden": "8"},
                                     {"model": "lr", "numeric": "price:log"}], ids=str)
def test_frames(options, tmp_path):
    random = np.random.default_rng(4)
    tags = np.empty(500, object)
    tags[:] = [list(random.choice(["a", "b", "c"], k)) for k in random.integers(0, 3, 500)]
    city = random.choice(["Oslo", 'x "y"', "a,b", ""], 500).astype(object)
    city[::9] = None
    frame = {"city": city, "age": random.integers(0, 90, 500), "price": random.normal(size=500) * 10,
             "old": random.random(500) < 0.5, "tags": tags, "clicked": random.random(500) < 0.4}
    frame["price"][::7] = np.nan
    with tug.train(frame, "clicked", categorical=["age"], progress=False, epochs=1, **options) as model:
        wanted = model.predict(frame)
        with tug.Scorer(_save(model, tmp_path)) as scorer:
            assert np.array_equal(scorer.predict(frame), wanted)
            del frame["clicked"]
            assert np.array_equal(scorer.predict(dict(reversed(list(frame.items())))), wanted)
            try:
                import pandas
            except ImportError:
                pass
            else:
                assert np.array_equal(scorer.predict(pandas.DataFrame(frame)[3:8]), wanted[3:8])
            del frame["age"]
            with pytest.raises(tug.DataError, match="lacks the feature column 'age'"):
                scorer.predict(frame)


def test_a_frame_of_one_column(tmp_path):
    """A row with a missing word is an example, although its csv line would be empty."""
    frame = {"city": ["Oslo", None] * 50, "clicked": [0, 1] * 50}
    with tug.train(frame, "clicked", progress=False, epochs=1, model="lr") as model:
        wanted = model.predict(frame)
        with tug.Scorer(_save(model, tmp_path)) as scorer:
            assert np.array_equal(scorer.predict({"city": frame["city"]}), wanted)
    with tug.train(np.eye(4), [0, 1, 0, 1], progress=False) as model:
        model.save(tmp_path / "matrix")
        with tug.Scorer(tmp_path / "matrix") as scorer, pytest.raises(tug.UsageError, match="columns have no names"):
            scorer.predict(frame)


def test_errors_name_no_options(tmp_path):
    """Errors of a scorer do not name options of the commands, which it does not have."""
    frame = {"city": ["Oslo", "Bonn"] * 50, "age": [1.0, 2.0] * 50, "clicked": [0, 1] * 50}
    with tug.train(frame, "clicked", progress=False, epochs=1, model="lr") as model:
        with tug.Scorer(_save(model, tmp_path)) as scorer:
            for text, what in (("city,age,new\nOslo,1,2\n", "'new'; leave it out"),
                               ("city,age,new,b\nOslo,1,2,3\n", "leave them out"),
                               ("city\nOslo\n", "'age', .*empty cells"), ("city;age\nOslo;1\n", "separator")):
                with pytest.raises(tug.DataError, match=what) as caught:
                    scorer.predict(text)
                assert "--" not in str(caught.value)


def test_a_matrix_for_a_model_of_words(tmp_path):
    """A matrix is refused for a model of hashed words: it does not know column numbers, so each prediction would be the
    bias."""
    frame = {"city": ["Oslo", "Bonn"] * 50, "clicked": [0, 1] * 50}
    with tug.train(frame, "clicked", progress=False, epochs=1, model="lr") as model:
        with tug.Scorer(_save(model, tmp_path)) as scorer:
            assert scorer.format == "csv"
            for data in (np.eye(2), np.eye(2, dtype=np.float32)):
                with pytest.raises(tug.UsageError, match="trained on csv data, whose features are words"):
                    scorer.predict(data)
            keys = [scorer.feature(f"city={word}")[0] for word in ("Oslo", "Bonn")]
            rows = tug.Rows([0, 1, 2], np.array(keys, np.uint64))
            assert np.array_equal(scorer.predict(rows), model.predict(frame)[:2])


def test_frames_are_read_as_predict_reads_them(tmp_path):
    """Values that cannot be read are refused, not taken as missing; a line break in a word is part of the word."""
    frame = {"city": ["Oslo", "Os\nlo", None] * 30, "clicked": [0, 1, 1] * 30}
    dates = {"city": np.array([1, 2], "timedelta64[s]")}
    with tug.train(frame, "clicked", progress=False, epochs=1, model="lr") as model:
        wanted = model.predict(frame)
        assert wanted[1] != wanted[2]
        with tug.Scorer(_save(model, tmp_path)) as scorer:
            assert np.array_equal(scorer.predict({"city": frame["city"]}), wanted)
            for predicts in model, scorer:
                with pytest.raises(tug.DataError, match="row 0: column 'city' has the Arrow format"):
                    predicts.predict(dates)
                with pytest.raises(tug.DataError, match="row 1: .*byte 0"):
                    predicts.predict({"city": ["a", "a\0b"]})
            assert np.array_equal(scorer.predict({"city": frame["city"]}), wanted)


def test_frames_for_a_model_of_csv_without_a_header(tmp_path):
    (tmp_path / "a.csv").write_text("".join(f"{i % 2},s{i % 4},t{i % 3}\n" for i in range(120)))
    text = "0,s1,t2\n0,s2,t1\n"
    frame = {"site": ["s1", "s2"], "tag": ["t2", "t1"]}
    with tug.train(str(tmp_path / "a.csv"), format="csv", columns="click,site,tag", label="click", progress=False,
                   model="lr") as model, tug.Scorer(_save(model, tmp_path)) as scorer:
        wanted = model.predict(frame)
        assert wanted[0] != wanted[1]
        for _ in range(2):
            assert np.array_equal(scorer.predict(frame), wanted)
            assert np.array_equal(scorer.predict({"tag": frame["tag"], "site": frame["site"]}), wanted)
            assert np.array_equal(scorer.predict(text), wanted)


def _save(model, tmp_path):
    model.save(tmp_path / "model")
    return tmp_path / "model"


def test_several_labels(tmp_path):
    path = write_csv(tmp_path / "a.csv", 300, ("click", "buy"))
    with tug.train(path, format="csv", label="click,buy", numeric="age,income", lists="tags", model="mlp",
                   hidden="8") as model, tug.Scorer(_save(model, tmp_path)) as scorer:
        assert scorer.labels == ["click", "buy"]
        assert np.array_equal(scorer.predict((tmp_path / "a.csv").read_bytes()), model.predict(path))


def test_many_threads_follow(tmp_path):
    rows, labels = rows_of(1)
    out = tmp_path / "out"
    saved, wrong, done = {}, [], threading.Event()

    def read(scorer):
        while not done.is_set():
            got, save = scorer.predict_with_save(rows)
            wrong.extend([save] if save in saved and not np.array_equal(got, saved[save]) else [])

    # Each call of train saves before it returns, so a scorer may use a save before its predictions are known here.
    with tug.Model(model="fm", dim=4, epochs=1, out=out, keep=2) as model:
        model.train(rows, labels)
        saved[1] = model.predict(rows)
        with tug.Scorer(out, follow=True, poll_ms=50) as scorer:
            threads = [threading.Thread(target=read, args=(scorer,)) for _ in range(4)]
            for t in threads:
                t.start()
            for number in range(2, 8):
                model.train(rows, labels)
                saved[number] = model.predict(rows)
                end = time.monotonic() + 60
                while scorer.status.save < number:
                    assert time.monotonic() < end, scorer.status
                    done.wait(0.01)
                assert np.array_equal(scorer.predict(rows), saved[number])
            done.set()
            for t in threads:
                t.join()
            assert not wrong and scorer.status.refused == 0


@pytest.mark.parametrize("options", [{"threads": 1024}, {"wait_seconds": -1}, {"wait_seconds": float("inf")}], ids=str)
def test_options_that_cannot_be(options, tmp_path):
    """The C function checks the options, too, since Python's checks are not in front of it."""
    ret = ffi.new("struct tug_scorer **")
    status = lib.tug_scorer_open(ret, os.fsencode(tmp_path), ffi.new("struct tug_scorer_options *", options))
    assert status == lib.TUG_EUSAGE and next(iter(options)) in text_of(lib.tug_last_error())


def test_threads_that_load(tmp_path):
    rows, labels = rows_of(1)
    with tug.train(rows, labels, model="fm", dim=2, progress=False) as model:
        with tug.Scorer(_save(model, tmp_path), threads=20) as scorer:
            assert np.array_equal(scorer.predict(rows), model.predict(rows))


def test_refused(tmp_path):
    rows, labels = rows_of(1)
    with pytest.raises(tug.DataError, match="holds no save"):
        tug.Scorer(tmp_path)
    with pytest.raises(tug.UsageError, match="threads: 1024 is not from 0 to 1023"):
        tug.Scorer(tmp_path, threads=1024)
    with pytest.raises(tug.ArgumentTypeError, match="wait_seconds: must be a number"):
        tug.Scorer(tmp_path, wait_seconds="5")
    with tug.local() as client:
        client.table("w", dim=2).push(np.arange(3, dtype=np.uint64), np.ones((3, 2), np.float32))
        client.save(str(tmp_path / "tables"))
    with pytest.raises(tug.DataError, match="no description of a model"):
        tug.Scorer(tmp_path / "tables")
    with tug.train(rows, labels, model="ffm", dim=2) as model:
        model.save(tmp_path / "model")
    manifest = tmp_path / "model" / "save-000001" / "manifest.json"
    with pytest.raises(tug.UsageError, match="is one save"):
        tug.Scorer(manifest.parent, follow=True)
    with tug.Scorer(tmp_path / "model") as scorer:
        with pytest.raises(tug.UsageError, match="needs fields"):
            scorer.predict(np.ones((2, 3)))
        with pytest.raises(tug.UsageError, match="not below 6"):
            scorer.predict(tug.Rows([0, 1], [5], None, [6]))
        with pytest.raises(tug.UsageError, match="of key 5, is not finite"):
            scorer.predict(tug.Rows([0, 1], [5], [np.nan], [1]))
        with pytest.raises(tug.UsageError, match="have no names: use their keys"):
            scorer.feature("site=a")
        with pytest.raises(tug.ArgumentTypeError, match="a scorer takes rows, or text"):
            scorer.predict(["a.txt"])
        assert scorer.refresh() is False
    with pytest.raises(tug.ClosedError):
        scorer.predict(rows)
    text = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**text, "version": 2}))
    with pytest.raises(tug.DataError, match="format version 2; this tug reads version 3"):
        tug.Scorer(tmp_path / "model")
    manifest.write_text(json.dumps(text))
    (manifest.parent / "sparse-0.rows").unlink()
    with pytest.raises(tug.Error, match="sparse-0.rows"):
        tug.Scorer(tmp_path / "model")


def test_unknown_values_are_told_by_column(tmp_path, capfd):
    lines = [f"{i % 2},{'true' if i % 3 else 'false'},s{i % 5}" for i in range(100)]
    data = tmp_path / "data.csv"
    data.write_text("y,member,site\n" + "\n".join(lines) + "\n")
    tug.train(str(data), format="csv", label="y", model="lr", epochs=1, out=str(tmp_path / "model"))
    other = data.read_text().replace("true", "True").replace("false", "False")
    with tug.Scorer(str(tmp_path / "model")) as scorer:
        scorer.predict(data.read_text())
        scorer_of_others = tug.Scorer(str(tmp_path / "model"))
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            for _ in range(6):
                scorer_of_others.predict(other)
        told = str(found[0].message)
        assert len(found) == 1 and "column 'member'" in told and "'False', 'True'" in told and "'site'" not in told
        scorer_of_others.close()
    assert "member" not in capfd.readouterr().err


def test_fields_count_from_one(tmp_path):
    """Rows whose fields are counted from 0 are warned of by a model and a scorer of rows with fields from 1 on."""
    def rows(first):
        keys = np.stack([1 + np.arange(90) % 4, 5 + np.arange(90) % 3, np.full(90, 9)], 1)
        return tug.Rows(np.arange(0, 271, 3), keys.reshape(-1), fields=np.tile(np.arange(3) + first, 90))

    says = "its fields are numbered from 0 to 2, and those of the model's data from 1 to 3: add 1"
    with tug.train(rows(1), np.arange(90) % 2, model="ffm", fields=4, epochs=1, progress=False, threads=1) as model:
        with pytest.warns(tug.Warning, match=says):
            model.predict(rows(0))
        model.save(tmp_path / "saved")
    with tug.load(tmp_path / "saved") as model, tug.Scorer(tmp_path / "saved") as scorer:
        with pytest.warns(tug.Warning, match=says):
            model.predict(rows(0))
        with pytest.warns(tug.Warning, match=says):
            scorer.predict(rows(0))
