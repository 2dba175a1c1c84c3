"""The base classes of the estimators of tug.sklearn. They check data as scikit-learn does, train the models, and turn
scores into classes, probabilities or numbers.

SPDX-License-Identifier: Apache-2.0
"""

import os
from typing import Any, Dict, List, Optional, Sequence, Tuple, Type

import numpy as np
import numpy.typing as npt

from tug._columns import Columns, KnownValues
from tug._errors import UsageError, warn_of
from tug._examples import Rows
from tug._model import Model
from tug._options import meant, option_names

try:
    from scipy.sparse import csr_matrix, identity, vstack
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils import check_array, check_consistent_length, check_random_state, column_or_1d
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, check_is_fitted
except ImportError as error:
    raise ImportError("tug.sklearn needs scikit-learn, which is not installed: install Debian's python3-sklearn, or "
                      f"'pip install scikit-learn' ({error})") from error

Float64 = npt.NDArray[np.float64]
Targets = Sequence[npt.NDArray[np.float32]]
# parameters that tug.train does not take as options
_OWN = {"categorical", "fields", "n_jobs", "options", "random_state", "verbose"}
_FOLLOW = {"threads", "seed", "loss", "model", "format"}  # options that an estimator derives from its parameters


def _probability(scores: Float64) -> Float64:
    """Returns the logistic function of scores, without overflow for large ones."""
    small = np.exp(-np.abs(scores))
    return np.asarray(np.where(scores >= 0, 1, small) / (1 + small))


def _names_of(X: Any) -> Optional[npt.NDArray[Any]]:
    """Returns the names of a data frame's columns if all of them are texts; else None."""
    columns = list(getattr(X, "columns", []))
    return np.array(columns, object) if columns and all(isinstance(c, str) for c in columns) else None


def _plain(X: Any) -> Any:
    """Converts a pandas frame with a type that numpy lacks (Int64, string, times) to objects, with NaN for missing
    values. Returns other data as it is. Without this, scikit-learn would convert all columns of such a frame to
    numbers."""
    if not hasattr(X, "iloc") or not hasattr(X, "columns"):
        return X
    if all((isinstance(d, np.dtype) and d.kind not in "mM") or hasattr(d, "categories") for d in X.dtypes.tolist()):
        return X
    return X.astype(object).where(X.notna(), np.nan)


def _ordered(rows: Rows, targets: Targets, weight: Any) -> Tuple[Rows, Targets, Any]:
    """Sorts the examples by a hash of their contents, so that training on the same examples in another order gives the
    same model."""
    values = np.ones(len(rows.keys), np.float32) if rows.values is None else rows.values
    sums = np.zeros(len(rows.keys) + 1, np.uint64)
    np.cumsum(_mixed(_mixed(rows.keys) ^ values.view(np.uint32)), out=sums[1:])
    hashes = sums[rows.offsets[1:]] - sums[rows.offsets[:-1]]
    for beside in (*targets, np.ones(len(rows)) if weight is None else weight):  # without weights each example weighs 1
        hashes = _mixed(hashes ^ np.ascontiguousarray(beside, np.float32).view(np.uint32))
    order = np.argsort(_mixed(hashes), kind="stable")
    lengths = (rows.offsets[1:] - rows.offsets[:-1])[order]
    offsets = np.zeros(len(order) + 1, np.uint64)
    np.cumsum(lengths, out=offsets[1:])
    moves = np.repeat(rows.offsets[:-1][order] - offsets[:-1], lengths.astype(np.int64))
    at = moves + np.arange(int(offsets[-1]), dtype=np.uint64)
    moved = Rows(offsets, rows.keys[at], values[at], None if rows.fields is None else rows.fields[at])
    return moved, [target[order] for target in targets], None if weight is None else weight[order]


def _mixed(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Maps each word to another one, bijectively, so that each bit of the result depends on all bits of the word (the
    finalizer of splitmix64)."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
    return x ^ (x >> np.uint64(31))


class Estimator(BaseEstimator):
    """The base of classifiers and regressors: it checks their data, and trains and keeps their models."""

    _loss = "logistic"
    _by_field = False
    n_jobs: Optional[int]
    random_state: Any
    options: Optional[Dict[str, Any]]
    verbose: bool
    models_: List[Model]
    _known_values: KnownValues

    def _more_tags(self) -> Dict[str, Any]:
        return {"requires_y": True}

    def __new__(cls, *args: Any, **given: Any) -> Any:
        cls._check_names(given, TypeError)
        return super().__new__(cls)

    @classmethod
    def _check_names(cls, given: Dict[str, Any], kind: Type[Exception]) -> None:
        """Raises `kind` for a name that is not a parameter; the message has the parameter or option that was perhaps
        meant."""
        known = cls._get_param_names()
        for name in given:
            if name.split("__")[0] not in known:
                raise kind(f"{cls.__name__}: there is no parameter '{name}'; {cls._meant(name, known)}")

    @classmethod
    def _meant(cls, name: str, known: Sequence[str]) -> str:
        option = name if name in option_names() else meant(name)
        if option in known:
            return f"did you mean '{option}'?"
        if option == "valid":
            return "fit(X, y, eval_set=(X_held, y_held)) validates"
        if option is not None and option not in _FOLLOW:
            return f"options={{'{option}': ...}} sets that option"
        return f"its parameters are {', '.join(known)}"

    def set_params(self: Any, **params: Any) -> Any:
        """Sets parameters of the constructor by name, and returns self. Raises ValueError for an unknown name."""
        self._check_names(params, ValueError)
        return super().set_params(**params)

    def _refuse(self, others: Dict[str, Any]) -> None:
        """Raises TypeError for arguments that `fit` does not take, such as those of other libraries."""
        known = self._get_param_names()
        for name in others:
            raise TypeError(f"fit: there is no argument '{name}'; " + (
                f"it is a parameter: {type(self).__name__}({name}=...)" if name in known else self._meant(name, known)))

    def _check_weight(self, X: Any, weight: Any) -> Any:
        if weight is None:
            return None
        weight = _check_sample_weight(weight, X, dtype=np.float32)
        if np.any(weight < 0):
            raise ValueError(f"sample_weight: has negative weights, the first in row {int(np.argmax(weight < 0))}")
        if not np.any(weight > 0):
            raise ValueError("sample_weight: all weights are 0")
        return weight

    def _kind(self) -> str:
        raise NotImplementedError

    def _threads(self) -> int:
        """Returns the number of threads for n_jobs, as scikit-learn counts: None is one, -1 is one per core, -2 is one
        fewer."""
        if self.n_jobs is None:
            return 1
        if not isinstance(self.n_jobs, (int, np.integer)) or self.n_jobs == 0:
            raise UsageError(f"n_jobs: {self.n_jobs!r} is not a number of threads: None is 1, -1 is one per core")
        return int(self.n_jobs) if self.n_jobs > 0 else max(1, len(os.sched_getaffinity(0)) + 1 + int(self.n_jobs))

    def _settings(self) -> Dict[str, Any]:
        """Returns the options of tug.train that the parameters and `options` give."""
        given = self.get_params(deep=False)
        further = dict(self.options or {})
        for name in further:
            if name in given or name in _FOLLOW:
                raise UsageError(f"options: '{name}' is set by the parameters of {type(self).__name__}")
        settings = {name: value for name, value in given.items() if name not in _OWN}
        quiet: Dict[str, Any] = {} if self.verbose else {"progress": False, "log_level": "error"}
        return {**quiet, **settings, **further, "model": self._kind(), "loss": self._loss,
                "threads": self._threads(), "alone": True}

    def _columns(self) -> Columns:
        names = getattr(self, "feature_names_in_", None)
        return Columns(self.n_features_in_, getattr(self, "categorical", None), getattr(self, "fields", None),
                       self._by_field, None if names is None else list(names))

    def _checked(self, X: Any, first: bool) -> Any:
        """Returns X as a checked matrix. With `first` (in fit) it stores the number and names of the columns; later
        matrices have to match these."""
        names, name = _names_of(X), type(self).__name__
        categorical = getattr(self, "categorical", None) is not None
        try:
            X = check_array(_plain(X) if categorical else X, accept_sparse="csr",
                            dtype=None if categorical else np.float32, estimator=name)
        except ValueError as error:
            if "could not convert string to float" in str(error):
                raise ValueError(f"X: has texts, as {str(error).partition(': ')[2]}: name their columns in "
                                 "categorical, which is 'all' or a list") from None
            raise
        except TypeError as error:
            if "Cannot cast" in str(error) or "promoted" in str(error):  # words of pandas and numpy for dates
                raise ValueError("X: has columns that are not numbers, such as dates: name them in categorical, which "
                                 "is 'all' or a list") from None
            raise
        if first:
            self.n_features_in_ = X.shape[1]
            if names is not None:
                self.feature_names_in_ = names
            elif hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            return X
        known = getattr(self, "feature_names_in_", None)
        if known is not None and names is not None and not np.array_equal(known, names):
            raise ValueError("The feature names should match those that were passed during fit, in their order: "
                             f"{list(names)} are not {list(known)}")
        if (known is None) != (names is None):
            warn_of(f"X does not have valid feature names, but {name} was fitted with feature names"
                    if names is None else f"X has feature names, but {name} was fitted without feature names")
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} features, but {name} is expecting {self.n_features_in_} features "
                             "as input")
        return X

    def _checked_both(self, X: Any, y: Any, first: bool) -> Any:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        X = self._checked(X, first)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        return X, y

    def _new_models(self, n: int, **changed: Any) -> List[Model]:
        self._seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        settings: Dict[str, Any] = {**self._settings(), "seed": self._seed, **changed}
        return [Model(**settings) for _ in range(n)]

    def _weighted(self, X: Any, targets: Targets, weight: Any) -> Tuple[Any, Targets, Any]:
        """Returns the data without examples of weight 0, so that these change the model as little as leaving them out
        does."""
        if weight is None:
            return X, targets, None
        weight = self._check_weight(X, weight)
        keep = weight > 0
        return (X, targets, weight) if keep.all() else (X[keep], [t[keep] for t in targets], weight[keep])

    def _examples(self, X: Any, targets: Targets, weight: Any) -> Tuple[Rows, Targets, Any]:
        """Returns the training data in the order of _ordered, and adds its categories to those that are known."""
        X, targets, weight = self._weighted(X, targets, weight)
        return _ordered(self._columns().rows(X, learn=self._known_values), targets, weight)

    def _held(self, eval_set: Any) -> Any:
        """Returns the (X, y) of eval_set after the checks, or None if eval_set is None or empty."""
        if isinstance(eval_set, list):
            if len(eval_set) > 1:
                raise UsageError(f"eval_set: has {len(eval_set)} pairs, but one set of data decides when training "
                                 "stops: give one (X, y), and evaluate the others afterwards")
            eval_set = eval_set[0] if eval_set else None
        if eval_set is None:
            return None
        if not isinstance(eval_set, tuple) or len(eval_set) != 2:
            raise UsageError("eval_set: must be (X, y), or a list of one such pair")
        return self._checked_both(eval_set[0], eval_set[1], False)

    def _fit(self, X: Any, targets: Targets, weight: Any, held: Any = None, held_targets: Targets = ()) -> None:
        self._known_values = KnownValues()
        rows, targets, weight = self._examples(X, targets, weight)
        held_rows = None if held is None else self._columns().rows(held[0], known=self._known_values)
        models = self._new_models(len(targets))
        for i, (model, target) in enumerate(zip(models, targets)):
            valid = None if held is None else (held_rows, held_targets[i])
            model.train(rows, target, weight=weight, valid=valid)
            if valid is None and not self.verbose:
                self._warn_of_guess(model, target, weight)
        self.models_ = models
        self.n_iter_ = int(models[0].results["epochs"])

    def _warn_of_guess(self, model: Model, target: Any, weight: Any) -> None:
        """Warns of a model that is not better than the mean of y. The library has a warning of its own, which only
        verbose=True shows."""
        loss, y = model.results["train.logloss"], np.asarray(target, np.float64)
        mean = float(np.average(y, weights=weight))
        if self._loss == "squared":
            base = float(np.average((y - mean) ** 2, weights=weight)) / 2
            # the loss of predicting 0, as an untrained model does
            first = float(np.average(y ** 2, weights=weight)) / 2
        else:
            base = 0.0 if mean in (0, 1) else float(-mean * np.log(mean) - (1 - mean) * np.log(1 - mean))
            first = float(np.log(2))
        if base > 0 and loss > base * (1.01 if model.results["epochs"] > 1 else 1.2):
            warn_of(f"{type(self).__name__}: the loss on the training data is {loss:.5g}, but predicting "
                    f"the mean of y for every example has the loss {base:.5g}: " + (
                        "the model is still near its initial weights; use more epochs, a larger lr, or a y near 0 "
                        "(TransformedTargetRegressor)" if loss <= first else
                        "use a smaller lr, or columns near 1 (StandardScaler)"), ConvergenceWarning)

    def _partial_fit(self, X: Any, targets: Targets, weight: Any) -> None:
        if not hasattr(self, "models_"):
            self._known_values = KnownValues()
        rows, targets, weight = self._examples(X, targets, weight)
        if not hasattr(self, "models_"):
            models = self._new_models(len(targets), epochs=1)
        elif getattr(self, "_one_pass", None) is self.models_:
            models = self.models_
        else:  # models of fit() make several passes for each call of train()
            settings: Dict[str, Any] = {**self._settings(), "seed": self._seed, "epochs": 1}
            models = [model.with_options(**settings) for model in self.models_]
        for model, target in zip(models, targets):
            model.train(rows, target, weight=weight)
        self.models_ = self._one_pass = models
        self.n_iter_ = int(models[0].results["epochs"])

    def _scores(self, X: Any) -> Float64:
        """Returns the raw scores of the models, float64 of (examples, models)."""
        check_is_fitted(self)
        rows = self._columns().rows(self._checked(X, False), known=self._known_values)
        found = [model.predict(rows, raw=True, threads=self._threads()) for model in self.models_]
        return np.stack(found, axis=1).astype(np.float64)


class Classifier(ClassifierMixin):
    """The part that classifiers share: one model for two classes; for more classes, one model for each class against
    the others."""

    classes_: npt.NDArray[Any]

    def _targets(self, y: npt.NDArray[Any]) -> List[npt.NDArray[np.float32]]:
        ones = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        return [(y == one).astype(np.float32) for one in ones]

    def fit(self: Any, X: Any, y: Any, sample_weight: Optional[npt.ArrayLike] = None, *, eval_set: Any = None,
            **others: Any) -> Any:
        """Trains on X, a numpy matrix, a sparse one of scipy or a data frame, and y, the class of each row. Returns
        self. sample_weight: a factor for each row's loss. eval_set: validation data (X, y), which decides which pass's
        model is kept and when training stops (options={"patience": N})."""
        self._refuse(others)
        X, y = self._checked_both(X, y, True)
        check_classification_targets(y)
        classes = np.unique(y)
        if len(classes) < 2:
            raise ValueError(f"{type(self).__name__} needs at least two classes, but y has only one class: "
                             f"{classes[0]!r}")
        self.classes_ = classes
        held = self._held(eval_set)
        if held is not None:
            strange = np.setdiff1d(held[1], classes)
            if len(strange) > 0:
                raise ValueError(f"eval_set: has the class {strange[0]!r}, which is not in y")
        self._fit(X, self._targets(y), sample_weight, held, self._targets(held[1]) if held is not None else ())
        return self

    def partial_fit(self: Any, X: Any, y: Any, classes: Optional[npt.ArrayLike] = None,
                    sample_weight: Optional[npt.ArrayLike] = None) -> Any:
        """Makes one more pass over these examples, from the models' present weights, and returns self. classes: all
        classes that later calls may have; needed at the first call."""
        first = not hasattr(self, "models_")
        X, y = self._checked_both(X, y, first)
        check_classification_targets(y)
        if first and classes is None:
            raise ValueError("classes: must be given at the first call of partial_fit")
        known = self.classes_ if classes is None else np.unique(np.asarray(classes))
        if not first and not np.array_equal(known, self.classes_):
            raise ValueError(f"classes: are {known}, but were {self.classes_} at the first call of partial_fit")
        if len(known) < 2:
            raise ValueError("classes: must be at least two")
        strange = np.setdiff1d(y, known)
        if len(strange) > 0:
            raise ValueError(f"y: has the class {strange[0]!r}, which is not among the classes {known}")
        self.classes_ = known
        self._partial_fit(X, self._targets(y), sample_weight)
        return self

    def decision_function(self: Any, X: Any) -> Float64:
        """Returns scores as float64. For two classes the shape is (n,), and a score above 0 means the second class; for
        more classes the shape is (n, classes)."""
        scores = self._scores(X)
        return np.asarray(scores[:, 0] if len(self.classes_) == 2 else scores)

    def predict_proba(self: Any, X: Any) -> Float64:
        """Returns probabilities, float64 of (n, classes): a column for each of classes_."""
        found = _probability(self._scores(X))
        if len(self.classes_) == 2:
            return np.hstack([1 - found, found])
        total = found.sum(axis=1, keepdims=True)
        return np.asarray(np.where(total > 0, found / np.where(total > 0, total, 1), 1 / len(self.classes_)))

    def predict_log_proba(self, X: Any) -> Float64:
        """Returns the logarithm of predict_proba(X)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def score(self: Any, X: Any, y: Any, sample_weight: Optional[npt.ArrayLike] = None) -> float:
        """Returns the accuracy: the share of examples whose class is predicted right, weighted by `sample_weight`."""
        return float(super().score(X, y, self._check_weight(X, sample_weight)))

    def predict(self: Any, X: Any) -> npt.NDArray[Any]:
        """Returns the likeliest class of each example."""
        scores = self._scores(X)
        which = (scores[:, 0] > 0).astype(int) if len(self.classes_) == 2 else scores.argmax(axis=1)
        return np.asarray(self.classes_[which])


class Regressor(RegressorMixin):
    """The part that regressors share: one model, trained for the squared loss."""

    _loss = "squared"

    def _numbers(self: Any, y: Any) -> npt.NDArray[np.float32]:
        with np.errstate(over="ignore"):
            return np.asarray(check_array(y, ensure_2d=False, dtype=np.float32, estimator=type(self).__name__))

    def fit(self: Any, X: Any, y: Any, sample_weight: Optional[npt.ArrayLike] = None, *, eval_set: Any = None,
            **others: Any) -> Any:
        """Trains on X, a numpy matrix, a sparse one of scipy or a data frame, and y, a number for each row. Returns
        self. sample_weight: a factor for each row's loss. eval_set: validation data (X, y), which decides which pass's
        model is kept and when training stops (options={"patience": N})."""
        self._refuse(others)
        X, y = self._checked_both(X, y, True)
        held = self._held(eval_set)
        self._fit(X, [self._numbers(y)], sample_weight, held, [self._numbers(held[1])] if held is not None else ())
        return self

    def partial_fit(self: Any, X: Any, y: Any, sample_weight: Optional[npt.ArrayLike] = None) -> Any:
        """Makes one more pass over these examples, from the model's present weights, and returns self."""
        X, y = self._checked_both(X, y, not hasattr(self, "models_"))
        self._partial_fit(X, [self._numbers(y)], sample_weight)
        return self

    def score(self: Any, X: Any, y: Any, sample_weight: Optional[npt.ArrayLike] = None) -> float:
        """Returns R^2 of the predictions, weighted by `sample_weight`."""
        return float(super().score(X, y, self._check_weight(X, sample_weight)))

    def predict(self: Any, X: Any) -> Float64:
        """Returns the predicted number for each example, float64 of (n,)."""
        return np.asarray(self._scores(X)[:, 0])


def each_column(n: int) -> Any:
    """Returns a sparse matrix of n + 1 rows: row j < n has a 1 in column j only, the last row is empty."""
    return vstack([identity(n, np.float32, "csr"), csr_matrix((1, n), dtype=np.float32)], "csr")


def spread_of(X: Any) -> Float64:
    """Returns the standard deviation of each column."""
    return np.asarray(StandardScaler(with_mean=False).fit(X).var_ ** 0.5)
