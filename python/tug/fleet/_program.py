"""Programs: the slots, the net and the metrics that a script declares with Paddle's functions.

A program has at most one net, made by net(inputs, params) of slots and a label. The net has a loss and metrics, whose
states have names. There are no other operators: for a model that is not built in, write a training loop
(docs/python.md).

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import os
import threading
import weakref
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence

import numpy as np
import numpy.typing as npt

from tug import _disk
from tug._arrays import kind_of, whole
from tug._errors import ArgumentTypeError, UsageError
from tug._model import Model, load
from tug._passes import Pass, Progress
from tug.fleet._metric import STATES, Metric
from tug.fleet._names import Named
from tug.fleet._trainer_options import Options

DTYPES = {"int64": "int64", "int32": "int64", "uint64": "int64", "float32": "float32", "float64": "float32"}
PARAMS = ("model", "dim", "hidden", "init", "seed")
MAX_THRESHOLDS = (1 << 20) - 1
GENERATED = "_generated_var_"


class Variable:
    """A slot of the data, or an output of a net: loss, predict, a metric or one of its states."""

    def __init__(self, program: "Program", name: str, shape: Sequence[int] = (1,), dtype: str = "float32",
                 lod_level: int = 0) -> None:
        self.program, self.name, self.shape = program, name, tuple(shape)
        self.dtype, self.lod_level = dtype, lod_level

    def __repr__(self) -> str:
        return f"<tug.fleet.Variable {self.name} {self.dtype}>"

    @property
    def width(self) -> int:
        """The number of values of a dense slot."""
        n = 1
        for one in self.shape:
            n *= one if one > 0 else 1
        return n

    @property
    def kind(self) -> str:
        """The slot's type in the option `slots` of `tug train`: "ids" or "dense[N]"."""
        return "ids" if self.dtype == "int64" else f"dense[{self.width}]"


class Program(Named):
    """A program: the variables and the net that a script declares."""

    holders = ("Program",)

    def __init__(self) -> None:
        self.random_seed = 1
        self.variables: Dict[str, Variable] = {}
        self.net: Optional["DeclaredNet"] = None
        self.metrics: Dict[str, Metric] = {}
        self.values: Dict[str, float] = {}  # the loss of the last pass, under "loss"
        self._options = Options({}, "_fleet_opt")

    @property
    def _fleet_opt(self) -> Options:
        """Paddle's options that choose passes over a program. Each accepts only the value that is true of tug."""
        return self._options

    @_fleet_opt.setter
    def _fleet_opt(self, given: Mapping[str, Any]) -> None:
        self._options = Options(given, "_fleet_opt")

    @property
    def history(self) -> List[Pass]:
        """A tug.Pass for each training pass of the net, with the figures of this worker's part of the data."""
        model = self.net.model if self.net is not None else None
        return [] if model is None else model.history

    def declare(self, variable: Variable) -> Variable:
        """Adds a variable; raises an error if its name exists."""
        if variable.name in self.variables:
            raise UsageError(f"there is a variable '{variable.name}' in this program already")
        self.variables[variable.name] = variable
        return variable

    def list_vars(self) -> List[Variable]:
        """Returns all variables."""
        return list(self.variables.values())

    def state(self, name: str) -> str:
        """Returns tug's name of a metric's state if `name` is Paddle's: the states of the first metric are
        _generated_var_0 to _generated_var_3 there. Returns other names as they are."""
        number = name[len(GENERATED):] if name.startswith(GENERATED) else ""
        if number.isdigit() and self.metrics and name not in self.variables:
            of = list(self.metrics)[int(number) // len(STATES):][:1]
            return f"{of[0]}.{STATES[int(number) % len(STATES)]}" if of else name
        return name

    def global_block(self) -> "Program":
        """Returns the program itself, which has only one block."""
        return self

    def var(self, name: str) -> Variable:
        """Returns the variable of this name."""
        name = self.state(name)
        if name not in self.variables:
            raise UsageError(f"there is no variable '{name}'; there are {', '.join(self.variables) or 'none'}")
        return self.variables[name]


class _Programs(threading.local):
    def __init__(self) -> None:
        self.main, self.startup = _first


_first = (Program(), Program())
_now = _Programs()


def default_main_program() -> Program:
    """Returns the program that the script is building."""
    return _now.main


def default_startup_program() -> Program:
    """Returns the startup program, which sets initial values."""
    return _now.startup


@contextlib.contextmanager
def program_guard(main_program: Program, startup_program: Optional[Program] = None) -> Iterator[None]:
    """A context in which the given programs are the defaults."""
    before = _now.main, _now.startup
    _now.main, _now.startup = main_program, startup_program or _now.startup
    try:
        yield
    finally:
        _now.main, _now.startup = before


@contextlib.contextmanager
def guard(new_generator: Any = None) -> Iterator[None]:
    """unique_name.guard(): has no effect, because each program has names of its own."""
    del new_generator
    yield


def data(name: str, shape: Sequence[Any] = (1,), dtype: str = "float32", lod_level: int = 0,
         append_batch_size: bool = True) -> Variable:
    """Declares a slot of the data and returns it. A slot of dtype int64 has ids: as many as the shape says or, with
    lod_level=1, any number. A slot of dtype float32 has as many numbers as the shape says. The label is a slot, too."""
    del append_batch_size
    if not isinstance(name, str) or isinstance(shape, str):
        raise ArgumentTypeError("data: the arguments are (name, shape, dtype, lod_level): data('user', [1], 'int64')")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise UsageError(f"data '{name}': dtype '{dtype}' is not one of {', '.join(DTYPES)}")
    if lod_level not in (0, 1):
        raise UsageError(f"data '{name}': lod_level {lod_level} is neither 0 nor 1")
    if DTYPES[dtype] == "float32" and lod_level == 1:
        raise UsageError(f"data '{name}': a float32 slot has a fixed number of values: give lod_level=0 and a shape")
    sizes = [-1 if one is None else whole(one, f"data '{name}': shape", -1, 1 << 20) for one in shape]
    program = default_main_program()
    return program.declare(Variable(program, name, sizes, DTYPES[dtype], lod_level))


class DeclaredNet:
    """A program's net: its slots, its options of `tug train` and, once it is trained, its model."""

    def __init__(self, program: Program, slots: Sequence[Variable], label: Variable, params: Mapping[str, Any]) -> None:
        self.program, self.slots, self.label = program, list(slots), label
        self.options: Dict[str, Any] = {"model": "deepfm", "seed": program.random_seed, **params}
        self.rule: Optional[Dict[str, Any]] = None
        self.model: Optional[Model] = None # the model that was trained so far
        self.begins_with: Optional[str] = None  # the save that the net begins with
        self.tables: Optional[str] = None  # the tables to load from that save, "sparse,dense"; None: all
        self.anew = False  # whether a new model, perhaps with other options, continues the net's training
        self._start: Optional[str] = None  # the directory of save_start's save
        self._begun_with: Optional[Model] = None  # the save `begins_with`, opened for evaluations
        self.made_for: Dict[str, Any] = {}
        self.hears: Optional[Callable[[Progress], None]] = None
        self.trained = False
        self.generation = 0 # counts the models that the net began with
        self.begun = False  # whether the startup program was run, or a worker of a fleet has begun
        self.left = False  # whether stop_worker() has given up the rows of the last run
        self._check(self.options)

    @staticmethod
    def _check(options: Mapping[str, Any]) -> None:
        Model(alone=True, progress=False, format="multislot", slots="label:label, a:ids", **options).close()

    def check_feeds(self, names: Optional[Sequence[str]]) -> None:
        """Raises UsageError if one of the names is not a slot of the net."""
        slots = [one.name for one in self.slots]
        unknown = [name for name in names or () if name not in (*slots, self.label.name)]
        if unknown:
            raise UsageError(f"feeded_var_names: there is no {', '.join(unknown)}; the net has {', '.join(slots)}")

    def open_save(self, save: str) -> Model:
        """Opens a saved model, to evaluate or copy it. Raises UsageError, which describes both nets, if the save is of
        another net."""
        said = {name: value for name, value in self.options.items() if name not in ("init", "seed")}
        return load(save, alone=True, format="multislot", slots="label:label, a:ids", **said)

    def train_by(self, rule: Mapping[str, Any]) -> None:
        """Sets the options of the net's update rule. Raises UsageError if the net has one already."""
        if self.rule is not None:
            raise UsageError(f"minimize: this net has an optimizer already, {self.rule['optimizer']} with a rate of "
                             f"{self.rule['lr']}; call minimize() only once")
        layers = self.options["model"] not in ("lr", "fm", "ffm")
        found = {"l2": 0.0, "prior": 0.0, **rule}
        if self.options["model"] != "lr":
            found["latent_lr"] = rule["lr"]
        if layers:
            found.update(dense_optimizer=rule["optimizer"], dense_lr=rule["lr"])
        self._check({**self.options, **found})
        self.rule = found

    def beginning(self) -> Model:
        """Returns the model of the save with which the net begins. The net closes it."""
        assert self.begins_with is not None
        if self._begun_with is None:
            self._begun_with = self.open_save(self.begins_with)
        return self._begun_with

    def close_unless_own(self, model: Model) -> None:
        """Closes a model that was opened for an evaluation, but not one that the net keeps."""
        if model is not self.model and model is not self._begun_with:
            model.close()

    def forget(self) -> None:
        """Closes the model, so that the net has none."""
        if self._begun_with is not None:
            self._begun_with.close()
            self._begun_with = None
        if self.model is not None:
            self.model.close()
        self.model, self.trained = None, False

    def leave(self) -> None:
        """Closes the model at the end of a fleet's run, so that nothing is trained from the beginning in its place."""
        self.forget()
        self.begun, self.left = False, True

    def begin_again(self) -> None:
        """Discards the model, and resets the states of metrics, so that training starts from initial values."""
        self.forget()
        self.begins_with, self.tables, self.made_for = None, None, {}
        for metric in self.program.metrics.values():
            for state in STATES:
                metric.reset(f"{metric.name}.{state}")

    def begin_with(self, save: str, tables: Optional[str] = None) -> None:
        """Discards the model. The next one begins with a save, or, with `tables`, with only these tables of it."""
        self.forget()
        self.begins_with, self.tables, self.anew = save, tables, False
        self.generation += 1

    def begin_anew(self, save: str) -> None:
        """Discards the model. A new model with its own options continues from this save."""
        self.begin_with(save)
        self.anew = True

    def save_start(self) -> str:
        """Saves the model below $TMPDIR and returns the path. drop_start removes the save."""
        assert self.model is not None
        self.drop_start()
        self._start = _disk.of_process("net")
        weakref.finalize(self, _disk.remove_of_process, self._start)
        save = os.path.join(self._start, "model")
        self.model.save(save)
        return save

    def drop_start(self) -> None:
        """Removes the save of save_start, which is not needed after the model was trained further."""
        if self._start is not None:
            _disk.remove_of_process(self._start)
        self._start = None


def net(inputs: Sequence[Variable], params: Optional[Mapping[str, Any]] = None) -> List[Variable]:
    """Declares a built-in net over slots, the last of which is the label. Returns [loss, auc, batch_auc].

    params: model ("deepfm", the default, "lr", "fm", "ffm", "mlp", "wide_deep" or "dcn"), dim, hidden ("400,400"),
    init, seed. Parameters that are left out have the model's defaults (docs/models.md)."""
    if params is not None and not isinstance(params, Mapping):
        raise ArgumentTypeError(f"params: must be a dict, {{'model': 'deepfm', ...}}, not {kind_of(params)}; net's "
                                "arguments are (inputs, params)")
    params = dict(params or {})
    unknown = sorted(set(params) - set(PARAMS))
    if unknown:
        raise UsageError(f"params: there is no {', '.join(unknown)}; there are {', '.join(PARAMS)}")
    if not isinstance(inputs, (list, tuple)) or len(inputs) < 2 or not all(isinstance(one, Variable) for one in inputs):
        raise UsageError("inputs: must be slots made by data(), the label last")
    program, label = inputs[-1].program, inputs[-1]
    if program.net is not None:
        raise UsageError("this program has a net already; declare another one in a new Program() with program_guard")
    if label.lod_level != 0 or label.width != 1:
        raise UsageError(f"inputs: the last one, '{label.name}', is the label, and must have one value")
    program.net = DeclaredNet(program, inputs[:-1], label, params)
    loss = program.declare(Variable(program, "loss"))
    predict = program.declare(Variable(program, "predict"))
    found = auc(predict, label)
    return [loss, found[0], found[1]]


def auc(input: Variable, label: Variable, curve: str = "ROC", num_thresholds: int = 4095,  # noqa: A002
        topk: int = 1, slide_steps: int = 1) -> List[Any]:
    """Declares a further AUC of the net. Returns [auc, batch_auc, [batch_stat_pos, batch_stat_neg, stat_pos,
    stat_neg]]."""
    program = input.program
    if program.net is None or input.name != "predict" or label is not program.net.label:
        raise UsageError("auc: needs a net's prediction, program.var('predict'), and the label the net was made with")
    if curve != "ROC" or topk != 1:
        raise UsageError(f"auc: curve='{curve}', topk={topk}: only curve='ROC' with topk=1 is supported")
    if slide_steps == 0:
        raise UsageError("auc: slide_steps=0 is not supported: batch_auc covers the last call, auc all calls")
    name = "auc" if "auc" not in program.metrics else f"auc_{len(program.metrics)}"
    program.metrics[name] = Metric(name, whole(num_thresholds, "num_thresholds", 1, MAX_THRESHOLDS) + 1)
    whole(slide_steps, "slide_steps", 1, 1 << 16)
    states = [program.declare(Variable(program, f"{name}.{state}", (num_thresholds + 1,), "int64")) for state in STATES]
    return [program.declare(Variable(program, name)), program.declare(Variable(program, f"batch_{name}")), states]


def net_of(loss: Any) -> DeclaredNet:
    """Returns the net of a loss. Raises ArgumentTypeError if `loss` is not the loss of a net."""
    if not isinstance(loss, Variable) or loss.name != "loss" or loss.program.net is None:
        raise ArgumentTypeError("loss: must be what net(inputs, params) returned first")
    return loss.program.net


def value_of(program: Program, name: str) -> float:
    """Returns the value of a metric, or the loss of the last pass."""
    for metric in program.metrics.values():
        if name == metric.name:
            return metric.auc
        if name == f"batch_{metric.name}":
            return metric.batch_auc
    if name == "loss":
        return program.values.get("loss", float("nan"))
    raise UsageError(f"'{name}' has no value to fetch; fetch loss, {', '.join(program.metrics)} or its batch_ form")


def state_of(program: Program, name: str) -> Metric:
    """Returns the metric with the state of this name."""
    metric = program.metrics.get(name.rpartition(".")[0])
    if metric is None or name.rpartition(".")[2] not in STATES:
        known = [f"{m}.{s}" for m in program.metrics for s in STATES]
        raise UsageError(f"there is no state '{name}'; there are {', '.join(known) or 'none'}")
    return metric


class Tensor:
    """The result of scope.find_var(name).get_tensor(): a state of a metric, or a value."""

    def __init__(self, program: Program, name: str) -> None:
        self._program, self._name = program, name

    def _is_state(self) -> bool:
        return "." in self._name

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        del copy
        if self._is_state():
            found = state_of(self._program, self._name).state(self._name)
        else:
            found = np.array([value_of(self._program, self._name)])
        return found if dtype is None else found.astype(dtype)

    def __repr__(self) -> str:
        return str(np.asarray(self))

    def __float__(self) -> float:
        return float(np.asarray(self).reshape(()))

    def _get_dims(self) -> List[int]:
        return list(np.asarray(self).shape)

    shape = _get_dims

    def get_tensor(self) -> "Tensor":
        """Returns this object."""
        return self

    def set(self, array: Any, place: Any = None) -> None:
        """Sets a metric's state to zeros. Raises UsageError for other values."""
        del place
        metric = state_of(self._program, self._name)
        given = np.asarray(array)
        if given.shape != (metric.buckets,) or given.any():
            raise UsageError(f"{self._name}: can be set only to {metric.buckets} zeros")
        metric.reset(self._name)


class Scope(Named):
    """The result of global_scope(): gives the variables of the default main program by name."""

    holders = ("global_scope()",)

    def find_var(self, name: str) -> Optional[Tensor]:
        """Returns the variable of this name, or None."""
        known = default_main_program()
        return self.var(name) if known.state(name) in known.variables else None

    def var(self, name: str) -> Tensor:
        """Returns the variable of this name. Paddle creates a missing one; here that is an error."""
        program = default_main_program()
        return Tensor(program, program.var(name).name)


_scope = Scope()


def global_scope() -> Scope:
    """Returns the only scope."""
    return _scope


TABLES = {"features": "sparse", "dense": "dense"}  # names of a net's tables, and their names in a save


def tables_of(names: Optional[Sequence[str]]) -> Optional[str]:
    """Returns the given tables of a net as a value of the option --init-tables, or None for None."""
    unknown = [name for name in names or () if name not in TABLES]
    if unknown:
        raise UsageError(f"there is no table {', '.join(unknown)}; a net has {' and '.join(TABLES)}")
    return None if names is None else ",".join(TABLES[name] for name in names)
