"""What fleet has beside the life of a run: shrinks, dense parameters as files, DataFeeder, and what is refused; alone
and in real processes.

SPDX-License-Identifier: Apache-2.0
"""

import os
import sys

import numpy as np
import pytest
from test_fleet import by_hand

import tug
import tug.fleet as fluid
from tug.fleet import Fleet, PaddleCloudRoleMaker, Role, UserDefinedRoleMaker

SCRIPT = f"""
import sys
sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})
import test_fleet_others
test_fleet_others.run_by_environment()
"""


def shrinks(fleet):
    with pytest.raises(tug.UsageError, match="the rows of a net stay"):
        fleet.shrink(1)
    users = fleet.client.table("users", number=7, accessor="ctr", dim=2, embedx_threshold=0)
    keys = np.arange(30, dtype=np.uint64)[fleet.worker_index()::fleet.worker_num()]
    rows = np.zeros((len(keys), users.push_width), np.float32)
    rows[:, 3] = 1  # shows
    users.push(keys, rows)
    fleet.barrier_worker()
    assert users.stat().rows == 30
    fleet.barrier_worker()
    assert fleet.shrink(1000) == 30 and users.stat().rows == 0
    fleet.barrier_worker()
    with pytest.raises(tug.Error) as failed:
        fleet._first_does("do it", lambda: fleet.client.find("nosuch"))
    assert ("worker 0 could not do it" in str(failed.value)) == (fleet.worker_index() != 0)


def run_by_environment():
    fleet = Fleet()
    fleet.init(PaddleCloudRoleMaker())
    if fleet.is_server():
        fleet.run_server()
        return
    fleet.init_worker()
    shrinks(fleet)
    fleet.stop_worker()


def test_alone(tmp_path):
    fleet = Fleet()
    fleet.init(UserDefinedRoleMaker(0, Role.WORKER, 1))
    with pytest.raises(tug.UsageError, match="init_worker"):
        fleet.save_dense_params(None, tmp_path)
    fleet.init_worker()
    shrinks(fleet)
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


def test_processes():
    by_hand([sys.executable, "-c", SCRIPT], 2, 2)


def test_refused():
    for name, sentence in (("save_inference_model", "save_persistables"), ("save_cache_model", "base"),
                           ("set_date", "Table.day"), ("save_cache_table", "cold"), ("init_coordinator", "federated"),
                           ("load_inference_model", "load_model"), ("make_fl_strategy", "federated"),
                           ("get_fl_client", "federated")):
        with pytest.raises(tug.UsageError, match=f"fleet.{name}: .*{sentence}"):
            getattr(Fleet(), name)(None, 1, mode=2)


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
    for wrong, sentence in (([([1], [1, 2])], "example 0 has 2 values, and there are 3 slots: ids, numbers, label"),
                            ([([1], [1, 2], 0), ([1], [1], 0)],
                             "example 1: slot 'numbers' has 1 values, and must have 2"),
                            ([([0.5], [1, 2], 0)], "slot 'ids' has int64, and was given float64"),
                            ([(["a"], [1, 2], 0)], "slot 'ids'")):
        with pytest.raises(tug.Error, match=sentence):
            feeder.feed(wrong)
    with pytest.raises(tug.UsageError, match="there is no variable 'nosuch'"):
        fluid.DataFeeder(["nosuch"], program=program)
    with pytest.raises(tug.UsageError, match="feed_list: is empty"):
        fluid.DataFeeder([])
