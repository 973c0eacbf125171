"""Gates that are the kernel expansions of a fitted classifier."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

import numpy as np

from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import SMALLEST, Array, InputError, as_floats
from implicit_bias._utils.scaling import length
from implicit_bias._utils.threads import in_threads
from implicit_bias.features import GatedFeatures
from implicit_bias.gates.base import Gates

#: Rounding error of a Gaussian kernel above which the differences of inputs are formed one by one, which is slower.
MAX_CANCELLATION = 1e-12
#: Rows and columns of a tile of a half-space kernel, which is computed at once.
TILE = 256
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
        """Raise InputError unless each kernel can be saved: a name with numbers as parameters."""
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
    """Return the Gaussian kernel exp(−γ‖x − z‖²), shape (n, m), without cancellation far from 0; γ is 1/d by default.

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


def half_spaces(
    X: Array,
    Z: Array,
    hyperplanes: int = 1,
    linear: float = 1.0,
    side: int | None = None,
    stride: int = 1,
    sets: Sequence[Sequence[int]] | None = None,
) -> Array:
    """Return the kernel of infinitely many gated linear units with random contexts.

        k(x, z) = Σ_p ((1 − θ_p/π)^b − (1 − l) 2⁻ᵇ) ⟨x_p, z_p⟩,   θ_p the angle of x_p and z_p

    The contexts of a unit are the 2ᵇ sides of b = `hyperplanes` hyperplanes ⟨v, x_p⟩ = 0 with independent v ~ N(0, I).
    1 − θ/π, the arc-cosine kernel of order 0, is the probability that x_p and z_p are on the same side of a hyperplane,
    and 2⁻ᵇ the mean share of a context. For H → ∞ units, l = `linear` = 1 is the limit of SVM-Fro (of its kernel
    divided by H), and l = 0 that of SVM-L2, up to a factor. Both statements are ours.

    x_p are the receptive fields of the units, the features being ⊕_p g(x_p) ⊗ x_p. By default there is one field, all
    of x. `side` and `stride` give the patches of square images, `sets` any sets of columns.

    >>> half_spaces(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [1.0, 1.0]])).round(12).tolist()
    [[1.0, 0.75]]
    >>> half_spaces(np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [1.0, 1.0]]), sets=[[0], [1]]).round(12).tolist()
    [[1.0, 1.0]]
    """
    if int(hyperplanes) != hyperplanes or hyperplanes < 1 or not 0 <= linear <= 1:
        raise InputError(
            f"hyperplanes must be a positive integer and linear between 0 and 1, not {hyperplanes} and {linear}"
        )
    values = np.zeros((len(X), len(Z)))
    # Tiles stay in the cache.
    tiles = list(itertools.product(row_blocks(len(X), TILE), row_blocks(len(Z), TILE)))
    for columns in receptive_fields(X.shape[1], side, stride, sets):
        left, right = (_directions(A[:, columns]) for A in (X, Z))

        def add(tile: tuple[slice, slice], left: Any = left, right: Any = right) -> None:
            (U, sizes, keys), (V, other_sizes, other_keys) = (
                [part[rows] for part in given] for given, rows in zip((left, right), tile, strict=True)
            )
            found = U @ V.T
            products = found * other_sizes
            products *= sizes[:, None]
            shares = _angles(found, U, V, keys[:, None] == other_keys)
            shares *= -1 / np.pi
            shares += 1.0
            if hyperplanes > 1:
                # Faster than a power.
                one = shares.copy()
                for _ in range(int(hyperplanes) - 1):
                    shares *= one
            if linear < 1:
                shares -= (1 - linear) / 2.0**hyperplanes
            shares *= products
            values[tile] += shares

        in_threads(add, tiles)
    return values


def receptive_fields(
    inputs: int, side: int | None = None, stride: int = 1, sets: Sequence[Sequence[int]] | None = None
) -> list[Any]:
    """Return the columns of each receptive field of inputs (n, `inputs`), as indices, or as one slice of all columns.

    The fields are the patches of square images if `side` is given, `sets` if they are given, otherwise all columns.

    Raises
    ------
    InputError
        If patches do not fit the inputs, or a set is empty, has columns that do not exist, or has one twice.

    Examples
    --------
    >>> [field.tolist() for field in receptive_fields(9, side=2, stride=1)]
    [[0, 1, 3, 4], [1, 2, 4, 5], [3, 4, 6, 7], [4, 5, 7, 8]]
    """
    if side is not None and sets is not None:
        raise InputError("side gives patches and sets gives columns; leave one of them out")
    if sets is not None:
        fields = [np.asarray(one) for one in sets]
        whole = [field.ndim == 1 and field.size and np.issubdtype(field.dtype, np.integer) for field in fields]
        if (
            not fields
            or not all(whole)
            or any(field.min() < 0 or field.max() >= inputs or len(np.unique(field)) < len(field) for field in fields)
        ):
            raise InputError(f"sets must be lists of different column numbers from 0 to {inputs - 1}, none empty")
        return fields
    if side is None:
        return [slice(None)]
    width = math.isqrt(inputs)
    if width**2 != inputs or not 1 <= side <= width or stride < 1 or int(side) != side or int(stride) != stride:
        raise InputError(
            f"side={side} and stride={stride} must be whole numbers that fit square images, but there are {inputs} "
            "columns; keep fit_intercept=False, or give sets of columns"
        )
    image, corners = np.arange(inputs).reshape(width, width), range(0, width - int(side) + 1, int(stride))
    return [image[i : i + int(side), j : j + int(side)].ravel() for i in corners for j in corners]


def _directions(A: Array) -> tuple[Array, Array, Array]:
    """Return the directions (n, d) and lengths (n,) of the rows, and keys (n,), which are equal for equal directions.

    A key is a random projection of the direction, rounded to 13 digits. The direction of a zero row is 0.
    """
    sizes = np.asarray(length(A, axis=1))
    U = A / np.where(sizes > 0, sizes, 1.0)[:, None]
    weights = np.random.default_rng(0).uniform(-1, 1, U.shape[1])
    # BLAS is avoided because it may sum equal rows in different orders.
    return U, sizes, np.round(np.einsum("ij,j->i", U, weights), 13)


def _angles(cosines: Array, U: Array, V: Array, equal: np.ndarray) -> Array:
    """Return the angles (n, m) of unit vectors U (n, d) and V (m, d); `cosines` and `equal` (n, m) are overwritten.

    The angle is exactly 0 where `equal` is True, that is, the keys agree, and the cosine is nearly 1.
    """
    equal &= cosines > 1 - NEARLY_PARALLEL
    np.copyto(cosines, 0.0, where=equal)
    near: tuple[np.ndarray, ...] = ()
    if max(cosines.max(), -cosines.min()) > 1 - NEARLY_PARALLEL:
        near = np.nonzero(np.abs(cosines) > 1 - NEARLY_PARALLEL)
        signs = np.sign(cosines[near])
        np.clip(cosines, -1, 1, out=cosines)
    angles = np.arccos(cosines, out=cosines)
    if near:
        # arccos loses half of the digits for nearly parallel directions.
        small = 2 * np.arcsin(np.asarray(length(U[near[0]] - signs[:, None] * V[near[1]], axis=1)) / 2)
        angles[near] = np.where(signs > 0, small, np.pi - small)
    np.copyto(angles, 0.0, where=equal)
    return angles


def diagonal_of(kernel: Any, X: Array) -> Array:
    """Return k(x, x), shape (n,), for all rows x of X (n, d), without the matrix of the kernel.

    >>> diagonal_of(("half-spaces", {"sets": [[0], [0, 1]]}), np.array([[1.0, 2.0]])).tolist()
    [6.0]
    """
    if callable(kernel) or kernel[0] != "half-spaces":
        parts = [evaluated(kernel, 0, X[rows], X[rows]).diagonal() for rows in row_blocks(len(X), 100)]
        return np.concatenate(parts)
    evaluated(kernel, 0, X[:1], X[:1])
    own = {"hyperplanes": 1, "linear": 1.0, **kernel[1]}
    fields = receptive_fields(X.shape[1], **{name: own[name] for name in ("side", "stride", "sets") if name in own})
    total = np.sum([(X[:, columns] ** 2).sum(axis=1) for columns in fields], axis=0)
    return np.asarray(total * (1 - (1 - own["linear"]) / 2.0 ** own["hyperplanes"]))


def evaluated(kernel: Any, m: int, X: Array, Z: Array) -> Array:
    """Return k(X, Z), shape (n, s), for X (n, d) and Z (s, d); raise InputError about kernel m if that fails."""
    try:
        values = as_floats(function_of(kernel)(X, Z), f"the values of kernel {m}", 2)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"kernel {m} cannot be called: {error}") from error
    if values.shape != (len(X), len(Z)):
        raise InputError(f"kernel {m} must give shape {(len(X), len(Z))} here, not {values.shape}")
    return values
