"""Compares random pushes, pulls and assigns of tables with a dictionary of rows, and makes each other call once.

SPDX-License-Identifier: Apache-2.0
"""

import warnings

import numpy as np
import pytest

import tug

DIM = 3


class Naive:
    """A model of a table of rule sum, which handles one key at a time."""

    def __init__(self):
        self.rows = {}

    def push(self, keys, values):
        for key, value in zip(keys.reshape(-1), values.reshape(-1, DIM)):
            self.rows[int(key)] = self.rows.get(int(key), np.zeros(DIM, np.float32)) + value

    def assign(self, keys, values):
        for key, value in zip(keys.reshape(-1), values.reshape(-1, DIM)):
            self.rows[int(key)] = value.copy()

    def pull(self, keys):
        rows = [self.rows.get(int(k), np.zeros(DIM, np.float32)) for k in keys.reshape(-1)]
        return np.array(rows, np.float32).reshape(keys.shape + (DIM,))


def some_keys(rng, distinct):
    n = int(rng.integers(0, 40))
    space = np.array([0, 2 ** 64 - 1, *range(1, 60), *(2 ** 63 + i for i in range(20))], np.uint64)
    keys = rng.choice(space, n, replace=not distinct)
    return keys.reshape(2, -1) if n % 2 == 0 and rng.integers(2) else keys


def some_values(rng, keys):
    # Small integers, whose sums are exact as floats in any order.
    values = rng.integers(-8, 8, keys.shape + (DIM,))
    return values.astype(rng.choice([np.float32, np.float64, np.int64, np.float16]))


def one_step(rng, table, naive):
    what = rng.choice(["push", "push_async", "pull", "pull_async", "push_pull", "assign", "out"])
    keys = some_keys(rng, what == "assign")
    values = some_values(rng, keys)
    if what == "assign":
        table.assign(keys, values)
        naive.assign(keys, values.astype(np.float32))
    elif what.startswith("push"):
        naive.push(keys, values)
        if what == "push":
            table.push(keys, values)
        elif what == "push_async":
            return table.push_async(keys, values)
        else:
            np.testing.assert_array_equal(table.push_pull(keys, values), naive.pull(keys))
    elif what == "out":
        out = np.full(keys.shape + (DIM,), np.nan, np.float32)
        assert table.pull(keys, out=out) is out
        np.testing.assert_array_equal(out, naive.pull(keys))
    else:
        rows = table.pull(keys) if what == "pull" else table.pull_async(keys).wait()
        np.testing.assert_array_equal(rows, naive.pull(keys))
        assert rows.dtype == np.float32
    return None


@pytest.mark.parametrize("seed", range(5))
def test_random_operations(client, seed):
    rng = np.random.default_rng(seed)
    table, naive, open_requests = client.table("w", dim=DIM, rule="sum"), Naive(), []
    for _ in range(300):
        request = one_step(rng, table, naive)
        if request is not None:
            open_requests.append(request)
        if len(open_requests) > 5:
            assert open_requests.pop(int(rng.integers(5))).wait() is None
    for request in open_requests:
        request.wait()
    keys = np.array(sorted(naive.rows), np.uint64)
    np.testing.assert_array_equal(table.pull(keys), naive.pull(keys))
    assert table.stat().rows == len(keys)
    assert not client._flights


def test_rule_and_settings(client):
    table = client.table("w", dim=2, rule="sgd:lr=0.5", init=(1.0, 1.0))
    table.push([4], [[1, 2]])
    np.testing.assert_array_equal(table.pull([4, 5]), [[0.5, 0], [1, 1]])
    with pytest.raises(tug.UsageError, match="dimm"):
        client.table("v", dimm=2)
    with pytest.raises(tug.UsageError, match="must not have ';'"):
        client.table("v", rule="sgd; dim = 3")
    for settings, given, sentence in (
            ("", {"rule": "adagrd:lr=1"}, "^rule: there is no optimizer 'adagrd'; did you mean 'adagrad'"),
            ("", {"entry": "cuont:3"}, "^entry: there is no entry policy 'cuont'; .*; did you mean 'count'"),
            ("", {"embedx_rule": "sgd:l=1"}, "^embedx_rule: .* did you mean"),
            ("", {"dimm": 2}, "^a table has no setting 'dimm'; did you mean 'dim'"),
            ("dim = 2\nmode = x", {}, "^line 2: mode: 'x' is not one of")):
        with pytest.raises(tug.UsageError, match=sentence):
            client.table("v", settings=settings, **given)
    with pytest.raises(tug.UsageError, match="dim"):
        client.table("w", number=table.number, dim=3, rule="sgd:lr=0.5")


def test_numbers_and_names(client):
    a, b = client.table("a", dim=1), client.table("b", dim=1)
    assert (a.number, b.number) == (0, 1)
    assert client.find("b").number == 1
    b.push([1], [[1]])
    for settings in ({"dim": 1}, {"dim": 2}):  # a second table of the same name is refused
        with pytest.raises(tug.UsageError, match="already has a table 'b'"):
            client.table("b", **settings)
    assert client.table("b", number=1, dim=1).stat().rows == 1
    with pytest.raises(tug.UsageError, match="nosuch"):
        client.find("nosuch")
    a.drop()
    with pytest.raises(tug.UsageError, match="table 0"):
        a.pull([1])
    assert client.table("a", dim=1).number == 0


def test_ranges(client):
    table = client.table("w", dim=2, rule="sum", placement="range")
    table.push_range(10, np.arange(6).reshape(3, 2))
    np.testing.assert_array_equal(table.pull_range(9, 5), [[0, 0], [0, 1], [2, 3], [4, 5], [0, 0]])
    with pytest.raises(tug.UsageError, match="beyond the last key"):
        table.pull_range(2 ** 64 - 2, 4)
    assert table.pull_range(0, 0).shape == (0, 2)


def test_life(client):
    table = client.table("users", dim=2, accessor="ctr", rule="sgd:lr=1", embedx_rule="sgd:lr=1")
    assert (table.pull_width, table.push_width, table.assign_width) == (5, 6, 3)
    pushed = np.array([[0.5, 0, 0, 1, 1, 0], [0.5, 0, 0, 1, 0, 0]], np.float32)
    table.push([1, 2], pushed)
    np.testing.assert_array_equal(table.pull([1, 2])[:, :3], [[1, 1, -0.5], [1, 0, -0.5]])
    assert table.shrink(0.5) == 1  # the row without a click has the score 0.1
    table.day()
    assert table.stat().day == 1
    client.again(True)
    table.push([1], pushed[:1])
    assert table.pull([1])[0, 0] == pytest.approx(0.98)  # the show was counted once, and has decayed
    client.again(False)
    table.clear()
    assert table.stat().rows == 0
    assert client.step(3) == 3 and client.step() == 4


def test_saves(client, tmp_path):
    table = client.table("w", dim=2, rule="sum")
    table.push([1, 2, 3], [[1, 2], [3, 4], [5, 6]])
    path = client.save(tmp_path / "saves", tables=[table], zstd=3, about='{"run": 7}')
    assert path.endswith("save-000001")
    table.push([1], [[9, 9]])
    assert table.load(tmp_path / "saves") == 3
    np.testing.assert_array_equal(table.pull([1]), [[1, 2]])
    table.dump(tmp_path / "rows.txt")
    assert len((tmp_path / "rows.txt").read_text().splitlines()) >= 3
    with pytest.raises(tug.DataError):
        table.load(tmp_path / "nosuch")
    with pytest.raises(tug.UsageError, match="mode: 'full'"):
        client.save(tmp_path, mode="full")
    with pytest.raises(tug.UsageError, match="tables: is empty"):
        client.save(tmp_path, tables=[])


def test_dense(client):
    table = client.table("dense", dim=16, rule="sgd:lr=1")
    dense = table.dense({"w": ((3, 7), "constant:2"), "b": 5})
    values = dense.pull()
    assert values["w"].shape == (3, 7) and np.all(values["w"] == 2) and np.all(values["b"] == 0)
    dense.push({"b": np.arange(5), "w": np.ones((3, 7))})
    flat = np.empty(26, np.float32)
    values = dense.pull(out=flat)
    assert np.all(flat[:21] == 1) and np.shares_memory(values["b"], flat)
    np.testing.assert_array_equal(values["b"], -np.arange(5))
    dense.assign({"w": np.zeros((3, 7)), "b": np.full(5, 3)})
    np.testing.assert_array_equal(dense.pull_range("b", 1, 2), [3, 3])
    with pytest.raises(tug.UsageError, match="lacks b; there is no variable c"):
        dense.push({"w": np.zeros((3, 7)), "c": 1})
    with pytest.raises(tug.UsageError, match=r"gradients\['w'\]: has the shape"):
        dense.push({"w": np.zeros(21), "b": np.zeros(5)})
    with pytest.raises(tug.UsageError, match="floats 4 to 6"):
        dense.pull_range("b", 4, 2)


def test_batches_of_dense_variables(client):
    dense = client.table("dense", dim=16, rule="sgd:lr=1").dense({"w": ((3, 7), "constant:2"), "b": 5})
    for step in (1, 2):
        dense.start_batch()
        for name in ("b", "w"):  # in the order of a backward pass
            dense.update(name, np.full(dense.shapes[name], 0.5))
        with pytest.raises(tug.UsageError, match="variable 0 of table 0 was already updated in this batch"):
            dense.update("w", np.ones((3, 7)))
        with pytest.raises(tug.UsageError, match="call finish_batch first"):
            dense.pull()
        values = dense.finish_batch()
        assert np.all(values["w"] == 2 - 0.5 * step) and np.all(values["b"] == -0.5 * step)
    for wrong in (lambda: dense.update("b", np.ones(5)), dense.finish_batch):
        with pytest.raises(tug.UsageError, match="call start_batch first"):
            wrong()
    with pytest.raises(tug.UsageError, match="variable: 'c' is not one of w, b"):
        dense.update("c", np.ones(5))


def test_operations_on_vectors(client):
    """Minimizes a quadratic function by conjugate gradients, with operations only."""
    names = ("x", "r", "p", "q")
    x, r, p, q = (client.table(name, dim=4, rule="sum").dense({"v": 6}) for name in names)
    a = np.diag(np.arange(1, 7)).astype(np.float32)
    want = np.arange(6)
    r.assign({"v": a @ want})
    tug.operate("COPY", [r, p])
    for _ in range(6):
        q.assign({"v": a @ p.pull()["v"]})
        old = tug.operate("utu", [r])
        rate = old / tug.operate("utv", [p, q])
        tug.operate("au_bv", [p, x], rate, 1)
        tug.operate("au_bv", [q, r], -rate, 1)
        tug.operate("au_bv", [r, p], 1, tug.operate("utu", [r]) / old)
    np.testing.assert_allclose(x.pull()["v"], want, atol=1e-3)
    with pytest.raises(tug.UsageError, match="operation au takes 1 vector and 1 number, not 2 and 0"):
        tug.operate("au", [x, r])
    with pytest.raises(tug.UsageError, match="'axpy' is not one of utu"):
        tug.operate("axpy", [x, r])
    with pytest.raises(tug.ArgumentTypeError, match="vectors: must be tug.Dense, not int"):
        tug.operate("utu", [3])


def test_counters_and_auc(client):
    counts = client.table("n", accessor="counter", dim=2)
    counts.push([5], [[2 ** 24, 1]])
    counts.push([5], [[1, 1]])
    np.testing.assert_array_equal(tug.count(counts.pull([5])), [[2 ** 24 + 1, 2]])
    auc = client.table("auc", accessor="counter", dim=2)
    auc.auc_add([0.9, 0.2, 0.8, 0.1], [1, 0, 0, 0])
    assert auc.auc() == (1.0, 4)


def test_communicator(client):
    table = client.table("w", dim=2, rule="sum")
    with client.communicator([table], queue=4) as communicator:
        for _ in range(50):
            communicator.send(table, [1, 2], [[1, 2], [3, 4]])
        communicator.flush()
        np.testing.assert_array_equal(table.pull([1, 2]), [[50, 100], [150, 200]])
        assert communicator.stat(table).taken == 50
    with pytest.raises(tug.ClosedError):
        communicator.send(table, [1], [[1, 2]])
    late = client.communicator([table], queue=1)
    late.send(table, [1], [[1, 1]])
    with pytest.raises(tug.SystemFailure, match="was not started"):
        late.send(table, [1], [[1, 1]], timeout=0.05)
    with pytest.raises(tug.SystemFailure, match="has been full"):  # timeout=0 does not wait; it is not the longest wait
        late.send(table, [1], [[1, 1]], timeout=0)
    late.start()
    late.close()
    np.testing.assert_array_equal(table.pull([1]), [[51, 101]])
    with pytest.raises(tug.UsageError, match="grad_reduce"):
        client.communicator([table], grad_reduce="max")


def test_a_number_that_is_another_tables_now(client):
    """A dropped table's number belongs to a table with wider rows now; calls of the old object are refused, since its
    arrays are too small."""
    old = client.table("old", dim=1, rule="sum")
    dense = client.table("dense", dim=1, rule="sum").dense({"a": 3})
    old.drop()
    dense.table.drop()
    new, wide = client.table("new", dim=1000, rule="sum"), client.table("wide", dim=1000, rule="sum")
    assert new.number == old.number and wide.number == dense.table.number
    new.push([1], np.full((1, 1000), 7))
    neighbours = [np.zeros((1, 1), np.float32) for _ in range(100)]
    for call in (lambda: old.pull([1], out=neighbours[50]), lambda: old.push([1], [[1]]), old.clear, old.stat,
                 old.drop, lambda: old.push_pull([1], [[1]]), lambda: old.pull_range(1, 1),
                 lambda: client.save("x", tables=[old]), lambda: client.communicator([old]), dense.pull):
        with pytest.raises(tug.UsageError, match="was dropped, or another table has its number"):
            call()
    assert not np.any(neighbours) and new.pull([1]).sum() == 7000
    again = client.table("old", dim=1, rule="sum", number=9)
    with pytest.raises(tug.UsageError, match="was dropped"):
        old.pull([1])
    assert again.pull([1]).shape == (1, 1)


def test_tables_of_another_client(client):
    with tug.local() as other:
        mine, theirs = client.table("w", dim=4, rule="sum"), other.table("z", dim=1, rule="sum")
        communicator = client.communicator([mine])
        for call in (lambda: communicator.send(theirs, [5], [[1]]), lambda: communicator.stat(theirs),
                     lambda: client.communicator([theirs]), lambda: client.save("x", tables=[theirs])):
            with pytest.raises(tug.UsageError, match="table 0 'z' belongs to another client"):
                call()


def test_profile_and_barrier(client, tmp_path):
    client.profile_start()
    client.table("w", dim=2).pull([1])
    client.barrier()
    client.profile_stop(tmp_path / "trace.json")
    assert (tmp_path / "trace.json").stat().st_size > 0
    assert (client.rank, client.workers, client.servers) == (0, 1, 1)


@pytest.mark.parametrize("ends", [lambda t, *push: t.push(*push), lambda t, *push: t.push_async(*push).wait()])
def test_an_update_that_is_left_out(ends):
    """An update is left out if the rule's state would become infinite: the push succeeds, and one warning names the
    key."""
    with tug.local(wait_seconds=60) as c:
        t = c.table("wild", dim=2, rule="adagrad")
        ends(t, [5, 7], np.ones((2, 2), np.float32))
        before = t.pull([7])
        assert c.left_out == 0
        with pytest.warns(UserWarning, match="^1 push of table wild, key 7: the update was left out"):
            ends(t, [5, 7], np.array([[1, 1], [1e25, 1]], np.float32))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            ends(t, [5, 7], np.array([[1, 1], [1e25, 1]], np.float32))
        assert c.left_out == 2 and np.array_equal(t.pull([7]), before)
