"""Paddle's server_desc and proto_txt: texts make tables, a setting that tug lacks is refused with its line, and a
damaged text only raises an error.

SPDX-License-Identifier: Apache-2.0
"""

import random

import numpy as np
import pytest

import tug
from tug.fleet import FleetTable, FleetWrapper
from tug.fleet._prototxt import DEPTH_MAX, TEXT_MAX, read
from tug.fleet.server_desc import described

SPARSE = """downpour_table_param {
  table_id: 0  table_class: "MemorySparseTable"  shard_num: 1000  type: PS_SPARSE_TABLE
  accessor { accessor_class: "CtrCommonAccessor"  fea_dim: 7  embedx_dim: 4  embedx_threshold: 0
    ctr_accessor_param { nonclk_coeff: 0.2 click_coeff: 2 base_threshold: 1.25 delta_threshold: 0.5
                         delta_keep_days: 3 show_click_decay_rate: 0.75 delete_threshold: 0.25
                         delete_after_unseen_days: 9 ssd_unseenday_threshold: 2 show_scale: false zero_init: false }
    embed_sgd_param { name: "adagrad" adagrad { learning_rate: 0.5 initial_g2sum: 2 initial_range: 0.001
                                                weight_bounds: [-3, 3] } }
    embedx_sgd_param { name: "SparseAdamSGDRule" adam { learning_rate: 0.25 beta1_decay_rate: 0.5 } } }
  common { table_name: "emb" trainer_num: 1 }
}"""
DENSE = """downpour_table_param {
  table_id: 1  table_class: "MemoryDenseTable"  type: PS_DENSE_TABLE
  accessor { accessor_class: "CommMergeAccessor" fea_dim: 12 embedx_dim: 1 }
  common { name: "sgd" table_name: "fc@w" params: "Param" params: "LearningRate" dims: 12 dims: 1
           initializers: "fill_constant&2.0" initializers: "fill_constant&0.5" }
}"""
GEO = """downpour_table_param { table_id: 2 table_class: "MemorySparseGeoTable"
  accessor { accessor_class: "CommMergeAccessor" fea_dim: 1000 embedx_dim: 3 }
  common { name: "sum" table_name: "geo" } }"""
BARRIER = """downpour_table_param { table_id: 3 table_class: "BarrierTable" type: PS_OTHER_TABLE
  accessor { accessor_class: "CommMergeAccessor" } common { name: "" table_name: "barrier_table" trainer_num: 1 } }"""
SERVICE = """service_param { server_class: "BrpcPsServer" client_class: "BrpcPsClient" service_class: "BrpcPsService"
  start_server_port: 0 server_thread_num: 12 }"""
TRAINER = """trainer_param { dense_table { table_id: 1 dense_variable_name: "w" dense_variable_name: "b"
  dense_gradient_variable_name: "w@GRAD" fea_dim: 12 } sparse_table { table_id: 0 slot_key: "C1" } skip_op: "x" }"""


def of_server(*tables):
    return "server_param { downpour_server_param { " + "\n".join(tables) + " } }"


def all_of_it():
    return of_server(SPARSE, DENSE, GEO, BARRIER, SERVICE) + "\n" + TRAINER


def test_tables():
    said = described(all_of_it(), "server_desc")
    sparse, dense, geo = said.tables
    assert said.barriers == (3,) and said.flat == {1: ["w", "b"]} and said.trainers == 1
    assert (sparse.number, sparse.name, geo) == (0, "emb", FleetTable(2, "geo", "dim = 3; accessor = merge"))
    assert dense == FleetTable(1, "table_1", "dim = 256; rule = sgd:lr=0.5", {"Param": (12, "fill_constant&2.0")})
    for setting in ("accessor = CtrCommonAccessor", "dim = 4", "nonclick = 0.2", "click = 2.0", "decay = 0.75",
                    "delete-after-days = 9.0", "cold-after-days = 2.0", "show-scale = no", "init = 0.001",
                    "rule = SparseAdaGradSGDRule:lr=0.5,g0=2.0,low=-3.0,high=3.0", "embedx-threshold = 0.0",
                    "embedx-rule = SparseAdamSGDRule:lr=0.25,beta1=0.5,beta2=0.999,beta=1e-08", "embedx-init = 0.0001"):
        assert setting in sparse.settings.split("; ")
    worker = "worker_param { downpour_worker_param { " + DENSE + "} }"
    assert described(worker, "proto_txt").tables == [dense]
    assert described(all_of_it().replace("server_param", worker + " server_param", 1), "x").tables[1] == dense


@pytest.mark.parametrize("said, settings", (
    ('table_class: "SSDSparseTable" table_id: 7', "accessor = SparseAccessor; dim = 8; embedx-threshold = 10.0; "
     "cold = table-7"),
    ('table_class: "CommonSparseTable" common { name: "adam" table_name: "e" entry: "count_filter_entry:3" sync: true '
     'params: ["Param", "LearningRate"] dims: [5, 1] initializers: ["uniform_random&0&-0.5&0.5", "fill_constant&0.1"] '
     'attributes: "beta1&f&0.8" }', "dim = 5; rule = adam:lr=0.1,beta1=0.8; init = -0.5..0.5; entry = count:3; "
     "mode = sync; reduce = mean"),
    ('table_class: "DownpourSparseTable" accessor { accessor_class: "DownpourFeatureValueAccessor" embedx_dim: 2 '
     'sparse_sgd_param { learning_rate: 0.1 initial_g2sum: 2 initial_range: 0.5 weight_bounds: [-1, 1] } '
     'downpour_accessor_param { click_coeff: 2 } }', "accessor = DownpourCtrAccessor; dim = 2; click = 2.0; "
     "rule = SparseAdaGradSGDRule:lr=0.1,g0=2.0,low=-1.0,high=1.0; init = 0.0; embedx-threshold = 10.0; "
     "embedx-rule = SparseAdaGradSGDRule:lr=0.1,g0=2.0,low=-1.0,high=1.0; embedx-init = 0.5"),
    ('table_class: "DownpourDenseTable" accessor { accessor_class: "DownpourDenseValueAccessor" fea_dim: 3 '
     'dense_sgd_param { name: "adam" adam { learning_rate: 0.5 avg_decay_rate: 0.9 mom_decay_rate: 0.8 } naive { } } }',
     "dim = 256; rule = adam-d2sum:lr=0.5,beta1=0.8,beta2=0.9999,beta=1e-08"),
    ('table_class: "MemorySparseTable" accessor { embedx_dim: 0x10 embed_sgd_param { name: "naive" } }',
     "accessor = SparseAccessor; dim = 16; rule = SparseNaiveSGDRule:lr=0.05; init = 0.0; embedx-threshold = 10.0")))
def test_settings(said, settings):
    (table,) = described(of_server("downpour_table_param {" + said + "}"), "x").tables
    assert table.settings == settings
    if "cold" not in settings:
        with FleetWrapper() as worker:
            worker.init_worker([table])  # the text of settings is valid


def test_a_worker_joins_by_a_text():
    with FleetWrapper(wait_seconds=60) as worker:
        worker.init_worker(all_of_it())
        scope = {"w": np.zeros((2, 5), np.float32), "b": np.zeros(2, np.float32)}
        worker.pull_dense_params(scope, 1)
        assert (scope["w"] == 2).all() and (scope["b"] == 2).all()
        worker.push_dense({"w": np.ones((2, 5)), "b": [1, 3]}, 1, ["w", "b"])
        worker.pull_dense(scope, 1, ["w", "b"])
        assert (scope["w"] == 1.5).all() and scope["b"].tolist() == [1.5, 0.5]
        worker.push_dense_param({"w": np.arange(10).reshape(2, 5), "b": [7, 8]}, 1, ["w", "b"])
        worker.pull_dense_params(scope, 1)
        assert scope["w"][1, 4] == 9 and scope["b"].tolist() == [7, 8]
        for names, sentence in ((["w"], "w have 10 floats, but table 1 has 12"), (["v"], "scope: has no v of table 1")):
            with pytest.raises(tug.UsageError, match=sentence):
                worker.pull_dense_params(scope, 1, names)
        worker.push_sparse(0, [5], np.ones((1, 8)))
        assert worker.pull_sparse(0, [5]).shape == (1, 7) and worker.sparse_table_stat(0).rows == 1
        worker.barrier(3, 0)
    with FleetWrapper() as worker, pytest.raises(tug.UsageError, match="is 2 in the tables. text, but"):
        worker.init_worker(all_of_it().replace("trainer_num: 1", "trainer_num: 2"))


@pytest.mark.parametrize("text, sentence", (
    (of_server("downpour_table_param {\n table_class: 'MyTable' }"),
     "line 2: table_class: MyTable: there is one kind of table here.*accessor.*rule.*entry policy.*kvapp handlers"),
    (of_server("downpour_table_param {\n\n table_class: 'CommonGraphTable' }"), "line 3: .*there are no graph tables"),
    (of_server("downpour_table_param { table_class: 'TensorTable' }"), "servers run no program"),
    (of_server("downpour_table_param { graph_parameter { } }"), r"graph_parameter {...}: there are no graph tables"),
    (of_server("downpour_table_param { tabel_id: 1 }"), "line 1: tabel_id: 1: downpour_table_param has no such field "
     "here; did you mean 'table_id'"),
    (of_server("downpour_table_param { accessor { accessor_class: 'CtrDymfAccessor' } }"), "those of GPUs"),
    (of_server("downpour_table_param { accessor { accessor_class: 'Mine' } }"), "tug_register_accessor"),
    (of_server("downpour_table_param { accessor { embedx_dim: -1 } }"), "embedx_dim: -1: is not from 0"),
    (of_server("downpour_table_param { accessor { embedx_dim: 1.5 } }"), "must be a whole number"),
    (of_server("downpour_table_param { accessor { embedx_threshold: 1e99 } }"), "too large"),
    (of_server("downpour_table_param { accessor { embed_sgd_param { name: 'x' } } }"), "must be one of naive"),
    (of_server("downpour_table_param { accessor { embed_sgd_param { } } }"), "name is missing"),
    (of_server("downpour_table_param { accessor { embed_sgd_param { name: 'naive' naive { weight_bounds: 1 } } } }"),
     "1 numbers, but needs 2"),
    (of_server("downpour_table_param { accessor { accessor_class { } } }"), "must be a text"),
    (of_server("downpour_table_param { table_id: 4096 }"), "is not from 0 to 4095"),
    (of_server("downpour_table_param { shard_num: 0 }"), "shard_num: 0: is not from 1"),
    (of_server("downpour_table_param { type: PS_DENSE_TABLE }"), "not the type of a MemorySparseTable"),
    (of_server("downpour_table_param { table_class: 'MemoryDenseTable' }"), "how many floats"),
    (of_server("downpour_table_param { table_class: 'MemoryDenseTable' accessor { fea_dim: 3 } }"), "name is missing"),
    (of_server("downpour_table_param { table_class: 'CommonSparseTable' common { name: 'ftrl' } }"), "a rule of sgd"),
    (of_server("downpour_table_param { common { params: 'Param' } }"), "1 params, 0 dims"),
    (of_server("downpour_table_param { common { entry: 'show_click_entry:a:b' } }"), "shows and clicks travel"),
    (of_server("downpour_table_param { table_id: 0 }", "downpour_table_param { accessor { embedx_dim: 3 } }"),
     "table 0 differs from the one in line 1"),
    (of_server("service_param { server_class: 'Mine' }"), "one kind of server and client.*kvapp"),
    (of_server("service_param { start_server_port: 1 }"), "servers listen at the addresses of the list of hosts"),
    ("fs_client_param { uri: 'hdfs://x' }", "use a pipe command"), ("init_gflags: '-v=3'", "has no flags"),
    ("server_param {", "the '}' of 'server_param', which begins here, is missing"), ("server_param: 1", "must be"),
    ("server_param { } \n server_param { }", "line 2: .*is given twice in the text; line 1 has the first"),
    ("a b", "':' or '{' is expected"), ("{", "name of a field is expected"), ("a: }", "a value is expected"),
    ("a: 'x", "stands where a field"), ("a: [1 2]", "',' or ']' is expected"), ("a {" * (DEPTH_MAX + 2), "braces deep"),
    ("a: \x00", r"'\\x00' stands"), (b"\x08\xff\xfe", "is not text in UTF-8"), (" " * (TEXT_MAX + 1), "has 4194305")))
def test_refused(text, sentence):
    with pytest.raises(tug.DataError, match=f"(?s)^server_desc: .*{sentence}"):
        described(text, "server_desc")


def test_words_of_the_text():
    said = read('a: "x\\n\\101\\x42" \'y\' # comment } "\n b { c: -1.5e2f }, d < e: true >; f: [1, 2] f: 3', "x")
    assert said.word("a") == "x\nABy" and said.message("b").real("c") == -150 and said.message("d").flag("e") is True
    assert [said.whole_of(one, 0, 9) for one in said.many("f")] == [1, 2, 3]
    said.done()


def test_any_text_is_tables_or_an_error():
    draw = random.Random(1)
    good = all_of_it()
    for _ in range(500):
        text = good
        for _ in range(draw.randrange(1, 4)):
            at = draw.randrange(len(text))
            text = text[:at] + draw.choice(["", "{", "}", "\"", ":", "[", "\\", "9" * 30, "\0", "\u2028", "-", "nan",
                                            text[at:at + 40], "table_id: 1 ", "'"]) + text[at + draw.choice([0, 9]):]
        try:
            assert all(isinstance(one, FleetTable) for one in described(text, "x").tables)
        except tug.DataError as error:
            assert str(error).startswith("x: line ")
