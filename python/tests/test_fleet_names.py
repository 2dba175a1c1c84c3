"""Paddle's names: import paths, settings that describe what tug does anyway, batches that a program feeds, and the
table of refused names, from which every class and module takes its errors.

SPDX-License-Identifier: Apache-2.0
"""

import copy
import importlib
import os
import re

import numpy as np
import pytest

import tug
import tug.fleet as fluid
from tug.fleet import _names, _namespaces
from tug.fleet import strategy as _strategy
from tug.fleet.optimizer import L2Decay
from tug.fleet.wrapper import _host


class Setting(_names.Named):
    """The names of the arguments of dataset.init and similar calls."""

    holders = ("a dataset's setting",)


HOLDERS = {
    "tug.fleet": lambda: fluid, "tug.fleet.static": lambda: fluid.static, "layers": lambda: fluid.layers,
    "unique_name": lambda: fluid.unique_name,
    "io": lambda: fluid.io, "optimizer": lambda: fluid.optimizer,
    "metrics": lambda: fluid.metrics, "an optimizer": fluid.optimizer.SGD, "Program": fluid.Program,
    "fleet": lambda: fluid.fleet, "fleet.util": lambda: fluid.fleet.util, "a role maker": fluid.UserDefinedRoleMaker,
    "a dataset": fluid.InMemoryDataset, "a dataset's setting": lambda: Setting(),
    "a QueueDataset": fluid.QueueDataset, "strategy": fluid.DistributedStrategy,
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


def test_misspelt_names_of_classes_and_modules():
    for held, name, says in (
            (fluid.StrategyFactory, "create_foo_strategy", "did you mean 'create_geo_strategy'"),
            (fluid.FleetWrapper, "push_dense_parms", "did you mean 'push_dense_params'"),
            (fluid.FleetWrapper, "finalize_worker", "use stop_worker"),
            (fluid.role_maker, "GeneralRoleMaker", "use PaddleCloudRoleMaker"),
            (fluid.distributed, "launch", "tug launch --servers S")):
        with pytest.raises(tug.UsageError, match=says):
            getattr(held, name)
    assert not hasattr(fluid.Executor, "__wrapped__")


def test_arguments_of_later_paddles():
    """Paddle's further arguments are accepted with their defaults, and errors name arguments."""
    fluid.optimizer.Adam(0.1, lazy_mode=True, multi_precision=False, use_multi_tensor=False)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program(), feed_var_name="feed", fetch_var_name="fetch", scope=None,
            use_program_cache=False, return_merged=True, use_prune=False)
    for call, says in (
            (lambda: fluid.optimizer.SGD(0.1, multi_precision=True), "multi_precision can only be False"),
            (lambda: fluid.optimizer.SGD(0.1, multi=True), "there is no argument 'multi'"),
            (lambda: fluid.fleet.util.get_file_shard(None), "files: must be a list of paths, not NoneType"),
            (lambda: fluid.fleet.util.get_file_shard([3]), "files: must be a text, not int"),
            (lambda: fluid.fleet.load_model("x", "7"), "mode: '7' is not one of 0"),
            (lambda: fluid.fleet.load_model("x", [0]), r"mode: \[0\] is not one of 0"),
            (lambda: fluid.fleet.load_model("x", "3"), "mode: 3, day"),
            (lambda: fluid.metrics.auc("nosuch", "nosuch"), "the program has no variable 'nosuch'"),
            (lambda: fluid.metrics.acc([{}], 1), "must be a number, an array")):
        with pytest.raises(tug.Error, match=says):
            call()


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
    with pytest.raises(tug.UsageError, match="does not use Gloo"):
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
            ({"data_feed_type": "PaddleBoxDataFeed"}, "not one of MultiSlotDataFeed"), ({"use_ps_gpu": True}, "GPUs"),
            ({"parse_ins_id": True}, "lines have no id"), ({"download_cmd": "get"}, "a pipe command can fetch")):
        for function in (data.init, data.update_settings, data._init_distributed_settings):
            with pytest.raises(tug.UsageError, match=sentence):
                function(**settings)
    with pytest.raises(tug.UsageError, match="create_dataset has no 'BoxPSDataset': use QueueDataset"):
        fluid.DatasetFactory().create_dataset("BoxPSDataset")
    data.init(batch_size=1, thread_num=1, use_var=[], queue_num=-1, data_feed_type="MultiSlotInMemoryDataFeed")
    data.update_settings(merge_size=0, fea_eval=False, candidate_size=10000, fleet_send_sleep_seconds=None)
    fluid.QueueDataset().init(batch_size=2, thread_num=1, use_var=[], pipe_command="cat", input_type=0, fs_name="",
                              fs_ugi="", download_cmd="cat")
    strategy = fluid.DistributedStrategy()
    strategy.with_coordinator, strategy.fleet_desc_configs, strategy.split_data = False, {}, False
    strategy.a_sync_configs = {"k_steps": 0, "send_queue_size": 16, "launch_barrier": True, "use_ps_gpu": 0}
    strategy.auto = strategy.amp = False
    assert strategy.mode == "async"
    with pytest.raises(tug.UsageError, match="tug has no tables on GPUs"):
        strategy.use_ps_gpu = True


def test_setters_of_datasets():
    """Datasets have each of Paddle's setters, with an underscore as in 2.x and without."""
    data = fluid.InMemoryDataset()
    for name, off, on, sentence in (
            ("parse_ins_id", False, True, "lines have no id"), ("parse_content", False, True, "lines have slots only"),
            ("parse_logkey", False, True, "lines have slots only"), ("merge_by_sid", True, False, "slots only"),
            ("enable_pv_merge", False, True, "slots only"), ("shuffle_by_uid", False, True, "one user"),
            ("generate_unique_feasigns", False, True, "no trees, phases"), ("use_ps_gpu", False, True, "on GPUs"),
            ("input_type", 0, 1, "a line is an example"), ("download_cmd", "cat", "get", "a pipe command"),
            ("feed_type", "MultiSlotDataFeed", "SlotRecordDataFeed", "lines are MultiSlot text")):
        for setter in (getattr(data, f"set_{name}"), getattr(data, f"_set_{name}")):
            setter(off)
            with pytest.raises(tug.UsageError, match=sentence):
                setter(on)
    for name, value in (("batch_size", 7), ("thread", 2), ("pipe_command", "cat"), ("queue_num", 3),
                        ("fleet_send_batch_size", 2), ("fleet_send_sleep_seconds", 1)):
        getattr(data, f"_set_{name}")(value)
    data._set_hdfs_config("", "")
    data._set_fea_eval(10, True)
    assert data.batch_size == 7 and data._desc() == data.desc()
    for name, sentence in (("_set_merge_by_lineid", "have no id"), ("_set_batchsize", "you mean 'set_batch_size'"),
                           ("_prepare_to_run", "a pass reads the files itself"), ("set_hdfs", "set_hdfs_config")):
        with pytest.raises(AttributeError, match=sentence):
            getattr(data, name)
    with pytest.raises(tug.UsageError, match="set_hdfs_config: fs_name='hdfs://x': .*hadoop fs"):
        data.set_hdfs_config("hdfs://x", "me,secret")


def test_fields_of_a_strategy_at_their_defaults():
    strategy = fluid.DistributedStrategy()
    fields = [name for name in (*_strategy._REFUSED, *_strategy._DEFAULTS_OF) if name != "execution_strategy"]
    assert len(fields) > 60
    for name in fields:
        default = getattr(strategy, name)
        setattr(strategy, name, default)
        for value in _strategy._DEFAULTS.get(name, ()):
            setattr(strategy, name, value)
        asked = {"nosuch": 1} if isinstance(default, dict) else -7 if type(default) is int else "asked for"
        with pytest.raises(tug.UsageError, match=f"^strategy.{name}: "):
            setattr(strategy, name, asked)
    strategy.amp_configs = {"init_loss_scaling": 32768.0, "custom_white_list": []}
    strategy.a_sync_configs = {"k_steps": -1}  # Paddle's default
    assert strategy.mode == "async" and not strategy.amp and strategy.hybrid_configs["mp_degree"] == 1
    with pytest.raises(tug.UsageError, match="strategy.amp_configs: tug computes with 32-bit floats"):
        strategy.amp_configs = {"init_loss_scaling": 1.0}
    with pytest.raises(AttributeError, match="there is no such field"):
        strategy.nosuch  # noqa: B018


def test_trainers_that_are_named():
    program, factory = fluid.Program(), fluid.TrainerFactory()
    program._fleet_opt = {"trainer": "DistMultiTrainer", "device_worker": "DownpourSGD", "scale_datanorm": -1,
                          "scale_sparse_gradient_with_batch_size": True, "dump_fields": [], "stat_var_names": []}
    made = factory._create_trainer(program._fleet_opt)
    made._set_thread(3)
    made._gen_trainer_desc()
    assert isinstance(made, fluid.DistMultiTrainer) and isinstance(made.device_worker, fluid.DownpourWorker)
    assert "DistMultiTrainer" in made._desc() and made.thread_num == 3
    assert isinstance(factory.create_trainer(), fluid.MultiTrainer)
    assert isinstance(fluid.DeviceWorkerFactory()._create_device_worker("Hogwild"), fluid.HogwildWorker)
    strategy = fluid.DistributedStrategy()
    strategy.trainer_desc_configs = {"trainer": "MultiTrainer", "dump_fields_path": ""}
    with pytest.raises(tug.UsageError, match=r"_fleet_opt\['dump_param'\]: .*tug train --dump"):
        program._fleet_opt["dump_param"] = ["w"]
    for options, sentence in (({"trainer": "PSGPUTrainer"}, "one of MultiTrainer"), ({"dump_fields": ["x"]}, "--dump"),
                              ({"device_worker": "Section"}, "use one of Hogwild"), ({"nosuch": 1}, "no 'nosuch'"),
                              ({"scale_sparse_gradient_with_batch_size": False}, "must be True")):
        with pytest.raises(tug.UsageError, match=sentence):
            strategy.trainer_desc_configs = options
        with pytest.raises(tug.UsageError, match=sentence):
            program._fleet_opt = options


def test_classes_by_name():
    assert fluid.MemorySparseTable(3, "emb", "dim=4") == fluid.FleetTable(3, "emb", "accessor = SparseAccessor; dim=4")
    assert fluid.MemorySparseTable(3, "emb", "accessor=ctr") == fluid.FleetTable(3, "emb", "accessor=ctr")
    assert fluid.SSDSparseTable(3, "emb").settings == "cold = table-3; accessor = SparseAccessor"
    assert fluid.MemorySparseGeoTable(1, "geo", "dim=2") == fluid.FleetTable(1, "geo", "accessor = merge; dim=2")
    assert fluid.MemoryDenseTable(1, "fc", "dim=4", {"w": 3}) == fluid.FleetTable(1, "fc", "dim=4", {"w": 3})
    assert fluid.TableManager.create("CommonSparseTable") is fluid.MemorySparseTable
    for made in (fluid.PSServer(), fluid.BrpcPsClient(), fluid.PSServerFactory.create("BrpcPsServer"),
                 fluid.PSClientFactory.create("PsLocalClient")):
        assert isinstance(made, fluid.FleetWrapper)
    assert fluid.core.PSHost("10.1.2.3", 6174, 5).serialize_to_string() == "10.1.2.3:6174:5"
    assert _host(fluid.core.PSHost("10.1.2.3", 6174, 5).serialize_to_uint64()) == "10.1.2.3:6174"
    for make, sentence in (
            (lambda: fluid.BarrierTable(1, "b"), "barriers need no table"), (fluid.Service, "servers answer"),
            (lambda: fluid.CommonGraphTable(1, "g"), "no graph tables"), (fluid.Accessor, "'accessor = NAME'"),
            (lambda: fluid.TensorTable(1, "t"), "run no program"), (lambda: fluid.Table(1, "t"), "MemoryDenseTable"),
            (lambda: fluid.MemoryDenseTable(1, "fc"), "a dense table needs variables"),
            (lambda: fluid.TableManager.create("Mine"), "accessor.*rule.*entry policy.*kvapp handlers"),
            (lambda: fluid.PSServerFactory.create("Mine"), "one kind of server and client.*kvapp"),
            (lambda: type("Mine", (fluid.MemorySparseTable,), {}), "accessor.*rule.*entry policy.*kvapp handlers"),
            (lambda: type("Mine", (fluid.PSServer,), {}), "kvapp"),
            (lambda: type("Mine", (fluid.Service,), {}), "kvapp")):
        with pytest.raises(tug.UsageError, match=sentence):
            make()


def test_debug_prints_seconds_by_operation(tmp_path, capsys):
    file = tmp_path / "lines"
    file.write_text("".join(f"1 {i % 7} 1 {i % 3} 1 {i % 2}\n" for i in range(300)))
    exe = fluid.Executor()
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        slots = [fluid.data(name, [1], "int64", lod_level=int(name != "y")) for name in "aby"]
        loss, _auc, _batch = fluid.net(slots, {"model": "lr"})
        fluid.optimizer.SGD(0.1).minimize(loss)
        exe.run(fluid.default_startup_program())
        data = fluid.QueueDataset()
        data.init(batch_size=50, use_var=slots)
        data.set_filelist([str(file)])
        for function in (exe.train_from_dataset, exe.infer_from_dataset):
            function(dataset=data, debug=True)
            said = re.fullmatch(r"300 examples, ([0-9.]+) s: (.*); [0-9.e+]+ us an example\n", capsys.readouterr().out)
            parts = [one.split() for one in said.group(2).split(", ")]
            assert parts[-1][0] == "other" and all(len(one) == 3 and one[2] == "s" for one in parts)
            assert sum(float(one[1]) for one in parts) == pytest.approx(float(said.group(1)), abs=0.02)
        exe.close()


def test_arguments_of_optimizers():
    for make in (fluid.optimizer.SGD, fluid.optimizer.Momentum, fluid.optimizer.Adagrad, fluid.optimizer.DecayedAdagrad,
                 fluid.optimizer.Adam, fluid.optimizer.Ftrl):
        one = make(0.1, grad_clip=None, name=None, parameter_list=None, regularization=L2Decay(0.25))
        assert one.rule["l2"] == 0.25
        with pytest.raises(tug.UsageError, match="grad_clip can only be None: gradients are not clipped"):
            make(0.1, grad_clip=1)
        with pytest.raises(TypeError, match="there is no argument 'learn'"):
            make(0.1, learn=1)
    with pytest.raises(tug.UsageError, match="call fleet.distributed_optimizer"):
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
    """A program with an optimizer trains on fed batches as on a file with the same lines. A program without one
    evaluates them, and its AUC covers all batches."""
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
                with pytest.raises(tug.UsageError, match="this one has called minimize"):
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
                                "2 values for each example, but was given"), ({**feed, "label": np.zeros((3, 1), int)},
                                "label has 3"), ({**feed, "label": np.zeros((2, 1))}, "was given float64")):
            with pytest.raises(tug.Error, match=sentence):
                exe.run(program, feed=wrong)
        assert fluid.global_scope().find_var("nosuch") is None
        with pytest.raises(tug.UsageError, match="there is no variable 'nosuch'"):
            fluid.global_scope().var("nosuch")
        with pytest.raises(tug.UsageError, match="fetch_handler is not supported: use fetch_list"):
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
        with pytest.raises(tug.UsageError, match="trainer_id: 1 is not the index of this worker, 0"):
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
