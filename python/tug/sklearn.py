"""scikit-learn's estimators over tug's models: LR, FM, FFM and models with layers, as classifiers and regressors.

    from tug.sklearn import FMClassifier
    FMClassifier(dim=8, epochs=5, random_state=0).fit(X, y).predict_proba(X)

Parameters have the names of `tug train`'s options; None is its default, and `options` is a dictionary of further
ones. categorical: columns of X that are categories, "all", or a list of numbers or names, or a mask. n_jobs: threads,
None is one, -1 one per core; random_state: as scikit-learn has it; verbose: passes and warnings are printed.

X is a numpy matrix, a sparse one of scipy or a data frame, of shape (examples, columns). A fitted estimator has
tug.Models in models_ (of more than two classes one for each, against the rest), n_features_in_, n_iter_, classes_ of
classifiers, and is copied and pickled with them. Errors are scikit-learn's, or of tug.Error, and then ValueErrors or
TypeErrors, too. docs/sklearn.md has it all.

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
        """epochs: passes over the data. optimizer, lr: the update rule, and its rate. l1, l2: penalties at each update;
        prior: an L2 penalty once a pass. deterministic: the same bits for any number of threads."""
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
    """Additions of a linear model: its weights by columns."""

    _spread: Float64  # of each column in fit's data: the standard deviation

    def _fit(self, X: Any, targets: Targets, weight: Any, held: Any = None, held_targets: Targets = ()) -> None:
        super()._fit(X, targets, weight, held, held_targets)
        if self.categorical is None:
            self._spread = spread_of(X)

    def _weights(self) -> Float64:
        """A line for each model: the weights of the columns, and last the bias."""
        if not hasattr(self, "models_"):
            raise AttributeError(f"coef_: this {type(self).__name__} is not fitted yet")
        if self.categorical is not None:
            raise AttributeError("coef_: a column of `categorical` has a weight for each of its values, and not one; "
                                 "sklearn.inspection.permutation_importance says what columns are worth")
        n = self.n_features_in_
        rows = self._columns().rows(each_column(n))
        scores = np.stack([m.predict(rows, raw=True) for m in self.models_]).astype(np.float64)
        return np.hstack([scores[:, :n] - scores[:, n:], scores[:, n:]])

    @property
    def feature_importances_(self) -> Float64:
        """How much each column moves the score in fit's data: its weight (of several models the mean) times its
        standard deviation, without signs; the sum is 1."""
        weights = np.abs(self._weights()[:, :-1]).mean(axis=0)
        if not hasattr(self, "_spread"):
            raise AttributeError("feature_importances_: is of fit, and this estimator has learnt by partial_fit only; "
                                 "use sklearn.inspection.permutation_importance")
        moved = weights * self._spread
        return np.asarray(moved / moved.sum() if moved.sum() > 0 else moved)


class _Pairs(_LR):
    """Additions of a model with interactions, which has no weights of single columns."""

    def __getattr__(self, name: str) -> Any:
        if name in ("coef_", "feature_importances_", "intercept_"):
            raise AttributeError(f"{name}: is of linear models; columns of {type(self).__name__} count by pairs or "
                                 "layers, too, and sklearn.inspection.permutation_importance says what each is worth")
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


class _FM(_Pairs):
    def __init__(self, *, dim: Optional[int] = None, epochs: int = 10, optimizer: Optional[str] = None,
                 lr: Optional[float] = None, latent_lr: Optional[float] = None, l1: Optional[float] = None,
                 l2: Optional[float] = None, prior: Optional[float] = None, init: Optional[float] = None,
                 normalize: bool = True, categorical: Any = None, deterministic: bool = False,
                 n_jobs: Optional[int] = None, random_state: Any = None, verbose: bool = False,
                 options: Optional[Dict[str, Any]] = None) -> None:
        """dim: length of the features' vectors. latent_lr: their rate. init: they begin in (-init, init). normalize:
        for pairs each example is scaled to unit length. Other arguments as for linear models."""
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
        """fields: numbers from 0 to 65535, one for each column of X. Other arguments as for factorization machines."""
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
        """model: "deepfm", "wide_deep", "dcn" or "mlp". dim: length of the features' vectors; latent_lr: their rate.
        hidden: units of each layer; cross: layers of products, of dcn; dropout: the share of units that an example is
        trained without; batch_norm; dense_optimizer, dense_lr: the rule of the layers. fields: numbers from 0 to 65535,
        one for each column of X. Other arguments as for linear models."""
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
        """The weight of each column: (1, columns) of two classes, else (classes, columns)."""
        return np.asarray(self._weights()[:, :-1])

    @property
    def intercept_(self) -> Float64:
        """The bias, one for each line of coef_."""
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
    """Factorization machine (Rendle 2010): each feature has a vector of `dim` numbers, and pairs of features
    count by the products of theirs."""


class FMRegressor(Regressor, _FM):
    """Factorization machine for numbers."""


class FFMClassifier(Classifier, _FFM):
    """Field-aware factorization machine (Juan et al. 2016): a vector for each other field. `fields`: that of each
    column of X; None: each is one of its own."""


class FFMRegressor(Regressor, _FFM):
    """Field-aware factorization machine for numbers."""


class DeepClassifier(Classifier, _Deep):
    """Fully connected layers of `hidden` units on the fields' vectors: model="deepfm", "wide_deep", "dcn" or
    "mlp". `fields`: that of each column of X; None: each is one of its own."""


class DeepRegressor(Regressor, _Deep):
    """Models with layers for numbers."""
