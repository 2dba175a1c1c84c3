"""What else Paddle's fleet has about rows: dense parameters as files, shrinks, and what is refused, with the reason.

SPDX-License-Identifier: Apache-2.0
"""

import os
from typing import TYPE_CHECKING, Any, Callable, NoReturn, Optional, Sequence, Union

import numpy as np

from tug._errors import DataError, UsageError

if TYPE_CHECKING:
    from tug._client import Client
    from tug.fleet._exchange import Exchange

DENSE = "dense"  # the table of a net's layers
FIRST_OWN = 5  # tables with smaller numbers are fleet's
DENSE_FILE = "dense.npy"
Path = Union[str, "os.PathLike[str]"]


def _refused(name: str, reason: str) -> Callable[..., NoReturn]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        del self, args, kwargs
        raise UsageError(f"fleet.{name}: {reason}")

    refuse.__name__ = name
    refuse.__doc__ = f"Refused: {reason}."
    return refuse


class Others:
    """What Fleet has beside the life of a run. It is a worker's, between init_worker and stop_worker."""

    if TYPE_CHECKING:  # what it uses of Fleet
        @property
        def client(self) -> "Client": ...

        @property
        def exchange(self) -> "Exchange": ...

        def is_first_worker(self) -> bool: ...

    def _first_does(self, what: str, work: Callable[[], Any]) -> Any:
        # All wait for worker 0; what it could not do is everybody's error, so that nobody waits in vain.
        failed: Optional[Exception] = None
        done: Any = None
        self.client.barrier()
        if self.is_first_worker():
            try:
                done = work()
            except Exception as error:  # noqa: B902
                failed = error
        said = self.exchange.gather([None if failed is None else str(failed), done])
        if failed is not None:
            raise failed
        if said[0][0] is not None:
            raise DataError(f"worker 0 could not {what}: {said[0][0]}")
        return said[0][1]

    def shrink(self, threshold: Optional[float] = None) -> int:
        """Decays shows and clicks of the program's own tables (fleet.client.table) and removes rows that have faded;
        how many. `threshold`: in place of the tables' own. All workers call it."""
        names = [name for number, name in sorted(self.client.table_names().items()) if number >= FIRST_OWN]
        if not names:
            raise UsageError("fleet.shrink: the rows of a net stay, and there are no tables of the program's own "
                             "(fleet.client.table(name, accessor='ctr', ...)) whose rows come and go")
        removed: int = self._first_does("shrink", lambda: sum(self.client.find(n).shrink(threshold) for n in names))
        return removed

    def save_dense_params(self, executor: Any, dirname: Path, scope: Any = None, program: Any = None,
                          var_names: Optional[Sequence[str]] = None) -> Optional[str]:
        """Worker 0 pulls the net's dense parameters and writes them as one numpy array, dirname/dense.npy, float32:
        row after row of the table "dense", in the order in which the model has them; where it is. Others return
        at once."""
        del executor, scope, program
        unknown = [name for name in var_names or () if name != DENSE]
        if unknown:
            raise UsageError(f"var_names: there is no {', '.join(unknown)}; a net's dense parameters are one array, "
                             f"'{DENSE}'")
        client = self.client
        if not self.is_first_worker():
            return None
        table = client.find(DENSE)
        values = np.asarray(table.pull(np.arange(table.stat().rows, dtype=np.uint64)), np.float32).reshape(-1)
        directory = os.path.abspath(os.fspath(dirname))
        os.makedirs(directory, exist_ok=True)
        path = os.path.join(directory, DENSE_FILE)
        with open(path + ".new", "wb") as file:  # complete, or not there
            np.save(file, values)
        os.replace(path + ".new", path)
        return path

    save_inference_model = _refused(
        "save_inference_model", "there is no program to be pruned: save_persistables writes the rows, and a program "
        "that builds the same net loads them (fluid.io.load_persistables) and infers")
    load_inference_model = _refused(
        "load_inference_model", "there is no pruned program to load: build the net, and load_model")
    save_cache_model = _refused(
        "save_cache_model", "there is no cache of a serving system to be warmed; client.save(mode='base') or 'delta' "
        "writes what is worth publishing of tables of the program's own")
    save_cache_table = _refused(
        "save_cache_table", "there is no cache table; rows that are rarely used lie on disk by the setting 'cold' of a "
        "table")
    set_date = _refused(
        "set_date", "days are not numbered from outside: Table.day() of a table of the program's own ends a day, "
        "and rows are unseen for one day more")
    init_coordinator = _refused("init_coordinator", "there is no federated learning")
    make_fl_strategy = _refused("make_fl_strategy", "there is no federated learning")
    get_fl_client = _refused("get_fl_client", "there is no federated learning")
