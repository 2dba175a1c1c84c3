"""Paddle's Communicator, for tables of the program's own. It sends a worker's pushes in one of the modes SYNC,
HALF_ASYNC, ASYNC and GEO.

    worker = FleetWrapper.GetInstance()
    worker.init_worker(tables, hosts, 0)
    communicator = Communicator("GEO", envs={"communicator_max_merge_var_num": 100})
    communicator.init_with_ctx([0], {}, worker)
    communicator.start()
    rows = communicator.pull(0, keys)
    communicator.send(0, keys, -0.1 * gradients)

SPDX-License-Identifier: Apache-2.0
"""

import functools
import threading
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

import numpy as np

from tug._arrays import Floats, Keys, floats_of, keys_of, kind_of, out_of, whole
from tug._communicator import Communicator as Queues
from tug._errors import ArgumentTypeError, Error, UsageError
from tug.fleet._client_worker import ClientWorker
from tug.fleet._communicator_settings import Settings, mode_of, settings_of
from tug.fleet._geo import DenseCopy, Geo
from tug.fleet._names import Named
from tug.fleet._own_tables import Scope, names_of, scope_of
from tug.fleet._rounds import Rounds, SyncRounds
from tug.fleet.wrapper import FleetWrapper, run_worker_of

Worker = Union[FleetWrapper, ClientWorker]

LOOK_SECONDS = 0.01  # the interval in which the receiving thread checks the number of pushes


def _tables_of(send_ctx: Any) -> Dict[str, int]:
    """Returns {name: number of a table} for a list of numbers, or for Paddle's {name: CommContext}."""
    if isinstance(send_ctx, Mapping):
        found = {str(name): one.table_id if hasattr(one, "table_id") else one for name, one in send_ctx.items()}
        found = {name: one() if callable(one) else one for name, one in found.items()}
    elif isinstance(send_ctx, (list, tuple, range)):
        found = {str(one): one for one in send_ctx}
    else:
        raise ArgumentTypeError(f"send_ctx: must be a list of tables' numbers, or {{name: number}}, not "
                                f"{kind_of(send_ctx)}")
    for name, number in found.items():
        whole(number, f"send_ctx: the table of '{name}'", 0, 2 ** 31)
    if not found:
        raise UsageError("send_ctx: is empty; give at least one table")
    return found


class CommContext(Named):
    """Paddle's description of a variable that is sent to a table. Only the table's number has an effect here."""

    holders = ("CommContext",)

    def __init__(self, name: str, *said: Any, table_id: int = -1, **more: Any) -> None:
        self._name = name
        self._table_id: int = said[8] if len(said) > 8 else table_id
        del more  # the table determines how a variable is split and where it is sent

    def var_name(self) -> str:
        """Returns the name of the variable."""
        return self._name

    def table_id(self) -> int:
        """Returns the number of the variable's table."""
        return self._table_id


class _Receiver:
    """A thread that pulls the dense variables after every `after` pushes."""

    def __init__(self, after: int, pull: Callable[[], Any]) -> None:
        self._after, self._pull, self._sends = after, pull, 0
        self._end = threading.Event()
        self._failed: Optional[Exception] = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        seen = 0
        while not self._end.wait(LOOK_SECONDS):
            if self._sends - seen >= self._after:
                seen = self._sends
                try:
                    self._pull()
                except Exception as error:  # noqa: B902
                    self._failed = error
                    return

    def sent(self) -> None:
        """Counts a push. Raises the error with which the thread has ended, if any."""
        self._sends += 1
        if self._failed is not None:
            raise self._failed

    def stop(self) -> None:
        """Ends the thread, and raises its error if it has failed."""
        self._end.set()
        self._thread.join()
        if self._failed is not None:
            raise self._failed


class Communicator(Named):
    """Sends a worker's pushes in one of four modes.

    mode: "ASYNC": a thread merges and sends pushes. "HALF_ASYNC": the pushes of a batch, which several threads compute,
    are sent together; the threads wait for this in barrier(). "SYNC": like HALF_ASYNC, but all workers compute a batch
    together; the tables need mode sync. "GEO": the worker trains copies of the rows, and exchanges changes with the
    servers every k_steps sends; the tables need accessor merge, or accessor plain with rule sum. Paddle's numbers of
    DistributedMode are accepted, too.

    envs: settings, which may also come from the environment as FLAGS_communicator_...: communicator_send_queue_size,
    communicator_max_merge_var_num (in GEO the value of k_steps, in SYNC and HALF_ASYNC the number of threads in place
    of CPU_NUM), communicator_is_sgd_optimizer, communicator_independent_recv_thread,
    communicator_min_send_grad_num_before_recv. docs/from-paddle.md explains them."""

    holders = ("Communicator",)

    def __init__(self, mode: Any = "ASYNC", kwargs: Optional[Mapping[str, Any]] = None,
                 envs: Optional[Mapping[str, Any]] = None) -> None:
        self.mode = mode_of(mode)
        self._settings: Settings = settings_of(self.mode, kwargs, envs)
        self._worker: Optional[Worker] = None
        self._sent: Dict[str, int] = {}
        self._recv: Dict[int, List[str]] = {}
        self._scope: Scope = {}
        self._queues: Optional[Queues] = None  # ASYNC
        self._rounds: Optional[Rounds] = None  # HALF_ASYNC, SYNC
        self._geo: Optional[Geo] = None
        self._receiver: Optional[_Receiver] = None
        self._running = False

    def init_with_ctx(self, send_ctx: Any, recv_ctx: Optional[Mapping[int, Sequence[str]]], proto_txt: Any,
                      unit64_hosts: Any = None, scope: Optional[Scope] = None) -> None:
        """Connects the communicator to its tables. send_ctx: the numbers of the tables to send to, or Paddle's {name:
        CommContext}. recv_ctx: {dense table: names of variables}, which recv() pulls into `scope`, a dict of arrays.
        proto_txt: the run's tables, as text or a list of FleetTable; unit64_hosts: the servers. A process that is not
        in a run joins it. Instead, proto_txt may be a FleetWrapper, fleet or a client that has the tables; then the
        next argument is the scope."""
        if self._worker is not None:
            raise UsageError("init_with_ctx: was called already")
        worker = run_worker_of(proto_txt, unit64_hosts, self._settings.trainer_id)
        if recv_ctx is not None and not isinstance(recv_ctx, Mapping):
            raise ArgumentTypeError(f"recv_ctx: must be {{dense table: names of variables}}, not {kind_of(recv_ctx)}")
        recv = {table_id: names_of(names, "recv_ctx") or [] for table_id, names in (recv_ctx or {}).items()}
        if scope is None and unit64_hosts is not None and not isinstance(unit64_hosts, (list, tuple)):
            scope = scope_of(unit64_hosts)
        scope = {} if scope is None else scope_of(scope)
        for table_id, names in recv.items():
            known = worker.dense_variables(table_id, names or None, scope)  # raises for wrong tables or names
            recv[table_id] = names or list(known.at)
        self._settings.check(worker.worker_index(), worker.worker_num(), worker.client.servers)
        sent = _tables_of(send_ctx)
        self._scope = scope
        self._open(worker, list(dict.fromkeys(sent.values())), recv)
        self._sent, self._recv, self._worker = sent, recv, worker
        worker.note_communicator(self._stop_if_running)

    def _open(self, worker: Worker, numbers: List[int], recv: Dict[int, List[str]]) -> None:
        o = self._settings
        tables = {number: worker.table(number) for number in numbers}
        for number, table in tables.items():
            sync = table.learning().sync
            if sync != (self.mode == "SYNC"):
                raise UsageError(f"table {number} is {'' if sync else 'not '}of mode sync: a communicator of mode "
                                 f"{self.mode} needs tables {'with' if self.mode == 'SYNC' else 'without'} the setting "
                                 "'mode = sync'")
        if self.mode == "ASYNC":
            self._queues = worker.client.communicator(list(tables.values()), queue=o.queue, merge=o.merge,
                                                      grad_reduce="mean" if o.mean else "sum")
        elif self.mode == "HALF_ASYNC":
            self._rounds = Rounds(tables, o.threads, worker.client.wait_seconds)
        elif self.mode == "SYNC":
            self._rounds = SyncRounds(tables, o.threads, worker.client, worker.changes())
        else:
            self._open_geo(worker, numbers, recv)

    def _open_geo(self, worker: Worker, numbers: List[int], recv: Dict[int, List[str]]) -> None:
        for number in [*numbers, *recv]:
            if not worker.is_of_sums(number):
                raise UsageError(f"table {number}: mode GEO needs a table of sums: give it 'accessor = merge', or "
                                 "'rule = sum' (Paddle: MemorySparseGeoTable)")
        workers = worker.worker_num()
        self._geo = geo = Geo({number: worker.table(number) for number in numbers if number not in recv},
                              worker.changes(), workers, self._settings.k_steps, worker.client.wait_seconds)
        for number, names in recv.items():
            known = worker.dense_variables(number, names, self._scope)
            arrays = {}
            for name in names:
                arrays[name] = self._scope.setdefault(name, np.zeros(known.shapes[name], np.float32))
                out_of(arrays[name], known.shapes[name], name)
            geo.dense.append(DenseCopy(functools.partial(worker.pull_dense_views, number, known),
                                       functools.partial(worker.push_dense, table_id=number), arrays, workers))

    def _made(self) -> Worker:
        if self._worker is None:
            raise UsageError("communicator: call init_with_ctx first")
        return self._worker

    def _number(self, table: Any) -> int:
        if isinstance(table, str):
            if table not in self._sent:
                raise UsageError(f"'{table}' is not one of {', '.join(self._sent)}")
            return self._sent[table]
        if table not in self._sent.values():
            raise UsageError(f"table_id: the communicator has no table {table}; it has "
                             f"{', '.join(map(str, dict.fromkeys(self._sent.values())))}")
        return int(table)

    def start(self) -> None:
        """Starts the communicator; in mode ASYNC it starts the sending thread."""
        self._made()
        if self._running:
            raise UsageError("the communicator runs already")
        if self._geo is not None and self._geo.closed:
            raise UsageError("the communicator was stopped, which freed its copies of rows: make another one")
        if self._queues is not None:
            self._queues.start()
        if self._settings.receives and self._recv:
            self._receiver = _Receiver(self._settings.recv_after, self._pull_dense)
        self._running = True

    def stop(self) -> None:
        """Sends what is left, and ends. Except in mode GEO, the communicator can be started again. In mode SYNC it
        pushes empty parts for the batches of the other workers until all workers have stopped."""
        self._made()
        failed: List[Error] = []
        running, self._running = self._running, False
        for end in (self._receiver, self._queues, self._rounds if running else None):
            try:
                if end is not None:
                    end.stop()
            except Error as error:
                failed.append(error)
        self._receiver = None
        if self._geo is not None and running:
            try:
                self._geo.exchange()
            finally:
                self._geo.close()
        if failed:
            raise failed[0]

    def _stop_if_running(self) -> None:
        if self.is_running():
            self.stop()

    def is_running(self) -> bool:
        """Returns whether the communicator is between start and stop."""
        return self._running and (self._queues is None or (not self._queues.closed and self._queues.is_running()))

    def _runs(self) -> Worker:
        worker = self._made()
        if not self._running and self._queues is None:
            raise UsageError("the communicator does not run: call start() first")
        return worker

    def send(self, table_id: Any, keys: Any, values: Any = None) -> None:
        """Takes a push to a table, given by its number or its name in send_ctx, and copies the arrays. For a dense
        table use also send(table, {variable: gradients}). In mode GEO it adds `values` to this worker's copies of the
        rows."""
        worker, number = self._runs(), self._number(table_id)
        if isinstance(keys, Mapping):
            keys, values = worker.blocks(number, keys)
        if self._queues is not None:
            self._queues.send(worker.table(number), keys, values)
        elif self._geo is not None:
            if number not in self._geo.holds():
                raise UsageError(f"table {number} is dense: in mode GEO change its variables in the scope, do not "
                                 "send them")
            self._geo.add(number, keys, values)
        else:
            assert self._rounds is not None
            self._rounds.send(number, keys, values)
        if self._receiver is not None:
            self._receiver.sent()

    def pull(self, table_id: Any, keys: Any) -> Floats:
        """Pulls rows: in mode GEO this worker's copies, otherwise the servers' rows."""
        worker, number = self._made(), self._number(table_id)
        if self._geo is not None and number in self._geo.holds():
            self._runs()
            return self._geo.pull(number, keys)
        return worker.table(number).pull(keys)

    def barrier(self) -> None:
        """Ends this thread's part of a batch in modes SYNC and HALF_ASYNC: waits until all threads have sent their
        parts and the batch is pushed. Does nothing in the other modes."""
        self._runs()
        if self._rounds is not None:
            self._rounds.barrier()

    def barrier_trigger_decrement(self) -> None:
        """Tells modes SYNC and HALF_ASYNC that this thread has no more data, so that the other threads no longer wait
        for it."""
        self._runs()
        if self._rounds is not None:
            self._rounds.leave()

    def _pull_dense(self) -> None:
        worker = self._made()
        for table_id, names in self._recv.items():
            worker.pull_dense_params(self._scope, table_id, names)

    def recv(self) -> Scope:
        """Pulls the dense variables of recv_ctx into the scope, after all earlier sends were pushed, and returns the
        scope. In mode GEO it exchanges the changes of all tables at once."""
        self._runs()
        if self._geo is not None:
            self._geo.exchange()
            return self._scope
        if self._queues is not None and self._queues.is_running():
            self._queues.flush()
        self._pull_dense()
        return self._scope

    # --------------------------------------------------- further functions of Paddle's Communicator

    def init_params(self, context: Mapping[int, Sequence[str]]) -> None:
        """Sets the dense variables {table: names} on the servers to the arrays of the scope. Only one worker calls
        it."""
        for table_id, names in context.items():
            self._made().push_dense_params(self._scope, table_id, names)

    def pull_dense(self, context: Mapping[int, Sequence[str]]) -> None:
        """Pulls the dense variables {table: names} into the scope."""
        for table_id, names in context.items():
            self._made().pull_dense_params(self._scope, table_id, names)

    def push_sparse_param(self, var_name: str, table_id: int = -1, scope: Optional[Scope] = None) -> None:
        """Sets the rows with keys 0, 1, ... of a table to the rows of an array of the scope. Only one worker calls
        it."""
        worker, scope = self._made(), self._scope if scope is None else scope
        number = self._number(var_name if table_id == -1 else table_id)
        if var_name not in scope:
            raise UsageError(f"var_name: the scope has no '{var_name}'")
        rows = np.asarray(scope[var_name])
        keys: Keys = keys_of(np.arange(len(rows) if rows.ndim > 0 else 0))
        values = floats_of(rows, (len(keys), worker.table(number).assign_width), var_name)
        if self._geo is not None and number in self._geo.holds():
            self._geo.assign(number, keys, values)
        else:
            worker.push_sparse_param(number, keys, values)

    def get_client_info(self) -> List[str]:
        """Returns a list with the text that identifies this worker."""
        return self._made().get_client_info()

    def set_clients(self, host_list: Sequence[str]) -> None:
        """Sets the texts of get_client_info of all workers, ordered by index."""
        self._made().set_clients(host_list)

    def create_client_to_client_connection(self, *waits: int, **more: int) -> None:
        """Checks that the clients of set_clients are in this run. All workers call it. `waits` have no effect: the
        run's wait_seconds is the limit."""
        del waits, more
        self._made().create_client2client_connection()


class DistCommunicator(Communicator):
    """core.DistCommunicator: a Communicator whose constructor also calls init_with_ctx."""

    def __init__(self, mode: Any, proto_desc: Any, host_list: Any, send_ctx: Any, recv_ctx: Any,
                 param_scope: Optional[Scope] = None, envs: Optional[Mapping[str, Any]] = None) -> None:
        super().__init__(mode, None, envs)
        self.init_with_ctx(send_ctx, recv_ctx, proto_desc, host_list, param_scope)
