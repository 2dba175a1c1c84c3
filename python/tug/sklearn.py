"""Estimators for scikit-learn that train tug's models: LR, FM, FFM and models with layers, as classifiers and
regressors.

    from tug.sklearn import FMClassifier
    FMClassifier(dim=8, epochs=5, random_state=0).fit(X, y).predict_proba(X)

Parameters have the names of options of `tug train`; None means the option's default. options: a dictionary of further
options of `tug train`. categorical: the columns of X that hold categories: "all", a list of column numbers or names, or
a mask. n_jobs: the number of threads; None is one, -1 is one per core. random_state: as in scikit-learn. verbose: print
a line for each pass, and warnings.

X is a numpy matrix, a sparse one of scipy or a data frame, of shape (examples, columns). A fitted estimator has its
tug.Models in models_ (one; for more than two classes, one for each class against the others), and n_features_in_,
n_iter_ and, for classifiers, classes_; copies and pickles include them. Errors are those of scikit-learn, or a
tug.Error that is also a ValueError or a TypeError. docs/sklearn.md is the manual.

SPDX-License-Identifier: Apache-2.0
"""

from typing import Any, Dict, Optional, Sequence, Union

import numpy as np

from tug._errors import UsageError
from tug._estimators import Classifier, Estimator, Float64, Regressor, Targets, each_column, spread_of

__all__ = ["DeepClassifier", "DeepRegressor", "FFMClassifier", "FFMRegressor", "FMClassifier", "FMRegressor",
           "LRClassifier", "LRRegressor"]

Hidden = Union[None, int, Sequence[int]]
_DEEP = ("deepfm", "wide_deep", "dcn", "mlp")


class _LR(Estimator):
    def __init__(self, *, epochs: int = 10, optimizer: Optional[str] = None, lr: Optional[float] = None,
                 l1: Optional[float] = None, l2: Optional[float] = None, prior: Optional[float] = None,
                 categorical: Any = None, deterministic: bool = False, n_jobs: Optional[int] = None,
                 random_state: Any = None, verbose: bool = False, options: Optional[Dict[str, Any]] = None) -> None:
        """epochs: the number of passes over the data. optimizer, lr: the update rule and its learning rate. l1, l2:
        penalties at each update. prior: an L2 penalty, applied once a pass. deterministic: results have the same bits
        for any number of threads."""
        self.epochs = epochs
        self.optimizer = optimizer
        self.lr = lr
        self.l1 = l1
        self.l2 = l2
        self.prior = prior
        self.categorical = categorical
        self.deterministic = deterministic
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.options = options

    def _kind(self) -> str:
        return "lr"


class _Linear(_LR):
    """The part that linear models share: the weight and the importance of each column."""

    _spread: Float64  # the standard deviation of each column in the data of fit()

    def _fit(self, X: Any, targets: Targets, weight: Any, held: Any = None, held_targets: Targets = ()) -> None:
        super()._fit(X, targets, weight, held, held_targets)
        if self.categorical is None:
            self._spread = spread_of(X)

    def _weights(self) -> Float64:
        """Returns a row for each model: the weights of the columns, then the bias."""
        if not hasattr(self, "models_"):
            raise AttributeError(f"coef_: this {type(self).__name__} is not fitted yet")
        if self.categorical is not None:
            raise AttributeError("coef_: a column of `categorical` has a weight for each of its values, not one; "
                                 "sklearn.inspection.permutation_importance measures the importance of columns")
        n = self.n_features_in_
        rows = self._columns().rows(each_column(n))
        scores = np.stack([m.predict(rows, raw=True) for m in self.models_]).astype(np.float64)
        return np.hstack([scores[:, :n] - scores[:, n:], scores[:, n:]])

    @property
    def feature_importances_(self) -> Float64:
        """How much each column moves the score in the data of fit(): its absolute weight (the mean over several models)
        times the column's standard deviation, scaled so that the sum is 1."""
        weights = np.abs(self._weights()[:, :-1]).mean(axis=0)
        if not hasattr(self, "_spread"):
            raise AttributeError("feature_importances_: needs fit(), and this estimator was trained with partial_fit() "
                                 "only; use sklearn.inspection.permutation_importance")
        moved = weights * self._spread
        return np.asarray(moved / moved.sum() if moved.sum() > 0 else moved)


class _Pairs(_LR):
    """The part that models with interactions share: they have no weight for a single column, and say so if asked for
    it."""

    def __getattr__(self, name: str) -> Any:
        if name in ("coef_", "feature_importances_", "intercept_"):
            raise AttributeError(f"{name}: only linear models have it, and {type(self).__name__} is not linear; "
                                 "sklearn.inspection.permutation_importance measures the importance of columns")
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


class _FM(_Pairs):
    def __init__(self, *, dim: Optional[int] = None, epochs: int = 10, optimizer: Optional[str] = None,
                 lr: Optional[float] = None, latent_lr: Optional[float] = None, l1: Optional[float] = None,
                 l2: Optional[float] = None, prior: Optional[float] = None, init: Optional[float] = None,
                 normalize: bool = True, categorical: Any = None, deterministic: bool = False,
                 n_jobs: Optional[int] = None, random_state: Any = None, verbose: bool = False,
                 options: Optional[Dict[str, Any]] = None) -> None:
        """dim: the length of the features' vectors. latent_lr: the learning rate of the vectors. init: vectors begin
        with random values in (-init, init). normalize: for the products of pairs, each example is scaled to unit
        length. The other arguments are those of LRClassifier."""
        super().__init__(epochs=epochs, optimizer=optimizer, lr=lr, l1=l1, l2=l2, prior=prior,
                         categorical=categorical, deterministic=deterministic, n_jobs=n_jobs,
                         random_state=random_state, verbose=verbose, options=options)
        self.dim = dim
        self.latent_lr = latent_lr
        self.init = init
        self.normalize = normalize

    def _kind(self) -> str:
        return "fm"


class _FFM(_FM):
    _by_field = True

    def __init__(self, *, dim: Optional[int] = None, epochs: int = 10, optimizer: Optional[str] = None,
                 lr: Optional[float] = None, latent_lr: Optional[float] = None, l1: Optional[float] = None,
                 l2: Optional[float] = None, prior: Optional[float] = None, init: Optional[float] = None,
                 normalize: bool = True, categorical: Any = None, fields: Any = None, deterministic: bool = False,
                 n_jobs: Optional[int] = None, random_state: Any = None, verbose: bool = False,
                 options: Optional[Dict[str, Any]] = None) -> None:
        """fields: the field of each column of X, a number from 0 to 65535; None: each column is a field of its own. The
        other arguments are those of FMClassifier."""
        super().__init__(dim=dim, epochs=epochs, optimizer=optimizer, lr=lr, latent_lr=latent_lr, l1=l1, l2=l2,
                         prior=prior, init=init, normalize=normalize, categorical=categorical,
                         deterministic=deterministic, n_jobs=n_jobs, random_state=random_state, verbose=verbose,
                         options=options)
        self.fields = fields

    def _kind(self) -> str:
        return "ffm"


class _Deep(_Pairs):
    _by_field = True

    def __init__(self, *, model: str = "deepfm", dim: Optional[int] = None, hidden: Hidden = None,
                 cross: Optional[int] = None, dropout: Optional[float] = None, batch_norm: bool = False,
                 epochs: int = 10, optimizer: Optional[str] = None, lr: Optional[float] = None,
                 latent_lr: Optional[float] = None, dense_optimizer: Optional[str] = None,
                 dense_lr: Optional[float] = None, l1: Optional[float] = None, l2: Optional[float] = None,
                 prior: Optional[float] = None, categorical: Any = None, fields: Any = None,
                 deterministic: bool = False, n_jobs: Optional[int] = None, random_state: Any = None,
                 verbose: bool = False, options: Optional[Dict[str, Any]] = None) -> None:
        """model: "deepfm", "wide_deep", "dcn" or "mlp". dim: the length of the features' vectors. latent_lr: the
        learning rate of the vectors. hidden: the number of units of each layer. cross: the number of cross layers of
        dcn. dropout: the share of units that is left out for each training example. batch_norm: normalize each layer's
        inputs over the batch. dense_optimizer, dense_lr: the update rule of the layers and its learning rate. fields:
        the field of each column of X, a number from 0 to 65535; None: each column is a field of its own. The other
        arguments are those of LRClassifier."""
        super().__init__(epochs=epochs, optimizer=optimizer, lr=lr, l1=l1, l2=l2, prior=prior,
                         categorical=categorical, deterministic=deterministic, n_jobs=n_jobs,
                         random_state=random_state, verbose=verbose, options=options)
        self.model = model
        self.dim = dim
        self.hidden = hidden
        self.cross = cross
        self.dropout = dropout
        self.batch_norm = batch_norm
        self.latent_lr = latent_lr
        self.dense_optimizer = dense_optimizer
        self.dense_lr = dense_lr
        self.fields = fields

    def _kind(self) -> str:
        if self.model not in _DEEP:
            raise UsageError(f"model: {self.model!r} is not one of {', '.join(_DEEP)}")
        return self.model


class LRClassifier(Classifier, _Linear):
    """Logistic regression."""

    @property
    def coef_(self) -> Float64:
        """The weight of each column. The shape is (1, columns) for two classes, else (classes, columns)."""
        return np.asarray(self._weights()[:, :-1])

    @property
    def intercept_(self) -> Float64:
        """The bias of each row of coef_."""
        return np.asarray(self._weights()[:, -1])


class LRRegressor(Regressor, _Linear):
    """Linear regression."""

    @property
    def coef_(self) -> Float64:
        """The weight of each column."""
        return np.asarray(self._weights()[0, :-1])

    @property
    def intercept_(self) -> float:
        """The bias."""
        return float(self._weights()[0, -1])


class FMClassifier(Classifier, _FM):
    """Factorization machine (Rendle 2010): each feature has a vector of `dim` numbers, and a pair of features adds the
    inner product of their vectors to the score."""


class FMRegressor(Regressor, _FM):
    """Factorization machine (Rendle 2010) that predicts numbers."""


class FFMClassifier(Classifier, _FFM):
    """Field-aware factorization machine (Juan et al. 2016): a feature has one vector for each field that it is paired
    with. fields: the field of each column of X; None: each column is a field of its own."""


class FFMRegressor(Regressor, _FFM):
    """Field-aware factorization machine (Juan et al. 2016) that predicts numbers."""


class DeepClassifier(Classifier, _Deep):
    """Models with fully connected layers of `hidden` units on the fields' vectors: model="deepfm", "wide_deep", "dcn"
    or "mlp". fields: the field of each column of X; None: each column is a field of its own."""


class DeepRegressor(Regressor, _Deep):
    """Models with fully connected layers that predict numbers; see DeepClassifier."""
