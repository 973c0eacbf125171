"""Paths over C, the C below which all weights are zero, and cross-validation over C."""

import dataclasses

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler

import implicit_bias as ib
from implicit_bias.estimators import kernels
from implicit_bias.gates import RandomHalfSpaces
from implicit_bias.solvers import path
from implicit_bias.solvers.path import random_dual_norm, zero_weights_up_to
from tests.cases import assert_refused, scaled

CS = [0.1, 0.3, 1.0]


@pytest.fixture(scope="module")
def wine():
    X, y = scaled(load_wine, names=("a", "b", "c"))
    return X[::2], y[::2]


@pytest.fixture(scope="module")
def cancer():
    return scaled(load_breast_cancer, 90)


def posed(name, X, y, **parts):
    gates = ib.HyperplaneGates(3, 2, seed=1)
    case = {"l2": ib.svm_l2, "gln": ib.svm_gln, "frobenius": ib.svm_gln}.get(name, ib.svm_rc)(
        X, y, RandomHalfSpaces(4, 1) if name == "rc" else gates
    )
    parts |= {"norm": ib.Frobenius()} if name == "frobenius" else {}
    return dataclasses.replace(case, **parts)


@pytest.mark.parametrize(
    ("name", "intercept"), [("gln", False), ("gln", True), ("l2", True), ("rc", False), ("frobenius", True)]
)
def test_zero_weights_are_optimal_up_to_the_bound(cancer, name, intercept):
    X, y = cancer[0], np.where(cancer[1], 1, -1)
    weight = np.random.default_rng(1).uniform(0.5, 2, len(X))
    case = posed(name, X, y, intercept=intercept, sample_weight=weight)
    C = zero_weights_up_to(case)
    # CLARABEL is asked, which knows nothing of such a price.
    below = ib.solve(dataclasses.replace(case, C=0.99 * C), "CLARABEL", tol=1e-8)
    size = case.norm.value(below.weights)
    assert size <= 1e-6 * below.objective
    sums = [weight[y == sign].sum() for sign in (-1, 1)]
    assert below.objective == pytest.approx(0.99 * C * (2 * min(sums) if intercept else sum(sums)), rel=1e-6)
    if not intercept:
        above = ib.solve(dataclasses.replace(case, C=1.05 * C), "CLARABEL", tol=1e-8)
        assert case.norm.value(above.weights) > 1e-4 * above.objective


@pytest.mark.parametrize(
    ("norm", "least"),
    [
        (ib.GroupLasso([0, 0, 1, 1, 2, 2]), 0.7),
        (ib.Frobenius(), 0.97),
        (ib.PredictorL2(3, 2), 0.97),
        (ib.NuclearNorm([0, 0, 1, 1, 2, 2], [0, 1] * 3), 0.9),
    ],
    ids=lambda value: type(value).__name__,
)
def test_dual_norm_of_random_labels(norm, least):
    """It is the root mean square over random labels; of the largest of several groups, a lower bound of that."""
    rng = np.random.default_rng(0)
    X, c = rng.standard_normal((200, 4)), rng.uniform(0.5, 2, 200)
    features = ib.HyperplaneGates(3, 2, seed=1).fit(X)(X)
    problem = ib.MarginProblem(features, rng.choice([-1.0, 1.0], 200), norm, C=1.0, sample_weight=c)
    signs = rng.choice([-1.0, 1.0], (500, 200))
    mean = np.sqrt(np.mean([norm.dual(features.adjoint(c * one)) ** 2 for one in signs]))
    found = random_dual_norm(problem)
    assert least * mean < found < (1.1 if isinstance(norm, ib.NuclearNorm) else 1.03) * mean
    assert random_dual_norm(problem.replace(y=-problem.y)) == found
    assert random_dual_norm(problem.replace(features=features.scaled(3.0))) == pytest.approx(3 * found)
    many = problem.replace(features=features.select(np.tile(np.arange(200), 4)), y=np.tile(problem.y, 4))
    many = many.replace(sample_weight=np.tile(c, 4))
    assert isinstance(norm, ib.NuclearNorm) or random_dual_norm(many) == pytest.approx(2 * found)


def test_a_solution_that_serves_at_the_next_price_is_not_solved_for_again(cancer):
    def solved(prices):
        """Return the path over `prices`, and the values whose point took iterations."""
        path = ib.margin_path(case, prices)
        return path, [C for C, found in zip(prices, path, strict=True) if found.iterations]

    case = posed("gln", cancer[0], np.where(cancer[1], 1, -1))
    C1 = ib.solve(case).dual.max()
    down = [np.inf, 100 * C1, 2 * C1, 0.5 * C1, 0.1 * C1]
    path, prices = solved(down)
    assert prices == [np.inf, 0.5 * C1, 0.1 * C1]
    for C, found in zip(down, path, strict=True):
        alone = ib.solve(dataclasses.replace(case, C=C), "CLARABEL", tol=1e-8)
        assert found.objective == pytest.approx(alone.objective, rel=2e-6)
        assert found.gap <= 1e-6
    # Upwards, too: but where slack is used, nothing is certified at another price.
    assert solved(down[::-1])[1] == [0.1 * C1, 0.5 * C1, 2 * C1]


@pytest.mark.parametrize(
    "estimator",
    [
        ib.GLNClassifier(3, random_state=2),
        ib.GLNClassifier(3, norm="frobenius", free_intercept=False, class_weight="balanced", random_state=2),
        ib.GatedReLUClassifier(5, random_state=2),
        ib.HiddenLayerClassifier(5, training=ib.SGD(steps=40), random_state=2),
        ib.MultipleKernelClassifier(),
    ],
    ids=["gln", "frobenius", "half-spaces", "hidden layer", "kernels"],
)
def test_it_is_the_search_over_separate_fits(wine, estimator):
    found = ib.MarginClassifierCV(estimator, CS, cv=3).fit(*wine)
    search = GridSearchCV(estimator, {"C": CS}, cv=3).fit(*wine)
    each = np.array([search.cv_results_[f"split{fold}_test_score"] for fold in range(3)])
    np.testing.assert_allclose(found.scores_, each, atol=1e-12)
    assert search.best_params_["C"] == found.C_
    np.testing.assert_array_equal(found.estimator_.decision_function(wine[0]), search.decision_function(wine[0]))
    assert found.gaps_.shape == (3, 3)
    assert found.gaps_.max() <= 1e-6


class Counted(RandomHalfSpaces):
    fits = 0

    def fit(self, X, y=None, sample_weight=None):
        Counted.fits += 1
        return super().fit(X, y, sample_weight)


def test_gates_are_made_once_a_fold(cancer):
    before = Counted.fits
    ib.MarginClassifierCV(ib.GatedReLUClassifier(gates=Counted(3)), CS, cv=4).fit(*cancer)
    assert Counted.fits - before == 4 + 1


@pytest.mark.parametrize("classes", [2, 3])
def test_a_fit_checks_one_problem(wine, classes, monkeypatch):
    checks, check = [], ib.MarginProblem.__post_init__
    monkeypatch.setattr(ib.MarginProblem, "__post_init__", lambda problem: checks.append(1) or check(problem))
    rows = np.isin(wine[1], ["a", "b", "c"][:classes])
    ib.GLNClassifier(2, random_state=1).fit(wine[0][rows], wine[1][rows])
    assert len(checks) == 1


def test_processes_share_the_folds_and_change_nothing(cancer):
    alone = ib.MarginClassifierCV(ib.GLNClassifier(3), CS, cv=3).set_params(estimator__random_state=3).fit(*cancer)
    with joblib.parallel_config("multiprocessing"):
        shared = clone(alone).set_params(n_jobs=2).fit(*cancer)
    for name in ("scores_", "gaps_", "Cs_", "C_"):
        np.testing.assert_array_equal(getattr(shared, name), getattr(alone, name))
    np.testing.assert_array_equal(shared.estimator_.weights_, alone.estimator_.weights_)


def test_prices_of_its_own_begin_where_weights_do(wine):
    found = ib.MarginClassifierCV(ib.GLNClassifier(3, random_state=1), 4, cv=2).fit(*wine)
    with pytest.warns(UserWarning, match=r"all weights are \(nearly\) zero"):
        ib.GLNClassifier(3, random_state=1, C=found.Cs_[0] / 20).fit(*wine)
    assert len(found.Cs_) == 4
    np.testing.assert_allclose(found.Cs_[1:] / found.Cs_[:-1], 10, rtol=0.1)
    scaled = ib.MarginClassifierCV(ib.GLNClassifier(3, fit_intercept=False, random_state=1), 4, cv=2)
    prices = [clone(scaled).fit(s * wine[0], wine[1]).Cs_ for s in (1.0, 8.0)]
    np.testing.assert_allclose(prices[0], 8 * prices[1], rtol=0.1)


def test_scoring_weights_splits_and_inputs(cancer):
    X, y = cancer
    groups = np.arange(len(y)) // 10
    splits = list(GroupKFold(3).split(X, y, groups))
    weight = np.where(y == 1, 2.0, 1.0)
    model = ib.MarginClassifierCV(ib.GLNClassifier(3, random_state=1), CS, cv=splits, scoring="roc_auc")
    model.fit(X, y, weight)
    grouped = clone(model).set_params(cv=GroupKFold(3)).fit(X, y, weight, groups)
    np.testing.assert_array_equal(grouped.scores_, model.scores_)
    train, test = splits[0]
    one = ib.GLNClassifier(3, C=0.1, random_state=1).fit(X[train], y[train], weight[train])
    from sklearn.metrics import roc_auc_score

    alone = roc_auc_score(y[test], one.decision_function(X[test]), sample_weight=weight[test])
    assert model.scores_[0, 0] == pytest.approx(alone, abs=1e-6)
    assert model.score(X, y) == roc_auc_score(y, model.decision_function(X))
    frame = pd.DataFrame(X).rename(columns=str)
    named = clone(model).fit(frame, y, weight)
    assert list(named.feature_names_in_) == list(named.estimator_.feature_names_in_) == list(frame.columns)
    np.testing.assert_array_equal(named.scores_, clone(model).fit(sp.csr_array(X), y, weight).scores_)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"estimator": StandardScaler()}, "max-margin classifier"),
        ({"Cs": 0}, "Cs must be"),
        ({"Cs": []}, "Cs must be the number"),
        ({"Cs": [0.1, -1.0]}, "Cs must be the number"),
        ({"Cs": ["a"]}, "Cs must be the number"),
        ({"Cs": [[0.1]]}, "Cs must be the number"),
        ({"cv": 1}, "at least one train/test split"),
        ({"cv": "folds"}, "cv"),
        ({"scoring": "neg_log_loss"}, "predict_proba"),
        ({"scoring": "nonsense"}, "scoring"),
        ({"scoring": lambda *args, **weights: float("nan")}, "NaN"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"estimator": ib.GLNClassifier(units=0)}, "units"),
    ],
)
def test_bad_input_is_refused(cancer, change, words):
    model = ib.MarginClassifierCV(ib.GLNClassifier(2, random_state=1), [0.1], cv=2).set_params(**change)
    assert_refused(lambda: model.fit(*cancer), words)
    with pytest.raises(NotFittedError):
        model.predict(cancer[0])


def test_what_cannot_be_certified_is_said(cancer):
    X, y = cancer
    conflict = np.vstack([X, X]), np.append(y, 1 - y)
    folds = StratifiedKFold(2, shuffle=True, random_state=1)
    rough = ib.GLNClassifier(2, solver="CLARABEL", tol=1e-15, random_state=1)
    with pytest.warns(ConvergenceWarning, match="4 of 4 fits in the folds have a gap above tol=1e-15"):
        ib.MarginClassifierCV(rough, [0.1, 1.0], cv=folds).fit(X, y)
    with pytest.raises(ib.NotSeparableError, match=r"soft margin \(finite C\)"):
        ib.MarginClassifierCV(ib.GLNClassifier(2, random_state=1), [0.1, np.inf], cv=folds).fit(*conflict)


@pytest.mark.parametrize("finished", [0, 1, 2, 3])
@pytest.mark.parametrize(
    "estimator",
    [ib.GLNClassifier(2, C=0.3, random_state=1), ib.MultipleKernelClassifier(C=0.3)],
    ids=["gln", "kernels"],
)
def test_late_values_are_not_compared(cancer, estimator, finished, monkeypatch):
    """A fold of 50 samples is late at a value of C: larger ones are compared, unless that leaves one."""
    owner, name = (path, "solve") if isinstance(estimator, ib.GLNClassifier) else (kernels, "solve_expansions")
    whole, calls, costs = getattr(owner, name), [], [0.03, 0.01, 0.003, 0.001]

    def limited(*arguments, **options):
        problem = arguments[0] if owner is path else arguments[1][0]
        calls.append((problem.features.n, problem.C))
        found = whole(*arguments, **options)
        if calls[-1] != (50, costs[finished]):
            return found
        late = dataclasses.replace(found if owner is path else found[0][0], status=ib.Status.TIME_LIMIT)
        return late if owner is path else [(late, found[0][1])]

    monkeypatch.setattr(owner, name, limited)
    order = np.random.default_rng(0).permutation(90)
    folds = [(order[:60], order[60:]), (order[:50], order[60:]), (order[-70:], order[:20])]
    compared = finished if finished > 1 else 0
    model = ib.MarginClassifierCV(estimator, costs, cv=folds)
    with pytest.warns(ConvergenceWarning, match=f"all folds finished {compared} of 4 values of C"):
        model.fit(*cancer)
    tried = [(60, C) for C in costs] + [(50, C) for C in costs[: finished + 1]] + [(70, C) for C in costs[:compared]]
    assert calls[:-1] == tried
    assert np.isnan(model.scores_).sum(axis=1).tolist() == [0, 4 - finished, 4 - compared]
    np.testing.assert_array_equal(np.isnan(model.gaps_), np.isnan(model.scores_))
    assert (model.C_ in costs[:compared]) if compared else model.C_ == 0.3


def test_a_path_ends_at_the_time_limit(cancer):
    case = posed("gln", cancer[0], np.where(cancer[1], 1, -1))
    assert [one.status for one in ib.margin_path(case, CS, max_seconds=1e-9)] == [ib.Status.TIME_LIMIT]
