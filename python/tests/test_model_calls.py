"""Progress by batches, files of tfevents, and errors about rows of another kind than the training data's.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
import tug


def clicks():
    """Returns a matrix of 500 rows, and labels that depend on its first column."""
    matrix = np.random.default_rng(1).random((500, 5), dtype=np.float32)
    return matrix, (matrix[:, 0] > 0.5).astype(np.float32)


def test_progress_by_batches(capfd):
    matrix, labels = clicks()
    options = {"epochs": 2, "batch": 10, "log_every": 7, "deterministic": True, "threads": 1}
    lines, heard = (2 * len(labels) // 10) // 7, []
    tug.train(matrix, labels, progress=heard.append, **options).close()
    assert len([p for p in heard if not p.done]) == lines
    assert [p.examples for p in heard[:3]] == [70, 140, 210]
    tug.train(matrix, labels, **options).close()  # no terminal: lines all the same
    assert len(capfd.readouterr().err.splitlines()) == lines + 2
    with pytest.raises(tug.UsageError, match="dot_every is not supported"):
        tug.train(matrix, labels, dot_every=1)


def test_rows_of_another_kind(tmp_path):
    slots = tmp_path / "a.slots"
    slots.write_text("".join(f"1 {i % 7} 1 {i % 2}\n" for i in range(1, 400)))
    with tug.train(slots, format="multislot", slots="u:ids, c:label", model="lr", epochs=1, progress=False) as model:
        with pytest.raises(tug.UsageError, match="^data: the data is a frame, and the model was trained on multislot"):
            model.predict({"u": [1, 2]})
    with tug.train({"u": ["a", "b"] * 50, "y": [0, 1] * 50}, label="y", model="lr", epochs=1, progress=False) as model:
        with pytest.raises(tug.UsageError, match="^data: the features of a matrix have numbers.*give a data frame"):
            model.predict(clicks()[0])


def _last_step(path):
    """The step of the last event in a file of tfevents (field 2, behind the time)."""
    data, at, step = path.read_bytes(), 0, 0
    while at < len(data):
        length = int.from_bytes(data[at:at + 8], "little")
        event = data[at + 12:at + 12 + length]
        if event[9:10] == b"\x10":
            end = next(i for i in range(10, 20) if event[i] < 128)
            step = sum((event[i] & 127) << 7 * (i - 10) for i in range(10, end + 1))
        at += 16 + length
    return step


def test_tfevents(tmp_path):
    """Each training writes a file of its own; steps count the examples of the model's whole training."""
    matrix, labels = clicks()
    with tug.train(matrix, labels, model="lr", epochs=2, valid=0.25, tfevents=tmp_path / "events") as model:
        model.train(matrix, labels)
        with model.with_options(epochs=1) as copied:
            copied.train(matrix, labels)
        first, second = sorted((tmp_path / "events").iterdir())
        assert b"loss/valid" in first.read_bytes() and b"auc/valid" in second.read_bytes()
        assert _last_step(first) == sum(p.examples for p in model.history[:2])
        assert _last_step(second) == sum(p.examples for p in model.history)
    (tmp_path / "file").write_text("")
    with pytest.raises(tug.UsageError, match="tfevents: '.*/file' is not a directory"):
        tug.train(matrix, labels, model="lr", tfevents=tmp_path / "file")
