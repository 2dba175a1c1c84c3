"""Checks every name of tug's predecessors that the rows list: it works, is refused with an error, or a page of docs/
explains it.

SPDX-License-Identifier: Apache-2.0
"""

import concurrent.futures
import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from typing import FrozenSet

import clicks
import numpy as np
import pytest
from rows import Row, kvstore, one_ps, paddle_v0, ps_lite, sources, transpiler

import tug
import tug.fleet as fluid
import tug.kvstore
from tug.fleet import role_maker

SYSTEMS = {  # each system's rows, and the number of names in its documents
    "Paddle's one-process server": (one_ps.ROWS, 96), "Paddle's first version": (paddle_v0.ROWS, 52),
    "ps-lite": (ps_lite.ROWS, 49), "Fluid's transpiler": (transpiler.ROWS, 39), "MXNet's KVStore": (kvstore.ROWS, 41),
    "sources and suites": (sources.ROWS, 95),
}
# Names of rows that do not pass yet. The list must be empty.
NOT_YET: FrozenSet[str] = frozenset()
ALL = [(system, row) for system, (rows, _) in SYSTEMS.items() for row in rows]
CXX_HEAD = """#include "ps/ps.h"
#include "ps/internal/threadsafe_queue.h"
#include "ps/internal/parallel_sort.h"
#include "ps/internal/parallel_kv_match.h"
#include "ps/internal/assign_op.h"
#include "dmlc/parameter.h"
"""


def names_of_rows():
    return [f"{system}: {row.name}" for system, row in ALL]


def test_every_name_has_a_row():
    assert {system: len(rows) for system, (rows, _) in SYSTEMS.items()} == {s: n for s, (_, n) in SYSTEMS.items()}
    assert len(set(names_of_rows())) == len(ALL)
    assert set(names_of_rows()) >= NOT_YET


def test_counts(capsys):
    with capsys.disabled():
        for system, (rows, _) in SYSTEMS.items():
            missing = sum(f"{system}: {row.name}" in NOT_YET for row in rows)
            counts = Counter(row.counts for row in rows if f"{system}: {row.name}" not in NOT_YET)
            print(f"\n{system}: {len(rows)} rows: {counts['works']} work, {counts['partly']} in part, "
                  f"{counts['refused']} refused, {missing} missing", end="")
    assert not NOT_YET


# ---------------------------------------------------------------- Python

def answers(held, names, says):
    for name in names.split():
        with pytest.raises(AttributeError) as refused_:
            getattr(held, name)
        assert name in str(refused_.value) and says in str(refused_.value) and len(str(refused_.value)) > 30


def raises(says, function, *args):
    with pytest.raises(tug.Error, match=re.escape(says)):
        function(*args)


def takes(function, *args):
    """Raises TypeError unless a method accepts these arguments after self."""
    import inspect
    inspect.signature(function).bind(None, *args)


class Space(contextlib.ExitStack):
    """The objects and helpers that the Python code of rows may use."""

    def __init__(self, tmp):
        super().__init__()
        self.tmp, self.slots = tmp, None

    def alone(self):
        one = fluid.Fleet()
        one.init(role_maker.UserDefinedRoleMaker())
        return one

    def net(self, minimize=True):
        self.slots = clicks.slots()
        out = fluid.net(self.slots, {"model": "lr"})
        if minimize:
            fluid.optimizer.SGD(0.1).minimize(out[0])
        return self.slots, out

    def dataset(self, kind="QueueDataset"):
        if self.slots is None:
            self.net()
        path = os.path.join(self.tmp, "lines")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(clicks.lines_of(100))
        return clicks.dataset_of(kind, [path], self.slots)

    def train(self, data):
        exe = self.enter_context(contextlib.closing(fluid.Executor(fluid.CPUPlace())))
        exe.run(fluid.default_startup_program())
        exe.train_from_dataset(dataset=data)

    def wrapper(self):
        w = fluid.FleetWrapper()
        w.init_worker([fluid.FleetTable(0, "emb", "dim=2"), fluid.FleetTable(1, "fc", "dim=2", {"w": 2})])
        return w

    def store(self, name):
        return tug.kvstore.create(name)

    def names(self):
        mine = {name: getattr(self, name) for name in ("alone", "net", "dataset", "train", "wrapper", "store", "tmp")}
        return {**mine, "tug": tug, "fluid": fluid, "role_maker": role_maker, "np": np, "answers": answers,
                "raises": raises, "takes": takes}


def check_python(row, tmp):
    with Space(tmp) as space, fluid.program_guard(fluid.Program(), fluid.Program()):
        exec(compile(row.what, row.name, "exec"), space.names())


def check_python_refused(row, tmp):
    with pytest.raises((tug.Error, AttributeError)) as refused_:
        check_python(row, tmp)
    for text in row.says:
        assert text in str(refused_.value)
    assert not isinstance(refused_.value, AttributeError) or "object has no attribute" not in str(refused_.value)


# ---------------------------------------------------------------- commands

def command(row, tmp):
    with open(os.path.join(tmp, "clicks.svm"), "w", encoding="utf-8") as file:
        file.writelines(f"{i % 3 // 2} {i % 7}:1 {10 + i % 5}:1\n" for i in range(300))
    tug_is = os.environ.get("TUG_BINARY") or shutil.which("tug")
    if tug_is is None:
        pytest.skip("TUG_BINARY: the command tug is not there")
    done = subprocess.run(["sh", "-c", f'tug() {{ "{tug_is}" "$@"; }}; {row.what}'], cwd=tmp, capture_output=True,
                          text=True, timeout=90)
    for text in row.says:
        assert text in done.stdout + done.stderr
    return done


def check_command(row, tmp):
    done = command(row, tmp)
    assert done.returncode == 0, done.stderr


def check_command_refused(row, tmp):
    assert command(row, tmp).returncode == 2


# ---------------------------------------------------------------- C++

def compiler_says(source, text):
    cxx = os.environ.get("CXX") or shutil.which("c++")
    if cxx is None:
        pytest.skip("a C++ compiler is not there")
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "row.cc")
        with open(path, "w", encoding="utf-8") as file:
            file.write(CXX_HEAD + text)
        done = subprocess.run([cxx, "-std=c++11", "-fsyntax-only", "-w", f"-I{source}/include",
                               f"-I{source}/include/tug/compat", path], capture_output=True, text=True, timeout=90)
    return done.stderr if done.returncode else ""


@pytest.fixture(scope="module")
def compiled(source):
    """Returns the compiler's errors by row. All rows are compiled together; if that fails, each one alone."""
    def one(row):
        return row.name, compiler_says(source, f"void row() {{ {row.what} }}\n")

    rows = [row for _, row in ALL if row.check == "cxx"]
    said = compiler_says(source, "".join(f"void row{i}() {{ {row.what} }}\n" for i, row in enumerate(rows)))
    if not said:
        return {row.name: "" for row in rows}
    bad = {int(n) for n in re.findall(r"void row(\d+)\(\)", said)}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return {**{row.name: "" for row in rows}, **dict(pool.map(one, [rows[i] for i in sorted(bad)] or rows))}


def check_cxx_refused(row, source):
    said = compiler_says(source, row.what + "\n")
    assert said
    for text in row.says:
        assert text in said


# ---------------------------------------------------------------- files

def section_of(source, page):
    """Returns the text of a page or, if it is given with an anchor, of the section with that heading."""
    path, _, anchor = page.partition("#")
    with open(os.path.join(source, path), encoding="utf-8") as file:
        text = file.read()
    if not anchor:
        return text
    parts = re.split(r"^(#+ .*)$", text, flags=re.M)
    for heading, body in zip(parts[1::2], parts[2::2]):
        if re.sub(r"[^a-z0-9 -]", "", heading.lstrip("# ").lower()).replace(" ", "-") == anchor:
            return heading + body
    raise AssertionError(f"{path} has no heading for #{anchor}")


def check_page(row, source):
    text = section_of(source, row.what)
    for words in row.says:
        assert words in text, f"{row.what} does not say {words!r}"


def check_text_of_file(row, source):
    with open(os.path.join(source, row.what), encoding="utf-8") as file:
        text = file.read()
    for words in row.says:
        assert words in text, f"{row.what} does not have {words!r}"


@pytest.mark.parametrize("system, row", ALL, ids=names_of_rows())
def test_row(request, system, row, source, tmp_path):
    assert isinstance(row, Row) and row.counts in ("works", "partly", "refused")
    if f"{system}: {row.name}" in NOT_YET:
        request.applymarker(pytest.mark.xfail(reason="is being built"))
    if row.check == "cxx":
        assert not request.getfixturevalue("compiled")[row.name]
    elif row.check in ("page", "text_of_file", "cxx_refused"):
        globals()[f"check_{row.check}"](row, source)
    else:
        globals()[f"check_{row.check}"](row, str(tmp_path))
