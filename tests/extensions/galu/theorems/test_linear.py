"""Linear predictors of the first version: losses of least squares, and Rademacher bounds."""

import itertools
from fractions import Fraction

import numpy as np
import pytest

from implicit_bias import InputError
from implicit_bias.extensions.galu import (
    expected_test_loss,
    expected_train_loss,
    rademacher_bound,
)
from tests.cases import layer


@pytest.mark.parametrize(("m", "d"), [(30, 10), (16, 10)])
def test_expected_losses_are_means(m, d):
    rng, losses = np.random.default_rng(14), []
    for _ in range(4000):
        X, w = rng.normal(size=(m, d)), rng.normal(size=d)
        y = X @ w + 0.5 * rng.normal(size=m)
        fitted = np.linalg.lstsq(X, y, rcond=None)[0]
        losses.append((np.mean((X @ fitted - y) ** 2), 0.25 + (fitted - w) @ (fitted - w)))
    expected = expected_train_loss(m, d, 0.5), expected_test_loss(m, d, 0.5)
    assert (np.abs(np.mean(losses, axis=0) - expected) <= 3 * np.std(losses, axis=0) / np.sqrt(4000)).all()


def test_expected_losses_at_few_samples():
    assert expected_test_loss(12, 10, 3.0) == pytest.approx(11 * 9)
    assert expected_train_loss(12, 10, 3.0) == pytest.approx(2 * 9 / 12)
    assert expected_train_loss(5, 10) == 0
    for m, d in [(7, 3), (20, 11), (101, 99)]:
        exact = 1 + Fraction(d, m) + Fraction(d, m) * Fraction(d + 1, m - d - 1)
        assert expected_test_loss(m, d) == pytest.approx(float(exact), rel=1e-14)
        assert expected_test_loss(d + 2, d) == d + 1 <= d + 3
    with pytest.raises(InputError, match="m = d \\+ 2 = 12 samples on; m is 11"):
        expected_test_loss(11, 10)


@pytest.mark.parametrize("p", [1, 2])
def test_rademacher_bound_by_all_signs(p):
    """The suprema over balls are B‖Φᵀs‖_∞ and B‖Φᵀs‖₂; the mean over all 2^m signs is exact."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        features = layer(rng.normal(size=(10, 3)), 4, rng)
        dense = features.dense()
        dual = np.inf if p == 1 else 2
        exact = np.mean([np.linalg.norm(dense.T @ s, dual) for s in itertools.product([-1.0, 1.0], repeat=10)]) * 2 / 10
        assert 0.1 * rademacher_bound(features, 2.0, p) < exact <= rademacher_bound(features, 2.0, p)
        assert rademacher_bound(dense, 2.0, p) == pytest.approx(rademacher_bound(features, 2.0, p), rel=1e-14)
