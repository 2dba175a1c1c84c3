"""tug.train in scripts that `tug launch` starts in all roles: the workers train together, without a driver process.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from test_fleet import without_roles

import tug

PATIENCE = 90
COMMAND = os.path.join(os.path.dirname(tug._library.PATH), "..", "..", "tug")
SLOTS = "label:label, a:ids, b:ids, x:dense[2]"


def lines_of(n, seed):
    r = np.random.default_rng(seed)
    for _ in range(n):
        a, b, x = r.integers(0, 200), r.integers(0, 50, r.integers(1, 4)), r.normal(size=2)
        p = 1 / (1 + np.exp(-(2.0 * (a % 2) - 1 + 0.8 * x[0] + 0.5 * (b[0] % 3 == 0))))
        yield f"1 {int(r.random() < p)} 1 {a} {len(b)} {' '.join(map(str, b))} 2 {x[0]:.4f} {x[1]:.4f}\n"


@pytest.fixture
def data(tmp_path):
    for name, n, seed in (("train", 40000, 0), ("test", 4000, 1), ("small", 300, 2)):
        (tmp_path / name).write_text("".join(lines_of(n, seed)))
    return tmp_path


def launch(directory, script, *words, servers=2, workers=2):
    file = directory / "script.py"
    file.write_text(textwrap.dedent(script))
    return subprocess.run([COMMAND, "launch", "--servers", str(servers), "--workers", str(workers), "--",
                           sys.executable, str(file), *map(str, words)],
                          cwd=directory, env=without_roles(), capture_output=True, text=True, timeout=PATIENCE)


SCRIPT = f"""
    import json, sys
    import tug
    mode, model = sys.argv[1:]
    passes = []
    m = tug.train("train", format="multislot", slots="{SLOTS}", model=model, epochs=1, mode=mode, seed=3,
                  progress=False, on_pass=passes.append, **(dict(hidden="8") if model != "fm" else {{}}))
    seen = [m.results["examples"]]
    assert m.results["epochs"] == 1
    m.train(["train"])
    seen.append(m.results["examples"])
    assert m.results["epochs"] == 2
    assert [p.pass_ for p in passes] == [1, 2]  # of every worker, also of those without a save
    assert [p[:4] for p in m.history] == [p[:4] for p in passes]
    assert [p.examples for p in passes] == seen == [40000, 40000]  # of all workers
    assert (passes[1].loss, passes[1].auc) == (m.results["train.logloss"], m.results["train.auc"])
    positive, negative = m.spread()
    said = {{"own": positive.sum() + negative.sum(), "passes": [p[1:4] for p in passes]}}
    try:
        said["auc"] = m.evaluate("test")["auc"]
        m.save("model")
    except tug.UsageError as error:
        said["why"] = str(error)
    print(json.dumps(said))
    m.close()
"""


def said_by(run):
    assert run.returncode == 0, run.stdout + run.stderr
    found = [json.loads(line[line.index("{"):]) for line in run.stdout.splitlines() if "{" in line]
    return sorted(found, key=lambda one: "why" in one)


@pytest.mark.parametrize("mode, model", [("async", "fm"), ("ssp:1", "fm"), ("half-async", "deepfm"), ("geo:4", "fm"),
                                         ("async", "deepfm")])
def test_workers_share_the_files(data, mode, model):
    """Each example is trained on once a pass. Worker 0 has the model, and `tug eval` gives the same metrics for it."""
    first, other = said_by(launch(data, SCRIPT, mode, model))
    assert first["own"] + other["own"] == 40000 and other["own"] > 0
    assert first["passes"] == other["passes"]
    assert "only the first worker" in other["why"]
    assert first["auc"] > 0.78
    with tug.load(data / "model") as model:
        assert model.evaluate(data / "test")["auc"] == first["auc"]


def test_sync_has_the_bits_of_one_process(data):
    """In mode sync, two calls of one pass by two workers give the same bits as two passes of one process."""
    first, other = said_by(launch(data, SCRIPT, "sync", "fm"))
    with tug.train(data / "train", format="multislot", slots=SLOTS, model="fm", epochs=2, deterministic=True, seed=3,
                   progress=False) as alone:
        alone.save(data / "alone")
        assert first["passes"] == other["passes"]
        for mine, theirs in zip(alone.history, first["passes"]):
            assert theirs[0] == mine.examples and np.allclose(theirs[1:], mine[2:4], rtol=1e-9)
    for table in ("sparse-0.rows", "dense-0.rows"):
        rows = [next((data / name).glob(f"save-*/{table}")).read_bytes() for name in ("model", "alone")]
        assert rows[0] == rows[1]


def test_own_files(data):
    """With own_files each worker trains on the files that it names, which differ from call to call; one worker has
    none."""
    script = f"""
        import json
        import tug
        if tug.role() != "worker":
            tug.serve()
            raise SystemExit
        client = tug.connect()
        m = tug.Model(client=client, own_files=True, format="multislot", slots="{SLOTS}", model="fm", epochs=1,
                      progress=False)
        m.train(["train"] if client.rank == 0 else [])
        seen = [m.results["examples"]]
        m.train(["small"] if client.rank == 1 else ["test"])
        seen.append(m.results["examples"])
        print(json.dumps({{"seen": seen, **({{}} if client.rank == 0 else {{"why": ""}})}}))
        m.close()
        client.close()
    """
    first, other = said_by(launch(data, script))
    assert first["seen"] == other["seen"] == [40000, 4300]


def test_what_fails(data):
    """A worker that cannot read its data ends the run of all workers; calls that workers cannot make fail at once."""
    script = f"""
        import os
        import tug
        try:
            tug.train("train", valid=0.1, format="multislot", slots="{SLOTS}", progress=False)
        except tug.UsageError as error:
            assert "valid needs a driver" in str(error), error
        else:
            raise AssertionError("valid")
        first = os.environ["DMLC_WORKER_ID"] == "0"
        tug.train({{}}, format="multislot", slots="{SLOTS}", progress=False)
    """
    for given, said in (("'train' if first else 'small'", "different files"), ("['train', 'script.py']", "script.py")):
        run = launch(data, script.replace("{}", given))
        assert run.returncode != 0 and said in run.stderr, run.stdout + run.stderr


def test_training_goes_on_after_an_error(tmp_path):
    """A single worker stays in its cluster when its data is damaged, and trains on the data once it is mended."""
    good = "".join(f"{i % 2} {i % 2}:1 {2 + i % 3}:1\n" for i in range(100))
    with tug.local(wait_seconds=30) as client, tug.Model(client=client, own_files=True, format="libsvm", model="fm",
                                                         epochs=1, progress=False) as m:
        for trained in (100, 200):  # before any pass, and after one
            (tmp_path / "data").write_text(good + "x 1:1\n")
            with pytest.raises(tug.DataError, match="data:101: the label 'x'"):
                m.train(tmp_path / "data")
            client.barrier()
            (tmp_path / "data").write_text(good * (trained // 100))
            m.train(tmp_path / "data")
            assert m.results["examples"] == trained


def test_a_worker_that_left_after_an_error(data):
    """With several workers, one whose data is damaged leaves; its later calls fail at once, with the reason."""
    (data / "damaged").write_text("x\n")
    script = f"""
        import contextlib
        import tug
        if tug.role() != "worker":
            with contextlib.suppress(tug.Error):  # no failure, for which launch would end the worker, too
                tug.serve()
            raise SystemExit
        client = tug.connect()
        table = client.table("own", number=9, dim=2)
        m = tug.Model(client=client, own_files=True, format="multislot", slots="{SLOTS}", model="fm", epochs=1,
                      progress=False)
        mine = "train" if client.rank else "damaged"
        for call in (lambda: m.train(mine), lambda: m.train("small"), lambda: table.pull([1]), client.barrier):
            try:
                call()
            except tug.Error as error:
                print("said", str(error).count("left its cluster"), "damaged:1:" in str(error), flush=True)
    """
    run = launch(data, script)
    said = [line[line.index("said"):] for line in run.stdout.splitlines() if "[worker 0]" in line]
    assert said == ["said 0 True"] + 3 * ["said 1 True"], run.stdout + run.stderr


@pytest.mark.parametrize("mode", ["async", "sync"])
def test_a_worker_that_is_slow(data, mode):
    """The others wait for a slow worker, and print at growing intervals which worker they wait for."""
    script = f"""
        import os, time
        import tug
        if tug.role() != "worker":
            tug.serve()
            raise SystemExit
        client = tug.connect(wait_seconds=10)  # a twentieth of it is waited in silence
        if client.rank == 1 and {mode!r} == "async":
            time.sleep(2.5)
        os.environ["SLOW"] = "2.5" if client.rank == 1 and {mode!r} == "sync" else "0"
        m = tug.Model(client=client, format="multislot", slots="{SLOTS}", model="lr", epochs=1, mode={mode!r},
                      pipe_command="cat; sleep $SLOW", progress=False)
        m.train(["small"])
        client.close()
    """
    run = launch(data, script)
    said = [line for line in run.stderr.splitlines() if "already" in line]
    assert run.returncode == 0 and 1 <= len(said) <= 4, run.stderr
    assert all(re.search(r"worker 0.*waiting for worker 1 \(\S+:\d+\) for \d+ s", line) for line in said), said
    assert ("lacks shares of other workers" in run.stderr) == (mode == "sync"), run.stderr


@pytest.mark.parametrize("mode, when", [("async", "in a pass"), ("sync", "in a pass"), ("async", "between calls")])
def test_a_worker_that_dies(data, mode, when):
    """If a worker dies, the others get an error that names it; the model, which lacks its examples, is not used."""
    script = f"""
        import os, signal
        import tug
        if tug.role() != "worker":
            tug.serve()
            raise SystemExit
        mode, when = {mode!r}, {when!r}
        client = tug.connect()
        dies = client.rank == 1
        # In sync, the last worker continues only after both others have ended, one of
        # them because of the other.
        ends = f"kill -9 {{os.getpid()}}" if dies else "sleep 4" if client.rank == 2 and mode == "sync" else ":"
        os.environ["AT_THE_END"] = ends if when == "in a pass" else ":"
        m = tug.Model(client=client, own_files=mode == "async", format="multislot", slots="{SLOTS}", model="fm",
                      epochs=1, mode=mode, pipe_command="cat; eval $AT_THE_END", progress=False)
        try:
            m.train(["train"])
            if dies:
                os.kill(os.getpid(), signal.SIGKILL)
            m.train(["train"])
            print("it returned")
        except OSError as error:
            print("refused:", error)
    """
    run = launch(data, script, workers=3)
    said = r"(its|their) part of pass 1" if when == "in a pass" else "takes no part in this worker's call 2"
    refused = [line for line in run.stdout.splitlines() if "refused:" in line]
    assert "it returned" not in run.stdout and len(refused) == 2, run.stdout + run.stderr
    assert all("worker 1 (" in line and re.search(said, line) for line in refused), run.stdout
