"""Rows of Paddle's first version: its tutorial, `paddle pserver`, `paddle train`, its servers and its trainer.

SPDX-License-Identifier: Apache-2.0
"""

from rows import Rows, inner, line, line_refused, partly, tested, told

PAGE = "docs/from-paddle-v0.md"
AROUND, UPDATES = "docs/from-paddle-v0.md#starting-logging-debugging", "docs/from-paddle-v0.md#updates"
LINES, CLUSTER = "tests/e2e/v0_test.c", "docs/cluster.md#paddles-updaters-and-their-equivalents"
TRAIN = "tug train --data clicks.svm --format libsvm --model lr --quiet "

ROWS: Rows = [
    partly("docker pull paddledev/paddle", AROUND, "images of Docker"),
    partly("demo/recommendation", AROUND, "demo/recommendation"),
    told("DEBUGGER=\"gdb --args\"", AROUND, "gdb --args"),
    told("gdb --pid", AROUND, "gdb --pid"),
    told("ssh-keygen, authorized_keys", AROUND, "ssh-keygen"),
    told("cluster_train/run.sh", AROUND, "cluster_train/paddle.py"),
    told("conf.py HOSTS", AROUND, "--hosts FILE"),
    told("PATH_TO_LOCAL_WORKSPACE", AROUND, "--sync DIR"),
    inner("/home/paddle/JOB<time>", "src/launch/copy.c"),
    told("GLOG_log_dir", AROUND, "GLOG_log_dir"),
    told("nohup ... > log/server.log", AROUND, "nohup"),
    # Servers' flags.
    tested("paddle pserver", LINES, "pserver --num_gradient_servers=2"),
    tested("--num_gradient_servers", LINES, "--num_gradient_servers=2"),
    tested("--nics", LINES, "--nics=lo"),
    tested("pserver --port", LINES, "--port=%u"),
    tested("--ports_num", LINES, "--ports_num=2"),
    tested("--ports_num_for_sparse", LINES, "--ports_num_for_sparse=2"),
    tested("--comment", LINES, "--comment=mark_of_the_job"),
    # Trainers' flags.
    line("paddle train", TRAIN + "--num_passes=1"),
    tested("--pservers", LINES, "--pservers=%s"),
    line_refused("--config=trainer_config.py", TRAIN + "--config=./trainer_config.py", "give --model and --hidden"),
    line("--trainer_count", TRAIN + "--trainer_count=2 --num_passes=1"),
    line("--use_gpu=0", TRAIN + "--use_gpu=0 --num_passes=1"),
    line("--num_passes", "tug train --data clicks.svm --format libsvm --model lr --num_passes=2", "pass 2/2 done"),
    line("--save_dir", TRAIN + "--save_dir=./output-1 --num_passes=1; ls output-1", "save-000001"),
    line("--log_period", "tug train --data clicks.svm --format libsvm --model lr --batch 50 --num_passes=1 "
         "--log_period=2",
         "batch 2 "),
    line("--dot_period", "tug train --data clicks.svm --format libsvm --model lr --batch 50 --num_passes=1 "
         "--dot_period=1",
         "...\n"),
    line("--saving_period", TRAIN + "--save_dir=./output-2 --saving_period=1 --num_passes=2; ls output-2",
         "save-000001"),
    tested("--local=0", LINES, "--local=0"),
    tested("--trainer_id", LINES, "--trainer_id=%d"),
    # Servers.
    inner("ParameterServer2Main", "src/server/server.c"),
    inner("ParameterServer2, ProtoServer, SocketServer", "src/server/rows/rows.c"),
    tested("sendParameter SET_PARAM, GET_PARAM", "python/tests/test_table.py", "assign("),
    tested("sendParameter ASYNC_SGD", "tests/e2e/cluster_modes_test.c", "async"),
    tested("sendParameter ADD_GRADIENT", "tests/e2e/cluster_parity_test.c", "sync"),
    told("sendParameter AVERAGE_PARAMETER", CLUSTER, "average_parameter"),
    tested("doOperation", "python/tests/test_table.py", "def test_operations_on_vectors"),
    tested("sync-sgd", "tests/e2e/cluster_parity_test.c", "sync"),
    told("async-sgd", UPDATES, "async_lagged_grad_discard_ratio"),
    inner("blocks of a parameter", "src/train/rows/dense.h"),
    # The trainer.
    inner("TrainerMain ... MultiGradientMachine", "src/train/loop.c"),
    inner("TrainerThread", "src/os/team.c"),
    tested("updateCallback", "python/tests/test_table.py", "def test_batches_of_dense_variables"),
    inner("ParameterUpdaterCreators", "src/train/config.h"),
    told("startBatch, update(para), finishBatch", UPDATES, "startBatch"),
    told("SgdLocalUpdater", CLUSTER, "SgdLocalUpdater"),
    told("SgdThreadUpdater", CLUSTER, "SgdThreadUpdater"),
    told("SgdUpdaterWithCpuAverager", CLUSTER, "SgdUpdaterWithCpuAverager"),
    told("RemoteParameterUpdater", CLUSTER, "RemoteParameterUpdater"),
    told("ConcurrentRemoteParameterUpdater", CLUSTER, "ConcurrentRemoteParameterUpdater"),
    told("SparseRemoteParameterUpdater", CLUSTER, "SparseRemoteParameterUpdater"),
    inner("BaseClient, ParameterClient2", "src/client/client.c"),
]
