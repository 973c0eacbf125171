"""Fully connected networks of infinite width: NNGP and neural tangent kernel, exact or with a bound of their error."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from implicit_bias._utils.checks import (
    Array,
    InputError,
    as_count,
    as_floats,
    as_fraction,
    as_positive,
    check_range,
    check_size,
)
from implicit_bias.extensions.infinite.activations import Activation
from implicit_bias.extensions.infinite.activations import activation as activation_of
from implicit_bias.extensions.infinite.angles import GaussianPairs, PairsDone, Points, mirror, repeated
from implicit_bias.extensions.infinite.gram import TOLERANCE, Gram
from implicit_bias.extensions.infinite.layers import EPS, Layer, PairErrors, first_errors, next_pairs

#: More hidden layers than this take hours.
MOST_LAYERS = 1000
#: Sizes of variances: more or less of them leave nothing of lengths.
VARIANCES = (1e-10, 1e10)
#: Of standard deviations of pre-activations, as of points.
LENGTHS = (1e-60, 1e60)


@dataclass(frozen=True)
class NetworkKernels:
    """Both kernels of an `InfiniteNetwork` on some points.

    Attributes
    ----------
    nngp : Gram
        K, the covariance of the outputs of random networks.
    ntk : Gram
        Θ = E[⟨∂f/∂θ, ∂f/∂θ⟩], the sum over all weights and biases.

    Examples
    --------
    >>> kernels = InfiniteNetwork("relu", layers=1, weight_variance=2.0).kernels([[1.0, 0.0], [0.0, 1.0]])
    >>> kernels.nngp.values.round(4).tolist(), kernels.ntk.values.round(4).tolist()
    ([[1.0, 0.3183], [0.3183, 1.0]], [[2.0, 0.3183], [0.3183, 2.0]])
    """

    nngp: Gram
    ntk: Gram


@dataclass(frozen=True)
class Depths:
    """What the points of one call have in common: their lengths before each layer, and the layers themselves.

    Attributes
    ----------
    lengths : list of array, shape (p,)
        Standard deviations of pre-activations, L + 1 times; points refer to them by their first one.
    layers : list of Layer
        L.
    off : list of float
        Bounds of the relative errors of the lengths, L + 1.
    """

    lengths: list[Array]
    layers: list[Layer]
    off: list[float]

    def at(self, level: int, first: Array) -> Array:
        """Lengths of the points (…) that had these lengths at first."""
        return self.lengths[level][np.searchsorted(self.lengths[0], first)]


@dataclass(frozen=True)
class InfiniteNetwork:
    """A fully connected network of infinite width with Gaussian weights and biases, all of them trained.

        z¹ = √(σ_w²/d) W¹x + σ_b b¹,    z^{l+1} = √(σ_w²/n) W^{l+1} σ(z^l) + σ_b b^{l+1},    f(x) = z^{L+1}

    with W and b drawn from N(0, 1), n → ∞ units a layer and L hidden layers (the parametrisation of neural tangent
    kernels, where σ_w and σ_b are factors and not trained).

    Raises InputError for unknown names and numbers outside these ranges.

    Parameters
    ----------
    activation : str or Activation
        As for `gram_matrix`.
    layers : int
        L, from 1 to 1000.
    weight_variance, bias_variance : float
        σ_w² from 1e-10 to 1e10, and σ_b², which may be 0.

    References
    ----------
    Lee et al. (2018), "Deep neural networks as Gaussian processes"; Jacot, Gabriel & Hongler (2018), "Neural tangent
    kernel: convergence and generalization in neural networks".

    Examples
    --------
    >>> network = InfiniteNetwork("relu", layers=2, weight_variance=2.0, bias_variance=0.1)
    >>> kernels = network.kernels([[1.0, 0.0], [0.6, 0.8]])
    >>> kernels.nngp.values.round(4).tolist(), kernels.ntk.values.round(4).tolist()
    ([[1.3, 1.0256], [1.0256, 1.3]], [[3.6, 2.0719], [2.0719, 3.6]])
    """

    activation: str | Activation = "relu"
    layers: int = 1
    weight_variance: float = 1.0
    bias_variance: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "activation", activation_of(self.activation))
        object.__setattr__(self, "layers", as_count(self.layers, "layers", most=MOST_LAYERS))
        weight = as_positive(self.weight_variance, "weight_variance")
        bias = as_positive(self.bias_variance, "bias_variance", zero=True)
        check_range(np.array([weight, bias or 1.0]), "the variances", *VARIANCES)
        object.__setattr__(self, "weight_variance", weight)
        object.__setattr__(self, "bias_variance", bias)

    def kernels(
        self,
        X: ArrayLike,
        Z: ArrayLike | None = None,
        *,
        tolerance: float = TOLERANCE,
        progress: PairsDone | None = None,
    ) -> NetworkKernels:
        """K and Θ between the points X (n, d), or between X and Z (m, d): (n, n) or (n, m).

            K¹ = Θ¹ = σ_b² + σ_w² ⟨x, x'⟩/d
            K^{l+1} = σ_b² + σ_w² E[σ(z)σ(z')],    Θ^{l+1} = K^{l+1} + σ_w² E[σ'(z)σ'(z')] Θ^l

        with (z, z') ~ N(0, K^l) of the pair, for l = 1 … L. The means are in closed form for relu, leaky relu, erf,
        gelu, elu, selu, polynomials and splines, otherwise Hermite series. `error` of each counts rounding, the series,
        and what later layers make of either; condition numbers of lengths are by quadrature, and count twice: they are
        estimates, which `is_certified` takes for granted.

        Raises InputError as `gram_matrix` does, for numbers of columns that differ, and for pre-activations whose
        standard deviations leave 1e-60 to 1e60.

        Parameters
        ----------
        X, Z : array, shape (n, d) and (m, d)
            Rows of zeros need a bias.
        tolerance : float
            The error allowed to the series of a layer, as for `gram_matrix`.
        progress : callable(pairs, all pairs), optional
            Called after every block of pairs.

        Examples
        --------
        >>> kernels = InfiniteNetwork("swish", layers=3).kernels([[1.0, 0.0], [0.6, 0.8]], [[0.0, 2.0]])
        >>> kernels.ntk.values.round(6).tolist(), kernels.ntk.is_certified
        ([[0.011871], [0.088518]], True)
        """
        allowed = as_fraction(tolerance, "tolerance")
        first = self.points(X, "X")
        second = None if Z is None else self.points(Z, "Z")
        if second is not None and first.rows.shape[1] != second.rows.shape[1]:
            raise InputError("X and Z have different numbers of columns; give both the same inputs")
        n, m = len(first), len(first if second is None else second)
        check_size(n * m, "the kernel")
        depths = self.depths(first, second, allowed)
        values, sums = np.empty((2, n, m)), np.zeros((2, n + m))
        given = as_floats(X, "X", 2)
        others = given if Z is None else as_floats(Z, "Z", 2)
        for rows, columns, pairs in first.blocks(second, progress):
            same = repeated(given[rows], others[columns], pairs.angle)
            blocks = self.through(pairs, first_errors(first), depths, same)
            for k, (block, off) in enumerate(blocks):
                add_errors(sums[k], off, rows, columns, None if second is None else n)
                if second is None:
                    mirror(values[k], rows, columns, block)
                else:
                    values[k, rows, columns] = block
        certified = activation_of(self.activation).is_certified
        # ‖E‖² is at most the largest sum of a row times that of a column.
        bounds = [float(np.sqrt(s[:n].max() * (s[:n] if second is None else s[n:]).max())) for s in sums]
        terms = max(layer.terms for layer in depths.layers)
        return NetworkKernels(*(Gram(v, bound, certified, terms) for v, bound in zip(values, bounds, strict=True)))

    def points(self, X: ArrayLike, name: str) -> Points:
        """Points √(σ_w²/d) x with σ_b as a further entry: their inner products are K¹."""
        rows = as_floats(X, name, 2)
        check_range(np.abs(rows).max(keepdims=True).ravel(), name)
        rows = rows * math.sqrt(self.weight_variance / rows.shape[1])
        if self.bias_variance:
            rows = np.column_stack([rows, np.full(len(rows), math.sqrt(self.bias_variance))])
        return Points.of(rows, name=name)

    def depths(self, first: Points, second: Points | None, tolerance: float) -> Depths:
        """The layers for the lengths of all points."""
        norms = np.unique(first.norms if second is None else np.concatenate([first.norms, second.norms]))
        lengths, off = [norms], [first_errors(first).lengths]
        layers: list[Layer] = []
        for _ in range(self.layers):
            layer = Layer.of(activation_of(self.activation), np.unique(lengths[-1]), tolerance)
            squares = self.weight_variance * layer.squares[layer.indices(lengths[-1])]
            total = self.bias_variance + squares
            if not (total.min() >= LENGTHS[0] ** 2 and total.max() <= LENGTHS[1] ** 2):
                raise InputError(
                    f"after {len(layers) + 1} of {self.layers} layers pre-activations have variances from "
                    f"{total.min():.1e} to {total.max():.1e}, which leaves floating point; take fewer layers, or "
                    "variances that keep them"
                )
            grown = (squares / total).max() * (layer.error + 2 * layer.stretch * off[-1]) / 2
            layers.append(layer)
            lengths.append(np.sqrt(total))
            off.append(float(grown) + 2 * EPS)
        return Depths(lengths, layers, off)

    def through(
        self, pairs: GaussianPairs, off: PairErrors, depths: Depths, same: NDArray[np.bool_]
    ) -> list[tuple[Array, Array]]:
        """K and Θ of a block of pairs after the last layer, each with bounds of its errors."""
        weight, bias = self.weight_variance, self.bias_variance
        first = pairs.r, pairs.s
        kernel = pairs.r * pairs.s * pairs.cosine
        kernel_off = pairs.r * pairs.s * (off.cosine + 2 * off.lengths)
        tangent, tangent_off = kernel, kernel_off
        for level, layer in enumerate(depths.layers, 1):
            values, slopes, values_off, slopes_off = layer.means(pairs, off)
            kernel = bias + weight * values
            kernel_off = weight * values_off + 2 * EPS * np.abs(kernel)
            tangent_off = weight * ((np.abs(slopes) + slopes_off) * tangent_off + slopes_off * np.abs(tangent))
            tangent = kernel + weight * slopes * tangent
            tangent_off += kernel_off + 4 * EPS * np.abs(tangent)
            if level < len(depths.layers):
                lengths = depths.at(level, first[0]), depths.at(level, first[1])
                pairs, off = next_pairs(lengths, kernel, kernel_off, depths.off[level], same)
        return [(kernel, kernel_off), (tangent, tangent_off)]


def add_errors(sums: Array, off: Array, rows: slice, columns: slice, n: int | None) -> None:
    """Add a block of errors to the sums of rows, and to those of columns, which follow n of rows if they differ."""
    sums[rows] += off.sum(axis=1)
    if n is not None:
        sums[n:][columns] += off.sum(axis=0)
    elif (past := len(off)) < off.shape[1]:
        sums[rows.start + past : columns.stop] += off[:, past:].sum(axis=0)
