"""Wrong arguments and missing memory raise an exception of tug whose message names the argument, never an exception
from inside the package.

SPDX-License-Identifier: Apache-2.0
"""

import ast
import pathlib
import resource
import warnings

import numpy as np
import pytest

import tug

TERA = 2 ** 39 # a number of floats that take two TiB, more than the tests allow

WRONG = {  # by name: a call with (client, table, dense, communicator), its exception, and a pattern of the message
    "dense": (lambda c, t, d, k: t.dense(3), TypeError, "variables: must be a dictionary.*not int"),
    "dense-list": (lambda c, t, d, k: t.dense([]), TypeError, "variables: must be a dictionary.*not list"),
    "dense-name": (lambda c, t, d, k: t.dense({1: 2}), TypeError, "variables: a name must be a text, not int"),
    "views": (lambda c, t, d, k: d.views(3), TypeError, "flat: must be a numpy array of 7 floats, not int"),
    "views-shape": (lambda c, t, d, k: d.views(np.zeros(3)), ValueError, r"flat: has the shape \(3,\).*\(7,\)"),
    "flat-names": (lambda c, t, d, k: d.assign({1: 2}), ValueError, "lacks a, b; there is no variable 1"),
    "variable": (lambda c, t, d, k: d.pull_range([], 0, 1), TypeError, "variable: must be one of a, b, not list"),
    "no-variable": (lambda c, t, d, k: d.pull_range("c", 0, 1), ValueError, "variable: 'c' is not one of a, b"),
    "dense-memory": (lambda c, t, d, k: d.pull_range("a", 0, TERA), MemoryError, "n: not enough memory"),
    "pull-range": (lambda c, t, d, k: t.pull_range([], 3), TypeError, "first: must be an integer, not list"),
    "pull-range-n": (lambda c, t, d, k: t.pull_range(0, []), TypeError, "n: must be an integer, not list"),
    "pull-range-memory": (lambda c, t, d, k: t.pull_range(0, TERA), MemoryError, "out: not enough memory"),
    "push-range": (lambda c, t, d, k: t.push_range(0, [[1, 2], [3]]), TypeError, "values: .* different lengths"),
    "pull-ragged": (lambda c, t, d, k: t.pull([[1, 2], [3]]), TypeError, "keys: has rows of different lengths"),
    "pull-dict": (lambda c, t, d, k: t.pull({1: 2}), TypeError, "keys: keys are integers .* not {1: 2}"),
    "pull-large": (lambda c, t, d, k: t.pull([1, 2 ** 64]), TypeError, "keys: .* not 18446744073709551616"),
    "pull-memory": (lambda c, t, d, k: t.pull(np.broadcast_to(np.uint64(1), (TERA,))), MemoryError, "keys: "),
    "push-ragged": (lambda c, t, d, k: t.push([1, 2], [[1, 2], [3]]), TypeError, "values: .* different lengths"),
    "auc": (lambda c, t, d, k: t.auc_add([[1], [2, 3]], [1]), TypeError, "probabilities: .* different lengths"),
    "shrink": (lambda c, t, d, k: t.shrink("x"), TypeError, "threshold: must be a number, not str"),
    "count": (lambda c, t, d, k: tug.count("x"), TypeError, "pulled: must be floats"),
    "settings": (lambda c, t, d, k: c.table("s", settings=3), TypeError, "settings: must be a text, not int"),
    "setting": (lambda c, t, d, k: c.table("s", init=("a", "b")), TypeError, "init: .* must be a number, not str"),
    "communicator": (lambda c, t, d, k: c.communicator(1), TypeError, "tables: must be a list of tug.Table, not int"),
    "communicator-of": (lambda c, t, d, k: c.communicator([1]), TypeError, r"tables\[0\]: must be a tug.Table, not"),
    "communicator-by": (lambda c, t, d, k: c.communicator([t], grad_reduce=[]), TypeError, "grad_reduce: must be one"),
    "send": (lambda c, t, d, k: k.send(3, [1], [[1, 2]]), TypeError, "table: must be a tug.Table, not int"),
    "send-for": (lambda c, t, d, k: k.send(t, [1], [[1, 2]], timeout="x"), TypeError, "timeout: must be a number"),
    "stat": (lambda c, t, d, k: k.stat(3), TypeError, "table: must be a tug.Table, not int"),
    "flush": (lambda c, t, d, k: c.flush("x"), TypeError, "timeout: must be a number, not str"),
    "wait": (lambda c, t, d, k: t.pull_async([1]).wait("x"), TypeError, "timeout: must be a number, not str"),
    "save-mode": (lambda c, t, d, k: c.save("x", mode=[]), TypeError, "mode: must be one of checkpoint, .* not list"),
    "save-tables": (lambda c, t, d, k: c.save("x", tables=3), TypeError, "tables: must be a list of tables"),
    "save-table": (lambda c, t, d, k: c.save("x", tables=[-1]), ValueError, "tables: -1 is not from 0 to 4095"),
    "role": (lambda c, t, d, k: tug.serve("boss"), ValueError, "as_role: 'boss' is not one of scheduler, server"),
    "serve": (lambda c, t, d, k: tug.serve("server", wait_seconds="x"), TypeError, "wait_seconds: must be a number"),
    "launch": (lambda c, t, d, k: tug.launch(3), TypeError, "command: must be a list of words"),
    "launch-word": (lambda c, t, d, k: tug.launch(["sh", 3]), TypeError, r"command\[1\]: must be a text, not int"),
    "launch-env": (lambda c, t, d, k: tug.launch(env={"A": 3}), TypeError, r"env\['A'\]: must be a text, not int"),
    "launch-envs": (lambda c, t, d, k: tug.launch(env=3), TypeError, "env: must be a dictionary of texts, not int"),
    "launch-root": (lambda c, t, d, k: tug.launch(save_root=3), TypeError, "save_root: must be a text, not int"),
    "launch-dead": (lambda c, t, d, k: tug.launch(dead_seconds="x"), TypeError, "dead_seconds: must be a number"),
}


@pytest.fixture(scope="module")
def all_of_it():
    with tug.local(wait_seconds=60) as client:
        table = client.table("w", dim=2)
        dense = client.table("layers", dim=1).dense({"a": 3, "b": (2, 2)})
        with client.communicator([table]) as communicator:
            yield client, table, dense, communicator


@pytest.fixture(autouse=True)
def bounded():
    """Limits the address space during a test: a system that overcommits would grant huge allocations, and fail
    later."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (2 ** 40, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(all_of_it, name):
    call, kind, words = WRONG[name]
    with pytest.raises(tug.Error, match=words) as raised:
        call(*all_of_it)
    assert isinstance(raised.value, kind), repr(raised.value)
    assert "\n" not in str(raised.value)
    np.testing.assert_array_equal(all_of_it[1].pull([1]).shape, (1, 2))  # objects that were open still work


def test_warnings_have_the_package_s_category():
    """Each warning of the package is a tug.Warning, a ResourceWarning, or one of scikit-learn's; all but the second
    name the program's line, by warn_of."""
    assert issubclass(tug.Warning, UserWarning)
    wrong = []
    for path in sorted(pathlib.Path(tug.__file__).parent.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call):
                continue
            function = ast.unparse(call.func)
            category = ast.unparse(call.args[1]) if len(call.args) > 1 else None
            if function.endswith("warn_of") and category not in (None, "ConvergenceWarning") or (
                    function == "warnings.warn" and path.name != "_errors.py" and category != "ResourceWarning"):
                wrong.append(f"{path.name}:{call.lineno}: {function} {category}")
    assert wrong == []


def test_calls_warn(tmp_path, capfd):
    """Options without effect, and a run in which nothing is left to train, are told by tug.Warning at the line of the
    program, and not on standard error."""
    frame = {"y": [0, 1] * 50, "color": ["red", "blue", "green", "red"] * 25}
    options = {"model": "lr", "epochs": 1, "progress": False, "out": tmp_path / "out", "threads": 1}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        tug.train(frame, label="y", dim=4, **options).close()
        tug.Model(label="y", resume=True, **options).train(frame).close()
    assert all(w.category is tug.Warning and w.filename == __file__ for w in found)
    assert [str(w.message).partition(":")[0] for w in found] == ["dim has no effect", "there was nothing to train"]
    assert capfd.readouterr().err == ""
    with warnings.catch_warnings():
        warnings.simplefilter("error", tug.Warning)
        with pytest.raises(tug.Warning, match="there was nothing to train: the run in .* has done 1 pass, and no more"):
            tug.train(frame, label="y", resume=True, **options)


def test_scoring_warns(tmp_path, capfd):
    """Warnings of the library in a call that scores are tug.Warnings: filters apply to them, and nothing is printed."""
    y = [i % 2 for i in range(400)]
    model = tug.train({"y": y, "c": [f"w{i % 7}" for i in range(400)]}, label="y", model="lr", epochs=1, progress=False)
    model.save(tmp_path / "m")
    other = {"y": y, "c": [f"v{i % 7}" for i in range(400)]}
    words = "the model knows 0.0 % of the values of column 'c' .*'v0', 'v1', 'v2'"
    scorer = tug.Scorer(tmp_path / "m")
    for score in (model.predict, model.evaluate, model.importance, model.calibration, scorer.predict):
        with pytest.warns(tug.Warning, match=words):
            score(other)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tug.Warning)
            score(other)
    assert "knows" not in capfd.readouterr().err
    with warnings.catch_warnings():
        warnings.simplefilter("error", tug.Warning)
        with pytest.raises(tug.Warning):
            model.predict(other)


def test_names_with_commas():
    """A comma separates the names of columns, so a name with one is refused instead of read as two."""
    for keyword in ("drop", "numeric", "lists"):
        with pytest.raises(tug.UsageError, match=f"{keyword}: 'a,b' has a comma, which separates names.* rename"):
            tug.train({"y": [0, 1], "a,b": [1, 2]}, label="y", progress=False, **{keyword: ["a,b"]})


@pytest.mark.parametrize("name, why", [("create_ffm", "model='ffm'"), ("create_linear", "model='lr'"),
                                       ("kvstore_", "tug has no 'kvstore_'$"), ("DMatrix", "to tug.train")])
def test_names_of_other_libraries(name, why):
    with pytest.raises(AttributeError, match=why):
        getattr(tug, name)
