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
# The program that runs a notebook. Cells are compiled under the notebook's name and the cell's number, for
# tracebacks. Figures are drawn without a display. If the last statement of a cell is an expression, its value is
# shown as Jupyter does. The arguments after the path are names of modules whose import must fail.
RUN = """
import ast, json, os, sys
os.environ.setdefault("MPLBACKEND", "Agg")
path = sys.argv[1]
sys.modules.update(dict.fromkeys(sys.argv[2:]))
names = {"__name__": "__main__"}
with open(path, encoding="utf-8") as file:
    cells = json.load(file)["cells"]
for i, cell in enumerate(cells):
    if cell["cell_type"] == "code":
        where, body = f"{os.path.basename(path)}, cell {i}", ast.parse("".join(cell["source"])).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), where, "exec"), names)
        shown = None if last is None else eval(compile(ast.Expression(last.value), where, "eval"), names)
        if shown is not None:
            print(shown._repr_html_() if hasattr(shown, "_repr_html_") else shown)
"""


def name_of(path):
    return os.path.basename(path)


def shown(path, tmp_path, *hidden):
    """Runs a notebook without the hidden modules, and returns what it shows."""
    run = subprocess.run([sys.executable, "-c", RUN, path, *hidden], cwd=tmp_path, capture_output=True, text=True,
                         timeout=150)
    assert run.returncode == 0, run.stdout + run.stderr
    assert os.listdir(tmp_path) == []  # the notebook leaves no files
    return run.stdout


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name_of)
def test_runs(path, tmp_path):
    if "sklearn" in name_of(path):
        pytest.importorskip("sklearn", reason="scikit-learn is not there: python3-sklearn")
    assert "<strong>tug.Model</strong>" in shown(path, tmp_path)  # each notebook shows a model


def test_the_first_one_does_without_matplotlib(tmp_path):
    first = next(path for path in NOTEBOOKS if name_of(path) == "first_model.ipynb")
    assert "validation loss" in shown(first, tmp_path, "matplotlib", "matplotlib.pyplot", "pandas")


def test_the_first_one_plots(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not there: python3-matplotlib")
    first = next(path for path in NOTEBOOKS if name_of(path) == "first_model.ipynb")
    assert "validation loss" not in shown(first, tmp_path)  # the curves replace the numbers


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
