"""Units of few inputs: their features are those of all inputs with the others' columns left out."""

import numpy as np
import pytest

import implicit_bias as ib
from implicit_bias.estimators.interactions import FITTED, _some
from implicit_bias.solvers.native.kernels import StackedKernels, SubsetKernels
from implicit_bias.solvers.native.settings import Settings
from tests.cases import inputs, optimal, refusals


def units(columns, n=40, contexts=4):
    """Return inputs, of which the last is the constant 1, and fitted gates of five units."""
    X = np.hstack([inputs(n, 6), np.ones((n, 1))])
    return X, ib.SubsetGates(5, contexts, columns, seed=2).fit(X)


@pytest.mark.parametrize("columns", [2, [[0], [3, 1], [2, 4, 5]]])
@pytest.mark.parametrize("contexts", [1, 4])
def test_features_are_the_columns_of_the_subsets(columns, contexts):
    X, gates = units(columns, contexts=contexts)
    features, whole = gates(X), ib.GatedFeatures(X, gates.transform(X)).dense().reshape(len(X), 5, contexts, -1)
    padded = np.concatenate([whole, np.zeros((*whole.shape[:3], 1))], axis=3)
    expected = np.stack([padded[:, h, :, own] for h, own in enumerate(gates.subsets_)]).transpose(2, 0, 3, 1)
    np.testing.assert_array_equal(features.dense(), expected.reshape(len(X), -1))
    assert (gates.subsets_ == X.shape[1] - 1).any(axis=1).all(), "the constant is an input of every unit"
    for h in range(5):
        used = gates.directions_.reshape(5, -1, X.shape[1])[h].any(axis=0)
        assert set(np.flatnonzero(used)) <= set(gates.subsets_[h])


def test_unequal_subsets_do_not_change_the_certificate():
    """Padding is an input that is always 0, and the optimum is that of the features as general blocks."""
    X, gates = units([[0], [3, 1], [2, 4, 5]])
    y = np.sign(X[:, 0] * X[:, 1] + 0.1)
    problem = ib.svm_gln(X, y, gates, C=0.3).replace(intercept=True)
    blocks = problem.replace(features=ib.KernelFeatures(problem.features.dense().reshape(problem.features.shape)))
    one, other = ib.solve(problem, "NATIVE"), ib.solve(blocks, "CLARABEL")
    assert one.status is other.status is ib.Status.OPTIMAL
    assert one.objective == pytest.approx(other.objective, rel=2e-6)


def test_the_compiled_ascent_is_the_general_one():
    """Both maximise 1ᵀλ − ½ λᵀK(η)λ over one λ_i ∈ [0, p_i] at a time; skipped groups are left out of V alone."""
    X, gates = units(2)
    features, settings, signs = gates(X), Settings(passes=1), np.sign(X[:, 0])
    A = features.dense().reshape(len(X), 5, -1) * signs[:, None, None]
    kernels = StackedKernels(A, settings), SubsetKernels(features, signs, settings)
    eta, p, b, stiffness = np.array([0.5, 0.0, 1.0, 0.2, 0.0]), np.full(len(X), 0.3), np.array([0.3]), np.float64(2.0)
    lam, V = [np.zeros(len(X))] * 2, [np.zeros(A.shape[1:]) for _ in kernels]
    for _ in range(3):
        lam = [one.ascended(v, eta, old, p, signs, b, stiffness) for one, v, old in zip(kernels, V, lam, strict=True)]
        np.testing.assert_allclose(*lam, atol=1e-12)
        np.testing.assert_allclose(V[0][eta > 0], V[1][eta > 0], atol=1e-12)
        b = b + stiffness * (signs @ lam[0])
    assert ((lam[0] > 0) & (lam[0] < p)).any()
    assert (lam[0] == 0).any()
    assert not V[1][eta == 0].any()


def test_columns_of_zeros_do_not_count():
    A = np.pad(inputs(40, 20).reshape(40, 5, 4), ((0, 0), (0, 0), (0, 12)))
    assert [StackedKernels(A[:n], Settings()).by_features for n in (40, 39)] == [True, False]


def test_many_samples_with_noise_are_certified_at_every_size():
    """Screening skips units and lets them in again; the certificate counts all of them."""
    random = np.random.default_rng(0)
    X = np.hstack([random.normal(size=(3000, 8)), np.ones((3000, 1))])
    y = np.where(X[:, 0] * X[:, 1] + 0.7 * random.normal(size=3000) > 0, 1.0, -1.0)
    problem = ib.svm_gln(X, y, ib.SubsetGates(60, 4, 2).fit(X), C=0.02).replace(intercept=True)
    solution = optimal(problem, "NATIVE")
    assert ib.certify(problem, solution.weights, solution.dual, solution.intercept).gap <= 1e-6
    assert 0 < np.count_nonzero(problem.norm.group_norms(solution.weights) > 1e-6) < 60


test_what_does_not_fit_is_refused = refusals(
    (lambda X: ib.SubsetGates(columns=0).fit(X), "columns must be a whole number"),
    (lambda X: ib.SubsetGates(columns=[]).fit(X), "columns must be a whole number"),
    (lambda X: ib.SubsetGates(columns=[[99]]).fit(X), "columns from 0 to 6, not"),
    (lambda X: ib.SubsetFeatures(X, [[0]], [[0, 1]], 2), "must be"),
    (lambda X: ib.SubsetFeatures(X, np.full((40, 1), 2), [[0, 1]], 2), "contexts must be whole numbers from 0 to 1"),
    (lambda X: ib.SubsetFeatures(X, np.zeros((40, 1), int), [[0, 7]], 2), "subsets must be whole numbers from 0 to 6"),
    (lambda X: ib.svm_classes(X, np.arange(40) % 3, ib.SubsetGates(3)), "takes gates of all inputs"),
    (lambda X: ib.GatedLinearNetwork(ib.SubsetGates(3).fit(X)), "units of a GLN see all inputs"),
    (lambda X: ib.InteractionClassifier(tol="").fit(X, np.arange(40) % 2), "tol must be a positive number"),
    (lambda X: ib.InteractionClassifier(multi_class="joint").fit(X, np.arange(40) % 3), "multi_class='ovr' only"),
    call=lambda make: make(units(2)[0]),
)


def test_interactions_are_found():
    random = np.random.default_rng(1)
    X = random.normal(size=(900, 6))
    y = X[:, 1] * X[:, 4] + np.sin(2 * X[:, 2]) > 0
    first, found = (
        ib.InteractionClassifier(2, rounds=rounds, candidates=100, random_state=0).fit(X[:500], y[:500])
        for rounds in (0, 2)
    )
    assert found.interactions_[0][0] == (1, 4)
    assert sum(share for _, share in found.interactions_) == pytest.approx(1.0)
    assert found.score(X[500:], y[500:]) > 0.85
    assert found.certificate_.gap <= 1e-6
    # Units that entered lower the objective at the same C.
    problem = found._model.problems[0]
    assert found.certificate_.objective / problem.C < first.certificate_.objective / first.C_
    # Where all weights are zero, units enter all the same.
    zero = ib.InteractionClassifier(3, rounds=1, candidates=40, C=1e-4, random_state=0).fit(X[:300, :3], y[:300])
    assert (zero.weights_.any(), zero.gates_.subsets_.shape[1]) == (False, 4)


def test_columns_without_cutoffs_are_left_out():
    """Cutoffs are quantiles of 1000 samples, in which a rare column may be constant."""
    X = np.random.default_rng(2).normal(size=(1200, 2))
    rare, y = np.hstack([X, np.zeros((1200, 1)), np.ones((1200, 1))]), X[:, 0] * X[:, 1] > 0
    rare[np.setdiff1d(np.arange(1200), _some(rare, FITTED)), 2] = 1e-30
    found = ib.InteractionClassifier(rounds=1, candidates=50, tol=1e-2, random_state=0).fit(rare[:, :3], y)
    assert {column for columns, _ in found.interactions_ for column in columns} == {0, 1}
