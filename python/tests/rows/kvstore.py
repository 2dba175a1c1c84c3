"""Rows of MXNet's KVStore: Module, stores, servers and the layers below.

SPDX-License-Identifier: Apache-2.0
"""

from rows import Rows, cxx, inner, page_refused, refused, runs, tested, told

PAGE, TEST, CLUSTER = "docs/from-mxnet.md", "python/tests/test_kvstore.py", "python/tests/test_kvstore_cluster.py"

ROWS: Rows = [
    runs("Module.init_optimizer", "assert callable(tug.kvstore.init_optimizer)"),
    runs("kv.create", "store('local')"),
    runs("type in lower case", "assert store('Local').type == 'local'"),
    runs("has(\"device\")", "store('device'), store('local_allreduce_device')"),
    tested("dist, dist_sync", CLUSTER, "dist_sync"),
    inner("sync mode of rank 0", "src/doors/kvstore/dist.c"),
    refused("dist without a role", "store('dist_sync')", "DMLC_ROLE"),
    inner("KVStoreLocal, KVStoreDist", "src/doors/kvstore/dist.c"),
    told("kv.rank, IsWorkerNode", PAGE, "`IsWorkerNode`"),
    tested("SendCommandToServers", CLUSTER, "_send_command_to_servers"),
    cxx("KVWorker<real_t>(0)", "ps::KVWorker<float> kv(0);"),
    cxx("StartAsync(\"mxnet\")", "ps::StartAsync(\"mxnet\\0\");"),
    cxx("Postoffice::Start(argv0, false)", "ps::Postoffice::Get()->Start(\"me\", false);"),
    cxx("Postoffice::is_recovery", "bool r = ps::Postoffice::Get()->is_recovery(); (void)r;"),
    cxx("Barrier(group)", "ps::Postoffice::Get()->Barrier(ps::kWorkerGroup + ps::kServerGroup + ps::kScheduler);"),
    cxx("MXNET_KVSTORE_BIGARRAY_BOUND", "int n = dmlc::GetEnv(\"MXNET_KVSTORE_BIGARRAY_BOUND\", 1000); (void)n;"),
    inner("_init_kvstore_server_module", "python/tug/kvstore.py", "DMLC_ROLE"),
    runs("KVStoreServer(kvstore).run()", "import tug.kvserver; assert callable(tug.kvserver.KVStoreServer.run)"),
    inner("KVStoreDistServer", "src/doors/kvstore/server.c"),
    cxx("SimpleApp's handle beside KVServer's", "ps::KVServer<float> *s = nullptr; static_cast<ps::SimpleApp *>(s)->"
        "set_request_handle([](const ps::SimpleData &, ps::SimpleApp *) {});"),
    cxx("set_request_handle(DataHandle)", "ps::KVServer<float> s(0); s.set_request_handle([](const ps::KVMeta &, "
         "const "
        "ps::KVPairs<float> &, ps::KVServer<float> *) {});"),
    tested("RunServer, set_controller", CLUSTER, "def control("),
    cxx("ps::Finalize()", "ps::Finalize();"),
    tested("an optimizer that is sent to servers", TEST, "pickle"),
    cxx("Customer(id, handle)", "ps::Customer c(3, [](const ps::Message &) {});"),
    cxx("Customer::Accept", "ps::Customer c(3, 0, [](const ps::Message &) {}); ps::Message m; c.Accept(m);"),
    inner("Van::Receiving", "src/doors/kvapp/received.c"),
    cxx("Van: Bind, Connect, SendMsg, RecvMsg", "ps::Van *v = ps::Postoffice::Get()->van(); ps::Message m; "
        "v->SendMsg(m); v->RecvMsg(&m); (void)v->my_node().port;"),
    page_refused("Van: Start, Stop", "docs/from-ps-lite.md#names", "`Van::Create`, `Start`, `Stop`"),
    page_refused("ZMQVan", "docs/from-ps-lite.md#names", "zmq_van.h"),
    runs("push of a list", "kv = store('local'); kv.init(3, np.zeros(2, 'f4')); kv.push(3, [np.ones(2, 'f4')] * 2)\n"
         "out = np.zeros(2, 'f4'); kv.pull(3, out=out); assert (out == 2).all()"),
    runs("pull into all outs", "kv = store('local'); kv.init(3, np.ones(2, 'f4'))\n"
         "outs = [np.zeros(2, 'f4') for _ in range(2)]; kv.pull(3, out=outs); assert all((o == 1).all() for o in "
         "outs)"),
    cxx("a handler of one key", "ps::KVPairs<float> d; CHECK_EQ(d.keys.size(), (size_t)1); (void)d.lens;"),
    inner("DecodeKey", "include/tug/compat/ps/internal/postoffice.h", "GetServerKeyRanges"),
    refused("a push before init", "store('local').push(78, np.ones(2, 'f4'))", "init"),
    tested("sync pushes", CLUSTER, "def test_sync"),
    inner("the updater's thread", "src/doors/kvstore/serve.c"),
    tested("answers of a round", CLUSTER, "def test_sync"),
    tested("async pushes", CLUSTER, "def test_async"),
    refused("a pull before init", "store('local').pull(78, out=np.ones(2, 'f4'))", "init"),
    cxx("Response with lens and CopyFrom", "ps::KVPairs<float> r; float f[2]; r.lens = {2}; r.vals.CopyFrom(f, 2);"),
]
