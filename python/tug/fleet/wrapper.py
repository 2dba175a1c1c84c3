"""Paddle's FleetWrapper: a process joins a run as a server or a worker, and sends requests to the run's tables.

    tables = [FleetTable(0, "emb", "accessor=ctr; dim=8"), FleetTable(1, "fc", "dim=64", {"w": (8, 4), "b": 4})]
    worker = FleetWrapper()
    worker.init_worker(tables, ["127.0.0.1:6174", "127.0.0.1:6175"], 0)

The library handles rows and roles (tug/fleet.h); this module converts the calls and numpy arrays.

SPDX-License-Identifier: Apache-2.0
"""

import math
import os
import re
import socket
import threading
import weakref
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from tug._abi import ffi
from tug._arrays import Path, kind_of, real, seconds, whole, word
from tug._client import Client
from tug._dense import Variables
from tug._errors import ArgumentTypeError, Error, UsageError
from tug._library import Handle, lib, text_of
from tug._table import Table, TableStats
from tug.fleet._client_worker import ClientWorker
from tug.fleet._exchange import SAID_MAX
from tug.fleet._fleet import Fleet, fleet
from tug.fleet._messages import Messages
from tug.fleet._names import Named
from tug.fleet._others import mode_of, shown_stats
from tug.fleet._own_tables import OwnTables
from tug.fleet.role_maker import (JoiningRoleMaker, PaddleCloudRoleMaker, Role, RoleMaker, UserDefinedRoleMaker,
                                  launched_roles)
from tug.fleet.server_desc import Described, FleetTable, described

_instance: Optional["FleetWrapper"] = None
_joined: "weakref.WeakSet[FleetWrapper]" = weakref.WeakSet()  # wrappers that have joined a run as workers


class _Lent(Client):
    """The client of a FleetWrapper. The library opens it in init_worker, and close() leaves the run."""

    def __init__(self, fleet: "FleetWrapper", c: Any) -> None:
        self._lender, self._lent = fleet, c
        super().__init__(wait_seconds=fleet.wait_seconds)

    def _begin(self, options: Dict[str, Any]) -> Any:
        del options  # the library has opened the client already
        return self._lent

    def _end(self) -> None:
        self._lender._run(lib.tug_fleet_stop_worker)


def _table_id(given: Any) -> int:
    return whole(given, "table_id", 0, lib.TUG_TABLES_MAX - 1)


def _host(text: Any) -> str:
    """Returns HOST:PORT for a host given as HOST:PORT, as Paddle's HOST:PORT:RANK, or as Paddle's 64-bit number of
    address, port and rank."""
    if isinstance(text, int) and not isinstance(text, bool) and 0 <= text < 1 << 64:
        # the number has the address in inet_addr's byte order
        address = socket.inet_ntoa((text >> 32).to_bytes(4, "little"))
        return f"{address}:{text >> 12 & 0xfffff}"
    if not isinstance(text, str):
        raise ArgumentTypeError(f"hosts: must have HOST:PORT, HOST:PORT:RANK or 64-bit numbers, not {kind_of(text)}")
    if text.count(":") == 2 and not text.startswith("["):
        return text.rpartition(":")[0]
    return text


def _hosts(given: Any) -> List[str]:
    if given is None:
        return []
    if not isinstance(given, (list, tuple)):
        raise ArgumentTypeError(f"hosts: must be a list of HOST:PORT, not {kind_of(given)}")
    return [_host(one) for one in given]


class FleetWrapper(Named, OwnTables, Handle):
    """The part of a server or a worker in a run, with the methods of Paddle's FleetWrapper. A request is done when its
    method returns. Several threads may call the methods, which run one at a time; `client` can be used by several
    threads at once.

    wait_seconds: the limit of every wait; 0: TUG_WAIT_SECONDS, or 600. local_loops: the number of server threads of a
    worker that runs without servers. Methods raise UsageError for a call in the wrong role or at the wrong time, or for
    an unknown table, and SystemFailure if a server has died or a wait has exceeded wait_seconds."""

    holders = ("FleetWrapper",)

    def __init__(self, wait_seconds: float = 0, local_loops: int = 1) -> None:
        self.wait_seconds = seconds(wait_seconds, "wait_seconds")
        self._loops = whole(local_loops, "local_loops", 1, 4096)
        self._lent: Optional[_Lent] = None
        self._turn = threading.RLock()  # only one thread at a time may use the library's fleet
        self._tables: Dict[int, Table] = {}  # the run's tables by number; empty in a server
        self._variables: Dict[int, Variables] = {}
        self._said = Described([])
        self._messages = Messages()
        super().__init__("FleetWrapper", ffi.NULL)

    @classmethod
    def GetInstance(cls) -> "FleetWrapper":  # noqa: N802
        """Returns the process's own FleetWrapper, which the first call creates."""
        global _instance
        if _instance is None or _instance.closed:
            _instance = cls()
        return _instance

    def _init(self, name: str, given: Any, roles: RoleMaker) -> List[FleetTable]:
        if self._c != ffi.NULL:
            raise UsageError("this FleetWrapper has a role already; make another one")
        said = described(given, name)
        kept: List[Any] = []
        c = ffi.new("struct tug_fleet_table[]", max(len(said.tables), 1))
        for i, one in enumerate(said.tables):
            kept += [ffi.new("char[]", word(one.name, "name")), ffi.new("char[]", word(one.settings, "settings"))]
            c[i].number = whole(one.number, "number", 0, lib.TUG_TABLES_MAX - 1)
            c[i].name, c[i].settings = kept[-2], kept[-1]
            if one.variables:
                self._variables[one.number] = known = Variables(one.variables)
                c[i].variables, c[i].n_variables = known.c, len(known.at)
        o = ffi.new("struct tug_fleet_options *", {
            "roles": roles.c, "tables": c, "n_tables": len(said.tables), "wait_seconds": self.wait_seconds,
            "local_loops": self._loops})
        ret = ffi.new("struct tug_fleet **")
        self._run(lambda _none: lib.tug_fleet_init(ret, o))
        self._c, self._said = ffi.gc(ret[0], lib.tug_fleet_close), said
        return said.tables

    def _check_trainers(self, workers: int) -> None:
        if self._said.trainers not in (0, workers):
            raise UsageError(f"trainer_num: is {self._said.trainers} in the tables' text, but this run has {workers} "
                             "workers")

    def _run(self, function: Any, *args: Any, statuses: Optional[List[int]] = None) -> None:
        try:
            with self._turn:
                super()._run(function, *args, statuses=statuses)
        except Error as error:  # replaces names of C functions by those of the methods
            error.args = (re.sub(r"\btug_(?:wrapper|fleet)_(\w+)", r"\1", str(error)),)
            raise

    def _ready(self) -> None:
        if self._c == ffi.NULL:
            raise UsageError("this FleetWrapper has no role yet: call init_server() or init_worker() first")

    def _ask(self, function: Any, *args: Any) -> None:
        self._ready()
        self._run(function, *args)

    # ---------------------------------------------------------------- servers

    def init_server(self, server_desc: Any, hosts: Sequence[Any] = (), role_id: Optional[int] = None,
                    trainers: int = 0, server_sub_program: Sequence[Any] = (), *,
                    role_maker: Optional[RoleMaker] = None) -> None:
        """Makes this process server `role_id` of the servers `hosts`, a list of HOST:PORT or Paddle's HOST:PORT:RANK.
        The first server also runs the scheduler. server_desc: the run's tables, a list of FleetTable or Paddle's
        PSParameter as text. trainers: the number of workers. role_maker: gives role and endpoints in place of hosts,
        role_id and trainers. Without role_id it is 0, under `tug launch` that of the environment."""
        if server_sub_program:
            raise UsageError("server_sub_program: servers run no program; a table's rule is one of its settings")
        self._init("server_desc", server_desc,
                   role_maker or launched_roles("server", role_id, _hosts(hosts)) or
                   UserDefinedRoleMaker(0 if role_id is None else role_id, Role.SERVER, trainers, _hosts(hosts)))
        if trainers > 0:
            self._check_trainers(trainers)

    def load_sparse(self, path: Path, meta: str = "", table_id: int = 0) -> None:
        """Sets the save that server 0 loads into a table before the run begins. All servers call it. meta: "", or a
        mode of Paddle's, "0" to "3", which has no effect, because a save tells its own mode."""
        if meta and (not isinstance(meta, str) or meta not in "0123" or len(meta) != 1):
            raise UsageError(f"meta: '{meta}' is not one of 0, 1, 2, 3; a save itself says its mode")
        self._ask(lib.tug_wrapper_load_sparse, _table_id(table_id), word(path, "path"))

    def run_server(self, ip: Optional[str] = None, port: int = 0) -> None:
        """Serves until the last worker has left."""
        own = ffi.NULL if ip is None else ffi.new("char[]", word(ip, "ip"))
        self._ask(lib.tug_fleet_run_server, own, whole(port, "port", 0, 65535))

    # ---------------------------------------------------------------- workers

    def init_worker(self, proto_txt: Any, hosts: Optional[Sequence[Any]] = None,
                    role_id: Optional[int] = None, *, role_maker: Optional[RoleMaker] = None) -> None:
        """Makes this process worker `role_id`, and joins the run. Without hosts, the servers are threads of this
        process. proto_txt: the run's tables, like server_desc of init_server. role_maker: gives role and endpoints in
        place of hosts and role_id. Without role_id it is 0, under `tug launch` that of the environment."""
        tables = self._init("proto_txt", proto_txt, role_maker or launched_roles("worker", role_id, _hosts(hosts)) or
                            JoiningRoleMaker(0 if role_id is None else role_id, _hosts(hosts)))
        self._run(lib.tug_fleet_init_worker)
        self._lent = _Lent(self, lib.tug_fleet_client(self._c))
        _joined.add(self)
        self._tables = {one.number: self._lent.find(one.name) for one in tables}
        try:
            self._check_trainers(self.worker_num())
        except UsageError:
            self.stop_worker()
            raise

    def in_run(self) -> bool:
        """Returns whether this process is a worker between init_worker and stop_worker."""
        return self._lent is not None and not self._lent.closed

    @property
    def client(self) -> Client:
        """This worker's client, between init_worker and stop_worker."""
        if not self.in_run():
            raise UsageError("this FleetWrapper is not in a run: call init_worker() first")
        assert self._lent is not None
        return self._lent

    def table(self, table_id: int) -> Table:
        """Returns the run's table of this number, for pushes and pulls."""
        number = whole(table_id, "table_id", 0, 2 ** 32 - 1)
        if self.client.closed or number not in self._tables:
            raise UsageError(f"table_id: {table_id} is not one of {', '.join(map(str, self._tables)) or 'no tables'}")
        return self._tables[number]

    def worker_index(self) -> int:
        """Returns this worker's index among the workers."""
        self._ready()
        return self._status_of(lib.tug_fleet_worker_index)

    def worker_num(self) -> int:
        """Returns the number of workers."""
        self._ready()
        return self._status_of(lib.tug_fleet_worker_num)

    def note_communicator(self, stop: Callable[[], None]) -> None:
        """Registers a communicator, whose `stop` is called before this worker leaves."""
        self.client.before_close(stop)

    def stop_worker(self) -> None:
        """Stops a running communicator, waits for all requests, and leaves the run."""
        self._ready()
        client = self.client
        undelivered = self._messages.count
        try:
            client.close()
        finally:
            self._lent = None
            self._messages = Messages()
            self._forget_tables()
        if undelivered:
            raise UsageError(f"send_client2client_msg: not delivered: {undelivered} message(s); all "
                             "workers must call barrier() before stop_worker()")

    def stop_server(self) -> None:
        """Ends the run on all its processes."""
        self._ask(lib.tug_wrapper_stop_server)

    def barrier(self, barrier_table_id: int = 0, trainer_id: Optional[int] = None) -> None:
        """Waits until all workers have called it, and delivers messages of send_client2client_msg. barrier_table_id has
        no effect; trainer_id can only be this worker's index."""
        whole(barrier_table_id, "barrier_table_id", 0, 2 ** 31)
        if trainer_id is not None and trainer_id != self.worker_index():
            raise UsageError(f"trainer_id: {trainer_id} is not the index of this worker, {self.worker_index()}")
        if not self._messages.connected:
            self._ask(lib.tug_fleet_barrier_worker)
            return
        with self._turn:
            received = self._messages.exchange(self._gathered)
        self._messages.deliver(self.worker_index(), received)

    # ---------------------------------------------------------------- rows

    def load_model(self, path: Path, mode: int = 0) -> None:
        """Clears all tables, and loads the rows of a save into them. Only one worker calls it."""
        mode_of(mode)  # only checked: a save tells its own mode
        self._ask(lib.tug_wrapper_load_model, word(path, "path"))

    def load_one_table(self, table_id: int, path: Path, mode: int = 0) -> None:
        """Clears one table, and loads its rows of a save. Only one worker calls it."""
        mode_of(mode)
        self._ask(lib.tug_wrapper_load_one_table, _table_id(table_id), word(path, "path"))

    def save_all_model(self, path: Path, mode: int = 0) -> str:
        """Lets the servers save all tables below `path`, and returns the path of the save. mode: 0 (all rows), 1
        (delta), 2 (base) or 3 (day); see Client.save. Only one worker calls it."""
        where = ffi.new("char[]", lib.TUG_PATH_MAX)
        self._ask(lib.tug_wrapper_save_all_model, word(path, "path"), mode_of(mode), where)
        return text_of(where)

    def save_one_model(self, table_id: int, path: Path, mode: int = 0) -> str:
        """Does the same as save_all_model for one table."""
        where = ffi.new("char[]", lib.TUG_PATH_MAX)
        self._ask(lib.tug_wrapper_save_one_model, _table_id(table_id), word(path, "path"),
                  mode_of(mode), where)
        return text_of(where)

    def recv_and_save_model(self, table_id: int, path: Path) -> None:
        """Pulls a whole table and writes it to a text file on this worker's machine."""
        self._ask(lib.tug_wrapper_recv_and_save_model, _table_id(table_id), word(path, "path"))

    def sparse_table_stat(self, table_id: int) -> TableStats:
        """Returns the statistics of a table over all servers. Paddle's feasigns are `rows`, its mf are `extra_rows`."""
        s = ffi.new("struct tug_table_stats *")
        self._ask(lib.tug_wrapper_sparse_table_stat, _table_id(table_id), s)
        return TableStats(*(getattr(s, name) for name in TableStats._fields))

    def shrink_sparse_table(self, table_id: int, threshold: Optional[float] = None) -> int:
        """Decays shows and clicks, removes rows whose score is below `threshold` (None: the table's delete-threshold),
        and returns the number of removed rows."""
        removed = ffi.new("uint64_t *")
        self._ask(lib.tug_wrapper_shrink_sparse_table, _table_id(table_id),
                  math.nan if threshold is None else real(threshold, "threshold", -math.inf, math.inf), removed)
        return int(removed[0])

    def print_table_stat(self, table_id: int, pass_id: int = 0, threshold: int = 0) -> None:
        """Prints what sparse_table_stat returns. pass_id and threshold have no effect: Paddle has them for its cache
        tables."""
        del pass_id, threshold
        print(f"table {table_id}: {shown_stats(self.sparse_table_stat(table_id))}", flush=True)

    def clear_one_table(self, table_id: int) -> None:
        """Removes all rows of a table. One worker calls it."""
        self.table(table_id).clear()

    def clear_all_table(self) -> None:
        """Removes all rows of all tables. One worker calls it."""
        for table in self._tables.values():
            table.clear()

    # ---------------------------------------------------------------- the run

    def push_global_step(self, steps: int = 1) -> int:
        """Adds to this worker's number of steps, and returns the steps of all workers together (Client.step)."""
        return self.client.step(steps)

    def start_profiler(self) -> None:
        """Starts recording the times of requests on all servers (Client.profile_start)."""
        self.client.profile_start()

    def stop_profiler(self, file: Path = "profile.json") -> None:
        """Ends the recording and writes a trace file for Chrome and Perfetto (Client.profile_stop)."""
        self.client.profile_stop(file)

    # Paddle's functions for links between workers. tug's workers have no such links: the scheduler passes their
    # messages on.

    def get_client_info(self) -> List[str]:
        """Returns a list with the text that identifies this worker."""
        info = ffi.new("char[]", lib.TUG_CLIENT_INFO_MAX)
        self._ask(lib.tug_wrapper_get_client_info, info)
        return [text_of(info)]

    def all_gather(self, info: Any) -> List[Any]:
        """Returns the bytes, or the texts, of all workers, ordered by index. All workers call it with bytes of the same
        length, or all with texts of any length."""
        if isinstance(info, str):
            said = info.encode()
            sizes = [int.from_bytes(one, "little") for one in self._gathered(len(said).to_bytes(8, "little"))]
            if max(sizes) > SAID_MAX:
                raise UsageError(f"info: worker {sizes.index(max(sizes))} gave another kind of value, or a text of "
                                 f"more than {SAID_MAX} bytes; all workers give texts, or all bytes")
            gathered = self._gathered(said.ljust(max(sizes), b"\0"))
            return [one[:size].decode() for one, size in zip(gathered, sizes)]
        if not isinstance(info, (bytes, bytearray, memoryview)):
            raise ArgumentTypeError(f"info: must be bytes or a text, not {kind_of(info)}")
        return self._gathered(bytes(info))

    def _gathered(self, info: bytes) -> List[bytes]:
        n = self.worker_num()
        out = bytearray(n * len(info))
        self._ask(lib.tug_fleet_all_gather, info, len(info), ffi.from_buffer("char[]", out))
        return [bytes(out[i * len(info):(i + 1) * len(info)]) for i in range(n)]

    def set_clients(self, client_infos: Sequence[str]) -> None:
        """Sets the texts of get_client_info of all workers, ordered by index: all_gather(get_client_info()[0])."""
        if not isinstance(client_infos, (list, tuple)):
            raise ArgumentTypeError(f"client_infos: must be a list of texts, not {kind_of(client_infos)}")
        kept = [ffi.new("char[]", word(one, "client_infos")) for one in client_infos]
        self._ask(lib.tug_wrapper_set_clients, ffi.new("char *[]", kept), len(kept))

    def create_client2client_connection(self, *waits: int) -> None:
        """Checks that the clients of set_clients are in this run. All workers call it. `waits`, Paddle's three
        timeouts, have no effect: wait_seconds is the limit."""
        del waits
        self._ask(lib.tug_wrapper_create_client2client_connection)
        self._messages.connected = True

    def registe_client2client_msg_handler(self, msg_type: int, handler: Callable[[int, int, bytes], Optional[int]]
                                          ) -> None:
        """Sets the function that gets the messages of a type: handler(msg_type, from_client_id, msg). It is called in
        barrier(); a result other than 0 and None is an error."""
        self._messages.register(msg_type, handler)

    def send_client2client_msg(self, msg_type: int, to_client_id: int, msg: Union[bytes, str]) -> None:
        """Sends bytes to another worker, or to this one. They arrive when all workers call barrier(); a worker sends
        at most 16 MiB between two barriers. All workers must call create_client2client_connection() before."""
        to = whole(to_client_id, "to_client_id", 0, self.worker_num() - 1)
        with self._turn:
            self._messages.send(msg_type, to, msg)

    def close(self) -> None:
        """Leaves the run if this process is in one, and frees the object. A second call does nothing."""
        try:
            if self._lent is not None and not self._lent.closed:
                self.stop_worker()
        finally:
            if self._begin_closing():
                c, self._c = self._c, ffi.NULL
                if c != ffi.NULL:
                    ffi.release(c)


def run_worker_of(given: Any, hosts: Any, trainer_id: int) -> Union[FleetWrapper, ClientWorker]:
    """Returns the worker object through which a Communicator sends. `given` may be a FleetWrapper, fleet or a client.
    If it describes tables instead, this is the only FleetWrapper of the process that is in a run; else fleet if it is
    in a run; else the process's own FleetWrapper, which then joins the run of these tables and hosts."""
    if isinstance(given, FleetWrapper):
        return given
    if isinstance(given, (Client, Fleet)):
        return ClientWorker(given if isinstance(given, Client) else given.client)
    there = [one for one in _joined if one.in_run()]
    worker = there[0] if len(there) == 1 else FleetWrapper.GetInstance()
    if worker.in_run():
        for one in described(given or [], "proto_txt").tables:
            worker.table(one.number)  # raises if the run lacks the table
        return worker
    if fleet.in_run():
        return ClientWorker(fleet.client, described(given or [], "proto_txt"))
    roles: Optional[RoleMaker] = None
    if not hosts and os.environ.get("PADDLE_PSERVERS_IP_PORT_LIST"):
        roles = PaddleCloudRoleMaker()
    worker.init_worker(given, hosts or (), max(trainer_id, 0), role_maker=roles)
    return worker
