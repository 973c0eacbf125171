"""Networks of infinite width: NNGP and neural tangent kernel, predictions, and Gram matrices of normalised layers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from implicit_bias._utils.checks import (
    Array,
    InputError,
    as_count,
    as_floats,
    as_fraction,
    as_positive,
    as_targets,
    check_callable,
    check_range,
    check_size,
    dimensions,
    one_of,
    shown,
)
from implicit_bias.extensions.infinite.activations import Activation
from implicit_bias.extensions.infinite.activations import activation as activation_of
from implicit_bias.extensions.infinite.angles import GaussianPairs, PairsDone, Points, repeated, unit_pairs
from implicit_bias.extensions.infinite.gram import TOLERANCE, Gram, gram_matrix
from implicit_bias.extensions.infinite.layers import EPS, Layer, PairErrors, assembled, first_errors, next_pairs

#: More hidden layers than this take hours.
MOST_LAYERS = 1000
#: More normalised layers than this take minutes, and change nothing any more.
MOST_NORMALISED = 10_000
#: Which weights train.
TRAINED = ("all", "readout")
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
class _Depths:
    """Layers for the points of one call, and standard deviations (p,) of pre-activations, with relative errors.

    Points refer to their lengths by the first one.
    """

    lengths: list[Array]
    layers: list[Layer]
    off: list[float]

    def at(self, level: int, first: Array) -> Array:
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
        first = self._points(X, "X")
        second = None if Z is None else self._points(Z, "Z")
        if second is not None and first.rows.shape[1] != second.rows.shape[1]:
            raise InputError("X and Z have different numbers of columns; give both the same inputs")
        check_size(len(first) * len(first if second is None else second), "the kernel")
        depths = self._depths(first, second, allowed)
        given = as_floats(X, "X", 2)
        others = given if Z is None else as_floats(Z, "Z", 2)

        def entries(rows: slice, columns: slice, pairs: GaussianPairs) -> list[tuple[Array, Array]]:
            same = repeated(given[rows], others[columns], pairs.angle)
            return self._through(pairs, first_errors(first), depths, same)

        certified, terms = activation_of(self.activation).is_certified, max(layer.terms for layer in depths.layers)
        found = assembled(first, second, 2, entries, progress)
        return NetworkKernels(*(Gram(values, bound, certified, terms) for values, bound in found))

    def _points(self, X: ArrayLike, name: str) -> Points:
        """Points √(σ_w²/d) x with σ_b as a further entry: their inner products are K¹."""
        rows = as_floats(X, name, 2)
        check_range(np.abs(rows).max(keepdims=True).ravel(), name)
        rows = rows * math.sqrt(self.weight_variance / rows.shape[1])
        if self.bias_variance:
            rows = np.column_stack([rows, np.full(len(rows), math.sqrt(self.bias_variance))])
        return Points.of(rows, name=name)

    def _depths(self, first: Points, second: Points | None, tolerance: float) -> _Depths:
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
        return _Depths(lengths, layers, off)

    def _through(
        self, pairs: GaussianPairs, off: PairErrors, depths: _Depths, same: NDArray[np.bool_]
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


def deep_gram(
    X: ArrayLike,
    activation: str | Activation,
    layers: int,
    *,
    centred: bool = False,
    progress: PairsDone | None = None,
) -> Gram:
    """The Gram matrix of the last of L hidden layers, each normalised: E[σ'σ'](ρ_L) ρ_L for every pair.

        ρ_1 = cos of the angle of the points,    ρ_{l+1} = E[σ(z)σ(z')] / E[σ(z)²]  at the correlation ρ_l

    of unit Gaussian pairs. `centred` layers take σ − E[σ(z)] for σ: ρ_{l+1} = Cov(σ(z), σ(z'))/Var(σ(z)). One layer is
    `gram_matrix` of the normalised points. More of them multiply a small 1 − ρ by E[σ'²] over E[σ²] (or Var σ): they
    push near points apart if that is more than 1, which it always is of centred layers of a σ that is not affine, for
    Var σ(z) ≤ E[σ'(z)²] (Poincaré), and together if less.

    An error δ of ρ enters the next layer times |E[σ'σ'](ρ)|/E[σ²] of that pair, which pulls errors together again where
    the layers pull ρ together.

    Parameters
    ----------
    X, activation, and errors : as for `gram_matrix`
        Lengths play no part.
    layers : int
        L, from 1 to 10 000.
    centred : bool
        Raises InputError for a σ whose variance is 0 up to rounding.
    progress : callable(pairs, all pairs), optional
        Called after every block of pairs.

    References
    ----------
    Panigrahi, Shetty & Goyal (2020), abstract, on sufficient depth. The layers, normalised or centred, are ours.

    Examples
    --------
    >>> X = [[1.0, 0.0], [0.8, 0.6]]
    >>> [deep_gram(X, "tanh", layers).values[0, 1].round(4).item() for layers in (1, 4, 16)]
    [0.3357, 0.2969, 0.1497]
    >>> [deep_gram(X, "softplus", 64, centred=centred).values[0, 1].round(4).item() for centred in (False, True)]
    [0.2934, 0.006]
    """
    chosen, layers = activation_of(activation), as_count(layers, "layers", most=MOST_NORMALISED)
    if layers == 1:
        return gram_matrix(X, chosen, normalise=True, progress=progress)
    points = Points.of(X, normalise=True)
    layer = Layer.of(chosen, np.ones(1), TOLERANCE)
    mean = float(layer.values(unit_pairs(np.array([np.pi / 2])))[0]) if centred else 0.0
    if layer.squares[0] - mean <= 4 * layer.error * layer.squares[0]:
        raise InputError(f"{chosen.name} minus its mean is 0 up to rounding; leave out centred")
    given = as_floats(X, "X", 2)

    def entries(rows: slice, columns: slice, pairs: GaussianPairs) -> list[tuple[Array, Array]]:
        same = repeated(given[rows], given[columns], pairs.angle, parallel=True)
        return [_normalised(layer, layers, mean, pairs, first_errors(points), same)]

    ((values, error),) = assembled(points, None, 1, entries, progress)
    return Gram(values, error, chosen.is_certified, layer.terms)


def _normalised(
    layer: Layer, layers: int, mean: float, pairs: GaussianPairs, off: PairErrors, same: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """E[σ'σ'](ρ_L) ρ_L of a block of pairs, with bounds of its errors; `mean` is E[σ]², or 0."""
    spread = layer.squares[0] - mean
    ones = np.ones((1, 1)), np.ones((1, 1))
    off = PairErrors(0.0, off.cosine, off.angle)
    pairs = GaussianPairs(*ones, pairs.cosine, pairs.angle)
    for _ in range(layers - 1):
        covariances, _, covariances_off, _ = layer.means(pairs, off)
        # The mean and the spread are as well known as the covariances.
        own = 4 * layer.error * layer.squares[0]
        pairs, off = next_pairs(ones, (covariances - mean) / spread, (covariances_off + own) / spread, 0.0, same)
    _, slopes, _, slopes_off = layer.means(pairs, off)
    total = slopes * pairs.cosine + 0.0
    return total, slopes_off + (np.abs(slopes) + slopes_off) * off.cosine + 2 * EPS * np.abs(total)


@dataclass(frozen=True, eq=False)
class Prediction:
    """The outputs of infinitely wide networks on new points, a Gaussian process over their random initial weights.

    Attributes
    ----------
    mean : array, shape (m,) or (m, k)
        Of k outputs if there are several targets.
    covariance : array, shape (m, m)
        Of each output; outputs are independent.

    Examples
    --------
    >>> found = predict(InfiniteNetwork("relu"), [[1.0, 0.0]], [2.0], [[1.0, 0.0], [0.0, 1.0]], time=0.0)
    >>> found.mean.tolist(), found.deviation.round(4).tolist()
    ([0.0, 0.0], [0.5, 0.5])
    """

    mean: Array
    covariance: Array = field(repr=False)

    @property
    def deviation(self) -> Array:
        """Standard deviations (m,)."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))


def predict(
    network: InfiniteNetwork,
    X: ArrayLike,
    y: ArrayLike,
    Z: ArrayLike,
    *,
    time: float = np.inf,
    trained: str = "all",
    ridge: float = 0.0,
    progress: PairsDone | None = None,
) -> Prediction:
    """The outputs on Z of networks of infinite width, trained on (X, y) by gradient flow up to a time.

        f_t(Z) = f_0(Z) + A (y − f_0(X)),    A = Θ_zx Θ⁻¹ (I − e^{−2tΘ/n})
        mean A y,    covariance K_zz + A K_xx Aᵀ − A K_xz − (A K_xz)ᵀ

    of the flow dθ/dt = −∂L/∂θ with L = ⟨(y − f(X))²⟩, the mean over n samples (a sum over outputs). At infinite width
    Θ stays what it is at first, so that the flow is linear in f_0 ~ N(0, K). With `trained="readout"` only the last
    layer trains and Θ is K; at t = ∞ this is the posterior of the Gaussian process with the prior K.

    Raises InputError as `InfiniteNetwork.kernels` does, for what is no network, and if t = ∞ without a ridge while Θ is
    singular up to rounding.

    Parameters
    ----------
    network : InfiniteNetwork
    X, Z : array, shape (n, d) and (m, d)
    y : array, shape (n,) or (n, k)
        Targets.
    time : float
        t, from 0 to infinity.
    trained : str
        "all" or "readout".
    ridge : float
        λ ≥ 0 of the loss L + (λ/n) ‖θ − θ_0‖²: Θ + λI takes Θ's place in Θ⁻¹ and in the exponent. With
        `trained="readout"` and t = ∞ the mean is that of observations with noise of variance λ.
    progress : callable(pairs, all pairs), optional
        Called after every block of pairs of the three kernels.

    References
    ----------
    Lee et al. (2019), "Wide neural networks of any depth evolve as linear models under gradient descent".

    Examples
    --------
    >>> network = InfiniteNetwork("erf", layers=2, weight_variance=1.5, bias_variance=0.1)
    >>> found = predict(network, [[-1.0], [0.0], [1.0]], [1.0, 0.0, 1.0], [[0.0], [0.5]])
    >>> found.mean.round(4).tolist(), found.deviation.round(4).tolist()
    ([0.0, 0.5003], [0.0, 0.0758])
    """
    if not isinstance(network, InfiniteNetwork):
        raise InputError(f"network must be an InfiniteNetwork, not {shown(network)}")
    until, which = as_positive(time, "time", infinite=True, zero=True), one_of(trained, TRAINED, "trained")
    ridge = as_positive(ridge, "ridge", zero=True)
    check_callable(progress, "progress")
    n, m = len(as_floats(X, "X", 2)), len(as_floats(Z, "Z", 2))
    first, second, total = np.cumsum([n * (n + 1) // 2, m * n, m * (m + 1) // 2]).tolist()
    own = network.kernels(X, progress=_later(progress, 0, total))
    cross = network.kernels(Z, X, progress=_later(progress, first, total))
    new = network.kernels(Z, progress=_later(progress, second, total))
    targets = as_targets(y, len(own.nngp.values))
    chosen, across = (own.ntk, cross.ntk) if which == "all" else (own.nngp, cross.nngp)
    A = _smoother(chosen.values, across.values, until, ridge, chosen.error)
    prior, shared = own.nngp.values, A @ cross.nngp.values.T
    covariance = new.nngp.values + A @ prior @ A.T - shared - shared.T
    mean = A @ targets
    return Prediction(mean if dimensions(y) == 2 else mean[:, 0], (covariance + covariance.T) / 2)


def _later(progress: PairsDone | None, before: int, total: int) -> PairsDone | None:
    return None if progress is None else lambda done, _: progress(before + done, total)


def _smoother(kernel: Array, across: Array, time: float, ridge: float, error: float) -> Array:
    """A of `predict`, shape (m, n), by the eigenvectors of Θ + λI."""
    n = len(kernel)
    values, vectors = scipy.linalg.eigh(kernel, check_finite=False)
    values = values + ridge
    lost = n * np.finfo(float).eps * max(values[-1], -values[0]) + error
    if np.isinf(time):
        if values[0] <= lost:
            raise InputError(
                f"the kernel of the samples is singular up to rounding (least eigenvalue {values[0]:.1e}): samples "
                "repeat or lie too close for this activation; give a ridge or a time, or leave samples out"
            )
        shares = 1 / values
    else:
        # (1 − e^{−2tλ/n})/λ, which is 2t/n for λ = 0; below rounding an eigenvalue counts as 0.
        exponent = 2 * time / n * np.maximum(values, 0.0)
        safe = np.where(values > 0, values, 1.0)
        shares = np.where(exponent > 0, -np.expm1(-exponent) / safe, 2 * time / n)
    return np.asarray((across @ vectors) * shares @ vectors.T)
