"""Estimators for scikit-learn pass all of its checks, and tests of what these checks leave out.

SPDX-License-Identifier: Apache-2.0
"""

import copy
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

import tug

pytest.importorskip("sklearn", reason="scikit-learn is not there: python3-sklearn")

import scipy.sparse
import sklearn.exceptions
from sklearn.base import clone
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import check_estimator

import tug.sklearn
from tug._estimators import _ordered
from tug._examples import rows_of
from tug.sklearn import (DeepClassifier, DeepRegressor, FFMClassifier, FFMRegressor, FMClassifier, FMRegressor,
                         LRClassifier, LRRegressor)

DEEP = [DeepClassifier(model=model, hidden=[16]) for model in ("deepfm", "wide_deep", "dcn", "mlp")]
CLASSIFIERS = [LRClassifier(), FMClassifier(), FFMClassifier(), *DEEP]
ALL = [*CLASSIFIERS[:4], LRRegressor(), FMRegressor(), FFMRegressor(), DeepRegressor(hidden=16)]
SEEDED = dict(random_state=7, epochs=3)


def name_of(estimator):
    return type(estimator).__name__ + "".join(f"-{estimator.model}" for _ in [0] if hasattr(estimator, "model"))


@pytest.fixture(scope="module")
def data():
    """Returns five columns of numbers, of which two matter only by their product, the score, and classes."""
    random = np.random.default_rng(1)
    X = np.where(random.random((700, 5)) < 0.7, random.normal(size=(700, 5)), 0)
    score = X @ [1, -2, 0.5, 0, 0] + 2 * X[:, 3] * X[:, 4]
    return X, score, np.where(score > 0, "yes", "no")


@pytest.fixture(scope="module")
def codes():
    """Returns two columns of categories, which matter only together, and the labels."""
    random = np.random.default_rng(2)
    X = np.stack([random.integers(0, 40, 4000), random.integers(100, 150, 4000)], axis=1)
    return X, (X[:, 0] % 4 == X[:, 1] % 4).astype(int)


@pytest.mark.parametrize("estimator", ALL, ids=name_of)
def test_check_estimator(estimator):
    """Every estimator passes all checks of scikit-learn, except those that it skips itself without pandas."""
    names, skipped = [], []
    for one, check in check_estimator(estimator, generate_only=True):
        names.append(getattr(check, "func", check).__name__)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                check(one)
            except Exception as error:
                if type(error).__name__ != "SkipTest":
                    raise AssertionError(f"{names[-1]}: {error}") from error
                skipped.append(str(error))
    assert len(names) >= 40 and "check_estimators_pickle" in names and "check_fit_idempotent" in names
    assert names.count("check_sample_weights_invariance") == 2  # once for weights of 1, once for weights of 0
    assert all("pandas" in reason for reason in skipped)


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=name_of)
def test_equal_seeds_equal_fits(estimator, data):
    X, _, y = data
    first = clone(estimator).set_params(**SEEDED).fit(X, y)
    assert np.array_equal(first.decision_function(X), clone(first).fit(X, y).decision_function(X))
    other = clone(first).set_params(random_state=8).fit(X, y)
    assert not np.array_equal(first.decision_function(X), other.decision_function(X))
    assert first.classes_.tolist() == ["no", "yes"] and set(first.predict(X)) == {"no", "yes"}
    assert np.array_equal(first.predict(X) == "yes", first.predict_proba(X)[:, 1] > 0.5)


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=name_of)
def test_matrices(estimator, data):
    """Matrices with the same examples (sparse, read-only, other types and strides) give the same model."""
    X, _, y = data
    X = X.astype(np.float32)
    wanted = clone(estimator).set_params(**SEEDED).fit(X, y).decision_function(X)
    frozen = X.copy()
    frozen.flags.writeable = False
    csr = scipy.sparse.csr_matrix(X)
    zeros = csr.copy()
    zeros.data[:] = 0
    for kind in (csr, csr.tocsc(), frozen, np.asfortranarray(X), X.astype(np.float64), X.tolist()):
        fitted = clone(estimator).set_params(**SEEDED).fit(kind, y)
        assert np.array_equal(fitted.decision_function(kind), wanted)
        assert np.array_equal(fitted.decision_function(csr + zeros), wanted)


@pytest.mark.parametrize("estimator", [*CLASSIFIERS, DeepClassifier(hidden=[70, 33], batch_norm=True)], ids=name_of)
def test_a_score_is_its_examples(estimator, data):
    """The score of an example does not depend on the other examples, their order or the number of threads."""
    X, _, y = data
    fitted = clone(estimator).set_params(**SEEDED).fit(X, y)
    wanted = fitted.decision_function(X)
    assert np.array_equal(wanted, np.concatenate([fitted.decision_function(x[None]) for x in X]))
    order = np.random.default_rng(3).permutation(len(X))
    fitted.set_params(n_jobs=3)
    assert np.array_equal(wanted[order], fitted.decision_function(X[order]))
    assert np.array_equal(wanted[5:300], fitted.decision_function(X[5:300]))


@pytest.mark.parametrize("estimator", [FMClassifier(), DeepRegressor(hidden=8)], ids=name_of)
def test_copies(estimator, data):
    X, score, _ = data
    fitted = clone(estimator).set_params(**SEEDED).fit(X, score > 0)
    wanted = fitted.predict(X)
    copies = [copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted)), pickle.loads(pickle.dumps(copy.copy(fitted)))]
    fitted.models_[0].close()
    for one in copies:
        assert np.array_equal(one.predict(X), wanted)
        assert np.array_equal(pickle.loads(pickle.dumps(one)).predict(X), wanted)
    copies[0].partial_fit(X, score > 0)
    assert np.array_equal(copies[1].predict(X), wanted)


def test_several_classes():
    random = np.random.default_rng(4)
    X = random.normal(size=(900, 3))
    y = X.argmax(axis=1) * 10
    fitted = FMClassifier(random_state=0).fit(X, y)
    probabilities = fitted.predict_proba(X)
    assert fitted.classes_.tolist() == [0, 10, 20] and len(fitted.models_) == 3
    assert np.allclose(probabilities.sum(axis=1), 1) and probabilities.shape == (900, 3)
    assert fitted.score(X, y) > 0.9
    assert np.allclose(np.exp(fitted.predict_log_proba(X)), probabilities)


def test_regression(data):
    X, score, _ = data
    # a linear model cannot learn the product of two columns
    assert LRRegressor(random_state=0).fit(X, score).score(X, score) < 0.9
    by_pairs = dict(epochs=40, normalize=False, prior=0)
    for estimator in (FMRegressor(**by_pairs), FFMRegressor(**by_pairs), DeepRegressor(epochs=40, hidden=[32, 32])):
        assert estimator.set_params(random_state=0).fit(X, score).score(X, score) > 0.95


def test_partial_fit_is_fit_in_parts(data):
    """Three calls of partial_fit equal a fit of three passes, and partial_fit continues after fit."""
    X, _, y = data
    whole = FMClassifier(epochs=3, random_state=1).fit(X, y)
    parts = FMClassifier(random_state=1)
    for _ in range(3):
        assert parts.partial_fit(X, y, classes=["no", "yes"]) is parts
    assert np.array_equal(parts.decision_function(X), whole.decision_function(X))
    assert parts.n_iter_ == whole.n_iter_ == 3
    longer = FMClassifier(epochs=2, random_state=1).fit(X, y).partial_fit(X, y)
    assert np.array_equal(longer.decision_function(X), whole.decision_function(X))
    assert np.array_equal(longer.fit(X, y).decision_function(X),
                          FMClassifier(epochs=2, random_state=1).fit(X, y).decision_function(X))
    with pytest.raises(ValueError, match="first call"):
        FMClassifier().partial_fit(X, y)
    with pytest.raises(ValueError, match="'maybe', which is not among"):
        parts.partial_fit(X[:1], ["maybe"])
    with pytest.raises(ValueError, match="at the first call"):
        parts.partial_fit(X, y, classes=["no", "yes", "maybe"])


def test_categories(codes):
    """A category is the same whatever the type of its code; equal codes of other columns, and unknown codes, differ."""
    X, y = codes
    settings = dict(categorical="all", random_state=0, epochs=15)
    fitted = FMClassifier(**settings).fit(X, y)
    wanted = fitted.decision_function(X)
    assert fitted.score(X, y) > 0.95 and LRClassifier(**settings).fit(X, y).score(X, y) < 0.8
    for kind in (X.astype(np.float64), X.astype(object), X.astype(np.int16)):
        assert np.array_equal(fitted.decision_function(kind), wanted)
    for other in (FFMClassifier(**settings), DeepClassifier(hidden=[32], **settings)):
        assert other.fit(X, y).score(X, y) > 0.95
    assert len(set(fitted.decision_function([[1000, 1001], [1001, 1000]]))) == 1
    texts = np.array([[f"user {u}", f"film {f}"] for u, f in X], object)
    assert FMClassifier(**settings).fit(texts, y).score(texts, y) > 0.95
    mixed = np.concatenate([texts, X[:, :1].astype(object) / 40], axis=1)
    assert FMClassifier(**{**settings, "categorical": [0, 1]}).fit(mixed, y).score(mixed, y) > 0.95
    for wrong, said in (("users", "'all' or a list"), (["user"], "no column 'user'"), ([2], "no column 2"),
                        ([True], "the mask has 1 values"), (3, "categorical: must be 'all'")):
        with pytest.raises((ValueError, TypeError), match=said):
            FMClassifier(categorical=wrong).fit(X, y)
    with pytest.raises(ValueError, match="sparse"):
        FMClassifier(categorical="all").fit(scipy.sparse.csr_matrix(X), y)
    with pytest.raises(ValueError, match="2\\^53"):
        FMClassifier(categorical="all").fit(X + 2 ** 60, y)


def test_fields(codes):
    """Several columns may share a field, as after one-hot encoding."""
    X, y = codes
    encoder = OneHotEncoder()
    hot = encoder.fit_transform(X)
    fields = np.repeat([0, 1], [len(c) for c in encoder.categories_])
    for estimator in (FFMClassifier(fields=fields), DeepClassifier(fields=fields, hidden=[32])):
        assert estimator.set_params(random_state=0, epochs=15).fit(hot, y).score(hot, y) > 0.95
    with pytest.raises(ValueError, match=f"fields: must be {hot.shape[1]} numbers"):
        FFMClassifier(fields=fields[1:]).fit(hot, y)
    with pytest.raises(ValueError, match="each would be a field of its own"):
        DeepClassifier().fit(scipy.sparse.random(20, 5000, 0.1, "csr"), y[:20])


def test_sample_weight(data):
    X, number, y = data
    weight = np.where(y == "yes", 5, 1)
    fitted = LRClassifier(**SEEDED).fit(X, y)
    more = clone(fitted).fit(X, y, sample_weight=weight)
    assert more.predict_proba(X)[:, 1].mean() > fitted.predict_proba(X)[:, 1].mean() + 0.1
    parts = clone(fitted).set_params(epochs=2)
    for _ in range(2):
        parts.partial_fit(X, y, classes=["no", "yes"], sample_weight=weight)
    whole = clone(parts).fit(X, y, sample_weight=weight)
    assert np.array_equal(parts.decision_function(X), whole.decision_function(X))
    for estimator in ALL:
        target = number if "Regressor" in type(estimator).__name__ else y
        ones, without = (clone(estimator).set_params(**SEEDED) for _ in range(2))
        wanted = clone(ones).fit(X, target).predict(X)
        assert np.array_equal(ones.fit(X, target, sample_weight=np.ones(len(X))).predict(X), wanted)
        wanted = without.fit(X[100:], target[100:]).predict(X)
        assert np.array_equal(ones.fit(X, target, sample_weight=np.arange(len(X)) >= 100).predict(X), wanted)
    # Weighted fits do not depend on the order of the examples, and equal a model of tug.train.
    order = np.random.default_rng(0).permutation(len(X))
    dealt = clone(parts).fit(X[order], y[order], sample_weight=weight[order])
    assert np.array_equal(dealt.decision_function(X), whole.decision_function(X))
    rows, (target,), sorted_weight = _ordered(rows_of(scipy.sparse.csr_matrix(X.astype(np.float32))),
                                              [(y == "yes").astype(np.float32)], weight)
    with tug.train(rows, target, weight=sorted_weight, seed=whole._seed, model="lr", epochs=2, threads=1,
                   progress=False) as model:
        assert np.array_equal(model.predict(X, raw=True).astype(float), whole.decision_function(X))
        metrics = model.evaluate(rows, target, weight=sorted_weight)
        assert abs(metrics["logloss"] - log_loss(target, model.predict(rows), sample_weight=sorted_weight)) < 1e-6
    high = FMRegressor(**SEEDED).fit(X, number, sample_weight=np.where(number > np.median(number), 9, 1))
    assert high.predict(X).mean() > FMRegressor(**SEEDED).fit(X, number).predict(X).mean()
    for wrong, why in ((-weight, "negative"), (0 * weight, "all weights are 0"), (weight[1:], "shape")):
        with pytest.raises(ValueError, match=why):
            clone(fitted).fit(X, y, sample_weight=wrong)


def test_pipelines_and_grids(codes):
    X, y = codes
    pipeline = make_pipeline(OneHotEncoder(handle_unknown="ignore"), FMClassifier(random_state=0, epochs=15))
    search = GridSearchCV(pipeline, {"fmclassifier__dim": [2, 8], "fmclassifier__lr": [0.001, 0.2]}, cv=3,
                          scoring="roc_auc", n_jobs=2).fit(X, y)
    assert search.best_params_["fmclassifier__lr"] == 0.2 and search.best_score_ > 0.95
    assert pickle.loads(pickle.dumps(search)).score(X, y) == search.score(X, y)


def test_options_and_errors(data):
    X, score, y = data
    fitted = LRClassifier(options={"valid": 0.2, "patience": 1}, epochs=50, random_state=0).fit(X, y)
    assert "valid.auc" in fitted.models_[0].results
    for estimator, said in ((LRClassifier(options={"epoch": 3}), "did you mean 'epochs'"),
                            (LRClassifier(options={"epochs": 3}), "'epochs' is set by the parameters"),
                            (LRClassifier(options={"seed": 3}), "'seed' is set by the parameters"),
                            (LRClassifier(lr=-1), "^lr: "), (LRClassifier(n_jobs=0), "n_jobs: 0"),
                            (DeepClassifier(model="fm"), "model: 'fm' is not one of")):
        with pytest.raises((ValueError, TypeError), match=said):
            estimator.fit(X, y)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        LRClassifier().predict(X)
    with pytest.raises(ValueError, match="only one class"):
        LRClassifier().fit(X, np.ones(len(X)))
    with pytest.raises(ValueError, match="5 features as input"):
        LRClassifier(epochs=1).fit(X, y).predict(X[:, :4])
    with pytest.raises(ValueError, match="infinity or a value too large"):
        LRClassifier().fit(np.full_like(X, 1e300), y)
    with pytest.raises(ValueError, match="inf"):
        LRRegressor().fit(X, score * 1e300)


def test_a_failed_fit_leaves_the_fitted_models(data):
    X, _, y = data
    fitted = FMClassifier(random_state=0, epochs=2).fit(X, y)
    wanted = fitted.predict_proba(X)
    with pytest.raises(ValueError):
        fitted.set_params(lr=-1).fit(X, y)
    assert np.array_equal(fitted.predict_proba(X), wanted)


def test_data_frames(codes):
    pandas = pytest.importorskip("pandas", reason="pandas is not there: python3-pandas")
    X, y = codes
    frame = pandas.DataFrame({"user": [f"u{u}" for u in X[:, 0]], "film": X[:, 1], "age": X[:, 0] / 40})
    fitted = FMClassifier(categorical=["film", "user"], random_state=0, epochs=15).fit(frame, y)
    assert fitted.feature_names_in_.tolist() == ["user", "film", "age"] and fitted.score(frame, y) > 0.95
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(frame[["film", "user", "age"]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        fitted.predict(frame.to_numpy())
    for other in ({"age": frame["age"]}, {"user": frame["user"].astype("category").cat.codes, "film": frame["film"]}):
        dates = pandas.DataFrame({**other, "day": pandas.to_datetime(["2020-01-01"] * len(y))})
        with pytest.raises(ValueError, match="^X: has columns that are not numbers, such as dates: name them in categ"):
            FMClassifier().fit(dates, y)
        assert FMClassifier(categorical=["day"], epochs=1).fit(dates, y).predict(dates).shape == y.shape


def test_weights_of_columns(data):
    X, score, y = data
    fitted = LRClassifier(random_state=0).fit(X, y)
    assert fitted.coef_.shape == (1, X.shape[1]) and fitted.intercept_.shape == (1,)
    assert np.allclose(X @ fitted.coef_[0] + fitted.intercept_, fitted.decision_function(X), atol=1e-4)
    worth = fitted.feature_importances_
    assert worth.shape == (X.shape[1],) and abs(worth.sum() - 1) < 1e-9
    assert worth.argmax() == (np.abs(fitted.coef_[0]) * X.std(axis=0)).argmax()
    number = LRRegressor(random_state=0).fit(scipy.sparse.csr_matrix(X), score)
    assert np.allclose(X @ number.coef_ + number.intercept_, number.predict(X), atol=1e-4)
    assert LRClassifier().fit(X, np.digitize(score, [-1, 1])).coef_.shape == (3, X.shape[1])
    assert not hasattr(LRClassifier(), "coef_") and not hasattr(FMClassifier().fit(X, y), "coef_")
    with pytest.raises(AttributeError, match="a weight for each of its values"):
        LRClassifier(categorical=[0]).fit(X, y).coef_
    with pytest.raises(AttributeError, match="permutation_importance"):
        LRClassifier().partial_fit(X, y, classes=["no", "yes"]).feature_importances_


def test_eval_set(data):
    X, score, y = data
    held = (X[:200], y[:200])
    one = FMClassifier(epochs=30, random_state=0, options={"patience": 1}).fit(X[200:], y[200:], eval_set=[held])
    assert one.n_iter_ <= 30 and "valid.auc" in one.models_[0].results
    other = FMClassifier(epochs=30, random_state=0, options={"patience": 1}).fit(X[200:], y[200:], eval_set=held)
    assert np.array_equal(one.predict_proba(X), other.predict_proba(X))
    LRRegressor(epochs=2).fit(X, score, eval_set=(X, score))
    for given, said in (([held, held], "one set of data"), ((X,), r"must be \(X, y\)"),
                        ((X, np.where(y == "no", "nay", y)), "not in y"), ((X[:, :2], y), "features as input")):
        with pytest.raises(ValueError, match=said):
            LRClassifier(epochs=1).fit(X, y, eval_set=given)


def test_nothing_is_left(data, tmp_path, monkeypatch):
    """Temporary files of models and their copies are in $TMPDIR, and are removed with the estimator."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    X, _, y = data
    fitted = FMClassifier(epochs=1).fit(X, y)
    other = copy.deepcopy(fitted)
    other.predict(X)
    assert len(list(tmp_path.iterdir())) >= 2
    del fitted, other
    assert list(tmp_path.iterdir()) == []


def test_without_scikit_learn():
    program = ("import sys; sys.modules['sklearn'] = None\n"
               "import tug\n"
               "try:\n    import tug.sklearn\n"
               "except ImportError as error:\n    print(error)\n")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("tug.sklearn needs scikit-learn") and done.stdout.count("\n") == 1, done
    done = subprocess.run([sys.executable, "-c", "import sys, tug; print('sklearn' in sys.modules)"],
                          capture_output=True, text=True, timeout=60)
    assert done.stdout == "False\n"


def test_names_of_others(data):
    """Names of parameters and arguments of other libraries are errors that name tug's counterpart."""
    X, _, y = data
    for call, kind, why in ((lambda: FMClassifier(n_estimators=3), TypeError, "'n_estimators'; did you mean 'epochs'"),
                            (lambda: LRRegressor(learning_rate=3), TypeError, "did you mean 'lr'"),
                            (lambda: LRClassifier(batch=3), TypeError, "options={'batch': ...} sets that option"),
                            (lambda: LRClassifier(strange=3), TypeError, "its parameters are categorical, determin"),
                            (lambda: LRClassifier().set_params(num_epochs=1), ValueError, "did you mean 'epochs'"),
                            (lambda: LRClassifier().fit(X, y, verbose=True), TypeError, r"LRClassifier\(verbose=...\)"),
                            (lambda: LRClassifier().fit(X, y, early_stopping_rounds=1), TypeError, "'patience': ..."),
                            (lambda: tug.Model(verbose=1), tug.ArgumentTypeError, "progress=False does not")):
        with pytest.raises(kind, match=why):
            call()
    for estimator in (FMClassifier(), DeepRegressor()):
        for name in ("feature_importances_", "coef_"):
            with pytest.raises(AttributeError, match=f"{name}: only linear models have it.*permutation_importance"):
                getattr(estimator, name)
    assert copy.deepcopy(FMClassifier(dim=3)).dim == 3 and not hasattr(FMClassifier(), "strange")


@pytest.mark.parametrize("kind", [LRClassifier, LRRegressor], ids=lambda kind: kind.__name__)
def test_weighted_score(data, kind):
    X, number, y = data
    target, weight = (y == "yes") + 0.0 if kind is LRClassifier else number, np.arange(len(X)) % 3
    fitted = kind(**SEEDED).fit(X, target)
    assert fitted.score(X, target, weight) == fitted.score(X[weight > 0], target[weight > 0], weight[weight > 0])
    assert fitted.score(X, target, sample_weight=weight) != fitted.score(X, target)
    for wrong, why in ((weight - 1, "negative weights, the first in row 0"), (0 * weight, "all weights are 0"),
                       (weight[1:], "shape|inconsistent"), (weight * np.inf, "NaN|infinity")):
        with pytest.raises(ValueError, match=why):
            fitted.score(X, target, wrong)


def test_no_better_than_a_guess():
    """A model that is no better than the mean is warned of, although without verbose the library's own warning is not
    shown."""
    random = np.random.default_rng(4)
    X = random.normal(size=(400, 3))
    y = X @ [1.0, 2.0, -1.0] + random.normal(size=400) / 10
    with pytest.warns(sklearn.exceptions.ConvergenceWarning, match="LRRegressor: .* still near its initial weights"):
        LRRegressor(**SEEDED).fit(X, y + 150)
    with pytest.warns(sklearn.exceptions.ConvergenceWarning, match="FMClassifier: .*StandardScaler"):
        FMClassifier(lr=5, normalize=False, **SEEDED).fit(1000 * X, random.random(400) < 0.5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert LRRegressor(random_state=7, epochs=20).fit(X, y).score(X, y) > 0.9
        LRClassifier(**SEEDED).fit(X, y > 0)


def test_values_of_another_type_are_warned_of():
    """A column whose categories are numbers in fit and texts in predict is warned of: they are different categories."""
    pandas = pytest.importorskip("pandas", reason="pandas is not there: python3-pandas")
    code = np.arange(300) % 4
    frame = pandas.DataFrame({"code": code, "city": np.where(code > 1, "a", "b"), "x": code * 0.1})
    model = LRClassifier(categorical=["code", "city"], random_state=0).fit(frame, code % 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for same in (frame, frame.assign(code=code.astype(float)), frame.assign(code=frame.code.astype("category")),
                     frame.head(2).assign(city="z")):
            model.predict(same)
    for other in (frame.assign(code=code.astype(str)), frame.assign(code=frame.code.astype(str).astype("category"))):
        with pytest.warns(tug.Warning, match="^X: the model knows only 0.0 % of the values of column 'code'; unknown "
                                             "values are '0', '1', '2': did they have another type"):
            pickle.loads(pickle.dumps(model)).predict(other)
        with pytest.warns(UserWarning, match="column 'code'"):
            LRClassifier(categorical=["code", "city"]).fit(frame, code % 2, eval_set=(other, code % 2))
    model.partial_fit(frame.assign(code=code.astype(str)), code % 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(frame)
        model.predict(frame.assign(code=code.astype(str)))
    with pytest.warns(UserWarning, match="of column 1; unknown values are 'z'"):
        LRClassifier(categorical=[1]).fit(frame.to_numpy()[:, [0, 2]].astype(object), code % 2).predict(
            np.array([[0, "z"]] * 3, object))
