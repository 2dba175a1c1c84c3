"""PyTorch modules whose weights live in a tug table, in this process or on a cluster.

    client = tug.local()                                    # or tug.connect()
    table = client.table("films", dim=16, rule="adam:lr=0.01", init=0.01)
    films = tug.torch.EmbeddingBag(table, mode="mean")      # ids are any 64-bit numbers
    optimizer = tug.torch.Optimizer(model)                  # for all such modules in a model

A forward pass pulls the row of each distinct id once. A backward pass computes the gradients, and Optimizer.step pushes
one for each distinct id to the servers, where the table's rule updates the rows. As with torch.optim, gradients of
several backward passes before a step are added up, and may be scaled or clipped before the step (Optimizer.gradients).
docs/torch.md is the manual.

SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import math
import os
import re
import socket
import threading
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import numpy.typing as npt

from tug import _disk
from tug._arrays import Floats, Keys, choice, empty, instance, real, truth, whole
from tug._bags import Bags, Places, distinct
from tug._client import Client
from tug._errors import ArgumentTypeError, DataError, Error, SystemFailure, UsageError
from tug._request import Request
from tug._saved import read_save, write_save
from tug._table import Table

try:
    import torch
    from torch import nn
except ImportError as reason:
    raise ImportError("tug.torch needs PyTorch, which is not installed: install Debian's python3-torch, or "
                      f"'pip install torch' ({reason})") from reason
from tug._pools import pooled

__all__ = ["Embedding", "EmbeddingBag", "Optimizer", "dense_state_dict", "init_process_group", "load_dense_state_dict"]

PREFETCHED_MAX = 16  # the most prefetched batches of a module, and the most steps for which a batch is kept
LEAVES_MAX = 8  # the number of gradient tensors at which they are merged
_SAVED_FILE = re.compile(r"[\w.-]+(/[\w.-]+)*")


class _Batch:
    """A batch's ids: their distinct keys, for each id the index of its key, and the rows, once they have arrived. With
    padding, the padding id comes first and its row is 0; it is neither pulled nor pushed."""

    def __init__(self, table: Table, ids: Keys, padding: Optional[int]) -> None:
        self.ids = ids
        self.padded = 0 if padding is None else 1
        if padding is not None:
            ids = np.concatenate((np.array([padding], np.uint64), ids))
        keys, which = distinct(ids)
        self.keys: Keys = keys[self.padded:]
        self.which: Places = which[self.padded:]
        self.rows: Floats = empty((keys.size, table.pull_width), "rows")
        self.rows[:self.padded] = 0
        self._request: Optional[Request] = None
        if self.keys.size > 0:
            self._request = table.pull_async(self.keys, out=self.rows[self.padded:])

    def wait(self) -> None:
        """Waits until the rows have arrived."""
        if self._request is not None:
            self._request.wait()
            self._request = None


class _Gradients:
    """The gradients of a module since the last step: tensors whose .grad has the gradients of rows, and the rows'
    keys."""

    def __init__(self) -> None:
        self.leaves: List[Any] = []  # the parameter group of the optimizer has this same list object
        self._keys: List[Keys] = []
        self._lock = threading.Lock()

    def add(self, keys: Keys, gradient: Any) -> None:
        """Adds a tensor with the gradients of rows, and the rows' distinct keys."""
        with self._lock:
            self._add(keys, gradient)
            if len(self.leaves) > LEAVES_MAX:
                self._merge()

    def _add(self, keys: Keys, gradient: Any) -> None:
        # this tensor only carries a gradient: the weights are in the table
        leaf = torch.zeros(()).expand(gradient.shape).requires_grad_()
        leaf.grad = gradient
        self.leaves.append(leaf)
        self._keys.append(keys)

    def _merge(self) -> None:
        held = [(k, leaf.grad) for k, leaf in zip(self._keys, self.leaves) if leaf.grad is not None]
        self._clear()
        if len(held) > 1:
            keys, which = distinct(np.concatenate([k for k, _ in held]))
            given = torch.cat([g for _, g in held]).numpy()
            held = [(keys, torch.from_numpy(Bags(which, None, None, given.shape[1]).spread(given, keys.size)))]
        for one in held:
            self._add(*one)

    def merged(self) -> Optional[Tuple[Keys, Any]]:
        """Merges all gradients to one for each key. Returns the keys and the gradients, or None if there are none."""
        with self._lock:
            self._merge()
            return (self._keys[0], self.leaves[0].grad) if self.leaves else None

    def _clear(self) -> None:
        self.leaves.clear()
        self._keys.clear()

    def clear(self) -> None:
        """Discards all gradients."""
        with self._lock:
            self._clear()


class _Prefetched(NamedTuple):
    batch: _Batch
    steps: int  # the module's number of steps when the batch was requested


def _ids_of(given: Any, name: str) -> Keys:
    """Returns a tensor of ids as unsigned 64-bit keys: a negative id stands for the key with the same bits."""
    if not isinstance(given, torch.Tensor):
        raise ArgumentTypeError(f"{name}: must be a torch.Tensor of integers, not {type(given).__name__}")
    if given.dtype not in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
        raise ArgumentTypeError(f"{name}: must be integers, not {given.dtype}")
    if given.device.type != "cpu":
        raise UsageError(f"{name}: are on {given.device}, but rows are pulled to the CPU: give {name}.cpu(), and move "
                         f"the result with .to('{given.device}')")
    bits: npt.NDArray[np.int64] = given.detach().reshape(-1).to(torch.int64).contiguous().numpy()
    return bits.view(np.uint64)


class _Rows(nn.Module):
    """The base of Embedding and EmbeddingBag: pulls the rows of a batch from a table, and pushes their gradients."""

    def __init__(self, table: Table, padding_idx: Optional[int], more: "_More") -> None:
        super().__init__()
        self.table = instance(table, Table, "table")
        if not table.pull_width == table.push_width == table.assign_width:
            raise UsageError(f"table '{table.name}': its rows hold more than weights; make the table with accessor "
                             "plain")
        how = table.learning()
        if math.isnan(how.rate):
            raise UsageError(f"table '{table.name}': its rule takes values, not gradients; make the table with a "
                             "rule that learns, such as rule='adam:lr=0.01'")
        if padding_idx is not None:
            padding_idx = whole(padding_idx, "padding_idx", -2 ** 63, 2 ** 64 - 1)
        self.embedding_dim = table.pull_width
        self.rate, self._sync = how
        self.max_norm, self.norm_type = _norm_of(table, more)
        self.scale_grad_by_freq = truth(more.scale_grad_by_freq, "scale_grad_by_freq")
        truth(more.sparse, "sparse")
        self.padding_idx = padding_idx
        self.frozen = False  # True: no gradients are computed
        self.gradients = _Gradients()
        self._padding = None if padding_idx is None else padding_idx % 2 ** 64
        self._anchor = torch.zeros((), requires_grad=True)
        self._prefetched: List[_Prefetched] = []
        self._lock = threading.Lock()
        self._steps = 0
        self._batch: Optional[int] = None  # in mode sync, the batch that the next push belongs to
        self._pushed: Optional[Request] = None

    def extra_repr(self) -> str:
        said = f"table='{self.table.name}', embedding_dim={self.embedding_dim}"
        if self.padding_idx is not None:
            said += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            said += f", max_norm={self.max_norm}, norm_type={self.norm_type}"
        return said + (", scale_grad_by_freq=True" if self.scale_grad_by_freq else "")

    # ---------------------------------------------------------------- forward

    def prefetch(self, input: Any) -> None:  # noqa: A002
        """Requests the rows of a later batch without waiting; the forward pass with the same ids uses them. These rows
        do not include steps made after the request. At most 16 batches are kept, each for at most 16 steps; older ones
        are dropped."""
        ids = _ids_of(input, "input").copy()
        batch = _Batch(self.table, ids, self._padding)
        with self._lock:
            self._prefetched.append(_Prefetched(batch, self._steps))
            del self._prefetched[:-PREFETCHED_MAX]

    def _fetched(self, ids: Keys) -> Optional[_Batch]:
        with self._lock:
            self._prefetched = [p for p in self._prefetched if self._steps - p.steps <= PREFETCHED_MAX]
            for i, one in enumerate(self._prefetched):
                if np.array_equal(one.batch.ids, ids):
                    return self._prefetched.pop(i).batch
        return None

    def _pool(self, ids: Keys, offsets: Optional[Keys], weights: Any, mode: str) -> Any:
        batch = self._fetched(ids) or _Batch(self.table, ids, self._padding)
        batch.wait()
        learns = self.training and not self.frozen and torch.is_grad_enabled()
        if self.max_norm is not None:
            self._shorten(batch, learns)
        anchor = self._anchor if learns else self._anchor.detach()
        return pooled(anchor, weights, self, batch, offsets, mode)

    def _shorten(self, batch: _Batch, learns: bool) -> None:
        """Scales rows whose norm exceeds max_norm, as torch does; if the module is training, in the table, too."""
        rows = batch.rows[batch.padded:]
        norms = np.linalg.norm(rows.astype(np.float64), self.norm_type, axis=1)
        long = np.flatnonzero(norms > self.max_norm)
        rows[long] *= (self.max_norm / (norms[long] + 1e-7)).astype(np.float32)[:, None]
        if learns and long.size > 0:
            self.table.assign(batch.keys[long], rows[long])

    # ---------------------------------------------------------------- steps, which Optimizer calls

    def begin(self) -> None:
        """Asks a table of mode sync for its next batch, at the first call."""
        if self._sync and self._batch is None:
            self._enter(self.table.stat().clock)

    def _enter(self, batch: int) -> None:
        client = self.table.client
        self.table.batch(batch, client.rank, client.workers)
        self._batch = batch

    def send(self, lr: float, ranks: int) -> None:
        """Pushes the gradients, divided by the number of ranks, with learning rate lr, without waiting, and discards
        them."""
        self.flush()
        self.begin()
        self._steps += 1
        merged = self.gradients.merged()
        if merged is None and not self._sync:
            return
        keys, values = np.empty(0, np.uint64), np.empty((0, self.embedding_dim), np.float32)
        if merged is not None:
            keys, values = merged[0], (merged[1] if ranks == 1 else merged[1] / ranks).contiguous().numpy()
        if self.rate == 0 and lr != 0:
            raise UsageError(f"table '{self.table.name}': its rule has lr=0, so that lr cannot be changed: make the "
                             "table with an lr above 0")
        self.table.rate_factor(1 if lr == self.rate else lr / self.rate)
        self._pushed = self.table.push_async(keys, values)
        self.gradients.clear()
        if self._batch is not None:
            self._enter(self._batch + 1)

    def flush(self) -> None:
        """Waits until the last step's push is applied; raises its error."""
        pushed, self._pushed = self._pushed, None
        if pushed is not None:
            pushed.wait()

    # ---------------------------------------------------------------- copies and saves

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise UsageError(f"{type(self).__name__} of table '{self.table.name}': cannot be copied or pickled, because "
                         "its rows are the table's; save its state_dict(), or make another one on another table")

    def _save(self, directory: str) -> None:
        self.table.client.save(directory, tables=[self.table])

    def get_extra_state(self) -> Any:
        """Returns the table's rows and the state of their rule, for state_dict: the files of a save, as tensors."""
        if _keeping.dense_only:
            return None
        if not self.table.client.local:
            raise UsageError(f"the rows of table '{self.table.name}' are on a cluster's servers, and cannot be in a "
                             "state_dict: save them with client.save(directory), which table.load reads, and the "
                             "other parameters with tug.torch.dense_state_dict(model)")
        self.flush()
        files = read_save(self._save)
        return {"table": self.table.name, "files": {
            name: torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
            for name, data in files.items()}}

    def set_extra_state(self, state: Any) -> None:
        """Replaces all rows of the table by those of a state of get_extra_state."""
        files = _files_of(state)
        self.flush()
        directory = write_save(files)
        try:
            self.table.load(directory, state["table"])
        finally:
            _disk.remove_of_process(directory)
        self.gradients.clear()
        self._batch = None
        with self._lock:
            self._prefetched.clear()


def _files_of(state: Any) -> Dict[str, bytes]:
    files = state.get("files") if isinstance(state, Mapping) and isinstance(state.get("table"), str) else None
    if not isinstance(files, Mapping) or not files:
        raise DataError("the state of an embedding has no rows of a table: either state_dict() of tug.torch did "
                        "not make it, or dense_state_dict() did, which load_dense_state_dict reads")
    for name, data in files.items():
        if not (isinstance(name, str) and _SAVED_FILE.fullmatch(name) and ".." not in name and
                isinstance(data, torch.Tensor) and data.dtype == torch.uint8 and data.dim() == 1):
            raise DataError(f"the state of an embedding has a file that does not belong to a save: {str(name)[:60]!r}")
    return {name: data.contiguous().numpy().tobytes() for name, data in files.items()}


class _More(NamedTuple):
    """The arguments of both modules, before they are checked."""
    max_norm: Optional[float]
    norm_type: float
    scale_grad_by_freq: bool
    sparse: bool


def _norm_of(table: Table, given: _More) -> Tuple[Optional[float], float]:
    norm_type = real(given.norm_type, "norm_type", 0, math.inf)
    if given.max_norm is None:
        return None, norm_type
    if table.client.workers > 1:
        raise UsageError(f"max_norm: a module writes shortened rows back to table '{table.name}', and updates of the "
                         f"other {table.client.workers - 1} workers would be lost: use it with one worker, or keep "
                         "rows short with the rule's l2")
    return real(given.max_norm, "max_norm", 0, math.inf), norm_type


class Embedding(_Rows):
    """Like torch.nn.Embedding, with rows in a table. An id is any 64-bit number; a negative id is key 2^64 + id.

    table: a table of accessor plain, whose settings dim, rule, init and seed determine the rows. A row is created by
    its first push. padding_idx: an id whose row is always 0; it is not trained and not in the table.

    The other arguments are those of torch. max_norm, norm_type: a row of a batch whose norm of this type exceeds
    max_norm is scaled to it, in training in the table, too; only with one worker. scale_grad_by_freq: divide the
    gradient of an id by the number of its occurrences in the batch. sparse: has no effect, because gradients are always
    sparse."""

    def __init__(self, table: Table, padding_idx: Optional[int] = None, *, max_norm: Optional[float] = None,
                 norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = True) -> None:
        super().__init__(table, padding_idx, _More(max_norm, norm_type, scale_grad_by_freq, sparse))

    def forward(self, input: Any) -> Any:  # noqa: A002
        """Returns the rows of the ids, float32 of input.shape + (embedding_dim,). input: a tensor of integers on the
        CPU."""
        ids = _ids_of(input, "input")
        return self._pool(ids, None, None, "sum").reshape((*input.shape, self.embedding_dim))


class EmbeddingBag(_Rows):
    """Like torch.nn.EmbeddingBag, with rows in a table: returns the sum, mean or maximum of the rows of each bag of
    ids. As in torch, input is 2-D with a bag in each row, or 1-D with offsets; an empty bag is 0; entries equal to
    padding_idx are left out; per_sample_weights need mode "sum", and get gradients. The other arguments are those of
    Embedding; as in torch, scale_grad_by_freq cannot be used with mode "max"."""

    def __init__(self, table: Table, mode: str = "mean", padding_idx: Optional[int] = None,
                 include_last_offset: bool = False, *, max_norm: Optional[float] = None, norm_type: float = 2.0,
                 scale_grad_by_freq: bool = False, sparse: bool = True) -> None:
        super().__init__(table, padding_idx, _More(max_norm, norm_type, scale_grad_by_freq, sparse))
        self.mode = choice(mode, "mode", ("sum", "mean", "max"))
        self.include_last_offset = include_last_offset
        if self.mode == "max" and self.scale_grad_by_freq:
            raise UsageError("scale_grad_by_freq: needs mode 'sum' or 'mean'")

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, mode='{self.mode}'"

    def _offsets(self, input: Any, offsets: Any) -> Keys:  # noqa: A002
        if input.dim() == 2:
            if offsets is not None:
                raise UsageError("offsets: must not be given with input of two dimensions, whose rows are the bags")
            return np.arange(input.shape[0] + 1, dtype=np.uint64) * np.uint64(input.shape[1])
        if input.dim() != 1 or offsets is None:
            raise UsageError(f"input: has {input.dim()} dimension{'' if input.dim() == 1 else 's'}, but must have two, "
                             "or one and offsets")
        given = _ids_of(offsets, "offsets").view(np.int64)
        if not self.include_last_offset:
            given = np.append(given, input.numel())
        if offsets.dim() != 1 or given.size == 0 or given[0] != 0 or (np.diff(given) < 0).any() or \
                given[-1] != input.numel():
            raise UsageError(f"offsets: must have one dimension, begin with 0 and ascend to the {input.numel()} ids"
                             + (", the last included" if self.include_last_offset else ""))
        return given.astype(np.uint64)

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Any:  # noqa: A002
        """Returns one row for each bag: float32 of (bags, embedding_dim)."""
        ids = _ids_of(input, "input")
        if per_sample_weights is not None:
            if self.mode != "sum":
                raise UsageError(f"per_sample_weights: need mode 'sum', not '{self.mode}'")
            if per_sample_weights.shape != input.shape:
                raise UsageError(f"per_sample_weights: have the shape {tuple(per_sample_weights.shape)}, but must have "
                                 f"that of input, {tuple(input.shape)}")
        return self._pool(ids, self._offsets(input, offsets), per_sample_weights, self.mode)


def _world_size() -> int:
    distributed = torch.distributed
    return int(distributed.get_world_size()) if distributed.is_available() and distributed.is_initialized() else 1


class Optimizer(torch.optim.Optimizer):
    """Pushes the gradients of a model's tug.torch modules. Use it beside an optimizer for the dense parameters.

    modules: a model or a list of models, whose Embeddings and EmbeddingBags are pushed. The tables' rules update the
    rows. param_groups has a group for each module; its "lr" begins with the lr of the table's rule, and may be changed
    at any time, also by torch.optim.lr_scheduler, for this worker's pushes.

    step() pushes the gradient of each distinct id since the last step (the sum over several backward passes), returns
    when they are applied, and discards them; so zero_grad() is needed only to drop gradients without a step. ranks: the
    divisor of gradients; None: the world size of torch.distributed if it is initialized, else 1. So the pushes of all
    ranks add up to the mean, as with DistributedDataParallel. overlap: step() returns when the pushes are sent; the
    next step or flush() waits for them."""

    def __init__(self, modules: Union[Any, Sequence[Any]], *, ranks: Optional[int] = None,
                 overlap: bool = False) -> None:
        given = [modules] if isinstance(modules, nn.Module) else list(modules)
        found = {id(m): m for one in given for m in one.modules() if isinstance(m, _Rows)}
        if not found:
            raise UsageError("modules: there is no tug.torch.Embedding or EmbeddingBag among them")
        self.modules: List[_Rows] = list(found.values())
        tables = [(id(m.table.client), m.table.number) for m in self.modules]
        if len(set(tables)) < len(tables):
            twice = next(m.table.name for i, m in enumerate(self.modules) if tables[i] in tables[:i])
            raise UsageError(f"table '{twice}': two modules use it, and each would make steps of its own; use one "
                             "module for both")
        self.ranks = None if ranks is None else whole(ranks, "ranks", 1, 2 ** 31)
        self.overlap = overlap
        super().__init__([{"params": [], "lr": m.rate, "table": m.table.name} for m in self.modules], {})
        for group, module in zip(self.param_groups, self.modules):
            group["params"] = module.gradients.leaves
            module.begin()

    def gradients(self) -> List[Any]:
        """Returns a list of tensors whose .grad has the gradients since the last step, a row for each distinct id. They
        may be changed in place before step(), for example by torch.nn.utils.clip_grad_norm_([*model.parameters(),
        *optimizer.gradients()], 1)."""
        for module in self.modules:
            module.gradients.merged()
        return [leaf for module in self.modules for leaf in module.gradients.leaves]

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Pushes the gradients, and returns the result of closure() or None. Errors of the pushes are raised here, or
        with overlap by the next step or flush()."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        ranks = self.ranks or _world_size()
        for group, module in zip(self.param_groups, self.modules):
            module.send(float(group["lr"]), ranks)
        if not self.overlap:
            self.flush()
        return loss

    def flush(self) -> None:
        """Waits until all pushes are applied, and raises the error of the first that failed."""
        failed = []
        for module in self.modules:
            try:
                module.flush()
            except Error as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Discards the gradients since the last step."""
        for module in self.modules:
            module.gradients.clear()

    def state_dict(self) -> Dict[str, Any]:
        """Returns the learning rates. The state of the rules is saved with the rows."""
        return {"state": {}, "param_groups": [{k: v for k, v in g.items() if k != "params"} for g in self.param_groups]}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Sets the learning rates to those of a state_dict() for the same tables."""
        groups = state_dict["param_groups"]
        if [g.get("table") for g in groups] != [g["table"] for g in self.param_groups]:
            raise UsageError("this state of an optimizer is for other tables than this optimizer has: "
                             + ", ".join(str(g.get("table")) for g in groups))
        for group, saved in zip(self.param_groups, groups):
            group.update({k: v for k, v in saved.items() if k != "params"})

    def __getstate__(self) -> Any:
        raise UsageError("tug.torch.Optimizer: cannot be copied or pickled, because it is bound to tables; save its "
                         "state_dict()")


# ---------------------------------------------------------------- states without the tables' rows

class _Keeping(threading.local):
    dense_only = False


_keeping = _Keeping()


@contextlib.contextmanager
def _dense_only() -> Iterator[None]:
    _keeping.dense_only = True
    try:
        yield
    finally:
        _keeping.dense_only = False


def _ours(model: Any) -> List[str]:
    return [f"{name}{'.' if name else ''}_extra_state" for name, m in model.named_modules() if isinstance(m, _Rows)]


def dense_state_dict(model: Any) -> Dict[str, Any]:
    """Returns model.state_dict() without the tables' rows, which client.save saves."""
    with _dense_only():
        state = model.state_dict()
    for name in _ours(model):
        state.pop(name, None)
    return dict(state)


def load_dense_state_dict(model: Any, state: Mapping[str, Any]) -> None:
    """Loads a state of dense_state_dict into a model, and leaves the tables unchanged. Raises UsageError if parameters
    are missing or unknown, and DataError, before anything is loaded, if a value is not finite."""
    for name in (name for name, _ in model.named_parameters() if name in state):
        if state[name].is_floating_point() and not bool(torch.isfinite(state[name]).all()):
            raise DataError(f"this state has a value of '{name}' that is not finite, so it is not loaded")
    told = model.load_state_dict(state, strict=False)
    missing = sorted(set(told.missing_keys) - set(_ours(model)))
    if missing or told.unexpected_keys:
        raise UsageError("this state is for another model: " + "; ".join(
            ([f"it lacks {', '.join(missing)}"] if missing else []) +
            ([f"the model has no {', '.join(told.unexpected_keys)}"] if told.unexpected_keys else [])))


# --------------------------------------------------------- groups of torch.distributed on a cluster

ADDRESS_MAX = 255


def _own_host() -> str:
    """Returns the address at which other workers reach this host: the launcher's DMLC_NODE_HOST, or the address of the
    interface that leads to the scheduler."""
    told = os.environ.get("DMLC_NODE_HOST")
    if told:
        return told
    scheduler = os.environ.get("TUG_SCHEDULER") or os.environ.get("DMLC_PS_ROOT_URI") or "127.0.0.1"
    tcp = next((a for a in scheduler.split(",") if not a.startswith("unix:")), "127.0.0.1")
    host = tcp.split("//")[-1].rsplit(":", 1)[0].strip("[]")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, socket.SOCK_DGRAM) as s:
            s.connect(address)
            return str(s.getsockname()[0])
    except OSError as error:
        raise SystemFailure(f"cannot find this host's address, because the scheduler's host {host} cannot be resolved: "
                            f"{error}; set DMLC_NODE_HOST") from error


def init_process_group(client: Client, backend: str = "gloo") -> None:
    """Calls torch.distributed.init_process_group for the workers of a cluster, with their ranks, for
    DistributedDataParallel. The worker of rank 0 passes its address to the others through a table, so all workers must
    call this at the same point in the order in which they make tables."""
    rank, workers = instance(client, Client, "client").rank, client.workers
    table = client.table("torch_process_group", dim=ADDRESS_MAX + 1, rule="assign")
    store = None
    if rank == 0:
        host = _own_host()
        store = torch.distributed.TCPStore(host, 0, workers, True, wait_for_workers=False)
        said = f"{host} {store.port}".encode()
        row = np.zeros((1, ADDRESS_MAX + 1), np.float32)
        row[0, :len(said)] = np.frombuffer(said, np.uint8)
        table.assign([0], row)
    client.barrier()
    if store is None:
        said = bytes(table.pull([0])[0].astype(np.uint8)).rstrip(b"\0")
        if not said:
            raise SystemFailure("the worker of rank 0 has left before it gave its address for torch.distributed")
        host, port = said.decode("ascii").split()
        store = torch.distributed.TCPStore(host, int(port), workers, False)
    client.barrier()
    if rank == 0:
        table.drop()
    else:
        client._forget(table.number)
    torch.distributed.init_process_group(backend, store=store, rank=rank, world_size=workers)
