"""Arrays are used without a copy, converted once, or refused with an error that names the argument.

SPDX-License-Identifier: Apache-2.0
"""

import numpy as np
import pytest

import tug
from tug import _arrays

INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, ">u8", ">i4"]
REALS = [np.float16, np.float32, np.float64, np.longdouble, ">f4", np.int32, np.uint8]


@pytest.fixture
def table(client):
    return client.table("w", dim=2, rule="sum")


@pytest.mark.parametrize("dtype", INTEGERS)
def test_keys_of_any_integers(table, dtype):
    keys = np.array([3, 1, 2], dtype)
    table.push(keys, [[3, 3], [1, 1], [2, 2]])
    np.testing.assert_array_equal(table.pull([1, 2, 3]), [[1, 1], [2, 2], [3, 3]])


@pytest.mark.parametrize("keys", [
    np.array([1.0]), np.array([True]), np.array(["a"]), np.array([1j]), np.array([None]), ["x"], [1.5], [[1], [2, 3]],
    np.array(["2020-01-01"], "M8[D]"), [2 ** 64], [2 ** 64 - 1, -1]])
def test_keys_that_are_no_integers(table, keys):
    for call in (lambda: table.pull(keys), lambda: table.push(keys, [[1, 1]]), lambda: table.pull_async(keys)):
        with pytest.raises(TypeError, match="^keys: ") as caught:
            call()
        assert isinstance(caught.value, tug.Error)
    assert table.stat().rows == 0


def test_negative_keys(table):
    with pytest.raises(ValueError, match=r"^keys: a key cannot be negative, but element 1 is -5.*view"):
        table.pull(np.array([1, -5]))


@pytest.mark.parametrize("dtype", REALS)
def test_values_of_any_reals(table, dtype):
    table.push([1], np.array([[1, 2]], dtype))
    np.testing.assert_array_equal(table.pull([1]), [[1, 2]])


@pytest.mark.parametrize("values", [np.array([[1j, 0]]), np.array([["a", "b"]]), np.array([[True, False]]),
                                    np.array([[None, 1]]), [["a", "b"]]])
def test_values_that_are_no_reals(table, values):
    with pytest.raises(TypeError, match="^values: "):
        table.push([1], values)


@pytest.mark.parametrize("shape", [(2,), (1, 3), (2, 1), (1, 2, 1), (4,), ()])
def test_values_of_another_shape(table, shape):
    with pytest.raises(ValueError, match=r"^values: has the shape .* must have \(1, 2\)"):
        table.push([1], np.zeros(shape))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e39])
def test_values_that_are_not_finite(table, bad):
    with pytest.raises(tug.UsageError, match="finite"):
        table.push([1, 2], np.array([[0, 0], [bad, 0]]))
    assert table.stat().rows == 0


def test_layouts_are_converted(table):
    big = np.arange(40, dtype=np.uint64)
    table.push(big[::4], np.asfortranarray(np.arange(20).reshape(10, 2)))
    np.testing.assert_array_equal(table.pull(big[::-4]), table.pull(big[::-4].copy()))
    raw = np.zeros(4 * 8 + 1, np.uint8)[1:].view(np.uint64)
    raw[:] = [0, 4, 8, 12]
    assert not raw.flags.aligned
    np.testing.assert_array_equal(table.pull(raw), [[0, 1], [2, 3], [4, 5], [6, 7]])
    assert table.pull(np.array(4)).shape == (2,)
    assert table.pull([]).shape == (0, 2) and table.pull(np.zeros((0, 3), np.int64)).shape == (0, 3, 2)
    table.push([], np.zeros((0, 2)))
    frozen = np.array([8], np.uint64)
    frozen.flags.writeable = False
    np.testing.assert_array_equal(table.pull(frozen), [[4, 5]])


def test_width_one(client):
    table = client.table("one", dim=1, rule="sum")
    table.push([1, 2], [5, 6])
    np.testing.assert_array_equal(table.pull([1, 2]), [[5], [6]])
    out = np.zeros(2, np.float32)
    assert table.pull([1, 2], out=out) is out and list(out) == [5, 6]


def test_no_copies():
    keys, values = np.arange(4, dtype=np.uint64), np.zeros((4, 2), np.float32)
    assert _arrays.keys_of(keys) is keys
    assert _arrays.floats_of(values, (4, 2), "values") is values
    assert _arrays.out_of(values, (4, 2)) is values


def test_out(table):
    keys = [1, 2]
    read_only = np.zeros((2, 2), np.float32)
    read_only.flags.writeable = False
    for out, kind, text in [
            (np.zeros((2, 2)), TypeError, "float32, not of float64"), ([[0, 0]] * 2, TypeError, "not list"),
            (np.zeros((2, 3), np.float32), ValueError, "has the shape"),
            (np.zeros((2, 2), ">f4"), TypeError, "float32"),
            (np.zeros((2, 4), np.float32)[:, ::2], ValueError, "contiguous"), (read_only, ValueError, "read-only")]:
        for call in (table.pull, table.pull_async):
            with pytest.raises(kind, match=f"^out: .*{text}"):
                call(keys, out=out)
    values = np.ones((2, 2), np.float32)
    with pytest.raises(ValueError, match="^out: must not share memory with the pushed"):
        table.push_pull(keys, values, out=values)


def test_assigned_keys_do_not_repeat(table):
    with pytest.raises(tug.UsageError, match="two values at once"):
        table.assign([1, 1], [[1, 1], [2, 2]])


@pytest.mark.parametrize("call,text", [
    (lambda t: t.pull_range(-1, 2), "^first: -1 is not from 0"),
    (lambda t: t.pull_range(0, 1.5), "^n: must be an integer, not float"),
    (lambda t: t.pull_range(True, 1), "^first: must be an integer, not bool"),
    (lambda t: t.tick(-1), "^clock: "),
    (lambda t: t.client.table("x", number=4096), "^number: 4096"),
    (lambda t: t.client.table(7), "^name: must be a text, not int"),
    (lambda t: t.client.find(7), "^name: must be a text, not int"),
    (lambda t: t.client.save("a\0b"), "^directory: must not have a character 0"),
    (lambda t: tug.local(0), "^loops: 0 is not from 1 to 256"),
    (lambda t: tug.connect(wait_seconds="x"), "^wait_seconds: must be a number"),
    (lambda t: tug.connect(wait_seconds=-1), "^wait_seconds: -1"),
    (lambda t: tug.connect(scheduler=5), "^scheduler: must be a text"),
    (lambda t: tug.launch("train.py"), "^command: must be a list"),
    (lambda t: tug.launch([]), "^command: is empty"),
    (lambda t: tug.launch(servers=0), "^servers: 0"),
    (lambda t: t.dense({}), "^variables: is empty"),
    (lambda t: t.dense({"w": 1.5}), "^variables: 'w' must have a shape"),
    (lambda t: t.dense({"w": (0, 3)}), "^variables: a dimension of 'w': 0"),
])
def test_other_arguments(table, call, text):
    with pytest.raises(tug.Error, match=text) as caught:
        call(table)
    assert isinstance(caught.value, (TypeError, ValueError))


def test_large_keys_of_lists() -> None:
    """Integers in lists keep their exact values, even where numpy would convert them to floats."""
    with tug.local() as client:
        table = client.table("t", dim=1, rule="sum")
        table.push([1, 2 ** 63, 2 ** 64 - 1], [[1], [2], [3]])
        assert table.pull([2 ** 64 - 1, 2 ** 63, 2 ** 63 + 1, 1]).ravel().tolist() == [3, 2, 0, 1]
        for wrong, why in (([2 ** 63, -1], "-1"), ([2 ** 64, 1], str(2 ** 64)), ([2 ** 63, 1.5], "float64")):
            with pytest.raises(tug.Error, match=why):
                table.pull(wrong)
