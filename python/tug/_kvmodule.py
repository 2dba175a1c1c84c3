"""Replaces Module.init_optimizer, with which MXNet's Module made its store.

SPDX-License-Identifier: Apache-2.0
"""

from typing import Any, Dict, Iterable, Optional, Tuple, Union

from tug import optimizer as optimizers
from tug._errors import ArgumentTypeError, UsageError, warn_of
from tug._kvbase import KVStoreBase
from tug._kvstore import create

Params = Union[Dict[str, Any], Iterable[Tuple[str, Any]]]


def _optimizer(given: Any, numbers: Any, rescale: float, formula: str, names: Dict[int, str]) -> optimizers.Optimizer:
    if isinstance(given, str):
        return optimizers.create(given, **{"rescale_grad": rescale, "param_idx2name": names, **dict(numbers)})
    if not isinstance(given, optimizers.Optimizer):
        raise ArgumentTypeError("optimizer: must be a name or the result of optimizer.create(), not "
                                f"{type(given).__name__}")
    if given.rescale_grad != rescale:
        warn_of(f"the optimizer has rescale_grad={given.rescale_grad:g}, but {formula} is {rescale:g}")
    return given


def init_optimizer(kvstore: Any = "local", optimizer: Any = "sgd",
                   optimizer_params: Params = (("learning_rate", 0.01),), force_init: bool = False, *,
                   params: Optional[Params] = None, batch_size: int = 1,
                   compression_params: Optional[Dict[str, Any]] = None) -> Any:
    """Makes a store with its optimizer and keys, as mxnet.module.Module did, and returns the store. params: the arrays
    by name; they are set to worker 0's values. batch_size: the batch size of one worker. The optimizer's rescale_grad
    is 1 / (batch_size x workers), for dist_async 1 / batch_size, unless optimizer_params have it."""
    if kvstore is None:
        raise UsageError("kvstore=None is not supported: for an optimizer without a store use "
                         "optimizer.get_updater(optimizer)")
    if params is None:
        raise UsageError("params is missing: give the arrays by name (MXNet's Module took them from its symbol)")
    if batch_size <= 0:
        raise UsageError(f"batch_size must be above 0, not {batch_size}")
    arrays = dict(params)
    store: Any = kvstore if isinstance(kvstore, KVStoreBase) else create(kvstore)
    one_by_one = "dist" not in store.type and "p3" not in store.type or "async" in store.type
    rescale = 1.0 / (batch_size * (1 if one_by_one else store.num_workers))
    formula = "1 / batch_size" if one_by_one else "1 / (batch_size x workers)"
    made = _optimizer(optimizer, optimizer_params, rescale, formula, dict(enumerate(arrays)))
    if compression_params:
        store.set_gradient_compression(compression_params)
    store.set_optimizer(made)
    for name, array in arrays.items():
        store.broadcast(name, array, out=array)
    return store
