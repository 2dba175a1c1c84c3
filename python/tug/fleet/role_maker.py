"""Role makers find this process's role among the servers and workers of a run, as in Paddle's fleet.

SPDX-License-Identifier: Apache-2.0
"""

import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from tug._abi import ffi
from tug._arrays import whole, word
from tug._errors import UsageError
from tug._library import check, lib, text_of
from tug._roles import run_and_exit, serve
from tug.fleet._names import Named

PROCESSES_MAX = 4096 # the most servers, and the most workers, of a run
_NAMES = {1: "worker", 2: "server", 6: "scheduler"}  # enum tug_fleet_role


class Role:
    """Paddle's numbers of the roles."""

    WORKER = 1
    SERVER = 2
    HETER_WORKER = 3
    ALL = 4
    COORDINATOR = 5


class Place(NamedTuple):
    """The role and index of this process."""

    role: str  # "scheduler", "server" or "worker"
    rank: int # the index among the processes of this role
    workers: int
    servers: int
    server_endpoints: List[str]
    worker_endpoints: List[str]
    alone: bool = False  # whether the run is this process only, with the servers as threads


def _place_of(c: Any) -> Place:
    p = ffi.new("struct tug_place *")
    lib.tug_role_maker_place(c, p)

    def endpoints(role: int, n: int) -> List[str]:
        return [text_of(lib.tug_role_maker_endpoint(c, role, i)) for i in range(n)]

    return Place(_NAMES[int(p.role)], int(p.index), int(p.workers), int(p.servers),
                 endpoints(Role.SERVER, int(p.server_endpoints)), endpoints(Role.WORKER, int(p.worker_endpoints)),
                 bool(p.alone))


def _of_environment(env: Mapping[str, str]) -> Any:
    kept = [ffi.new("char[]", os.fsencode(f"{name}={value.strip()}")) for name, value in env.items()]
    ret = ffi.new("struct tug_role_maker **")
    check(lib.tug_role_maker_cloud(ret, ffi.new("char *[]", [*kept, ffi.NULL])))
    return ffi.gc(ret[0], lib.tug_role_maker_close)


def read_environment(env: Mapping[str, str]) -> Place:
    """Reads this process's role from the environment."""
    return _place_of(_of_environment(env))


class RoleMaker(Named):
    """The argument of fleet.init. The other methods call generate_role first, which determines the role once. Each
    method also has Paddle 2's name, which begins with an underscore.

    Paddle has no scheduler, so its scripts ask only for servers and workers. `tug launch` starts the script as a
    scheduler, too: there the first method serves until the run has ended, and exits."""

    holders = ("a role maker",)

    def __init__(self) -> None:
        self._c: Any = None
        self._found: Optional[Place] = None

    def _generate(self) -> Any:
        raise UsageError("give fleet.init a PaddleCloudRoleMaker or a UserDefinedRoleMaker")

    def generate_role(self) -> None:
        """Determines the role of this process, once. The scheduler serves until the run has ended, and exits."""
        if self._c is None:
            self._c = self._generate()
            self._found = _place_of(self._c)
            if self._found.role == "scheduler":
                run_and_exit("scheduler", lambda: serve("scheduler"))

    @property
    def c(self) -> Any:
        """The library's role maker (tug/fleet.h)."""
        self.generate_role()
        return self._c

    @property
    def place(self) -> Place:
        """The role and index of this process, and the endpoints of the run."""
        self.generate_role()
        assert self._found is not None
        return self._found

    def is_worker(self) -> bool:
        """Returns whether this process is a worker, which trains."""
        return self.place.role == "worker"

    def is_server(self) -> bool:
        """Returns whether this process is a server, which holds rows."""
        return self.place.role == "server"

    def is_first_worker(self) -> bool:
        """Returns whether this process is worker 0."""
        return self.is_worker() and self.place.rank == 0

    def _index_of(self, role: str) -> int:
        if self.place.role != role:
            raise UsageError(f"{role}_index: this process is a {self.place.role}")
        return self.place.rank

    def worker_index(self) -> int:
        """Returns the index of this process among the workers, from 0."""
        return self._index_of("worker")

    def server_index(self) -> int:
        """Returns the index of this process among the servers, from 0."""
        return self._index_of("server")

    def role_id(self) -> int:
        """Returns the index of this process among those of its role."""
        return self.place.rank

    def worker_num(self) -> int:
        """Returns the number of workers of the run."""
        return self.place.workers

    def server_num(self) -> int:
        """Returns the number of servers of the run."""
        return self.place.servers

    def get_trainer_endpoints(self) -> List[str]:
        """Returns the workers as HOST:PORT if the environment names them; tug itself does not need them."""
        return list(self.place.worker_endpoints)

    def get_pserver_endpoints(self) -> List[str]:
        """Returns the servers as HOST:PORT."""
        return list(self.place.server_endpoints)

    def get_local_endpoint(self) -> str:
        """Returns this process as HOST:PORT, or "" if the endpoints do not name it."""
        ends = self.get_pserver_endpoints() if self.is_server() else self.get_trainer_endpoints()
        return ends[self.place.rank] if self.place.rank < len(ends) else ""

    def node_num(self) -> int:
        """Returns the number of machines in the endpoints; 1 without any."""
        ends = [*self.get_pserver_endpoints(), *self.get_trainer_endpoints()]
        return len({end.rpartition(":")[0] for end in ends}) or 1

    def is_non_distributed(self) -> bool:
        """Returns whether the run consists of this process only."""
        return self.place.alone

    def to_string(self) -> str:
        """Returns a line with role, index and endpoints."""
        p = self.place
        return (f"role: {p.role}, index: {p.rank}, workers: {p.workers}, servers: {p.servers}, server endpoints: "
                f"{','.join(p.server_endpoints)}, worker endpoints: {','.join(p.worker_endpoints)}")

    _generate_role, _is_worker, _is_server, _is_first_worker = generate_role, is_worker, is_server, is_first_worker
    _worker_index, _server_index, _role_id = worker_index, server_index, role_id
    _worker_num, _server_num, _node_num = worker_num, server_num, node_num
    _get_trainer_endpoints, _get_pserver_endpoints = get_trainer_endpoints, get_pserver_endpoints
    _is_non_distributed, _get_local_endpoint = is_non_distributed, get_local_endpoint

    def environment(self) -> Dict[str, str]:
        """Variables to add for the library, which reads roles from the environment."""
        return {}


def _check_kind(is_collective: bool, init_gloo: bool) -> None:
    if is_collective:
        raise UsageError(COLLECTIVE)
    if init_gloo:
        raise UsageError("init_gloo: workers communicate through the scheduler; tug does not use Gloo")


class PaddleCloudRoleMaker(RoleMaker):
    """Takes the role from the environment, as Paddle's launchers and tug launch set it: TRAINING_ROLE (TRAINER or
    PSERVER), PADDLE_PSERVERS_IP_PORT_LIST, PADDLE_TRAINERS_NUM, for a worker PADDLE_TRAINER_ID, for a server POD_IP and
    PADDLE_PORT; or DMLC_*. If variables are missing, an error names all of them, so that no process trains alone by
    mistake."""

    def __init__(self, is_collective: bool = False, init_gloo: bool = False, **unknown: Any) -> None:
        super().__init__()
        _check_kind(is_collective, init_gloo)
        if unknown:
            raise UsageError(f"PaddleCloudRoleMaker: there is no argument {', '.join(sorted(unknown))}")

    def _generate(self) -> Any:
        return _of_environment(os.environ)


def _of_program(role: int, current_id: int, workers: int, server_endpoints: Sequence[str],
                worker_endpoints: Sequence[str]) -> Any:
    kept = [[ffi.new("char[]", word(one, "endpoints")) for one in ends]
            for ends in (server_endpoints, worker_endpoints)]
    lists = [ffi.new("char *[]", ends) for ends in kept]
    o = ffi.new("struct tug_role_maker_options *", {
        "role": whole(role, "role", 0, 255), "current_id": whole(current_id, "current_id", 0, PROCESSES_MAX),
        "worker_num": workers, "server_endpoints": lists[0], "n_server_endpoints": len(kept[0]),
        "worker_endpoints": lists[1], "n_worker_endpoints": len(kept[1])})
    ret = ffi.new("struct tug_role_maker **")
    check(lib.tug_role_maker_user(ret, o))
    return ffi.gc(ret[0], lib.tug_role_maker_close)


class UserDefinedRoleMaker(RoleMaker):
    """Takes the role from the program. Without server endpoints and with one worker, the servers are threads of this
    process, and no other process is needed."""

    def __init__(self, current_id: int = 0, role: int = Role.WORKER, worker_num: int = 1,
                 server_endpoints: Optional[Sequence[str]] = None, worker_endpoints: Optional[Sequence[str]] = None,
                 is_collective: bool = False, init_gloo: bool = False) -> None:
        super().__init__()
        _check_kind(is_collective, init_gloo)
        # The number of workers is that of worker_endpoints; without them worker_num must be given.
        workers = 0 if worker_endpoints and worker_num in (0, 1) else whole(worker_num, "worker_num", 1, PROCESSES_MAX)
        self._c = _of_program(role, current_id, workers, server_endpoints or (), worker_endpoints or ())
        self._found = _place_of(self._c)

    def environment(self) -> Dict[str, str]:
        place = self.place
        if place.alone:
            return {}
        env = {"PADDLE_PSERVERS_IP_PORT_LIST": ",".join(place.server_endpoints),
               "PADDLE_TRAINERS_NUM": str(place.workers)}
        if place.role == "worker":
            return {**env, "TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(place.rank)}
        host, _, port = place.server_endpoints[place.rank].rpartition(":")
        return {**env, "TRAINING_ROLE": "PSERVER", "POD_IP": host, "PADDLE_PORT": port}


def launched_roles(role: str, index: Optional[int], server_endpoints: Sequence[str]) -> Optional[RoleMaker]:
    """Returns the role maker of a process that `tug launch` has started, whose script has named this role, index (None:
    any) and servers itself; None if DMLC_ROLE is not set. Such a run has a scheduler of its own, whose address only the
    environment has. Raises UsageError if the script has named another role, index or servers than the environment."""
    if not os.environ.get("DMLC_ROLE"):
        return None
    roles = PaddleCloudRoleMaker()
    place = roles.place
    start = f"DMLC_ROLE={place.role}, as `tug launch` sets it"
    if index is None and role != place.role:
        raise UsageError(f"this process is {place.role} {place.rank} ({start}), not a {role}: ask "
                         "PaddleCloudRoleMaker().is_server(), and call init_server() and run_server() on servers, "
                         "init_worker() on workers")
    if index is not None and (role, index) != (place.role, place.rank):
        raise UsageError(f"this process is {place.role} {place.rank} ({start}), not {role} {index}: take role and "
                         "index from PaddleCloudRoleMaker(), or start the script without tug launch")
    if server_endpoints and list(server_endpoints) != place.server_endpoints:
        known = f", {', '.join(place.server_endpoints)}" if place.server_endpoints else ""
        raise UsageError(f"{', '.join(server_endpoints)} are not the servers of this run{known} ({start}): take them "
                         "from PaddleCloudRoleMaker().get_pserver_endpoints(), or start the script without tug launch")
    return roles


def of_launch(roles: RoleMaker) -> RoleMaker:
    """Returns `roles`, or those of the environment for a process that `tug launch` has started. Raises UsageError if
    the script has chosen another role, index or servers: the launcher's processes would wait for this process for ever,
    or each process would train alone."""
    if not isinstance(roles, UserDefinedRoleMaker) or not os.environ.get("DMLC_ROLE"):
        return roles
    if roles.place.alone:
        raise UsageError("UserDefinedRoleMaker: this process would train alone, but tug launch has started it as one "
                         f"of several (DMLC_ROLE={os.environ['DMLC_ROLE']}): use PaddleCloudRoleMaker(), or start the "
                         "script without tug launch")
    return launched_roles(roles.place.role, roles.place.rank, roles.place.server_endpoints) or roles


class JoiningRoleMaker(RoleMaker):
    """Makes this process a worker of the given servers. The run tells it the number of workers. Without servers it runs
    alone."""

    def __init__(self, current_id: int, server_endpoints: Sequence[str]) -> None:
        super().__init__()
        self._c = _of_program(Role.WORKER, current_id, 0, server_endpoints, ())
        self._found = _place_of(self._c)


COLLECTIVE = ("is_collective=True: tug has no collectives; a model's parameters are rows of tables on servers, "
              "which workers pull and push. Leave it out, and start servers as well as workers")
