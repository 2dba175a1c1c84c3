"""Compares PyTorch modules on tables with torch's own modules, and tests what torch does not have.

SPDX-License-Identifier: Apache-2.0
"""

import copy
import io
import os
import pickle
import threading

import numpy as np
import pytest

import tug

torch = pytest.importorskip("torch", reason="PyTorch is not there: python3-torch")

import tug.torch  # noqa: E402
from tug.torch import Embedding, EmbeddingBag, Optimizer  # noqa: E402

torch.set_num_threads(1)
IDS, DIM = 23, 5
RULES = {  # the table's rule, and torch's optimizer
    "sgd": ("sgd:lr=0.1", lambda p: torch.optim.SGD(p, lr=0.1)),
    "adagrad": ("adagrad:lr=0.1,beta=1e-10,n0=0", lambda p: torch.optim.Adagrad(p, lr=0.1)),
    "adam": ("adam:lr=0.01", lambda p: torch.optim.SparseAdam(p, lr=0.01)),
}


def table_of(client, name="t", rule="sgd:lr=0.1", **more):
    return client.table(name, dim=DIM, rule=rule, init=(-1, 1), seed=3, **more)


def weights_of(table, ids=IDS):
    return torch.from_numpy(table.pull(np.arange(ids)))


def ragged(random, all_ids):
    """Returns bags of ids that repeat, some of them empty. With all_ids the last bag has every id: SparseAdam corrects
    its bias by the optimizer's steps, a table's rule by the row's own steps, and both are equal only if each step has
    every row."""
    sizes = random.integers(0, 7, 11)
    ids = random.integers(0, IDS, sizes.sum())
    if all_ids:
        sizes, ids = np.append(sizes, IDS), np.append(ids, np.arange(IDS))
    offsets = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    return torch.from_numpy(ids), torch.from_numpy(offsets)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ["sum", "mean", "weights", "padding", "mean of padding", "two dimensions"])
def test_bags_are_those_of_torch(client, rule, kind):
    torch.manual_seed(1)
    text, optimizer_of = RULES[rule]
    table, random = table_of(client, rule=text), np.random.default_rng(5)
    padding = 4 if "padding" in kind else None
    mode = "mean" if "mean" in kind else "sum"
    theirs = torch.nn.EmbeddingBag(IDS, DIM, mode=mode, sparse=True, padding_idx=padding, _weight=weights_of(table))
    ours = EmbeddingBag(table, mode=mode, padding_idx=padding)
    dense, other = torch.nn.Linear(DIM, 3), torch.nn.Linear(DIM, 3)
    other.load_state_dict(dense.state_dict())
    steps = [(ours, dense, Optimizer(ours)), (theirs, other, optimizer_of(list(theirs.parameters())))]
    for _ in range(40):
        ids, offsets = ragged(random, all_ids=rule == "adam")
        given = (ids, offsets)
        if kind == "two dimensions":
            given = (torch.from_numpy(np.stack([np.arange(IDS), *random.integers(0, IDS, (2, IDS))], axis=1)),)
        weights = torch.randn(ids.shape) if kind == "weights" else None
        found = []
        for bag, layer, optimizer in steps:
            w = None if weights is None else weights.clone().requires_grad_()
            optimizer.zero_grad()
            layer.zero_grad()
            made = bag(*given, per_sample_weights=w)
            torch.sin(layer(made)).mean().backward()
            optimizer.step()
            found.append((made.detach(), layer.weight.grad, None if w is None else w.grad))
        for mine, wanted in zip(*found):
            if mine is not None:
                torch.testing.assert_close(mine, wanted, rtol=1e-5, atol=1e-5)
    left = np.delete(np.arange(IDS), [] if padding is None else [padding])
    torch.testing.assert_close(weights_of(table)[left], theirs.weight.detach()[left], rtol=1e-5, atol=1e-5)
    assert table.stat().rows <= len(left)  # the padding id has no row


MORE = {  # arguments that both modules have, with torch's names
    "max": {"mode": "max"},
    "max of padding": {"mode": "max", "padding_idx": 4},
    "max and max_norm": {"mode": "max", "max_norm": 0.9},
    "max_norm": {"mode": "sum", "max_norm": 0.8},
    "max_norm of padding": {"mode": "mean", "max_norm": 0.8, "padding_idx": 4},
    "norm_type": {"mode": "sum", "max_norm": 1.5, "norm_type": 1.0},
    "infinite norm": {"mode": "sum", "max_norm": 0.5, "norm_type": float("inf")},
}


@pytest.mark.parametrize("kind", MORE)
def test_other_arguments_are_those_of_torch(client, kind):
    table, random, more = table_of(client), np.random.default_rng(11), MORE[kind]
    theirs = torch.nn.EmbeddingBag(IDS, DIM, _weight=weights_of(table), **more)
    ours = EmbeddingBag(table, **more)
    steps = [(ours, Optimizer(ours)), (theirs, torch.optim.SGD(theirs.parameters(), lr=0.1))]
    for _ in range(30):
        made = []
        for module, optimizer in steps:
            optimizer.zero_grad()
        given = ragged(random, all_ids=False)
        for module, optimizer in steps:
            made.append(module(*given))
            torch.sin(made[-1]).sum().backward()
            optimizer.step()
        torch.testing.assert_close(made[0], made[1], rtol=1e-5, atol=1e-5)
    left = np.delete(np.arange(IDS), more.get("padding_idx", []))
    torch.testing.assert_close(weights_of(table)[left], theirs.weight.detach()[left], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("more", [{"max_norm": 0.7}, {"scale_grad_by_freq": True}])
def test_other_arguments_of_an_embedding(client, more):
    table, random = table_of(client), np.random.default_rng(3)
    theirs = torch.nn.Embedding(IDS, DIM, _weight=weights_of(table), **more)
    ours = Embedding(table, **more)
    steps = [(ours, Optimizer(ours)), (theirs, torch.optim.SGD(theirs.parameters(), lr=0.1))]
    for _ in range(30):
        ids, made = torch.from_numpy(random.integers(0, IDS, (4, 3))), []
        for module, optimizer in steps:
            optimizer.zero_grad()
            made.append(module(ids))
            torch.sin(made[-1]).sum().backward()
            optimizer.step()
        torch.testing.assert_close(made[0], made[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_gradients_of_bags_by_frequency(client, mode):
    """Compares with torch's Embedding, because EmbeddingBag of torch 1.13 divides by the counts of other ids."""
    table, random = table_of(client), np.random.default_rng(4)
    theirs = torch.nn.Embedding(IDS, DIM, scale_grad_by_freq=True, _weight=weights_of(table))
    bag = EmbeddingBag(table, mode=mode, scale_grad_by_freq=True)
    ours, other = Optimizer(bag), torch.optim.SGD(theirs.parameters(), lr=0.1)
    for _ in range(30):
        ids = torch.from_numpy(random.integers(0, IDS, (6, 4)))
        mine, rows = bag(ids), theirs(ids)
        wanted = rows.sum(dim=1) if mode == "sum" else rows.mean(dim=1)
        for made, optimizer in ((mine, ours), (wanted, other)):
            optimizer.zero_grad()
            torch.sin(made).sum().backward()
            optimizer.step()
        torch.testing.assert_close(mine, wanted, rtol=1e-5, atol=1e-5)


def test_rows_are_shortened_in_the_table_where_the_module_learns(client):
    table = table_of(client)
    bag, ids = EmbeddingBag(table, mode="sum", max_norm=0.5), torch.arange(IDS)[:, None]
    bag.eval()
    assert (bag(ids).norm(dim=1) <= 0.5 + 1e-6).all()
    assert (weights_of(table).norm(dim=1) > 0.5).any() and table.stat().rows == 0
    bag.train()
    assert bag(ids).requires_grad
    assert (weights_of(table).norm(dim=1) <= 0.5 + 1e-6).all()


@pytest.mark.parametrize("padding", [None, 4])
def test_embedding_is_that_of_torch(client, padding):
    table, random = table_of(client), np.random.default_rng(2)
    weights = weights_of(table)
    if padding is not None:
        weights[padding] = 0
    theirs = torch.nn.Embedding(IDS, DIM, sparse=True, padding_idx=padding, _weight=weights)
    ours = Embedding(table, padding_idx=padding)
    steps = [(ours, Optimizer(ours)), (theirs, torch.optim.SGD(theirs.parameters(), lr=0.1))]
    for _ in range(30):
        ids = torch.from_numpy(random.integers(0, IDS, (4, 3)).astype(random.choice([np.int32, np.int64])))
        made = []
        for module, optimizer in steps:
            optimizer.zero_grad()
            made.append(module(ids))
            torch.sin(made[-1]).sum().backward()
            optimizer.step()
        torch.testing.assert_close(made[0], made[1], rtol=1e-5, atol=1e-5)
    assert made[0].shape == (4, 3, DIM)


def test_any_id_of_64_bits(client):
    ours = Embedding(table_of(client))
    ids = torch.tensor([-1, 2 ** 63 - 1, -2 ** 63, 0])
    ours(ids).sum().backward()
    Optimizer(ours).step()
    keys = np.array([2 ** 64 - 1, 2 ** 63 - 1, 2 ** 63, 0], np.uint64)
    assert ours.table.stat().rows == 4
    assert (ours.table.pull(keys) == ours(ids).detach().numpy()).all()
    padded = EmbeddingBag(ours.table, mode="sum", padding_idx=-1)
    assert (padded(ids[None])[0].detach().numpy() == ours.table.pull(keys[1:2])[0] + ours.table.pull(keys[2:3])[0]
            + ours.table.pull(keys[3:])[0]).all()


def test_nothing_asked_for(client):
    table = table_of(client)
    bag, one = EmbeddingBag(table), Embedding(table)
    assert bag(torch.empty(0, dtype=torch.int64), torch.zeros(3, dtype=torch.int64)).tolist() == [[0] * DIM] * 3
    assert bag(torch.empty((0, 4), dtype=torch.int64)).shape == (0, DIM)
    assert one(torch.empty((2, 0), dtype=torch.int64)).shape == (2, 0, DIM)
    bag(torch.empty((2, 0), dtype=torch.int64)).sum().backward()
    Optimizer(bag).step()
    assert table.stat().rows == 0


# ------------------------------------------------- gradients between the backward pass and the step

def test_backwards_add_up(client):
    """Two forward passes before one backward pass, and two backward passes before a step, lead to one push of the
    sum."""
    moved = []
    for name, parts in (("whole", [[1, 2, 2, 7]]), ("parts", [[1, 2], [2, 7]])):
        bag = EmbeddingBag(table_of(client, name, RULES["adam"][0]), mode="sum")
        optimizer, before = Optimizer(bag), bag.table.pull([1, 2, 7])
        for together in (True, False):
            made = [bag(torch.tensor([ids])).sum() * 3 for ids in parts]
            if together:
                sum(made).backward()
            else:
                for one in made:
                    one.backward()
            optimizer.step()
        assert bag.table.stat().pushes <= 6  # two steps push to at most three partitions each
        moved.append(before - bag.table.pull([1, 2, 7]))
    assert np.allclose(moved[0], moved[1], atol=1e-6) and (moved[0] > 0.015).all()


def test_gradients_may_be_changed(client):
    bag = EmbeddingBag(table_of(client), mode="sum")
    optimizer, before = Optimizer(bag), bag.table.pull([1, 2])
    for ids in ([[1, 1, 2]], [[2, 2, 2]]):  # together the gradients are 1024 times 2 and 4
        (bag(torch.tensor(ids)) * 1024).sum().backward()
    for leaf in optimizer.gradients():
        leaf.grad /= 1024  # as GradScaler unscales gradients
    norm = torch.nn.utils.clip_grad_norm_(optimizer.gradients(), 1.0)
    assert float(norm) == pytest.approx(np.sqrt(DIM * (2 ** 2 + 4 ** 2)), rel=1e-5)
    assert [len(g["params"]) for g in optimizer.param_groups] == [1]
    optimizer.step()
    moved = before - bag.table.pull([1, 2])
    assert np.allclose(moved, 0.1 * np.array([[2], [4]]) / float(norm), rtol=1e-3)
    optimizer.step() # pushes nothing, because no gradients are left
    assert np.allclose(before - moved, bag.table.pull([1, 2]))


def test_zero_grad_throws_away(client):
    bag = EmbeddingBag(table_of(client))
    optimizer = Optimizer(bag)
    bag(torch.tensor([[1]])).sum().backward()
    optimizer.zero_grad()
    optimizer.step()
    assert bag.table.stat().rows == 0 and optimizer.gradients() == []


def test_pulls_only(client):
    table = table_of(client)
    bag, weights = EmbeddingBag(table, mode="sum"), torch.ones(1, 2, requires_grad=True)
    optimizer = Optimizer(bag)
    with torch.no_grad():
        assert not bag(torch.tensor([[1, 2]])).requires_grad
    assert not bag.eval()(torch.tensor([[1, 2]])).requires_grad
    bag.train().frozen = True
    bag(torch.tensor([[1, 2]]), per_sample_weights=weights).sum().backward()
    assert weights.grad.shape == (1, 2)
    optimizer.step()
    bag(torch.tensor([[1, 2]]))  # a forward pass without a backward pass leaves no gradients
    optimizer.step()
    assert table.stat().rows == 0


def test_a_rate_that_changes(client):
    text, optimizer_of = RULES["adam"]
    table = table_of(client, rule=text)
    theirs = torch.nn.EmbeddingBag(IDS, DIM, mode="sum", sparse=True, _weight=weights_of(table))
    ours = EmbeddingBag(table, mode="sum")
    ids = torch.arange(IDS)[None]
    for bag, optimizer in ((ours, Optimizer(ours)), (theirs, optimizer_of(list(theirs.parameters())))):
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.01)
        for _ in range(6):
            optimizer.zero_grad()
            torch.sin(bag(ids)).sum().backward()
            optimizer.step()
            schedule.step()
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.01 / 64)
        other = Optimizer(ours) if bag is ours else None
        if other is not None:
            other.load_state_dict(optimizer.state_dict())
            assert other.param_groups[0]["lr"] == optimizer.param_groups[0]["lr"]
    torch.testing.assert_close(weights_of(table), theirs.weight.detach(), rtol=1e-5, atol=1e-5)


def test_gradients_of_gradients(client):
    """A penalty on the gradient with respect to an embedding is computed right; second derivatives with respect to
    per_sample_weights are refused."""
    bag, layer = EmbeddingBag(table_of(client), mode="sum"), torch.nn.Linear(DIM, 1, bias=False)
    optimizer, before = Optimizer(bag), bag.table.pull([1])
    made = bag(torch.tensor([[1]]))
    (by,) = torch.autograd.grad((layer(made) ** 2).sum(), made, create_graph=True)  # 2 <w, x> w
    assert optimizer.gradients() == []
    (by ** 2).sum().backward()  # 4 <w, x>^2 <w, w>: its gradient in x is 8 <w, x> <w, w> w
    optimizer.step()
    w, x = layer.weight.detach().numpy()[0], before[0]
    assert np.allclose(before[0] - bag.table.pull([1])[0], 0.1 * 8 * (w @ x) * (w @ w) * w, atol=1e-6)
    weights = torch.ones(1, 1, requires_grad=True)
    with pytest.raises(tug.UsageError, match="second derivatives"):
        torch.autograd.grad(bag(torch.tensor([[1]]), per_sample_weights=weights).sum(), weights, create_graph=True)


# ---------------------------------------------------------------- prefetch

def test_prefetch(client):
    table = table_of(client)
    bag, same = EmbeddingBag(table, mode="sum"), Embedding(table)
    first, second = torch.tensor([[1, 2]]), torch.tensor([[2, 3]])
    optimizer, old = Optimizer(bag), table.pull([2, 3])
    bag.prefetch(second)
    pulls = table.stat().pulled_keys
    bag(first).sum().backward()
    optimizer.step()
    made = bag(second).detach().numpy()[0]
    assert table.stat().pulled_keys == pulls + 2  # the second forward pass pulled nothing
    assert np.allclose(made, old.sum(axis=0))  # its rows do not include the step in between
    assert np.allclose(bag(second).detach().numpy(), same(second).detach().numpy().sum(axis=1))
    assert not np.allclose(bag(second).detach().numpy()[0], made)


def test_prefetched_rows_get_old(client):
    table = table_of(client)
    bag = EmbeddingBag(table, mode="sum")
    optimizer, ids = Optimizer(bag), torch.tensor([[5]])
    bag.prefetch(ids)
    for _ in range(17):
        bag(torch.tensor([[5, 6]])).sum().backward()
        optimizer.step()
    assert np.allclose(bag(ids).detach().numpy(), table.pull([5]))
    for i in range(50):
        bag.prefetch(torch.tensor([[i]]))
    pulls = table.stat().pulled_keys
    bag(torch.tensor([[49]]))
    assert table.stat().pulled_keys == pulls
    bag(torch.tensor([[0]]))  # its prefetched batch was dropped, so it is pulled again
    assert table.stat().pulled_keys == pulls + 1


# ---------------------------------------------------------------- saves

def model_of(client):
    return torch.nn.ModuleDict({"films": EmbeddingBag(table_of(client, "films", RULES["adam"][0])),
                                "users": Embedding(table_of(client, "users", "ftrl:lr=0.1")),
                                "layer": torch.nn.Linear(2 * DIM, 1)})


def train(model, optimizers, random, steps):
    for _ in range(steps):
        films, users = (torch.from_numpy(random.integers(0, 50, n)) for n in ((8, 3), 8))
        score = model["layer"](torch.cat([model["films"](films), model["users"](users)], dim=1))
        (torch.sigmoid(score) - 0.3).pow(2).sum().backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


def test_a_checkpoint_goes_on_with_the_same_bits(client):
    def optimizers_of(model):
        return Optimizer(model), torch.optim.Adam(model.parameters(), lr=0.01)

    model, file = model_of(client), io.BytesIO()
    optimizers, random = optimizers_of(model), np.random.default_rng(1)
    train(model, optimizers, random, 10)
    torch.save({"model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers]}, file)
    drawn = copy.deepcopy(random)
    train(model, optimizers, random, 10)
    with tug.local(1, wait_seconds=60) as elsewhere:
        other = model_of(elsewhere)
        others = optimizers_of(other)
        train(other, others, np.random.default_rng(9), 3)  # this training is overwritten by the saved state
        saved = torch.load(io.BytesIO(file.getvalue()))
        other.load_state_dict(saved["model"])
        for optimizer, state in zip(others, saved["optimizers"]):
            optimizer.load_state_dict(state)
        train(other, others, drawn, 10)
        for name in ("films", "users"):
            assert (other[name].table.pull(range(50)) == model[name].table.pull(range(50))).all()
            assert other[name].table.stat().rows == model[name].table.stat().rows
        assert (other["layer"].weight == model["layer"].weight).all()


def test_states_that_cannot_be(client):
    bag = EmbeddingBag(table_of(client))
    state = bag.state_dict()["_extra_state"]
    data = torch.zeros(1, dtype=torch.uint8)
    for wrong in (None, {"table": "t", "files": {}}, {"table": "t", "files": {"../x": data}},
                  {"table": "t", "files": {"/x": data}}, {**state, "files": {"a": b"x"}}):
        with pytest.raises(tug.DataError, match="the state of an embedding has"):
            bag.load_state_dict({"_extra_state": wrong})
    with pytest.raises(RuntimeError, match="_extra_state"):
        bag.load_state_dict({})
    wider = EmbeddingBag(client.table("wider", dim=DIM + 1, rule="sgd"))
    with pytest.raises(tug.Error):
        wider.load_state_dict({"_extra_state": state})
    with pytest.raises(tug.UsageError, match="other tables than this optimizer has: t"):
        Optimizer(wider).load_state_dict(Optimizer(bag).state_dict())


def test_the_dense_part_alone(client):
    model = model_of(client)
    state = tug.torch.dense_state_dict(model)
    assert sorted(state) == ["layer.bias", "layer.weight"]
    state["layer.weight"] = torch.ones(1, 2 * DIM)
    tug.torch.load_dense_state_dict(model, state)
    assert (model["layer"].weight == 1).all()
    del state["layer.bias"]
    with pytest.raises(tug.UsageError, match="lacks layer.bias; the model has no more"):
        tug.torch.load_dense_state_dict(model, {**state, "more": torch.ones(1)})
    name, before = next((n, p.detach().clone()) for n, p in model.named_parameters() if n in state)
    with pytest.raises(tug.DataError, match=f"value of '{name}' that is not finite"):
        tug.torch.load_dense_state_dict(model, {**state, name: torch.full_like(before, float("nan"))})
    assert torch.equal(dict(model.named_parameters())[name].detach(), before)


# --------------------------------------- calls that are refused, each with an error of one sentence

def test_refused(client):
    table = table_of(client)
    bag, one = EmbeddingBag(table), Embedding(table)
    ids = torch.tensor([1, 2, 3])
    for wrong, said in (
            (lambda: EmbeddingBag(table, mode="min"), "mode: 'min' is not one of sum, mean, max"),
            (lambda: EmbeddingBag(table, mode="max", scale_grad_by_freq=True), "scale_grad_by_freq: needs mode"),
            (lambda: EmbeddingBag(table, mode="max")(ids[None], per_sample_weights=torch.ones(1, 3)), "need mode"),
            (lambda: Embedding(table, max_norm=-1), "max_norm: -1 is not from 0"),
            (lambda: Embedding(table, max_norm=float("nan")), "max_norm: nan is not from 0"),
            (lambda: Embedding(table, max_norm="1"), "max_norm: must be a number, not str"),
            (lambda: Embedding(table, sparse=1), "sparse: must be True or False, not int"),
            (lambda: Embedding("t"), "table: must be a tug.Table"),
            (lambda: Embedding(client.table("c", accessor="ctr", dim=4)), "accessor plain"),
            (lambda: Embedding(client.table("s", dim=4, rule="sum")), "takes values, not gradients"),
            (lambda: Embedding(table, padding_idx=2 ** 64), "padding_idx: 18446744073709551616 is not from"),
            (lambda: one(ids.float()), "input: must be integers, not torch.float32"),
            (lambda: one([1, 2]), "input: must be a torch.Tensor"),
            (lambda: one(torch.empty(2, dtype=torch.int64, device="meta")), "are on meta"),
            (lambda: bag(ids), "input: has 1 dimension, but must"),
            (lambda: bag(ids, torch.tensor([1, 2])), "begin with 0"),
            (lambda: bag(ids, torch.tensor([0, 2, 1])), "ascend"),
            (lambda: bag(ids, torch.tensor([0, 4])), "the 3 ids"),
            (lambda: bag(ids, torch.tensor([], dtype=torch.int64)), "begin with 0"),
            (lambda: bag(ids[None], torch.tensor([0])), "offsets: must not be given"),
            (lambda: bag(ids[None], per_sample_weights=torch.ones(1, 3)), "need mode 'sum'"),
            (lambda: EmbeddingBag(table, mode="sum")(ids[None], per_sample_weights=torch.ones(3)), "have the shape"),
            (lambda: Optimizer(torch.nn.Linear(2, 2)), "there is no tug.torch.Embedding"),
            (lambda: Optimizer([bag, one]), "table 't': two modules use it"),
            (lambda: copy.deepcopy(bag), "cannot be copied or pickled"),
            (lambda: pickle.dumps(one), "cannot be copied or pickled"),
            (lambda: copy.deepcopy(Optimizer(bag)), "cannot be copied or pickled")):
        with pytest.raises(tug.Error, match=said):
            wrong()


def test_errors_of_the_table(client):
    bag = EmbeddingBag(table_of(client), mode="sum")
    optimizer, ids = Optimizer(bag), torch.tensor([[1]])
    (bag(ids) * float("nan")).sum().backward()
    with pytest.raises(tug.UsageError, match="finite"):
        optimizer.step()
    optimizer.zero_grad()
    optimizer.param_groups[0]["lr"] = -1
    bag(ids).sum().backward()
    with pytest.raises(tug.UsageError, match="factor"):
        optimizer.step()
    client.close()
    with pytest.raises(tug.ClosedError):
        bag(ids)


def test_after_a_fork(client):
    bag = EmbeddingBag(table_of(client))
    bag.prefetch(torch.tensor([[1]]))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            bag(torch.tensor([[2]]))
            said = "nothing"
        except tug.ForkedError as error:
            said = str(error)
        os.write(write, said.encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as pipe:
        assert "was forked from it" in pipe.read()
    assert bag(torch.tensor([[1]])).shape == (1, DIM)


def test_threads(client):
    """A step includes the gradients of backward passes of several threads."""
    bag = EmbeddingBag(table_of(client), mode="sum")
    optimizer, before = Optimizer(bag), bag.table.pull(range(IDS))
    threads = [threading.Thread(target=lambda: [bag(torch.arange(IDS)[None]).sum().backward() for _ in range(25)])
               for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    optimizer.step()
    assert np.allclose(before - bag.table.pull(range(IDS)), 0.1 * 100, rtol=1e-4)


# ---------------------------------------------------------------- on clusters


