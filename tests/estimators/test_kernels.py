"""Several kernels at once: the margin problem of their sum, certified as it predicts, inside scikit-learn."""

import pickle
from itertools import product

import cvxpy as cp
import mpmath as mp
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.svm import SVC

import implicit_bias as ib
from implicit_bias._utils.limits import TooLargeError
from implicit_bias.gates import half_space_kernel
from implicit_bias.gates.expansions import diagonal_of, entry_error, evaluated
from implicit_bias.gates.half_space_kernel import half_spaces, half_spaces_error, receptive_fields
from implicit_bias.solvers import expansions
from tests.cases import assert_refused, refusals, scaled
from tests.fuzz.kernels import exact_kernel, judged

KERNELS = ["linear", ("rbf", {"gamma": 0.05}), ("poly", {"degree": 2})]


@pytest.fixture(scope="module")
def cancer():
    return scaled(load_breast_cancer, 160)


@pytest.mark.parametrize(("C", "free"), [(0.1, True), (np.inf, False)])
def test_problem_of_cvxpy(cancer, C, free):
    X, y = cancer[0][::2], np.where(cancer[1][::2], 1.0, -1.0)
    model = ib.MultipleKernelClassifier(KERNELS, C, free_intercept=free).fit(X, y)
    roots = []
    for kernel in model.kernels_:
        values, vectors = np.linalg.eigh(kernel(X, X) / kernel(X, X).diagonal().mean())
        roots.append(vectors * np.sqrt(values.clip(0)))
    w, b, slack = [cp.Variable(len(X)) for _ in roots], cp.Variable(), cp.Variable(len(X), nonneg=True)
    outputs = sum(root @ one for root, one in zip(roots, w, strict=True)) + (b if free else 0)
    norm, price = sum(cp.norm(one) for one in w), 0.0 if np.isinf(C) else C
    allowed = [slack == 0] if np.isinf(C) else []
    problem = cp.Problem(cp.Minimize(norm + price * cp.sum(slack)), [cp.multiply(y, outputs) >= 1 - slack, *allowed])
    assert model.certificate_.objective == pytest.approx(problem.solve(solver="CLARABEL"), rel=1e-5)
    np.testing.assert_allclose(model.decision_function(X), outputs.value, atol=2e-3)


@pytest.mark.parametrize("first", [0, 20, 40])
def test_certificates_with_60_digits(first):
    """Bounds hold for the kernels themselves, and the upper one for what predicts; see `tests/fuzz/kernels.py`."""
    for number in range(first, first + 20):
        assert judged(np.random.default_rng([3, number]))[1] == []


@pytest.mark.parametrize("degree", [2, 3])
@pytest.mark.parametrize(("solver", "tol"), [(None, 1e-3), (None, 1e-6), ("CLARABEL", 1e-6)])
def test_polynomials_that_change_their_sign_too_seldom(degree, solver, tol):
    """The rounding of a kernel of rank d + 1 separates 2d + 1 points on a line, and its values do not."""
    for seed, count in ((0, 1), (1, 2)):
        X = np.sort(np.random.default_rng(seed).normal(size=(2 * degree + 1, 1)), axis=0)
        kernels = [("poly", {"degree": degree, "coef0": 1})] * count
        with pytest.raises(ib.NotSeparableError, match="no weights of a norm below") as error:
            ib.MultipleKernelClassifier(kernels, C=np.inf, tol=tol, solver=solver).fit(X, np.arange(len(X)) % 2)
        assert error.value.certificate.lower_bound > 1e4


def test_equal_samples_of_both_classes_with_uneven_weights():
    X = [[-2, 0], [8, -2e5], [-2, 0], [2, 2e5], [1, -2e5], [0, 0], [-3, 2e5]]
    model = ib.MultipleKernelClassifier([("poly", {"degree": 3, "coef0": 1.0, "gamma": 1.0})], C=np.inf)
    with pytest.raises(ib.NotSeparableError, match="no weights of a norm below"):
        model.fit(X, [1, 1, -1, -1, -1, 1, 1], sample_weight=[0.6, 0.17, 0.0024, 0.01, 5.9, 1902, 1.9])


NEAR = np.array([[3.0, 4.0, 0.0, 1.0], [3.0, 4.0, 1e-9, 1.0], [-0.1, 0.2, 5.0, 3.0], [0.0, 0.0, 0.0, 0.0]])


@pytest.mark.parametrize("X", [NEAR, NEAR + 1e6, 1e-3 * NEAR, 1e4 * NEAR], ids=["near", "far", "small", "large"])
@pytest.mark.parametrize("gamma", [1e-3, 1.0])
def test_errors_of_entries(X, gamma):
    """Stated errors hold against 60 digits."""
    for kernel in (
        *(("linear", {}), ("cosine", {}), ("rbf", {"gamma": gamma}), ("laplacian", {"gamma": gamma})),
        *(("poly", {"degree": d, "gamma": gamma, "coef0": c}) for d in (1, 3, 10) for c in (0.0, 2.0)),
        *(("sigmoid", {"gamma": gamma}), ("chi2", {"gamma": gamma}), ("half-spaces", {"hyperplanes": 30})),
        ("half-spaces", {"linear": 0.0, "sets": [[0, 1], [1, 2, 3]]}),
    ):
        own = np.abs(X) if kernel[0] == "chi2" else X
        found = evaluated(kernel, 0, own, own)
        with mp.workdps(60):
            exact = np.array([[exact_kernel(kernel, x, z) for z in own] for x in own])
            lengths = [mp.sqrt(abs(value)) for value in exact.diagonal()]
            bound = entry_error(kernel, own) * np.outer(lengths, lengths)
            assert (abs(found - exact) <= bound + 1e-300).all(), kernel


@pytest.mark.parametrize(("inputs", "b"), [(784, 1), (784, 100), (5_000, 30)])
def test_errors_of_half_spaces_next_to_the_switch(inputs, b):
    """Errors of the angle are largest where its cosine is computed last, and grow with b and the inputs."""
    rng, worst = np.random.default_rng(1), {}
    for dtype, distance in product((float, np.float32), (0.99, 1.01)):
        u, v = np.linalg.qr(rng.uniform(0, 1, (inputs, 2)))[0].T
        cosine = 1 - distance * half_space_kernel.NEARLY_PARALLEL[np.dtype(dtype).itemsize]
        X = np.stack([u, cosine * u + np.sqrt(1 - cosine**2) * v])
        found = half_space_kernel.half_spaces_of_samples(X, {"hyperplanes": b}, dtype)(np.arange(1), np.arange(1, 2))
        exact = exact_kernel(("half-spaces", {"hyperplanes": b}), *X)
        worst[dtype, distance] = abs(float(found[0, 0] - exact)) / half_spaces_error({"hyperplanes": b}, inputs, dtype)
    assert max(worst.values()) <= 1


def test_svc_of_the_best_kernel(cancer):
    """Scores are those of SVC with the kernel Σ η_m k_m/s_m, η = ‖w_m‖/Σ‖w‖, and the bound C‖w‖."""
    X, y = cancer
    model = ib.MultipleKernelClassifier(KERNELS, C=0.1, tol=1e-9).fit(X, y)
    best = sum(
        share * kernel(X, X) / kernel(X, X).diagonal().mean()
        for share, kernel in zip(model.kernel_weights_, model.kernels_, strict=True)
    )
    margins = np.where(y, 1, -1) * model.decision_function(X)
    norm = model.certificate_.objective - 0.1 * np.maximum(1 - margins, 0).sum()
    oracle = SVC(kernel="precomputed", C=0.1 * norm, tol=1e-8).fit(best, y)
    np.testing.assert_allclose(model.decision_function(X), oracle.decision_function(best), atol=1e-3)


def test_precomputed_kernels_names_and_functions(cancer):
    X, y = cancer
    functions = [lambda X, Z: X @ Z.T, lambda X, Z: rbf_kernel(X, Z, gamma=0.05)]
    known = [ib.PrecomputedKernel(function(X, X)) for function in functions]
    rows = np.arange(len(X))[:, None]
    scores = [
        cross_val_predict(ib.MultipleKernelClassifier(kernels, C=0.2), inputs, y, cv=3, method="decision_function")
        for kernels, inputs in ((KERNELS[:2], X), (functions, X), (known, rows))
    ]
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-6)
    np.testing.assert_allclose(scores[2], scores[0], atol=1e-6)
    search = GridSearchCV(ib.MultipleKernelClassifier(known), {"C": [0.05, 0.5]}, cv=3).fit(rows, y)
    assert search.best_score_ > 0.9


def test_several_classes_have_kernels_of_their_own():
    X, names = scaled(load_wine, names=("a", "b", "c"))
    model = ib.MultipleKernelClassifier(C=1.0).fit(X[::2], names[::2])
    assert model.kernel_weights_.shape == (3, 6)
    np.testing.assert_allclose(model.kernel_weights_.sum(axis=1), 1)
    assert len({tuple(row > 0) for row in model.kernel_weights_}) > 1
    assert model.score(X[1::2], names[1::2]) > 0.95
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_allclose(copy.decision_function(X), model.decision_function(X), rtol=1e-12)


def test_scale_of_normalised_kernels(cancer):
    X, y = cancer
    kernels = [lambda X, Z: X @ Z.T, lambda X, Z: 1e3 * rbf_kernel(X, Z, gamma=0.05)]
    usual, plain = (ib.MultipleKernelClassifier(kernels, C=0.1, normalise=n).fit(X, y) for n in (True, False))
    alike = ib.MultipleKernelClassifier(KERNELS[:2], C=0.1).fit(X, y)
    np.testing.assert_allclose(usual.kernel_weights_, alike.kernel_weights_, atol=1e-4)
    assert plain.kernel_weights_[1] > usual.kernel_weights_[1]


def test_inputs_far_from_zero_and_wide_apart(cancer):
    """Gaussian kernels do not depend on the origin, and neighbours count in a wide range, as in kelvin or seconds."""
    X, y = np.round(cancer[0] * 2**10) / 2**10, cancer[1]
    near = ib.MultipleKernelClassifier(["rbf"], C=1.0).fit(X, y).decision_function(X)
    far = ib.MultipleKernelClassifier(["rbf"], C=1.0).fit(2.0**30 + X, y).decision_function(2.0**30 + X)
    np.testing.assert_allclose(far, near, atol=1e-6)
    wide = np.repeat(np.arange(50.0) * 1e7, 2)[:, None]
    wide[1::2] += 0.5
    model = ib.MultipleKernelClassifier([("rbf", {"gamma": 1.0})]).fit(wide, np.arange(100) // 2 % 2)
    np.testing.assert_allclose(model.kernels_[0](wide[:2], wide[:2])[0], [1, np.exp(-0.25)], rtol=1e-15)
    assert model.status_.name == "OPTIMAL"


def test_kernel_in_single_precision(cancer):
    X, y = cancer
    rows = np.arange(len(X))[:, None]
    single = (X.astype(np.float32) @ X.astype(np.float32).T).astype(np.float32)
    scores = [
        ib.MultipleKernelClassifier([ib.PrecomputedKernel(K)], C=0.1, tol=1e-4).fit(rows, y).decision_function(rows)
        for K in (single, X @ X.T)
    ]
    np.testing.assert_allclose(*scores, atol=1e-3)


test_bad_kernels = refusals(
    ([], "must be at least one"),
    (["gauss"], "unknown kernel 'gauss'"),
    (["gaussian"], "the Gaussian kernel has the name 'rbf'"),
    ([("rbf", {"gamma": "wide"})], "unknown gamma 'wide'; known: scale, auto"),
    ([3], "a kernel is a function, a name"),
    ([lambda X: X], "kernel 0 cannot be called"),
    (["linear", "chi2"], "kernel 1 cannot be called: X contains negative"),
    ([lambda X, Z: X], "kernel 0 must give shape"),
    ([lambda X, Z: -(X @ Z.T)], "not positive semidefinite"),
    ([ib.PrecomputedKernel(np.eye(3))], "row numbers from 0 to 2"),
    ([("half-spaces", {"side": 3})], "fit square images, but there are 30 columns"),
    ([("half-spaces", {"sets": [[0, 0]]})], "different column numbers from 0 to 29"),
    ([("half-spaces", {"sets": [[0], []]})], "none empty"),
    ([("half-spaces", {"side": 2, "sets": [[0]]})], "leave one of them out"),
    ([("half-spaces", {"columns": 2, "count": 0})], "count must be"),
    ([("half-spaces", {"sets": [[[0], [1, 2]]]})], "different column numbers"),
    ([("half-spaces", {"columns": 2, "sets": [[0]]})], "takes sets, or side, or columns and perhaps count; leave"),
    ([("half-spaces", {"count": 2})], "takes sets, or side, or columns and perhaps count; leave"),
    ([("half-spaces", {"sides": 2})], "kernel 0 cannot be called"),
    call=lambda kernels: ib.MultipleKernelClassifier(kernels).fit(*scaled(load_breast_cancer, 160)),
)


def test_bad_parameters(cancer):
    assert_refused(lambda: ib.PrecomputedKernel(np.ones((2, 3))), "a row and a column")
    assert_refused(lambda: ib.MultipleKernelClassifier(normalise="yes").fit(*cancer), "normalise")
    with pytest.raises(ib.NotSeparableError):
        ib.MultipleKernelClassifier(["linear"], C=np.inf).fit([[0.0], [1.0], [2.0]], [0, 1, 0])


@pytest.mark.parametrize(("b", "linear"), [(1, 1.0), (2, 1.0), (1, 0.0), (2, 0.0)])
def test_half_spaces_are_the_limit_of_many_units(b, linear):
    """The kernel of H units, divided by H (SVM-Fro) or times K/H (SVM-L2), tends to the limit at the rate 1/√H."""
    X = np.random.default_rng(0).standard_normal((6, 3))
    units = 20_000
    features = ib.HyperplaneGates(units, 2**b, seed=1, cutoff=0.0).fit(X)(X)
    G, factor = features.gate_values, ib.PredictorL2(units, 2**b).factor
    if linear:
        share = G @ G.T / units
    else:
        # ‖W‖ = ‖BW‖ has the kernel gᵀB⁺B⁺ᵀg, and B has orthogonal rows of the lengths √K and √(HK).
        coordinates = (factor @ G.T).T / np.asarray(factor.power(2).sum(axis=1))
        share = coordinates @ coordinates.T * 2**b / units
    found = half_spaces(X, X, hyperplanes=b, linear=linear)
    np.testing.assert_allclose(share * (X @ X.T), found, atol=4 * (X**2).sum(axis=1).max() / units**0.5)


def test_half_spaces_are_exact_for_nearly_parallel_inputs():
    angles = 10.0 ** -np.arange(1, 13)
    X = np.column_stack([np.cos(angles), np.sin(angles)])
    error = half_spaces_error({}, 2)
    for sign in (1, -1):
        expected = sign * (1 - angles / np.pi if sign > 0 else angles / np.pi) * np.cos(angles)
        np.testing.assert_allclose(half_spaces(X, np.array([[sign, 0.0]]))[:, 0], expected, rtol=0, atol=error)
    assert np.linalg.eigvalsh(half_spaces(X, X)).min() > -len(X) * error
    assert (half_spaces(np.zeros((1, 2)), X) == 0).all()
    assert_refused(lambda: half_spaces(X, X, hyperplanes=0), "hyperplanes must be a positive integer")


@pytest.mark.parametrize("fields", [{"side": 2, "stride": 1}, {"sets": [[0, 1, 2], [3], [2, 3, 4]]}])
def test_receptive_fields_are_the_limit_of_many_units(fields):
    """Random half-spaces of each field times its inputs have the kernel, up to 1/√H."""
    rng, units = np.random.default_rng(0), 20_000
    X = rng.standard_normal((6, 9))
    expected = np.zeros((6, 6))
    for columns in receptive_fields(9, **fields):
        part = X[:, columns]
        open_ = (part @ rng.standard_normal((len(columns), units)) > 0) * np.sqrt(2 / units)
        expected += (open_ @ open_.T) * (part @ part.T)
    found = half_spaces(X, X, **fields)
    np.testing.assert_allclose(found, expected, atol=4 * np.abs(found).max() / units**0.5)
    np.testing.assert_allclose(diagonal_of(("half-spaces", fields), X), found.diagonal(), rtol=1e-12)


def test_random_sets_of_columns_are_seeded_and_contain_the_constant(cancer):
    X, y = cancer[0][:, :6], cancer[1]
    drawn, again, other = (
        ib.MultipleKernelClassifier(("half-spaces", {"columns": 2, "count": 9}), fit_intercept=True, random_state=seed)
        for seed in (0, 0, 1)
    )
    (_, parameters), sets = drawn.fit(X, y).as_model().problems[0].gates.kernels[0], []
    for columns in parameters["sets"]:
        assert len(set(columns)) == 3
        assert columns[-1] == 6
        sets.append(columns)
    given = ib.MultipleKernelClassifier(("half-spaces", {"sets": sets}), fit_intercept=True).fit(X, y)
    scores = [model.fit(X, y).decision_function(X) for model in (drawn, again, other)]
    np.testing.assert_array_equal(scores[0], given.decision_function(X))
    np.testing.assert_array_equal(scores[0], scores[1])
    assert (scores[0] != scores[2]).any()


def patches(n, seed):
    """Images of 6 × 6 pixels and lengths from 1e-3 to 1e3; many patches are empty, equal or nearly parallel."""
    rng = np.random.default_rng(seed)
    images = rng.standard_normal((n, 6, 6)) * (rng.random((n, 6, 1)) < 0.3) * (rng.random((n, 1, 6)) < 0.6)
    images[::5] = np.random.default_rng(0).standard_normal((6, 6)) + 1e-5 * images[::5]
    return (images - 0.1).reshape(n, 36) * 10.0 ** rng.uniform(-3, 3, (n, 1))


@pytest.mark.parametrize("parameters", [{}, {"hyperplanes": 3}, {"linear": 0.0}])
@pytest.mark.parametrize("fields", [{}, {"side": 3, "stride": 1}])
def test_half_spaces_with_frequent_directions(parameters, fields, monkeypatch):
    """Values are those of the formula, up to rounding and, in single precision, up to the stated bound."""
    for name, value in (("TILE_ROWS", 20), ("SUMMED", 7), ("SMALL", 0)):
        monkeypatch.setattr(half_space_kernel, name, value)
    X, Z = patches(70, 1), patches(150, 2)
    b, linear = parameters.get("hyperplanes", 1), parameters.get("linear", 1.0)
    expected = np.zeros((70, 150))
    for columns in receptive_fields(36, **fields):
        U, V = (A[:, columns] / np.linalg.norm(A[:, columns], axis=1, keepdims=True) for A in (X, Z))
        differences, sums = (np.linalg.norm(U[:, None] - sign * V, axis=2) for sign in (1, -1))
        angles = 2 * np.arctan2(differences, sums)
        expected += ((1 - angles / np.pi) ** b - (1 - linear) / 2**b) * (X[:, columns] @ Z[:, columns].T)
    kernel = ("half-spaces", parameters | fields)
    sizes = np.sqrt(np.outer(diagonal_of(kernel, X), diagonal_of(kernel, Z)))
    found = half_spaces(X, Z, **parameters, **fields)
    assert (np.abs(found - expected) <= half_spaces_error(kernel[1], 36) * sizes).all()
    bound = half_spaces_error(kernel[1], 36, np.float32)
    assert bound < 1e-4
    single = half_space_kernel.half_space_expansion(Z, np.eye(150), **parameters, **fields)(X)
    assert (np.abs(single - expected) <= bound * sizes).all()
    rows = half_space_kernel.half_spaces_of_samples(np.vstack([X, Z]), kernel[1])
    assert (np.abs(rows(np.arange(70), np.arange(70, 220)) - expected) <= bound * sizes).all()


@pytest.mark.parametrize("b", [3, 100, 1000])
@pytest.mark.parametrize("size", [1e-151, 1.0, 1e140])
def test_half_spaces_of_many_hyperplanes_and_of_any_size(b, size, monkeypatch):
    monkeypatch.setattr(half_space_kernel, "SMALL", 0)
    rng = np.random.default_rng(3)
    X = rng.standard_normal((30, 4))
    X[1], X[2] = 2 * X[0], X[0] + 1e-3
    U = X / np.linalg.norm(X, axis=1, keepdims=True)
    differences, sums = (np.linalg.norm(U[:, None] - sign * U, axis=2) for sign in (1, -1))
    expected = (1 - 2 * np.arctan2(differences, sums) / np.pi) ** b * (X @ X.T)
    sizes = np.sqrt(np.outer(*2 * [np.einsum("ij,ij->i", X, X)]))
    exact, parameters = half_spaces(size * X, X, hyperplanes=b), {"hyperplanes": b}
    assert (np.abs(exact / size - expected) <= half_spaces_error(parameters, 4) * sizes).all()
    found = half_space_kernel.half_space_expansion(X, np.eye(30), **parameters)(size * X) / size
    assert (np.abs(found - expected) <= half_spaces_error(parameters, 4, np.float32) * sizes).all()


def test_different_directions_with_equal_projections():
    """Their random projections, rounded to 13 digits, are equal."""
    w = np.random.default_rng(0).uniform(-1, 1, 2)
    u = w / np.linalg.norm(w)
    near = u + 3e-7 * np.array([-u[1], u[0]])
    assert half_spaces(u[None], near[None])[0, 0] == pytest.approx(1 - 3e-7 / np.pi, abs=1e-13)
    stored = half_space_kernel.half_spaces_of_samples(np.vstack([np.tile(u, (9, 1)), near]), {})
    assert stored(np.arange(1), np.arange(8, 10))[0, 1] == pytest.approx(1 - 3e-7 / np.pi, abs=1e-13)


def test_half_spaces_of_empty_parts():
    X = np.random.default_rng(4).random((40, 16)) * (np.arange(16) < np.arange(40)[:, None] % 5 * 4)
    fields = {"side": 2, "stride": 2}
    expected = sum(half_spaces(X[:, part], X[:, part]) for part in receptive_fields(16, **fields))
    atol = 2 * half_spaces_error(fields, 16) * expected.diagonal().max()
    np.testing.assert_allclose(half_spaces(X, X, **fields), expected, rtol=0, atol=atol)
    assert half_spaces(X, X[:0], **fields).shape == (40, 0)
    assert half_spaces(X[:0], X, **fields).shape == (0, 40)


@pytest.mark.parametrize("kernel", ["linear", ("half-spaces", {"sets": [[0], [1]]}), ("poly", {"degree": 2})])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_kernels_of_low_rank(kernel, C):
    """Without `normalise`, rounding of the kernel may leave too large a gap, and factors follow."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((300, 5))
        y = X[:, 0] + 0.3 * rng.standard_normal(300) > 0
        for normalise, free in product((True, False), repeat=2):
            model = ib.MultipleKernelClassifier([kernel], C, normalise=normalise, free_intercept=free).fit(X, y)
            assert model.status_.name == "OPTIMAL"


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
def test_certificate_from_rows_in_single_precision(tol):
    """Outputs of support vectors and of samples near the margin are in double precision; others have stated errors."""
    X, y = load_digits(return_X_y=True)
    kernel = ("half-spaces", {"side": 4, "stride": 2})
    X, y = X[:600] - X[:600].mean(axis=0), y[:600] % 3
    model = ib.MultipleKernelClassifier([kernel], C=0.1, tol=tol).fit(X, y)
    K = half_spaces(X, X, side=4, stride=2)
    certificates = model.certificate_
    exact = half_spaces(X, model.support_vectors_, side=4, stride=2) @ model.dual_coef_[:, 0].T + model.intercept_
    margins = np.where(y[:, None] == range(3), 1, -1) * exact
    scale = K.diagonal().mean()
    lengths = np.sqrt(half_spaces(model.support_vectors_, model.support_vectors_, side=4, stride=2).diagonal())
    bound = half_spaces_error(kernel[1], 64, np.float32) * np.outer(
        np.sqrt(K.diagonal()), np.abs(model.dual_coef_[:, 0]) @ lengths
    )
    assert (np.abs(model.decision_function(X) - exact) <= bound).all()
    for c, certificate in enumerate(certificates):
        a = model.dual_coef_[c, 0]
        norm = np.sqrt(a @ half_spaces(model.support_vectors_, model.support_vectors_, side=4, stride=2) @ a * scale)
        slack = np.maximum(1 - margins[:, c], 0)
        assert certificate.gap <= tol
        assert certificate.objective == pytest.approx(norm + 0.1 * slack.sum(), rel=1e-9)
        assert certificate.lower_bound <= norm + 0.1 * slack.sum()
        near = margins[:, c] < 1
        np.testing.assert_allclose(certificate.margins[near], margins[near, c], rtol=0, atol=1e-9)
        np.testing.assert_allclose(certificate.margins, margins[:, c], rtol=0, atol=1e-9 if tol < 1e-3 else 1e-4)


@pytest.mark.parametrize(("C", "free"), [("scale", True), (0.3, False), (np.inf, True), (np.inf, False)])
@pytest.mark.parametrize("kernels", [[("rbf", {"gamma": 0.1})], KERNELS], ids=["one", "several"])
def test_kernels_by_rows_and_by_factors(cancer, kernels, C, free):
    """Both methods certify the same optimum; that of factors runs if the solver is not NATIVE, here by another name."""
    X, y = cancer
    rows = ib.MultipleKernelClassifier(kernels, C, free_intercept=free).fit(X, y)
    factors = ib.MultipleKernelClassifier(kernels, C, free_intercept=free, solver="CLARABEL").fit(X, y)
    assert rows.status_.name == "OPTIMAL"
    assert pytest.approx(factors.C_) == rows.C_
    assert rows.certificate_.objective == pytest.approx(factors.certificate_.objective, rel=1e-5)
    np.testing.assert_allclose(rows.decision_function(X), factors.decision_function(X), atol=2e-3)
    margins = np.where(y, 1, -1) * rows.decision_function(X)
    np.testing.assert_allclose(margins, rows.certificate_.margins, atol=1e-9)


def test_one_kernel_of_several_classes_is_saved_and_continued(tmp_path):
    X, y = scaled(load_wine)
    model = ib.MultipleKernelClassifier(("half-spaces", {"hyperplanes": 2}), fit_intercept=True, warm_start=True)
    model.fit(X, y)
    assert [c.gap < 1e-6 for c in model.certificate_] == [True] * 3
    assert model.dual_coef_.shape[:2] == (3, 1)
    again = ib.load_model(ib.save_model(model, tmp_path / "model.npz"))
    np.testing.assert_allclose(again.decision_function(X), model.decision_function(X), atol=1e-12)
    scores, rounds = model.decision_function(X), sum(c.iterations for c in model.certificate_)
    model.fit(X, y)
    assert sum(c.iterations for c in model.certificate_) < rounds
    np.testing.assert_allclose(model.decision_function(X), scores, atol=1e-4)


@pytest.mark.parametrize("kernels", [["linear"], KERNELS], ids=["one", "several"])
def test_kernels_end_at_their_time_limit(cancer, kernels):
    X, y = cancer
    with pytest.warns(ConvergenceWarning, match="time limit"):
        model = ib.MultipleKernelClassifier(kernels, C=1.0, max_seconds=1e-9).fit(X, y)
    certificate = model.certificate_
    assert model.status_.name == "TIME_LIMIT"
    assert 0 <= certificate.lower_bound < certificate.objective < np.inf


@pytest.mark.filterwarnings("ignore:class 1. all weights")
def test_kernels_need_no_factors(cancer, monkeypatch):
    """Factors are computed only if the certificate of the kernel matrices is inconclusive."""
    X, y = cancer
    made, by_factors = [], expansions._by_factors
    monkeypatch.setattr(expansions, "_by_factors", lambda *given: made.append(1) or by_factors(*given))
    constants = [lambda X, Z, size=size: np.full((len(X), len(Z)), size) for size in (0.0, 1.0)]
    for kernels, C in (
        ("rbf", 0.1),
        (KERNELS, 0.1),
        (KERNELS, 1e-4),
        ([*KERNELS, constants[0]], 0.1),
        ([*KERNELS, constants[1]], 0.1),
    ):
        # Zero weights are best at the second C. With the free intercept, the last kernel adds up to nearly 0.
        model = ib.MultipleKernelClassifier(kernels, C, tol=1e-4).fit(X, y)
        assert (model.status_.name, made) == ("OPTIMAL", [])
        assert model.dual_coef_.any() == (C > 1e-4)
    with pytest.raises(ib.NotSeparableError):
        ib.MultipleKernelClassifier(["linear", "linear"], C=np.inf).fit([[0.0], [1.0], [2.0]], [0, 1, 0])
    assert made == []


def test_memory_is_asked_for_before_kernels_are_computed(cancer, monkeypatch):
    monkeypatch.setattr("implicit_bias._utils.limits.free_memory", lambda: 1e5)
    with pytest.raises(TooLargeError, match="3 kernels of 160 samples"):
        ib.MultipleKernelClassifier(KERNELS).fit(*cancer)


def test_the_scales_of_gamma_are_those_of_svc(cancer):
    X, y = cancer[0] + 1.0, cancer[1]
    for gamma, value in (("scale", 1 / (X.shape[1] * X.var())), ("auto", 1 / X.shape[1])):
        model = ib.MultipleKernelClassifier(("rbf", {"gamma": gamma}), C=1.0).fit(X, y)
        same = ib.MultipleKernelClassifier(("rbf", {"gamma": value}), C=1.0).fit(X, y)
        np.testing.assert_allclose(model.decision_function(X), same.decision_function(X), rtol=1e-6, atol=1e-6)
        twice = ib.MultipleKernelClassifier(("rbf", {"gamma": gamma}), C=0.5).fit(np.vstack([X, X]), np.tile(y, 2))
        np.testing.assert_allclose(twice.decision_function(X), same.decision_function(X), rtol=1e-4, atol=1e-4)
