"""Kernels in place of gates and inputs: the same problems as gated features."""

import dataclasses

import numpy as np
import pytest

import implicit_bias as ib
from implicit_bias.features.base import semidefinite
from tests.cases import assert_refused, refusals


@pytest.mark.parametrize("C", [np.inf, 0.01])
def test_kernels_of_groups_are_gated_features(gln, C):
    groups = gln.norm.groups
    kernels = []
    for group in range(6):
        columns = gln.features.gate_values[:, groups == group]
        kernels.append(ib.GatedFeatures(gln.features.X, columns).gram())
    features = ib.KernelFeatures.from_kernels(kernels)
    weights = [1.0, 2.0, 1.0, 0.5, 1.0, 3.0]
    case = ib.MarginProblem(features, gln.y, ib.GroupLasso(range(6), weights), C)
    base = dataclasses.replace(gln, C=C, norm=ib.GroupLasso(groups, weights))
    ours, other = ib.solve(case, "NATIVE", tol=1e-8), ib.solve(base, "NATIVE", tol=1e-8)
    assert ours.status is ib.Status.OPTIMAL
    assert ours.objective == pytest.approx(other.objective, rel=1e-6)
    np.testing.assert_allclose(features.extended(kernels) @ ours.weights, gln.y * ours.margins, atol=1e-6)


def test_working_sets_of_kernels(tiny_sets, gln):
    features = ib.KernelFeatures.from_kernels([gln.features.gram()])
    ours = ib.solve(ib.MarginProblem(features, gln.y, ib.Frobenius()), tiny_sets, tol=1e-8)
    assert ours.objective == pytest.approx(ib.solve(dataclasses.replace(gln, norm=ib.Frobenius())).objective, rel=1e-6)


test_bad_kernels = refusals(
    (np.ones((2, 3)), "3 dimension"),
    (np.ones((1, 2, 3)), "use extended"),
    ([[[1.0, 2.0], [0.0, 1.0]]], "not symmetric"),
    ([[[1.0, 2.0], [2.0, 1.0]]], "not positive semidefinite"),
    ([[[1e5, 1e5 + 1], [1e5 + 1, 1e5]]], "not positive semidefinite"),
    ([[[1.5, 1.501], [1.501, 1.5]]], "not positive semidefinite"),
    (np.array([[[1.5, 1.501], [1.501, 1.5]]], dtype=np.float32), "not positive semidefinite"),
    call=ib.KernelFeatures.from_kernels,
)


def test_semidefinite_kernels_are_unchanged_and_others_projected():
    X = np.random.default_rng(0).standard_normal((40, 5))
    K = X @ X.T
    assert semidefinite(K, "K") is K
    single = K.astype(np.float32).astype(np.float64)
    assert np.linalg.eigvalsh(single)[0] < -1e-9 * K.max()
    projected = semidefinite(single, "K")
    assert np.linalg.eigvalsh(projected)[0] > -1e-12 * K.max()
    np.testing.assert_allclose(projected, K, atol=1e-6 * K.max())
    assert_refused(lambda: semidefinite(-K, "K"), "K is not positive semidefinite")
