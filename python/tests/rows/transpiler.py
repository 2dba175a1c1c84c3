"""Rows of Fluid's transpiler: the CTR script of docs/from-paddle.md, which tests/page_test.py runs.

SPDX-License-Identifier: Apache-2.0
"""

from rows import Row, Rows, refused, runs, tested

PAGE, ROLE = "docs/from-paddle.md", "python/tests/test_fleet.py"
ENVIRONMENT = """place = role_maker.read_environment({
    'PADDLE_TRAINERS_NUM': '2', 'PADDLE_PSERVERS_IP_PORT_LIST': '127.0.0.1:36011,127.0.0.1:36012',
    'TRAINING_ROLE': %r, 'PADDLE_PORT': '36011', 'POD_IP': '127.0.0.1', 'PADDLE_TRAINER_ID': '1'})
"""


def place(name: str, role: str, check: str) -> Row:
    return runs(name, ENVIRONMENT % role + check)


def script(name: str, text: str) -> Row:
    """A row for a line of the page's script."""
    return tested(name, PAGE, text)


ROWS: Rows = [
    place("PADDLE_TRAINERS_NUM", "TRAINER", "assert place.workers == 2"),
    place("PADDLE_PSERVERS_IP_PORT_LIST", "TRAINER", "assert place.servers == 2 and place.server_endpoints[1] == "
         "'127.0.0.1:36012'"),
    place("TRAINING_ROLE=PSERVER", "PSERVER", "assert place.role == 'server'"),
    place("PADDLE_PORT, POD_IP", "PSERVER", "assert place.rank == 0"),
    place("TRAINING_ROLE=TRAINER", "TRAINER", "assert place.role == 'worker'"),
    place("PADDLE_TRAINER_ID", "TRAINER", "assert place.rank == 1"),
    runs("import of role_maker", "import tug.fleet.incubate.fleet.base.role_maker as maker; "
         "maker.PaddleCloudRoleMaker"),
    runs("import of fleet of the transpiler",
         "from tug.fleet.incubate.fleet.parameter_server.distribute_transpiler import fleet as f; f.init"),
    runs("PaddleCloudRoleMaker()", "role_maker.PaddleCloudRoleMaker(init_gloo=False)"),
    script("fleet.init(role)", "fleet.init(role)"),
    runs("import of DistributeTranspilerConfig",
         "from tug.fleet.transpiler.distribute_transpiler import DistributeTranspilerConfig"),
    script("CTR().input_data", "def input_data(self, params):"),
    refused("layers of a network of one's own", "fluid.layers.fc", "use one of tug's nets"),
    runs("optimizer.Adam(rate)", "fluid.optimizer.Adam(0.01)"),
    runs("strategy.sync_mode", "c = fluid.DistributeTranspilerConfig(); c.sync_mode = False"),
    runs("strategy.runtime_split_send_recv", "c = fluid.DistributeTranspilerConfig(); c.runtime_split_send_recv = "
         "True"),
    script("fleet.distributed_optimizer", "optimizer = fleet.distributed_optimizer(optimizer, strategy)"),
    script("optimizer.minimize", "optimizer.minimize(avg_cost)"),
    script("the branches of servers and workers", "elif fleet.is_worker():"),
    tested("fleet.init_server(model_path)", ROLE, "init_server("),
    script("Executor(CPUPlace())", "exe = fluid.Executor(fluid.CPUPlace())"),
    script("exe.run(fleet.startup_program)", "exe.run(fleet.startup_program)"),
    script("get_dataset", "dataset.set_pipe_command(\"cat\")"),
    script("train_from_dataset with fetch_info", "fetch_info=[\"Epoch {} auc \".format(epoch)]"),
    script("fleet.is_first_worker", "if fleet.is_first_worker():"),
    script("io.save_persistables", "fluid.io.save_persistables(executor=exe, dirname=model_path)"),
    script("fleet.stop_worker", "fleet.stop_worker()"),
    script("a save for each pass", "\"epoch_\" + str(epoch)"),
    runs("framework.Program", "fluid.framework.Program()"),
    runs("framework.program_guard",
         "with fluid.framework.program_guard(fluid.framework.Program(), fluid.framework.Program()): pass"),
    runs("unique_name.guard", "with fluid.unique_name.guard(): pass"),
    runs("DataFeeder", "slots, out = net(); fluid.DataFeeder(feed_list=slots, place=fluid.CPUPlace())"),
    script("io.load_persistables", "fluid.io.load_persistables(executor=exe, dirname="),
    script("exe.run(program, feed, fetch_list)", "exe.run("),
    runs("layers.auc", "slots, out = net()\nfluid.layers.auc(fluid.default_main_program().var('predict'), slots[-1])"),
    runs("global_scope().var(name).get_tensor()", "net(); train(dataset()); "
         "fluid.global_scope().var('auc.stat_pos').get_tensor()"),
    runs("_get_dims, set", "net(); train(dataset())\nt = fluid.global_scope().find_var('auc.stat_pos').get_tensor()\n"
         "t.set(np.zeros(t._get_dims()), fluid.CPUPlace())"),
    runs("_generated_var_0 to 3", "net(); train(dataset())\n"
         "for i in range(4): fluid.global_scope().find_var(f'_generated_var_{i}').get_tensor()"),
    script("AUC set to zero before inference", "_generated_var_"),
]
