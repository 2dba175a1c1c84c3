"""PyTorch modules on clusters: with ranks, in a fleet, with a server that dies; and tug without PyTorch.

SPDX-License-Identifier: Apache-2.0
"""

import os
import re
import subprocess
import sys

import pytest
from test_torch import IDS, table_of

import tug

torch = pytest.importorskip("torch", reason="PyTorch is not there: python3-torch")

from tug.torch import EmbeddingBag, Optimizer  # noqa: E402


def test_without_torch(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('no torch for this test')")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    run = subprocess.run([sys.executable, "-c", "import tug; import tug.torch"], env=env, capture_output=True,
                         text=True)
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith("ImportError: tug.torch needs PyTorch, which is not installed:")


HALVES = """
import sys
import numpy as np, torch, tug, tug.torch

def model_of(client, name, mode):
    torch.manual_seed(1)
    table = client.table(name, dim=4, rule="adam:lr=0.05", init=(-1, 1), seed=3, mode=mode)
    return torch.nn.Sequential(tug.torch.EmbeddingBag(table, mode="mean"), torch.nn.Linear(4, 1))

def train(model, part, parts):
    sparse, dense = tug.torch.Optimizer(model), torch.optim.SGD(model.parameters(), lr=0.1)
    random = np.random.default_rng(7)
    for step in range(20):
        ids, wanted = torch.from_numpy(random.integers(0, 40, (12, 3))), torch.from_numpy(random.random((12, 1)))
        mine = slice(12 * part // parts, 12 * (part + 1) // parts)
        loss = (model(ids[mine]) - wanted[mine].float()).pow(2).mean()
        dense.zero_grad()
        loss.backward()
        sparse.step()
        dense.step()

with tug.connect() as client:
    tug.torch.init_process_group(client)
    inner = model_of(client, "halves", "sync")
    assert [name for name, _ in inner.named_parameters()] == ["1.weight", "1.bias"]
    model = torch.nn.parallel.DistributedDataParallel(inner)
    train(model, client.rank, client.workers)
    rows = inner[0].table.pull(range(40))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    try:
        inner.state_dict()
    except tug.UsageError as error:
        assert "client.save(directory)" in str(error), error
    assert sorted(tug.torch.dense_state_dict(inner)) == ["1.bias", "1.weight"]
    with tug.local() as alone:
        whole = model_of(alone, "halves", "async")
        train(whole, 0, 1)
        assert np.allclose(rows, whole[0].table.pull(range(40)), atol=1e-5), "rows"
        assert torch.allclose(inner[1].weight, whole[1].weight, atol=1e-5), "layer"
    print("equal to one")
"""


@pytest.mark.parametrize("workers", [2, 3])
def test_ranks_are_one(workers):
    """DistributedDataParallel on parts of each batch equals one process on whole batches, also with Adam on the
    servers."""
    with tug.launch([sys.executable, "-c", HALVES], servers=2, workers=workers,
                    wait_seconds=60, env={"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}) as cluster:
        cluster.wait(90)
        for rank in range(workers):
            assert "equal to one" in cluster.process("worker", rank).output()


@pytest.mark.parametrize("workers", [0, 2])
def test_deepfm(workers, source, tmp_path):
    """The example torch_deepfm.py runs on the data that it generates itself."""
    example = [sys.executable, os.path.join(source, "examples", "torch_deepfm.py"), "--batch", "512", "--epochs", "2"]
    launcher = [os.environ.get("TUG_BINARY", "tug"), "launch", "--servers", "2", "--workers", str(workers), "--"]
    run = subprocess.run([*launcher, *example, "--prefetch"] if workers else example, cwd=tmp_path,
                         env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=90)
    assert run.returncode == 0, run.stderr
    said = re.search(r"(\d) workers, 407 rows: test AUC (0\.\d+) of 5000 examples", run.stdout)
    assert said and int(said.group(1)) == max(workers, 1) and float(said.group(2)) > 0.9, run.stdout


FLEET = """
import sys, numpy as np, torch, tug, tug.torch
from tug.fleet import fleet

fleet.init()
if fleet.is_server():
    fleet.init_server()
    fleet.run_server()
    sys.exit()
fleet.init_worker()
torch.manual_seed(1)
table = fleet.client.table("words", dim=4, rule="adam:lr=0.05", init=(-1, 1))
model = torch.nn.Sequential(tug.torch.EmbeddingBag(table, mode="sum"), torch.nn.Linear(4, 1))
if fleet.worker_num() > 1:
    tug.torch.init_process_group(fleet.client)
    model = torch.nn.parallel.DistributedDataParallel(model)
sparse, dense = tug.torch.Optimizer(model), torch.optim.Adam(model.parameters(), lr=0.05)
random = np.random.default_rng(fleet.worker_index())
for step in range(60):
    ids = torch.from_numpy(random.integers(0, 50, (32, 3)))
    loss = torch.nn.functional.binary_cross_entropy_with_logits(model(ids)[:, 0], (ids[:, 0] % 2).float())
    dense.zero_grad()
    loss.backward()
    sparse.step()
    dense.step()
fleet.barrier_worker()
losses = fleet.util.all_gather(float(loss.detach()))
assert all(one < 0.6 for one in losses), losses
try:
    fleet.save_persistables(None, "model")
except tug.UsageError as error:
    assert "client.save" in str(error), error
else:
    raise SystemExit("nothing was refused")
if fleet.is_first_worker():
    print("saved", fleet.client.save(sys.argv[1], tables=[table]))
fleet.stop_worker()
"""


def test_in_a_fleet(tmp_path):
    """A script of tug.fleet trains a PyTorch model, whose tables are those of fleet.client."""
    (tmp_path / "script.py").write_text(FLEET)
    run = subprocess.run([os.environ.get("TUG_BINARY", "tug"), "launch", "--servers", "1", "--workers", "2", "--",
                          sys.executable, "script.py", str(tmp_path / "saves")], cwd=tmp_path, capture_output=True,
                         text=True, env={**os.environ, "OMP_NUM_THREADS": "1", "TUG_SAVE_ROOT": str(tmp_path)},
                         timeout=90)
    assert run.returncode == 0, run.stderr
    assert "saved " in run.stdout and (tmp_path / "saves" / "save-000001" / "manifest.json").exists()


def test_a_server_dies():
    """If a server dies, training fails at once with an error of tug."""
    with tug.launch(servers=2, wait_seconds=60, dead_seconds=5) as cluster:
        client = cluster.connect()
        bag = EmbeddingBag(table_of(client))
        optimizer = Optimizer(bag)
        bag(torch.arange(IDS)[None]).sum().backward()
        optimizer.step()
        cluster.process("server", 1).kill()
        with pytest.raises(tug.SystemFailure):
            for _ in range(100000):
                bag(torch.arange(IDS)[None]).sum().backward()
                optimizer.step()
        cluster.kill()
