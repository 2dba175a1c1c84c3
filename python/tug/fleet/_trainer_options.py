"""Paddle's options of a trainer, as Program._fleet_opt and strategy.trainer_desc_configs have them.

SPDX-License-Identifier: Apache-2.0
"""

from typing import Any, Dict, Mapping, Optional, Sequence

from tug._errors import ArgumentTypeError, UsageError

_DUMPS = "values of a pass are dumped by `tug train --dump` and --dump-fields"
TRAINERS = ("MultiTrainer", "DistMultiTrainer")
WORKERS = ("Hogwild", "HogwildWorker", "DownpourSGD", "DownpourWorker", "DownpourLite", "DownpourLiteWorker")
_ONE = ("a pass is threads that take pieces of files and update rows, whatever it is called: leave it out, or name one "
        "of {0}")
# Paddle's options of a program, _fleet_opt, that can only be empty, and the reason.
_NOTHING: Dict[str, str] = {
    "dump_fields": _DUMPS, "dump_fields_path": _DUMPS, "dump_param": _DUMPS, "dump_converter": _DUMPS,
    "dump_slot": _DUMPS, "dump_file_num": _DUMPS, "user_define_dump_filename": _DUMPS, "dump_num_decimals": _DUMPS,
    "stat_var_names": "layers.auc and fetch_list measure a pass", "scale_datanorm": "models have no data_norm",
    "scale_sparse_gradient_with_batch_size": "can only be True: rows of features step by the batch's sum",
    "check_nan_var_names": "a pass whose weights are not finite ends with an error anyway",
    "loss_names": "a net has one loss", "copy_table": "rows are copied by a save and a load",
    "adjust_ins_weight": "weights of examples are `tug train --weight-column`",
    "fetch_config": "fetch_list says what is printed", "is_dump_in_simple_mode": _DUMPS, "use_ps_gpu": "CPUs train",
    "local_sparse": "there is no federated learning", "remote_sparse": "there is no federated learning",
    "worker_class": "there is one way of training", "no_cvm": "a net's layers are its own",
    "fleet_desc": "a net's params say what its rows are", "program_configs": "a program has one net"}

# Other options, and the values that are true here; None: any value.
_SO_HERE: Dict[str, Optional[Sequence[Any]]] = {"scale_sparse_gradient_with_batch_size": (True,),
                                                "scale_datanorm": (-1,), "mpi_rank": None, "mpi_size": None}


def _is_so(option: str, value: Any) -> bool:
    if option in _SO_HERE:
        allowed = _SO_HERE[option]
        return allowed is None or any(value == one for one in allowed)
    return not value


def check_name(name: str, given: Any, known: Sequence[str]) -> None:
    """UsageError where it is none of those."""
    if given is not None and given not in known:
        raise UsageError(f"{name}: '{given}': {_ONE.format(', '.join(known))}")


def check_options(given: Any, name: str) -> Mapping[str, Any]:
    """Paddle's options of a trainer: values that match what tug does are accepted; others are a UsageError."""
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
    """Such options: one that is set is checked."""

    def __init__(self, given: Mapping[str, Any], name: str) -> None:
        super().__init__(check_options(given, name))
        self._name = name

    def __setitem__(self, option: str, value: Any) -> None:
        check_options({option: value}, self._name)
        super().__setitem__(option, value)
