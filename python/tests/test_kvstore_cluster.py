"""Compares stores of tug.kvstore on clusters with numpy. One script runs in all roles, under `tug launch` and by hand.

SPDX-License-Identifier: Apache-2.0
"""

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time

import pytest
from test_fleet import free_ports

PATIENCE = 90

# Adds the tests' folder at the end of sys.path, for the module `stores`.
PREAMBLE = f"""
import os, sys, signal, threading
import numpy as np
import tug
import tug.kvstore as kvstore
from tug.kvstore import RowSparse
sys.path.append({os.path.dirname(os.path.abspath(__file__))!r})
from stores import pulled, simulated
"""


def launch(tmp_path, text, *, workers=2, servers=2, code=0, preamble=PREAMBLE):
    script = tmp_path / "script.py"
    script.write_text(preamble + textwrap.dedent(text))
    done = subprocess.run([os.environ["TUG_BINARY"], "launch", "--servers", str(servers), "--workers", str(workers),
                           "--", sys.executable, str(script)], capture_output=True, text=True, timeout=PATIENCE,
                          env={**os.environ, "MXNET_KVSTORE_BIGARRAY_BOUND": "100"}, cwd=tmp_path, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_sync(tmp_path):
    said = launch(tmp_path, """
        kv = kvstore.create("dist_sync")
        n, me = kv.num_workers, kv.rank
        shapes = {"small": (2, 3), "big": (40, 5), "line": (1, 301), "odd": (211,)}
        for dtype in ("float16", "float32", "float64", "int32", "int64"):
            for name, shape in shapes.items():
                key = name + dtype
                kv.init(key, np.full(shape, me + 1, dtype))
                assert np.all(pulled(kv, key, shape, dtype) == 1)
                for step in range(3):
                    kv.push(key, [np.full(shape, me + step, dtype)] * 2, priority=-step)
                    expected = 2 * sum(r + step for r in range(n))
                    assert np.all(pulled(kv, key, shape, dtype) == expected)
        kv.init("e", RowSparse.of(np.ones((60, 4), "f4")))
        for step in range(3):
            mine = RowSparse([me, 59 - me], np.full((2, 4), me + 1.0), (60, 4))
            if step == 1:
                mine = RowSparse.zeros((60, 4))  # counts in the round all the same
            kv.push("e", mine)
            out = RowSparse.zeros((60, 4))
            kv.row_sparse_pull("e", out=out, row_ids=np.array([[0, 59], [1., 0]]))
            want = np.zeros((60, 4))
            for r in range(n):
                want[[r, 59 - r]] = r + 1 if step != 1 else 0
            assert np.array_equal(out.data, want[[0, 1, 59]]), (out.data, want)
            kv.push("e", np.full((60, 4), me, "f4"))
            assert np.all(pulled(kv, "e", (60, 4)) == sum(range(n)))
        kv._barrier()
        kv.init("small" + "float32", np.zeros((2, 3), "f4"))  # again
        for call, why in ((lambda: kv.init("smallfloat32", np.zeros((3, 2), "f4")), "2 x 3"),
                          (lambda: kv.push("never", np.zeros(1, "f4")), "never"),
                          (lambda: kv.set_updater(lambda *a: None), "servers"),
                          (lambda: kv._send_command_to_servers(1, "x"), "tug.kvserver.run")):
            try:
                call()
            except tug.Error as error:
                assert why in str(error), error
            else:
                raise AssertionError(why)
        assert kv.get_num_dead_node(7) == 0
        kv.set_optimizer(tug.optimizer.create("adam", learning_rate=0.1))
        kv.push("bigfloat32", np.ones((40, 5), "f4"))
        kv.wait()
        if me == 0:
            kv.save_optimizer_states("states")
            kv.load_optimizer_states("states")
        print("done", me, n)
    """)
    assert "done 0 2" in said and "done 1 2" in said


def test_async(tmp_path):
    launch(tmp_path, """
        kv = kvstore.create("dist_async")
        kv.init(3, np.zeros(301, "f4"))
        kv.push(3, np.ones(301, "f4"))
        try:
            kv.wait()
        except tug.Error as error:
            assert "key 3" in str(error) and "set_optimizer" in str(error)
        else:
            raise AssertionError("nobody knows what to do with it")
        kv._barrier()
        kv.set_optimizer(tug.optimizer.create("test", rescale_grad=2))
        for _ in range(5):
            kv.push(3, np.ones(301, "f4"))
        kv._barrier()
        assert np.all(pulled(kv, 3, 301) == 2 * 5 * kv.num_workers)
    """)


def test_other_calls(tmp_path):
    """Makes the calls that the other scripts leave out, with lists."""
    launch(tmp_path, """
        kv = kvstore.create("dist_device_sync")
        me, n = kv.rank, kv.num_workers
        assert kv.type == "dist_device_sync" and kv.is_capable("optimizer") and not kv.is_recovery
        a, b, c = (np.zeros((40, 5), "f4") for _ in range(3))
        kv.broadcast(["v", "w"], [a + me + 3, a + me + 5], out=[[a, b], c])  # of rank 0 counts
        assert np.all(a == 3) and np.all(b == 3) and np.all(c == 5)
        kv.pushpull(["v", "w"], [[a, b], c], out=[b, a])
        assert np.all(b == 6 * n) and np.all(a == 5 * n)
        kv.pushpull("w", [a, b])
        assert np.all(a == 11 * n * n) and np.all(a == b)
        assert kv.rounds("v") == 1 and kv.rounds("w") == 2
        kv.init(["e", "f"], [RowSparse.of(np.ones((60, 4))), RowSparse.zeros((3, 2), "f4")])
        rows, all_rows = RowSparse.zeros((60, 4), "f4"), RowSparse.zeros((60, 4))
        kv.row_sparse_pull("e", out=[rows, all_rows], row_ids=[np.array([7, 7, 3]), np.arange(60)])
        assert rows.indices.tolist() == [3, 7] and np.all(all_rows.data == 1)
        kv.push("f", RowSparse([me], [[2, 3]], (3, 2)))
        kept = RowSparse([2], np.ones((1, 2), "f4"), (3, 2))
        kv.pull("f", out=kept)
        assert kept.indices.tolist() == [2]  # as it was
        kv.pull("f", out=kept, ignore_sparse=False)
        assert kept.indices.tolist() == list(range(n)) and np.all(kept.data == [2, 3])
        kv.set_optimizer("sgd:learning_rate=1,momentum=0.5")
        kv.push("v", np.ones((40, 5), "f4"))
        if me == 0:
            kv.wait()
            kv.save_optimizer_states("states")
        kv.barrier()
        kv.push("v", np.ones((40, 5), "f4"))
        kv.wait()
        kv._barrier()
        if me == 0:
            kv.load_optimizer_states("states")  # of after one push
        kv._barrier()
        kv.push("v", np.ones((40, 5), "f4"))
        assert np.all(pulled(kv, "v", (40, 5)) == 6 * n - n - 1.5 * n - 1.5 * n)
        assert kv.get_num_dead_node(2) == kv.get_num_dead_node(4, timeout=1) == 0
        if me == 0:
            kv.init("only here", np.ones(2, "f4"))
        else:
            try:
                kv.pull("only here", np.ones(2, "f4"))
            except tug.UsageError as error:
                assert f"(rank {me}): every worker calls init" in str(error)
            else:
                raise AssertionError("this worker has not made it")
        try:
            kvstore.create("dist_sync")
        except tug.UsageError as error:
            assert "already" in str(error)
        else:
            raise AssertionError("one process is one worker")
        assert kv.barrier_before_exit
        kv._barrier()
        kv.barrier_before_exit = False
        kv.close()
        try:
            kv.wait()
        except tug.ClosedError:
            pass
        else:
            raise AssertionError("it is closed")
    """)


def test_server_class(tmp_path):
    """Servers that only run mxnet.kvstore_server.KVStoreServer work; errors about MXNet's own commands name them."""
    launch(tmp_path, """
        kv = kvstore.create("dist_sync")
        kv.init("w", np.zeros(3, "f4"))
        kv.pushpull("w", np.ones(3, "f4"), out := np.zeros(3, "f4"))
        assert np.all(out == 2)
        for head, why in ((0, "set_optimizer sends"), (1, "field of the optimizer"), (2, "last worker"),
                          (3, "type of the store"), (4, "set_gradient_compression"), (5, "tug profile"),
                          (6, "tug.kvserver.run"), (-1, "tug.kvserver.run")):
            try:
                kv._send_command_to_servers(head, "x")
            except tug.Error as error:
                assert f"command {head}:" in str(error) and why in str(error), error
                assert ("In MXNet" in str(error)) == (0 <= head <= 5), error
            else:
                raise AssertionError("there is no controller")
    """, preamble="""
import os
if os.environ["DMLC_ROLE"] != "worker":
    import tug.kvserver
    tug.kvserver.KVStoreServer().run()
    raise SystemExit(0)
""" + PREAMBLE)


def test_slices(tmp_path):
    """Stores of type p3, and other stores with the p3 van, send arrays in slices."""
    launch(tmp_path, """
        os.environ["MXNET_KVSTORE_SLICE_THRESHOLD"] = "7"
        os.environ["DMLC_PS_VAN_TYPE"] = "p3"
        try:
            kvstore.create("dist_async")
        except tug.Error as error:
            assert "synchronous" in str(error) and "DMLC_PS_VAN_TYPE" in str(error), error
        else:
            raise AssertionError("it is not synchronous")
        del os.environ["DMLC_PS_VAN_TYPE"]
        kv = kvstore.create("P3")
        assert kv.type == "p3" and kv.num_workers == 2
        shapes = {"a": (9, 5), "b": (7,), "c": (8,), "d": (150, 3)}
        for dtype in ("f2", "f4", "f8", "i8"):
            for priority, (name, shape) in enumerate(shapes.items()):
                key, g = name + dtype, np.arange(np.prod(shape)).reshape(shape).astype(dtype) + kv.rank
                kv.init(key, np.zeros(shape, dtype))
                for step in range(3):
                    kv.push(key, g, priority=-priority)
                assert kv.rounds(key) == 3
                assert np.array_equal(pulled(kv, key, shape, dtype), 2 * g - 2 * kv.rank + 1)
        kv.init("rows", RowSparse.zeros((40, 3)))
        kv.push("rows", RowSparse([1, 39], np.ones((2, 3), "f4"), (40, 3)))
        assert pulled(kv, "rows", (40, 3)).sum() == 12
        kv.push("af4", RowSparse([0, 8], np.ones((2, 5), "f4"), (9, 5)))
        assert pulled(kv, "af4", (9, 5)).sum() == 20
        kv.barrier()
        kv.set_optimizer(kvstore.optimizer.Adam(0.1))
        kv.barrier()
        before = pulled(kv, "df4", (150, 3))
        kv.push("df4", np.ones((150, 3), "f4"))
        assert np.allclose(before - pulled(kv, "df4", (150, 3)), 0.1, atol=1e-4)
        kv.barrier()
        if kv.rank == 0:
            kv.save_optimizer_states("states")
            kv.load_optimizer_states("states")
        kv.barrier()
    """)


def test_optimizers_of_servers(tmp_path):
    """Servers apply multipliers, schedules, and norms over a whole array, which is not split over servers if the
    optimizer was set before."""
    launch(tmp_path, """
        kv = kvstore.create("dist_sync")
        start = np.linspace(1, 3, 600).astype("f4").reshape(300, 2)
        names = {f"layer{i}_bias": 0.5 for i in range(2000)}
        schedule = kvstore.lr_scheduler.MultiFactorScheduler([1], 0.5, base_lr=1)
        kv.set_optimizer(kvstore.optimizer.LARS(1, eta=1, rescale_grad=0.5, lr_scheduler=schedule))
        kv.init("w", start)
        for rate in (1, 0.5):
            kv.push("w", start[::-1])  # the mean of both workers' gradients
            ratio = np.linalg.norm(start) / (np.linalg.norm(start[::-1]) + 1e-8)
            start = start - np.float32(rate * ratio) * start[::-1]
            assert np.allclose(pulled(kv, "w", (300, 2)), start, rtol=1e-5, atol=1e-6)
        kv.barrier()
        sgd = kvstore.optimizer.SGD(0.5)
        sgd.set_lr_mult({**names, "layer7_bias": 2})
        kv.set_optimizer(sgd)
        kv.init(["layer7_bias", "layer8_bias", "cut"], [np.zeros(3, "f4"), np.zeros(3, "f4"), start])
        kv.push(["layer7_bias", "layer8_bias"], [np.ones(3, "f4")] * 2)
        assert np.all(pulled(kv, "layer7_bias", (3,)) == -2) and np.all(pulled(kv, "layer8_bias", (3,)) == -0.5)
        assert sgd.num_update == 0  # the servers count
        try:
            kv.set_optimizer("lamb")
        except tug.UsageError as error:
            assert "'cut'" in str(error) and "before init" in str(error), error
        else:
            raise AssertionError("it is cut")
        kv.barrier()
        kv.set_optimizer("sgld:learning_rate=0.01")
        kv.push("cut", np.zeros((300, 2), "f4"))
        noise = (pulled(kv, "cut", (300, 2)) - start).ravel()
        assert len(set(noise)) == 600  # the two servers draw other numbers
    """)


def test_own_server(tmp_path):
    launch(tmp_path, """
        kv = kvstore.create("dist_sync")
        kv.init([3, 4], [np.zeros((40, 5), "f4"), RowSparse.zeros((60, 4))])
        if kv.rank == 0:
            kv._send_command_to_servers(7, "0.5")
        kv._barrier()
        for _ in range(2):
            kv.push(3, np.ones((40, 5), "f4"))
            kv.push(4, RowSparse([1, 58], np.ones((2, 4), "f4"), (60, 4)))
        assert np.all(pulled(kv, 3, (40, 5)) == 2 * 0.5 * kv.num_workers)
        assert pulled(kv, 4, (60, 4)).sum() == 2 * 2 * 4 * 0.5 * kv.num_workers
        for body in ("x", b"y"):
            try:
                kv._send_command_to_servers(8, body)
            except tug.Error as error:
                assert "controller" in str(error)
            else:
                raise AssertionError("the controller fails")
    """, preamble="""
import os
if os.environ["DMLC_ROLE"] != "worker":
    import threading
    import tug.kvserver
    scale = [1.0]
    def update(key, recv, stored):
        assert type(key) is int and threading.current_thread() is threading.main_thread()
        stored += recv * scale[0]
    def control(head, body):
        assert head == 7 and threading.current_thread() is threading.main_thread()
        scale[0] = float(body.decode())
    tug.kvserver.KVStoreServer(None).run(update, control)
    raise SystemExit(0)
""" + PREAMBLE)


def test_compressed_cluster(tmp_path):
    launch(tmp_path, """
        kv = kvstore.create("dist_sync_device")
        for kind in ("2bit", "1bit"):
            for shape in ((7, 3), (101, 7)):
                key = kind + str(shape)
                kv.init(key, np.ones(shape, "f4"))
                kv.set_gradient_compression({"type": kind, "threshold": 0.5})
                left = [np.zeros(shape, "f4")] * kv.num_workers
                rng = np.random.default_rng(9)
                for _ in range(6):
                    all_g = [(rng.integers(-8, 9, shape) / 8).astype("f4") for _ in range(kv.num_workers)]
                    kv.push(key, all_g[kv.rank])
                    total = np.zeros(shape, "f4")
                    for r, g in enumerate(all_g):
                        sent, left[r] = simulated(kind, 0.5, g, left[r])
                        total += sent
                    assert np.array_equal(pulled(kv, key, shape), total)
                kv.init(key + "after", np.full(shape, 0.1, "f4"))  # not compressed
                assert np.all(pulled(kv, key + "after", shape) == np.float32(0.1))
    """)


def test_ctrl_c(tmp_path):
    """Ctrl-C ends a wait for other workers at once and makes the store unusable; closing it does not hang."""
    said = launch(tmp_path, """
        import threading, time
        kv = kvstore.create("dist_sync")
        kv.init("w", np.zeros(3, "f4"))
        kv.barrier_before_exit = False
        kv._barrier()
        if kv.rank == 0:
            kv.push("w", np.ones(3, "f4"))
            begin = time.monotonic()
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                kv.pull("w", out=np.zeros(3, "f4"))
            except KeyboardInterrupt:
                print("ended in time", time.monotonic() - begin < 30)
            try:
                kv.push("w", np.ones(3, "f4"))
            except tug.Error as error:
                print(error)
            kv.close()
            open("closed", "w").close()
        else:
            while not os.path.exists("closed"):
                time.sleep(0.02)
    """)
    assert "ended in time True" in said and "this store cannot be used any more" in said


def test_failing_worker(tmp_path):
    """The launcher ends with the error of the worker that failed, and no process hangs."""
    said = launch(tmp_path, """
        kv = kvstore.create("dist_sync")
        kv.init(3, np.zeros(3, "f4"))
        if kv.rank == 1:
            raise RuntimeError("worker 1 has had enough")
        kv.push(3, np.zeros(3, "f4"))
        kv.pull(3, out=np.zeros(3, "f4"))
    """, code=4)
    assert "had enough" in said


def _by_hand(tmp_path, text):
    """Starts a cluster of two workers without a launcher; each worker prints "up" when it begins its rounds."""
    script = tmp_path / "script.py"
    script.write_text(PREAMBLE + textwrap.dedent(text))
    env = {**os.environ, "DMLC_NUM_SERVER": "1", "DMLC_NUM_WORKER": "2", "DMLC_PS_ROOT_URI": "127.0.0.1",
           "DMLC_PS_ROOT_PORT": str(free_ports(1)[0]), "TUG_WAIT_SECONDS": "60"}
    env.pop("TUG_SCHEDULER", None)
    roles = {"scheduler": "scheduler", "server": "server", "worker 0": "worker", "worker 1": "worker"}
    return {name: subprocess.Popen([sys.executable, str(script)], env={**env, "DMLC_ROLE": role}, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE) for name, role in roles.items()}


ROUNDS = """
    kv = kvstore.create("dist_sync")
    kv.init("w", np.zeros(3, "f4"))
    print("up", flush=True)
    while True:
        kv.push("w", np.ones(3, "f4"))
        kv.pull("w", out=np.zeros(3, "f4"))
"""


@pytest.mark.parametrize("role, number", [("server", signal.SIGTERM), ("scheduler", signal.SIGINT)])
def test_interrupted_role(tmp_path, role, number):
    """An interrupted server or scheduler ends with 130, and all other processes say at once which process it was."""
    processes = _by_hand(tmp_path, ROUNDS)
    try:
        for name in ("worker 0", "worker 1"):
            assert processes[name].stdout.readline() == "up\n"
        processes[role].send_signal(number)
        said = {name: p.communicate(timeout=PATIENCE)[1] for name, p in processes.items()}
        assert processes[role].returncode == 130
        assert said[role].splitlines()[-1] == f"{role}: interrupted"
        for name in set(processes) - {role}:
            assert f"{role} 0" in said[name] and ": interrupted while" in said[name], said[name]
        other = "server" if role == "scheduler" else "scheduler"
        assert processes[other].returncode == 130
    finally:
        for p in processes.values():
            p.kill()


def test_wait_for_an_interrupted_worker(tmp_path):
    """The other worker reports that it waits for a worker that has died or left."""
    processes = _by_hand(tmp_path, ROUNDS)
    try:
        for name in ("worker 0", "worker 1"):
            assert processes[name].stdout.readline() == "up\n"
        processes["worker 1"].send_signal(signal.SIGINT)
        processes["worker 1"].communicate(timeout=PATIENCE)
        said = processes["worker 0"].stderr.readline()
        assert "worker" in said and "has died or left, and this process still waits" in said and "60 s" in said
    finally:
        for p in processes.values():
            p.kill()


def test_restarted_worker(tmp_path):
    """One of two workers, started by hand, is killed with SIGKILL between rounds, and a new process continues its
    work."""
    script = tmp_path / "script.py"
    script.write_text(PREAMBLE + textwrap.dedent("""
        kv = kvstore.create("dist_sync")
        kv.init("w", np.zeros(301, "f4"))
        kv.set_optimizer(tug.optimizer.create("test"))
        first = kv.rounds("w")
        assert first == (5 if kv.is_recovery else 0)
        for step in range(first, 12):
            if step == 5 and sys.argv[1] == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            kv.push("w", np.full(301, kv.rank + step, "f4"))
            want = sum(r + s for r in range(2) for s in range(step + 1))
            assert np.all(pulled(kv, "w", 301) == want), (step, want)
        print("done", kv.rank, kv.is_recovery)
    """))
    env = {**os.environ, "DMLC_NUM_SERVER": "2", "DMLC_NUM_WORKER": "2", "DMLC_PS_ROOT_URI": "127.0.0.1",
           "DMLC_PS_ROOT_PORT": str(free_ports(1)[0]), "TUG_DEAD_SECONDS": "5", "TUG_WAIT_SECONDS": "60"}
    env.pop("TUG_SCHEDULER", None)

    def start(role, word):
        return subprocess.Popen([sys.executable, str(script), word], env={**env, "DMLC_ROLE": role},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    others = [start("scheduler", "x"), start("server", "x"), start("server", "x"), start("worker", "lives")]
    dying = start("worker", "dies")
    try:
        assert dying.wait(PATIENCE) == -signal.SIGKILL
        others.append(start("worker", "again"))
        said = ""
        for p in others:
            out, _ = p.communicate(timeout=PATIENCE)
            said += out
            assert p.returncode == 0, said
    finally:
        for p in [dying, *others]:
            p.kill()
            p.wait()
            p.stdout.close()
    assert "True" in said and said.count("done") == 2


def test_example(source):
    words = [sys.executable, os.path.join(source, "examples", "kvstore_data_parallel.py")]
    alone = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    both = subprocess.run([os.environ["TUG_BINARY"], "launch", "--servers", "2", "--workers", "2", "--", *words],
                          capture_output=True, text=True, timeout=PATIENCE, check=True).stdout
    for said in (alone, both):
        last = said.strip().split("\n")[-1]
        assert "epoch 4" in last and float(last.split()[-2].rstrip("%")) > 90, said


def test_unequal_batches(tmp_path):
    """A worker that waits for one without further batches gets an error that names workers, and both end with a
    failure."""
    script = tmp_path / "script.py"
    script.write_text(PREAMBLE + textwrap.dedent("""
        kv = kvstore.create("dist_sync")
        kv.init("w", np.zeros(3, "f4"))
        for _ in range(1 + kv.rank):
            kv.push("w", np.ones(3, "f4"))
            pulled(kv, "w", 3)
    """))
    said = by_hand(script, {"TUG_WAIT_SECONDS": "2", "TUG_DEAD_SECONDS": "5"})
    assert sorted(code for code, _ in said)[-2:] == [1, 1], said
    said = "".join(text for _, text in said)
    # Worker 1 waits for worker 0's push as long as worker 0 waits in its last barrier. So worker 0 may have left just
    # before worker 1 reports it; the pattern allows both.
    late = "key 'w': a push of each of the 2 workers to the key: worker 0 (.*: worker 0 )?has not pushed in 2 s"
    assert re.search(late, said), said
    assert "tug.kvstore: the barrier of 2 workers: " in said, said


@pytest.mark.parametrize("missing, sentence", [
    ("kv.init('w', np.zeros(3))", "key 'w': worker 0 has not called init for it in 2 s"),
    ("kv._barrier()", "the barrier of 2 workers: worker 0 has not come to it in 2 s")])
def test_first_worker_leaves_a_call_out(tmp_path, missing, sentence):
    """Worker 1 waits for a call of worker 0, and its error names worker 0, the key and the seconds."""
    script = tmp_path / "script.py"
    script.write_text(PREAMBLE + textwrap.dedent(f"""
        kv = kvstore.create("dist_sync")
        told = {str(tmp_path / "told")!r}
        if kv.rank == 1:
            try:
                {missing}
            finally:
                open(told, "w").close()
        while not os.path.exists(told):
            threading.Event().wait(0.02)
    """))
    said = "".join(text for _, text in by_hand(script, {"TUG_WAIT_SECONDS": "2", "TUG_DEAD_SECONDS": "5"}))
    assert sentence in said, said


def by_hand(script, more):
    """Runs a scheduler, a server and two workers, and returns the exit code and the output of each."""
    env = {**os.environ, "DMLC_NUM_SERVER": "1", "DMLC_NUM_WORKER": "2", "DMLC_PS_ROOT_URI": "127.0.0.1",
           "DMLC_PS_ROOT_PORT": str(free_ports(1)[0]), **more}
    env.pop("TUG_SCHEDULER", None)
    started = [subprocess.Popen([sys.executable, str(script)], env={**env, "DMLC_ROLE": role}, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
               for role in ("scheduler", "server", "worker", "worker")]
    try:
        said = [p.communicate(timeout=PATIENCE)[0] for p in started]
        return [(p.returncode, text) for p, text in zip(started, said)]
    finally:
        for p in started:
            p.kill()
            p.wait()
            p.stdout.close()


def test_push_that_failed_last(tmp_path):
    """A program whose last push fails ends with a failure, even if nothing waits for that push."""
    said = launch(tmp_path, """
        kv = kvstore.create("dist_async")
        kv.init("w", np.zeros(3, "f4"))
        kv.push("w", np.ones(3, "f4"))  # servers do not know what to do with it
    """, code=4)
    assert "tug.kvstore: key 'w': " in said and "set_optimizer" in said


def test_torch_example(source):
    pytest.importorskip("torch", reason="PyTorch is not there: python3-torch")
    words = [sys.executable, os.path.join(source, "examples", "kvstore_torch.py")]
    done = subprocess.run([os.environ["TUG_BINARY"], "launch", "--servers", "2", "--workers", "2", "--", *words],
                          capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert float(done.stdout.split()[-1]) > 0.7, done.stdout  # an untrained model has 0.5


def until_it_listens(port):
    end = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < end, f"nobody listens on port {port}"
            time.sleep(0.02)


def test_interrupted_server(tmp_path):
    """Ctrl-C ends an idle server."""
    script = tmp_path / "script.py"
    script.write_text(PREAMBLE)
    env = {**os.environ, "DMLC_NUM_SERVER": "1", "DMLC_NUM_WORKER": "1", "DMLC_PS_ROOT_URI": "127.0.0.1",
           "DMLC_PS_ROOT_PORT": str(free_ports(1)[0]), "DMLC_ROLE": "scheduler"}
    with subprocess.Popen([sys.executable, str(script)], env=env, stderr=subprocess.PIPE, text=True) as p:
        until_it_listens(int(env["DMLC_PS_ROOT_PORT"]))
        p.send_signal(signal.SIGINT)
        begin = time.monotonic()
        _, said = p.communicate(timeout=PATIENCE)
        assert time.monotonic() - begin < 20 and p.returncode == 130 and said == "scheduler: interrupted\n"


STATUS = """
import json, subprocess, urllib.request
kv = kvstore.create("dist_sync")
for key in ("a", "b", "c"):
    kv.init(key, np.zeros(5, "f4"))
kv.set_optimizer(tug.optimizer.create("sgd", learning_rate=0.1))
for step in range(4):
    for key in ("a", "b", "c"):
        kv.push(key, np.ones(5, "f4"))
        pulled(kv, key, (5,), "f4")
kv.barrier()
if kv.rank == 0:
    command = [os.environ["TUG_BINARY"], "status", "--scheduler", "127.0.0.1:" + os.environ["DMLC_PS_ROOT_PORT"]]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.count("kvstore on server ") == 2 and "optimizer sgd" in said, said
    said = subprocess.run([*command, "--json"], capture_output=True, check=True).stdout
    doors = [server["door"] for server in json.loads(said)["servers"]]
    assert {(d["name"], d["optimizer"]) for d in doors} == {("kvstore", "sgd")}
    total = {name: sum(d[name] for d in doors) for name, x in doors[0].items() if not isinstance(x, str)}
    assert total["stored_keys"] == 3 and total["merged_pushes"] == 24 and total["refused"] == 0, total
    assert total["pushes"] >= 24 and total["pulls"] >= 24 and total["bytes"] > 24 * 20, total
    metrics = urllib.request.urlopen(sys.argv[1] + "metrics").read().decode()
    merged = [line for line in metrics.splitlines() if line.startswith("tug_door_merged_pushes_total{")]
    assert sum(float(line.split()[-1]) for line in merged) == 24 and 'door="kvstore"' in merged[0], metrics
    page = urllib.request.urlopen(sys.argv[1]).read().decode()
    assert "Requests of programs" in page and "<td>kvstore</td>" in page, page
kv.barrier()
"""


def test_status_page_and_metrics(tmp_path):
    """The status, and the page and the metrics of a scheduler with --http, tell what a kvstore's servers do."""
    script, port = tmp_path / "script.py", str(free_ports(1)[0])
    script.write_text(PREAMBLE + STATUS)
    env = {**os.environ, "DMLC_NUM_SERVER": "2", "DMLC_NUM_WORKER": "2", "DMLC_PS_ROOT_URI": "127.0.0.1",
           "DMLC_PS_ROOT_PORT": port}
    words = [os.environ["TUG_BINARY"], "scheduler", "--servers", "2", "--workers", "2", "--port", port,
             "--http", "127.0.0.1:0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as scheduler:
        try:
            url = next(found[1] for line in scheduler.stderr
                       if (found := re.search(r"the page of this process is at (\S+)", line)))
            started = [subprocess.Popen([sys.executable, str(script), url], env={**env, "DMLC_ROLE": role}, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                       for role in ("server", "server", "worker", "worker")]
            said = [one.communicate(timeout=PATIENCE)[0] for one in started]
            assert [one.returncode for one in started] == [0] * 4, said
        finally:
            scheduler.terminate()
