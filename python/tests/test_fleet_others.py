"""Functions of fleet besides the life cycle of a run: shrinking, saving, DataFeeder, and calls that are refused, in one
process and in real processes.

SPDX-License-Identifier: Apache-2.0
"""

import os
import re
import shutil
import signal
import sys
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest
from test_fleet import by_hand

import tug
import tug.fleet as fluid
from tug.fleet import Fleet, PaddleCloudRoleMaker, Role, UserDefinedRoleMaker
from tug.fleet._asked import Asked
from tug.fleet._deal import deal
from tug.fleet._exchange import _reduced, paths_of, said_of, shown, texts_of, value_of
from tug.fleet._gate import _begins, wait_at_gate
from tug.fleet.io import save_over

SCRIPT = f"""
import sys
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
import test_fleet_others
test_fleet_others.run_by_environment()
"""


def shrinks(fleet, root):
    with pytest.raises(tug.UsageError, match="the rows of a net cannot be removed"):
        fleet.shrink(1)
    users = fleet.client.table("users", number=7, accessor="ctr", dim=2, embedx_threshold=0)
    keys = np.arange(30, dtype=np.uint64)[fleet.worker_index()::fleet.worker_num()]
    rows = np.zeros((len(keys), users.push_width), np.float32)
    rows[:, 3] = 1 # the column of shows
    users.push(keys, rows)
    fleet.barrier_worker()
    assert users.stat().rows == 30
    fleet.barrier_worker()
    where = fleet.save_one_table(7, os.path.join(root, "one"))
    assert (where is None) == (fleet.worker_index() != 0)
    assert fleet.shrink(1000) == 30 and users.stat().rows == 0
    fleet.load_one_table(7, os.path.join(root, "one"))
    assert users.stat().rows == 30
    fleet.barrier_worker()
    with pytest.raises(tug.UsageError, match="table_id: 0 is not a table of the program's own .* those are 7 'users'"):
        fleet.load_one_table(0, root)
    with pytest.raises(tug.UsageError, match="mode: 4 is not one of 0 .checkpoint."):
        fleet.save_one_table(7, root, 4)
    with pytest.raises(tug.Error, match="nosuch"):
        fleet.load_one_table(7, os.path.join(root, "nosuch"))
    with pytest.raises(tug.Error) as failed:
        fleet._first_does("do it", lambda: fleet.client.find("nosuch"))
    assert ("worker 0 could not do it" in str(failed.value)) == (fleet.worker_index() != 0)


def calls_that_differ(fleet):
    """If workers make different calls, all of them get the same error, and the next call works."""
    first = fleet.is_first_worker()
    with pytest.raises(tug.UsageError, match=r"different calls, all_reduce\(max\) and all_reduce\(sum\)"):
        fleet.util.all_reduce(1, "sum" if first else "max")
    with pytest.raises(tug.UsageError, match=r"different calls, all_gather and all_reduce\(sum\)"):
        _ = fleet.util.all_reduce(1) if first else fleet.util.all_gather(1)
    assert fleet.util.all_reduce(1) == fleet.worker_num()


def run_by_environment():
    fleet = Fleet()
    fleet.init(PaddleCloudRoleMaker())
    if fleet.is_server():
        fleet.run_server()
        return
    fleet.init_worker()
    calls_that_differ(fleet)
    shrinks(fleet, os.environ["TUG_SAVE_ROOT"])
    fleet.stop_worker()


def test_alone(tmp_path):
    fleet = Fleet()
    fleet.init(UserDefinedRoleMaker(0, Role.WORKER, 1))
    with pytest.raises(tug.UsageError, match="init_worker"):
        fleet.save_dense_params(None, tmp_path)
    fleet.init_worker()
    shrinks(fleet, tmp_path)
    with pytest.raises(tug.Error, match="dense"):
        fleet.save_dense_params(None, tmp_path)
    dense = fleet.client.table("dense", number=1, dim=4)
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    dense.assign([2, 0, 1], values[[2, 0, 1]])
    where = fleet.save_dense_params(None, tmp_path / "new", var_names=["dense"])
    np.testing.assert_array_equal(np.load(where), values.reshape(-1))
    with pytest.raises(tug.UsageError, match="there is no fc_0"):
        fleet.save_dense_params(None, tmp_path, var_names=["fc_0"])
    fleet.stop_worker()


def test_processes(tmp_path):
    by_hand([sys.executable, "-c", SCRIPT], 2, 2, {"TUG_SAVE_ROOT": str(tmp_path)})


@pytest.mark.parametrize("who, where, ends, sentence", [
    ("== 1", "x", "fleet.stop_worker()", "UsageError: worker 1 asked for a save of table 7 by mode 0 into 'ROOT/x', "),
    ("== 1", "x", "", "tug.fleet: worker 1 asked for a save of table 7 by mode 0 into 'ROOT/x', which worker 0 did "),
    (">= 0", "{me}", "fleet.stop_worker()", "Warning: worker 1 asked for a save of table 7 by mode 0 into 'ROOT/1', "),
    (">= 0", "x", "fleet.stop_worker()", None)])
def test_saves_that_the_first_worker_does_not_make(tmp_path, who, where, ends, sentence):
    """Only worker 0 saves. A save that only another worker asks for is an error, one into another place a warning; all
    workers may ask for the same save."""
    script = tmp_path / "run.py"
    script.write_text(textwrap.dedent(f"""
        import os
        from tug.fleet import fleet
        fleet.init()
        if fleet.is_server():
            fleet.run_server()
            raise SystemExit
        fleet.init_worker()
        fleet.client.table("users", number=7, dim=2)
        child = os.fork()
        if child == 0:
            raise SystemExit  # it is no worker, and has nothing to say
        assert os.waitpid(child, 0)[1] == 0
        me = fleet.worker_index()
        if me {who}:
            fleet.save_one_table(7, f"{tmp_path}/{where}")
        {ends}
    """))
    run = [sys.executable, str(script)]
    env = {"TUG_SAVE_ROOT": str(tmp_path)}
    if sentence is not None and "Warning" not in sentence:
        with pytest.raises(AssertionError) as failed:
            by_hand(run, 1, 2, env)
        said = failed.value.args[0]
    else:
        said = "".join(by_hand(run, 1, 2, env))
    assert said == "" if sentence is None else sentence.replace("ROOT", str(tmp_path)) in said, said


@pytest.mark.parametrize("other, sentence", [
    ("film", "nets differ: worker 0's has the slots ['click (ids)', 'movie (ids)', 'user (ids)'], worker 1's ['click"),
    ("movie", "datasets differ: worker 0's has the slots user:ids, movie:ids, click:label, worker 1's movie:ids")])
def test_workers_whose_slots_differ(tmp_path, other, sentence):
    """Workers whose slots have other names would train other rows, and those with another order of slots would mix up
    the layers' inputs. Each of the two is an error on all workers, before the first example."""
    (tmp_path / "data").write_text("1 3 1 4 1 1\n")
    script = tmp_path / "run.py"
    script.write_text(textwrap.dedent(f"""
        import sys
        import tug
        import tug.fleet as fluid
        from tug.fleet import fleet
        fleet.init(fluid.PaddleCloudRoleMaker())
        if fleet.is_server():
            fleet.run_server()
            sys.exit()
        names = ["user", "movie" if fleet.is_first_worker() else "{other}"]
        slots = [fluid.data(name, [1], "int64", lod_level=1) for name in names] + [fluid.data("click", [1], "int64")]
        fluid.optimizer.SGD(0.1).minimize(fluid.net(slots, {{"model": "lr"}})[0])
        data = fluid.DatasetFactory().create_dataset("QueueDataset")
        data.set_use_var(slots if fleet.is_first_worker() else [slots[1], slots[0], slots[2]])
        data.set_filelist([{str(tmp_path / "data")!r}])
        try:
            fleet.init_worker()
            fluid.Executor().train_from_dataset(dataset=data)
        except tug.UsageError as error:
            print(error)
    """))
    for said in by_hand([sys.executable, str(script)], 1, 2):
        assert sentence in said, said


@pytest.mark.parametrize("loads", [False, True])
def test_startup_again(tmp_path, loads):
    """Without a fleet, a second run of the startup program discards the trained or loaded model."""
    (tmp_path / "data").write_text("".join(f"1 {i % 7} 1 {int(i % 7 < 3)}\n" for i in range(500)))
    with fluid.program_guard(fluid.Program()):
        use = [fluid.data("a", [1], "int64", lod_level=1), fluid.data("label", [1], "int64")]
        loss = fluid.net(use, {"model": "lr"})[0]
        fluid.optimizer.Adagrad(0.1).minimize(loss)
        with pytest.raises(tug.UsageError, match="has an optimizer already, adagrad"):
            fluid.optimizer.SGD(0.1).minimize(loss)
        exe, data = fluid.Executor(), fluid.DatasetFactory().create_dataset("QueueDataset")
        data.set_use_var(use)
        data.set_batch_size(10)
        data.set_filelist([str(tmp_path / "data")])
        said = []
        for _ in range(2):
            exe.run(fluid.default_startup_program())
            with pytest.raises(tug.UsageError, match="the net is not trained yet"):
                exe.infer_from_dataset(dataset=data)
            exe.train_from_dataset(dataset=data)
            exe.infer_from_dataset(dataset=data)
            states = fluid.global_scope()
            said.append([np.asarray(states.find_var(name).get_tensor()).sum() for name in ("loss", "auc.stat_pos")])
            if loads:
                fluid.io.save_persistables(exe, tmp_path / "save")
                fluid.io.load_persistables(exe, tmp_path / "save")
        assert said[0] == said[1] and said[0][1] == 2 * 216
        exe.close()


def test_startup_again_in_a_fleet(tmp_path):
    """In a fleet a second run of the startup program after training is an error, because the rows on the servers would
    keep their values."""
    (tmp_path / "data").write_text("1 3 1 1\n1 4 1 0\n")
    with fluid.program_guard(fluid.Program()):
        use = [fluid.data("a", [1], "int64", lod_level=1), fluid.data("label", [1], "int64")]
        fluid.fleet.init(UserDefinedRoleMaker())
        fluid.fleet.distributed_optimizer(fluid.optimizer.SGD(0.1)).minimize(fluid.net(use, {"model": "lr"})[0])
        fluid.fleet.init_worker()
        try:
            exe, data = fluid.Executor(), fluid.DatasetFactory().create_dataset("QueueDataset")
            exe.run(fluid.fleet.startup_program)
            exe.run(fluid.fleet.startup_program)
            data.set_use_var(use)
            data.set_filelist([str(tmp_path / "data")])
            exe.train_from_dataset(dataset=data)
            with pytest.raises(tug.UsageError, match="has learnt already"):
                exe.run(fluid.fleet.startup_program)
        finally:
            fluid.fleet.stop_worker()


def test_a_net_of_a_run_that_was_left(tmp_path):
    """A pass after stop_worker would train a new net from the beginning, on this worker's files alone."""
    (tmp_path / "data").write_text("1 3 1 1\n1 4 1 0\n")
    with fluid.program_guard(fluid.Program()):
        use = [fluid.data("a", [1], "int64", lod_level=1), fluid.data("label", [1], "int64")]
        fluid.fleet.init(UserDefinedRoleMaker())
        fluid.fleet.distributed_optimizer(fluid.optimizer.SGD(0.1)).minimize(fluid.net(use, {"model": "lr"})[0])
        fluid.fleet.init_worker()
        exe, data = fluid.Executor(), fluid.DatasetFactory().create_dataset("QueueDataset")
        try:
            exe.run(fluid.fleet.startup_program)
            data.set_use_var(use)
            with pytest.raises(tug.DataError, match="the dataset is empty: give set_filelist files with examples"):
                exe.train_from_dataset(dataset=data)
            data.set_filelist([str(tmp_path / "data")])
            exe.train_from_dataset(dataset=data)
            with pytest.raises(tug.ArgumentTypeError, match="fetch_list: must be a list"):
                exe.train_from_dataset(dataset=data, fetch_list=use[0])
            fluid.fleet.save_persistables(exe, str(tmp_path / "model"))
        finally:
            fluid.fleet.stop_worker()
        for call in exe.train_from_dataset, exe.infer_from_dataset:
            with pytest.raises(tug.UsageError, match="^stop_worker.. has left the run, .*load_persistables"):
                call(dataset=data)
        fluid.io.load_persistables(exe, str(tmp_path / "model"))
        exe.infer_from_dataset(dataset=data)
        exe.close()


@pytest.mark.parametrize("call, sentence", [
    (lambda a: fluid.data("user", "int64", [1]), r"data: the arguments are \(name, shape, dtype, lod_level\)"),
    (lambda a: fluid.data([1], "user"), r"data: the arguments are \(name"),
    (lambda a: fluid.data("user", [1], [1]), "dtype .* is not one of int64"),
    (lambda a: fluid.net({"model": "lr"}, [a, a]), r"params: must be a dict, .* not a list; net's arguments"),
    (lambda a: fluid.net([a, a], "lr"), "params: must be a dict"),
    (lambda a: fluid.net(a), "inputs: must be slots made by"),
    (lambda a: fluid.DatasetFactory().create_dataset("QueueDataset").set_use_var(a),
     "var_list: must be a list of slots")])
def test_arguments_of_a_net_in_another_order(call, sentence):
    with fluid.program_guard(fluid.Program()), pytest.raises(tug.Error, match=sentence):
        call(fluid.data("a", [1], "int64"))


@pytest.mark.parametrize("params, sentence", [
    ({"model": "mlp", "dim": 4, "hidden": "16,8"}, "hidden='8', here it is '16,8'"),
    ({"model": "mlp", "dim": 4}, None),
    ({"model": "mlp", "dim": 8, "hidden": "8"}, "dim=4, here it is 8"),
    ({"model": "lr"}, "model='mlp', here it is 'lr'"),
    ({"model": "mlp", "dim": 4, "hidden": "8", "seed": 7}, None)])
def test_saves_of_another_net(saved_mlp, params, sentence):
    """A program for inference accepts only a save of its own net; settings that it leaves out come from the save."""
    data, save = saved_mlp
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        use, exe = clicks(params)
        if sentence is not None:
            with pytest.raises(tug.UsageError, match="save-000001: is a model with " + re.escape(sentence)):
                fluid.io.load_persistables(exe, save)
            return
        fluid.io.load_persistables(exe, save)
        exe.infer_from_dataset(dataset=queue_of(use, data))
        exe.close()


def clicks(params):
    use = [fluid.data("a", [1], "int64", lod_level=1), fluid.data("label", [1], "int64")]
    fluid.optimizer.Adagrad(0.1).minimize(fluid.net(use, params)[0])
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    return use, exe


def queue_of(use, data):
    made = fluid.DatasetFactory().create_dataset("QueueDataset")
    made.set_use_var(use)
    made.set_filelist([str(data)])
    return made


@pytest.fixture(scope="module")
def saved_mlp(tmp_path_factory):
    root = tmp_path_factory.mktemp("mlp")
    (root / "data").write_text("1 3 1 1\n1 4 1 0\n")
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        use, exe = clicks({"model": "mlp", "dim": 4, "hidden": "8"})
        exe.train_from_dataset(dataset=queue_of(use, root / "data"))
        fluid.io.save_persistables(exe, root / "save")
        exe.close()
    return root / "data", root / "save"


def test_data_feeder():
    program = fluid.Program()
    with fluid.program_guard(program):
        ids = fluid.data("ids", [1], "int64", lod_level=1)
        fluid.data("numbers", [None, 2], "float32")
        fluid.data("label", [1], "int64")
        feeder = fluid.DataFeeder([ids, "numbers", "label"], fluid.CPUPlace())
    fed = feeder.feed([([5, 6, 5], [0.5, 1], 1), ([], [2, 3], 0)])
    np.testing.assert_array_equal(fed["ids"].values, np.array([5, 6, 5], np.int64))
    np.testing.assert_array_equal(fed["ids"].lod, [0, 3, 3])
    assert fed["ids"].values.dtype == np.int64 and fed["numbers"].dtype == np.float32
    np.testing.assert_array_equal(fed["numbers"], [[0.5, 1], [2, 3]])
    np.testing.assert_array_equal(fed["label"], [[1], [0]])
    assert feeder.feed([])["numbers"].shape == (0, 2)
    for wrong, sentence in (([([1], [1, 2])], "example 0 has 2 values, but there are 3 slots: ids, numbers, label"),
                            ([([1], [1, 2], 0), ([1], [1], 0)],
                             "example 1: slot 'numbers' has 1 values, but must have 2"),
                            ([([0.5], [1, 2], 0)], "slot 'ids' has int64, but was given float64"),
                            ([(["a"], [1, 2], 0)], "slot 'ids'")):
        with pytest.raises(tug.Error, match=sentence):
            feeder.feed(wrong)
    with pytest.raises(tug.UsageError, match="there is no variable 'nosuch'"):
        fluid.DataFeeder(["nosuch"], program=program)
    with pytest.raises(tug.UsageError, match="feed_list: is empty"):
        fluid.DataFeeder([])


@pytest.fixture
def second():
    """A fleet with the role of worker 1, which has not joined a run."""
    fleet = Fleet()
    fleet.init(UserDefinedRoleMaker(1, Role.WORKER, 2, ["127.0.0.1:1"]))
    return fleet


@pytest.mark.parametrize("said", ["/etc", "../x", "tug-fleet-a/../../x", "tug-fleet-", "x", None, 7, ["a"], ""])
def test_home_is_a_name(second, said):
    """Other processes get the name of worker 0's directory by a message, and accept only a plain name, never a path."""
    with pytest.raises(tug.DataError, match="not the name of such a directory"):
        second._told_home(said)


def test_home_is_this_users(second, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    second._told_home("tug-fleet-7-abcdefgh")
    with pytest.raises(tug.DataError, match="worker 0 has the model there"):
        second.saves(0)
    (tmp_path / "tug-fleet-7-abcdefgh").mkdir(mode=0o755)
    with pytest.raises(tug.DataError, match="is not a directory of this user's own"):
        second.saves(0)
    (tmp_path / "tug-fleet-7-abcdefgh").chmod(0o700)
    assert second.saves(3) == str(tmp_path / "tug-fleet-7-abcdefgh" / "model-3")
    (tmp_path / "tug-fleet-7-abcdefgh").rename(tmp_path / "other")
    (tmp_path / "tug-fleet-7-abcdefgh").symlink_to(tmp_path / "other")
    with pytest.raises(tug.DataError, match="is not a directory of this user's own"):
        second.saves(0)


def test_first_worker_keeps_to_its_home(monkeypatch):
    """Worker 0 writes into the directory that it has made itself, whatever other processes say."""
    monkeypatch.setattr("tug.fleet._exchange.Exchange.gather", lambda self, value, call="": ["/nosuch/place"])
    fleet = Fleet()
    fleet.init(UserDefinedRoleMaker(0, Role.WORKER, 1))
    fleet.init_worker()
    try:
        assert fleet.options(0)["out"].startswith(fleet._home)
    finally:
        fleet.stop_worker()


def test_exchanged_values():
    """Values of another process that are damaged or of a dangerous type are refused."""
    deep = b"[" * 100000
    for said in (b"{", b"\xff", deep, b'{"array": [1], "dtype": "O"}', b'{"array": [1], "dtype": "nosuch"}',
                 b'{"array": [[1], [1, 2]], "dtype": "<f8"}', b'{"array": ["a"], "dtype": "<i8"}',
                 b'{"array": [300], "dtype": "<f8,<f8"}', b'{"array": [1], "dtype": ","}',
                 b'{"array": [1], "dtype": {"names": ["a"]}}', b'{"array": [1], "dtype": "f99"}'):
        with pytest.raises(tug.DataError, match="the answer of worker 3 is not a value"):
            value_of(said, "worker 3")
    np.testing.assert_array_equal(value_of(said_of(np.array([1.5, 0.1])), ""), [1.5, 0.1])


def test_names_and_files_of_others():
    """Another worker's files must be absolute paths, and its texts are shown without control characters."""
    for said in (7, None, "ab", [7], [["a"]], {"a": 1}, ["\ud800"]):
        with pytest.raises(tug.DataError, match="the answer of worker 3 is not a list of names"):
            texts_of(said, "worker 3")
    assert texts_of(["a\udcff", ""], "") == ["a\udcff", ""]  # a file's name on disk need not be UTF-8
    for one in ("http://127.0.0.1/x", "../x", "x", "", "-", "/a\0b", "~/x"):
        with pytest.raises(tug.DataError, match="worker 3 names a file without an absolute path"):
            paths_of(["/a", one], "worker 3")
    assert paths_of(["/a", "/b"], "") == ["/a", "/b"]
    assert shown("\x1b[31mred\n\u202e") == "\\x1b[31mred\\n\\u202e" and len(shown(["x" * 100000])) < 1100


@pytest.mark.parametrize("said", [7, None, [], ["a"], [7, 7], ["\x1b[31mred", None], {"0": 1}])
def test_first_worker_says_anything(second, said):
    """Any damaged answer of worker 0 becomes an error of one line."""
    second._client = SimpleNamespace(barrier=lambda: None)
    second._exchange = SimpleNamespace(gather=lambda value: [said, value])
    try:
        with pytest.raises(tug.DataError, match="worker 0 (could not|has sent .* attempt to) shrink") as failed:
            second._first_does("shrink", lambda: 1)
        assert failed.value.args[0].isprintable()
    finally:
        second._client = second._exchange = None


def test_sizes_are_bounded(monkeypatch):
    fleet = Fleet()
    fleet.init(UserDefinedRoleMaker(0, Role.WORKER, 1))
    fleet.init_worker()
    try:
        assert fleet.util.all_reduce([2 ** 62, 1]) == [2 ** 62, 1]
        assert fleet.util.all_gather({"a": [None, 1.5]}) == [{"a": [None, 1.5]}]
        monkeypatch.setattr(fleet.exchange, "_all", lambda said: [(1 << 60).to_bytes(8, "little") + said[8:]])
        with pytest.raises(tug.DataError, match="worker 0 announces a value of 1152921504606846976 bytes"):
            fleet.util.all_gather(1)
    finally:
        fleet.stop_worker()


def test_whole_sums_do_not_wrap():
    two = [np.array([2 ** 62]), np.array([2 ** 62])]
    with pytest.raises(tug.UsageError, match="9223372036854775808, does not fit in int64"):
        _reduced(two, "sum")
    assert _reduced([np.array(5), np.array(-7)], "sum") == -2
    assert _reduced([np.array(True), np.array(True)], "sum") == 2
    assert _reduced([np.uint64(2 ** 63), np.uint64(1)], "max") == 2 ** 63


@pytest.mark.parametrize("size, text", [(1e9, b"[]"), (-1, b"[]"), (2.5, b"[]"), (2, b"[]"),
                                        (13, b'["relative",1]'), (12, b'["/a","../x"]'), (6, b'["/a"]')])
def test_gate(client, size, text):
    """The note at the gate is refused if it is too long, or is not a path and tables of a net."""
    table = client.table("fleet_gate", number=3, accessor="plain", dim=1024, rule="sum")
    rows = np.zeros((2, 1024), np.float32)
    rows[0, :2] = 1, size
    words = np.frombuffer(text + b" " * (len(text) % 2), "<u2")
    rows[1, :len(words)] = words
    table.assign([0, 1], rows)
    with pytest.raises(tug.DataError, match="server 0 "):
        _begins(table, float(rows[0, 1]))


def test_gate_that_stays_closed():
    """A worker whose servers do not run the script says so while it waits, and in its error."""
    with tug.local(wait_seconds=0.2) as alone:
        with pytest.raises(tug.Timeout, match="after 0.2 s: servers must run this script"):
            with pytest.warns(tug.Warning, match="waits until server 0 opens the run: servers must run this script"):
                wait_at_gate(alone)


@pytest.mark.parametrize("size, text", [(1e9, b"[]"), (0, b""), (2, b"{["), (3, b"[1]"), (2, b"{}")])
def test_notes_of_others(client, size, text):
    """A note that a worker has left is refused if it is too long, or is not a list of texts."""
    table = client.table("fleet_gate", number=3, accessor="plain", dim=1024, rule="sum")
    rows = np.zeros((2, 1024), np.float32)
    rows[0, :2] = 1, size
    rows[1, :2] = np.frombuffer(text.ljust(4), "<u2")
    table.assign([2 << 32, (2 << 32) + 1], rows)
    with pytest.raises(tug.DataError, match="worker 1 "):
        Asked().settle(client, 0, 2)


def test_dealt_rows_are_counted(client):
    """global_shuffle refuses counts of other workers that differ from the number of rows on the servers."""
    said = SimpleNamespace(client=client, worker_index=lambda: 0, worker_num=lambda: 2, barrier_worker=lambda: None,
                           util=SimpleNamespace(all_gather=lambda sizes: [sizes, [1 << 60, 1]]))
    with pytest.raises(tug.DataError, match="workers say that they have dealt"):
        deal(said, [b"1 1\n"] * 10, 1)


class Saves:
    """Stands for a model: its save consists of one file."""

    def __init__(self, text):
        self.text = text

    def save(self, directory):
        os.makedirs(os.path.join(directory, "save-000001"))
        with open(os.path.join(directory, "save-000001", "x.rows"), "w") as file:
            file.write(self.text)


def held(root):
    return sorted(path.read_text() for path in root.rglob("x.rows"))


def test_save_over_keeps_the_older_one(tmp_path, monkeypatch):
    save_over(Saves("old"), tmp_path / "model")

    def failing(source, target):
        raise OSError("disk")

    monkeypatch.setattr(os, "replace", failing)
    with pytest.raises(OSError, match="disk"):
        save_over(Saves("new"), tmp_path / "model")
    monkeypatch.undo()
    assert held(tmp_path) == ["old"] and os.listdir(tmp_path / "model") == ["save-000001"]
    save_over(Saves("new"), tmp_path / "model")
    assert held(tmp_path) == ["new"] and os.listdir(tmp_path / "model") == ["save-000002"]


@pytest.mark.parametrize("killed", range(6))
def test_save_over_that_is_killed(tmp_path, killed):
    """A process is killed before or after each change to the directory. The older save or the new one is always there,
    and the next save removes what the dead process has left."""
    save_over(Saves("old"), tmp_path / "model")
    pid = os.fork()
    if pid == 0:
        calls = []

        def dying(change):
            def changed(*args, **kwargs):
                calls.append(change)
                if len(calls) == killed // 2 + 1 and killed % 2 == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                change(*args, **kwargs)
                if len(calls) == killed // 2 + 1:
                    os.kill(os.getpid(), signal.SIGKILL)
            return changed

        os.replace, os.unlink, shutil.rmtree = dying(os.replace), dying(os.unlink), dying(shutil.rmtree)
        save_over(Saves("new"), tmp_path / "model")
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    saves = sorted((tmp_path / "model").glob("save-" + 6 * "[0-9]"))
    assert saves and held(saves[-1]) == (["old"] if killed == 0 else ["new"])
    save_over(Saves("newest"), tmp_path / "model")
    assert held(tmp_path) == ["newest"]
    assert os.listdir(tmp_path) == ["model"] and len(os.listdir(tmp_path / "model")) == 1


def test_metrics():
    assert fluid.metrics.max(3) == fluid.metrics.min(3) == 3 and fluid.metrics.acc(3, 4) == 0.75
    assert fluid.metrics.mae(np.array([1.0, 2.0]), 4) == 0.75 and fluid.metrics.mse(4, 16) == 0.25
    assert fluid.metrics.rmse(4, 16) == 0.5 and np.isnan(fluid.metrics.acc(0, 0))
