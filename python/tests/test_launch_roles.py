"""Scripts of fleet, FleetWrapper and kvstore under `tug launch` and `python -m tug launch`: they run in the roles that
they need, or a sentence says how to start them.

SPDX-License-Identifier: Apache-2.0
"""

import os
import re
import signal
import subprocess
import sys
import textwrap

import pytest
from test_fleet import PATIENCE, free_ports, without_roles
from test_launch import alive

import tug
from tug import __main__
from tug.fleet import Fleet, FleetTable, FleetWrapper, Role, UserDefinedRoleMaker

COMMAND = os.path.join(os.path.dirname(os.path.realpath(tug._library.PATH)), "tug")
FLEET = """
    import sys
    from tug.fleet import fleet
    fleet.init()
    if fleet.is_server():
        fleet.init_server()
        fleet.run_server()
        sys.exit()
    fleet.init_worker()
    sys.stdout.write(f"sum {fleet.util.all_reduce(fleet.worker_index() + 1)}\\n")
    fleet.stop_worker()
"""
WRAPPER = """
    import sys
    from tug.fleet import FleetTable, FleetWrapper, PaddleCloudRoleMaker
    tables = [FleetTable(0, "w", "dim=1; rule=sum")]
    role = PaddleCloudRoleMaker()
    hosts = [f"{endpoint}:{rank}" for rank, endpoint in enumerate(role.get_pserver_endpoints())]
    fleet = FleetWrapper.GetInstance()
    if role.is_server():
        fleet.init_server(tables, hosts, role.server_index(), role.worker_num(), [])
        fleet.run_server()
        sys.exit()
    fleet.init_worker(tables, hosts, role.worker_index())
    fleet.push_sparse(0, [7], [[role.worker_index() + 1]])
    fleet.barrier(0, role.worker_index())
    sys.stdout.write(f"sum {int(fleet.pull_sparse(0, [7])[0, 0])}\\n")
    fleet.stop_worker()
"""
KVSTORE = """
    import sys
    import numpy
    import tug.kvstore as kvstore
    kv = kvstore.create("dist_sync")
    kv.init("w", numpy.zeros(1))
    kv.push("w", numpy.full(1, kv.rank + 1.0))
    found = numpy.zeros(1)
    kv.pull("w", out=found)
    sys.stdout.write(f"sum {int(found[0])}\\n")
"""
SCRIPTS = {"fleet": FLEET, "FleetWrapper": WRAPPER, "kvstore": KVSTORE}
PLACE = {"DMLC_NUM_SERVER": "1", "DMLC_NUM_WORKER": "2", "DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": "9091",
         "DMLC_ROLE": "worker", "DMLC_WORKER_ID": "1", "PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1:9092"}


@pytest.fixture(params=SCRIPTS)
def words(request, tmp_path):
    file = tmp_path / "script.py"
    file.write_text(textwrap.dedent(SCRIPTS[request.param]))
    return [sys.executable, str(file)]


def test_command(words):
    if not os.path.exists(COMMAND):
        pytest.skip("the command is not built beside the library")
    run = subprocess.run([COMMAND, "launch", "--servers", "2", "--workers", "2", "--", *words], env=without_roles(),
                         capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == 0 and run.stdout.count("sum 3\n") == 2, run.stdout + run.stderr


def test_all_roles(words):
    with tug.launch(words, servers=2, workers=2, all_roles=True) as cluster:
        cluster.wait(PATIENCE)
    assert [p.output() for p in cluster.processes if p.role == "worker"] == ["sum 3\n", "sum 3\n"]
    with pytest.raises(tug.UsageError, match="all_roles: needs a command"):
        tug.launch(all_roles=True)


def test_workers_only(words):
    with tug.launch(words, servers=1, workers=2) as cluster:
        with pytest.raises(tug.LaunchError, match="only the workers of this cluster run this program.* --all-roles"):
            cluster.wait(PATIENCE)


def test_options_of_the_command(words):
    run = subprocess.run([sys.executable, "-m", "tug", "launch", "--servers", "1", "--workers", "2", "--all-roles",
                          "--wait-seconds", "60", "--", *words], capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == 0 and run.stdout.count("sum 3\n") == 2, run.stdout + run.stderr


def launched(*options):
    return subprocess.run([sys.executable, "-m", "tug", "launch", *options], capture_output=True, text=True,
                          timeout=PATIENCE, env=without_roles())


def test_as_paddles_launcher(words, tmp_path):
    """Paddle's command line: its names of options, in its spelling, and a script without an interpreter."""
    run = launched("--server_num", "1", "--worker_num=2", "--log_dir", str(tmp_path / "a" / "logs"), words[1])
    assert (run.returncode, run.stdout) == (0, ""), run.stdout + run.stderr
    logs = {file.name: file.read_text() for file in (tmp_path / "a" / "logs").iterdir()}
    assert set(logs) == {"scheduler-0.log", "server-0.log", "worker-0.log", "worker-1.log"}
    for name in ("worker-0.log", "worker-1.log"):
        # On a busy machine a worker says that it waits for the scheduler, which starts at the same time.
        said = [line for line in logs[name].splitlines() if not line.startswith("waiting up to ")]
        assert said == ["sum 3"], logs[name]


def test_variables_and_arguments(tmp_path):
    file = tmp_path / "script.py"
    file.write_text("import os, sys, tug\nwith tug.connect():\n"
                    "    sys.stdout.write(f\"{os.environ['A']} {os.environ['B']} {sys.argv[1:]}\")\n")
    run = launched("--env", "A=1=2", "--env=B=", str(file), "--server_num", "3", "--")
    assert (run.returncode, run.stdout) == (0, "1=2  ['--server_num', '3', '--']"), run.stderr


@pytest.mark.parametrize("options, code, sentence", [
    (["--hosts", "x"], 2, "--hosts is an option of the command 'tug launch' only"),
    (["--sparse_loops=2"], 2, "--sparse_loops is an option of the command 'tug launch' only"),
    (["--nproc_per_node", "2"], 2, "--nproc_per_node: give the numbers of processes: --servers and --workers"),
    (["--heter_worker_num=1"], 2, "--heter_worker_num: tug has servers and workers only"),
    (["--servers=127.0.0.1:1,127.0.0.1:2"], 2, "--servers and --workers are numbers of processes, not addresses"),
    (["--servers", "x"], 2, "invalid int value: 'x'"), (["--nothing"], 2, "unrecognized arguments: --nothing"),
    (["--worker_num", "0"], 1, "workers: 0 is not from 1 to 4096"),
    (["--env", "A"], 1, "--env takes NAME=VALUE, not 'A'"),
    (["--log-dir", "/dev/null/x"], 1, "log_dir: cannot make the directory '/dev/null/x': Not a directory")])
def test_options_that_it_lacks(options, code, sentence):
    run = launched(*options, "--", "true")
    assert run.returncode == code and sentence in run.stderr.splitlines()[-1], run.stderr


def test_every_option_of_the_command_is_known():
    """Each option of `tug launch` is one of python -m tug launch, too, or its error names the command."""
    if not os.path.exists(COMMAND):
        pytest.skip("the command is not built beside the library")
    text = subprocess.run([COMMAND, "launch", "--help"], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"^  --([a-z-]+)", text, flags=re.M)
    mine = re.findall(r"^  --([a-z-]+)", launched("--help").stdout, flags=re.M)
    known = {*mine, *__main__._OF_THE_COMMAND, *__main__._SPELLED, "help"}
    assert len(names) > 25 and set(names) - known == set()


def test_log_dir_or_echo(tmp_path):
    with pytest.raises(tug.UsageError, match="^log_dir: cannot be used with echo=True"):
        tug.launch(["true"], echo=True, log_dir=tmp_path)
    program = "import tug\nwith tug.connect():\n    print('said')"
    with tug.launch([sys.executable, "-c", program], log_dir=tmp_path) as cluster:
        cluster.wait(PATIENCE)
        assert cluster.process("worker").output() == "said\n"
    assert (tmp_path / "worker-0.log").read_text() == "said\n"


def test_limits(monkeypatch):
    monkeypatch.setenv("TUG_WAIT_SECONDS", "7")
    monkeypatch.setenv("TUG_DEAD_SECONDS", "8")
    with tug.launch(["sleep", "60"]) as cluster:
        env = cluster.environment()
        assert (env["TUG_WAIT_SECONDS"], env["TUG_DEAD_SECONDS"]) == ("7", "8")
    with tug.launch(["sleep", "60"], wait_seconds=9, env={"TUG_DEAD_SECONDS": "10"}) as cluster:
        env = cluster.environment()
        assert (env["TUG_WAIT_SECONDS"], env["TUG_DEAD_SECONDS"]) == ("9.0", "10")


def test_a_launcher_that_is_asked_to_end(tmp_path):
    file = tmp_path / "script.py"
    file.write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(600)\n")
    with subprocess.Popen([sys.executable, "-m", "tug", "launch", "--", sys.executable, str(file)],
                          stdout=subprocess.PIPE, text=True) as launcher:
        pid = int(launcher.stdout.readline())
        assert alive(pid)
        launcher.send_signal(signal.SIGTERM)
        assert launcher.wait(PATIENCE) == 130
    assert not alive(pid)


@pytest.mark.parametrize("role, index, hosts, sentence", [
    ("worker", 0, ["127.0.0.1:9092"], r"this process is worker 1 \(DMLC_ROLE=worker.*not worker 0"),
    ("server", 1, ["127.0.0.1:1", "127.0.0.1:2"], "this process is worker 1 .*not server 1"),
    ("worker", 1, ["127.0.0.1:1"], "127.0.0.1:1 are not the servers of this run, 127.0.0.1:9092")])
def test_roles_that_contradict_the_launcher(monkeypatch, role, index, hosts, sentence):
    """Such a process would wait for a cluster that the launcher has not started."""
    for name, value in PLACE.items():
        monkeypatch.setenv(name, value)
    tables = [FleetTable(0, "w", "dim=1")]
    with pytest.raises(tug.UsageError, match=sentence):
        if role == "server":
            FleetWrapper().init_server(tables, hosts, index, 2)
        else:
            FleetWrapper().init_worker(tables, hosts, index)
    with pytest.raises(tug.UsageError, match=sentence):
        Fleet().init(UserDefinedRoleMaker(index, Role.SERVER if role == "server" else Role.WORKER, 2, hosts))
    with pytest.raises(tug.UsageError, match="this process is worker 1 .*, not a server: ask Paddle.*init_server"):
        FleetWrapper().init_server(tables)
    with pytest.raises(tug.UsageError, match="would train alone, but tug launch has started it as one of several"):
        Fleet().init(UserDefinedRoleMaker())


@pytest.mark.parametrize("change, says", [
    ({"PADDLE_TRAINERS_NUM": "3"}, "worker 1 was started for 2 servers and 3 workers, but the run has 2 and 2"),
    ({"PADDLE_PSERVERS_IP_PORT_LIST": ""}, "worker 1 was started for 1 server and 2 workers, but the run has 2 and 2")])
def test_counts_that_differ(tmp_path, change, says):
    """If a worker was started for other numbers of processes, all processes get an error with these numbers."""
    file = tmp_path / "script.py"
    file.write_text(textwrap.dedent(FLEET))
    first, second = (f"127.0.0.1:{port}" for port in free_ports(2))
    base = {**without_roles(), "PADDLE_PSERVERS_IP_PORT_LIST": f"{first},{second}", "PADDLE_TRAINERS_NUM": "2",
            "TUG_WAIT_SECONDS": "60"}
    own = [{"TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": one.rpartition(":")[2]}
           for one in (first, second)]
    own += [{"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": "0"},
            {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": "1", **{k: v or first for k, v in change.items()}}]
    started = [subprocess.Popen([sys.executable, str(file)], env={**base, **one}, stderr=subprocess.PIPE, text=True)
               for one in own]
    try:
        said = [p.communicate(timeout=PATIENCE)[1] for p in started]
    finally:
        for p in started:
            p.kill()
            p.wait()
    assert all(says in one for one in said) and all(p.returncode == 1 for p in started), "\n".join(said)
    assert f"tug._errors.UsageError: {says}" in said[3]


def test_rank_that_is_not_there(tmp_path):
    """A process that gets another rank than its environment names says so."""
    with tug.launch(servers=1, workers=1) as cluster:
        run = subprocess.run([sys.executable, "-c", "import tug\nwith tug.connect() as c: print(c.rank)"],
                             env={**cluster.environment(), "DMLC_WORKER_ID": "5"}, capture_output=True, text=True,
                             timeout=PATIENCE)
        assert (run.returncode, run.stdout) == (0, "0\n"), run.stderr
        assert "DMLC_WORKER_ID=5: this process is worker 0" in run.stderr
