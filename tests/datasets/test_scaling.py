"""Scalings are those of scikit-learn's scalers, and are undone."""

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from implicit_bias.datasets.scaling import Scaling
from tests.cases import refusals


def test_the_standard_scaling():
    X = np.random.default_rng(0).normal(size=(50, 3)) * [1.0, 1e6, 0.0] + [5.0, 0.0, 0.1]
    scaling = Scaling.standard(X)
    np.testing.assert_allclose(scaling(X), StandardScaler().fit_transform(X), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(scaling.undone(scaling(X)), X, rtol=1e-12)


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_squares_beyond_the_range_of_doubles(size):
    X = np.random.default_rng(0).normal(size=(50, 1))
    np.testing.assert_allclose(Scaling.standard(size * X)(size * X), StandardScaler().fit_transform(X), rtol=1e-10)


def test_limits_are_not_undone():
    scaling = Scaling([("add", [1.0]), ("maximum", [0.0]), ("minimum", [2.0]), ("multiply", [3.0])])
    assert scaling(np.array([[-5.0], [0.5], [5.0]])).ravel().tolist() == [0.0, 4.5, 6.0]
    assert scaling.undone(np.array([[4.5]])).tolist() == [[0.5]]


test_invalid_scalings_are_refused = refusals(
    ([("divide", [1.0, 0.0])], "must be positive"),
    ([("multiply", [-1.0])], "must be positive"),
    ([("exp", [1.0])], "unknown operation"),
    ([("add", [1.0]), ("add", [1.0, 2.0])], "regular 2-dimensional array"),
    ([], "the numbers of a scaling"),
    call=Scaling,
)
