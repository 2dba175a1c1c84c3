"""Rows of ps-lite: its concepts, classes and calls, as C++11 code with ps/ps.h.

SPDX-License-Identifier: Apache-2.0
"""

from rows import Rows, cxx, inner, page_refused, partly, tested, told

PAGE, NAMES = "docs/from-ps-lite.md", "docs/from-ps-lite.md#names"
KVAPP = "tests/e2e/kvapp_test.c"

ROWS: Rows = [
    tested("scheduler, worker, server", "docs/from-ps-lite.md", "DMLC_ROLE=scheduler"),
    cxx("push and pull of key ranges", "ps::KVWorker<float> kv(0, 0); std::vector<ps::Key> k{1}; std::vector<float> "
         "v{1, 2};"
        " std::vector<int> lens{2}; kv.Push(k, v, lens); kv.Pull(k, &v, &lens);"),
    tested("sequential", "tests/e2e/cluster_modes_test.c", "sync"),
    tested("eventual", "tests/e2e/cluster_modes_test.c", "async"),
    tested("bounded delay", "tests/e2e/cluster_real_test.c", "ssp:2"),
    inner("vector clock", "src/server/sessions.c"),
    inner("consistent hashing", "src/cluster/ring.c"),
    page_refused("a server that comes or goes",
                 "src/cluster/scheduler/scheduler_nodes.c", "servers cannot be added later"),
    tested("a worker that comes or goes", "tests/e2e/cluster_lost_test.c", "worker"),
    cxx("Postoffice", "ps::Postoffice::Get();"),
    cxx("Van", "ps::Van *van = ps::Postoffice::Get()->van(); (void)van;"),
    cxx("Customer", "ps::Customer *c = nullptr; (void)c;"),
    cxx("SimpleApp", "ps::SimpleApp app(0, 0);"),
    cxx("KVServer, KVWorker", "ps::KVServer<float> server(0); ps::KVWorker<float> worker(0, 0);"),
    cxx("KVPairs", "ps::KVPairs<float> p; p.keys.size(); p.vals.size(); p.lens.size();"),
    cxx("SArray", "ps::SArray<float> a(3); a.resize(4); a.segment(0, 2);"),
    cxx("Node, Control, Meta, Message", "ps::Message m; m.meta.control.empty(); ps::Node n = "
         "ps::Postoffice::Get()->van()->"
        "my_node(); (void)n.port; (void)n.is_recovery;"),
    cxx("Customer(app_id, customer_id, handle)", "ps::Customer c(1, 0, [](const ps::Message &) {});"),
    cxx("NewRequest", "int ts = ps::Postoffice::Get()->GetCustomer(0, 0)->NewRequest(ps::kServerGroup); (void)ts;"),
    cxx("WaitRequest", "ps::Postoffice::Get()->GetCustomer(0, 0)->WaitRequest(1);"),
    cxx("NumResponse", "int n = ps::Postoffice::Get()->GetCustomer(0, 0)->NumResponse(1); (void)n;"),
    cxx("AddResponse", "ps::Postoffice::Get()->GetCustomer(0, 0)->AddResponse(1); ps::Postoffice::Get()->"
        "GetCustomer(0, 0)->AddResponse(1, 2);"),
    inner("Customer's tracker", "src/doors/kvapp/request.c"),
    cxx("ThreadsafeQueue", "ps::ThreadsafeQueue<int> q; q.Push(1); int i; q.WaitAndPop(&i);"),
    cxx("SimpleApp(app_id, customer_id)", "ps::SimpleApp app(3, 0);"),
    cxx("SimpleApp.Request", "ps::SimpleApp app(0, 0); int ts = app.Request(1, \"body\", ps::kServerGroup); "
         "(void)ts;"),
    cxx("SimpleApp.Wait", "ps::SimpleApp app(0, 0); app.Wait(1);"),
    cxx("SimpleApp.Response", "ps::SimpleApp app(0, 0); ps::SimpleData d; app.Response(d); app.Response(d, \"yes\");"),
    cxx("set_request_handle, set_response_handle", "ps::SimpleApp app(0, 0); auto f = [](const ps::SimpleData &, "
        "ps::SimpleApp *) {}; app.set_request_handle(f); app.set_response_handle(f);"),
    tested("SimpleApp::Process overridden", "docs/from-ps-lite.md", "overriding `Process(const Message &)`"),
    cxx("KVWorker(app_id, customer_id)", "ps::KVWorker<float> kv(0, 1);"),
    cxx("Push", "ps::KVWorker<float> kv(0, 0); kv.Push({1}, {2}, {}, 3, [] {});"),
    cxx("Pull", "ps::KVWorker<float> kv(0, 0); std::vector<float> v; std::vector<int> l; kv.Pull({1}, &v, &l, 0, [] "
         "{});"),
    tested("KVWorker::Process overridden", "docs/from-ps-lite.md", "it is called once for each completed request"),
    inner("KVWorker's callbacks", "include/tug/compat/ps/kv_app.h", "Pending"),
    cxx("KVServer(app_id)", "ps::KVServer<float> server(2);"),
    cxx("KVServer.set_request_handle", "ps::KVServer<float> server(0); server.set_request_handle([](const ps::KVMeta "
         "&, "
        "const ps::KVPairs<float> &, ps::KVServer<float> *) {});"),
    cxx("KVServerDefaultHandle", "ps::KVServer<float> server(0); server.set_request_handle("
        "ps::KVServerDefaultHandle<float>()); ps::KVServerDefaultHandle<float> h; float f = h.store[3]; (void)f;"),
    cxx("KVServer.Response, KVMeta", "ps::KVServer<float> server(0); ps::KVMeta m; ps::KVPairs<float> r; "
        "server.Response(m, r); server.Response(m);"),
    inner("Postoffice's environment", "src/runtime/role.c", "DMLC_PS_ROOT_URI"),
    cxx("Postoffice.Start", "ps::Postoffice::Get()->Start(0, nullptr, true);"),
    cxx("Postoffice.Finalize", "ps::Postoffice::Get()->Finalize(0, true);"),
    cxx("AddCustomer, RemoveCustomer", "ps::Customer c(1, 0, [](const ps::Message &) {}); ps::Postoffice::Get()->"
        "AddCustomer(&c); ps::Postoffice::Get()->RemoveCustomer(&c);"),
    cxx("GetCustomer", "ps::Customer *c = ps::Postoffice::Get()->GetCustomer(0, 0, 5); (void)c;"),
    cxx("GetServerKeyRanges", "auto r = ps::Postoffice::Get()->GetServerKeyRanges(); (void)r[0].begin();"),
    page_refused("Postoffice::Manage", NAMES, "`Postoffice::Manage`"),
    partly("heartbeats_", NAMES, "`Postoffice::GetDeadNodes`"),
    cxx("GetNodeIDs", "const std::vector<int> &ids = ps::Postoffice::Get()->GetNodeIDs(ps::kWorkerGroup); (void)ids;"),
    inner("customers_", "src/doors/kvapp/app.c"),
]
