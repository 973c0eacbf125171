"""What a fitted classifier of kernels makes of new inputs, kept as data."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from implicit_bias.features import GatedFeatures
from implicit_bias.gates.base import Gates
from implicit_bias.ground.blocks import row_blocks
from implicit_bias.ground.checks import Array, InputError, as_floats


class KernelExpansions(Gates):
    """One function a kernel, g_m(x) = Σ_i a_mi k_m(x, x_i), on the input 1: (ΦW)(x) = Σ_m W_m g_m(x) for W (k, 1).

    Parameters
    ----------
    kernels : sequence of (name, dict of parameters)
        As scikit-learn's `pairwise_kernels` takes them.
    samples : array, shape (s, d)
        The x_i.
    coefficients : array, shape (k, s)
        a.

    Examples
    --------
    >>> from implicit_bias.gates import KernelExpansions
    >>> gates = KernelExpansions([("linear", {}), ("rbf", {"gamma": 1.0})], np.eye(2), np.ones((2, 2)))
    >>> gates([[0.0, 0.0]]).dense().round(3).tolist()
    [[0.0, 0.736]]
    """

    made_of = ("kernels", "samples", "coefficients")
    learned = ("samples", "coefficients", "n_features_in_")

    def __init__(self, kernels: Sequence[Any], samples: Any, coefficients: Any) -> None:
        given = [item for _, parameters in kernels for item in parameters.items()]
        if any(name == "n_jobs" or not isinstance(value, int | float | None) for name, value in given):
            raise InputError("the parameters of kernels must be numbers, without n_jobs")
        self.kernels = [(str(name), dict(given)) for name, given in kernels]
        self.samples = as_floats(samples, "samples", 2)
        self.coefficients = as_floats(coefficients, "coefficients", 2)
        if self.coefficients.shape != (len(self.kernels), len(self.samples)):
            raise InputError("coefficients must have a row for each kernel, and a column for each sample")
        self.n_features_in_ = self.samples.shape[1]
        self.groups = np.arange(len(self.kernels))

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Nothing is left to fit."""
        return self

    def transform(self, X: Any) -> Array:
        """g(X), shape (n, k)."""
        # Gates without kernels do without.
        from sklearn.metrics.pairwise import pairwise_kernels

        X = self._fitted_inputs(X)
        values = np.zeros((len(X), len(self.kernels)))
        for rows in row_blocks(len(X)):
            for m, ((name, given), a) in enumerate(zip(self.kernels, self.coefficients, strict=True)):
                if a.any():
                    values[rows, m] = pairwise_kernels(X[rows], self.samples, metric=name, **given) @ a
        return values

    def __call__(self, X: Any) -> Any:
        """The features g(x): d = 1."""
        values = self.transform(X)
        return GatedFeatures(np.ones((len(values), 1)), values)
