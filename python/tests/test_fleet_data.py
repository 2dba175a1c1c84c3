"""The data of fleet: lines of slots, both kinds of datasets, generators and shuffles.

SPDX-License-Identifier: Apache-2.0
"""

import re
import subprocess
import sys
import textwrap

import pytest
from clicks import dataset_of, lines_of, loss_of, slots, value, zero
from test_fleet import by_hand

import tug
import tug.fleet as fluid
from tug.fleet._origins import read_lines, untagged


@pytest.mark.parametrize("line", ["1 3 1 x 2 1 2 1 0", "1 3 1 4 2 1 nan 1 0", "1 3 1 4 1 1 1 0", "1 3 7 4 2",
                                  "1 3 1 4 2 1 2 1 0 1 9", "1 3 1 4 2 1 2", "1 3 1 4 2 1 2 1 2", ""])
def test_lines_that_are_wrong(program, tmp_path, line):
    use = slots()
    (tmp_path / "data").write_text("1 3 1 4 2 1 2 1 0\n" + line + "\n")
    fluid.optimizer.SGD(0.1).minimize(fluid.net(use, {"model": "lr"})[0])
    fluid.Executor().run()
    with pytest.raises(tug.DataError, match="data:2: "):
        fluid.Executor().train_from_dataset(dataset=dataset_of("QueueDataset", [tmp_path / "data"], use))


@pytest.mark.parametrize("shuffled", [False, True])
def test_lines_in_memory_that_are_wrong(program, tmp_path, shuffled):
    """A pass reads files that the dataset has made, but error messages name the user's file and line."""
    use = slots()
    for name in ("first", "data"):
        (tmp_path / name).write_text("1 3 1 4 2 1 2 1 0\n")
    with open(tmp_path / "data", "a") as file:
        file.write("1 3 1 4 2 1 2 1 x\n")
    fluid.optimizer.SGD(0.1).minimize(fluid.net(use, {"model": "lr"})[0])
    fluid.Executor().run()
    data = dataset_of("InMemoryDataset", [tmp_path / "first", tmp_path / "data"], use)
    data.set_pipe_command("sed 's/ /  /'")
    data.load_into_memory()
    if shuffled:
        data.set_fea_eval(10)
        data.slots_shuffle(["a"])
    with pytest.raises(tug.DataError, match=f"^{tmp_path}/data:2: the label 'x'"):
        fluid.Executor().train_from_dataset(dataset=data)
    data.set_pipe_command("grep nothing || true")
    with pytest.raises(tug.DataError, match=f"^{tmp_path}/first: the pipe command wrote nothing"):
        data.load_into_memory()


@pytest.mark.parametrize("said", [b"1 1 1\n", b"0:x 1 1\n", b"0:1:2 1 1\n", b"2:1 1 1\n", b"-1:1 1 1\n",
                                  b"99999999999999999999:1 1 1\n"])
def test_lines_that_others_have_dealt(said):
    with pytest.raises(tug.DataError, match="global_shuffle: a worker has (dealt|sent)"):
        untagged([b"1:7 1 1\n", said], ["a", "b"])


def test_origins(tmp_path):
    """An origins file is used only if it covers all lines of its file."""
    path, said = str(tmp_path / "made"), tmp_path / ".made.origins"
    (tmp_path / "made").write_text("a\nb\nc")
    for text, want in (("F /x\nF y z\n1 7 1\n2 1 0\n", ["y z:7", "/x:1", "/x:2"]),
                       ("P\nF x\n1 9 0\n", ["x:9", "x:10", "x:11"])):
        said.write_text(text)
        assert [read_lines([path]).where(i) for i in range(3)] == want
    for text in ("", "F x\n", "1 1 0\n", "F x\n2 1 0\n", "F x\n1 1 1\n", "F x\n1 1 -1\n", "F x\n1 1 0\n1 2 0\n",
                 "F x\n1 1\n", "F x\n1 a 0\n", "F x\n1 99999999999999999999 0\n"):
        said.write_text(text)
        assert [read_lines([path]).where(i) for i in range(3)] == [f"{path}:{i}" for i in (1, 2, 3)], text


def test_datasets(program, tmp_path):
    """Both kinds of datasets read the same examples, from gzip files and through pipe commands, and report their
    sizes."""
    text = "".join(lines_of(300))
    (tmp_path / "plain").write_text(text)
    subprocess.run(["gzip", "-k", tmp_path / "plain"], check=True)
    use = slots()
    fluid.optimizer.SGD(0.1).minimize(fluid.net(use, {"model": "lr"})[0])
    exe = fluid.Executor()
    exe.run()
    queue = dataset_of("QueueDataset", [tmp_path / "plain", tmp_path / "plain.gz"], use, 128)
    exe.train_from_dataset(dataset=queue)
    memory = dataset_of("InMemoryDataset", [tmp_path / "plain", tmp_path / "plain.gz"], use, 128)
    memory.preload_into_memory()
    memory.wait_preload_done()
    assert memory.get_memory_data_size() == 600 and memory.get_shuffle_data_size() == 0
    assert loss_of(exe, memory) == loss_of(exe, queue)
    (tmp_path / "other").write_text(re.sub(r"(?m)^1 ", "1 1", text))  # prefixes the ids of slot a with a 1
    memory.set_pipe_command("sed 's/^1 /1 1/'")
    memory.load_into_memory()
    queue.set_pipe_command("sed 's/^1 /1 1/'")
    piped = loss_of(exe, dataset_of("QueueDataset", [tmp_path / "other"] * 2, use))
    assert loss_of(exe, memory) == loss_of(exe, queue) == piped
    memory.global_shuffle()
    assert memory.get_shuffle_data_size() == 600 and loss_of(exe, memory) == piped
    exe.train_from_dataset(dataset=queue)  # the pipe command differs from that of the first pass
    memory.release_memory()
    with pytest.raises(tug.UsageError, match="call load_into_memory first"):
        memory.local_shuffle()
    memory.set_filelist([str(tmp_path / "plain")])
    memory.set_pipe_command("cat; exit 3")
    with pytest.raises(tug.DataError, match="plain: the pipe command ended with exit code 3"):
        memory.load_into_memory()
    memory.set_filelist(["/nosuch"])
    with pytest.raises(tug.DataError, match="/nosuch: there is no such file"):
        memory.load_into_memory()
    for wrong in (lambda: memory.init(fs_name="x"), lambda: memory.set_batch_size(0),
                  lambda: memory.set_hdfs_config("a", "b"), lambda: memory.set_filelist("x"),
                  lambda: fluid.DatasetFactory().create_dataset("FileInstantDataset")):
        with pytest.raises(tug.UsageError):
            wrong()


@pytest.mark.parametrize("kind", ["QueueDataset", "InMemoryDataset", "shuffled"])
def test_a_save_remembers_the_pipe_command(program, tmp_path, kind):
    """An error about data that did not go through the command says so, whichever dataset has run the command."""
    text = "".join(lines_of(300))
    (tmp_path / "raw").write_text(re.sub("(?m)^", "junk ", text))
    (tmp_path / "plain").write_text(text)
    use = slots()
    fluid.optimizer.SGD(0.1).minimize(fluid.net(use, {"model": "lr"})[0])
    exe = fluid.Executor()
    exe.run()
    for name, command, piped in (("raw", "sed 's/^junk //'", True), ("plain", "cat", False)):
        data = dataset_of(kind if kind != "shuffled" else "InMemoryDataset", [tmp_path / name], use)
        data.set_pipe_command(command)
        if kind != "QueueDataset":
            data.load_into_memory()
        if kind == "shuffled":
            data.set_fea_eval(10)
            data.slots_shuffle(["a"])
        exe.train_from_dataset(dataset=data)
        fluid.io.save_persistables(exe, tmp_path / f"of-{name}")
        with tug.load(tmp_path / f"of-{name}") as saved, pytest.raises(tug.DataError, match="raw:1: ") as error:
            saved.evaluate(str(tmp_path / "raw"))
        assert ("was trained on the output of a" in str(error.value)) == piped, error.value


def test_slots_shuffle(program, tmp_path):
    """Shuffling slots a and x lowers the AUC of a model much, shuffling slot b hardly at all."""
    (tmp_path / "data").write_text("".join(lines_of(2000)))
    use = slots()
    fluid.optimizer.Adagrad(0.2).minimize(fluid.net(use, {"model": "lr"})[0])
    exe = fluid.Executor()
    exe.run()
    data = dataset_of("InMemoryDataset", [tmp_path / "data"], use)
    with pytest.raises(tug.UsageError, match="call load_into_memory first"):
        data.set_fea_eval(1000, True)
        data.slots_shuffle(["a"])
    data.load_into_memory()
    exe.train_from_dataset(dataset=data)

    def auc():
        zero()
        exe.infer_from_dataset(dataset=data)
        return value("auc")

    whole = auc()
    data.slots_shuffle(["a"])
    without_a = auc()
    data.slots_shuffle(["b"])  # starts from the unshuffled examples
    without_b = auc()
    data.slots_shuffle(["a", "x"])
    assert whole - without_a > 0.1 > whole - without_b and auc() < without_a
    assert data.get_memory_data_size() == 2000
    data.load_into_memory()
    assert auc() == whole
    for wrong, sentence in ((["c"], "there is no c; there are a, b, x, label"), ("a", "list of names")):
        with pytest.raises(tug.UsageError, match=sentence):
            data.slots_shuffle(wrong)
    data.set_fea_eval(1, False)
    with pytest.raises(tug.UsageError, match="set_fea_eval"):
        data.slots_shuffle(["a"])
    with pytest.raises(tug.UsageError, match="--merge-ids"):
        data.set_merge_by_lineid(2)
    (tmp_path / "data").write_text("1 3 1 4 2 1 2 1 0\n1 3 2 4 2 1 2 1\n")
    data.load_into_memory()
    data.set_fea_eval(1000)
    with pytest.raises(tug.DataError, match="data:2: slots_shuffle: the line does not have 4 slots"):
        data.slots_shuffle(["a"])


def test_generator(monkeypatch, capsys):
    class Ours(fluid.MultiSlotDataGenerator):
        def generate_sample(self, line):
            return lambda: [[("a", [int(w) for w in line.split()]), ("y", [0.5])]]

    monkeypatch.setattr(sys, "stdin", ["1 2\n", "3\n"])
    Ours().run_from_stdin()
    assert capsys.readouterr().out == "2 1 2 1 0.5\n1 3 1 0.5\n"
    monkeypatch.setattr(sys, "stdin", ["\n"])
    with pytest.raises(tug.DataError, match="slot 'a' must have numbers, at least one"):
        Ours().run_from_stdin()


def test_generators_of_words_and_from_memory(capsys):
    class Words(fluid.MultiSlotStringDataGenerator):
        def generate_sample(self, line):
            return lambda: iter([[("a", words)] for words in (["7", "8"], ["9"], ["1 2"])])

    words = Words()
    words.set_batch(1)
    with pytest.raises(tug.DataError, match="slot 'a' must have words"):
        words.run_from_memory()
    assert capsys.readouterr().out == "2 7 8\n1 9\n"


def test_global_shuffle(tmp_path):
    """global_shuffle spreads all examples over all workers without losing or repeating one, even if a worker has
    none."""
    (tmp_path / "0").write_text("".join(f"1 {i} 2 {i} 0.5 1 {i % 2}\n" for i in range(5000)))
    (tmp_path / "1").write_text("")
    (tmp_path / "2").write_text("".join(f"1 {i} 2 {i} 0.5 1 {i % 2}\n" for i in range(5000, 7000)))
    script = tmp_path / "run.py"
    script.write_text(textwrap.dedent(f"""
        import numpy as np
        import tug.fleet as fluid
        from tug.fleet import fleet
        from tug.fleet._origins import read_lines
        fleet.init()
        if fleet.is_server():
            fleet.run_server()
            raise SystemExit
        fleet.init_worker()
        dataset = fluid.InMemoryDataset()
        slots = [fluid.data("a", [1], "int64"), fluid.data("x", [2]), fluid.data("y", [1])]
        dataset.init(batch_size=100, use_var=slots)
        dataset.set_filelist([{str(tmp_path)!r} + f"/{{fleet.worker_index()}}"])
        dataset.load_into_memory()
        for _ in range(2):
            dataset.global_shuffle(fleet)
            lines = [line.split() for path in dataset.paths() for line in open(path)]
            assert all(float(words[3]) == float(words[1]) for words in lines)
            own = np.array([int(words[1]) for words in lines])
            assert 2000 < len(own) < 2700, len(own)
            back = read_lines(dataset.paths())
            assert [back.where(i) for i in range(len(own))] == [
                {str(tmp_path)!r} + (f"/0:{{n + 1}}" if n < 5000 else f"/2:{{n - 4999}}") for n in own]
            assert dataset.get_shuffle_data_size(fleet) == 7000
            all_of = np.concatenate(fleet.util.all_gather(own))
            assert np.array_equal(np.sort(all_of), np.arange(7000)) and not np.array_equal(np.sort(own), own)
        assert fleet.client.find("fleet_shuffle").stat().rows == 0
        fleet.stop_worker()
    """))
    by_hand([sys.executable, str(script)], 2, 3)
