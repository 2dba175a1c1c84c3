"""What the documentation shows is run as it stands there, and so are the examples.

SPDX-License-Identifier: Apache-2.0
"""

import os
import re
import subprocess
import sys

import pytest

PAGES = ("README.md", "docs/python.md", "docs/sklearn.md", "docs/serving.md", "docs/torch.md")
SOURCE = os.environ.get("TUG_SOURCE") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
LAUNCHERS = ([sys.executable, "-m", "tug", "launch"], [os.environ.get("TUG_BINARY", "tug"), "launch"])


def programs():
    for page in PAGES:
        with open(os.path.join(SOURCE, page), encoding="utf-8") as file:
            text = file.read()
        for match in re.finditer(r"((?:^    tug .*\n)*)\n*^```python\n(.*?)^```", text, flags=re.M | re.S):
            line = text[:match.start(2)].count(chr(10)) + 1
            yield pytest.param(match.group(1).split("\n"), match.group(2), id=f"{page}:{line}")


@pytest.mark.parametrize("commands, program", programs())
def test_program(commands, program, tmp_path):
    if "tug.sklearn" in program:
        pytest.importorskip("sklearn", reason="scikit-learn is not there: python3-sklearn")
    if "tug.torch" in program:
        pytest.importorskip("torch", reason="PyTorch is not there: python3-torch")
    env = {k: v for k, v in os.environ.items() if not k.startswith(("DMLC_", "TUG_SCHEDULER", "TRAINING_ROLE"))}
    for command in commands if "tug.Scorer" in program else []:  # those that stand before it make what it reads
        words = [os.environ.get("TUG_BINARY", "tug"), *command.split()[1:]]
        assert not command or subprocess.run(words, cwd=tmp_path, env=env, timeout=90).returncode == 0
    run = subprocess.run([sys.executable, "-W", "error", "-c", program], cwd=tmp_path, env=env, capture_output=True,
                         text=True, timeout=90)
    assert run.returncode == 0, run.stderr


def test_there_are_programs():
    assert len(list(programs())) >= 6


@pytest.mark.parametrize("launcher", LAUNCHERS, ids=["python", "tug"])
def test_logistic_ssp(launcher, tmp_path):
    example = os.path.join(SOURCE, "examples", "logistic_ssp.py")
    run = subprocess.run([*launcher, "--servers", "2", "--workers", "2", "--", sys.executable, example], cwd=tmp_path,
                         capture_output=True, text=True, timeout=90)
    assert run.returncode == 0, run.stderr
    said = re.search(r"2 workers, 2 servers: test AUC (0\.\d+) of 20000 examples", run.stdout)
    assert said and float(said.group(1)) > 0.8, run.stdout  # 0.5 without training
