"""tug.kvstore: MXNet's KVStore, from Python.

    import tug.kvstore as kvstore

    kv = kvstore.create("dist_sync")        # or "local", "device", "dist_async", "dist_sync_device"
    kv.init("w", numpy.zeros((4, 3), "float32"))
    kv.set_optimizer(tug.optimizer.create("sgd", learning_rate=0.1))
    kv.push("w", gradient)
    kv.pull("w", out=w)

Importing this module in a process whose DMLC_ROLE is server or scheduler runs that role and ends the
process: one script under `tug launch --servers S --workers W -- python3 script.py` serves all roles.
docs/from-mxnet.md maps mxnet.kvstore to this. All errors are tug.Error.

SPDX-License-Identifier: Apache-2.0
"""

import os
from typing import Any

from tug import lr_scheduler, optimizer
from tug._errors import Error
from tug._kvarrays import RowSparse, register_array_type
from tug._kvbase import KVStoreBase
from tug._kvmodule import init_optimizer
from tug._kvnames import no_such
from tug._kvstore import KVStore, create
from tug._roles import run_and_exit
from tug.kvserver import KVStoreServer

__all__ = ["Error", "KVStore", "KVStoreBase", "KVStoreServer", "RowSparse", "create", "init_optimizer", "lr_scheduler",
           "optimizer", "register_array_type"]


_ARRAYS = "arrays are numpy's, torch's, RowSparse, or of a class given to register_array_type"
_OWN = "for a store of your own, register its class with KVStoreBase.register"
_LAYERS = "the program computes scores and gradients itself, as sparse.py of docs/from-mxnet.md does"
_MODULE = "write the training loop in the program, as sparse.py of docs/from-mxnet.md does"
_METRICS = "compute the metric with numpy, as in (p.argmax(axis=1) == y).mean()"
_READERS = "docs/from-mxnet.md has a reader of libsvm files, libsvm(), in place of LibSVMIter"
_ELSEWHERE = {"NDArray": _ARRAYS, "nd": _ARRAYS, "np": _ARRAYS, "TestStore": _OWN, "Horovod": _OWN, "BytePS": _OWN,
              "Module": _MODULE,
              "mod": _MODULE,
              "module": _MODULE,
              "Trainer": "examples/kvstore_torch.py has the loop of Trainer, with a torch model",
              "gluon": "examples/kvstore_torch.py has the loop of gluon.Trainer, with a torch model",
              "autograd": _LAYERS, "sym": _LAYERS, "symbol": _LAYERS, "metric": _METRICS, "io": _READERS,
              "kv": "use tug.kvstore.create, without kv", "cpu": "remove the context: arrays are in main memory",
              "gpu": "remove the context: arrays are in main memory",
              "kvstore_server": "use tug.kvserver"}


def __getattr__(name: str) -> Any:
    raise no_such("tug.kvstore", name, __all__, _ELSEWHERE)


def _serve() -> None:
    from tug import kvserver  # pylint: disable=import-outside-toplevel

    run_and_exit(os.environ["DMLC_ROLE"], kvserver.run)


if os.environ.get("DMLC_ROLE") in ("server", "scheduler"):
    _serve()
