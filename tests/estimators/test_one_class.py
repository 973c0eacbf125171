"""One class: the problem of OneClassSVM with any norm, its share of outliers exact, and its answer certified."""

import re
import warnings

import cvxpy as cp
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

import implicit_bias as ib
from tests.cases import refusals


@pytest.fixture(scope="module")
def cells():
    return StandardScaler().fit_transform(load_breast_cancer().data)[:120]


@pytest.fixture(scope="module")
def zeros():
    X, y = load_digits(return_X_y=True)
    return X[y == 0][:60, 20:40] / 16


KINDS = {
    "gln": ib.GLNClassifier(4, random_state=1),
    "l2": ib.GLNClassifier(4, norm="predictor-l2", random_state=1),
    "half-spaces": ib.GatedReLUClassifier(8, random_state=1),
    "kernels": ib.MultipleKernelClassifier(),
    "a kernel": None,
}
LINEAR = ib.GatedReLUClassifier(gates=ib.ConstantGate(), fit_intercept=False, tol=1e-9)
SYMMETRIC = [[1.0], [-1.0], [2.0], [-2.0]]


@pytest.mark.parametrize(("nu", "weighted"), [(0.004, True), (0.1, False), (0.5, True), (0.95, False)])
def test_one_class_svm_of_a_kernel(cells, nu, weighted):
    weight = np.random.default_rng(1).uniform(0.5, 2, len(cells)) if weighted else None
    K = rbf_kernel(cells, gamma=1 / 30)
    rows = np.arange(len(K))[:, None]
    ours = ib.OneClassMargin(ib.MultipleKernelClassifier([ib.PrecomputedKernel(K)], normalise=False, tol=1e-9), nu=nu)
    theirs = OneClassSVM(kernel="precomputed", nu=nu, tol=1e-10).fit(K, sample_weight=weight)
    expected = theirs.score_samples(K) / theirs.offset_
    np.testing.assert_allclose(ours.fit(rows, sample_weight=weight).score_samples(rows), expected, rtol=1e-3)
    by_name = ib.OneClassMargin(ib.MultipleKernelClassifier(["rbf"], tol=1e-9), nu=nu).fit(cells, sample_weight=weight)
    np.testing.assert_allclose(by_name.score_samples(cells), ours.score_samples(rows), atol=1e-5)


def test_linear_one_class_svm(zeros):
    ours = ib.OneClassMargin(LINEAR, nu=0.2).fit(zeros)
    theirs = OneClassSVM(kernel="linear", nu=0.2, tol=1e-10).fit(zeros)
    np.testing.assert_allclose(ours.score_samples(zeros), theirs.score_samples(zeros) / theirs.offset_, rtol=1e-4)
    np.testing.assert_allclose(ours.certificate_.weights, theirs.coef_ / theirs.offset_, atol=1e-3)


@pytest.mark.parametrize(("kind", "nu"), [("gln", 0.1), ("half-spaces", 0.6)])
def test_share_form_of_any_norm(zeros, kind, nu):
    """The optimum of ½‖W‖² − ρ + Σ c_i ξ_i/(ν Σ c_i), by CVXPY, is −½(1 − S)²/‖W‖² at W/ρ, S the mean slack."""
    weight = np.random.default_rng(1).uniform(0.5, 2, len(zeros))
    model = ib.OneClassMargin(KINDS[kind], nu=nu).fit(zeros, sample_weight=weight)
    # The samples' order is that of the certificate.
    order, gates = model.estimator_.samples_, model.estimator_.gates_
    features = gates(np.column_stack([zeros[order], np.ones(len(order))]))
    W, rho = cp.Variable((features.k, features.d)), cp.Variable()
    slack = cp.Variable(len(order), nonneg=True)
    norm = sum(cp.norm(W[np.flatnonzero(gates.groups == unit)], "fro") for unit in np.unique(gates.groups))
    share = weight[order] / (nu * weight.sum())
    scores = features.dense().reshape(len(order), -1) @ cp.reshape(W, (features.k * features.d,), order="C")
    case = cp.Problem(cp.Minimize(cp.square(norm) / 2 - rho + share @ slack), [scores >= rho - slack])
    optimum = case.solve(solver="CLARABEL")
    found = model.certificate_
    size = ib.GroupLasso(gates.groups).value(found.weights)
    assert -((1 - share @ np.maximum(1 - found.margins, 0)) ** 2) / (2 * size**2) == pytest.approx(optimum, rel=1e-5)
    assert -1 / (2 * (model.C_ * nu * weight.sum()) ** 2) == pytest.approx(optimum, rel=1e-5)


@pytest.mark.parametrize(
    ("kind", "nu"),
    [
        ("gln", 0.01),
        ("gln", 0.5),
        ("l2", 0.15),
        ("half-spaces", 0.9),
        ("kernels", 0.5),
        ("a kernel", 0.15),
        ("a kernel", 0.9),
    ],
)
def test_the_share_bounds_outliers_and_support(zeros, kind, nu):
    for weight in (np.ones(len(zeros)), np.random.default_rng(2).uniform(0.1, 3, len(zeros))):
        model = ib.OneClassMargin(KINDS[kind], nu=nu).fit(zeros, sample_weight=weight)
        assert model.status_ is ib.Status.OPTIMAL
        assert model.nu_[0] <= nu * (1 + 1e-6)
        assert nu * (1 - 1e-6) <= model.nu_[1] <= model.nu_[0] * (1 + 2e-6)
        outside = model.predict(zeros) == -1
        assert weight[outside].sum() <= nu * weight.sum()
        below = model.score_samples(zeros) < 1 - 1e-4
        assert weight[below].sum() <= nu * weight.sum()
        assert weight[model.estimator_.support_].sum() >= nu * weight.sum() * (1 - 1e-6)
        assert 0 <= 1 - model.offset_ < 1e-4


def test_scaling_the_inputs_changes_nothing(zeros):
    one = ib.OneClassMargin(ib.GLNClassifier(4, fit_intercept=False, random_state=1), nu=0.2)
    scores = [one.fit(s * zeros).score_samples(s * zeros) for s in (1.0, 16.0)]
    np.testing.assert_allclose(*scores, atol=1e-5)


test_bad_one_class = refusals(
    (ib.OneClassMargin(nu=0), SYMMETRIC, "nu must be a number strictly between 0 and 1"),
    (ib.OneClassMargin(nu=1), SYMMETRIC, "strictly between 0 and 1"),
    (ib.OneClassMargin("gln"), SYMMETRIC, "max-margin classifier"),
    (ib.OneClassMargin(ib.HiddenLayerClassifier()), SYMMETRIC, "no labels"),
    (ib.OneClassMargin(ib.GatedReLUClassifier(gates="learned")), SYMMETRIC, "no labels"),
    (ib.OneClassMargin(), [[1.0, 2.0]] * 5, "all equal"),
    (ib.OneClassMargin(LINEAR, nu=0.3), SYMMETRIC, "mean slack below nu=0.3, which is proved"),
    call=lambda model, X: model.fit(X),
)


@pytest.mark.parametrize("nu", [0.1, 0.5])
def test_linear_boundary_around_the_origin(nu):
    """If no weights of some norm have a mean slack of ν, InputError says so; CVXPY confirms it."""
    X = np.random.default_rng(1).normal(size=(40, 3))
    with pytest.raises(ib.InputError, match=r"no weights of a norm up to .* which is proved") as refusal:
        ib.OneClassMargin(LINEAR, nu=nu).fit(X)
    weights = cp.Variable(3)
    bound = float(re.findall(r"up to (\S+) have", str(refusal.value))[0])
    slack = cp.Problem(cp.Minimize(cp.sum(cp.pos(1 - X @ weights)) / 40), [cp.norm(weights) <= bound])
    assert slack.solve(solver="CLARABEL") > nu
    with pytest.warns(UserWarning, match="all inputs have the same score"):
        model = ib.OneClassMargin(ib.GatedReLUClassifier(gates=ib.ConstantGate()), nu=nu).fit(X)
    assert np.ptp(model.score_samples(X)) < 1e-4
    assert np.ptp(ib.OneClassMargin(nu=nu).fit(X).score_samples(X)) > 0.1


def test_equal_scores_are_not_always_constant():
    """By symmetry all scores are 1, but not elsewhere; kernels of unscaled inputs are too narrow for new inputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = ib.OneClassMargin().fit(np.eye(6))
    np.testing.assert_allclose(model.score_samples(np.eye(6)), 1, atol=1e-6)
    assert model.score_samples(np.zeros((1, 6)))[0] > 1.1
    with pytest.warns(UserWarning, match="nothing is learned about new inputs; standardise"):
        ib.OneClassMargin().fit(1013 + 8 * np.random.default_rng(0).normal(size=(100, 4)))


def test_answer_without_proof_warns(zeros):
    model = ib.OneClassMargin(ib.GLNClassifier(4, random_state=1, max_seconds=1e-9))
    with pytest.warns(ConvergenceWarning, match="not proved"):
        model.fit(zeros)
    assert model.status_ is ib.Status.TIME_LIMIT


@pytest.mark.filterwarnings("ignore:all inputs have the same score:UserWarning")
@pytest.mark.parametrize("nu", [1 - 1e-9, 1 - 1e-16])
def test_nearly_all_samples_may_be_outside(nu):
    X = np.random.default_rng(0).normal(size=(60, 3))
    assert ib.OneClassMargin(nu=nu).fit(X).predict(X).shape == (60,)
