"""Gates that are the kernel expansions of a fitted classifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

import numpy as np

from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import SMALLEST, Array, InputError, as_floats
from implicit_bias._utils.scaling import length
from implicit_bias.features import GatedFeatures
from implicit_bias.gates.base import Gates

#: Rounding error of a Gaussian kernel above which the differences of inputs are formed one by one, which is slower.
MAX_CANCELLATION = 1e-12
#: 1 − |cos θ| below which the angle θ of two inputs is computed from the difference of their directions.
NEARLY_PARALLEL = 1e-6


class KernelExpansions(Gates):
    """Kernel expansions g_m(x) = Σ_i a_mi k_m(x, x_i), one per kernel, as gates of the constant input 1.

    The features are (ΦW)(x) = Σ_m W_m g_m(x) for W (k, 1).

    Parameters
    ----------
    kernels : sequence
        Functions k(X, Z) from inputs (n, d) and (m, d) to a matrix (n, m), or pairs of a name of scikit-learn's
        `pairwise_kernels`, or "half-spaces", and a dict of parameters. Only such pairs can be saved.
    samples : array, shape (s, d)
        The x_i.
    coefficients : array, shape (k, s)
        The a_mi.

    Raises
    ------
    InputError
        If shapes do not match, or a kernel cannot be evaluated.

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
        self.kernels = list(kernels)
        self.samples = as_floats(samples, "samples", 2)
        self.coefficients = as_floats(coefficients, "coefficients", 2)
        if self.coefficients.shape != (len(self.kernels), len(self.samples)):
            raise InputError(
                f"coefficients must have shape {(len(self.kernels), len(self.samples))}, a row per kernel and a column "
                f"per sample, not {self.coefficients.shape}"
            )
        self.n_features_in_ = self.samples.shape[1]
        self.groups = np.arange(len(self.kernels))

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Return the gates, which do not depend on X."""
        return self

    def restore(self, **learned: Any) -> Self:
        self.require_named()
        return super().restore(**learned)

    def require_named(self) -> None:
        """Raise InputError unless all kernels are names with numbers as parameters, which can be saved."""
        named = [kernel for kernel in self.kernels if not callable(kernel)]
        given = [item for _, parameters in named for item in parameters.items()]
        wrong = [name for name, value in given if name == "n_jobs" or not isinstance(value, int | float | None)]
        if len(named) < len(self.kernels) or wrong:
            raise InputError(
                "a kernel that is a function or a matrix, or has parameters other than numbers, cannot be saved; "
                "pickle the classifier"
            )

    def transform(self, X: Any) -> Array:
        X = self._fitted_inputs(X)
        values = np.zeros((len(X), len(self.kernels)))
        for rows in row_blocks(len(X)):
            for m in np.flatnonzero(self.coefficients.any(axis=1)).tolist():
                values[rows, m] = evaluated(self.kernels[m], m, X[rows], self.samples) @ self.coefficients[m]
        return values

    def __call__(self, X: Any) -> Any:
        """Return the features g(x) of inputs X, with d = 1."""
        values = self.transform(X)
        # A Gaussian kernel nearly vanishes far from all samples, and features would refuse such sizes.
        values[np.abs(values) < SMALLEST] = 0.0
        return GatedFeatures(np.ones((len(values), 1)), values)


def function_of(kernel: Any) -> Callable[[Array, Array], Any]:
    """Return the function k(X, Z) of a kernel that is given as a function, or as a name and a dict of parameters.

    >>> function_of(("poly", {"degree": 2, "coef0": 0, "gamma": 1}))(np.eye(2), np.ones((1, 2))).tolist()
    [[1.0], [1.0]]
    """
    if callable(kernel):
        function: Callable[[Array, Array], Any] = kernel
        return function
    # Imported here because only kernels given by name need it.
    from sklearn.metrics.pairwise import pairwise_kernels

    name, parameters = kernel
    ours: dict[str, Callable[..., Array]] = {"rbf": gaussian, "half-spaces": half_spaces}
    return partial(ours.get(name, partial(pairwise_kernels, metric=name)), **parameters)


def gaussian(X: Array, Z: Array, gamma: float | None = None, **options: Any) -> Array:
    """Return the Gaussian kernel exp(−γ‖x − z‖²), accurate also for inputs far from 0; γ is 1/d by default.

    >>> far = 1e9 + np.arange(3.0)[:, None]
    >>> bool((gaussian(far, far) == gaussian(far - 1e9, far - 1e9)).all())
    True
    """
    # Imported here because only kernels given by name need them.
    from scipy.spatial.distance import cdist
    from sklearn.metrics.pairwise import pairwise_kernels

    gamma = 1 / X.shape[1] if gamma is None else gamma
    centre = Z.mean(axis=0)
    X, Z = X - centre, Z - centre
    # ‖x‖² + ‖z‖² − 2⟨x, z⟩ cancels for neighbours, with an error of this multiple of the machine epsilon.
    error = gamma * ((X**2).sum(axis=1).max() + (Z**2).sum(axis=1).max()) * np.finfo(float).eps
    if error > MAX_CANCELLATION:
        return np.asarray(np.exp(-gamma * cdist(X, Z, "sqeuclidean")))
    return np.asarray(pairwise_kernels(X, Z, metric="rbf", gamma=gamma, **options))


def half_spaces(X: Array, Z: Array, hyperplanes: int = 1, linear: float = 1.0) -> Array:
    """Return the kernel of infinitely many gated linear units with random contexts.

        k(x, z) = ((1 − θ/π)^b − (1 − l) 2⁻ᵇ) ⟨x, z⟩,   θ the angle of x and z

    The contexts of a unit are the 2ᵇ sides of b = `hyperplanes` hyperplanes ⟨v, x⟩ = 0 with independent v ~ N(0, I).
    1 − θ/π, the arc-cosine kernel of order 0, is the probability that x and z are on the same side of a hyperplane, and
    2⁻ᵇ the mean share of a context. For H → ∞ units, l = `linear` = 1 is the limit of SVM-Fro (of its kernel divided by
    H), and l = 0 that of SVM-L2, up to a factor. Both statements are ours.

    >>> half_spaces(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [1.0, 1.0]])).round(12).tolist()
    [[1.0, 0.75]]
    """
    if int(hyperplanes) != hyperplanes or hyperplanes < 1 or not 0 <= linear <= 1:
        raise InputError(
            f"hyperplanes must be a positive integer and linear between 0 and 1, not {hyperplanes} and {linear}"
        )
    sizes = np.asarray(length(X, axis=1)), np.asarray(length(Z, axis=1))
    U, V = (A / np.where(size > 0, size, 1.0)[:, None] for A, size in zip((X, Z), sizes, strict=True))
    cosines = U @ V.T
    products = sizes[0][:, None] * cosines * sizes[1]
    near = np.nonzero(np.abs(cosines) > 1 - NEARLY_PARALLEL)
    signs = np.sign(cosines[near])
    # arccos loses half of the digits for nearly parallel directions.
    angles = np.arccos(np.clip(cosines, -1, 1, out=cosines), out=cosines)
    small = 2 * np.arcsin(np.asarray(length(U[near[0]] - signs[:, None] * V[near[1]], axis=1)) / 2)
    angles[near] = np.where(signs > 0, small, np.pi - small)
    shares = (1 - angles / np.pi) ** hyperplanes - (1 - linear) / 2.0**hyperplanes
    return np.asarray(np.multiply(shares, products, out=shares))


def evaluated(kernel: Any, m: int, X: Array, Z: Array) -> Array:
    """Return k(X, Z), shape (n, s), of the kernel number m for X (n, d) and Z (s, d); InputError otherwise."""
    try:
        values = as_floats(function_of(kernel)(X, Z), f"the values of kernel {m}", 2)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"kernel {m} cannot be called: {error}") from error
    if values.shape != (len(X), len(Z)):
        raise InputError(f"kernel {m} must give shape {(len(X), len(Z))} here, not {values.shape}")
    return values
