"""Paddle's names: import paths, settings that say what is so anyway, batches that a program feeds; and the table of
what is refused, which every class and module answers by.

SPDX-License-Identifier: Apache-2.0
"""

import copy
import importlib
import os

import numpy as np
import pytest

import tug
import tug.fleet as fluid
from tug.fleet import _names, _namespaces
from tug.fleet.optimizer import L2Decay

HOLDERS = {
    "tug.fleet": lambda: fluid, "layers": lambda: fluid.layers, "unique_name": lambda: fluid.unique_name,
    "io": lambda: fluid.io, "optimizer": lambda: fluid.optimizer,
    "metrics": lambda: fluid.metrics, "an optimizer": fluid.optimizer.SGD, "Program": fluid.Program,
    "fleet": lambda: fluid.fleet, "fleet.util": lambda: fluid.fleet.util, "a role maker": fluid.UserDefinedRoleMaker,
    "a dataset": fluid.InMemoryDataset, "a QueueDataset": fluid.QueueDataset, "strategy": fluid.DistributedStrategy,
    "FleetWrapper": fluid.FleetWrapper, "Communicator": fluid.Communicator, "a trainer": fluid.MultiTrainer,
}


@pytest.mark.parametrize("holder, names, answer", _names.REFUSED)
def test_every_refused_name_has_its_answer(holder, names, answer):
    held = HOLDERS[holder]()
    for name in names.replace("*", "anything_else").split():
        with pytest.raises(AttributeError) as refused:
            getattr(held, name)
        assert str(refused.value).endswith(answer) and name in str(refused.value)


def test_misspelt_names_get_the_nearest():
    for held, name, nearest in (
            (fluid, "Executer", "Executor"), (fluid, "is_workr", "is_worker"), (fluid.fleet, "wrker_num", "worker_num"),
            (fluid.optimizer, "Adm", "Adam"), (fluid.InMemoryDataset(), "set_batchsize", "set_batch_size"),
            (fluid.io, "save_persistable", "save_persistables"), (fluid.FleetWrapper(), "push_dense_parms",
                                                                  "push_dense_params")):
        with pytest.raises(AttributeError, match=f"did you mean '{nearest}'"):
            getattr(held, name)
    with pytest.raises(tug.UsageError, match=r"dataset\.init has no 'batchsize'; did you mean 'batch_size'"):
        fluid.QueueDataset().init(batchsize=3)
    assert not hasattr(fluid, "Scope") and not hasattr(fluid.Program(), "clone")
    copy.copy(fluid.QueueDataset())


@pytest.mark.parametrize("path, names", _namespaces.PATHS.items())
def test_import_paths(path, names):
    module = importlib.import_module(f"tug.fleet.{path}")
    assert all(getattr(module, name) is getattr(fluid, name) for name in names.split() if hasattr(fluid, name))
    with pytest.raises(AttributeError, match=f"tug.fleet.{path} has no 'nosuchthing'"):
        module.nosuchthing  # noqa: B018


def test_modules_answer():
    for name in _namespaces.MODULES:
        with pytest.raises(AttributeError, match=f"{name} has no 'nosuchthing'"):
            importlib.import_module(f"tug.fleet.{name}").nosuchthing  # noqa: B018


def test_functions_of_fleet_are_those_of_the_module():
    assert fluid.init == fluid.fleet.init and fluid.distributed.fleet.is_server == fluid.fleet.is_server
    assert fluid.fleet.DistributedStrategy is fluid.DistributedStrategy is fluid.distributed.fleet.DistributedStrategy
    import tug.fleet.distributed.fleet.base.role_maker as role_maker
    assert role_maker is fluid.role_maker and not hasattr(fluid.fleet, "CUDAPlace")
    assert fluid.util is fluid.fleet.util and fluid.fleet.metrics is fluid.metrics
    assert len(fluid.cpu_places()) == 1 and not fluid.is_compiled_with_cuda()
    assert isinstance(fluid.TrainerFactory().create_trainer().device_worker, fluid.HogwildWorker)


def test_role_makers():
    role = fluid.UserDefinedRoleMaker(0, fluid.Role.WORKER, 2, ["10.0.0.1:7000", "10.0.0.2:7000"],
                                      ["10.0.0.2:7001", "10.0.0.3:7001"])
    assert role.node_num() == role._node_num() == 3 and role.get_local_endpoint() == "10.0.0.2:7001"
    assert (role._worker_num(), role._worker_index(), role._server_num()) == (2, 0, 2)
    assert role._is_worker() and role._is_first_worker() and not role._is_server() and role._role_id() == 0
    assert role._get_pserver_endpoints() == role.get_pserver_endpoints() and not role.is_non_distributed()
    assert role.to_string().startswith("role: worker, index: 0, workers: 2, servers: 2, server endpoints: 10.0.0.1")
    alone = fluid.UserDefinedRoleMaker()
    assert alone._is_non_distributed() and alone.get_local_endpoint() == "" and alone.node_num() == 1
    fluid.PaddleCloudRoleMaker(is_collective=False, init_gloo=False)
    with pytest.raises(tug.UsageError, match="there is no Gloo"):
        fluid.PaddleCloudRoleMaker(init_gloo=True)


def test_settings_that_are_so_anyway():
    data = fluid.InMemoryDataset()
    slots = [fluid.data(f"settings_{name}", [1], "int64") for name in "uy"]
    data.init(batch_size=32, thread_num=2, use_var=slots, pipe_command="cat", input_type=0, fs_name="", fs_ugi="",
              download_cmd="cat", queue_num=3)
    data.update_settings(batch_size=2)
    data._init_distributed_settings(merge_size=-1, parse_ins_id=False, parse_content=False, fleet_send_batch_size=1024,
                                    fleet_send_sleep_seconds=0, fea_eval=True, candidate_size=10000)
    data.set_preload_thread_num(2)
    data.set_feed_type("MultiSlotInMemoryDataFeed")
    assert data.batch_size == 2 and data.desc() == "settings_u:ids, settings_y:ids"
    for settings, sentence in (
            ({"merge_size": 2}, "merge_size=2: lines have no id"), ({"fs_name": "hdfs://x"}, "a pipe command can"),
            ({"input_type": 1}, "a line is an example"), ({"parse_content": True}, "lines have slots only"),
            ({"data_feed_type": "PaddleBoxDataFeed"}, "not one of MultiSlotDataFeed")):
        with pytest.raises(tug.UsageError, match=sentence):
            data.init(**settings)
    with pytest.raises(tug.UsageError, match="create_dataset has no 'BoxPSDataset': use QueueDataset"):
        fluid.DatasetFactory().create_dataset("BoxPSDataset")
    strategy = fluid.DistributedStrategy()
    strategy.with_coordinator, strategy.fleet_desc_configs, strategy.split_data = False, {}, False
    strategy.a_sync_configs = {"k_steps": 0, "send_queue_size": 16, "launch_barrier": True, "use_ps_gpu": 0}
    strategy.auto = strategy.amp = False
    assert strategy.mode == "async"
    with pytest.raises(tug.UsageError, match="there are no tables on GPUs"):
        strategy.use_ps_gpu = True


def test_arguments_of_optimizers():
    for make in (fluid.optimizer.SGD, fluid.optimizer.Momentum, fluid.optimizer.Adagrad, fluid.optimizer.DecayedAdagrad,
                 fluid.optimizer.Adam, fluid.optimizer.Ftrl):
        one = make(0.1, grad_clip=None, name=None, parameter_list=None, regularization=L2Decay(0.25))
        assert one.rule["l2"] == 0.25
        with pytest.raises(tug.UsageError, match="grad_clip can only be None: gradients are not clipped"):
            make(0.1, grad_clip=1)
        with pytest.raises(TypeError, match="there is no argument 'learn'"):
            make(0.1, learn=1)
    with pytest.raises(tug.UsageError, match="distributed_optimizer.* comes first"):
        fluid.Fleet().minimize(None)


def _declare(model="lr"):
    slots = [fluid.data("ids", [None, 1], "int64", lod_level=1), fluid.data("size", [None, 2], "float32"),
             fluid.data("label", [None, 1], "int64")]
    return slots, fluid.net(slots, {"model": model})


def _examples(n, seed):
    draw = np.random.default_rng(seed)
    for _ in range(n):
        ids = draw.integers(0, 20, 1 + draw.integers(3))
        yield ids, draw.random(2, np.float32), [int(ids[0] % 2)]


def test_batches_that_a_program_feeds(tmp_path):
    """A program learns from them as from a file of the same lines; another measures, and its AUC is of all batches."""
    exe, rows = fluid.Executor(fluid.CPUPlace()), list(_examples(200, 1))
    file, said = tmp_path / "lines", []
    file.write_text("".join(f"{len(ids)} {' '.join(map(str, ids))} 2 {float(x[0])!r} {float(x[1])!r} 1 {y[0]}\n"
                            for ids, x, y in rows))
    for fed in (True, False):
        with fluid.program_guard(fluid.Program(), fluid.Program()):
            slots, (loss, auc, _) = _declare()
            fluid.optimizer.Adagrad(0.1).minimize(loss)
            exe.run(fluid.default_startup_program())
            if fed:
                feed = fluid.DataFeeder(slots).feed(rows)
                found = exe.run(fluid.default_main_program(), feed=feed, fetch_list=[loss, auc, "_generated_var_2"])
                assert found[0].shape == (1,) and found[2].sum() == sum(y[0] for *_, y in rows)
                with pytest.raises(tug.UsageError, match="this one learns"):
                    exe.run(fluid.default_main_program(), feed=feed, fetch_list=["predict"])
            else:
                data = fluid.QueueDataset()
                data.init(batch_size=200, use_var=slots)
                data.set_filelist([str(file)])
                exe.train_from_dataset(dataset=data)
            save = fluid.io.save_inference_model(str(tmp_path / f"model{fed}"), ["ids", "size"], [auc], exe)
            assert save == ["auc"]
            exe.close()
        with tug.load(str(tmp_path / f"model{fed}"), alone=True) as model:
            said.append(model.predict(str(file)))
    np.testing.assert_array_equal(*said)
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        slots, (loss, auc, _) = _declare()
        with pytest.raises(tug.UsageError, match="no rows yet"):
            exe.run(fluid.default_main_program(), feed=fluid.DataFeeder(slots).feed(rows[:1]))
        program, names, targets = fluid.io.load_inference_model(str(tmp_path / "modelTrue"), exe)
        assert names == ["ids", "size"]
        feeder = fluid.DataFeeder(slots)
        predicted = [exe.run(program, feed=feeder.feed(rows[i:i + 50]), fetch_list=[*targets, auc]) for i in
                     range(0, 200, 50)]
        np.testing.assert_array_equal(np.concatenate([p for p, _ in predicted]).ravel(), said[0])
        with tug.load(str(tmp_path / "modelTrue"), alone=True) as model:
            assert predicted[-1][1][0] == pytest.approx(model.evaluate(str(file))["auc"], abs=1e-3)
        feed = feeder.feed(rows[:2])
        for wrong, sentence in (({"ids": feed["ids"]}, "lacks size, label"), ({**feed, "size": np.zeros((2, 3))},
                                "has 2 values an example, and was given 3"), ({**feed, "label": np.zeros((3, 1), int)},
                                "label has 3"), ({**feed, "label": np.zeros((2, 1))}, "was given float64")):
            with pytest.raises(tug.Error, match=sentence):
                exe.run(program, feed=wrong)
        assert fluid.global_scope().find_var("nosuch") is None
        with pytest.raises(tug.UsageError, match="there is no variable 'nosuch'"):
            fluid.global_scope().var("nosuch")
        with pytest.raises(tug.UsageError, match="fetch_handler is not supported: fetch_list"):
            exe.train_from_dataset(program, fluid.QueueDataset(), fetch_handler=1)
        exe.close()


def test_names_of_the_wrapper(capsys):
    tables = [fluid.FleetTable(0, "emb", "dim=2"), fluid.FleetTable(1, "other", "dim=1")]
    with fluid.FleetWrapper.GetInstance() as worker:
        assert worker is fluid.core.DistFleetWrapper.GetInstance()
        worker.init_worker(tables)
        for number in (0, 1):
            worker.table(number).push(np.arange(3, dtype=np.uint64), np.ones((3, 2 - number), np.float32))
        worker.print_table_stat(0)
        assert "table 0: rows 3" in capsys.readouterr().out
        worker.barrier(0, 0)
        with pytest.raises(tug.UsageError, match="trainer_id: 1 is another worker's"):
            worker.barrier(0, 1)
        worker.clear_one_table(0)
        assert [worker.table(n).stat().rows for n in (0, 1)] == [0, 3]
        worker.clear_all_table()
        assert worker.table(1).stat().rows == 0
        assert worker.push_global_step(3) == 3
    assert fluid.FleetWrapper.GetInstance() is not worker


def test_the_page_ends_with_the_table(source):
    with open(os.path.join(source, "docs", "from-paddle.md"), encoding="utf-8") as file:
        page = file.read()
    assert page.endswith(_names.markdown()), "docs/from-paddle.md: its end is what tug.fleet._names.markdown() writes"
