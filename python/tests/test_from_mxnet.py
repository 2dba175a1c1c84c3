"""Checks docs/from-mxnet.md: MXNet's program and tug's compute the same, and its tables match the library and the
package.

SPDX-License-Identifier: Apache-2.0
"""

import inspect
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import tug
from tug import kvstore
from tug.kvstore import lr_scheduler, optimizer

SOURCE = os.environ.get("TUG_SOURCE") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
PATIENCE = 90

# This module replaces mxnet in the page's program. It models arrays; stores, optimizers and schedulers are tug's.
MXNET = """
import sys, types
import numpy as np
import tug.kvstore as kv
from tug.kvstore import lr_scheduler, optimizer

class NDArray:
    def __init__(self, a):
        self.a = a
    T = property(lambda self: NDArray(self.a.T))
    def asnumpy(self):
        return self.a
    def __add__(self, other):
        return NDArray(self.a + other.a)
    def __sub__(self, other):
        return NDArray(self.a - other.a)

kv.register_array_type(NDArray, lambda x: x.a, NDArray)
nd = types.SimpleNamespace(
    zeros=lambda shape: NDArray(np.zeros(shape, "float32")), array=NDArray,
    dot=lambda a, b: NDArray(a.a @ b.a), sum=lambda a, axis: NDArray(a.a.sum(axis=axis)),
    sigmoid=lambda a: NDArray(1 / (1 + np.exp(-a.a))))
"""


def page():
    with open(os.path.join(SOURCE, "docs", "from-mxnet.md"), encoding="utf-8") as file:
        return file.read()


def program(name):
    return re.search(rf"^```python\n(# {name}\n.*?)^```", page(), flags=re.M | re.S).group(1)


def table(head):
    lines = page()[page().index(head):].split("\n\n")[0].split("\n")[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("kind", ["local", "dist_sync"])
def test_the_same(kind, tmp_path):
    (tmp_path / "mxnet.py").write_text(MXNET)
    said = []
    launch = [] if kind == "local" else [os.environ["TUG_BINARY"], "launch", "--servers", "2", "--workers", "2", "--"]
    for name in ("mxnet_train.py", "train.py"):
        (tmp_path / name).write_text(program(name))
        done = subprocess.run([*launch, sys.executable, name, kind], capture_output=True, text=True, timeout=PATIENCE,
                              cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        said.append(sorted(re.findall(r"worker \d, step.*|worker \d: weights.*", done.stdout)))
    assert said[0] == said[1] and len(said[0]) == (4 if kind == "local" else 8)


def defaults(text):
    found = {}
    for pair in text.split(", "):
        field, value = pair.split("=")
        found[field] = {"None": None, "True": True, "False": False}[value] if value[0].isupper() else float(value)
    return found


def test_optimizers():
    rows = table("| name | class | specific arguments |")
    common = table("| arguments of all optimizers | meaning |")
    assert {name for name, _, _ in rows} == set(optimizer._TABLE) - {"ccsgd", "signsgd"}
    for name, cls, own in rows:
        made = getattr(optimizer, cls.strip("`"))()
        assert made.name == name
        said = defaults(own)
        assert list(made._fields())[:len(said)] == list(said)
        said.update(defaults(common[0][0]), begin_num_update=0)
        assert set(said) == set(made._fields())
        for field, value in said.items():
            assert getattr(made, field) == value, (name, field)
        doc = " ".join(inspect.getdoc(type(made)).split())
        assert name == "test" or doc.startswith(f"{name}({own}): "), doc


def test_schedulers():
    rows = table("| scheduler, of `kvstore.lr_scheduler` | arguments |")
    shared = rows.pop()[1].split(" (")[0]
    assert {name.strip("`") for name, _ in rows} == set(lr_scheduler.__all__) - {"LRScheduler"}
    for name, arguments in rows:
        signature = inspect.signature(getattr(lr_scheduler, name.strip("`")))
        said = f"{arguments.replace(' (a list)', '').replace('1e-8', '1e-08')}, {shared}"
        expected = [p.name if p.default is p.empty else f"{p.name}={p.default}" for p in signature.parameters.values()]
        assert sorted(said.replace('"', "").split(", ")) == sorted(expected), name


def test_names():
    """Each name of tug.kvstore that the page has exists."""
    for name in re.findall(r"`(?:tug\.)?kvstore\.([a-zA-Z_.]+)", page()):
        found = kvstore
        for part in name.rstrip(".").split("."):
            assert hasattr(found, part), name
            found = getattr(found, part)


# Calls from MXNet's test suites, in the form in which programs write them, and their results. Calls on clusters are in
# test_kvstore_cluster.py.

def answer(call, *given):
    """Returns the result of a call, or the message of its error."""
    try:
        return call(*given)
    except (tug.Error, AttributeError) as error:
        return str(error)


def on_local(call):
    with kvstore.create("local") as kv:
        kv.init("w", np.ones(3, "f4"))
        return answer(call, kv)


def what_it_is(name):
    with kvstore.create(name) as kv:
        return kv.type, kv.rank, kv.num_workers, kv.is_recovery


def pushed(kv):
    outs = [np.zeros(3, "f4"), np.zeros(3, "f4")]
    kv.push("w", [np.ones(3, "f4"), np.ones(3, "f4")])
    kv.pull("w", out=outs)
    return [out[0] for out in outs]


def as_module():
    with kvstore.init_optimizer("local", "sgd", (("learning_rate", 0.5),), params={"w": np.ones(3, "f4")}) as kv:
        kv.push("w", np.ones(3, "f4"))
        out = np.zeros(3, "f4")
        kv.pull("w", out=out)
        return out[0]


class Plain(kvstore.KVStoreBase):
    pass


MORE = ["adamw", "lamb", "lars", "ftml", "nadam", "adamax", "dcasgd", "sgld", "ccsgd", "signsgd"]

# A name, a call, and its result; a text that begins with "..." is a part of the error's message.
ROWS = [
    ("Module.init_optimizer", as_module, 0.5),
    ("create", lambda: what_it_is("local"), ("local", 0, 1, False)),
    ("type in lower case", lambda: what_it_is("Local")[0], "local"),
    ("device", lambda: what_it_is("local_allreduce_device")[0], "local_allreduce_device"),
    ("dist without a role", lambda: kvstore.create("dist_sync"), "...set DMLC_ROLE"),
    ("p3 without a role", lambda: kvstore.create("p3"), "...set DMLC_ROLE"),
    ("nccl", lambda: kvstore.create("nccl"), "...there are local, device, dist_sync"),
    ("SendCommandToServers", lambda: on_local(lambda kv: kv._send_command_to_servers(0, "x")), "...no servers"),
    ("KVStoreServer(kv).run", lambda: callable(kvstore.KVStoreServer(None).run), True),
    ("packed optimizer", lambda: on_local(lambda kv: kv.set_optimizer(b"\x80")), "...a pickled optimizer is refused"),
    ("push and pull", lambda: on_local(pushed), [2, 2]),
    ("first push", lambda: on_local(lambda kv: kv.push("v", np.ones(3))), "...call init before push and pull"),
    ("pull before init", lambda: on_local(lambda kv: kv.pull("v", out=np.ones(3))), "...call init before"),
    ("get_num_dead_node(0)", lambda: on_local(lambda kv: kv.get_num_dead_node(0)), 0),
    ("row_sparse_pull(out=dense)",
     lambda: on_local(lambda kv: kv.row_sparse_pull("w", out=np.zeros(3, "f4"), row_ids=[0])), "...RowSparse"),
    ("other optimizers", lambda: [optimizer.create(name).name for name in MORE], MORE),
    ("lans", lambda: optimizer.create("lans"), "...there are sgd, nag"),
    ("lr_scheduler=", lambda: optimizer.SGD(lr_scheduler=lr_scheduler.FactorScheduler(5)).learning_rate, 0.01),
    ("lazy_update=", lambda: optimizer.Adam(lazy_update=False).lazy_update, False),
    ("Optimizer.register", lambda: optimizer.Optimizer.register(Plain), "...Plain, cannot be registered"),
    ("get_updater", lambda: callable(optimizer.get_updater(optimizer.SGD())), True),
    ("KVStoreBase.register", lambda: kvstore.KVStoreBase.register(Plain)().type, "plain"),
    ("TestStore", lambda: kvstore.TestStore, "...KVStoreBase.register"),
]


@pytest.mark.parametrize("form, expected", [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_rows(form, expected, monkeypatch):
    monkeypatch.delenv("DMLC_ROLE", raising=False)
    monkeypatch.setattr(kvstore.KVStoreBase, "kv_registry", dict(kvstore.KVStoreBase.kv_registry))
    found = answer(form)
    if isinstance(expected, str) and expected.startswith("..."):
        assert isinstance(found, str) and expected[3:] in found, found
    else:
        assert found == expected
