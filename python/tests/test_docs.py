"""Runs the Python programs of the documentation unchanged; tests/page_test.py runs its commands and the examples.

SPDX-License-Identifier: Apache-2.0
"""

import importlib
import os
import re
import subprocess
import sys

import pytest

PAGES = ("README.md", "docs/python.md", "docs/sklearn.md", "docs/serving.md", "docs/torch.md")
SOURCE = os.environ.get("TUG_SOURCE") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def programs():
    for page in PAGES:
        with open(os.path.join(SOURCE, page), encoding="utf-8") as file:
            text = file.read()
        for match in re.finditer(r"((?:^    tug .*\n)*)\n*^```python\n(.*?)^```", text, flags=re.M | re.S):
            line = text[:match.start(2)].count(chr(10)) + 1
            if not re.match(r"# [a-z_]+\.py\n", match.group(2)):  # tests/page_test.py runs the blocks that are files
                yield pytest.param(match.group(1).split("\n"), match.group(2), id=f"{page}:{line}")


@pytest.mark.parametrize("commands, program", programs())
def test_program(commands, program, tmp_path):
    if "tug.sklearn" in program:
        pytest.importorskip("sklearn", reason="scikit-learn is not there: python3-sklearn")
    if "tug.torch" in program:
        pytest.importorskip("torch", reason="PyTorch is not there: python3-torch")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DMLC_", "TUG_SCHEDULER", "TRAINING_ROLE"))}
    # The commands before such a program make the files that it reads.
    for command in commands if "tug.Scorer" in program else []:
        words = [os.environ.get("TUG_BINARY", "tug"), *command.split()[1:]]
        assert not command or subprocess.run(words, cwd=tmp_path, env=env, timeout=90).returncode == 0
    run = subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=tmp_path, env=env, capture_output=True,
                         text=True, timeout=90)
    assert run.returncode == 0, run.stderr


def test_there_are_programs():
    assert len(list(programs())) >= 6


def test_names_exist():
    """The names of docs/names.md are declared in a header or are attributes of the package."""
    with open(os.path.join(SOURCE, "docs", "names.md"), encoding="utf-8") as file:
        names = set(re.findall(r"`(tug[._][A-Za-z_.]*[a-z])`", file.read()))
    headers = ""
    for name in os.listdir(os.path.join(SOURCE, "include", "tug")):
        if name.endswith(".h"):
            with open(os.path.join(SOURCE, "include", "tug", name), encoding="utf-8") as file:
                headers += file.read()
    assert len(names) > 20
    for name in names:
        if name.startswith("tug_"):
            assert re.search(rf"TUG_API [^;]*\b{name}\(", headers), name
        else:
            assert resolves(name), name


def resolves(name):
    first, *rest = name.split(".")
    at = importlib.import_module(first)
    for part in rest:
        if not hasattr(at, part):
            at = importlib.import_module(f"{at.__name__}.{part}")
        else:
            at = getattr(at, part)
    return at is not None
