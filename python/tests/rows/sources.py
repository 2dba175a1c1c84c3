"""Rows of names that the systems' sources and test suites have, and that programs may use, but no document lists.

SPDX-License-Identifier: Apache-2.0
"""

from rows import Row, Rows, cxx, cxx_refused, page_refused, partly, refused, runs, tested, told

PAGE, PS, MX = "docs/from-paddle.md", "docs/from-ps-lite.md", "docs/from-mxnet.md"
MAKER = "role = role_maker.UserDefinedRoleMaker()\n"


def asked(name: str, holder: str, names: str, says: str) -> Row:
    """A row of names that an object lacks; the error for each has the text `says`."""
    return runs_refused(name, f"answers({holder}, {names!r}, {says!r})")


def runs_refused(name: str, code: str) -> Row:
    return Row(name, "refused", "python", code)


ROWS: Rows = [
    # Role makers.
    runs("node_num", MAKER + "assert role.node_num() == 1"),
    runs("to_string", MAKER + "assert 'index: 0' in role.to_string()"),
    runs("get_local_endpoint", MAKER + "assert role.get_local_endpoint() == ''"),
    runs("_worker_num and others", MAKER + "role._worker_num(), role._worker_index(), role._is_worker(), "
         "role._is_first_worker(), role._server_num(), role._get_trainer_endpoints(), role._get_pserver_endpoints(), "
         "role._role_id(), role._generate_role()"),
    asked("_barrier, _all_gather, _all_reduce of a role maker", "role_maker.UserDefinedRoleMaker()",
          "_barrier _all_gather _all_reduce barrier_worker barrier_all", "fleet.barrier_worker()"),
    runs("is_non_distributed", MAKER + "assert role.is_non_distributed() and role._is_non_distributed()"),
    runs("PaddleCloudRoleMaker(init_gloo=False)", "role_maker.PaddleCloudRoleMaker(init_gloo=False)"),
    asked("other role makers", "fluid", "UserDefinedCollectiveRoleMaker MPISymetricRoleMaker GeneralRoleMaker",
          "PaddleCloudRoleMaker"),
    # Fluid's names.
    runs("framework", "fluid.framework.Program, fluid.framework.Variable, fluid.framework.default_main_program()"),
    runs("static", "fluid.static.Executor, fluid.static.data, fluid.static.default_startup_program()"),
    runs("cpu_places", "assert len(fluid.cpu_places()) == 1"),
    asked("CUDAPlace", "fluid", "CUDAPlace CUDAPinnedPlace cuda_places", "CPUPlace()"),
    asked("Scope, scope_guard", "fluid", "Scope scope_guard", "global_scope()"),
    asked("ParamAttr, initializer, regularizer, clip", "fluid", "ParamAttr initializer regularizer clip", "init"),
    asked("io.DataLoader, io.PyReader", "fluid.io", "DataLoader PyReader", "pipe command"),
    runs("io.save_inference_model", "assert callable(fluid.io.save_inference_model)\n"
         "answers(fluid.io, 'save_params save_vars load_params load_vars', 'save_persistables')"),
    runs("UtilBase", "assert fluid.UtilBase is type(fluid.fleet.util)"),
    runs("core, DistFleetWrapper, communicator", "fluid.core.DistFleetWrapper, fluid.communicator.Communicator"),
    runs("transpiler.distribute_transpiler", "import tug.fleet.transpiler.distribute_transpiler\n"
         "answers(fluid, 'DistributeTranspiler', 'fleet.distributed_optimizer')"),
    asked("CompiledProgram and others", "fluid", "CompiledProgram ParallelExecutor BuildStrategy ExecutionStrategy",
          "thread=N"),
    asked("LoDTensor, create_lod_tensor", "fluid", "LoDTensor create_lod_tensor", "DataFeeder"),
    asked("profiler", "fluid", "profiler", "tug profile"),
    asked("require_version, set_flags, get_flags", "fluid", "require_version set_flags get_flags", "remove the line"),
    asked("unique_name.generate", "fluid.unique_name", "generate", "choose the names"),
    asked("Program.clone and others", "fluid.Program()", "clone all_parameters", ""),
    runs("find_var of an unknown name", "net(); assert fluid.global_scope().find_var('nosuch') is None"),
    runs("fleet.metrics", "assert fluid.fleet.metrics is fluid.metrics; answers(fluid.metrics, 'Auc', 'layers.auc')"),
    asked("SyncStrategy and others", "fluid", "SyncStrategy AsyncStrategy HalfAsyncStrategy GeoStrategy "
          "TrainerRuntimeConfig", "StrategyFactory"),
    asked("getters of a strategy", "fluid.DistributedStrategy()",
          "get_program_config get_trainer_runtime_config save_to_prototxt", "a_sync"),
    runs("fields that hold anyway", "s = fluid.DistributedStrategy(); s.use_ps_gpu = s.auto = s.amp = False\n"
         "s.a_sync_configs = {'launch_barrier': True}"),
    # Optimizers.
    asked("set_lr, get_lr of an optimizer", "fluid.optimizer.SGD(0.1)", "set_lr get_lr", "--schedule"),
    asked("step, clear_grad, state_dict, set_state_dict", "fluid.optimizer.SGD(0.1)",
          "step clear_grad state_dict set_state_dict", "tug.torch"),
    asked("backward, apply_gradients", "fluid.optimizer.SGD(0.1)", "backward apply_gradients", "minimize"),
    asked("other optimizers", "fluid.optimizer", "Adamax AdamW Lamb RMSProp Adadelta LarsMomentum Dpsgd", "SGD"),
    asked("ExponentialMovingAverage, ModelAverage", "fluid.optimizer", "ExponentialMovingAverage ModelAverage",
          "--average"),
    refused("Adam(lazy_mode=False)", "fluid.optimizer.Adam(0.1, lazy_mode=False)", "lazy_mode"),
    runs("keywords at their defaults", "fluid.optimizer.SGD(0.1, parameter_list=None, grad_clip=None, name=None)"),
    runs("regularization=L2Decay(c)", "from tug.fleet.optimizer import L2Decay\n"
         "assert fluid.optimizer.SGD(0.1, regularization=L2Decay(0.25)).rule['l2'] == 0.25"),
    # fleet.
    runs("fleet.save", "assert callable(fluid.fleet.save)"),
    runs("fleet.minimize without a fleet", "assert callable(fluid.fleet.minimize)"),
    runs("fleet.node_num", "one = alone(); assert one.node_num() == 1\n"
         "answers(one, 'local_rank rank nranks world_size', 'worker_index')"),
    runs("split_files", "one = alone(); one.init_worker(); assert one.split_files(['a']) == ['a']; one.stop_worker()"),
    runs("all_reduce_worker", "one = alone(); one.init_worker(); out = np.zeros(2)\n"
         "one.all_reduce_worker(np.ones(2), out); assert (out == 1).all(); one.stop_worker()"),
    runs("clear_model, clear_one_table", "assert callable(fluid.fleet.clear_model) and "
         "callable(fluid.fleet.clear_one_table)"),
    runs("fleet.print_table_stat", "assert callable(fluid.fleet.print_table_stat)"),
    asked("fleet as an optimizer", "fluid.fleet", "set_lr get_lr step state_dict set_state_dict", ""),
    asked("get_cache_threshold and others", "fluid.fleet",
          "get_cache_threshold check_save_pre_patch_done save_multi_table_one_path", ""),
    runs("fleet.shrink_sparse_table", "assert callable(fluid.fleet.shrink_sparse_table)"),
    asked("collective training", "fluid.fleet",
          "distributed_model distributed_scaler amp_init get_hybrid_communicate_group", "no collectives"),
    asked("the rest of UtilBase", "fluid.fleet.util",
          "get_heter_file_shard save_program draw_from_program_file set_file_system", ""),
    refused("util.all_reduce among servers", "one = alone(); one.init_worker(); one.util.all_reduce(1, 'sum', "
         "'server')",
            "worker"),
    told("fleetrun, paddle.distributed.launch", PAGE, "fleetrun"),
    # Datasets.
    runs("desc", "slots, out = net(); d = fluid.QueueDataset(); d.set_use_var(slots); assert 'a:ids' in d.desc()"),
    runs("set_queue_num and others", "d = fluid.InMemoryDataset(); d.set_queue_num(2); "
         "d.set_fleet_send_batch_size(1); "
         "d.set_fleet_send_sleep_seconds(1)"),
    runs_refused("set_parse_content and others", "d = fluid.InMemoryDataset()\n"
                 "for name, off in (('parse_content', False), ('parse_logkey', False), ('merge_by_sid', True), "
                 "('enable_pv_merge', False)):\n"
                 "    for set_ in (getattr(d, f'set_{name}'), getattr(d, f'_set_{name}')):\n"
                 "        set_(off); raises('lines have slots only', set_, not off)"),
    runs("set_feed_type", "fluid.InMemoryDataset().set_feed_type('MultiSlotInMemoryDataFeed')"),
    runs("set_download_cmd", "fluid.InMemoryDataset().set_download_cmd('cat')"),
    asked("set_date of a dataset", "fluid.InMemoryDataset()", "set_date", "Table.day()"),
    runs("set_input_type", "fluid.InMemoryDataset().set_input_type(0)"),
    runs_refused("set_shuffle_by_uid", "d = fluid.InMemoryDataset(); d.set_shuffle_by_uid(False)\n"
                 "raises('one file', d.set_shuffle_by_uid, True)"),
    runs("set_preload_thread_num", "fluid.InMemoryDataset().set_preload_thread_num(2)"),
    runs("update_settings, _init_distributed_settings", "d = fluid.InMemoryDataset(); "
         "d.update_settings(batch_size=2)\n"
         "d._init_distributed_settings(merge_size=-1, parse_ins_id=False, fleet_send_batch_size=1024)"),
    runs("init with keywords at their defaults", "fluid.InMemoryDataset().init(queue_num=2)"),
    refused("other datasets", "fluid.DatasetFactory().create_dataset('BoxPSDataset')", "use QueueDataset"),
    refused("float slots with lod_level=1", "fluid.data('x', [1], 'float32', lod_level=1)", "lod_level=0"),
    asked("shuffles of a QueueDataset", "fluid.QueueDataset()", "local_shuffle global_shuffle", "InMemoryDataset"),
    asked("tdm_sample and others", "fluid.InMemoryDataset()", "tdm_sample generate_local_tables_unlock "
          "set_current_phase get_pv_data_size set_graph_config", ""),
    refused("fetch_handler", "slots, out = net()\nfluid.Executor().train_from_dataset(dataset=dataset(), "
         "fetch_handler=1)",
            "fetch_list"),
    # ps-lite.
    cxx("threadsafe_queue.h", "ps::ThreadsafeQueue<int> q; q.Push(1);"),
    cxx("parallel_sort.h", "ps::SArray<int> a(3); ps::ParallelSort(&a, 2, [](int x, int y) { return x < y; });"),
    cxx("parallel_kv_match.h", "ps::SArray<ps::Key> k(1); ps::SArray<float> v(1), out; ps::ParallelOrderedMatch(k, "
         "v, k, &out);"),
    cxx("assign_op.h", "float a = 1; ps::AssignFunc(2.f, ps::PLUS, &a);"),
    cxx("dmlc::BeginPtr", "std::vector<int> v(1); int *p = dmlc::BeginPtr(v); (void)p;"),
    cxx("dmlc::GetEnv", "int n = dmlc::GetEnv(\"NAME\", 3); (void)n;"),
    cxx("DataTypeName", "const char *n = ps::DataTypeName[0]; (void)n;"),
    cxx_refused("Postoffice::Manage, UpdateHeartbeat",
                "void f() { ps::Message m; ps::Postoffice::Get()->Manage(m); }", "Manage"),
    cxx_refused("Van::Create, a class derived from Van",
                "void f() { ps::Van::Create(\"zmq\"); }", "Create"),
    page_refused("zmq_van.h, p3_van.h, spsc_queue.h", PS, ["`zmq_van.h`, `p3_van.h`, `spsc_queue.h`",
                                                           "replace or control the library's transport"]),
    cxx("Start(), StartAsync(\"name\"), Finalize(), Barrier(group)", "ps::Start(); ps::Start(\"me\"); "
        "ps::StartAsync(\"me\"); ps::Postoffice::Get()->Barrier(ps::kWorkerGroup); ps::Finalize();"),
    cxx("KVWorker(app), SimpleApp(app), Customer(id, handle)", "ps::KVWorker<float> kv(1); ps::SimpleApp app(1); "
        "ps::Customer c(1, [](const ps::Message &) {});"),
    cxx("Postoffice::_GetSharedRef", "auto p = ps::Postoffice::_GetSharedRef(); (void)p->van();"),
    cxx("KVServerDefaultHandle<float>::store[key]", "ps::KVServerDefaultHandle<float> h; float f = h.store[1]; "
         "(void)f;"),
    told("DMLC_USE_KUBERNETES, DMLC_RANK, dmlc-submit", PS, ["DMLC_USE_KUBERNETES", "dmlc-submit"]),
    # MXNet.
    runs("adamw and other optimizers", "import tug.optimizer\nfor name in 'adamw lamb lars ftml nadam adamax dcasgd "
         "sgld'"
         ".split(): tug.optimizer.create(name)\nraises('lans', tug.optimizer.create, 'lans')"),
    runs("signsgd, ccsgd", "import tug.optimizer\ntug.optimizer.create('signsgd'), tug.optimizer.create('ccsgd')"),
    runs("lr_scheduler and other arguments of an optimizer", "import tug.optimizer\n"
         "tug.optimizer.create('sgd', lr_scheduler=None, param_idx2name=None, begin_num_update=0)"),
    runs("set_lr_mult, set_wd_mult", "import tug.optimizer\no = tug.optimizer.create('sgd'); o.set_lr_mult({}); "
         "o.set_wd_mult({})"),
    runs("optimizer.SGD, Updater, get_updater", "import tug.optimizer\ntug.optimizer.SGD(learning_rate=0.1)"),
    runs("P3", "raises('DMLC_ROLE', store, 'p3')  # it is a store of servers"),
    runs("KVStoreBase.register, KVStoreServer", "import tug.kvserver\nassert "
         "callable(tug.kvstore.KVStoreBase.register) "
         "and tug.kvserver.KVStoreServer"),
    runs("get_num_dead_node of a local store", "assert store('local').get_num_dead_node(0) == 0"),
    runs("kv.type in lower case", "assert store('Local').type == 'local'"),
    refused("row_sparse_pull into a dense array", "kv = store('local'); kv.init(1, np.zeros((3, 2), 'f4'))\n"
            "kv.row_sparse_pull(1, out=np.zeros((3, 2), 'f4'), row_ids=np.array([0]))", "RowSparse"),
    told("MXNET_UPDATE_ON_KVSTORE and others", MX, "MXNET_UPDATE_ON_KVSTORE"),
    told("tools/launch.py", MX, ["--sync-dst-dir", "--env-server"]),
]
