"""The roles and the life cycle of fleet: from the environment, by hand, in one process, and in real processes.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import os
import random
import socket
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import tug
from tug.fleet import (DistributedStrategy, DistributeTranspilerConfig, Fleet, PaddleCloudRoleMaker, Role,
                       StrategyFactory, UserDefinedRoleMaker, optimizer)
from tug.fleet.role_maker import read_environment
from tug.fleet.strategy import strategy_of

PATIENCE = 90
TRAINER = {"TRAINING_ROLE": "TRAINER", "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:1000,127.0.0.1:1001",
           "PADDLE_TRAINERS_NUM": "3", "PADDLE_TRAINER_ID": "2"}
PSERVER = {**{k: v for k, v in TRAINER.items() if k != "PADDLE_TRAINER_ID"}, "TRAINING_ROLE": "PSERVER",
           "POD_IP": "127.0.0.1", "PADDLE_PORT": "1001"}


def without_roles():
    drop = ("DMLC_", "PADDLE_", "TRAINING_ROLE", "POD_IP", "TUG_SCHEDULER", "TUG_CLUSTER")
    return {k: v for k, v in os.environ.items() if not k.startswith(drop)}


def free_ports(n):
    """Returns n free ports below the range that the system uses for outgoing connections."""
    held = {}
    while len(held) < n:
        port = random.randrange(10000, 32000)
        with contextlib.suppress(OSError):
            held[port] = socket.create_server(("127.0.0.1", port))
    for s in held.values():
        s.close()
    return list(held)


def by_hand(words, servers, workers, env=(), cwd=None):
    """Starts a process for each server and worker with only Paddle's variables, and returns the output of the
    workers."""
    ends = ",".join(f"127.0.0.1:{p}" for p in free_ports(servers))
    base = {**without_roles(), "PADDLE_PSERVERS_IP_PORT_LIST": ends, "PADDLE_TRAINERS_NUM": str(workers),
            "TUG_WAIT_SECONDS": "60", **dict(env)}
    envs = [{**base, "TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": e.rpartition(":")[2]}
            for e in ends.split(",")]
    envs += [{**base, "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(i)} for i in range(workers)]
    started = [subprocess.Popen(words, env=e, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                cwd=cwd) for e in envs]
    try:
        said = [p.communicate(timeout=PATIENCE)[0] for p in started]
    finally:
        for p in started:
            p.kill()
            p.wait()
    if any(p.returncode != 0 for p in started):
        raise AssertionError("\n".join(said))
    return said[servers:]


def test_environment():
    place = read_environment(TRAINER)
    assert (place.role, place.rank, place.workers, place.servers) == ("worker", 2, 3, 2)
    place = read_environment(PSERVER)
    assert (place.role, place.rank, place.server_endpoints[1]) == ("server", 1, "127.0.0.1:1001")
    dmlc = {"DMLC_ROLE": "worker", "DMLC_NUM_SERVER": "2", "DMLC_NUM_WORKER": "4", "DMLC_WORKER_ID": "3",
            "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": "9091"}
    assert read_environment(dmlc)[:4] == ("worker", 3, 4, 2)
    assert read_environment({**dmlc, "DMLC_ROLE": "scheduler"}).role == "scheduler"


@pytest.mark.parametrize("change, sentence", [
    ({}, "missing: TRAINING_ROLE, PADDLE_PSERVERS_IP_PORT_LIST, PADDLE_TRAINERS_NUM;"),
    ({"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINERS_NUM": "2"},
     "missing: PADDLE_PSERVERS_IP_PORT_LIST, PADDLE_TRAINER_ID"),
    ({**PSERVER, "POD_IP": ""}, "missing: POD_IP"),
    ({**PSERVER, "PADDLE_PORT": "7"}, "127.0.0.1:7' .not in PADDLE_PSERVERS_IP_PORT_LIST"),
    ({**TRAINER, "PADDLE_TRAINER_ID": "3"}, "PADDLE_TRAINER_ID is 3, and must be below PADDLE_TRAINERS_NUM, 3"),
    ({**TRAINER, "PADDLE_TRAINER_ID": "-1"}, "PADDLE_TRAINER_ID='-1'"),
    ({**TRAINER, "TRAINING_ROLE": "COORDINATOR"}, "federated"),
    ({**TRAINER, "TRAINING_ROLE": "WORKER"}, "TRAINING_ROLE='WORKER'"),
    ({**TRAINER, "PADDLE_PSERVERS_IP_PORT_LIST": "a:1,a:1"}, "a:1 is listed twice"),
    ({**TRAINER, "PADDLE_PSERVERS_IP_PORT_LIST": "a:1,b"}, "PADDLE_PSERVERS_IP_PORT_LIST='b'"),
    ({**TRAINER, "PADDLE_TRAINER_ENDPOINTS": "a:1"}, "has 1 endpoints, but there are 3 workers"),
    ({**TRAINER, "DMLC_ROLE": "server"}, "contradict each other"),
])
def test_environment_that_is_wrong(change, sentence):
    with pytest.raises(tug.UsageError, match=sentence):
        read_environment(change)


def test_names_with_optimizer():
    for name in ("SGD", "Momentum", "Adagrad", "DecayedAdagrad", "Adam", "Ftrl"):
        made, same = (getattr(optimizer, n)(learning_rate=0.5) for n in (name, name + "Optimizer"))
        assert type(made) is type(same)


def test_endpoints_of_trainers(monkeypatch):
    for name, value in {**TRAINER, "PADDLE_TRAINER_ENDPOINTS": "h:1,h:2,h:3"}.items():
        monkeypatch.setenv(name, value)
    assert PaddleCloudRoleMaker().get_trainer_endpoints() == ["h:1", "h:2", "h:3"]


def test_user_defined():
    roles = UserDefinedRoleMaker(1, Role.SERVER, 2, ["h:1", "h:2"])
    assert roles.is_server() and roles.server_index() == 1 and roles.server_num() == 2 and roles.worker_num() == 2
    assert read_environment(roles.environment())[:4] == ("server", 1, 2, 2)
    roles = UserDefinedRoleMaker(0, Role.WORKER, 2, ["h:1"])
    assert read_environment(roles.environment())[:4] == ("worker", 0, 2, 1) and roles.is_first_worker()
    with pytest.raises(tug.UsageError, match="worker_index: this process is a server"):
        UserDefinedRoleMaker(0, Role.SERVER, 1, ["h:1"]).worker_index()
    for wrong, sentence in (({"role": 5}, "Role.WORKER"), ({"worker_num": 2}, "server_endpoints: is empty"),
                            ({"is_collective": True}, "no collectives"), ({"init_gloo": True}, "Gloo"),
                            ({"current_id": 1}, "current_id: 1 is not from 0 to 0")):
        with pytest.raises(tug.UsageError, match=sentence):
            UserDefinedRoleMaker(**wrong)


def test_strategy():
    strategy = DistributedStrategy()
    assert strategy.a_sync and not strategy.sync
    strategy.a_sync = False
    strategy.a_sync_configs = {"k_steps": 0}
    assert strategy.sync and StrategyFactory.create_sync_strategy().sync
    for field, value, sentence in (
            ("a_sink", True, "there is no such field; there are a_sync"), ("adam_d2sum", True, "not support this rule"),
            ("a_sync_configs", {"k_steps": -2}, "k_steps"), ("a_sync_configs", {"send_queue_size": 32}, "ignores it"),
            ("a_sync_configs", {"steps": 1}, "there is no field 'steps'"), ("a_sync", 1, "must be True or False"),
            ("fleet_desc_configs", {"sparse_shard_num": 1}, "params and the optimizer")):
        with pytest.raises(tug.Error, match=sentence):
            setattr(strategy, field, value)
    with pytest.raises(TypeError, match="item assignment"):
        strategy.a_sync_configs["send_queue_size"] = 16
    assert "{'a_sync': False, 'a_sync_configs': {'k_steps': 0}}" in repr(strategy)
    with pytest.raises(AttributeError, match="there is no such field"):
        strategy.nosuch  # noqa: B018
    config = DistributeTranspilerConfig()
    assert strategy_of(config).sync
    config.sync_mode = False
    config.slice_var_up = True
    assert not strategy_of(config).sync
    with pytest.raises(tug.UsageError, match="enable_dc_asgd: cannot be True: there is no delay"):
        config.enable_dc_asgd = True
    assert StrategyFactory.create_geo_strategy(100).mode == "geo:100"
    assert StrategyFactory.create_half_async_strategy().mode == "half-async"
    assert (strategy.mode, DistributedStrategy().mode) == ("sync", "async")
    config.geo_sgd_mode, config.geo_sgd_need_push_nums = True, 7
    assert strategy_of(config).mode == "geo:7"
    config.geo_sgd_mode, config.half_async = False, True
    assert strategy_of(config).mode == "half-async"


def test_alone():
    fleet = Fleet()
    with pytest.raises(tug.UsageError, match="fleet.init"):
        fleet.is_worker()
    with pytest.raises(tug.UsageError, match="no collectives"):
        fleet.init(is_collective=True)
    fleet.init(UserDefinedRoleMaker(0, Role.WORKER, 1))
    with pytest.raises(tug.UsageError, match="is for servers, but this process is worker 0"):
        fleet.run_server()
    with pytest.raises(tug.UsageError, match="init_worker"):
        fleet.barrier_worker()
    fleet.init_worker()
    assert fleet.util.all_reduce(3) == 3 and fleet.util.all_gather("a") == ["a"]
    np.testing.assert_array_equal(fleet.all_reduce(np.array([1.5, 2.0 ** 60])), [1.5, 2.0 ** 60])
    assert fleet.util.get_file_shard(["b", "a"]) == ["a", "b"]
    with pytest.raises(tug.UsageError, match="'mean' is not one of sum, max, min"):
        fleet.util.all_reduce(1, "mean")
    with pytest.raises(tug.UsageError, match="only workers"):
        fleet.util.all_reduce(1, comm_world="server")
    with pytest.raises(tug.ArgumentTypeError, match="cannot be exchanged"):
        fleet.util.all_gather(object())
    fleet.stop_worker()
    with pytest.raises(tug.UsageError, match="not in a run"):
        fleet.stop_worker()


SCRIPT = """
    import sys
    import numpy as np
    from tug.fleet import fleet, PaddleCloudRoleMaker

    fleet.init(PaddleCloudRoleMaker())
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        sys.exit()
    fleet.init_worker()
    me, n = fleet.worker_index(), fleet.worker_num()
    assert len(fleet.server_endpoints()) == fleet.server_num() == 2 and not fleet.is_coordinator()
    assert fleet.worker_endpoints() == [] or len(fleet.worker_endpoints()) == n
    assert fleet.is_first_worker() == (me == 0)
    long = "x" * (1000 * me)
    assert fleet.util.all_gather([me, long]) == [[i, "x" * (1000 * i)] for i in range(n)]
    assert fleet.util.all_reduce(me + 1) == n * (n + 1) // 2
    assert fleet.util.all_reduce(0.1 * me, "max") == 0.1 * (n - 1)
    assert np.array_equal(fleet.util.all_reduce(np.array([[me, 1 - me]]), "min"), [[0, 2 - n]])
    files = [f"part-{i}" for i in range(5)]
    if me == 1:
        files.reverse()
    shards = fleet.util.all_gather(fleet.util.get_file_shard(files))
    assert sum(shards, []) == sorted(files), shards
    fleet.barrier_worker()
    fleet.util.print_on_rank("done %d" % n, 0)
    fleet.stop_worker()
"""


@pytest.fixture
def script(tmp_path):
    file = tmp_path / "run.py"
    file.write_text(textwrap.dedent(SCRIPT))
    return [sys.executable, str(file)]


def test_by_hand(script):
    assert by_hand(script, 2, 3) == ["done 3\n", "", ""]


def test_tug_launch(script):
    """`tug launch` starts the script in all roles, including the scheduler."""
    tug_command = os.path.join(os.path.dirname(tug._library.PATH), "..", "..", "tug")
    run = subprocess.run([tug_command, "launch", "--servers", "2", "--workers", "2", "--", *script],
                         env=without_roles(), capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "done 2" in run.stdout


def test_user_defined_processes(tmp_path):
    """UserDefinedRoleMaker needs no variables of the environment."""
    port = free_ports(1)[0]
    file = tmp_path / "run.py"
    file.write_text(textwrap.dedent(f"""
        import sys
        from tug.fleet import fleet, Role, UserDefinedRoleMaker
        role, index = (Role.SERVER, 0) if sys.argv[1] == "s" else (Role.WORKER, int(sys.argv[1]))
        fleet.init(UserDefinedRoleMaker(index, role, 2, ["127.0.0.1:{port}"]))
        if fleet.is_server():
            fleet.run_server()
        else:
            fleet.init_worker()
            print(fleet.util.all_reduce(fleet.worker_index() + 1))
            fleet.stop_worker()
    """))
    env = {**without_roles(), "TUG_WAIT_SECONDS": "60"}
    started = [subprocess.Popen([sys.executable, str(file), one], env=env, stdout=subprocess.PIPE, text=True)
               for one in ("s", "0", "1")]
    said = [p.communicate(timeout=PATIENCE)[0] for p in started]
    assert said == ["", "3\n", "3\n"] and [p.returncode for p in started] == [0, 0, 0]
