"""The same rows, in whatever form a program has them, give the same model: the saves are compared bit for bit.

A matrix equals a libsvm file, and a data frame a csv file. So libsvm text, numpy and CSR matrices form one group of
forms, and csv text, dictionaries, pandas and Arrow the other.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest
from test_frames import N, Stream
from test_model import Csr, rows_of, write_libsvm

import tug

FIXED = {"dim": 4, "epochs": 2, "threads": 2, "deterministic": True, "data_in": "memory", "progress": False}
LAYERS = {"hidden": "8,4", "batch": 64}
OF_MATRICES = [{"model": "lr"}, {"model": "fm"}, {"model": "fm", "optimizer": "ftrl", "l1": 0.1}]
OF_FRAMES = [*OF_MATRICES, {"model": "ffm"}, {"model": "deepfm", **LAYERS}, {"model": "wide_deep", **LAYERS},
             {"model": "dcn", **LAYERS}, {"model": "mlp", **LAYERS}]


def saved(directory, data, *label, **options):
    with tug.train(data, *label, **options, **FIXED) as model:
        model.save(directory)
    return rows_of(directory)


def kinds_of(matrix):
    yield matrix
    yield matrix.astype(np.float64)
    yield np.asfortranarray(matrix)
    yield Csr(matrix)
    try:
        import scipy.sparse
    except ImportError:
        return
    yield scipy.sparse.csr_matrix(matrix)
    yield scipy.sparse.csc_matrix(matrix)


@pytest.mark.parametrize("options", OF_MATRICES, ids=str)
def test_text_numpy_and_csr(options, tmp_path):
    random = np.random.default_rng(1)
    matrix = np.where(random.random((N, 12)) < 0.4, random.normal(size=(N, 12)), 0).astype(np.float32)
    labels = (matrix[:, 0] * matrix[:, 1] + random.normal(size=N) > 0).astype(np.float32)
    path = write_libsvm(tmp_path / "a.txt", matrix, labels)
    wanted = saved(tmp_path / "text", path, format="libsvm", **options)
    for i, kind in enumerate(kinds_of(matrix)):
        assert saved(tmp_path / str(i), kind, labels, **options) == wanted, type(kind)


@pytest.mark.parametrize("options", [{"model": "ffm"}, {"model": "deepfm", **LAYERS}], ids=str)
def test_text_and_rows_with_fields(options, tmp_path):
    random = np.random.default_rng(2)
    keys = random.integers(0, 40, (N, 3)) * 3 + np.arange(3)
    labels = (keys.sum(axis=1) % 2).astype(np.float32)
    (tmp_path / "a.ffm").write_text("".join(
        f"{y:.0f} " + " ".join(f"{k % 3}:{k}:1" for k in row) + "\n" for y, row in zip(labels, keys)))
    rows = tug.Rows(np.arange(N + 1) * 3, keys.reshape(-1), fields=np.tile(np.arange(3), N))
    assert (saved(tmp_path / "text", tmp_path / "a.ffm", format="libffm", **options) ==
            saved(tmp_path / "rows", rows, labels, **options))


def frames_of(data):
    yield data
    yield Stream(data)
    try:
        import pandas
    except ImportError:
        pass
    else:
        yield pandas.DataFrame(data)
        yield pandas.DataFrame(data).astype({"site": "category", "user": "Int64"})
    try:
        import pyarrow
    except ImportError:
        return
    yield pyarrow.table(data)


@pytest.mark.parametrize("options", OF_FRAMES, ids=str)
def test_text_pandas_and_arrow(options, tmp_path):
    random = np.random.default_rng(3)
    data = {"clicked": random.random(N) < 0.4, "site": random.choice(["a", "b", "c"], N).astype(object),
            "user": random.integers(0, 90, N), "price": random.normal(size=N).astype(np.float32)}
    lines = [",".join(data)] + [f"{int(y)},{s},{u},{p!r}" for y, s, u, p in
                                zip(data["clicked"], data["site"], data["user"], data["price"].tolist())]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n")
    wanted = saved(tmp_path / "text", tmp_path / "a.csv", format="csv", label="clicked", numeric="price", **options)
    for i, frame in enumerate(frames_of(data)):
        assert saved(tmp_path / str(i), frame, "clicked", categorical=["user"], **options) == wanted, type(frame)
