"""The estimators give the formulations' certified answers, inside scikit-learn and with frames."""

import pickle
from dataclasses import replace
from functools import partial

import cvxpy as cp
import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.multiclass import OneVsOneClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import implicit_bias as ib
from implicit_bias._utils.blocks import ROWS
from implicit_bias.estimators.base import COST_SCALE
from implicit_bias.extensions.galu import GaLUClassifier, GaLURegressor
from implicit_bias.solvers import Answer
from tests.cases import assert_refused, random, refusals, scaled

#: The classifiers' default.
CUTOFF = (0.1, 0.9)
NAMES = ("malignant", "benign")


@pytest.fixture(scope="module")
def cancer():
    return scaled(load_breast_cancer, 200, NAMES)


@pytest.mark.parametrize(
    ("norm", "build", "C"),
    [("group-lasso", ib.svm_gln, 0.05), ("group-lasso", ib.svm_gln, np.inf), ("predictor-l2", ib.svm_l2, 0.05)],
)
def test_the_estimator_is_the_formulation(cancer, norm, build, C):
    X, y = cancer
    model = ib.GLNClassifier(6, 2, C, norm=norm, free_intercept=False, random_state=3).fit(X, y)
    inputs = np.c_[X, np.ones(len(X))]
    problem = build(inputs, np.where(y == "malignant", 1, -1), ib.HyperplaneGates(6, 2, 3, CUTOFF), C)
    solution = ib.solve(problem)
    np.testing.assert_array_equal(model.weights_, solution.weights)
    np.testing.assert_array_equal(model.decision_function(X), problem.decision_function(solution.weights, inputs))
    certificate = ib.certify(problem, model.weights_, model.certificate_.dual)
    assert certificate.gap <= 1e-6
    assert model.classes_.tolist() == ["benign", "malignant"]


def test_scale_of_the_cost_is_that_of_random_labels(cancer, wine):
    X, y = cancer
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X))
    model = ib.GLNClassifier(3, random_state=1).fit(X, y, sample_weight=weight)
    inputs, signs = np.c_[X, np.ones(len(X))], np.where(y == "malignant", 1, -1)
    # Each sample opens one gate of every unit, so that ‖Φ_hᵀ(λ∘y)‖² is on average Σ λ_i² ‖x_i‖².
    parts = [weight[signs == sign] for sign in (1, -1)]
    sizes = np.where(signs == 1, *[part.sum() ** 2 / (part**2).sum() for part in parts])
    lam = weight * sizes.min() / sizes
    assert pytest.approx(COST_SCALE / np.linalg.norm(lam[:, None] * inputs)) == model.C_
    problem = ib.svm_gln(inputs, signs, model.gates_, model.C_).replace(sample_weight=weight, intercept=True)
    assert model.certificate_.objective == pytest.approx(ib.solve(problem).objective, rel=3e-6)
    hidden = ib.HiddenLayerClassifier(4, training=ib.SGD(steps=20), random_state=0).fit(*wine)
    features = [gates(np.c_[wine[0], np.ones(len(wine[0]))]).dense() for gates in hidden.gates_]
    # A class of the share π < 1/2 gives the others the weight π/(1 − π).
    others = [np.where(wine[1] == name, 1.0, np.mean(wine[1] == name) / np.mean(wine[1] != name)) for name in range(3)]
    sizes = [np.linalg.norm(lam[:, None] * matrix) for lam, matrix in zip(others, features, strict=True)]
    np.testing.assert_allclose(hidden.C_, COST_SCALE / np.array(sizes))
    lighter = ib.GLNClassifier(3, random_state=1).fit(X, y, sample_weight=weight * np.where(signs == 1, 1e-9, 1))
    assert pytest.approx(COST_SCALE / np.linalg.norm((lam * (signs == -1))[:, None] * inputs), rel=1e-6) == lighter.C_


def test_free_intercept_off_the_origin(cancer):
    X, y = cancer
    kept, free = (
        ib.GLNClassifier(4, C=0.01, random_state=0, free_intercept=free).fit(X + 50, y) for free in (False, True)
    )
    assert free.certificate_.objective < kept.certificate_.objective
    inputs = np.c_[X + 50, np.ones(len(X))]
    np.testing.assert_allclose(free.decision_function(X + 50), free.gates_(inputs) @ free.weights_ + free.intercept_)


def test_support_vectors_carry_the_solution(cancer):
    X, y = cancer
    model = ib.GLNClassifier(6, C=0.05, random_state=0).fit(X, y)
    assert model.n_support_.sum() == len(model.support_) < len(X)
    assert model.n_support_.tolist() == [np.sum(y[model.support_] == c) for c in model.classes_]
    rest = np.setdiff1d(np.arange(len(X)), model.support_)
    signs = np.where(y == "malignant", 1, -1)
    assert (signs * model.decision_function(X))[rest].min() > 1 - 1e-3
    gates = ib.GatedReLUClassifier(C=0.05, gates=model.gates_)
    again = gates.fit(X[model.support_], y[model.support_])
    assert again.certificate_.objective == pytest.approx(model.certificate_.objective, rel=1e-4)


@pytest.mark.parametrize("kind", [ib.GLNClassifier, ib.GatedReLUClassifier, ib.HiddenLayerClassifier])
def test_classes_against_the_rest(kind, wine):
    X, y = wine
    options = {} if kind is not ib.HiddenLayerClassifier else {"training": ib.SGD(steps=300)}
    model = kind(5, random_state=2, **options).fit(X, y)
    assert len(model.certificate_) == 3
    assert max(certificate.gap for certificate in model.certificate_) <= 1e-6
    # Drawn gates are shared, so that they are saved once.
    assert (model.gates_[0] is model.gates_[1]) == (kind is not ib.HiddenLayerClassifier)
    scores = model.decision_function(X)
    for c in range(3):
        two = clone(model).fit(X, y == c)
        np.testing.assert_allclose(two.decision_function(X), scores[:, c], atol=1e-9)
    assert model.score(X, y) > 0.95


@pytest.mark.parametrize("multi_class", ["ovr", "joint"])
@pytest.mark.parametrize("classes", [2, 3])
def test_linear_classifiers_have_the_gradients_of_their_scores(classes, multi_class):
    X, y = scaled(load_wine)
    X, y, options = X[y < classes], y[y < classes], {"C": 0.1, "multi_class": multi_class, "random_state": 0}
    for model in (ib.GLNClassifier(2, 1, **options), ib.GatedReLUClassifier(gates=ib.ConstantGate(), **options)):
        scores = model.fit(X, y).decision_function(X)
        expected = X @ model.coef_.T + model.decision_function(0 * X[:1])
        np.testing.assert_allclose(expected, scores.reshape(len(X), -1), atol=1e-9)
    assert not hasattr(ib.GLNClassifier(2, **options).fit(X, y), "coef_")


@pytest.fixture(scope="module")
def wine():
    return scaled(load_wine)


def test_a_warm_start_leads_from_price_to_price(cancer):
    iterations = np.zeros(2)
    for seed in range(4):
        rng = np.random.default_rng(seed)
        many = rng.normal(size=(1500, 6))
        signs = many[:, 0] + 0.3 * rng.normal(size=1500) > 0
        cold = ib.GLNClassifier(5, C=2.0, random_state=2)
        warm = clone(cold).set_params(warm_start=True, C=1.0).fit(many, signs)
        cold.fit(many, signs)
        warm.set_params(C=2.0).fit(many, signs)
        iterations += warm.certificate_.iterations, cold.certificate_.iterations
        assert warm.certificate_.lower_bound <= cold.certificate_.objective
        assert cold.certificate_.lower_bound <= warm.certificate_.objective
    assert iterations[0] < iterations[1]
    warm.fit(*cancer)
    # CLARABEL takes no start, and samples of another number are others.
    assert warm.set_params(solver="CLARABEL", tol=1e-4).fit(*cancer).certificate_.solver == "CLARABEL"
    warm.set_params(solver=None, tol=1e-6)
    X, y = cancer
    np.testing.assert_array_equal(warm.fit(X[:150], y[:150]).weights_, cold.fit(X[:150], y[:150]).weights_)
    # So are as many samples of other labels.
    other = np.roll(y, 1)
    np.testing.assert_array_equal(warm.fit(X, other).fit(X, y).weights_, cold.fit(X, y).weights_)


def test_chunks_of_new_samples_change_no_score(wine):
    model = ib.GatedReLUClassifier(6, C=0.1, random_state=2).fit(*wine)
    many = np.tile(wine[0], (ROWS // len(wine[0]) + 2, 1))
    scores = model.decision_function(many).reshape(-1, len(wine[0]), 3)
    np.testing.assert_allclose(scores - model.decision_function(wine[0]), 0.0, atol=1e-12)


def test_samples_are_not_kept(wine):
    X, y = wine
    stored = pickle.dumps(ib.GLNClassifier(2, C=0.1, random_state=2).fit(np.repeat(X, 20, axis=1), y))
    assert len(stored) < X.nbytes * 20 / 2


@pytest.mark.parametrize(
    "model",
    [
        ib.GLNClassifier(2, C=0.1, random_state=1),
        ib.MultipleKernelClassifier(["rbf"], C=0.1),
        ib.MarginClassifierCV(ib.GLNClassifier(2, random_state=1), Cs=[0.01, 0.1], cv=2),
        ib.OneClassMargin(),
        ib.InteractionClassifier(C=0.1, rounds=1, candidates=20, random_state=1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_equal_fits_have_equal_hashes_and_files(wine, model, tmp_path):
    one, other = (clone(model).fit(*wine) for _ in range(2))
    assert joblib.hash(one) == joblib.hash(other)
    contents = [ib.save_model(fitted, tmp_path / "m.npz").read_bytes() for fitted in (one, other)]
    assert contents[0] == contents[1]
    copy = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(copy.decision_function(wine[0]), one.decision_function(wine[0]))


def test_overlapping_classes_are_refused_with_proof(cancer):
    X, y = np.vstack([cancer[0], cancer[0][:1]]), np.append(cancer[1], "benign")
    y[0] = "malignant"
    with pytest.raises(ib.NotSeparableError, match=r"soft margin \(finite C\)") as refusal:
        ib.GLNClassifier(3, C=np.inf, random_state=0).fit(X, y)
    dual = refusal.value.certificate.dual
    gates = ib.HyperplaneGates(3, 2, seed=0)
    problem = ib.svm_gln(np.c_[X, np.ones(len(X))], np.where(y == "malignant", 1, -1), gates)
    assert not ib.certify(problem, np.zeros((6, 31)), dual).separable
    copy = pickle.loads(pickle.dumps(refusal.value))
    np.testing.assert_array_equal(copy.certificate.dual, dual)
    assert str(copy) == str(refusal.value)


def test_a_failed_fit_leaves_the_earlier_one(cancer):
    model = ib.GLNClassifier(3, random_state=0).fit(*cancer)
    before = model.decision_function(cancer[0])
    model.set_params(C=np.inf)
    with pytest.raises(ib.NotSeparableError):
        model.fit(np.repeat([[0], [1], [0], [1]], 30, axis=1), [0, 0, 1, 1])
    np.testing.assert_array_equal(model.decision_function(cancer[0]), before)


def test_inside_scikit_learn(cancer):
    X, y = cancer
    search = GridSearchCV(
        make_pipeline(StandardScaler(), ib.GLNClassifier(random_state=0)),
        {"glnclassifier__units": [2, 5], "glnclassifier__C": [0.01, 0.1]},
        cv=3,
        n_jobs=2,
    ).fit(X, y)
    assert search.best_score_ > 0.9
    calibrated = CalibratedClassifierCV(ib.GLNClassifier(5, C=0.05, random_state=0), cv=3).fit(X, y)
    assert np.allclose(calibrated.predict_proba(X).sum(axis=1), 1)
    assert calibrated.score(X, y) > 0.95
    iris = load_iris(return_X_y=True)
    assert cross_val_score(OneVsOneClassifier(ib.GatedReLUClassifier(10, random_state=1)), *iris, cv=3).mean() > 0.9


@pytest.mark.parametrize("estimator", [ib.GLNClassifier(4), GaLURegressor(4)], ids=repr)
def test_sparse_matrix_without_memory(estimator):
    wide = sp.csr_array((np.ones(2), ([0, 1], [0, 10**9])), shape=(2000, 10**9 + 1))
    assert_refused(lambda: estimator.fit(wide, np.arange(2000) % 2), "X as a dense array")


def test_gates_are_transformers_of_frames(cancer):
    X = pd.DataFrame(cancer[0]).add_prefix("column")
    gates = ib.HyperplaneGates(2, 2).set_output(transform="pandas")
    values = gates.fit_transform(X)
    assert values.columns.tolist() == [f"hyperplanegates{j}" for j in range(4)]
    with sklearn.config_context(transform_output="pandas"):
        assert ib.solve(ib.svm_gln(X, np.where(cancer[1] == "benign", 1, -1), gates)).gap <= 1e-6


def test_inputs_in_float32(cancer):
    X, y = cancer
    single = X.astype(np.float32)
    for model in (
        ib.GLNClassifier(4, random_state=0),
        ib.HiddenLayerClassifier(4, training=ib.SGD(steps=60), random_state=0),
    ):
        narrow, wide = clone(model).fit(single, y), clone(model).fit(single.astype(float), y)
        np.testing.assert_array_equal(narrow.decision_function(single), wide.decision_function(single))


@pytest.mark.parametrize("norm", ["group-lasso", "frobenius"])
def test_weights_count_copies(cancer, norm):
    """Integer weights and repeated samples in any order give the same model, bit for bit."""
    X, y = cancer
    weight = np.random.default_rng(0).integers(0, 4, len(X))
    rows = np.random.default_rng(1).permutation(np.repeat(np.arange(len(X)), weight))
    model = ib.GLNClassifier(5, C=0.02, norm=norm, random_state=0)
    weighted, repeated = clone(model).fit(X, y, sample_weight=weight), clone(model).fit(X[rows], y[rows])
    np.testing.assert_array_equal(weighted.decision_function(X), repeated.decision_function(X))
    np.testing.assert_array_equal(X[weighted.samples_], X[rows][repeated.samples_])
    assert len(weighted.certificate_.dual) == (weight > 0).sum()
    copied = ib.svm_gln(
        np.c_[X, np.ones(len(X))][rows], np.where(y[rows] == "malignant", 1, -1), ib.HyperplaneGates(5, 2, 0, CUTOFF)
    )
    copied = replace(copied, C=0.02, intercept=True, norm=ib.Frobenius() if norm == "frobenius" else copied.norm)
    assert weighted.certificate_.objective == pytest.approx(ib.solve(copied).objective, rel=3e-6)
    balanced = clone(model).set_params(class_weight="balanced").fit(X, y).certificate_
    prices = len(y) / (2 * np.array([np.sum(y == label) for label in y]))
    assert (balanced.dual <= 0.02 * prices * (1 + 1e-9)).all()
    assert (balanced.dual > 0.02 * 1.01).any()


@pytest.mark.parametrize(
    "model", [ib.GLNClassifier(5, C=0.1, random_state=0), ib.MultipleKernelClassifier(C=0.1, tol=1e-10)]
)
def test_class_weights_are_sample_weights(cancer, model):
    X, y = cancer
    weight = np.where(y == "malignant", 4.0, 1.0)
    given = clone(model).fit(X, y, sample_weight=weight).decision_function(X)
    by_class = clone(model).set_params(class_weight={"malignant": 4.0, "benign": 1.0}).fit(X, y).decision_function(X)
    np.testing.assert_allclose(by_class, given, atol=1e-10)


def test_own_gates_and_norms(cancer):
    X, y = cancer
    gates = ib.FunctionGates(lambda X: np.hstack([X > 0, X <= 0])[:, ::8])
    model = ib.GatedReLUClassifier(gates=gates, C=0.1).fit(X, y)
    assert model.certificate_.gap <= 1e-6
    grouped = ib.GLNClassifier(2, norm=ib.GroupLasso([0, 1, 2, 3]), C=0.1, random_state=1).fit(X, y)
    assert grouped.certificate_.gap <= 1e-6
    assert_refused(lambda: ib.GLNClassifier(3, norm=ib.GroupLasso([0, 1, 2, 3])).fit(X, y), "4 gates")


def test_ctrl_c_ends_fits_and_searches(cancer):
    def interrupted(problem, options):
        weights = np.zeros((problem.features.k, problem.features.d))
        return Answer(weights, np.zeros(problem.features.n), 1, ib.Status.INTERRUPTED)

    with pytest.raises(KeyboardInterrupt):
        GridSearchCV(ib.GLNClassifier(2, solver=interrupted), {"C": [0.1, 1.0]}).fit(*cancer)


def test_unfinished_answers_warn(cancer):
    with pytest.warns(ConvergenceWarning, match=r"max_seconds \(gap [^ ;]+\)$"):
        model = ib.GLNClassifier(20, C=1.0, max_seconds=1e-9, random_state=0).fit(*cancer)
    assert model.status_.name == "TIME_LIMIT"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_seconds": 1e-9}, r"class \d and 9 others: stopped at the time limit; .* \(gap [^ ;]+\)$"),
        ({"C": 1e-9}, "class 0 and 9 others: all weights are .nearly. zero at C=1e-09; increase C"),
    ],
)
def test_classes_with_the_same_trouble_warn_once(options, words):
    X = np.random.default_rng(0).normal(size=(60, 3))
    with pytest.warns(UserWarning, match=words) as warned:
        ib.GLNClassifier(2, random_state=1).set_params(**options).fit(X, np.arange(60) % 10)
    assert len(warned) == 1


def test_labels_that_are_dates_are_refused(cancer):
    days = np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]")[np.unique(cancer[1], return_inverse=True)[1]]
    for y in (days, pd.Series(days)):
        with pytest.raises(ib.InputError, match=r"^y holds dates or durations"):
            ib.GLNClassifier(2).fit(cancer[0], y)


@pytest.mark.parametrize("seed", range(6))
def test_fits_that_part_nothing_warn(cancer, seed):
    """A fit with C so small that weights vanish, up to 1e-8, issues a warning."""
    rng = np.random.default_rng(seed)
    C, norm = 10 ** rng.uniform(-12, -5), rng.choice(["group-lasso", "predictor-l2", "frobenius"])
    make = [partial(ib.GLNClassifier, 3, norm=norm), partial(ib.GatedReLUClassifier, 5)][seed % 2]
    with pytest.warns(UserWarning, match=f"zero at C={C:g}; increase C"):
        make(C=C, free_intercept=True, random_state=seed).fit(*cancer)


@pytest.mark.parametrize("model", [ib.GLNClassifier(5, C=1e-3), ib.GatedReLUClassifier(5, C=1e-3)])
def test_weights_that_only_the_tolerance_leaves_are_zero(model):
    X, y = np.random.default_rng(0).normal(size=(300, 10)), np.arange(300) % 10 == 0
    with pytest.warns(UserWarning, match=r"\(nearly\) zero at C=0.001; set class_weight='balanced', or increase C"):
        model.set_params(random_state=1).fit(X, y)
    assert model.status_.name == "OPTIMAL"
    assert set(model.decision_function(X)) == {model.certificate_.intercept}
    with pytest.warns(UserWarning, match="zero at C=0.001; increase C"):
        model.set_params(class_weight="balanced").fit(X, y)


def test_one_class_for_all_samples_warns(cancer):
    X, y = np.random.default_rng(0).normal(size=(100, 4)), np.repeat(["rare", "common"], [5, 95])
    model = ib.GLNClassifier(2, C=0.05, free_intercept=False, random_state=0)
    with pytest.warns(UserWarning, match="assigned to one class at C=0.05; set class_weight='balanced'"):
        assert set(model.fit(X, y).predict(X)) == {"common"}
    assert np.abs(model.weights_).max() > 1e-2


@pytest.mark.parametrize("model", [ib.GLNClassifier(units=4), ib.GatedReLUClassifier(units=8)])
def test_difference_of_mean_scores_is_constrained(cancer, model):
    X, y = cancer
    A, B = X[X[:, 1] > 0], X[X[:, 1] <= 0]
    prices = []
    for least in (10.0, 0.2, 0.0):
        fair = clone(model).set_params(
            C=0.05, random_state=0, constraints=lambda f, e=least: cp.abs(cp.mean(f(A)) - cp.mean(f(B))) <= e
        )
        fair.fit(X, y)
        assert fair.status_ is ib.Status.OPTIMAL
        assert abs(fair.decision_function(A).mean() - fair.decision_function(B).mean()) <= least + 1e-12
        prices.append(fair.certificate_.objective)
    free = clone(model).set_params(C=0.05, random_state=0).fit(X, y)
    assert prices[0] == pytest.approx(free.certificate_.objective, rel=1e-5)
    assert prices[0] < prices[1] < prices[2]


def test_constraints_on_scores_themselves(cancer):
    X, y = cancer
    first = ib.GLNClassifier(units=4, C=0.05, free_intercept=False, constraints=lambda f: f(X[:1]) == 2.0).fit(X, y)
    assert first.decision_function(X[:1]) == pytest.approx(2.0, rel=1e-12)
    with pytest.raises(ib.NotSeparableError, match="no weights satisfy the linear constraints"):
        clone(first).set_params(constraints=lambda f: [f(X[:1]) >= 1, f(X[:1]) <= 0.5]).fit(X, y)


test_bad_parameters = refusals(
    (ib.GatedReLUClassifier(gates=ib.ConstantGate(), cutoff="1"), "cutoff must be"),
    (ib.GLNClassifier(units=0), "units"),
    (ib.GLNClassifier(contexts=3), "power of two"),
    (ib.GLNClassifier(C=-1), "C must be"),
    (ib.GLNClassifier(norm="l1"), "known: group-lasso"),
    (ib.GLNClassifier(solver="GUROBI"), "known: NATIVE"),
    (ib.GLNClassifier(tol=0), "tol"),
    (ib.GLNClassifier(random_state=-1), "seed"),
    (ib.GLNClassifier(random_state="a"), "random"),
    (ib.GLNClassifier(class_weight="even"), "class_weight must be"),
    (ib.GLNClassifier(class_weight=[]), "class_weight must be"),
    (ib.GLNClassifier(class_weight=np.ones(2)), "class_weight must be"),
    (ib.GLNClassifier(class_weight={"benign": 0, "malignant": 1}), "positive"),
    (ib.GLNClassifier(class_weight={"benign": -1, "malignant": 1}), "positive"),
    (ib.GLNClassifier(fit_intercept="no"), "fit_intercept"),
    (ib.GLNClassifier(free_intercept=1), "free_intercept"),
    (ib.GLNClassifier(warm_start=1), "warm_start"),
    (ib.GLNClassifier(n_jobs=0), "n_jobs"),
    (ib.GLNClassifier(device="tpu"), "no device"),
    (ib.GLNClassifier(device="cuda:99"), "sees no device"),
    (ib.GatedReLUClassifier(gates="own"), "known: random, learned"),
    (ib.GLNClassifier(C="auto"), "C must be 'scale' or a positive number, not 'auto'"),
    (ib.GatedReLUClassifier(gates="learned", training="long"), "SGD"),
    (ib.HiddenLayerClassifier(units=2.5), "units"),
    (ib.GLNClassifier(constraints="f >= 0"), "constraints must be a function of the predictor f"),
    (ib.GLNClassifier(constraints=lambda f: f(np.zeros((1, 30))) >= 0), "the intercept must cancel in constraints"),
    (ib.GLNClassifier(constraints=lambda f: cp.square(f(np.zeros((1, 30)))) <= 0), "constraint 0 is not linear"),
    call=lambda model: model.fit(*scaled(load_breast_cancer, 200, NAMES)),
)


test_bad_samples = refusals(
    ([[1.0], [np.nan]], [0, 1], None, "NaN"),
    ([[1.0], [2.0]], [1, 1], None, "one class"),
    ([[1.0], [2.0]], [0.1, 0.7], None, "continuous"),
    ([[1.0], [2.0]], [0, 1], [1, -1], "[Nn]egative"),
    ([[1.0], [2.0]], [0, 1], [0, 0], "zero"),
    ([[1.0], [2.0]], [0, 1], [0, 1], "one class"),
    ([["a"], ["b"]], [0, 1], None, "could not convert"),
    (np.ma.masked_greater([[1.0], [2.0]], 1.5), [0, 1], None, "masked"),
    call=lambda X, y, weight: ib.GLNClassifier(2).fit(X, y, sample_weight=weight),
)


@pytest.fixture(scope="module")
def three():
    X, y = scaled(load_wine, names=("red", "rose", "white"))
    order = np.random.default_rng(1).permutation(len(X))[:90]
    return X[order], y[order]


@pytest.mark.parametrize(
    ("kind", "C", "gates"),
    [
        ("joint", 0.02, "contexts"),
        ("shared", np.inf, "contexts"),
        ("joint", np.inf, "random"),
        ("shared", 0.02, "random"),
        ("joint", 0.02, "learned"),
        ("shared", 0.02, "learned"),
    ],
)
def test_all_classes_at_once_are_the_formulation(three, kind, C, gates):
    X, y = three
    inputs, codes = np.c_[X, np.ones(len(X))], np.searchsorted(["red", "rose", "white"], y)
    if gates == "contexts":
        model, chosen = ib.GLNClassifier(3, 2, C, multi_class=kind, random_state=3), ib.HyperplaneGates(3, 2, 3, CUTOFF)
    else:
        model = ib.GatedReLUClassifier(4, C, gates=gates, training=ib.SGD(steps=50), multi_class=kind, random_state=3)
        chosen = ib.RandomHalfSpaces(4, 3, CUTOFF)
        if gates == "learned":
            network = ib.ReLUNetwork(14, 4, outputs=3, seed=3)
            ib.train(network, inputs, codes, ib.SGD(steps=50), seed=3)
            chosen = network.double().gates()
    problem = ib.svm_classes(inputs, codes, chosen.fitted(inputs), C, shared=kind == "shared")
    expected = ib.solve(problem)
    if expected.status.inseparable:
        with pytest.raises(ib.NotSeparableError, match="all classes: "):
            model.fit(X, y)
        return
    model.fit(X, y)
    assert (model.certificate_.gap, model.certificate_.objective) == (expected.gap, expected.objective)
    np.testing.assert_allclose(
        model.decision_function(X), problem.decision_function(expected.weights, inputs), atol=1e-9
    )
    assert (model.predict(X) == np.array(["red", "rose", "white"])[problem.predict(expected.weights, inputs)]).all()
    assert (model.weights_.shape[0], model.intercept_.tolist()) == (3, [0, 0, 0])
    assert set(model.support_) == set(expected.support // 2)
    assert "OPTIMAL" in model._repr_html_()


def test_weights_of_joint_classes(three):
    """In joint problems a weight of 2 equals two copies and 0 none, in cross-validation and warm starts too."""
    X, y = three
    weight = np.arange(len(X)) % 3
    options = {"C": 0.02, "multi_class": "joint", "random_state": 1}
    weighted = ib.GLNClassifier(3, **options).fit(X, y, weight)
    copied = ib.GLNClassifier(3, **options).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert weighted.certificate_.objective == pytest.approx(copied.certificate_.objective, rel=1e-6)
    rows, codes = np.repeat(np.arange(len(X)), weight), np.unique(y, return_inverse=True)[1]
    problem = ib.svm_classes(np.c_[X, np.ones(len(X))][rows], codes[rows], ib.HyperplaneGates(3, 2, 1, CUTOFF), 0.02)
    assert weighted.certificate_.objective == pytest.approx(ib.solve(problem).objective, rel=3e-6)
    chosen = ib.MarginClassifierCV(ib.GLNClassifier(3, **options), Cs=3, cv=2).fit(X, y)
    assert chosen.score(X, y) > 0.9
    assert chosen.gaps_.max() <= 1e-6
    for kind in ("joint", "shared"):
        again = ib.GLNClassifier(3, **options | {"multi_class": kind}, warm_start=True).fit(X, y)
        cold = ib.GLNClassifier(3, **options | {"multi_class": kind, "C": 0.03}).fit(X, y).certificate_
        warm = again.set_params(C=0.03).fit(X, y).certificate_
        assert warm.objective == pytest.approx(cold.objective, rel=2e-6)
    # Two classes are one problem, whatever is asked.
    two = y != "rose"
    pair, usual = (
        ib.GLNClassifier(3, multi_class=kind, random_state=1).fit(X[two], y[two]) for kind in ("shared", "ovr")
    )
    assert pair.certificate_.objective == usual.certificate_.objective


test_joint_problems_that_do_not_exist = refusals(
    (ib.GLNClassifier(multi_class="all"), "unknown multi_class 'all'"),
    (ib.GLNClassifier(multi_class="joint", norm="predictor-l2"), "takes norm='group-lasso' or 'frobenius'"),
    (ib.GLNClassifier(multi_class="shared", norm="frobenius"), "takes norm='group-lasso', not 'frobenius'$"),
    (ib.GLNClassifier(multi_class="joint", norm=ib.Frobenius()), "takes norm='group-lasso' or 'frobenius'"),
    (ib.GLNClassifier(multi_class="joint", constraints=lambda f: []), "use multi_class='ovr'"),
    (ib.HiddenLayerClassifier(multi_class="joint"), "HiddenLayerClassifier has no joint problem of several classes"),
    (
        ib.MultipleKernelClassifier(multi_class="joint"),
        "MultipleKernelClassifier has no joint problem of several classes",
    ),
    call=lambda model: model.fit(*scaled(load_wine)),
)


test_messages_name_the_fold = refusals(
    ({"cv": KFold(2)}, r"fold 1 of 2 is trained on one class only \(1\); shuffle or stratify the folds"),
    ({"cv": 3, "Cs": [np.inf]}, "fold 1 of 3: class 1: no weights separate"),
    ({"cv": 3, "scoring": lambda *_: np.nan}, "fold 1 of 3: scoring returned NaN or infinity"),
    call=lambda options: ib.MarginClassifierCV(ib.GLNClassifier(1, 1), **{"Cs": [0.1]} | options).fit(
        random(40, 2), np.repeat([0, 1], 20)
    ),
)


@pytest.mark.parametrize(
    "model",
    [
        ib.GLNClassifier(3, C=0.1, random_state=0, warm_start=True),
        ib.MultipleKernelClassifier(["linear", "rbf"], fit_intercept=True),
        GaLURegressor(3, random_state=0),
        ib.OneClassMargin(ib.GLNClassifier(3, random_state=0), nu=0.3),
    ],
    ids=lambda model: type(model).__name__,
)
def test_parameters_set_after_fit(model):
    X, y = load_iris(return_X_y=True)
    X, y = X[:100] + 3.0, y[:100]
    scores = model.fit(X, y).predict(X)
    inner = model.estimator_ if isinstance(model, ib.OneClassMargin) else model
    inner.set_params(fit_intercept=not inner.fit_intercept)
    np.testing.assert_array_equal(model.predict(X), scores)
    if hasattr(model, "as_model"):
        np.testing.assert_array_equal(model.as_model().predict(X), scores)
    fresh = clone(model).fit(X, y)
    np.testing.assert_allclose(model.fit(X, y).predict(X), fresh.predict(X))


def test_missing_values_and_text():
    for values, words in (
        ([0.5, np.nan, 1.0], "contains NaN; fill missing values"),
        ([0.5, "bad", 1.0], "'bad'; encode columns of text"),
        (pd.Categorical(["u", "v", "u"]), "Cannot cast.*; encode columns of text"),
        (pd.date_range("2024", periods=3), "columns of dates or durations; convert them"),
    ):
        table = pd.DataFrame({"a": pd.array([1, 2, 3], dtype="Int64"), "b": values})
        for estimator in (ib.GLNClassifier(2), GaLUClassifier(2)):
            with pytest.raises(ib.InputError, match=words) as told:
                estimator.fit(table, [0, 1, 0])
            assert "\n" not in str(told.value)
