"""Role makers: who this process is among the servers and workers of a run, as in Paddle's fleet.

SPDX-License-Identifier: Apache-2.0
"""

import os
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from tug._arrays import whole
from tug._errors import UsageError

PROCESSES_MAX = 4096  # of a kind
_SERVERS, _TRAINERS = "PADDLE_PSERVERS_IP_PORT_LIST", "PADDLE_TRAINERS_NUM"
_ROLE, _ID, _ENDPOINTS = "TRAINING_ROLE", "PADDLE_TRAINER_ID", "PADDLE_TRAINER_ENDPOINTS"


class Role:
    """Numbers of the roles."""

    WORKER = 1
    SERVER = 2
    HETER_WORKER = 3
    ALL = 4
    COORDINATOR = 5


class Place(NamedTuple):
    """Who this process is."""

    role: str  # "scheduler", "server", "worker"
    rank: int  # among its kind
    workers: int
    servers: int
    server_endpoints: List[str]
    worker_endpoints: List[str]
    alone: bool = False  # the servers are threads of this process


def _text(env: Mapping[str, str], name: str) -> str:
    return env.get(name, "").strip()


def _endpoints(text: str, name: str) -> List[str]:
    found = [one.strip() for one in text.replace(";", ",").split(",") if one.strip()]
    for one in found:
        host, _, port = one.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise UsageError(f"{name}: '{one}' is not HOST:PORT")
    twice = sorted({one for one in found if found.count(one) > 1})
    if twice:
        raise UsageError(f"{name}: {', '.join(twice)} is there twice")
    return found


def _number(env: Mapping[str, str], name: str, low: int) -> int:
    text = _text(env, name)
    if not text.isdigit() or not low <= int(text) <= PROCESSES_MAX:
        raise UsageError(f"{name}='{text}' is not a number from {low} to {PROCESSES_MAX}")
    return int(text)


def _need(env: Mapping[str, str], names: Sequence[str]) -> None:
    missing = [name for name in names if not _text(env, name)]
    if missing:
        raise UsageError(f"these environment variables are missing: {', '.join(missing)}; tug launch and Paddle's "
                         "launchers set them. For one process alone there is UserDefinedRoleMaker(0, Role.WORKER, 1)")


def _of_paddle(env: Mapping[str, str]) -> Place:
    role = _text(env, _ROLE)
    if role in ("HETER_TRAINER", "COORDINATOR"):
        raise UsageError(f"{_ROLE}={role}: tug has neither heterogeneous trainers nor federated learning; "
                         "roles are TRAINER and PSERVER")
    own = {"TRAINER": [_ID], "PSERVER": ["POD_IP", "PADDLE_PORT"]}
    if role and role not in own:
        raise UsageError(f"{_ROLE}='{role}' is neither TRAINER nor PSERVER")
    _need(env, [_ROLE, _SERVERS, _TRAINERS, *own.get(role, [])])
    servers = _endpoints(_text(env, _SERVERS), _SERVERS)
    workers = _number(env, _TRAINERS, 1)
    trainers = _endpoints(_text(env, _ENDPOINTS), _ENDPOINTS)
    if trainers and len(trainers) != workers:
        raise UsageError(f"{_ENDPOINTS} has {len(trainers)} endpoints, but {_TRAINERS} is {workers}")
    if role == "TRAINER":
        index = _number(env, _ID, 0)
        if index >= workers:
            raise UsageError(f"{_ID} is {index}, and must be below {_TRAINERS}, {workers}")
        return Place("worker", index, workers, len(servers), servers, trainers)
    me = f"{_text(env, 'POD_IP')}:{_text(env, 'PADDLE_PORT')}"
    if me not in servers:
        raise UsageError(f"POD_IP:PADDLE_PORT is {me}, which is not in {_SERVERS}, {','.join(servers)}: "
                         "hosts must be written the same way in both")
    return Place("server", servers.index(me), workers, len(servers), servers, trainers)


def _of_dmlc(env: Mapping[str, str]) -> Place:
    role = _text(env, "DMLC_ROLE")
    if role not in ("scheduler", "server", "worker"):
        raise UsageError(f"DMLC_ROLE='{role}' is none of scheduler, server, worker")
    own = f"DMLC_{role.upper()}_ID"
    _need(env, ["DMLC_NUM_SERVER", "DMLC_NUM_WORKER"] + ([own] if role != "scheduler" else []))
    workers, servers = _number(env, "DMLC_NUM_WORKER", 0), _number(env, "DMLC_NUM_SERVER", 1)
    index = 0 if role == "scheduler" else _number(env, own, 0)
    return Place(role, index, workers, servers, [], [])


def read_environment(env: Mapping[str, str]) -> Place:
    """Who the environment says that this process is."""
    dmlc = _text(env, "DMLC_ROLE")  # tug launch sets both schemes, and only this one for the scheduler
    if dmlc and (dmlc == "scheduler" or not _text(env, _ROLE)):
        return _of_dmlc(env)
    place = _of_paddle(env)
    if dmlc and dmlc != place.role:
        raise UsageError(f"DMLC_ROLE={dmlc} and {_ROLE}={_text(env, _ROLE)} contradict each other; unset one of them")
    return place


class RoleMaker:
    """What fleet.init takes. Questions are answered once generate_role has been called, as fleet.init does."""

    def __init__(self) -> None:
        self._found: Optional[Place] = None

    def _generate(self) -> Place:
        raise UsageError("give fleet.init a PaddleCloudRoleMaker or a UserDefinedRoleMaker")

    def generate_role(self) -> None:
        """Finds out who this process is, once."""
        if self._found is None:
            self._found = self._generate()

    @property
    def place(self) -> Place:
        """All that is known."""
        self.generate_role()
        assert self._found is not None
        return self._found

    def is_worker(self) -> bool:
        """Whether this process trains."""
        return self.place.role == "worker"

    def is_server(self) -> bool:
        """Whether it holds rows."""
        return self.place.role == "server"

    def is_first_worker(self) -> bool:
        """Whether it is the worker of index 0."""
        return self.is_worker() and self.place.rank == 0

    def _index_of(self, role: str) -> int:
        if self.place.role != role:
            raise UsageError(f"{role}_index: this process is a {self.place.role}")
        return self.place.rank

    def worker_index(self) -> int:
        """Its number among the workers, from 0."""
        return self._index_of("worker")

    def server_index(self) -> int:
        """Its number among the servers, from 0."""
        return self._index_of("server")

    def role_id(self) -> int:
        """Its number among its kind."""
        return self.place.rank

    def worker_num(self) -> int:
        """How many workers the run has."""
        return self.place.workers

    def server_num(self) -> int:
        """How many servers the run has."""
        return self.place.servers

    def get_trainer_endpoints(self) -> List[str]:
        """HOST:PORT of the workers, where the environment names them: tug does not need them."""
        return list(self.place.worker_endpoints)

    def get_pserver_endpoints(self) -> List[str]:
        """HOST:PORT of the servers."""
        return list(self.place.server_endpoints)

    def environment(self) -> Dict[str, str]:
        """What the library, which reads roles from the environment, has to find there beside what is."""
        return {}


class PaddleCloudRoleMaker(RoleMaker):
    """Roles from the environment: TRAINING_ROLE (TRAINER, PSERVER), PADDLE_PSERVERS_IP_PORT_LIST,
    PADDLE_TRAINERS_NUM; a trainer's PADDLE_TRAINER_ID; a server's POD_IP and PADDLE_PORT; as Paddle's launchers
    and tug launch set them, or DMLC_*. All that is missing is named in one error: no process goes on alone
    because a variable was forgotten."""

    def __init__(self, is_collective: bool = False, **unknown: Any) -> None:
        super().__init__()
        if is_collective:
            raise UsageError(COLLECTIVE)
        if unknown:
            raise UsageError(f"PaddleCloudRoleMaker: there is no argument {', '.join(sorted(unknown))}")

    def _generate(self) -> Place:
        return read_environment(os.environ)


class UserDefinedRoleMaker(RoleMaker):
    """Roles as the program says them. With no server endpoints, and one worker, the servers are threads of this
    process: nothing has to be started."""

    def __init__(self, current_id: int = 0, role: int = Role.WORKER, worker_num: int = 1,
                 server_endpoints: Optional[Sequence[str]] = None, worker_endpoints: Optional[Sequence[str]] = None,
                 is_collective: bool = False, init_gloo: bool = False) -> None:
        super().__init__()
        if is_collective:
            raise UsageError(COLLECTIVE)
        if init_gloo:
            raise UsageError("init_gloo: workers meet through the servers; there is no Gloo to begin")
        if role not in (Role.WORKER, Role.SERVER):
            raise UsageError(f"role: {role} is neither Role.WORKER (1) nor Role.SERVER (2)")
        servers = _endpoints(",".join(server_endpoints or ()), "server_endpoints")
        trainers = _endpoints(",".join(worker_endpoints or ()), "worker_endpoints")
        workers = len(trainers) if trainers and worker_num in (0, 1) else whole(worker_num, "worker_num", 1,
                                                                               PROCESSES_MAX)
        if trainers and len(trainers) != workers:
            raise UsageError(f"worker_endpoints has {len(trainers)} endpoints, but worker_num is {workers}")
        if not servers and (role == Role.SERVER or workers > 1):
            raise UsageError("server_endpoints: is empty; only a single worker can do without servers")
        name = "worker" if role == Role.WORKER else "server"
        index = whole(current_id, "current_id", 0, (workers if name == "worker" else len(servers)) - 1)
        self._found = Place(name, index, workers, max(len(servers), 1), servers, trainers, not servers)

    def environment(self) -> Dict[str, str]:
        place = self.place
        if place.alone:
            return {}
        env = {_SERVERS: ",".join(place.server_endpoints), _TRAINERS: str(place.workers)}
        if place.role == "worker":
            return {**env, _ROLE: "TRAINER", _ID: str(place.rank)}
        host, _, port = place.server_endpoints[place.rank].rpartition(":")
        return {**env, _ROLE: "PSERVER", "POD_IP": host, "PADDLE_PORT": port}


COLLECTIVE = ("is_collective=True: there are no collectives here; a model's parameters are rows of tables on servers, "
              "which workers pull and push. Leave it out, and start servers as well as workers")
