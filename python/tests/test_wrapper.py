"""Tests FleetWrapper and Communicator in one process, between threads, and between real processes.

SPDX-License-Identifier: Apache-2.0
"""

import os
import sys
import threading

import numpy as np
import pytest
from test_fleet import PATIENCE, by_hand, free_ports

import tug
from tug.fleet import Communicator, FleetTable, FleetWrapper, PaddleCloudRoleMaker

TABLES = [FleetTable(0, "emb", "accessor=ctr; dim=2; rule=sgd:lr=0.5; embedx-rule=sgd:lr=0.5; embedx-threshold=0; "
                               "base-threshold=0; delta-threshold=0"),
          FleetTable(5, "fc", "dim=4; rule=sgd:lr=1", {"w": ((2, 3), "constant:0.5"), "b": 3})]
KEYS = np.arange(40, dtype=np.uint64)
SCRIPT = f"""
import sys
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
import test_wrapper
test_wrapper.run_by_environment(sys.argv[1])
"""


def exchange_infos(w):
    with pytest.raises(tug.UsageError, match="no clients are set: call set_clients first, .* get_client_info"):
        w.create_client2client_connection()
    infos = w.all_gather(w.get_client_info()[0])
    assert w.all_gather("é" * w.worker_index()) == ["é" * i for i in range(len(infos))]
    w.set_clients(infos)
    w.create_client2client_connection()
    w.set_clients(infos[:-1] + ["nobody"])
    with pytest.raises(tug.UsageError, match="was set as 'nobody'"):
        w.create_client2client_connection()


def send_messages(w):
    """Each worker sends to all, and to itself; messages arrive at the barrier, in the order of sending."""
    me, n = w.worker_index(), w.worker_num()
    got = []
    w.registe_client2client_msg_handler(3, lambda *said: got.append(said))
    for to in range(n):
        w.send_client2client_msg(3, to, f"{me} to {to}")
        w.send_client2client_msg(3, to, b"\0" * 100000 * me)  # another number of bytes at each worker
    assert got == []
    w.barrier()
    assert got == [(3, i, said) for i in range(n) for said in (f"{i} to {me}".encode(), b"\0" * 100000 * i)]
    w.barrier()
    assert len(got) == 2 * n  # they were delivered once
    w.registe_client2client_msg_handler(4, lambda *said: 7)
    w.send_client2client_msg(4, me, b"")
    w.send_client2client_msg(5, me, b"")
    w.send_client2client_msg(3, (me + 1) % n, b"last")
    with pytest.raises(tug.UsageError, match=f"type 4 returned 7 for one of worker {me}"):
        w.barrier()
    assert got[-1] == (3, (me - 1) % n, b"last")
    w.send_client2client_msg(5, me, b"")
    with pytest.raises(tug.UsageError, match=f"worker {me} has sent a message of type 5, which has no handler"):
        w.barrier()


def dense(w, n):
    scope = {"w": np.zeros((2, 3), np.float32)}
    w.pull_dense_params(scope, 5)
    assert (scope["w"] == 0.5).all() and (scope["b"] == 0).all()
    w.barrier()
    if w.worker_index() == 0:
        w.push_dense_params({"w": np.full((2, 3), 2), "b": [1, 2, 3]}, 5)
    w.barrier()
    mine = scope["w"]
    w.pull_dense_params(scope, 5, ["w"])
    assert (mine == 2).all() and (scope["b"] == 0).all()  # only the requested variable was pulled, in place
    w.barrier()
    c = Communicator(envs={"communicator_send_queue_size": "4"})
    with pytest.raises(tug.UsageError, match="call init_with_ctx first"):
        c.start()
    assert not c.is_running()
    c.init_with_ctx([5], {5: ["b"]}, w, scope)
    c.start()
    assert c.is_running()
    for _ in range(10):
        c.send(5, [0], np.ones((1, 4), np.float32))  # w has rows 0 and 1, b row 2
    c.send(5, [2], np.ones((1, 4), np.float32))
    assert (c.recv()["b"] <= np.array([0, 1, 2])).all()
    w.barrier()
    assert c.recv() is scope and (scope["b"] == np.array([1, 2, 3]) - n).all()
    w.pull_dense_params(scope, 5, ["w"])
    np.testing.assert_array_equal(mine, [[2 - 10 * n] * 3, [2 - 10 * n, 2, 2]])
    c.stop()
    assert not c.is_running()


def rows(w, n, where):
    me = w.worker_index()
    mine = KEYS[me::n]
    push = np.zeros((len(mine), 6), np.float32)
    push[:, 0], push[:, 3] = mine, 1
    w.table(0).push(mine, push)
    w.barrier()

    def there():
        pulled = w.table(0).pull(KEYS)
        return bool((pulled[:, 0] == 1).all() and (pulled[:, 2] == -0.5 * KEYS).all())

    assert there() and w.sparse_table_stat(0).rows == len(KEYS)
    w.barrier()
    if me == 0:
        model = os.path.join(where, "model")
        assert w.save_all_model(model, 0) == os.path.join(model, "save-000001")
        assert os.path.isdir(w.save_one_model(0, os.path.join(where, "one"), "2"))
        w.print_table_stat(0, 1, 2)
        w.recv_and_save_model(0, os.path.join(where, "rows.txt"))
        with open(os.path.join(where, "rows.txt"), encoding="utf-8") as file:
            assert sum(1 for line in file if not line.startswith("#")) >= len(KEYS)
        assert w.shrink_sparse_table(0, 1000) == len(KEYS) and not there()
        w.load_one_table(0, model)
        assert there()
        w.shrink_sparse_table(0, 1000)
        w.load_model(model)
        for call in (lambda: w.load_model(os.path.join(where, "nosuch")), lambda: w.save_all_model(model, 5),
                     lambda: w.shrink_sparse_table(5), lambda: w.load_one_table(3, model),
                     lambda: w.push_dense_params({"w": 1}, 5), lambda: w.pull_dense_params({}, 0),
                     lambda: w.pull_dense_params({}, 5, ["c"]), lambda: w.table(3)):
            with pytest.raises(tug.Error):
                call()
    w.barrier()
    assert there()


def work(w, where):
    n = w.worker_num()
    exchange_infos(w)
    send_messages(w)
    dense(w, n)
    rows(w, n, where)
    w.stop_worker()
    with pytest.raises(tug.UsageError, match="not in a run"):
        w.client  # noqa: B018
    w.close()
    w.close()


def run_by_environment(where):
    """Runs a server or a worker in a real process; Paddle's variables give its role."""
    roles = PaddleCloudRoleMaker()
    w = FleetWrapper(wait_seconds=60)
    if roles.is_server():
        w.init_server(TABLES, role_maker=roles)
        w.run_server()
    else:
        w.init_worker(TABLES, role_maker=roles)
        work(w, where)


def test_alone(tmp_path):
    w = FleetWrapper(wait_seconds=60, local_loops=2)
    with pytest.raises(tug.UsageError, match=r"init_server\(\) or init_worker\(\)"):
        w.barrier()
    w.init_worker(TABLES)
    with pytest.raises(tug.UsageError, match="already"):
        w.init_worker(TABLES)
    with pytest.raises(tug.UsageError, match="is for servers"):
        w.run_server()
    work(w, str(tmp_path))


def between_threads(hosts, server, worker):
    failed = []

    def run(function, *args):
        try:
            function(*args)
        except BaseException as error:  # noqa: B902
            failed.append(error)

    threads = [threading.Thread(target=run, args=(server, hosts, i)) for i in range(2)]
    threads += [threading.Thread(target=run, args=(worker, hosts, i)) for i in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(PATIENCE)
    if failed:
        raise failed[0]


def hosts_of_two():
    return [f"127.0.0.1:{port}:{rank}" for rank, port in enumerate(free_ports(2))]


def test_threads(tmp_path, monkeypatch):
    monkeypatch.setenv("TUG_SAVE_ROOT", str(tmp_path))

    def serve(hosts, i):
        w = FleetWrapper(wait_seconds=60)
        w.init_server(TABLES, hosts, i, 2)
        if i == 0:
            w.run_server()
        else:
            w.run_server("127.0.0.1", int(hosts[1].split(":")[1]))
        w.close()

    def be_worker(hosts, i):
        w = FleetWrapper(wait_seconds=60)
        w.init_worker(TABLES, hosts, i)
        work(w, str(tmp_path))

    between_threads(hosts_of_two(), serve, be_worker)

    def serve_saved(hosts, i):
        w = FleetWrapper(wait_seconds=60)
        w.init_server(TABLES, hosts, i, 2)
        w.load_sparse(tmp_path / "model", table_id=0)
        with pytest.raises(tug.Error, match="worker 1 stopped the servers"):
            w.run_server()
        w.close()

    def find_saved(hosts, i):
        w = FleetWrapper(wait_seconds=60)
        w.init_worker(TABLES, hosts, i)
        assert (w.table(0).pull(KEYS)[:, 0] == 1).all()
        w.barrier()
        try:
            if i == 1:
                w.stop_server()
            w.barrier()  # raises at worker 0 that the servers were stopped, or that worker 1 has left
            w.close()
        except tug.Error as error:
            assert "worker 1 stopped the servers" in str(error)

    between_threads(hosts_of_two(), serve_saved, find_saved)


def test_processes(tmp_path):
    by_hand([sys.executable, "-c", SCRIPT, str(tmp_path)], 2, 2, {"TUG_SAVE_ROOT": str(tmp_path)})
    assert (tmp_path / "model" / "save-000001").is_dir()


def test_arguments_that_cannot_be():
    with FleetWrapper() as w:
        w.init_worker(TABLES)
        for call, sentence in (
                (lambda: w.push_dense_params(None, 5), "scope: must be a dict of arrays"),
                (lambda: w.pull_dense_params(None, 5), "scope: must be a dict of arrays"),
                (lambda: w.pull_dense_params({}, 5, 3), "var_names: must be a list of variables' names, not an int"),
                (lambda: w.pull_dense_params({}, 5, "w"), "var_names: must be a list"),
                (lambda: w.push_dense(None, 5), "gradients: must be a dict"),
                (lambda: w.push_dense({}, 5), "there is no variable"),
                (lambda: w.push_dense({"c": 1}, 5), "there is no c; there are w, b"),
                (lambda: w.push_dense({"w": 1}, 0), "is not a dense table"),
                (lambda: w.set_clients(None), "client_infos: must be a list"),
                (lambda: w.load_sparse("x", "0", 0), "^load_sparse is for servers"),
                (lambda: w.load_sparse("x", "9", 0), "is not one of 0, 1, 2, 3"),
                (lambda: w.pull_sparse(np.arange(3), 0), "table_id: must be an integer, not ndarray"),
                (lambda: w.push_sparse("emb", [1], [1]), "table_id: must be an integer, not str"),
                (lambda: w.all_gather(3), "info: must be bytes or a text, not an int"),
                (lambda: w.barrier("a"), "barrier_table_id: must be an integer"),
                (lambda: Communicator().init_with_ctx([0], [5], w), "recv_ctx: must be {dense table"),
                (lambda: Communicator().init_with_ctx([0], {5: "w"}, w), "recv_ctx: must be a list"),
                (lambda: Communicator().init_with_ctx([0], {}, w, 3), "scope: must be a dict"),
                (lambda: FleetWrapper().init_worker(TABLES, [3.5]), "hosts: must have HOST:PORT, .* not a float")):
            with pytest.raises(tug.Error, match=sentence):
                call()
        w.set_clients(w.get_client_info())
        with pytest.raises(tug.UsageError, match="call create_client2client_connection.. first"):
            w.send_client2client_msg(0, 0, b"")
        w.create_client2client_connection(500000, 10000, 3)
        for call, sentence in ((lambda: w.send_client2client_msg(0, 1, b""), "to_client_id: 1 is not from 0 to 0"),
                               (lambda: w.send_client2client_msg(-1, 0, b""), "msg_type: -1 is not from 0"),
                               (lambda: w.send_client2client_msg(0, 0, 5), "msg: must be bytes or a text, not an int"),
                               (lambda: w.send_client2client_msg(0, 0, bytes(1 << 24)), "msg: 16777216 bytes are too"),
                               (lambda: w.registe_client2client_msg_handler(0, 1), "handler: must be a function")):
            with pytest.raises(tug.Error, match=sentence):
                call()
        w.registe_client2client_msg_handler(0, lambda *said: None)
        w.send_client2client_msg(0, 0, b"x")
        w.barrier()
        w.send_client2client_msg(0, 0, b"y")
        w.push_dense({"b": [1, 2, 3]}, 5)  # w has no gradient
        pulled = {}
        w.pull_dense(pulled, 5)
        assert pulled["b"].tolist() == [-1, -2, -3] and (pulled["w"] == 0.5).all()
        with pytest.raises(tug.UsageError, match="not delivered: 1 message"):
            w.stop_worker()


def test_refused():
    w = FleetWrapper()
    for call, sentence in ((lambda: w.init_worker("server_param { nosuch: 1 }"), "proto_txt: line 1: nosuch"),
                           (lambda: w.init_worker([1]), "contains an int"),
                           (lambda: w.init_worker(None), "not a NoneType"),
                           (lambda: w.init_worker([FleetTable(4096, "a")]), "number: 4096 is not from 0 to 4095"),
                           (lambda: w.init_worker(TABLES, ["h"]), "'h' is not HOST:PORT"),
                           (lambda: w.init_server(TABLES, ["h:1"], 0, 1, ["x"]), "run no program"),
                           (lambda: w.init_server(TABLES, "h:1"), "hosts: must be a list"),
                           (lambda: Communicator(kwargs={"a": 1}), "kwargs: a"),
                           (lambda: Communicator(envs={"x": 1}), "there is no x"),
                           (lambda: Communicator(envs={"communicator_send_queue_size": "a"}), "not a whole number")):
        with pytest.raises(tug.Error, match=sentence):
            call()
