"""Data sets of clusters with linear labels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from implicit_bias.extensions.galu import linear_clusters
from tests.cases import FEW


@FEW
@given(st.integers(0, 1000), st.floats(1e-9, 1.9), st.integers(2, 9))
def test_samples_are_unit_near_their_centres_and_linear(seed, radius, d):
    centres = np.random.default_rng(seed).normal(size=(3, d))
    X, y, cluster, V, maps = linear_clusters(50, centres, radius, seed=seed)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, rtol=1e-14)
    assert np.linalg.norm(X - V[cluster], axis=1).max() <= radius * (1 + 1e-9) + 1e-15
    np.testing.assert_array_equal(y, np.sum(X * maps[cluster], axis=1))
    again = linear_clusters(50, 7 * centres, radius / 2, seed=seed)
    np.testing.assert_array_equal(again.cluster, cluster)
    np.testing.assert_array_equal(again.maps, maps)


def test_linear_clusters_fill_caps_evenly():
    d, radius = 4, 0.01
    data = linear_clusters(30_000, np.eye(d)[:2], radius, shares=[3.0, 1.0], seed=2)
    assert np.mean(data.cluster) == pytest.approx(0.25, abs=3 * 0.44 / np.sqrt(30_000))
    apart = np.linalg.norm(data.X - data.centres[data.cluster], axis=1) / radius
    few, same = (linear_clusters(99, np.eye(d)[:2], radius, shares=Q) for Q in ([3.0, 1.0], [1.5e308, 0.5e308]))
    np.testing.assert_array_equal(few.cluster, same.cluster)
    # Evenly in three dimensions: the radius has the distribution function r³.
    assert np.mean(apart**3) == pytest.approx(0.5, abs=3 * 0.29 / np.sqrt(30_000))
    assert np.mean(apart**6) == pytest.approx(1 / 3, abs=3 * 0.3 / np.sqrt(30_000))
