"""Communicators of all modes on tables of the program's own: in one process, between threads, and between processes;
and their settings.

SPDX-License-Identifier: Apache-2.0
"""

import os
import sys
import threading
import time

import numpy as np
import pytest
from test_fleet import PATIENCE, by_hand
from test_wrapper import between_threads, hosts_of_two

import tug
import tug.fleet as fluid
from tug.fleet import Communicator, FleetTable, FleetWrapper, _changes

SUMS = [FleetTable(0, "emb", "accessor=merge; dim=2"), FleetTable(1, "fc", "rule=sum; dim=4", {"w": (2, 3), "b": 3})]
SYNC = [FleetTable(0, "emb", "dim=2; rule=sgd:lr=1; mode=sync; reduce=mean"),
        FleetTable(1, "fc", "dim=4; rule=sgd:lr=1; mode=sync; reduce=mean", {"w": (2, 3), "b": 3})]
PLAIN = [FleetTable(0, "emb", "dim=2; rule=sgd:lr=1")]


SCRIPT = f"""
import sys
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
import test_communicator
test_communicator.run_by_environment()
"""
MODES = {"SYNC": ("CommonSparseTable", "sgd", "true"), "HALF_ASYNC": ("CommonSparseTable", "sgd", "false"),
         "ASYNC": ("CommonSparseTable", "sgd", "false"), "GEO": ("MemorySparseGeoTable", "sum", "false")}
OF_MODES = "server_param { downpour_server_param { " + "".join(f"""
  downpour_table_param {{ table_id: {i} table_class: "{kind}" accessor {{ embedx_dim: 2 }} shard_num: 1000
    common {{ name: "{rule}" table_name: "{mode}" sync: {sync} trainer_num: 2 params: ["Param", "LearningRate"]
              dims: [2, 1] initializers: ["fill_constant&0.0", "fill_constant&1.0"] }} }}"""
    for i, (mode, (kind, rule, sync)) in enumerate(MODES.items())) \
    + """ downpour_table_param { table_id: 9 table_class: "BarrierTable" } } }"""


def run_by_environment():
    """Runs a server or a worker, as Paddle's variables say. In each mode a worker pushes 20 times 1 to a row that both
    workers share, and to a row of its own."""
    role = fluid.PaddleCloudRoleMaker()
    hosts = [f"{endpoint}:{rank}" for rank, endpoint in enumerate(role.get_pserver_endpoints())]
    fleet = FleetWrapper.GetInstance()
    if role.is_server():
        fleet.init_server(OF_MODES, hosts, role.server_index(), role.worker_num(), [])
        fleet.run_server()
        return
    me = role.worker_index()
    fleet.init_worker(OF_MODES, hosts, me)
    for table, mode in enumerate(MODES):
        one = Communicator(mode, kwargs={"trainers": 2, "trainer_id": me, "need_global_step": False,
                                         "barrier_table_id": 9, "pserver_endpoints": role.get_pserver_endpoints()},
                           envs={"communicator_max_merge_var_num": 1})
        one.init_with_ctx({f"{mode}@GRAD": table}, {}, OF_MODES, hosts)
        one.start()
        for _ in range(20):
            one.send(f"{mode}@GRAD", [7, 100 + me], np.full((2, 2), 1 if mode == "GEO" else -1))
        one.stop()
        fleet.barrier(9, me)
        # SYNC averages over the two workers. GEO pushes half of each worker's changes.
        want = {"SYNC": [20, 10, 10], "GEO": [38, 19, 19]}.get(mode, [40, 20, 20])
        np.testing.assert_allclose(fleet.pull_sparse(table, [7, 100, 101])[:, 1], want, rtol=1e-5)
    fleet.stop_worker()


def two_and_two(tables, work):
    """Calls work(worker, index) in two threads, each with a worker of a run of two servers."""
    def serve(hosts, i):
        with FleetWrapper(wait_seconds=PATIENCE) as server:
            server.init_server(tables, hosts, i, 2)
            server.run_server()

    def be_worker(hosts, i):
        with FleetWrapper(wait_seconds=PATIENCE) as worker:
            worker.init_worker(tables, hosts, i)
            work(worker, i)
            worker.stop_worker()

    between_threads(hosts_of_two(), serve, be_worker)


def test_processes():
    """All modes work in a run of two servers and two workers, whose script is written for Paddle's DistFleetWrapper."""
    by_hand([sys.executable, "-c", SCRIPT], 2, 2, {})


class NaiveGeo:
    """A model of GEO in Python, which computes Paddle's formulas key by key."""

    def __init__(self, workers):
        self.server = {}
        self.latest, self.old = [{} for _ in range(workers)], [{} for _ in range(workers)]
        self.touched, self.sends = [set() for _ in range(workers)], [0] * workers
        self.changed = [set() for _ in range(workers)]

    def pull(self, w, key):
        if key not in self.latest[w]:
            self.latest[w][key] = self.old[w][key] = self.server.get(key, np.float32(0))
        return self.latest[w][key]

    def send(self, w, keys, values, k_steps):
        for key, value in zip(keys, values):
            self.latest[w][key] = self.pull(w, key) + np.float32(value)
            self.touched[w].add(key)
        self.sends[w] += 1
        if self.sends[w] == k_steps:
            self.exchange(w)

    def exchange(self, w):
        for key in self.touched[w]:
            delta = (self.latest[w][key] - self.old[w][key]) / np.float32(len(self.latest))
            self.old[w][key] += delta
            self.server[key] = self.server.get(key, np.float32(0)) + delta
            for other in self.changed:
                other.add(key)
        for key in self.changed[w] & set(self.latest[w]):
            self.latest[w][key] += self.server[key] - self.old[w][key]
            self.old[w][key] = self.server[key]
        self.touched[w], self.changed[w], self.sends[w] = set(), set(), 0


@pytest.mark.parametrize("ring", (_changes.RING, 1))
def test_geo_is_the_formulas(monkeypatch, ring):
    monkeypatch.setattr(_changes, "RING", ring)  # with 1, readers always fall behind, and any row may have changed
    naive, turn = NaiveGeo(2), threading.Barrier(2)

    def work(worker, me):
        draw = np.random.default_rng(7)
        one = Communicator("GEO", envs={"communicator_max_merge_var_num": 3})
        one.init_with_ctx([0], {}, worker)
        one.start()
        for step in range(40):
            keys = draw.integers(0, 12, 5)
            values = np.repeat(draw.integers(-8, 8, (5, 1)), 2, axis=1).astype(np.float32)
            if step % 2 == me:  # the workers take turns
                one.send(0, keys, values)
                naive.send(me, keys.tolist(), values[:, 0].tolist(), 3)
                want = [naive.pull(me, key) for key in range(12)]
                np.testing.assert_array_equal(one.pull(0, np.arange(12))[:, 0], want)
            turn.wait(PATIENCE)
        for last in range(2):
            if last == me:
                one.stop()
                naive.exchange(me)
                np.testing.assert_array_equal(worker.pull_sparse(0, np.arange(12))[:, 1],
                                              [naive.server.get(key, 0) for key in range(12)])
            turn.wait(PATIENCE)
        assert not one.is_running()
        with pytest.raises(tug.UsageError, match="make another one"):
            one.start()

    two_and_two(SUMS, work)


def test_geo_of_dense_variables():
    turn = threading.Barrier(2)

    def work(worker, me):
        scope = {"w": np.full((2, 3), 9, np.float32)}
        one = Communicator(fluid.DistributedMode.GEO, envs={"communicator_max_merge_var_num": "1"})
        one.init_with_ctx([0, 1], {1: ["w", "b"]}, worker, scope)
        assert (scope["w"] == 0).all() and scope["b"].shape == (3,)
        one.start()
        scope["w"] += 2 * (me + 1)
        turn.wait(PATIENCE)
        if me == 0:
            one.send(0, [1], [[1, 1]])  # the first table's exchange includes the dense variables
            assert (scope["w"] == 2).all()
        turn.wait(PATIENCE)
        if me == 1:
            assert one.recv() is scope
            assert (scope["w"] == 4 + 1).all() and (scope["b"] == 0).all()
        turn.wait(PATIENCE)
        pulled = {}
        worker.pull_dense(pulled, 1)
        assert (pulled["w"] == 1 + 2).all()
        with pytest.raises(tug.UsageError, match="change its variables in the scope"):
            one.send(1, {"w": np.ones((2, 3))})
        one.stop()

    two_and_two(SUMS, work)


def test_changed_rows():
    """pull_geo_param returns the pushes of all workers since the last call."""
    turn = threading.Barrier(2)

    def work(worker, me):
        if me == 0:
            worker.push_sparse(0, [[7, 7], [5, 2 ** 64 - 1]], np.ones((2, 2, 2)))
        turn.wait(PATIENCE)
        keys, values = worker.pull_geo_param(0)
        assert keys.tolist() == [5, 7, 2 ** 64 - 1] and values[:, 0].tolist() == [1, 2, 1]
        assert worker.pull_geo_param(0).keys.size == 0
        turn.wait(PATIENCE)
        if me == 1:
            worker.push_sparse_param(0, np.arange(1000), np.full((1000, 2), 3))
        turn.wait(PATIENCE)
        assert (worker.pull_geo_param(0).values == 3).all() and worker.pull_geo_param(0).keys.size == 0
        with pytest.raises(tug.UsageError, match="is not one of 0, 1"):
            worker.pull_geo_param(9)

    two_and_two(SUMS, work)


def test_changes_beyond_the_ring(monkeypatch):
    monkeypatch.setattr(_changes, "RING", 2)
    with FleetWrapper() as worker:
        worker.init_worker([*SUMS, FleetTable(2, "other", "dim=2")])
        for key in range(3):
            worker.push_sparse(0, [key], [[1, 1]])
        with pytest.raises(tug.UsageError, match="call it more often"):
            worker.pull_geo_param(0)
        worker.push_sparse(0, [3], [[1, 1]])
        assert worker.pull_geo_param(0).keys.tolist() == [3]
        worker.push_sparse(0, np.arange(1000), np.ones((1000, 2)))  # more than the ring holds
        with pytest.raises(tug.UsageError, match="call it more often"):
            worker.pull_geo_param(0)
        with pytest.raises(tug.UsageError, match="changed rows are recorded only for tables with 'accessor = merge'"):
            worker.pull_geo_param(2)
        rows = worker.client.find(_changes.NAME)
        for head in ([-1.0, 0], [0.5, 0], [65536.0, 0], [2.0, 1.0], [np.float32(3e38), 0]):  # damaged heads
            row = np.zeros((1, _changes.ROW), np.float32)
            row[0, [0, 4]] = head
            rows.assign([0], row)
            with pytest.raises(tug.DataError, match="list of changed rows is damaged"):
                worker.pull_geo_param(0)


def test_sync_waits_for_all_and_for_nobody_who_has_stopped():
    def work(worker, me):
        for again in range(2):  # the second communicator continues the count of batches
            one = Communicator("SYNC")
            one.init_with_ctx({"emb@GRAD": 0, "fc": fluid.core.CommContext("fc", table_id=1)}, {1: ["w"]}, worker, {})
            one.start()
            for batch in range(3 if me == 0 else 5):
                one.send("emb@GRAD", [me, 2], np.full((2, 2), 2))
                one.send("fc", {"w": np.ones((2, 3))})
                if batch < 3:
                    seen = one.pull(0, [2])[0, 0]  # waits for the other worker's part
                    assert seen == -(8 if again else 0) - 2 * (batch + 1)
            one.stop()
            rows = worker.pull_sparse(0, [0, 1, 2])[:, 0] / (again + 1)
            assert rows.tolist() == [-3, -5, -8]
            pulled = {}
            worker.pull_dense(pulled, 1)
            assert (pulled["w"] == -4 * (again + 1)).all() and (pulled["b"] == 0).all()
            worker.barrier()

    two_and_two(SYNC, work)


def test_sync_of_threads():
    """In mode SYNC all threads of all workers compute a batch together, even if workers have different numbers of
    batches."""
    def work(worker, me):
        one = Communicator("SYNC", envs={"communicator_max_merge_var_num": 2})
        one.init_with_ctx([0, 1], {}, worker)
        one.start()
        failed = []

        def thread():
            try:
                for _ in range(5 if me == 0 else 3):
                    one.pull(0, [1])
                    one.send(0, [1, 10 + me], np.ones((2, 2)))
                    one.barrier()
                one.barrier_trigger_decrement()
            except BaseException as error:  # noqa: B902
                failed.append(error)

        threads = [threading.Thread(target=thread) for _ in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(PATIENCE)
        one.stop()
        assert not failed and worker.pull_sparse(0, [1, 10, 11])[:, 0].tolist() == [-8, -5, -3]

    two_and_two(SYNC, work)


def test_threads_of_a_batch():
    """In mode HALF_ASYNC rows do not change until all threads have sent their part."""
    failed = []
    with FleetWrapper(wait_seconds=PATIENCE) as worker:
        worker.init_worker(PLAIN)
        one = Communicator("HALF_ASYNC", envs={"communicator_max_merge_var_num": 3})
        one.init_with_ctx([0], {}, worker)
        one.start()

        def thread(me, batches):
            try:
                for batch in range(batches):
                    assert one.pull(0, [5])[0, 0] == -min(batch, 2) * 3 - max(batch - 2, 0) * 2
                    one.send(0, [5, 6 + me], np.ones((2, 2)))
                    one.barrier()
                one.barrier_trigger_decrement()
            except BaseException as error:  # noqa: B902
                failed.append(error)

        threads = [threading.Thread(target=thread, args=(me, 2 if me == 0 else 4)) for me in range(3)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(PATIENCE)
        assert not failed
        one.send(0, [9], [[1, 1]])  # one thread is left, so its push is sent at once
        assert worker.pull_sparse(0, [5, 6, 7, 8, 9])[:, 0].tolist() == [-10, -2, -4, -4, -1]
        one.stop()


def test_threads_that_wait_when_it_stops():
    with FleetWrapper(wait_seconds=PATIENCE) as worker:
        worker.init_worker(PLAIN)
        one = Communicator("HALF_ASYNC", envs={"communicator_max_merge_var_num": 3})
        one.init_with_ctx([0], {}, worker)
        one.start()
        waiting = threading.Thread(target=lambda: (one.send(0, [1], [[1, 1]]), one.barrier()))
        waiting.start()
        while one._rounds._here == 0:
            time.sleep(0)
        one.stop()
        waiting.join(PATIENCE)
        assert not waiting.is_alive() and worker.pull_sparse(0, [1])[0, 0] == -1
        one.start() # starts it again
        one.barrier_trigger_decrement()
        one.barrier_trigger_decrement()
        one.send(0, [1], [[1, 1]])
        one.stop()
        assert worker.pull_sparse(0, [1])[0, 0] == -2


def test_a_thread_that_sends_alone(monkeypatch):
    """A barrier that waits for a thread that never comes ends after TUG_WAIT_SECONDS; the error counts the threads."""
    monkeypatch.setenv("TUG_WAIT_SECONDS", "33")
    with FleetWrapper() as worker:
        worker.init_worker(PLAIN)
        assert worker.client.wait_seconds == 33
        worker.client.wait_seconds = 0.2
        one = Communicator("HALF_ASYNC", envs={"communicator_max_merge_var_num": 2})
        one.init_with_ctx([0], {}, worker)
        one.start()
        one.send(0, [1], [[1, 1]])
        with pytest.raises(tug.Timeout, match="2 threads compute a batch together, but only 1 of them have called it"):
            one.barrier()
        worker.stop_worker()


def test_an_end_of_a_batch_that_does_not_come():
    with FleetWrapper() as worker:
        worker.init_worker(PLAIN)
        one = Communicator("HALF_ASYNC", envs={"communicator_max_merge_var_num": 2})
        one.init_with_ctx([0], {}, worker)
        with pytest.raises(tug.UsageError, match=r"call start\(\) first"):
            one.send(0, [1], [[1, 1]])
        one.start()
        with pytest.raises(tug.UsageError, match="each of the 2 threads must call barrier"):
            for _ in range(1000):
                one.send(0, [1], [[1, 1]])
        worker.stop_worker()  # stops the communicator, which pushes what was sent
        assert not one.is_running()


def test_five_arguments(monkeypatch):
    """With Paddle's five arguments of init_with_ctx, the process joins the run that the text describes as a worker."""
    text = """server_param { downpour_server_param { downpour_table_param { table_id: 0
      table_class: "MemorySparseGeoTable" accessor { embedx_dim: 2 } common { name: "sum" } } } }"""
    send_ctx = {"emb": fluid.CommContext("emb", [], [], [], [], 0, True, True, True, 0, False)}
    monkeypatch.setenv("FLAGS_communicator_max_merge_var_num", "1")
    one = fluid.communicator.Communicator(mode="GEO", kwargs={"trainers": 1, "trainer_id": 0, "need_global_step": False,
                                                              "barrier_table_id": 1}, envs={})
    scope = {"emb": np.arange(6, dtype=np.float32).reshape(3, 2)}
    one.init_with_ctx(send_ctx, {}, text, [], scope)
    one.start()
    one.push_sparse_param("emb")
    one.send("emb", [1], [[1, 1]])
    worker = FleetWrapper.GetInstance()
    assert worker.pull_sparse(0, [0, 1, 2]).tolist() == [[0, 1], [3, 4], [4, 5]] == one.pull("emb", [0, 1, 2]).tolist()
    assert one.is_running() and send_ctx["emb"].var_name() == "emb"
    two = Communicator(envs={"communicator_is_sgd_optimizer": 0, "communicator_send_queue_size": 8})
    two.init_with_ctx([0], {}, text, [])  # uses the worker that is in the run already
    three = fluid.core.DistCommunicator("ASYNC", text, [], send_ctx, {}, scope, {})
    three.start()
    three.send("emb", [9], [[4, 4]])
    three.stop()
    assert worker.pull_sparse(0, [9])[0, 0] == 4
    one.stop()
    worker.close()
    with pytest.raises(tug.UsageError, match=r"trainers: is 2, but in this run the right number is 1"):
        Communicator(kwargs={"trainers": 2}).init_with_ctx([0], {}, text, [])
    FleetWrapper.GetInstance().close()


def test_tables_of_a_client():
    """A communicator sends to tables that the program has made with client.table(), of fleet.client or any client."""
    alone = fluid.Fleet()
    alone.init(fluid.UserDefinedRoleMaker())
    alone.init_worker()
    with tug.local() as other:
        for client, given in ((alone.client, alone), (other, other)):
            sums = client.table("sums", number=6, accessor="merge", dim=2)
            client.table("set", number=7, rule="assign", dim=2)
            client.table("steps", number=8, rule="sgd:lr=1", dim=2)
            geo = Communicator("GEO", envs={"communicator_max_merge_var_num": 2})
            geo.init_with_ctx({"sums": 6}, {}, given)
            geo.start()
            for n in (1, 2, 3):
                geo.send("sums", [4], [[1, 1]])
                assert geo.pull(6, [4])[0, 0] == n and sums.pull([4])[0, 0] == n // 2 * 2
            half = Communicator("HALF_ASYNC")
            half.init_with_ctx([8], {}, given)
            half.start()
            half.send(8, [1], [[1, 1]])
            assert half.pull(8, [1])[0, 0] == -1
            for make, sentence in (
                    (lambda: Communicator("GEO").init_with_ctx([7], {}, given), "give it 'accessor = merge'"),
                    (lambda: Communicator("GEO").init_with_ctx([8], {}, given), "give it 'accessor = merge'"),
                    (lambda: Communicator().init_with_ctx([9], {}, given), "client's tables, 6, 7, 8: make"),
                    (lambda: Communicator().init_with_ctx([6], {6: ["w"]}, given), "needs a FleetWrapper"),
                    (geo.get_client_info, "needs a FleetWrapper")):
                with pytest.raises(tug.UsageError, match=sentence):
                    make()
        other.close()  # stops the communicators first
        assert not geo.is_running() and not half.is_running()
    alone.clear_model()
    assert alone.client.find("sums").stat().rows == 0 and alone.client.find(_changes.NAME).stat().rows > 0
    alone.stop_worker()


def test_a_thread_that_receives():
    with FleetWrapper(wait_seconds=PATIENCE) as worker:
        worker.init_worker(SUMS)
        scope = {}
        one = Communicator("ASYNC", envs={"communicator_independent_recv_thread": 1,
                                          "communicator_min_send_grad_num_before_recv": 2})
        one.init_with_ctx([0, 1], {1: ["w"]}, worker, scope)
        one.init_params({})
        one.start()
        end = time.monotonic() + PATIENCE
        while "w" not in scope or not (scope["w"] >= 2).all():
            one.send(1, {"w": np.ones((2, 3))})
            assert time.monotonic() < end
        one.stop()


def test_settings(monkeypatch):
    for name in ("CPU_NUM", "FLAGS_communicator_thread_pool_size"):
        monkeypatch.delenv(name, raising=False)
    with FleetWrapper() as worker:
        worker.init_worker([*PLAIN, FleetTable(1, "batches", "mode=sync; dim=2")])
        for make, sentence in (
                (lambda: Communicator("NONE"), "is not one of SYNC, ASYNC, HALF_ASYNC, GEO"),
                (lambda: Communicator(fluid.Program()), "not a Program"), (lambda: Communicator(9), "is not one of"),
                (lambda: Communicator("WITH_COORDINATOR"), "no federated learning"),
                (lambda: Communicator(envs=3), "envs: must be a dict"),
                (lambda: Communicator(envs={"communicator_thread_pool_size": 9}), "requests need no threads"),
                (lambda: Communicator(envs={"communicator_send_wait_times": 1}), "sent immediately"),
                (lambda: Communicator("SYNC", envs={"communicator_is_sgd_optimizer": 0}), "reduce = mean"),
                (lambda: Communicator("GEO", envs={"communicator_independent_recv_thread": 1}), "each exchange pulls"),
                (lambda: Communicator(kwargs={"need_global_step": True}), "push_global_step"),
                (lambda: Communicator(envs={"communicator_send_queue_size": "-1"}), "not a whole number"),
                (lambda: Communicator("GEO").init_with_ctx([0], {}, worker), "give it 'accessor = merge'"),
                (lambda: Communicator("SYNC").init_with_ctx([0], {}, worker), "table 0 is not of mode sync"),
                (lambda: Communicator("ASYNC").init_with_ctx([1], {}, worker), "table 1 is of mode sync"),
                (lambda: Communicator().init_with_ctx([], {}, worker), "at least one table"),
                (lambda: Communicator().init_with_ctx(3, {}, worker), "not an int"),
                (lambda: Communicator().init_with_ctx([7], {}, worker), "is not one of 0, 1"),
                (lambda: Communicator().init_with_ctx([0], {0: ["w"]}, worker), "is not a dense table")):
            with pytest.raises(tug.Error, match=sentence):
                make()
        Communicator(envs={"communicator_thread_pool_size": "5", "communicator_send_wait_times": 5,
                           "communicator_independent_recv_thread": "0", "communicator_is_sgd_optimizer": True})
        monkeypatch.setenv("FLAGS_communicator_thread_pool_size", "9")
        with pytest.raises(tug.UsageError, match="communicator_thread_pool_size: must be 5 or left out"):
            Communicator()
