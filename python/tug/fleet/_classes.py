"""Maps the names of Paddle's classes of servers, clients and tables to tug's.

The classes of servers and clients make a FleetWrapper. Each class of tables makes a FleetTable with the settings that
the class stands for. tug has only one kind of table, so a program cannot derive classes of its own.

SPDX-License-Identifier: Apache-2.0
"""

import socket
from typing import Any, Dict, Mapping, NoReturn, Optional, Tuple, Type

from tug._arrays import whole
from tug._errors import UsageError
from tug.fleet._names import Named
from tug.fleet.server_desc import ACCESSORS, CLIENTS, NEVER, OWN_TABLE, SERVERS, FleetTable
from tug.fleet.wrapper import FleetWrapper

_OWN_SIDE = ("tug has one kind of server and client; a program on the servers that answers requests of its own is "
             "kvapp (docs/kvapp.md), and what a row does is an accessor or a rule (tug/table.h)")
_MADE_BY_NAME = "name the accessor in a table's settings, 'accessor = NAME' (docs/tables.md): "


def _refuse(name: str, why: str) -> NoReturn:
    raise UsageError(f"{name}: {why}")


class Table(Named):
    """The base of the classes of tables: Class(number, name, settings, variables) returns a FleetTable."""

    holders: Tuple[str, ...] = ("Table", "tug.fleet")
    settings = ""  # the settings that the class stands for
    why = "is only a base class: use MemorySparseTable, MemoryDenseTable, SSDSparseTable or MemorySparseGeoTable"

    def __new__(cls, number: int, name: str, settings: str = "",
                variables: Optional[Mapping[str, Any]] = None) -> Any:
        """Returns a FleetTable with the settings of this class."""
        if cls.why:
            _refuse(cls.__name__, cls.why)
        own = cls.settings.format(number=number)
        return FleetTable(number, name, "; ".join(one for one in (own, settings) if one), variables)

    def __init_subclass__(cls, **_more: Any) -> None:
        if cls.__module__ != __name__:
            _refuse(cls.__name__, OWN_TABLE)


class MemorySparseTable(Table):
    """A table with a feature lifecycle: accessor SparseAccessor, unless the settings name another one."""

    why = ""

    def __new__(cls, number: int, name: str, settings: str = "",
                variables: Optional[Mapping[str, Any]] = None) -> Any:
        """Returns a FleetTable with the settings of this class."""
        if "accessor" not in settings:
            settings = "; ".join(one for one in ("accessor = SparseAccessor", settings) if one)
        return super().__new__(cls, number, name, settings, variables)


class SSDSparseTable(MemorySparseTable):
    """A MemorySparseTable whose rarely used rows are kept on disk."""

    settings = "cold = table-{number}"


class MemorySparseGeoTable(Table):
    """A table of sums, for communicators of mode GEO."""

    settings, why = "accessor = merge", ""


class MemoryDenseTable(Table):
    """A table of dense variables, which every worker pulls as a whole."""

    why = ""

    def __new__(cls, number: int, name: str, settings: str = "",
                variables: Optional[Mapping[str, Any]] = None) -> Any:
        """Returns a FleetTable with the settings of this class."""
        if not variables:
            _refuse(cls.__name__, "variables: a dense table needs variables, {name: shape} or {name: (shape, init)}")
        return super().__new__(cls, number, name, settings, variables)


class BarrierTable(Table):
    """Raises UsageError with the replacement when it is called."""

    why = "barriers need no table: call FleetWrapper.barrier(table_id, trainer_id), whatever the table is"


class GlobalStepTable(Table):
    """Raises UsageError with the replacement when it is called."""

    why = "steps need no table: call FleetWrapper.push_global_step(n)"


class TensorTable(Table):
    """Raises UsageError with the replacement when it is called."""

    why = NEVER["TensorTable"]


class GraphTable(Table):
    """Raises UsageError with the replacement when it is called."""

    why = NEVER["GraphTable"]


CommonSparseTable, CommonDenseTable, CommonGraphTable = MemorySparseTable, MemoryDenseTable, GraphTable
DenseTensorTable = TensorTable


class _Side(Named):
    """The base of PSServer and PSClient, which make a FleetWrapper."""

    def __new__(cls, *args: Any, **more: Any) -> Any:
        """Returns a FleetWrapper."""
        return FleetWrapper(*args, **more)

    def __init_subclass__(cls, **_more: Any) -> None:
        if cls.__module__ != __name__:
            _refuse(cls.__name__, _OWN_SIDE)


class PSServer(_Side):
    """Makes a FleetWrapper. A server calls its methods init_server and run_server."""


class PSClient(_Side):
    """Makes a FleetWrapper. A client calls its methods for workers: init_worker, and those for rows and variables."""


class Service(Named):
    """The service of a server. Raises UsageError when it is called: tug has one service, without settings."""

    holders = ("Service", "tug.fleet")

    def __init__(self, *_args: Any) -> None:
        _refuse(type(self).__name__, f"servers answer by themselves; {_OWN_SIDE}")

    def __init_subclass__(cls, **_more: Any) -> None:
        if cls.__module__ != __name__:
            _refuse(cls.__name__, _OWN_SIDE)


class Accessor(Named):
    """The layout of a row. Raises UsageError when it is called: a table's settings name the accessor."""

    holders = ("Accessor", "tug.fleet")

    def __init__(self, *_args: Any) -> None:
        _refuse(type(self).__name__, _MADE_BY_NAME + ", ".join(ACCESSORS))


BrpcPsServer = PsLocalServer = PSServer
BrpcPsClient = PsLocalClient = PSClient
BrpcPsService = PsService = PsBaseService = Service
ValueAccessor = Accessor
TABLES: Dict[str, Type[Table]] = {
    "MemorySparseTable": MemorySparseTable, "CommonSparseTable": CommonSparseTable, "SSDSparseTable": SSDSparseTable,
    "MemorySparseGeoTable": MemorySparseGeoTable, "MemoryDenseTable": MemoryDenseTable,
    "CommonDenseTable": CommonDenseTable, "BarrierTable": BarrierTable, "GlobalStepTable": GlobalStepTable,
    "TensorTable": TensorTable, "DenseTensorTable": DenseTensorTable, "GraphTable": GraphTable,
    "CommonGraphTable": CommonGraphTable}


class PSHost(Named):
    """The address of a server, as Paddle's runtime writes it."""

    holders = ("PSHost", "tug.fleet")

    def __init__(self, ip: str, port: int, rank: int) -> None:
        self.ip, self.port, self.rank = ip, whole(port, "port", 0, 65535), whole(rank, "rank", 0, 4095)

    def serialize_to_string(self) -> str:
        """Returns the address as HOST:PORT:RANK."""
        return f"{self.ip}:{self.port}:{self.rank}"

    def serialize_to_uint64(self) -> int:
        """Returns address, port and rank packed into one number."""
        try:
            address = int.from_bytes(socket.inet_aton(self.ip), "little")
        except OSError:
            _refuse("ip", f"'{self.ip}' is not four numbers; give hosts as HOST:PORT")
        return address << 32 | self.port << 12 | self.rank

    to_string = serialize_to_string


class _Factory(Named):
    """The base of the factories, which look a class up by its name."""

    known: Tuple[str, ...] = ()
    why = _OWN_SIDE

    @classmethod
    def create(cls, name: Any = "") -> Any:
        """Returns the counterpart of Paddle's class of this name."""
        name = name or cls.known[0]
        if name not in cls.known:
            _refuse(f"{cls.__name__}.create: '{name}' is not one of {', '.join(cls.known)}", cls.why)
        return cls._made(name)

    @classmethod
    def _made(cls, name: str) -> Any:
        del name
        return FleetWrapper()


class PSServerFactory(_Factory):
    """PSServerFactory.create("BrpcPsServer") returns a FleetWrapper."""

    holders, known = ("PSServerFactory",), SERVERS


class PSClientFactory(_Factory):
    """PSClientFactory.create("BrpcPsClient") returns a FleetWrapper."""

    holders, known = ("PSClientFactory",), CLIENTS


class TableManager(_Factory):
    """TableManager.create("MemorySparseTable") returns the class of tables of this name."""

    holders, known, why = ("TableManager",), tuple(TABLES), OWN_TABLE

    @classmethod
    def _made(cls, name: str) -> Any:
        return TABLES[name]


NAMES = ("Accessor", "BarrierTable", "BrpcPsClient", "BrpcPsServer", "BrpcPsService", "CommonDenseTable",
         "CommonGraphTable", "CommonSparseTable", "DenseTensorTable", "GlobalStepTable", "GraphTable",
         "MemoryDenseTable", "MemorySparseGeoTable", "MemorySparseTable", "PSClient", "PSClientFactory", "PSHost",
         "PSServer", "PSServerFactory", "PsBaseService", "PsLocalClient", "PsLocalServer", "PsService",
         "SSDSparseTable", "Service", "Table", "TableManager", "TensorTable", "ValueAccessor")
