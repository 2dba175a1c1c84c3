"""Paddle's FleetWrapper and Communicator: one process's requests of a run, by their names (tug/fleet.h).

    tables = [FleetTable(0, "emb", "accessor=ctr; dim=8"), FleetTable(1, "fc", "dim=64", {"w": (8, 4), "b": 4})]
    worker = FleetWrapper()
    worker.init_worker(tables, ["127.0.0.1:6174", "127.0.0.1:6175"], 0)

Everything about rows and roles is the library's; here are the forms of the calls, and numpy.

SPDX-License-Identifier: Apache-2.0
"""

import math
from typing import Any, Dict, List, Mapping, MutableMapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from tug._abi import ffi
from tug._arrays import Floats, Path, kind_of, of_floats, out_of, real, seconds, whole, word
from tug._client import Client
from tug._communicator import Communicator as Queues
from tug._dense import Variables
from tug._errors import ArgumentTypeError, UsageError
from tug._library import Handle, lib, text_of
from tug._table import Table, TableStats
from tug.fleet._names import Named
from tug.fleet._others import shown_stats
from tug.fleet.role_maker import JoiningRoleMaker, Role, RoleMaker, UserDefinedRoleMaker

Scope = MutableMapping[str, Any]


class FleetTable(NamedTuple):
    """A table of a run (struct tug_fleet_table). With variables, {name: shape} or {name: (shape, init)} as in
    Table.dense, it is dense: arrays that every worker has whole."""

    number: int
    name: str
    settings: str = ""
    variables: Optional[Mapping[str, Any]] = None


_instance: Optional["FleetWrapper"] = None


class _Lent(Client):
    """The fleet's client: it is opened and closed with the fleet's part in the run."""

    def __init__(self, fleet: "FleetWrapper", c: Any) -> None:
        self._lender, self._lent = fleet, c
        super().__init__(wait_seconds=fleet.wait_seconds)

    def _begin(self, options: Dict[str, Any]) -> Any:
        del options  # the fleet has opened it
        return self._lent

    def _end(self) -> None:
        self._lender._run(lib.tug_fleet_stop_worker)


def _table_id(given: Any) -> int:
    return whole(given, "table_id", 0, lib.TUG_FLEET_TABLE - 1)


def _host(text: Any) -> str:
    """HOST:PORT of that, or of Paddle's HOST:PORT:RANK."""
    if not isinstance(text, str):
        raise ArgumentTypeError(f"host_sign_list: has texts, HOST:PORT, not {type(text).__name__}")
    if text.count(":") == 2 and not text.startswith("["):
        return text.rpartition(":")[0]
    return text


def _tables_of(dist_desc: Any) -> List[FleetTable]:
    if isinstance(dist_desc, (str, bytes)):
        raise ArgumentTypeError("dist_desc: is a text, as Paddle's; give a list of FleetTable(number, name, settings, "
                                "variables), whose settings docs/tables.md has")
    tables = list(dist_desc)
    for one in tables:
        if not isinstance(one, FleetTable):
            raise ArgumentTypeError(f"dist_desc: is a list of FleetTable, and has {kind_of(one)}")
    return tables


class FleetWrapper(Named, Handle):
    """A server's or a worker's part in a run, with the calls of Paddle's FleetWrapper; requests are done when they
    return. One thread at a time uses it; its `client` is anybody's.

    wait_seconds: the longest wait for anything; 0: TUG_WAIT_SECONDS, or 600. local_loops: of a worker that is alone,
    server threads. UsageError: a call in the wrong role or at the wrong time, or no such table; SystemFailure: a server
    has died, or what was waited for has not come in time."""

    holders = ("FleetWrapper",)

    def __init__(self, wait_seconds: float = 0, local_loops: int = 1) -> None:
        self.wait_seconds = seconds(wait_seconds, "wait_seconds")
        self._loops = whole(local_loops, "local_loops", 1, 4096)
        self._lent: Optional[_Lent] = None
        self._tables: Dict[int, Table] = {}  # of a worker
        self._variables: Dict[int, Variables] = {}
        super().__init__("FleetWrapper", ffi.NULL)

    @classmethod
    def GetInstance(cls) -> "FleetWrapper":  # noqa: N802
        """The process's own, made by the first call."""
        global _instance
        if _instance is None or _instance.closed:
            _instance = cls()
        return _instance

    def _init(self, dist_desc: Any, roles: RoleMaker) -> List[FleetTable]:
        if self._c != ffi.NULL:
            raise UsageError("this FleetWrapper has a role already; make another one")
        tables = _tables_of(dist_desc)
        kept: List[Any] = []
        c = ffi.new("struct tug_fleet_table[]", max(len(tables), 1))
        for i, one in enumerate(tables):
            kept += [ffi.new("char[]", word(one.name, "name")), ffi.new("char[]", word(one.settings, "settings"))]
            c[i].number = whole(one.number, "number", 0, lib.TUG_FLEET_TABLE - 1)
            c[i].name, c[i].settings = kept[-2], kept[-1]
            if one.variables:
                self._variables[one.number] = known = Variables(one.variables)
                c[i].variables, c[i].n_variables = known.c, len(known.at)
        o = ffi.new("struct tug_fleet_options *", {
            "roles": roles.c, "tables": c, "n_tables": len(tables), "wait_seconds": self.wait_seconds,
            "local_loops": self._loops})
        ret = ffi.new("struct tug_fleet **")
        self._run(lambda _none: lib.tug_fleet_init(ret, o))
        self._c = ffi.gc(ret[0], lib.tug_fleet_close)
        return tables

    def _ready(self) -> None:
        if self._c == ffi.NULL:
            raise UsageError("this FleetWrapper has no role yet: init_server or init_worker comes first")

    def _ask(self, function: Any, *args: Any) -> None:
        self._ready()
        self._run(function, *args)

    # Servers.

    def init_server(self, dist_desc: Sequence[FleetTable], host_sign_list: Sequence[str] = (), index: int = 0,
                    trainers: int = 0, server_sub_program: Sequence[Any] = (), *,
                    role_maker: Optional[RoleMaker] = None) -> None:
        """This process is server `index` of those at these endpoints, HOST:PORT or Paddle's HOST:PORT:RANK. The first
        hosts the scheduler. role_maker: in their place."""
        if server_sub_program:
            raise UsageError("server_sub_program: servers run no program; a table's rule is one of its settings")
        hosts = [_host(one) for one in host_sign_list]
        self._init(dist_desc, role_maker or UserDefinedRoleMaker(index, Role.SERVER, trainers, hosts))

    def load_sparse(self, path: Path, meta: str = "", table_id: int = 0) -> None:
        """What server 0 loads into a table before the run begins. All servers call it. meta: "", or a mode as Paddle
        writes it, "0" to "3"; what a save has in it, it says itself."""
        if meta and (not isinstance(meta, str) or meta not in "0123" or len(meta) != 1):
            raise UsageError(f"meta: '{meta}' is not one of 0, 1, 2, 3; a save itself says its mode")
        self._ask(lib.tug_wrapper_load_sparse, _table_id(table_id), word(path, "path"))

    def run_server(self, ip: Optional[str] = None, port: int = 0) -> None:
        """Serves until the last worker has left."""
        own = ffi.NULL if ip is None else ffi.new("char[]", word(ip, "ip"))
        self._ask(lib.tug_fleet_run_server, own, whole(port, "port", 0, 65535))

    # Workers.

    def init_worker(self, dist_desc: Sequence[FleetTable], host_sign_list: Sequence[str] = (), index: int = 0, *,
                    role_maker: Optional[RoleMaker] = None) -> None:
        """This process is worker `index`; it joins the run. Without endpoints the servers are threads of it."""
        hosts = [_host(one) for one in host_sign_list]
        tables = self._init(dist_desc, role_maker or JoiningRoleMaker(index, hosts))
        self._run(lib.tug_fleet_init_worker)
        self._lent = _Lent(self, lib.tug_fleet_client(self._c))
        self._tables = {one.number: self._lent.find(one.name) for one in tables}

    @property
    def client(self) -> Client:
        """What pushes and pulls; after init_worker."""
        if self._lent is None or self._lent.closed:
            raise UsageError("this FleetWrapper is in no run: init_worker comes first")
        return self._lent

    def table(self, table_id: int) -> Table:
        """One of the tables of dist_desc, for pushes and pulls."""
        if self.client.closed or table_id not in self._tables:
            raise UsageError(f"table_id: {table_id} is not one of {', '.join(map(str, self._tables)) or 'no tables'}")
        return self._tables[table_id]

    def worker_index(self) -> int:
        """Its number among the workers."""
        self._ready()
        return self._status_of(lib.tug_fleet_worker_index)

    def worker_num(self) -> int:
        """The number of workers."""
        self._ready()
        return self._status_of(lib.tug_fleet_worker_num)

    def stop_worker(self) -> None:
        """Leaves the run, when all requests have ended."""
        self._ready()
        client, self._lent = self.client, None
        client.close()

    def stop_server(self) -> None:
        """Ends the run at all processes."""
        self._ask(lib.tug_wrapper_stop_server)

    def barrier(self, barrier_table_id: int = 0, trainer_id: Optional[int] = None) -> None:
        """Waits until all workers are here. Barriers need no table; trainer_id can only be this worker's."""
        whole(barrier_table_id, "barrier_table_id", 0, 2 ** 31)
        if trainer_id is not None and trainer_id != self.worker_index():
            raise UsageError(f"trainer_id: {trainer_id} is another worker's; this is worker {self.worker_index()}")
        self._ask(lib.tug_fleet_barrier_worker)

    # Dense parameters.

    def _known(self, table_id: int, var_names: Optional[Sequence[str]]) -> Tuple[Variables, List[str]]:
        known = self._variables.get(table_id)
        if known is None:
            raise UsageError(f"table_id: {table_id} is not a dense table; dense tables are "
                             f"{', '.join(map(str, self._variables)) or 'none'}")
        names = list(known.at if var_names is None else var_names)
        unknown = [name for name in names if name not in known.at]
        if unknown:
            raise UsageError(f"var_names: there is no {', '.join(unknown)}; there are {', '.join(known.at)}")
        return known, names

    def push_dense_params(self, scope: Mapping[str, Any], table_id: int,
                          var_names: Optional[Sequence[str]] = None) -> None:
        """Sets the parameters of a dense table to the arrays of `scope`, {name: array of real numbers of its shape},
        whatever its rule is."""
        known, names = self._known(table_id, var_names)
        missing = [name for name in known.at if name not in names or name not in scope]
        if missing:
            raise UsageError(f"push_dense_params: {', '.join(missing)} of table {table_id} is not given; all "
                             "variables are set together")
        flat = known.flat(scope, "scope")
        self._ask(lib.tug_wrapper_push_dense_params, table_id, of_floats(flat), flat.size)

    def pull_dense_params(self, scope: Scope, table_id: int, var_names: Optional[Sequence[str]] = None) -> None:
        """The parameters as they are, into the float32 arrays of `scope`, in place; one that is not there is made."""
        known, names = self._known(table_id, var_names)
        out: Dict[str, Floats] = {name: out_of(scope[name], known.shapes[name], name) for name in names if
                                  name in scope}
        flat = np.empty(known.size, np.float32)
        self._ask(lib.tug_wrapper_pull_dense_params, table_id, of_floats(flat, True), flat.size)
        pulled = known.views(flat)
        for name in names:
            if name in out:
                out[name][...] = pulled[name]
            else:
                scope[name] = pulled[name].copy()

    # Rows.

    def load_model(self, path: Path, mode: int = 0) -> None:
        """Rows of a save into all tables, which are cleared first. One worker calls it."""
        whole(mode, "mode", 0, 3)  # what a save has in it, it says itself
        self._ask(lib.tug_wrapper_load_model, word(path, "path"))

    def load_one_table(self, table_id: int, path: Path, mode: int = 0) -> None:
        """Likewise into one."""
        whole(mode, "mode", 0, 3)
        self._ask(lib.tug_wrapper_load_one_table, _table_id(table_id), word(path, "path"))

    def save_all_model(self, path: Path, mode: int = 0) -> str:
        """The servers write all tables below `path`: 0 all rows, 1 delta, 2 base, 3 day. One worker calls it; where
        the save is."""
        where = ffi.new("char[]", lib.TUG_PATH_MAX)
        self._ask(lib.tug_wrapper_save_all_model, word(path, "path"), whole(mode, "mode", 0, 3), where)
        return text_of(where)

    def save_one_model(self, table_id: int, path: Path, mode: int = 0) -> str:
        """Likewise one table."""
        where = ffi.new("char[]", lib.TUG_PATH_MAX)
        self._ask(lib.tug_wrapper_save_one_model, _table_id(table_id), word(path, "path"),
                  whole(mode, "mode", 0, 3), where)
        return text_of(where)

    def recv_and_save_model(self, table_id: int, path: Path) -> None:
        """Pulls a whole table and writes it here, as text."""
        self._ask(lib.tug_wrapper_recv_and_save_model, _table_id(table_id), word(path, "path"))

    def sparse_table_stat(self, table_id: int) -> TableStats:
        """The figures of a table over all servers. Paddle prints its feasigns (rows) and mf (extra_rows)."""
        s = ffi.new("struct tug_table_stats *")
        self._ask(lib.tug_wrapper_sparse_table_stat, _table_id(table_id), s)
        return TableStats(*(getattr(s, name) for name in TableStats._fields))

    def shrink_sparse_table(self, table_id: int, threshold: Optional[float] = None) -> int:
        """Decays shows and clicks, and removes rows that have faded; how many."""
        removed = ffi.new("uint64_t *")
        self._ask(lib.tug_wrapper_shrink_sparse_table, _table_id(table_id),
                  math.nan if threshold is None else real(threshold, "threshold", -math.inf, math.inf), removed)
        return int(removed[0])

    def print_table_stat(self, table_id: int) -> None:
        """Prints what sparse_table_stat returns."""
        print(f"table {table_id}: {shown_stats(self.sparse_table_stat(table_id))}", flush=True)

    def clear_one_table(self, table_id: int) -> None:
        """Removes all rows of a table. One worker calls it."""
        self.table(table_id).clear()

    def clear_all_table(self) -> None:
        """Removes all rows of all tables. One worker calls it."""
        for table in self._tables.values():
            table.clear()

    # The run.

    def push_global_step(self, steps: int = 1) -> int:
        """This worker has done so many more steps; those of all workers (Client.step)."""
        return self.client.step(steps)

    def start_profiler(self) -> None:
        """Begins to take the times of requests on all servers (Client.profile_start)."""
        self.client.profile_start()

    def stop_profiler(self, file: Path = "profile.json") -> None:
        """Writes them as a trace that Chrome and Perfetto open."""
        self.client.profile_stop(file)

    # Clients: workers have no links to each other, and what they exchange goes through the servers.

    def get_client_info(self) -> List[str]:
        """What names this worker."""
        info = ffi.new("char[]", lib.TUG_CLIENT_INFO_MAX)
        self._ask(lib.tug_wrapper_get_client_info, info)
        return [text_of(info)]

    def all_gather(self, info: bytes) -> List[bytes]:
        """Bytes of all workers, by index; of each as many. All call it."""
        n = self.worker_num()
        out = bytearray(n * len(info))
        self._ask(lib.tug_fleet_all_gather, bytes(info), len(info), ffi.from_buffer("char[]", out))
        return [bytes(out[i * len(info):(i + 1) * len(info)]) for i in range(n)]

    def set_clients(self, client_infos: Sequence[str]) -> None:
        """Those of all workers, by index."""
        kept = [ffi.new("char[]", word(one, "client_infos")) for one in client_infos]
        self._ask(lib.tug_wrapper_set_clients, ffi.new("char *[]", kept), len(kept))

    def create_client2client_connection(self) -> None:
        """Whether the clients that were set are in this run. All workers call it."""
        self._ask(lib.tug_wrapper_create_client2client_connection)

    def close(self) -> None:
        """Leaves the run, if it is in one, and frees. A second call does nothing."""
        if self._lent is not None and not self._lent.closed:
            self.stop_worker()
        if self._begin_closing():
            c, self._c = self._c, ffi.NULL
            if c != ffi.NULL:
                ffi.release(c)


ENVS = {"communicator_send_queue_size": "queue", "communicator_max_merge_var_num": "merge"}
MODES = {"SYNC": "a_sync=False of fleet's strategy, or tables of mode sync", "GEO": "tug train --mode geo:K",
         "HALF_ASYNC": "tug train --mode half-async"}


class Communicator(Named):
    """What merges and sends a worker's pushes in the background (tug.Communicator), by Paddle's names.

    envs: communicator_send_queue_size (pushes that wait, at most; 16), communicator_max_merge_var_num (pushes put
    into one; as many as wait)."""

    holders = ("Communicator",)

    def __init__(self, mode: str = "ASYNC", kwargs: Optional[Mapping[str, Any]] = None,
                 envs: Optional[Mapping[str, Any]] = None) -> None:
        if mode != "ASYNC":
            raise UsageError(f"mode: '{mode}' is not ASYNC; {MODES.get(mode, 'there is no such mode')}")
        if kwargs:
            raise UsageError(f"kwargs: {', '.join(kwargs)}: a communicator sends to tables, and has no program")
        unknown = sorted(set(envs or ()) - set(ENVS))
        if unknown:
            raise UsageError(f"envs: there is no {', '.join(unknown)}; there are {', '.join(ENVS)}")
        self._limits = {"queue": 0, "merge": 0}
        for name, value in (envs or {}).items():
            text = str(value)
            if not text.isdigit():
                raise UsageError(f"envs: {name} is '{text}', which is not a whole number")
            self._limits[ENVS[name]] = whole(int(text), name, 1, 2 ** 32 - 1)
        self._worker: Optional[FleetWrapper] = None
        self._queues: Optional[Queues] = None
        self._recv: Dict[int, List[str]] = {}
        self._scope: Scope = {}

    def init_with_ctx(self, send_ctx: Sequence[int], recv_ctx: Mapping[int, Sequence[str]], worker: FleetWrapper,
                      scope: Optional[Scope] = None) -> None:
        """send_ctx: the tables that it sends to, by number. recv_ctx: {dense table: names of variables}, which recv
        puts into `scope`. worker: whose client sends."""
        if self._queues is not None:
            raise UsageError("init_with_ctx: was called already")
        for table_id, names in recv_ctx.items():
            worker.pull_dense_params({}, table_id, names)  # says what is wrong with them
        tables = [worker.table(table_id) for table_id in send_ctx]
        self._queues = worker.client.communicator(tables, queue=self._limits["queue"], merge=self._limits["merge"])
        self._worker, self._recv = worker, {t: list(names) for t, names in recv_ctx.items()}
        self._scope = {} if scope is None else scope

    def _made(self) -> Queues:
        if self._queues is None:
            raise UsageError("init_with_ctx comes first")
        return self._queues

    def start(self) -> None:
        """Starts the thread that sends."""
        self._made().start()

    def stop(self) -> None:
        """Sends what is queued, and ends the thread. It may be started again."""
        self._made().stop()

    def is_running(self) -> bool:
        """Whether its thread runs."""
        return self._queues is not None and not self._queues.closed and self._queues.is_running()

    def send(self, table_id: int, keys: Any, values: Any) -> None:
        """Hands a push over; the arrays are copied."""
        queues = self._made()
        assert self._worker is not None
        queues.send(self._worker.table(table_id), keys, values)

    def recv(self) -> Scope:
        """The dense variables of recv_ctx, with all that was handed over before, into the scope."""
        queues = self._made()
        assert self._worker is not None
        if queues.is_running():
            queues.flush()
        for table_id, names in self._recv.items():
            self._worker.pull_dense_params(self._scope, table_id, names)
        return self._scope
