"""Rows of Paddle's parameter server with one process for each role: calls of scripts, DistFleetWrapper, servers,
workers, datasets.

SPDX-License-Identifier: Apache-2.0
"""

from rows import Rows, inner, page_refused, partly, refused, runs, tested, told

FLEET, WRAPPER, PAGE = "python/tests/test_fleet.py", "python/tests/test_wrapper.py", "docs/from-paddle.md"
TRAIN, MODES = "python/tests/test_fleet_train.py", "python/tests/test_communicator.py"

ROWS: Rows = [
    # Calls of an ordinary script.
    runs("import of fleet", "import tug.fleet as one; from tug.fleet import fleet as two; assert one.init == "
         "two.init"),
    runs("fleet.init()", "one = fluid.Fleet(); one.init(role_maker.UserDefinedRoleMaker())"),
    runs("fleet.is_server, is_worker", "one = alone(); assert one.is_worker() and not one.is_server()"),
    tested("fleet.init_server, run_server", FLEET, "def test_"),
    runs("fleet.init_worker, stop_worker", "one = alone(); one.init_worker(); one.stop_worker()"),
    runs("paddle.static.Executor(place)", "fluid.static.Executor(fluid.static.CPUPlace())"),
    runs("paddle.static.default_startup_program()",
         "net(); fluid.static.Executor().run(fluid.static.default_startup_program())"),
    runs("exe.train_from_dataset", "train(dataset())"),
    runs("fleet.minimize", "one = alone(); slots, out = net(minimize=False)\n"
         "one.distributed_optimizer(fluid.optimizer.SGD(0.1)); one.minimize(out[0])"),
    # Calls of fleet.init, and names of the runtime.
    runs("fleet.init(role_maker, is_collective, strategy)",
         "fluid.Fleet().init(role_maker.UserDefinedRoleMaker(), is_collective=False, "
         "strategy=fluid.DistributedStrategy())"),
    runs("DistributedStrategy", "s = fluid.DistributedStrategy(); s.a_sync = True; s.a_sync_configs = {'k_steps': 4}\n"
         "s.with_coordinator = False; s.split_data = False; s.fleet_desc_configs = {}; assert s.mode == 'geo:4'"),
    runs("role_maker._generate_role", "role_maker.UserDefinedRoleMaker()._generate_role()"),
    inner("TheOnePSRuntime", "python/tug/fleet/_fleet.py", "def init_worker"),
    refused("heterogeneous trainers",
            "role_maker.read_environment({'TRAINING_ROLE': 'HETER_TRAINER', 'PADDLE_TRAINERS_NUM': '1', "
            "'PADDLE_PSERVERS_IP_PORT_LIST': '127.0.0.1:6000', 'PADDLE_TRAINER_ID': '0'})", "HETER_TRAINER"),
    tested("init_server(dirname, var_names, **kwargs)", FLEET, "init_server("),
    runs("fluid.core.DistFleetWrapper", "assert fluid.core.DistFleetWrapper is fluid.FleetWrapper"),
    runs("FleetWrapper.GetInstance", "with fluid.FleetWrapper.GetInstance() as w:\n"
         "    assert w is fluid.core.DistFleetWrapper.GetInstance()"),
    # DistFleetWrapper's methods.
    runs("load_sparse with \"0\"", "takes(fluid.FleetWrapper.load_sparse, 'path', '0', 3)"),
    tested("load_model", WRAPPER, "load_model("),
    tested("load_one_table", WRAPPER, "load_one_table("),
    runs("init_server(server_desc, hosts, role_id, trainers, sub program)",
         "takes(fluid.FleetWrapper.init_server, [], ['127.0.0.1:6000'], 0, 1, [])"),
    tested("run_server", WRAPPER, "run_server("),
    runs("init_worker(proto_txt, hosts, role_id)", "takes(fluid.FleetWrapper.init_worker, [], ['127.0.0.1:6000'], 0)"),
    runs("push_dense_params", "with wrapper() as w: w.push_dense_params({'w': [1, 2]}, 1, ['w'])"),
    runs("pull_dense_params", "scope = {}\nwith wrapper() as w: w.pull_dense_params(scope, 1, ['w'])\n"
         "assert scope['w'].shape == (2,)"),
    tested("save_all_model", WRAPPER, "save_all_model("),
    tested("save_one_model", WRAPPER, "save_one_model("),
    runs("recv_and_save_model", "with wrapper() as w: w.recv_and_save_model(1, f'{tmp}/saved')"),
    runs("sparse_table_stat", "with wrapper() as w: assert w.sparse_table_stat(0).rows == 0"),
    tested("stop_server", WRAPPER, "stop_server("),
    runs("FleetWrapper.stop_worker", "with wrapper() as w: w.stop_worker()"),
    runs("barrier(table, trainer)", "with wrapper() as w: w.barrier(0, 0)"),
    tested("shrink_sparse_table", WRAPPER, "shrink_sparse_table("),
    runs("set_clients", "with wrapper() as w: w.set_clients(w.get_client_info())"),
    runs("get_client_info", "with wrapper() as w: assert len(w.get_client_info()) == 1"),
    tested("create_client2client_connection", WRAPPER, "create_client2client_connection()"),
    # Servers.
    inner("PSCore, PaddlePSEnvironment", "src/cluster/roster.c"),
    runs("PSServer, PSClient, Table, Service by name", "fluid.PSServer(), fluid.PSClient(), fluid.BrpcPsServer()\n"
         "assert fluid.MemorySparseTable(0, 'emb', 'dim=4').number == 0\n"
         "raises('kvapp', type, 'Mine', (fluid.MemorySparseTable,), {}); raises('servers answer', fluid.Service)"),
    tested("table_class", "python/tests/test_server_desc.py", "MemorySparseTable"),
    runs("accessor_class",
         "for name in ('CtrCommonAccessor', 'SparseAccessor', 'CommMergeAccessor', 'DownpourCtrAccessor'):\n"
         "    with tug.local(1) as c: c.table('rows', settings=f'accessor={name}; dim=2')"),
    page_refused("Table.set_program_env", PAGE, "servers do not run programs"),
    inner("Table.set_shard", "src/cluster/ring.c"),
    refused("fs_client_param", "fluid.DistributedStrategy().fs_client_param = {'uri': 'hdfs://a'}", "a pipe command"),
    tested("Table.load(path, meta)", "python/tests/test_table.py", "load("),
    inner("BrpcPsServer", "src/server/server.c"),
    # Commands of servers.
    inner("initialize_shard_info", "src/cluster/member.c"),
    runs("command pull_dense", "scope = {}\nwith wrapper() as w: w.pull_dense_params(scope, 1)"),
    tested("command push_dense", "python/tests/test_table.py", "dense("),
    runs("command push_dense_param", "with wrapper() as w: w.push_dense_params({'w': [1, 2]}, 1)"),
    runs("command push_sparse_param", "with tug.local(1) as c: c.table('r', settings='dim=1').assign([1], [[2.0]])"),
    runs("command pull_sparse", "with tug.local(1) as c: assert c.table('r', settings='dim=1').pull([1]).shape == "
         "(1, 1)"),
    tested("command pull_geo_param", MODES, "pull_geo_param(0)"),
    runs("command barrier", "with wrapper() as w: w.barrier()"),
    runs("command push_sparse", "with tug.local(1) as c: c.table('r', settings='dim=1').push([1], [[2.0]])"),
    tested("commands load_one_table, load_all_table", WRAPPER, "load_one_table("),
    tested("commands save_one_table, save_all_table", WRAPPER, "save_one_model("),
    runs("command shrink_table", "with tug.local(1) as c: c.table('r', settings='accessor=ctr; dim=1').shrink()"),
    runs("command clear_one_table", "with wrapper() as w: w.clear_one_table(0)"),
    runs("command clear_all_table", "with wrapper() as w: w.clear_all_table()"),
    tested("command stop_server", WRAPPER, "stop_server("),
    runs("commands start_profiler, stop_profiler",
         "with wrapper() as w: w.start_profiler(); w.stop_profiler(f'{tmp}/profile.json')"),
    runs("command print_table_stat", "with wrapper() as w: w.print_table_stat(0)"),
    runs("command push_global_step", "with wrapper() as w: assert w.push_global_step(2) == 2"),
    # Workers.
    runs("_init_worker(scopes)", "one = alone(); one.init_worker([]); one.stop_worker()"),
    inner("_pull_all_dense", "python/tug/fleet/_fleet.py", "def init_worker"),
    runs("_all_gather", "with wrapper() as w: assert w.all_gather(b'me') == [b'me']"),
    inner("PSClientFactory, BrpcPsClient", "src/client/links.c"),
    told("start_client_service", PAGE, "workers have no links to each other"),
    tested("push queues with merging", WRAPPER, "c.send(5, [0]"),
    tested("workers that join later", "tests/e2e/cluster_modes_test.c", "worker"),
    # Communicator.
    runs("Communicator(mode, kwargs, envs)",
         "for mode in ('SYNC', 'HALF_ASYNC', 'ASYNC', 'GEO'): fluid.communicator.Communicator(mode, {}, {})"),
    runs("core.DistCommunicator", "with wrapper() as w:\n"
         "    c = fluid.core.DistCommunicator('ASYNC', '', [], {'fc': 1}, {1: ['w']}, {}, {}); c.start(); c.stop()"),
    runs("init_with_ctx of five arguments", "scope = {}\nwith wrapper() as w:\n"
         "    c = fluid.Communicator('ASYNC'); c.init_with_ctx([1], {1: ['w']}, '', ['127.0.0.1:6000'], scope)\n"
         "    c.start(); c.send(1, {'w': [1, 2]}); assert c.recv()['w'].shape == (2,) and c.is_running(); c.stop()"),
    tested("Communicator.start", WRAPPER, "c.start()"),
    tested("GeoCommunicator", MODES, "test_geo_is_the_formulas"),
    runs("communicator_send_queue_size", "fluid.Communicator(envs={'communicator_send_queue_size': '4'})"),
    refused("communicator_thread_pool_size", "fluid.Communicator(envs={'communicator_thread_pool_size': '4'})",
            "communicator_thread_pool_size"),
    inner("AsyncCommunicator's threads", "src/doors/tables/tug_communicator.c"),
    tested("RecvThread", MODES, "communicator_independent_recv_thread"),
    runs("RpcProfilerControl", "with wrapper() as w: w.start_profiler(); w.stop_profiler(f'{tmp}/profile.json')"),
    # Datasets and passes.
    runs("paddle.distributed.InMemoryDataset", "fluid.distributed.InMemoryDataset()"),
    runs("dataset.init with its defaults", "slots, out = net()\nfluid.InMemoryDataset().init(batch_size=8, "
         "thread_num=1, "
         "use_var=slots, pipe_command='cat', input_type=0, fs_name='', fs_ugi='', download_cmd='cat', queue_num=2)"),
    runs("dataset.set_filelist", "fluid.QueueDataset().set_filelist(['a'])"),
    runs("dataset.load_into_memory", "dataset('InMemoryDataset').load_into_memory()"),
    runs("QueueDataset", "train(dataset('QueueDataset'))"),
    inner("DataFeed's classes", "src/data/format/reader_multislot.c"),
    runs("fluid.DatasetFactory", "assert type(fluid.DatasetFactory().create_dataset()) is fluid.QueueDataset"),
    runs("dataset.set_...", "d = fluid.InMemoryDataset()\nd.set_batch_size(2); d.set_thread(1); "
         "d.set_pipe_command('cat')\n"
         "d.set_queue_num(2); d.set_fleet_send_batch_size(3); d.set_fleet_send_sleep_seconds(1); d.set_input_type(0)"),
    inner("dataset._prepare_to_run", "python/tug/fleet/executor.py"),
    runs("TrainerFactory", "fluid.TrainerFactory().create_trainer()"),
    inner("core.Executor", "python/tug/fleet/executor.py", "class Executor"),
    runs("MultiTrainer", "program = fluid.Program(); program._fleet_opt = {'trainer': 'MultiTrainer'}\n"
         "made = fluid.TrainerFactory()._create_trainer(program._fleet_opt); made._set_thread(2)\n"
         "made._gen_trainer_desc(); assert type(made) is fluid.MultiTrainer"),
    runs("DeviceWorker, HogwildWorker", "fluid.HogwildWorker(), fluid.DownpourWorker()"),
    inner("readers and channels", "src/data/source/source.c"),
    runs("fs_open_read with a pipe command", "d = dataset(); d.set_pipe_command('cat'); train(d)"),
    inner("ParseOneInstanceFromPipe", "src/data/format/reader_multislot_slots.c"),
]
