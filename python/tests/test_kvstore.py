"""Compares stores of tug.kvstore in this process with numpy.

SPDX-License-Identifier: Apache-2.0
"""

import threading

import numpy as np
import pytest

import tug
import tug.kvstore as kvstore
from stores import SHAPE, pulled, simulated
from tug.kvstore import RowSparse

DTYPES = [np.float16, np.float32, np.float64, np.int32, np.int64]


@pytest.fixture
def kv():
    with kvstore.create() as store:
        yield store


# ------------------------------------------------------ the names of stores, and the forms of calls

@pytest.mark.parametrize("name", ["local", "device", "local_allreduce_cpu", "local_update_cpu",
                                  "local_allreduce_device", "LOCAL"])
def test_types(name):
    with kvstore.create(name) as store:
        assert store.type == name.lower()
        assert (store.rank, store.num_workers, store.is_recovery) == (0, 1, False)


@pytest.mark.parametrize("name", ["", "remote", "nccl", "horovod", "byteps", 3, None])
def test_wrong_types(name):
    with pytest.raises(tug.Error):
        kvstore.create(name)


@pytest.mark.parametrize("name, why", [("TestStore", "KVStoreBase.register"), ("nd", "numpy's"),
                                       ("creat", "mean create"), ("kvstore_server", "tug.kvserver"),
                                       ("kv", "use tug.kvstore.create"), ("io", "libsvm"), ("metric", "numpy"),
                                       ("sym", "gradients itself"), ("gluon", "kvstore_torch.py"),
                                       ("zzz", "docs/from-mxnet.md")])
def test_names_that_are_not_there(name, why):
    with pytest.raises(AttributeError, match=why):
        getattr(kvstore, name)


def test_a_refused_store_has_no_frames_of_the_package(monkeypatch):
    monkeypatch.delenv("DMLC_ROLE", raising=False)
    with pytest.raises(tug.UsageError, match="tug launch") as refused:
        kvstore.create("dist_sync")
    assert len(refused.traceback) == 2


class MyStore(kvstore.KVStoreBase):
    def broadcast(self, key, value, out, priority=0):
        out[:] = value

    @staticmethod
    def is_capable(capability):
        return False


def test_own_store(monkeypatch):
    monkeypatch.setattr(kvstore.KVStoreBase, "kv_registry", {})
    assert kvstore.KVStoreBase.register(MyStore) is MyStore
    store, out = kvstore.create("MyStore"), np.zeros(3)
    store.broadcast(1, np.ones(3), out)
    assert np.all(out == 1) and store.type == "mystore"
    assert not store.is_capable(store.OPTIMIZER) and not type(store).is_capable("optimizer")
    for missing in (lambda: store.set_optimizer("sgd"), lambda: store.pushpull(1, out), lambda: store.rank,
                    lambda: store.num_workers, lambda: store.save_optimizer_states("f"),
                    lambda: store.load_optimizer_states("f")):
        with pytest.raises(NotImplementedError, match="MyStore does not define"):
            missing()
    with pytest.warns(tug.Warning, match="mystore"):
        kvstore.KVStoreBase.register(MyStore)
    with pytest.raises(tug.Error, match="takes a class"):
        kvstore.KVStoreBase.register("mystore")
    with kvstore.create() as other:
        assert isinstance(other, kvstore.KVStoreBase)


def test_mxnets_calls_on_local_stores(kv):
    assert [kv.get_num_dead_node(node) for node in (0, 1, 7, 9, 12)] == [0] * 5
    for pickled in (b"\x80\x03cmxnet", bytearray(b"x"), memoryview(b"x")):
        with pytest.raises(tug.Error, match="pickled optimizer is refused"):
            kv.set_optimizer(pickled)


def test_forms(kv):
    ones = np.ones(SHAPE, np.float32)
    kv.init(3, ones)
    kv.init([5, 7], [ones, 2 * ones])
    kv.push(3, [ones])
    assert np.all(pulled(kv, 3) == 1)
    kv.push(3, [ones, 2 * ones, 3 * ones])
    assert np.all(pulled(kv, 3) == 6)
    kv.push([5, 7], [ones, [ones, ones]])
    a, b, c = (np.zeros(SHAPE, np.float32) for _ in range(3))
    kv.pull([5, 7], out=[a, [b, c]])
    assert np.all(a == 1) and np.all(b == 2) and np.all(c == 2)
    kv.push([5, 5], [ones, 4 * ones])  # values of a repeated key are added up
    assert np.all(pulled(kv, 5) == 5)
    kv.push((np.int64(5), np.int32(7)), [ones, ones], priority=-3)
    out = np.zeros(SHAPE, np.float32)
    kv.pushpull(5, 3 * ones, out=out)
    assert np.all(out == 3)
    value = 2 * ones
    kv.pushpull(5, [value, 2 * ones])  # without out=, the pushed array is pulled into
    assert np.all(value == 4)
    kv.broadcast(9, 8 * ones, out=[a, b])
    assert np.all(a == 8) and np.all(b == 8)
    kv.push([], [])
    kv.pull([], out=[])
    assert kv.rounds(5) == 5


def test_misuse(kv):
    ones = np.ones(SHAPE, np.float32)
    rows = RowSparse.of(ones)
    for call in (lambda: kv.push("w", ones), lambda: kv.pull("w", out=ones), lambda: kv.rounds("w"),
                 lambda: kv.row_sparse_pull("w", out=rows, row_ids=[0])):
        with pytest.raises(tug.Error, match="'w'.*init"):
            call()
    kv.init("w", ones)
    kv.init("e", rows)
    wrong = [
        (lambda: kv.init("w", ones), "before"),
        (lambda: kv.init(3, ones), "number"),
        (lambda: kv.push(3, ones), "int"),
        (lambda: kv.pull(3, out=ones), "int"),
        (lambda: kv.row_sparse_pull(3, out=rows, row_ids=[0]), "int"),
        (lambda: kv.push(True, ones), "bool"),
        (lambda: kv.push(b"w", ones), "bytes"),
        (lambda: kv.push("w", "ones"), "str"),
        (lambda: kv.push("w", [1.0, 2.0]), "float"),
        (lambda: kv.push("w", ones.T.copy()), "shape"),
        (lambda: kv.push("w", ones.astype(np.int8)), "int8"),
        (lambda: kv.push("w", ones.astype(bool)), "bool"),
        (lambda: kv.push("w", []), "no array"),
        (lambda: kv.push(["w", "e"], [ones]), "2 keys"),
        (lambda: kv.push(["w"], ones), "1 keys"),
        (lambda: kv.pull("w"), "out"),
        (lambda: kv.pull("w", out=np.broadcast_to(np.float32(1), SHAPE)), "read-only"),
        (lambda: kv.row_sparse_pull("e", out=ones, row_ids=[0]), "dense"),
        (lambda: kv.row_sparse_pull("w", out=rows, row_ids=[0]), "dense"),
        (lambda: kv.row_sparse_pull("e", out=rows), "row_ids"),
        (lambda: kv.row_sparse_pull("e", out=rows, row_ids=[4]), "4 rows"),
        (lambda: kv.row_sparse_pull("e", out=rows, row_ids=[-1]), "-1"),
        (lambda: kv.row_sparse_pull("e", out=rows, row_ids=[0.5]), "whole"),
        (lambda: kv.row_sparse_pull("e", out=rows, row_ids=np.array([2 ** 24 + 2], np.float32)), "2^24"),
        (lambda: kv.row_sparse_pull("e", out=rows, row_ids=np.array([2.0 ** 53 + 2])), "2^53"),
        (lambda: kv.row_sparse_pull("e", out=rows, row_ids=[2 ** 63, 1]), "2^53"),
        (lambda: kv.row_sparse_pull("e", out=rows, row_ids=np.array([2 ** 63], np.uint64)), "2^63"),
        (lambda: kv.row_sparse_pull("e", out=rows, row_ids=np.array([np.nan])), "nan"),
        (lambda: kv.set_updater(3), "function"),
        (lambda: kv.set_optimizer(object()), "create"),
        (lambda: kv.set_optimizer("lbsgd"), "lbsgd"),
        (lambda: kv.set_gradient_compression({"type": "2bit"}), "local"),
        (lambda: kv.set_gradient_compression({"typ": "2bit"}), "typ"),
        (lambda: kv.set_gradient_compression("2bit"), "dict"),
        (lambda: kv.save_optimizer_states("x"), "no optimizer"),
        (lambda: kv.save_optimizer_states("x", dump_optimizer=True), "dump_optimizer"),
        (lambda: kv.load_optimizer_states("x"), "no optimizer"),
        (lambda: kv.is_capable("flight"), "flight"),
        (lambda: kv._send_command_to_servers(1, "x"), "no servers"),
        (lambda: RowSparse([0, 9], ones[:2], SHAPE), "not rows"),
        (lambda: RowSparse([0], ones, SHAPE), "shape"),
        (lambda: tug.optimizer.create("lbsgd"), "lbsgd"),
        (lambda: tug.optimizer.create("adam", momentum=1), "momentum"),
        (lambda: tug.optimizer.create("sgd", wd="x"), "number"),
    ]
    for i, (call, why) in enumerate(wrong):
        with pytest.raises(tug.Error) as error:
            call()
        assert why in str(error.value), (i, str(error.value))
    assert kv.is_capable("optimizer") and kvstore.KVStore.is_capable("Optimizer")
    assert kv.get_num_dead_node(7) == 0 and kv.get_num_dead_node(4, timeout=1) == 0
    kv._barrier()
    kv.close()
    kv.close()
    with pytest.raises(tug.ClosedError):
        kv.push("w", ones)


# ---------------------------------------------------------------- arrays

class Mine(np.ndarray):
    pass


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (5,), (4, 3), (2, 3, 4)])
def test_dtypes_and_strides(kv, dtype, shape):
    a = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    kv.init("w", np.zeros(shape, dtype))
    wide = np.zeros(shape + (2,), dtype)
    wide[..., 1] = a
    for given in (a, a.astype(np.float64), np.asfortranarray(a).reshape(shape), wide[..., 1], a.view(Mine),
                  a.astype(a.dtype.newbyteorder(">"))):
        kv.push("w", given)
        for out_dtype in DTYPES:
            assert np.array_equal(pulled(kv, "w", shape, out_dtype), a)
        into = np.zeros(shape + (3,), dtype)
        kv.pull("w", out=into[..., 1])
        assert np.array_equal(into[..., 1], a) and not into[..., 0].any() and not into[..., 2].any()


def test_torch(kv):
    torch = pytest.importorskip("torch", reason="PyTorch is not there: python3-torch")
    kv.init("w", torch.zeros(SHAPE))
    kv.push("w", [torch.ones(SHAPE), torch.ones(SHAPE)])
    out = torch.zeros(SHAPE)
    kv.pull("w", out=out)
    assert bool((out == 2).all())
    seen = []

    def update(_key, recv, stored):
        seen.append(type(recv))
        stored += recv

    kv._set_updater(update)
    kv.push("w", torch.ones(SHAPE, requires_grad=True))
    kv.pull("w", out=out)
    assert seen == [torch.Tensor] and bool((out == 3).all())


def test_tensors_in_all_calls(kv):
    torch = pytest.importorskip("torch", reason="PyTorch is not there: python3-torch")
    kv.init(["w", "e"], [torch.zeros(SHAPE), RowSparse(torch.tensor([0]), torch.ones(1, 3), SHAPE)])
    embedding = torch.nn.Embedding(4, 3, sparse=True)
    embedding(torch.tensor([1, 1, 3])).sum().backward()  # a sparse gradient in which one row occurs twice
    kv.push(["w", "e"], [[embedding.weight.grad, torch.ones(SHAPE)], embedding.weight.grad])
    want = torch.tensor([[0.0], [2], [0], [1]]).expand(SHAPE)
    out, half, across = torch.zeros(SHAPE), torch.zeros(SHAPE, dtype=torch.half), torch.zeros(3, 4).T
    kv.pull(["w", "w", "w"], out=[out, half, across])
    assert all(bool((each == want + 1).all()) for each in (out, half, across))
    weight = torch.nn.Parameter(torch.zeros(SHAPE))
    kv.pushpull("w", torch.full(SHAPE, -2.0), out=weight)
    assert bool((weight == -2).all()) and weight.requires_grad
    kv.pushpull("w", torch._neg_view(out), out=torch._neg_view(half))
    assert bool((half == out).all())  # half is a view that negates its memory
    rows = RowSparse.zeros(SHAPE)
    kv.row_sparse_pull("e", out=rows, row_ids=torch.tensor([[3, 1], [1, 0]]))
    assert rows.indices.tolist() == [0, 1, 3] and np.array_equal(rows.data, want[[0, 1, 3]])
    kv.broadcast("v", torch.ones(SHAPE), out=[out, across])
    assert bool((out == 1).all()) and bool((across == 1).all())
    for call, why in ((lambda: kv.pull("w", out=torch.zeros(1, 3).expand(SHAPE)), "the same memory"),
                      (lambda: kv.pull("w", out=torch.zeros(SHAPE).to_sparse(1)), "sparse tensor"),
                      (lambda: kv.push("w", torch.zeros(SHAPE, dtype=torch.bfloat16)), "bfloat16"),
                      (lambda: kv.push("w", torch.zeros(SHAPE).to_sparse()), "sparse_coo"),
                      (lambda: kv.pull("w", out=torch.zeros(SHAPE, device="meta")), "meta")):
        with pytest.raises(tug.Error, match=why):
            call()


def test_tensor_of_another_device(kv):
    torch = pytest.importorskip("torch", reason="PyTorch is not there: python3-torch")

    class Elsewhere(torch.Tensor):
        """Acts like a tensor of a GPU: its numpy array is a copy."""

        def cpu(self):
            return self.as_subclass(torch.Tensor).clone()

    kv.init("w", torch.ones(SHAPE).as_subclass(Elsewhere))
    kv.push("w", torch.full(SHAPE, 3.0).as_subclass(Elsewhere))
    out, across = torch.zeros(SHAPE).as_subclass(Elsewhere), torch.zeros(3, 4).T.as_subclass(Elsewhere)
    kv.pull("w", out=[out, across])
    assert bool((out == 3).all()) and bool((across == 3).all())


class Box:
    """An array type of the program's own. With `copies`, unwrapping it returns a copy, not its memory."""

    def __init__(self, array):
        self.array = array

    def __iadd__(self, other):
        self.array = self.array + other.array
        return self


def test_registered(kv):
    kvstore.register_array_type(Box, lambda box: box.array, Box)
    try:
        kv.init("w", Box(np.zeros(SHAPE, np.float32)))
        kv.init("e", Box(RowSparse.zeros(SHAPE)))
        kinds = []

        def update(_key, recv, stored):
            kinds.append((type(recv), type(stored)))
            stored += recv

        kv.set_updater(update)
        kv.push(["w", "e"], [[Box(np.ones(SHAPE, np.float32))] * 2, Box(RowSparse([1], np.ones((1, 3), "f4"), SHAPE))])
        out = Box(np.zeros(SHAPE, np.float32))
        kv.pull("w", out=out)
        assert np.all(out.array == 2)
        rows = Box(RowSparse.zeros(SHAPE))
        kv.row_sparse_pull("e", out=rows, row_ids=np.array([1, 2]))
        assert np.array_equal(rows.array.data, [[1, 1, 1], [0, 0, 0]])
        assert kinds == [(Box, Box)] * 2
    finally:
        from tug import _kvarrays
        _kvarrays._classes.pop(Box)


# Compares sums of sparse and dense arrays with numpy.

def random_array(rng, shape):
    dense = rng.integers(-4, 5, shape).astype(np.float32)
    if rng.integers(2):
        return dense, dense
    dense[rng.random(shape[0]) < 0.5] = 0
    return RowSparse.of(dense), dense


@pytest.mark.parametrize("updates", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("names", [False, True])
def test_sums(kv, updates, sparse, names):
    rng = np.random.default_rng(5)
    keys = ["b", "c", "d"] if names else [5, 7, 11]
    kind = str if names else int
    stored = {k: np.zeros(SHAPE, np.float32) for k in keys}
    kv.init(keys, [RowSparse.zeros(SHAPE) if sparse else np.zeros(SHAPE, np.float32)] * 3)

    def update(key, recv, local):
        assert type(key) is kind
        local += recv

    if updates:
        kv._set_updater(update)
    for _ in range(50):
        n = int(rng.integers(1, 4))
        some = [[random_array(rng, SHAPE) for _ in range(n)] for _ in keys]
        kv.push(keys, [[a for a, _ in each] for each in some])
        for key, each in zip(keys, some):
            total = sum(d for _, d in each)
            stored[key] = stored[key] + total if updates else total
            assert np.array_equal(pulled(kv, key), stored[key])
            if not sparse:
                continue
            out = RowSparse([0], np.ones((1, 3), np.float32), SHAPE)
            kv.pull(key, out=out)
            assert np.array_equal(out.dense()[0], [1, 1, 1])  # unchanged
            kv.pull(key, out=out, ignore_sparse=False)
            assert np.array_equal(out.dense(), stored[key])
            ids = rng.integers(0, 4, (2, 3)).astype(rng.choice(["f4", "i8", "f2"]))
            kv.row_sparse_pull(key, out=[out], row_ids=ids)
            assert np.array_equal(out.indices, np.unique(ids))
            assert np.array_equal(out.data, stored[key][out.indices])


def test_forms_of_row_ids(kv):
    dense = np.arange(12, dtype=np.float32).reshape(SHAPE) + 1
    kv.init(["e", "f"], [RowSparse.of(dense), RowSparse.of(2 * dense)])
    a, b, c, d = (RowSparse.zeros(SHAPE, np.float64) for _ in range(4))
    kv.row_sparse_pull("e", out=[a, b], row_ids=[np.array([2, 0, 2]), np.array([])])
    assert a.indices.tolist() == [0, 2] and b.indices.size == 0 and b.data.shape == (0, 3)
    kv.row_sparse_pull(["e", "f"], out=[[a, b], [c, d]], row_ids=[[np.array([0]), np.array([1])]] * 2)
    assert [x.indices.tolist() for x in (a, b, c, d)] == [[0], [1], [0], [1]]
    assert np.array_equal(d.data, 2 * dense[1:2]) and d.dtype == np.float64
    kv.row_sparse_pull(["e", "f"], out=[a, c], row_ids=[3, 1])
    assert a.indices.tolist() == c.indices.tolist() == [1, 3]
    with pytest.raises(tug.Error, match="row_ids"):
        kv.row_sparse_pull("e", out=[a, b, c], row_ids=[np.array([0]), np.array([1])])


def test_updater_that_fails(kv):
    kv.init("w", np.zeros(SHAPE, np.float32))

    class Mistake(Exception):
        pass

    def update(_key, _recv, _stored):
        raise Mistake("mine")

    kv.set_updater(update)
    with pytest.raises(Mistake, match="mine"):
        kv.push("w", np.ones(SHAPE, np.float32))
    kv.set_updater(None)
    kv.push("w", np.ones(SHAPE, np.float32))
    assert np.all(pulled(kv, "w") == 1)


class Boxed:
    def __init__(self, array):
        self.array = array


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_updater_that_makes_what_is_not_finite(kv, dtype):
    kv.init("w", np.ones(SHAPE, dtype))
    for value, element in ((np.nan, 5), (np.inf, 0), (-np.inf, 11)):
        def update(_key, recv, stored):
            stored += recv
            stored.reshape(-1)[element] = value

        kv.set_updater(update)
        with pytest.raises(tug.UsageError, match=f"'w': its updater made element {element} not finite.*as it was"):
            kv.push("w", np.ones(SHAPE, dtype))
        assert np.all(pulled(kv, "w") == 1)


def test_updater_that_raises_half_way(kv):
    kv.init("w", np.ones(SHAPE, np.float32))

    def update(_key, recv, stored):
        stored += recv
        raise ValueError("mine")

    kv.set_updater(update)
    with pytest.raises(ValueError, match="mine"):
        kv.push("w", np.ones(SHAPE, np.float32))
    assert np.all(pulled(kv, "w") == 1)


@pytest.mark.parametrize("returned", [lambda recv, stored: stored + recv, lambda recv, stored: recv,
                                      lambda recv, stored: np.float32(3), lambda recv, stored: np.ones(2)])
def test_updater_that_returns_an_array(kv, returned):
    kv.init("w", np.ones(SHAPE, np.float32))
    kv.set_updater(lambda _key, recv, stored: returned(recv, stored))
    with pytest.raises(tug.UsageError, match="'w': its updater returned an array, which has no effect"):
        kv.push("w", np.ones(SHAPE, np.float32))
    for fine in (lambda _key, recv, stored: stored.__iadd__(recv), lambda _key, recv, stored: np.add(
            stored, recv, out=stored)[1:], lambda _key, recv, stored: stored.__setitem__(slice(None), stored + recv)):
        kv.set_updater(fine)
        kv.push("w", np.ones(SHAPE, np.float32))
    assert np.all(pulled(kv, "w") == 4)


def test_updater_of_another_shape(kv, monkeypatch):
    monkeypatch.setattr("tug._kvarrays._classes", {})
    kvstore.register_array_type(Boxed, lambda box: box.array, Boxed)
    kv.init(["w", "n"], [Boxed(np.ones(SHAPE, np.float32)), Boxed(np.ones(SHAPE, np.int32))])
    for key, array, why in (("w", np.ones(3, np.float32), "shape .4, 3. and dtype float32 to shape .3,. and"),
                            ("w", np.ones((1, 4, 3)), "shape"), ("n", np.ones(SHAPE), "shape .4, 3. and dtype float64"),
                            ("w", np.full(SHAPE, 1e300), "element 0 not finite")):
        def update(_key, _recv, stored):
            stored.array = array

        kv.set_updater(update)
        with pytest.raises(tug.UsageError, match=why):
            kv.push(key, Boxed(np.ones(SHAPE, np.int32 if key == "n" else np.float32)))
        assert np.all(pulled(kv, key) == 1)


def test_updater_that_keeps():
    shape = (3_000_000,)  # large enough that its memory is unmapped when it is freed
    kept = []

    def update(_key, recv, stored):
        kept.append((recv, stored[1:]))
        stored += recv

    kv = kvstore.create()
    kv.init(3, np.ones(shape, np.float32))
    kv.set_updater(update)
    for times in (1, 2):
        kv.push(3, [times * np.ones(shape, np.float32)] * 2)
    kv.close()
    assert [(recv[0], recv[-1]) for recv, _ in kept] == [(2, 2), (4, 4)]
    assert all(stored[-1] == 7 for _, stored in kept)


def test_threads(kv):
    """Calls of several threads run one at a time; an updater that runs in one thread does not make calls of others
    fail."""
    zeros, failed = np.zeros(20000, np.float32), []
    kv.init("w", zeros)

    def update(_key, recv, stored):
        stored += recv

    def work():
        try:
            for _ in range(50):
                kv.push("w", [zeros + 1, zeros + 1])
                out = zeros.copy()
                kv.pull("w", out=out)
                assert out.min() == out.max()
        except BaseException as error:  # pylint: disable=broad-exception-caught
            failed.append(error)

    kv.set_updater(update)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and np.all(pulled(kv, "w", zeros.shape) == 4 * 50 * 2)


@pytest.mark.parametrize("use", [
    lambda kv: kv.push(4, np.ones(SHAPE, np.float32)), lambda kv: kv.pull(4, out=np.ones(SHAPE, np.float32)),
    lambda kv: kv.init(5, np.ones(SHAPE, np.float32)), lambda kv: kv.set_updater(None), lambda kv: kv.close()])
def test_updater_that_uses_its_store(kv, use):
    zeros = np.zeros(SHAPE, np.float32)
    kv.init([3, 4], [zeros, zeros])
    kv.set_updater(lambda _key, _recv, _stored: use(kv))
    with pytest.raises(tug.UsageError, match="an updater must not use its store"):
        kv.push([3, 4], [zeros, zeros])
    kv.set_updater(None)
    kv.push([3, 4], [zeros + 1, zeros + 2])
    assert np.all(pulled(kv, 4) == 2)


def test_rows_that_were_changed(kv):
    rows = RowSparse([0], np.ones((1, 3), np.float32), (1_000_000, 3))
    kv.init("e", rows)
    rows.indices = np.arange(1_000_000)
    for call in (lambda: kv.push("e", rows), lambda: kv.init("f", rows)):
        with pytest.raises(tug.UsageError, match="the data of this RowSparse"):
            call()


# ---------------------------------------------------------------- optimizers

def test_multi_precision():
    steps = np.full(SHAPE, 1e-4, np.float16)
    with kvstore.create() as plain, kvstore.create() as mixed:
        for store, flag in ((plain, False), (mixed, True)):
            store.init("w", np.ones(SHAPE, np.float16))
            store.set_optimizer(tug.optimizer.create("sgd", learning_rate=1, multi_precision=flag))
            for _ in range(100):
                store.push("w", steps)
        assert np.all(pulled(plain, "w") == 1)  # each step is smaller than half a unit of float16, so rounding drops it
        assert np.allclose(pulled(mixed, "w"), 0.99, atol=1e-3)


def test_optimizer_again_and_states(kv, tmp_path):
    g = np.ones(SHAPE, np.float32)
    optimizer = tug.optimizer.create("adam", learning_rate=0.1)
    kv.init("w", np.zeros(SHAPE, np.float32))
    kv.set_optimizer(optimizer)
    kv.push("w", g)
    kv.save_optimizer_states(tmp_path / "states")
    optimizer.set_learning_rate(0.0)
    assert optimizer.learning_rate == 0 and optimizer.beta1 == 0.9
    kv.set_optimizer(optimizer)
    before = pulled(kv, "w")
    kv.push("w", g)
    assert np.array_equal(pulled(kv, "w"), before)
    with kvstore.create() as other:
        other.init("w", before)
        other.set_optimizer("adam:learning_rate=0.1")
        other.load_optimizer_states(str(tmp_path / "states"))
        kv.load_optimizer_states(tmp_path / "states")
        kv.set_optimizer("adam:learning_rate=0.1")
        for store in (kv, other):
            store.push("w", 2 * g)
        assert np.array_equal(pulled(kv, "w"), pulled(other, "w"))
    (tmp_path / "states").write_bytes(b"none")
    with pytest.raises(tug.DataError, match="states"):
        kv.load_optimizer_states(tmp_path / "states")


# Compares gradient compression with a simulation in numpy.

@pytest.mark.parametrize("kind,threshold", [("2bit", 0.5), ("2bit", 0.125), ("1bit", 0), ("1bit", -0.5)])
def test_compression(kind, threshold):
    rng = np.random.default_rng(1)
    with kvstore.create("device") as kv:
        kv.init("w", np.zeros((50, 3), np.float32))
        kv.set_gradient_compression({"type": kind, "threshold": threshold})
        left = [np.zeros((50, 3), np.float32)] * 2
        for _ in range(20):
            g = [(rng.integers(-8, 9, (50, 3)) / 8).astype(np.float32) for _ in range(2)]
            kv.push("w", g)
            total = np.zeros((50, 3), np.float32)
            for i in range(2):
                sent, left[i] = simulated(kind, threshold, g[i], left[i])
                total += sent
            assert np.array_equal(pulled(kv, "w", (50, 3)), total)


def test_names_that_are_not_there():
    """A misspelt name, or a name of MXNet that tug lacks, gives an error with a sentence that helps."""
    with kvstore.create("local") as kv:
        for held, name, says in (
                (kv, "num_dead_node", r"a store has no 'num_dead_node': use get_num_dead_node\(node_id\)"),
                (kv, "_set_barrier_before_exit", "waits for the other workers when the program ends"),
                (kv, "set_optimiser", "did you mean set_optimizer"), (kv, "qqq", "docs/from-mxnet.md maps"),
                (kvstore, "creat", "did you mean create"), (kvstore.optimizer, "Adamm", "did you mean Adam"),
                (kvstore.lr_scheduler, "PolySchedule", "did you mean PolyScheduler"),
                (tug.kvserver, "KVServer", "did you mean KVStoreServer")):
            with pytest.raises(AttributeError, match=says):
                getattr(held, name)
        assert not hasattr(kv, "__wrapped__")
