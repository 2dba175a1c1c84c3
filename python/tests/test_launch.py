"""Clusters of real processes are started, used and killed, and leave no process behind.

SPDX-License-Identifier: Apache-2.0
"""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import tug

PATIENCE = 90


def script(tmp_path, text):
    file = tmp_path / "worker.py"
    file.write_text("import sys, time\nimport numpy as np\nimport tug\n" + textwrap.dedent(text))
    return [sys.executable, str(file)]


def group_of(pid):
    try:
        return os.getpgid(int(pid))
    except ProcessLookupError:
        return 0


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return file.read().rsplit(")", 1)[1].split()[0] != "Z"


def test_two_and_two(tmp_path):
    words = script(tmp_path, """
        with tug.connect() as client:
            table = client.table("w", dim=4, rule="sum")
            keys = np.arange(1000)
            for _ in range(10):
                table.push(keys, np.full((1000, 4), client.rank + 1))
            client.barrier()
            assert np.all(table.pull(keys) == 30), table.pull(keys)
            print(tug.role(), client.rank, client.workers, client.servers)
    """)
    with tug.launch(words, servers=2, workers=2) as cluster:
        cluster.wait(PATIENCE)
    said = sorted(p.output() for p in cluster.processes if p.role == "worker")
    assert said == ["worker 0 2 2\n", "worker 1 2 2\n"]
    assert all(p.code == 0 and not alive(p.pid) for p in cluster.processes)
    with pytest.raises(tug.UsageError, match="has ended"):
        cluster.wait()


def test_this_process_is_the_worker(tmp_path):
    with tug.launch(servers=2, save_root=tmp_path) as cluster, cluster.connect() as client:
        table = client.table("w", dim=2, rule="sum")
        table.push([1, 2], [[1, 2], [3, 4]])
        client.save(tmp_path / "saves")
        table.clear()
        assert table.load(tmp_path / "saves") == 2
        np.testing.assert_array_equal(table.pull([2]), [[3, 4]])
        with pytest.raises(tug.Error, match="save"):
            client.save("/nosuch")
        with tug.connect(cluster.scheduler, cluster=cluster.name, guest=True) as guest:
            np.testing.assert_array_equal(guest.find("w").pull([1]), [[1, 2]])
            with pytest.raises(tug.UsageError, match="guest"):
                guest.barrier()
        pids = [p.pid for p in cluster.processes]
    assert not any(alive(pid) for pid in pids)


def test_a_worker_that_raises(tmp_path):
    words = script(tmp_path, """
        client = tug.connect()
        table = client.table("w", dim=4)
        if client.rank == 1:
            raise RuntimeError("no more clicks")
        time.sleep(60)
    """)
    begin = time.monotonic()
    with tug.launch(words, servers=1, workers=2) as cluster:
        with pytest.raises(tug.LaunchError, match=r"(?s)worker \d \(process \d+\) ended with exit code 1: .*"
                                                  "RuntimeError: no more clicks"):
            cluster.wait(PATIENCE)
    assert time.monotonic() - begin < 30
    assert not any(alive(p.pid) for p in cluster.processes)


def test_a_server_that_is_killed(tmp_path):
    """Rows are on one server only, so its death ends the run: every process ends within the deadline, with an error
    that names the server."""
    words = script(tmp_path, """
        with tug.connect() as client:
            table = client.table("w", dim=4, rule="sum")
            print("ready", flush=True)
            while True:
                try:
                    table.push(np.arange(100), np.ones((100, 4)))
                except tug.Error as error:
                    print("heard:", error, flush=True)
                    sys.exit(3)
    """)
    with tug.launch(words, servers=2, workers=2, dead_seconds=2) as cluster:
        workers = [p for p in cluster.processes if p.role == "worker"]
        while not all("ready" in p.output() for p in workers):
            assert all(p.code is None for p in cluster.processes), [p.output() for p in cluster.processes]
            time.sleep(0.05)
        cluster.process("server", 1).kill(signal.SIGKILL)
        for p in workers:
            assert p.wait(30), "a worker waits for a dead server"
            assert p.code == 3 and "heard:" in p.output() and "server" in p.output(), p.output()
        with pytest.raises(tug.LaunchError, match=r"server 1 .*was killed by signal 9 \(SIGKILL\)"):
            cluster.wait(PATIENCE)


def test_a_dead_server_is_told_once():
    """The first close after a server's death raises its error; later closes, and the launcher's end, do nothing. An
    exception of the `with` block is not replaced."""
    with tug.launch(servers=2, dead_seconds=5, wait_seconds=30) as cluster:
        client = cluster.connect()
        table = client.table("w", dim=1, rule="sum")
        cluster.process("server", 1).kill(signal.SIGKILL)
        with pytest.raises(ZeroDivisionError), client.communicator([table]) as communicator:
            with pytest.raises(tug.SystemFailure, match="server .* was lost"):
                while True:
                    communicator.send(table, np.arange(100), np.ones((100, 1)))
            raise ZeroDivisionError
        communicator = client.communicator([table])
        with pytest.raises(tug.SystemFailure, match="was lost"):
            with communicator:
                communicator.send(table, [1], [[1]])
        with pytest.raises(tug.SystemFailure, match="was lost"):
            client.close()
        for closed in (client, communicator, client):
            closed.close()
        assert client.closed and communicator.closed
        cluster.kill()


def test_an_exception_leaves_nothing(tmp_path):
    with pytest.raises(ZeroDivisionError):
        with tug.launch(["sh", "-c", "sleep 60 & sleep 60"], servers=2, workers=2) as cluster:
            raise ZeroDivisionError
    assert all(p.code is not None for p in cluster.processes)
    with pytest.raises(tug.LaunchError, match="worker 0: cannot start /nosuch: No such file"):
        tug.launch(["/nosuch"])
    groups = {p.pid for p in cluster.processes}
    left = [pid for pid in os.listdir("/proc") if pid.isdigit() and group_of(pid) in groups and alive(int(pid))]
    assert not left


def test_a_launcher_that_is_killed(tmp_path):
    code = ("import tug, time\nc = tug.launch(servers=2)\n"
            "print(*[p.pid for p in c.processes], flush=True)\ntime.sleep(60)\n")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as launcher:
        pids = [int(p) for p in launcher.stdout.readline().split()]
        assert len(pids) == 3 and all(alive(p) for p in pids)
        launcher.kill()
    end = time.monotonic() + 20
    while any(alive(p) for p in pids):
        assert time.monotonic() < end, "roles outlive their launcher"
        time.sleep(0.05)


def test_the_command(tmp_path):
    words = script(tmp_path, """
        with tug.connect() as client:
            client.barrier()
            sys.stdout.write(f"rank {client.rank}\\n")  # at once: also where PYTHONUNBUFFERED is set
    """)
    run = subprocess.run([sys.executable, "-m", "tug", "launch", "--servers", "2", "--workers", "2", "--", *words],
                         capture_output=True, text=True, timeout=PATIENCE)
    assert run.returncode == 0, run.stderr
    assert sorted(run.stdout.split("\n")) == ["", "rank 0", "rank 1"]
    run = subprocess.run([sys.executable, "-m", "tug", "launch", "--", "false"], capture_output=True, text=True,
                         timeout=PATIENCE)
    assert run.returncode == 1 and "worker 0" in run.stderr and "exit code 1" in run.stderr


def test_roles(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("DMLC_", "TUG_SCHEDULER", "TRAINING_ROLE")):
            monkeypatch.delenv(name)
    assert tug.role() is None
    with pytest.raises(tug.UsageError, match="only a scheduler or a server serves"):
        tug.serve()
    with pytest.raises(tug.UsageError, match="TUG_SCHEDULER"):
        tug.connect()
    monkeypatch.setenv("TRAINING_ROLE", "PSERVER")
    assert tug.role() == "server"
    monkeypatch.setenv("DMLC_ROLE", "worker")
    assert tug.role() == "worker"
    with pytest.raises(tug.UsageError, match="this process is a worker"):
        tug.serve()
    monkeypatch.setenv("DMLC_ROLE", "boss")
    with pytest.raises(tug.UsageError, match="DMLC_ROLE='boss'"):
        tug.role()


def test_guests_and_clients_that_only_find():
    """A guest, or a client that only finds tables, connects at its first request, when the texts of its options were
    freed."""
    with tug.launch(servers=1, workers=2, wait_seconds=PATIENCE) as cluster:
        other = []
        thread = threading.Thread(target=lambda: other.append(cluster.connect()))
        thread.start()
        client = cluster.connect()
        thread.join()
        guests = [cluster.connect(guest=True) for _ in range(3)]
        table = client.table("d", dim=4, rule="sum")
        for found in (other[0].find("d"), *(guest.find("d") for guest in guests)):
            assert found.stat().rows == 0
        # guest 0 has rank 0, but must not set initial values like worker 0
        dense = guests[0].find("d").dense({"a": ((3,), "constant:5")})
        assert table.stat().rows == 0 and dense.pull()["a"].tolist() == [0, 0, 0]
        for guest in guests:
            guest.close()


def test_the_doctor_looks_at_who_is_there():
    """The findings of tug doctor do not name a process that has left."""
    command = os.path.join(os.path.dirname(os.path.realpath(tug._library.PATH)), "tug")
    if not os.path.exists(command):
        pytest.skip("the command is not built beside the library")
    with tug.launch(servers=1) as cluster, cluster.connect() as client:
        client.table("d", dim=1).push([1], [[1.0]])
        with cluster.connect(guest=True) as guest:
            guest.find("d").pull([1])
        words = ["--scheduler", cluster.scheduler, "--cluster", cluster.name]
        end = time.monotonic() + PATIENCE
        while True:
            said = subprocess.run([command, "status", *words], capture_output=True, text=True, timeout=PATIENCE).stdout
            if "left" in said:
                break
            assert time.monotonic() < end, said
            time.sleep(0.05)
        found = subprocess.run([command, "doctor", *words], capture_output=True, text=True, timeout=PATIENCE)
        assert found.returncode == 0 and "no problem found" in found.stdout and "server 0" in found.stdout
        assert "driver" in said and "driver" not in found.stdout
