"""A run with the calls of Paddle's fleet: roles, servers, workers, barriers, saves.

A server's process runs the library's server. Server 0 checks the save that init_server names and then opens the run by
a note in the table `fleet_gate` (_gate.py). Workers wait for this note, so that none trains before the initial rows are
known.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import os
import re
import stat
import sys
import tempfile
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from tug import _disk
from tug._arrays import Path, word
from tug._client import Client, connect, local
from tug._errors import ArgumentTypeError, DataError, Error, ForkedError, SystemFailure, UsageError
from tug._exit import at_exit
from tug._model import load
from tug._roles import serve
from tug.fleet import _program
from tug.fleet._asked import Asked
from tug.fleet._exchange import Exchange, shown
from tug.fleet._gate import Begins, open_gate, wait_at_gate, wait_for_end
from tug.fleet._names import Named
from tug.fleet._others import MODES, Others, mode_of
from tug.fleet.role_maker import COLLECTIVE, PaddleCloudRoleMaker, RoleMaker, of_launch
from tug.fleet.strategy import DistributedStrategy, strategy_of

HOME = re.compile(r"tug-fleet-[0-9]+-\w{8}", re.ASCII)  # the name of the directory of worker 0's saves


class Util(Named):
    """fleet.util: functions that all workers call together."""

    holders = ("fleet.util",)

    def __init__(self, fleet: "Fleet") -> None:
        self._fleet = fleet

    def _exchange(self, comm_world: str) -> Exchange:
        if comm_world != "worker":
            raise UsageError(f"comm_world: '{comm_world}': only workers exchange values; servers run no program")
        return self._fleet.exchange

    def all_reduce(self, input: Any, mode: str = "sum", comm_world: str = "worker") -> Any:  # noqa: A002
        """Returns the sum, maximum or minimum of all workers' numbers or arrays. All workers call it."""
        return self._exchange(comm_world).reduce(input, mode)

    def all_gather(self, input: Any, comm_world: str = "worker") -> List[Any]:  # noqa: A002
        """Returns the values of all workers, by index: numbers, texts, lists, arrays. All workers call it."""
        return self._exchange(comm_world).gather(input)

    def barrier(self, comm_world: str = "worker") -> None:
        """Waits until all workers have called it."""
        self._exchange(comm_world).client.barrier()

    def get_file_shard(self, files: Sequence[str]) -> List[str]:
        """Returns this worker's part of the files: a contiguous part of the sorted list, so that workers whose lists
        have different orders agree. If the number of files is not a multiple of the number of workers, the first
        workers get one more."""
        if not isinstance(files, (list, tuple)):
            raise ArgumentTypeError(f"files: must be a list of paths, not {type(files).__name__}")
        files = [os.fsdecode(word(one, "files")) for one in files]
        twice = sorted({f for f in files if list(files).count(f) > 1})
        if twice:
            raise UsageError(f"files: {', '.join(twice)} is listed twice")
        n, index = self._fleet.worker_num(), self._fleet.worker_index()
        each, more = divmod(len(files), n)
        begin = each * index + min(index, more)
        return sorted(files)[begin:begin + each + (1 if index < more else 0)]

    def print_on_rank(self, message: str, rank_id: int) -> None:
        """Prints the text on the worker with this index."""
        if self._fleet.is_worker() and self._fleet.worker_index() == rank_id:
            print(message, flush=True)


class Fleet(Named, Others):
    """The class of the object `fleet`, of which a process has exactly one."""

    holders = ("fleet",)

    def __init__(self) -> None:
        self.util = Util(self)
        self._roles: Optional[RoleMaker] = None
        self._begun = False
        self._strategy = DistributedStrategy()
        self._client: Optional[Client] = None
        self._exchange: Optional[Exchange] = None
        self._home: Optional[str] = None  # worker 0's directory of saves; None at the others
        self._home_of = 0 # the process id of the worker that made it
        self._begins: Optional[Begins] = None
        self._home_path = ""  # the path of worker 0's directory of saves, known to all workers
        self._asked = Asked()
        self._optimizer: Any = None  # the result of the last distributed_optimizer

    def __getattr__(self, name: str) -> Any:
        """Returns classes such as fleet.DistributedStrategy, because Paddle 2's fleet is a module."""
        from tug import fleet as module
        if name in module.__all__:
            return getattr(module, name)
        return super().__getattr__(name)

    # ---------------------------------------------------------------- roles

    def init(self, role_maker: Optional[RoleMaker] = None, is_collective: bool = False,
             strategy: Any = None, log_level: Any = "INFO") -> None:
        """Finds the role of this process. A process that is the scheduler (tug launch starts the script in that role,
        too) serves until the run has ended, and exits. log_level has no effect."""
        del log_level
        if is_collective:
            raise UsageError(COLLECTIVE)
        if self._client is not None:
            raise UsageError("fleet.init: this process is in a run already: call stop_worker() first")
        if role_maker is not None and not isinstance(role_maker, RoleMaker):
            raise UsageError(f"role_maker: must be a role maker, not {type(role_maker).__name__}")
        self._strategy = strategy_of(strategy)
        roles = of_launch(role_maker or PaddleCloudRoleMaker())
        roles.generate_role()
        self._roles, self._begun = roles, True
        self._begins = None
        os.environ.update(roles.environment())

    @property
    def roles(self) -> RoleMaker:
        """The role maker that init() was given, or the default one."""
        if self._roles is None:
            raise UsageError("fleet: call fleet.init(role_maker) first")
        return self._roles

    def is_worker(self) -> bool:
        """Returns whether this process is a worker, which trains."""
        return self.roles.is_worker()

    def is_server(self) -> bool:
        """Returns whether this process is a server, which holds rows."""
        return self.roles.is_server()

    def is_first_worker(self) -> bool:
        """Returns whether this process is worker 0."""
        return self.roles.is_first_worker()

    def worker_index(self) -> int:
        """Returns the index of this process among the workers."""
        return self.roles.worker_index()

    def server_index(self) -> int:
        """Returns the index of this process among the servers."""
        return self.roles.server_index()

    def worker_num(self) -> int:
        """The number of workers."""
        return self.roles.worker_num()

    def server_num(self) -> int:
        """The number of servers."""
        return self.roles.server_num()

    def worker_endpoints(self, to_string: bool = False) -> Union[str, List[str]]:
        """Returns the workers as HOST:PORT, if PADDLE_TRAINER_ENDPOINTS names them. to_string: as one text with
        commas."""
        found = self.roles.get_trainer_endpoints()
        return ",".join(found) if to_string else found

    def server_endpoints(self, to_string: bool = False) -> Union[str, List[str]]:
        """Returns the servers as HOST:PORT. to_string: as one text with commas."""
        found = self.roles.get_pserver_endpoints()
        return ",".join(found) if to_string else found

    def node_num(self) -> int:
        """Returns the number of machines that the endpoints name."""
        return self.roles.node_num()

    def is_coordinator(self) -> bool:
        """Returns False: tug has no coordinator."""
        return False

    @property
    def strategy(self) -> DistributedStrategy:
        """The strategy that was given to distributed_optimizer, or else to init."""
        return self._strategy

    def is_begun(self) -> bool:
        """Returns whether init was called and stop_worker was not. In this state rows are on the servers of the run."""
        return self._begun

    def in_run(self) -> bool:
        """Returns whether this process is a worker between init_worker and stop_worker."""
        return self._client is not None

    def distributed_optimizer(self, optimizer: Any, strategy: Any = None) -> Any:
        """Returns an optimizer that minimizes a loss on the servers. A strategy that is given here replaces the one of
        init."""
        from tug.fleet.optimizer import DistributedOptimizer
        made = DistributedOptimizer(optimizer, strategy or self._strategy)
        self._strategy, self._optimizer = made.strategy, made
        return made

    def minimize(self, loss: Any, startup_program: Any = None, parameter_list: Any = None,
                 no_grad_set: Any = None) -> None:
        """Minimizes the loss with the optimizer of the last distributed_optimizer call."""
        if self._optimizer is None:
            raise UsageError("fleet.minimize: call fleet.distributed_optimizer(optimizer) first")
        self._optimizer.minimize(loss, None, startup_program, parameter_list, no_grad_set)

    @property
    def metrics(self) -> Any:
        """The module tug.fleet.metrics."""
        from tug.fleet import metrics
        return metrics

    @property
    def main_program(self) -> "_program.Program":
        """The default main program, as default_main_program() returns it."""
        return _program.default_main_program()

    @property
    def startup_program(self) -> "_program.Program":
        """The default startup program, as default_startup_program() returns it."""
        return _program.default_startup_program()

    # ---------------------------------------------------------------- servers

    def _only(self, role: str, what: str) -> None:
        if self.roles.place.role != role:
            raise UsageError(f"fleet.{what} is for {role}s, but this process is {self.roles.place.role} "
                             f"{self.roles.place.rank}: ask fleet.is_{role}() first")

    def init_server(self, dirname: Optional[Path] = None, var_names: Optional[Sequence[str]] = None) -> None:
        """Makes the run begin with a save of save_persistables or `tug train`: with all its tables, or with those in
        var_names ("features", "dense"). Server 0 tells the workers in run_server; worker 0 loads the save, so it must
        be able to read `dirname`."""
        self._only("server", "init_server")
        if dirname is None:
            if var_names:
                raise UsageError("init_server: var_names needs dirname, the save that has these tables")
            return
        directory = os.path.abspath(os.fspath(dirname))
        if not os.path.isdir(directory):
            raise UsageError(f"init_server: there is no directory {directory}")
        self._begins = Begins(directory, _program.tables_of(var_names))

    def run_server(self) -> None:
        """Serves until the last worker has left."""
        self._only("server", "run_server")
        first = self.roles.server_index() == 0
        serve("server", ready=self._open_run if first else None)

    def _open_run(self) -> None:
        with connect(_scheduler(self.roles), guest=True) as client:
            try:
                if self._begins is not None:
                    self._look_at(self._begins)
                open_gate(client, self._begins)
            except Error as error:
                client.stop(f"init_server: {error}")
                raise

    @staticmethod
    def _look_at(begins: Begins) -> None:
        """Raises an error if the directory is not a save, or is a save of another net than this program's."""
        net = _program.default_main_program().net
        if net is not None and begins.tables is None:
            net.open_save(begins.directory).close()
        else:
            load(begins.directory, alone=True).close()

    # ---------------------------------------------------------------- workers

    def init_worker(self, scopes: Any = None) -> None:
        """Joins the run, and waits until server 0 has opened it."""
        del scopes  # the variables of a program are on the servers
        self._only("worker", "init_worker")
        if self._client is not None:
            raise UsageError("fleet.init_worker: was called already")
        self._asked = Asked()
        alone = self.roles.place.alone
        client = local() if alone else connect()
        try:
            self._join(client, alone)
        except BaseException:
            with contextlib.suppress(Error):  # the run may have ended, for the reason that is raised
                if self._exchange is not None:
                    self._exchange.close()
            self._exchange = None
            with contextlib.suppress(Error):
                client.close()
            raise
        self._client = client

    def _join(self, client: Client, alone: bool) -> None:
        net = _program.default_main_program().net
        begins = None if alone else wait_at_gate(client)
        if begins is not None and net is not None:
            net.begin_with(*begins)
        self._exchange = Exchange(client, self.roles)
        if self.is_first_worker():
            self._home, self._home_of = _disk.of_process("fleet"), os.getpid()
            self._home_path = self._home
        self._told_home(self._exchange.gather(os.path.basename(self._home_path))[0])
        # The rows of features are found by the names of slots. If a worker had other names, it would train other rows,
        # and a save would not have them.
        self.agree("nets", [] if net is None else sorted(f"{one.name} ({one.kind})" for one in [*net.slots, net.label]))

    def agree(self, what: str, slots: Any) -> None:
        """Checks that all workers pass the same value. All workers call it."""
        said = self.exchange.gather(slots)
        for i, one in enumerate(said):
            if one != said[0]:
                raise UsageError(f"the workers' {what} differ: worker 0's has the slots {shown(said[0])}, "
                                 f"worker {i}'s {shown(one)}; "
                                 "all workers must declare the same slots")

    def _told_home(self, name: Any) -> None:
        # Worker 0 uses its own path. From another process only a directory's name is accepted, never a path.
        if not self.is_first_worker():
            if not isinstance(name, str) or HOME.fullmatch(name) is None:
                raise DataError(f"worker 0 says that its saves are in '{shown(name)}', which is not the name of such a "
                                "directory")
            self._home_path = os.path.join(tempfile.gettempdir(), name)

    def saves(self, generation: int) -> str:
        """Returns the directory of a net's model on worker 0's machine. The other workers raise DataError unless it is
        a private directory of this user."""
        if not self.is_first_worker():
            try:
                s = os.lstat(self._home_path)
            except OSError as error:
                raise DataError(f"{self._home_path}: worker 0 has the model there, and this worker cannot see it: "
                                f"{error.strerror}; evaluate on worker 0, or give all workers the same "
                                "$TMPDIR") from error
            if not stat.S_ISDIR(s.st_mode) or s.st_uid != os.getuid() or s.st_mode & 0o077:
                raise DataError(f"{self._home_path}: is not a directory of this user's own")
        return self.own_save(generation)

    def own_save(self, generation: int) -> str:
        """Returns the same directory without these checks, for worker 0."""
        return os.path.join(self._home_path, f"model-{generation}")

    def options(self, generation: int) -> Dict[str, Any]:
        """Returns the options that the fleet adds to those of a net's model."""
        if not self.in_run():
            return {}
        mode = self._strategy.mode
        found: Dict[str, Any] = {"mode": mode}
        if mode == "sync":
            found["reduce"] = "mean"  # as in Paddle, workers' gradients are averaged
        if self.is_first_worker():
            found.update(out=self.saves(generation), keep=1)
        return found

    @property
    def client(self) -> Client:
        """This worker's client, between init_worker and stop_worker."""
        if self._client is None:
            raise UsageError("this process is not in a run: call fleet.init_worker() first")
        return self._client

    @property
    def exchange(self) -> Exchange:
        """The exchange of values between workers, between init_worker and stop_worker."""
        if self._exchange is None:
            raise UsageError("this process is not in a run: call fleet.init_worker() first; in a run that a "
                             "FleetWrapper has joined, use its all_gather() and barrier()")
        return self._exchange

    def barrier_worker(self) -> None:
        """Waits until all workers have called it."""
        self.client.barrier()

    def all_reduce(self, input: Any, mode: str = "sum") -> Any:  # noqa: A002
        """Does the same as fleet.util.all_reduce()."""
        return self.util.all_reduce(input, mode)

    def all_reduce_worker(self, input: Any, output: Any) -> None:  # noqa: A002
        """Writes the sum of all workers' arrays into an array."""
        output[...] = self.util.all_reduce(input)

    def split_files(self, files: Sequence[str]) -> List[str]:
        """Does the same as fleet.util.get_file_shard()."""
        return self.util.get_file_shard(files)

    # The model. Worker 0 saves and loads; the other workers return at once.

    def _net(self) -> "_program.DeclaredNet":
        net = _program.default_main_program().net
        if net is None or self._client is None:
            raise UsageError("fleet: there is no model: declare a net, and call init_worker(), first; tables of the "
                             "program's own, such as those of tug.torch, are saved with fleet.client.save(directory)")
        return net

    def save_persistables(self, executor: Any, dirname: Path, main_program: Any = None, mode: int = 0) -> Optional[str]:
        """On worker 0, writes the model into `dirname`, replaces a model that is there, and returns its path. On other
        workers, returns None at once; if only other workers ask for a save, stop_worker raises an error. mode: only 0,
        because modes 1 to 3 are for tables whose rows come and go (save_one_table)."""
        from tug.fleet.io import save_net
        del executor, main_program
        _check_mode(mode)
        net = self._net()
        return self._first_saves("the net", dirname, lambda: save_net(net, dirname))

    def _first_saves(self, what: str, where: Path, work: Callable[[], str]) -> Optional[str]:
        done = work() if self.is_first_worker() else None
        self._asked.note(what, os.path.normpath(os.fspath(where)))
        return done

    def load_model(self, path: Path, mode: int = 0) -> None:
        """Loads a save of save_persistables into the net. All workers call it."""
        _check_mode(mode)
        net = self._net()
        save = os.path.abspath(os.fspath(path))
        net.open_save(save).close()  # raises if it is not a save, or a save of another net
        self.client.barrier()
        net.begin_with(save)

    def settle_saves(self) -> None:
        """Raises UsageError if a worker is known to have asked for a save that worker 0 did not write."""
        try:
            self._asked.settle(self.client, self.worker_index(), self.worker_num())
        except SystemFailure:  # the run has ended, and only worker 0 may leave without an answer
            if not self.is_first_worker():
                raise

    def stop_worker(self) -> None:
        """Leaves the run. Servers end when the last worker has left. Worker 0 returns only then, because it keeps the
        model that the others evaluate. Raises UsageError, after leaving, if workers other than worker 0 asked for a
        save that worker 0 did not write."""
        missed: Optional[Error] = None
        try:
            self.settle_saves()
        except Error as error:  # if the run has ended, _leave() raises, too
            missed = error
        self._leave()
        if missed is not None:
            raise missed

    def _leave(self) -> None:
        client, exchange = self.client, self.exchange
        self._client = self._exchange = None
        self._begun = False
        net = _program.default_main_program().net
        if net is not None:
            net.leave()
        exchange.close()
        try:
            guest: Optional[Client] = None
            if self._home is not None and client.workers > 1 and os.listdir(self._home):
                with contextlib.suppress(Error):  # the call fails if the run has ended
                    guest = connect(guest=True)
            client.close()
            if guest is not None:
                wait_for_end(guest)
        finally:
            self.drop_home()

    def drop_home(self) -> None:
        """Removes the first worker's temporary saves, unless this process was forked from the first worker."""
        home, self._home = self._home, None
        if home is not None and self._home_of == os.getpid():
            _disk.remove_of_process(home)


def _check_mode(given: int) -> None:
    mode = mode_of(given)
    if mode != 0:
        raise UsageError(f"mode: {mode}, {MODES[mode]}: a net, whose rows do not come and go, can be saved only with "
                         "mode 0; tables of the program's own have all modes (docs/tables.md)")


def _scheduler(roles: RoleMaker) -> str:
    """Returns the scheduler's address: that of tug launch, or in Paddle's scheme that of the first server."""
    told = os.environ.get("TUG_SCHEDULER", "")
    if told:
        return told
    host = os.environ.get("DMLC_PS_ROOT_URI", "")
    if host and os.environ.get("DMLC_ROLE"):
        return f"{host}:{os.environ.get('DMLC_PS_ROOT_PORT', '')}"
    return roles.get_pserver_endpoints()[0]


fleet = Fleet()


@at_exit  # runs after the next one
def _drop_home() -> Optional[str]:
    fleet.drop_home()
    return None


@at_exit
def _without_stop_worker() -> Optional[str]:
    """Leaves the run if a script ends without stop_worker, unless the script has failed."""
    if not fleet.in_run() or hasattr(sys, "last_type"):
        return None
    try:
        fleet.stop_worker()
    except ForkedError:  # this process was forked from the worker and is not in the run itself
        return None
    except Error as error:
        return f"tug.fleet: {error}"
    return None
