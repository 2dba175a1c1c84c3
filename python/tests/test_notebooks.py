"""Runs the notebooks of examples/ unchanged, cell by cell, without Jupyter; their assertions must hold.

SPDX-License-Identifier: Apache-2.0
"""

import glob
import json
import os
import subprocess
import sys

import pytest

SOURCE = os.environ.get("TUG_SOURCE") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
NOTEBOOKS = sorted(glob.glob(os.path.join(SOURCE, "examples", "*.ipynb")))
# Cells are compiled under the notebook's name and the cell's number, for tracebacks. Figures are drawn without a
# display.
RUN = """
import json, os, sys
os.environ.setdefault("MPLBACKEND", "Agg")
path = sys.argv[1]
names = {"__name__": "__main__"}
with open(path, encoding="utf-8") as file:
    cells = json.load(file)["cells"]
for i, cell in enumerate(cells):
    if cell["cell_type"] == "code":
        exec(compile("".join(cell["source"]), f"{os.path.basename(path)}, cell {i}", "exec"), names)
"""


def name_of(path):
    return os.path.basename(path)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_runs(path, tmp_path):
    if "sklearn" in name_of(path):
        pytest.importorskip("sklearn", reason="scikit-learn is not there: python3-sklearn")
    run = subprocess.run([sys.executable, "-c", RUN, path], cwd=tmp_path, capture_output=True, text=True, timeout=150)
    assert run.returncode == 0, run.stdout + run.stderr
    assert os.listdir(tmp_path) == []  # the notebook leaves no files


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_is_as_it_was_written(path):
    """Notebooks are committed in Jupyter's format without outputs, which could contain paths of a machine."""
    with open(path, encoding="utf-8") as file:
        book = json.load(file)
    assert book["nbformat"] == 4 and book["metadata"]["kernelspec"]["language"] == "python"
    kinds = [cell["cell_type"] for cell in book["cells"]]
    assert kinds[0] == "markdown" and kinds.count("code") >= 3 and set(kinds) == {"markdown", "code"}
    assert all(cell["outputs"] == [] and cell["execution_count"] is None
               for cell in book["cells"] if cell["cell_type"] == "code")
    assert all(len(line) <= 121 for cell in book["cells"] if cell["cell_type"] == "code" for line in cell["source"])


def test_there_are_notebooks():
    assert {"first_model.ipynb", "follow.ipynb", "sklearn_grid.ipynb"} <= set(map(name_of, NOTEBOOKS))
