"""Paddle's options of a trainer, which Program._fleet_opt and strategy.trainer_desc_configs take.

SPDX-License-Identifier: Apache-2.0
"""

from typing import Any, Dict, Mapping, Optional, Sequence

from tug._errors import ArgumentTypeError, UsageError

_DUMPS = "values of a pass are dumped by `tug train --dump` and --dump-fields"
TRAINERS = ("MultiTrainer", "DistMultiTrainer")
WORKERS = ("Hogwild", "HogwildWorker", "DownpourSGD", "DownpourWorker", "DownpourLite", "DownpourLiteWorker")
_ONE = ("tug has one way of training, whatever its name: threads that read pieces of files and update rows; leave the "
        "option out, or use one of {0}")
# Options that must be empty or False, with the reason or a replacement.
_NOTHING: Dict[str, str] = {
    "dump_fields": _DUMPS, "dump_fields_path": _DUMPS, "dump_param": _DUMPS, "dump_converter": _DUMPS,
    "dump_slot": _DUMPS, "dump_file_num": _DUMPS, "user_define_dump_filename": _DUMPS, "dump_num_decimals": _DUMPS,
    "stat_var_names": "layers.auc and fetch_list measure a pass", "scale_datanorm": "models have no data_norm",
    "scale_sparse_gradient_with_batch_size": "must be True: the gradients of a feature are summed over the batch",
    "check_nan_var_names": "a pass whose weights are not finite ends with an error anyway",
    "loss_names": "a net has one loss", "copy_table": "use a save and a load to copy rows",
    "adjust_ins_weight": "use `tug train --weight-column` for weights of examples",
    "fetch_config": "fetch_list names the values to print", "is_dump_in_simple_mode": _DUMPS,
    "use_ps_gpu": "models train on CPUs",
    "local_sparse": "tug has no federated learning", "remote_sparse": "tug has no federated learning",
    "worker_class": "there is only one kind of worker", "no_cvm": "the params of net choose its layers",
    "fleet_desc": "the params of net determine its rows", "program_configs": "a program has one net"}

# Options with the values that are accepted because they describe what tug does anyway; None: any value is accepted.
_SO_HERE: Dict[str, Optional[Sequence[Any]]] = {"scale_sparse_gradient_with_batch_size": (True,),
                                                "scale_datanorm": (-1,), "mpi_rank": None, "mpi_size": None}


def _is_so(option: str, value: Any) -> bool:
    if option in _SO_HERE:
        allowed = _SO_HERE[option]
        return allowed is None or any(value == one for one in allowed)
    return not value


def check_name(name: str, given: Any, known: Sequence[str]) -> None:
    """Raises UsageError if `given` is neither None nor one of the known names. `name` is the option's name."""
    if given is not None and given not in known:
        raise UsageError(f"{name}: '{given}': {_ONE.format(', '.join(known))}")


def check_options(given: Any, name: str) -> Mapping[str, Any]:
    """Returns `given`, Paddle's options of a trainer. Raises UsageError for a value that does not describe what tug
    does."""
    if not isinstance(given, Mapping):
        raise ArgumentTypeError(f"{name}: must be a dict, not {type(given).__name__}")
    for option, value in given.items():
        if option == "trainer":
            check_name(f"{name}['trainer']", value, TRAINERS)
        elif option == "device_worker":
            check_name(f"{name}['device_worker']", value, WORKERS)
        elif option not in _NOTHING and option not in _SO_HERE:
            raise UsageError(f"{name}: there is no '{option}'; there are trainer, device_worker")
        elif not _is_so(option, value):
            raise UsageError(f"{name}['{option}']: {_NOTHING[option]}")
    return given


class Options(Dict[str, Any]):
    """A dictionary of options of a trainer, which checks each option when it is set."""

    def __init__(self, given: Mapping[str, Any], name: str) -> None:
        super().__init__(check_options(given, name))
        self._name = name

    def __setitem__(self, option: str, value: Any) -> None:
        check_options({option: value}, self._name)
        super().__setitem__(option, value)
