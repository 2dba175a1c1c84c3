"""The tables of a run, given as FleetTable objects or as Paddle's server_desc or proto_txt (the text of a PSParameter).

The fields of a table in a text become the table's settings (docs/tables.md). A field without a counterpart is refused;
the error has its line.

SPDX-License-Identifier: Apache-2.0
"""

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from tug._arrays import kind_of
from tug._errors import ArgumentTypeError
from tug._library import lib
from tug.fleet._prototxt import Said, read


class FleetTable(NamedTuple):
    """A table of a run: its number, name and settings (docs/tables.md). A table with variables, {name: shape} or {name:
    (shape, init)} as in Table.dense, is dense: every worker pulls the whole arrays."""

    number: int
    name: str
    settings: str = ""
    variables: Optional[Mapping[str, Any]] = None


class Described(NamedTuple):
    """The tables of a run, and other settings that a text of Paddle's gives."""

    tables: List[FleetTable]
    # dense tables given by their size only: their numbers, and names of variables if the text has any
    flat: Dict[int, List[str]] = {}
    barriers: Sequence[int] = ()  # ids of tables for barriers and steps, which are not made
    trainers: int = 0  # the number of workers; 0: not given


OWN_TABLE = ("there is one kind of table here; what a class of your own would do is its accessor "
             "(tug_register_accessor), its rule (tug_register_rule), its entry policy (tug_register_entry), or a "
             "program on the servers that answers requests (kvapp handlers, docs/kvapp.md)")
GRAPH = "there are no graph tables"
SPARSE = ("MemorySparseTable", "SSDSparseTable", "MemorySparseGeoTable", "CommonSparseTable", "DownpourSparseTable",
          "DownpourSparseSSDTable", "SparseGeoTable")
ON_DISK = ("SSDSparseTable", "DownpourSparseSSDTable")
OF_SUMS = ("MemorySparseGeoTable", "SparseGeoTable")
DENSE = ("MemoryDenseTable", "CommonDenseTable", "DownpourDenseTable")
NOT_MADE = ("BarrierTable", "GlobalStepTable")  # barriers and steps need no table
NEVER = {**dict.fromkeys(("GraphTable", "CommonGraphTable"), GRAPH),
         **dict.fromkeys(("TensorTable", "DenseTensorTable", "SparseTensorTable"),
                         "servers run no program; a table's rule is one of its settings")}
SERVERS, CLIENTS = ("BrpcPsServer", "PsLocalServer"), ("BrpcPsClient", "PsLocalClient")
SERVICES = ("BrpcPsService", "PsService", "PsLocalService")
ACCESSORS = ("SparseAccessor", "CtrCommonAccessor", "CtrDoubleAccessor", "DownpourSparseValueAccessor",
             "DownpourCtrAccessor", "DownpourUnitAccessor", "DownpourCtrDoubleAccessor", "DownpourDoubleUnitAccessor",
             "DownpourFeatureValueAccessor")
_SAME = {"DownpourFeatureValueAccessor": "DownpourCtrAccessor"}  # fleet 1.x
_RULES = {"naive": "SparseNaiveSGDRule", "adagrad": "SparseAdaGradSGDRule", "std_adagrad": "StdAdaGradSGDRule",
          "adagrad_v2": "SparseAdaGradV2SGDRule", "adam": "SparseAdamSGDRule",
          "shared_adam": "SparseSharedAdamSGDRule"}
_OF_RULES = {"SparseNaiveSGDRule": "naive", "SparseAdamSGDRule": "adam", "SparseSharedAdamSGDRule": "adam"}
_OF_COMMON = {"sgd": "sgd", "adam": "adam", "sum": "sum", "summary": "summary", "adam_d2sum": "adam-d2sum"}
_LIFE = {"nonclk_coeff": "nonclick", "click_coeff": "click", "base_threshold": "base-threshold",
         "delta_threshold": "delta-threshold", "delta_keep_days": "delta-keep-days", "show_click_decay_rate": "decay",
         "delete_threshold": "delete-threshold", "delete_after_unseen_days": "delete-after-days",
         "ssd_unseenday_threshold": "cold-after-days"}
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}", re.ASCII)
_FILL = re.compile(r"fill_constant&([-+0-9.eE]{1,40})", re.ASCII)
_WITHIN = re.compile(r"uniform_random&[0-9]{1,20}&([-+0-9.eE]{1,40})&([-+0-9.eE]{1,40})(?:&.*)?", re.ASCII)
_BLOCK = 256 # floats of a row of a dense table
_FLOATS_MAX = 2 ** 40
_DIM_MAX = 2 ** 20
_TYPES = {"PS_SPARSE_TABLE": SPARSE, "0": SPARSE, "PS_DENSE_TABLE": DENSE, "1": DENSE}


def _rule_of(said: Optional[Said]) -> Tuple[str, Optional[float]]:
    """Returns the rule that embed_sgd_param or embedx_sgd_param gives, as a setting, and the range of initial
    weights."""
    if said is None:
        return "", None
    known, of = (*_RULES, *_RULES.values()), said.name
    name = said.pick("name", "", known, lambda _name: f"the rule of {of} must be one of {', '.join(known)}")
    if not name:
        said.reader.refuse(said.line, f"{said.name}: name is missing; it must be one of {', '.join(known)}")
    rule = _RULES.get(name, name)
    group = _OF_RULES.get(rule, "adagrad")
    numbers = said.message(group) or Said(said.reader, group, (), said.line)
    said.passed_over("naive", "adagrad", "adam")  # the numbers of other rules
    said.done()
    found = _numbers_of(rule, group, numbers)
    numbers.done()
    return found


def _numbers_of(rule: str, group: str, numbers: Said) -> Tuple[str, Optional[float]]:
    rate = numbers.real("learning_rate", 0.001 if group == "adam" else 0.05)
    with_ = [f"lr={rate!r}"]
    if group == "adagrad":
        with_.append(f"{'n0' if rule == 'SparseAdaGradV2SGDRule' else 'g0'}={numbers.real('initial_g2sum', 3.0)!r}")
    if group == "adam":
        with_ += [f"{ours}={numbers.real(theirs, default)!r}" for ours, theirs, default in
                  (("beta1", "beta1_decay_rate", 0.9), ("beta2", "beta2_decay_rate", 0.999),
                   ("beta", "ada_epsilon", 1e-8))]
    bounds = numbers.reals("weight_bounds")
    if len(bounds) not in (0, 2):
        numbers.reader.refuse(numbers.line, f"{group}: weight_bounds has {len(bounds)} numbers, but needs 2")
    if bounds:
        with_.append(f"low={bounds[0]!r},high={bounds[1]!r}")
    return f"{rule}:{','.join(with_)}", numbers.real("initial_range", 1e-4)


def _rules_of(accessor: Said) -> Tuple[Tuple[str, Optional[float]], Tuple[str, Optional[float]]]:
    """Returns the rules and ranges of embed and of embedx. Texts of fleet 1.x have one for both, of the rule
    adagrad."""
    both = accessor.message("sparse_sgd_param")
    embed, embedx = _rule_of(accessor.message("embed_sgd_param")), _rule_of(accessor.message("embedx_sgd_param"))
    if both is not None:
        embed = embedx = _numbers_of("SparseAdaGradSGDRule", "adagrad", both)
        both.done()
    return embed, embedx


def _dense_rule_of(said: Optional[Said]) -> str:
    """Returns the rule that dense_sgd_param, a field of fleet 1.x, gives a dense table."""
    if said is None:
        return ""
    name = said.pick("name", "naive", ("naive", "adam"), lambda _name: "is neither naive nor adam")
    numbers = said.message(name) or Said(said.reader, name, (), said.line)
    said.passed_over("naive", "adam")  # the numbers of the other rule
    said.done()
    rate = numbers.real("learning_rate", 0.0002 if name == "naive" else 5e-6)
    with_ = [f"lr={rate!r}"]
    if name == "adam":
        with_ += [f"{ours}={numbers.real(theirs, default)!r}" for ours, theirs, default in
                  (("beta1", "mom_decay_rate", 0.99), ("beta2", "ada_decay_rate", 0.9999),
                   ("beta", "ada_epsilon", 1e-8))]
        numbers.passed_over("avg_decay_rate")
    numbers.done()
    return ("sgd:" if name == "naive" else "adam-d2sum:") + ",".join(with_)


def _init(spread: Optional[float]) -> str:
    return repr(abs(spread or 0.0))


def _life(said: Optional[Said]) -> Tuple[List[str], bool]:
    """Returns the settings that ctr_accessor_param gives, and whether the first weight of a new row is 0."""
    if said is None:
        return [], True
    settings = [f"{ours} = {value!r}" for theirs, ours in _LIFE.items()
                for value in [said.real(theirs)] if value is not None]
    scale = said.flag("show_scale")
    if scale is not None:
        settings.append(f"show-scale = {'yes' if scale else 'no'}")
    zero = said.flag("zero_init", True)
    for name in ("load_filter_slots", "save_filter_slots"):
        said.never(name, "rows are loaded and saved whatever their slot is")
    said.done()
    return settings, bool(zero)


def _accessor_of(said: Said, on_disk: bool, number: int) -> List[str]:
    """Returns the settings that the message `accessor` gives a sparse table."""
    name = said.pick("accessor_class", "SparseAccessor", ACCESSORS, lambda name: "its rows are those of GPUs" if
                     "Dymf" in name else f"is not one of {', '.join(ACCESSORS)}; an accessor of your own is "
                     "tug_register_accessor, and the setting 'accessor' of a FleetTable")
    dim = said.whole("embedx_dim", 8, 0, _DIM_MAX)
    said.whole("fea_dim", 11, 0, _FLOATS_MAX)  # only checked: embedx_dim determines it
    threshold = said.real("embedx_threshold", 10.0)
    life, zero = _life(said.message("ctr_accessor_param") or said.message("downpour_accessor_param"))
    (embed, spread), (embedx, spread_x) = _rules_of(said)
    for one in said.messages("table_accessor_save_param"):
        one.passed_over("param")
        for what in ("converter", "deconverter"):
            one.only(what, ("",), "saves hold rows unchanged; use `tug table export --converter`")
        one.done()
    said.never("graph_sgd_param", GRAPH)
    said.done()
    settings = [f"accessor = {_SAME.get(name, name)}", f"dim = {dim}", *life]
    if embed:
        settings += [f"rule = {embed}", f"init = {_init(0 if zero else spread)}"]
    if dim > 0:
        settings.append(f"embedx-threshold = {threshold!r}")
        settings += [f"embedx-rule = {embedx}", f"embedx-init = {_init(spread_x)}"] if embedx else []
    return settings + ([f"cold = table-{number}"] if on_disk else [])


class _Common:
    """The message `common`: the names, sizes and initial values of a table's arrays, and its rule."""

    def __init__(self, said: Said) -> None:
        self.said = said
        self.name = said.pick("name", "", ("", *_OF_COMMON), lambda _name: "is not a rule of " +
                              ", ".join(_OF_COMMON))
        self.table_name = said.word("table_name")
        attributes = dict(one.split("&", 1) for one in [*said.words("attributes"), *said.words("attr")] if "&" in one)
        self.attributes = {name: text.rpartition("&")[2] for name, text in attributes.items()}
        names, sizes = said.words("params"), [said.whole_of(one, 0, _FLOATS_MAX) for one in said.many("dims")]
        firsts = said.words("initializers")
        if names and not len(names) == len(sizes) == len(firsts):
            said.reader.refuse(said.line, f"common: has {len(names)} params, {len(sizes)} dims and {len(firsts)} "
                               "initializers, and needs equally many of each")
        self.sizes, self.firsts = dict(zip(names, sizes)), dict(zip(names, firsts))
        self.entry = said.one("entry")
        self.trainers = said.whole("trainer_num", 0, 0, 65535)
        self.sync = said.flag("sync", False)
        said.passed_over("table_num", "table_dim")
        said.done()

    def _attribute(self, name: str) -> Optional[float]:
        try:
            return float(self.attributes[name])
        except (KeyError, ValueError):
            return None

    def rule(self, dense: bool) -> str:
        """Returns the rule with its numbers, as a setting."""
        name, with_ = self.name, []
        if not name:
            self.said.reader.refuse(self.said.line, "common: the field name is missing, which names the rule: it "
                                                    f"must be one of {', '.join(_OF_COMMON)}")
        first = self.firsts.get("LearningRate", "")
        if name not in ("sum", "summary") and first:
            m = _FILL.fullmatch(first)
            try:
                with_.append(f"lr={float(m.group(1) if m else '')!r}")
            except ValueError:
                self.said.reader.refuse(self.said.line, f"common: the initializer of LearningRate is '{first[:60]}', "
                                                        "but must be fill_constant&RATE")
        if name == "adam":
            with_ += [f"{ours}={value!r}" for ours, theirs in (("beta1", "beta1"), ("beta2", "beta2"),
                                                               ("beta", "epsilon"))
                      for value in [self._attribute(theirs)] if value is not None]
        if dense and name == "adam":
            with_.append("dense")
        return _OF_COMMON[name] + (":" + ",".join(with_) if with_ else "")

    def entry_setting(self) -> List[str]:
        """Returns the setting of the entry policy, or no setting."""
        if self.entry is None or isinstance(self.entry.value, Said) or self.entry.value.value in ("", "none"):
            return []
        kind, _, number = self.entry.value.value.partition(":")
        ours = {"count_filter_entry": "count", "probability_entry": "probability"}.get(kind)
        if ours is None or re.fullmatch(r"[0-9.]{1,20}", number) is None:
            self.said.refuse(self.entry, "is neither none, count_filter_entry:N nor probability_entry:P; shows and "
                             "clicks travel with the pushes of an accessor that has them")
        return [f"entry = {ours}:{number}"]

    def first_setting(self) -> List[str]:
        """Returns the setting of the initial weights of a sparse table's rows, or no setting."""
        first = self.firsts.get("Param", "")
        m, fill = _WITHIN.fullmatch(first), _FILL.fullmatch(first)
        if m is not None:
            return [f"init = {m.group(1)}..{m.group(2)}"]
        if fill is not None:
            return [f"init = {fill.group(1)}..{fill.group(1)}"]
        if first:
            self.said.reader.refuse(self.said.line, f"common: the initializer of Param is '{first[:60]}'; rows begin "
                                    "with uniform_random&SEED&LOW&HIGH or fill_constant&VALUE")
        return []

    def mode(self) -> List[str]:
        """Returns the settings of mode sync if `common` has sync, else none."""
        return ["mode = sync", "reduce = mean"] if self.sync else []


class _Tables:
    """Collects the tables that the messages of a text describe, by number."""

    def __init__(self) -> None:
        self.tables: Dict[int, Tuple[FleetTable, int]] = {}
        self.flat: Dict[int, List[str]] = {}
        self.barriers: Set[int] = set()
        self.trainers = 0

    def add(self, said: Said) -> None:
        """Adds the table of a downpour_table_param."""
        number = said.whole("table_id", 0, 0, lib.TUG_TABLES_MAX - 1)
        name = said.pick("table_class", "MemorySparseTable", (*SPARSE, *DENSE, *NOT_MADE),
                         lambda name: NEVER.get(name, OWN_TABLE))
        self._check_type(said, name)
        said.whole("shard_num", 1000, 1, 2 ** 32)  # only checked: rows are spread by hash
        # These fields have no effect: saves have tug's own format, and tug has no serving cache.
        said.passed_over("enable_sparse_table_cache", "sparse_table_cache_rate", "sparse_table_cache_file_num",
                         "compress_in_save", "shard_merge_rate")
        said.only("enable_revert", ("false", "0"), "saves hold rows unchanged")
        said.only("use_gpu_graph", ("false", "0"), GRAPH)
        said.never("graph_parameter", GRAPH)
        said.never("tensor", NEVER["TensorTable"])
        common = _Common(said.message("common") or Said(said.reader, "common", (), said.line))
        accessor = said.message("accessor") or Said(said.reader, "accessor", (), said.line)
        said.done()
        self.trainers = self.trainers or common.trainers
        if name in NOT_MADE:
            self.barriers.add(number)
            return
        made = (self._dense if name in DENSE else self._sparse)(number, name, accessor, common)
        there, line = self.tables.setdefault(number, (made, said.line))
        if there != made:
            said.reader.refuse(said.line, f"table {number} differs from the one in line {line}")

    @staticmethod
    def _check_type(said: Said, name: str) -> None:
        field = said.one("type")
        if field is not None and (isinstance(field.value, Said) or
                                  name not in _TYPES.get(field.value.value, NOT_MADE)):
            said.refuse(field, f"is not the type of a {name}")

    @staticmethod
    def _called(number: int, common: _Common) -> str:
        return common.table_name if _NAME.fullmatch(common.table_name) else f"table_{number}"

    def _sparse(self, number: int, name: str, accessor: Said, common: _Common) -> FleetTable:
        sums = name in OF_SUMS
        if sums or name == "CommonSparseTable":
            accessor.passed_over("accessor_class", "fea_dim", "ctr_accessor_param", "embed_sgd_param",
                                 "embedx_sgd_param", "table_accessor_save_param", "embedx_threshold")
            dim = accessor.whole("embedx_dim", common.sizes.get("Param", 8), 1, _DIM_MAX)
            accessor.done()
            settings = [f"dim = {common.sizes.get('Param', dim) if not sums else dim}"]
            settings += ["accessor = merge"] if sums else [
                f"rule = {common.rule(False)}", *common.first_setting(), *common.entry_setting()]
        else:
            settings = _accessor_of(accessor, name in ON_DISK, number) + common.entry_setting()
        return FleetTable(number, self._called(number, common), "; ".join(settings + common.mode()))

    def _dense(self, number: int, name: str, accessor: Said, common: _Common) -> FleetTable:
        del name
        field = accessor.one("fea_dim")
        size = common.sizes.get("Param", 0) if field is None else accessor.whole_of(field, 1, _FLOATS_MAX)
        if size < 1:
            accessor.reader.refuse(accessor.line, f"table {number}: neither fea_dim nor the dims of Param say how many "
                                   "floats it has")
        accessor.only("accessor_class", ("CommMergeAccessor", "DownpourDenseValueAccessor"),
                      "is not the accessor of a dense table, CommMergeAccessor")
        rule = _dense_rule_of(accessor.message("dense_sgd_param"))
        accessor.passed_over("embedx_dim", "embedx_threshold", "ctr_accessor_param", "embed_sgd_param",
                             "embedx_sgd_param", "table_accessor_save_param")
        accessor.done()
        self.flat.setdefault(number, [])
        settings = [f"dim = {_BLOCK}", f"rule = {rule or common.rule(True)}", *common.mode()]
        init = common.firsts.get("Param", "fill_constant&0.0")
        return FleetTable(number, self._called(number, common), "; ".join(settings), {"Param": (size, init)})

    def name_variables(self, said: Said) -> None:
        """Takes the names of the variables of dense tables from trainer_param."""
        for one in said.messages("dense_table"):
            number = one.whole("table_id", 0, 0, lib.TUG_TABLES_MAX - 1)
            names = one.words("dense_variable_name")
            one.passed_over("dense_gradient_variable_name", "fea_dim")
            one.done()
            if number in self.flat:
                self.flat[number] = names
        # These fields have no effect: the program's own calls determine which rows it pulls and pushes.
        said.passed_over("sparse_table", "push_sparse_per_batch", "push_dense_per_batch", "skip_op", "program_config")
        said.done()


def _service(said: Optional[Said]) -> None:
    if said is None:
        return
    for name, known in (("server_class", SERVERS), ("client_class", CLIENTS), ("service_class", SERVICES)):
        said.only(name, known, f"is not one of {', '.join(known)}: tug has one kind of server and client; a program "
                  "on servers that answers requests of its own is kvapp (docs/kvapp.md)")
    said.only("start_server_port", ("0",), "servers listen at the addresses of the list of hosts")
    said.passed_over("server_thread_num")
    said.done()


def _of_text(text: Any, name: str) -> Described:
    said, found = read(text, name), _Tables()
    said.passed_over("worker_class", "server_class", "instance_class")
    said.only("init_gflags", ("",), "tug has no flags")
    said.never("fs_client_param", "this process reads the files; use a pipe command for remote ones")
    server = said.message("server_param")
    worker = said.message("worker_param")
    for side, inner in ((server, "downpour_server_param"), (worker, "downpour_worker_param")):
        of = None if side is None else side.message(inner)
        if of is not None:
            for table in of.messages("downpour_table_param"):
                found.add(table)
            _service(of.message("service_param"))
            of.done()
        if side is not None:
            side.done()
    for trainer in said.messages("trainer_param"):
        found.name_variables(trainer)
    said.done()
    return Described([table for table, _ in found.tables.values()], found.flat, tuple(found.barriers), found.trainers)


def described(given: Any, name: str) -> Described:
    """Returns the tables that server_desc or proto_txt gives: a list of FleetTable, or Paddle's PSParameter as text.
    `name` is the argument's name, for errors."""
    if isinstance(given, Described):
        return given
    if isinstance(given, (str, bytes)):
        return _of_text(given, name)
    if not isinstance(given, (list, tuple)):
        raise ArgumentTypeError(f"{name}: must be a list of FleetTable or a PSParameter as text, not {kind_of(given)}")
    for one in given:
        if not isinstance(one, FleetTable):
            raise ArgumentTypeError(f"{name}: must be a list of FleetTable; it contains {kind_of(one)}")
    return Described(list(given))
