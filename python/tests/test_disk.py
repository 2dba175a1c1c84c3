"""The package removes and replaces only its own files, and it removes links, not their targets.

SPDX-License-Identifier: Apache-2.0
"""

import os
import subprocess
import sys

import pytest

from tug import _disk
from tug.fleet.io import save_over


class Saves:
    """Stands for a model: has only the method that save_over needs."""

    def save(self, directory):
        os.makedirs(os.path.join(directory, "save-000001"))
        for name in ("sparse-0.rows", "manifest.json"):
            with open(os.path.join(directory, "save-000001", name), "w", encoding="utf-8") as file:
                file.write("new")


def write(path, text="mine"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_removes_links_and_not_what_they_lead_to(tmp_path):
    write(tmp_path / "far" / "manifest.json")
    (tmp_path / "link").symlink_to("far")
    (tmp_path / "home" / "sub").mkdir(parents=True)
    (tmp_path / "home" / "sub" / "link").symlink_to(tmp_path / "far")
    _disk.remove_tree(str(tmp_path / "link"))
    _disk.remove_tree(str(tmp_path / "home"))
    _disk.remove_tree(str(tmp_path / "nowhere"))
    assert os.listdir(tmp_path) == ["far"]
    assert (tmp_path / "far" / "manifest.json").read_text() == "mine"


def test_saves_that_were_linked_in_stay(tmp_path):
    write(tmp_path / "other" / "manifest.json")
    write(tmp_path / "model" / "save-000002" / "manifest.json")
    write(tmp_path / "model" / "save-000002" / "sparse-0.rows.0123456789abcdef.tmp")
    write(tmp_path / "model" / "save-000003" / "notes.txt")
    (tmp_path / "model" / "save-000001").symlink_to("../other")
    (tmp_path / "model" / "save-000002" / "sparse-0.rows").symlink_to("../../other/manifest.json")
    save_over(Saves(), tmp_path / "model")
    assert sorted(os.listdir(tmp_path / "model")) == ["save-000003", "save-000004"]
    assert os.listdir(tmp_path / "model" / "save-000003") == ["notes.txt"]  # a file that is not part of a save
    assert (tmp_path / "other" / "manifest.json").read_text() == "mine"


def test_directories_of_others_are_no_saves(tmp_path):
    write(tmp_path / "model" / "save-my-thesis" / "thesis.txt")
    save_over(Saves(), tmp_path / "model")
    assert (tmp_path / "model" / "save-my-thesis" / "thesis.txt").read_text() == "mine"


def test_files_do_not_go_through_links(tmp_path):
    write(tmp_path / "victim")
    for name in ("own", "new", "replaced"):
        (tmp_path / name).symlink_to("victim")
    with pytest.raises(OSError):
        _disk.own_file(str(tmp_path / "own"))
    with pytest.raises(OSError):
        _disk.new_file(str(tmp_path / "new"))
    _disk.replace_file(str(tmp_path / "replaced"), lambda file: file.write(b"new"))
    assert (tmp_path / "replaced").read_text() == "new" and not (tmp_path / "replaced").is_symlink()
    assert (tmp_path / "victim").read_text() == "mine"


def test_a_file_that_fails_leaves_the_older_one(tmp_path):
    write(tmp_path / "file")

    def fails(file):
        file.write(b"half")
        raise ValueError("full")

    with pytest.raises(ValueError):
        _disk.replace_file(str(tmp_path / "file"), fails)
    assert os.listdir(tmp_path) == ["file"] and (tmp_path / "file").read_text() == "mine"


KILLED = """
import os, signal, sys
import numpy as np
import tug
from tug import _disk
X = np.eye(4)[np.arange(40) % 4]
models = [tug.train(X, X[:, 0], model="lr", epochs=1, threads=1, progress=False)]
import copy
models.append(copy.deepcopy(models[0]))
for kind in ("dataset", "fleet", "net", "launch"):
    path = _disk.of_process(kind)
    os.mkdir(os.path.join(path, "model"))
    os.symlink(sys.argv[1], os.path.join(path, "model", "link"))
print("made", flush=True)
sys.stdin.readline()
"""


def kinds_in(directory):
    return sorted(name.split("-")[1] for name in os.listdir(directory) if name.startswith("tug-"))


def test_directories_of_killed_processes(tmp_path):
    """kill -9 leaves a process's temporary directories. The user's next process removes them, but not the directories
    of a running process, nor other directories with similar names."""
    write(tmp_path / "far" / "mine")
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    dead, alive = (subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / "far")], env=env, text=True,
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2))
    try:
        assert dead.stdout.readline() == alive.stdout.readline() == "made\n"
        dead.kill()
        dead.wait()
        assert kinds_in(tmp_path) == sorted(2 * ["copy", "dataset", "fleet", "launch", "model", "net"])
        for name, mode in (("tug-model-2024-latest", 0o755), ("tug-net-1-abcdefgh", 0o700),
                           ("tug-mine-1-abcdefgh", 0o1700)):
            (tmp_path / name).mkdir()
            (tmp_path / name).chmod(mode)
        (tmp_path / "tug-net-2-abcdefgh").symlink_to(tmp_path / "tug-mine-1-abcdefgh")
        subprocess.run([sys.executable, "-c", "import tug"], env=env, check=True, timeout=100)
        left = {name for name in os.listdir(tmp_path) if f"-{alive.pid}-" not in name}
        assert left == {"far", "tug-model-2024-latest", "tug-net-1-abcdefgh", "tug-mine-1-abcdefgh",
                        "tug-net-2-abcdefgh"}
        assert len([name for name in os.listdir(tmp_path) if f"-{alive.pid}-" in name]) == 6
    finally:
        for one in (dead, alive):
            one.kill()
            one.communicate()
    subprocess.run([sys.executable, "-c", "import tug"], env=env, check=True, timeout=100)
    assert not [name for name in os.listdir(tmp_path) if f"-{alive.pid}-" in name]
    assert (tmp_path / "far" / "mine").read_text() == "mine"


def test_copies_of_processes_that_were_killed(tmp_path, monkeypatch):
    """A worker of a Pool is ended by a signal, and leaves its temporary copy of a model, which a later process
    removes."""
    program = ("import multiprocessing as mp, numpy as np, os, tug\n"
               "X = np.eye(20)[np.random.default_rng(0).integers(0, 20, 200)]\n"
               "m = tug.train(X, X[:, 0], model='lr', epochs=1, threads=1, progress=False)\n"
               "with mp.get_context('fork').Pool(2) as pool: pool.map(m.predict, [X] * 4)\n"
               "import copy, pickle\n"
               "other = pickle.loads(pickle.dumps(m))\n"
               "names = [n for n in os.listdir(os.environ['TMPDIR']) if n.startswith('tug-copy-')]\n"
               "assert len(names) == 1 and f'-{os.getpid()}-' in names[0], names\n"
               "assert np.array_equal(other.predict(X), m.predict(X))\n")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert [n for n in os.listdir(tmp_path) if n.startswith("tug-")] == []
