"""Networks of infinite width: NNGP and NTK, predictions, and Gram matrices of deep normalised layers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from implicit_bias._utils import checks
from implicit_bias._utils.checks import Array, InputError, shown
from implicit_bias.extensions.infinite.activations import Activation
from implicit_bias.extensions.infinite.activations import activation as activation_of
from implicit_bias.extensions.infinite.angles import GaussianPairs, PairsDone, Points, repeated, unit_pairs
from implicit_bias.extensions.infinite.gram import TOLERANCE, Gram, gram_matrix
from implicit_bias.extensions.infinite.layers import EPS, Layer, PairErrors, assemble_matrices, first_errors, next_pairs

#: Largest number of hidden layers; more would take hours.
MAX_LAYERS = 1000
#: Largest number of normalised layers; more would take minutes and no longer change the result.
MAX_NORMALISED_LAYERS = 10_000
#: Values of `trained`.
TRAINED = ("all", "readout")
#: Range of the variances of weights and biases.
VARIANCE_RANGE = (1e-10, 1e10)
#: Range of the standard deviations of pre-activations, the same as of the lengths of points.
DEVIATION_RANGE = (1e-60, 1e60)


@dataclass(frozen=True)
class NetworkKernels:
    """NNGP and tangent kernel of an `InfiniteNetwork`."""

    #: K, the covariance of the outputs of random networks.
    nngp: Gram
    #: Θ = E[⟨∂f/∂θ, ∂f/∂θ⟩], summed over all weights and biases.
    ntk: Gram


@dataclass(frozen=True)
class _Depths:
    """Hidden layers 1 … L for the p different lengths of points in one call, with the lengths' propagation."""

    #: Standard deviations (p,) of z^1 … z^{L+1}; the one of z^1, ascending, identifies a point.
    lengths: list[Array]
    layers: list[Layer]
    #: Relative errors of `lengths`.
    errors: list[float]

    def at(self, level: int, first: Array) -> Array:
        """Return the standard deviations of z^{level + 1} for points whose z^1 has those of `first`, in its shape."""
        return self.lengths[level][np.searchsorted(self.lengths[0], first)]


@dataclass(frozen=True)
class InfiniteNetwork:
    """Fully connected network of infinite width with Gaussian weights and biases.

        z¹ = √(σ_w²/d) W¹x + σ_b b¹,    z^{l+1} = √(σ_w²/n) W^{l+1} σ(z^l) + σ_b b^{l+1},    f(x) = z^{L+1}

    W and b are drawn from N(0, 1), each of the L hidden layers has n → ∞ units. This is the NTK parametrisation: W and
    b are trained, the factors σ_w and σ_b are not.

    Parameters
    ----------
    activation : str or Activation
        As for `gram_matrix`.
    layers : int
        L, from 1 to 1000.
    weight_variance, bias_variance : float
        σ_w² and σ_b², from 1e-10 to 1e10; σ_b² may be 0.

    Raises
    ------
    InputError
        If a name is unknown or a number is out of range.

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
        object.__setattr__(self, "layers", checks.as_count(self.layers, "layers", most=MAX_LAYERS))
        weight = checks.as_positive(self.weight_variance, "weight_variance")
        bias = checks.as_positive(self.bias_variance, "bias_variance", zero=True)
        checks.check_range(np.array([weight, bias or 1.0]), "the variances", *VARIANCE_RANGE)
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
        """Compute K and Θ between points X (n, d), or between X and Z (m, d): (n, n) or (n, m).

            K¹ = Θ¹ = σ_b² + σ_w² ⟨x, x'⟩/d
            K^{l+1} = σ_b² + σ_w² E[σ(z)σ(z')],    Θ^{l+1} = K^{l+1} + σ_w² E[σ'(z)σ'(z')] Θ^l

        with (z, z') ~ N(0, K^l) of the pair, for l = 1 … L. The means are computed like those of `gram_matrix`. The
        `error` of a kernel includes rounding, series and mixture errors and their propagation through later layers.
        Condition numbers of lengths are estimated by quadrature and doubled; `is_certified` relies on these estimates.

        Parameters
        ----------
        X, Z : array, shape (n, d) and (m, d)
            Points; rows of zeros need a bias.
        tolerance : float
            Allowed error of the series of each layer, as for `gram_matrix`.
        progress : callable(pairs, all pairs), optional
            Called after every block of pairs.

        Raises
        ------
        InputError
            As for `gram_matrix`, if X and Z have different numbers of columns, or if standard deviations of
            pre-activations are not between 1e-60 and 1e60.

        Examples
        --------
        >>> kernels = InfiniteNetwork("swish", layers=3).kernels([[1.0, 0.0], [0.6, 0.8]], [[0.0, 2.0]])
        >>> kernels.ntk.values.round(6).tolist(), kernels.ntk.is_certified
        ([[0.011871], [0.088518]], True)
        """
        allowed = checks.as_fraction(tolerance, "tolerance")
        first = self._points(X, "X")
        second = None if Z is None else self._points(Z, "Z")
        if second is not None and first.rows.shape[1] != second.rows.shape[1]:
            raise InputError("X and Z have different numbers of columns; both must have the same inputs")
        checks.check_size(len(first) * len(first if second is None else second), "the kernel")
        depths = self._depths(first, second, allowed)
        given = checks.as_floats(X, "X", 2)
        others = given if Z is None else checks.as_floats(Z, "Z", 2)

        def entries(rows: slice, columns: slice, pairs: GaussianPairs) -> list[tuple[Array, Array]]:
            same = repeated(given[rows], others[columns], pairs.angle)
            return self._through(pairs, first_errors(first), depths, same)

        certified, terms = activation_of(self.activation).is_certified, max(layer.terms for layer in depths.layers)
        matrices = assemble_matrices(first, second, 2, entries, progress)
        return NetworkKernels(*(Gram(values, bound, certified, terms) for values, bound in matrices))

    def _points(self, X: ArrayLike, name: str) -> Points:
        """Return points √(σ_w²/d) x with σ_b as an additional entry, whose inner products are K¹."""
        rows = checks.as_floats(X, name, 2)
        checks.check_range(np.abs(rows).max(keepdims=True).ravel(), name)
        rows = rows * math.sqrt(self.weight_variance / rows.shape[1])
        if self.bias_variance:
            rows = np.column_stack([rows, np.full(len(rows), math.sqrt(self.bias_variance))])
        return Points.of(rows, name=name)

    def _depths(self, first: Points, second: Points | None, tolerance: float) -> _Depths:
        """Propagate the lengths of all points through the layers; raise InputError if they leave DEVIATION_RANGE."""
        norms = np.unique(first.norms if second is None else np.concatenate([first.norms, second.norms]))
        lengths, errors = [norms], [first_errors(first).lengths]
        layers: list[Layer] = []
        for _ in range(self.layers):
            layer = Layer.of(activation_of(self.activation), np.unique(lengths[-1]), tolerance)
            squares = self.weight_variance * layer.squares[layer.indices(lengths[-1])]
            total = self.bias_variance + squares
            if not (total.min() >= DEVIATION_RANGE[0] ** 2 and total.max() <= DEVIATION_RANGE[1] ** 2):
                raise InputError(
                    f"after {len(layers) + 1} of {self.layers} layers pre-activations have variances from "
                    f"{total.min():.1e} to {total.max():.1e}, which leaves floating point; take fewer layers, or "
                    "variances that preserve lengths"
                )
            error = (squares / total).max() * (layer.error + 2 * layer.value_lipschitz * errors[-1]) / 2
            layers.append(layer)
            lengths.append(np.sqrt(total))
            errors.append(float(error) + 2 * EPS)
        return _Depths(lengths, layers, errors)

    def _through(
        self, pairs: GaussianPairs, errors: PairErrors, depths: _Depths, same: NDArray[np.bool_]
    ) -> list[tuple[Array, Array]]:
        """Return (K, error bounds) and (Θ, error bounds) of a block of pairs of z^1; `same` marks equal points."""
        weight, bias = self.weight_variance, self.bias_variance
        first = pairs.r, pairs.s
        kernel = pairs.r * pairs.s * pairs.cosine
        kernel_error = pairs.r * pairs.s * (errors.cosine + 2 * errors.lengths)
        tangent, tangent_error = kernel, kernel_error
        for level, layer in enumerate(depths.layers, 1):
            values, slopes, values_error, slopes_error = layer.means(pairs, errors)
            kernel = bias + weight * values
            kernel_error = weight * values_error + 2 * EPS * np.abs(kernel)
            tangent_error = weight * ((np.abs(slopes) + slopes_error) * tangent_error + slopes_error * np.abs(tangent))
            tangent = kernel + weight * slopes * tangent
            tangent_error += kernel_error + 4 * EPS * np.abs(tangent)
            if level < len(depths.layers):
                lengths = depths.at(level, first[0]), depths.at(level, first[1])
                pairs, errors = next_pairs(lengths, kernel, kernel_error, depths.errors[level], same)
        return [(kernel, kernel_error), (tangent, tangent_error)]


def deep_gram(
    X: ArrayLike,
    activation: str | Activation,
    layers: int,
    *,
    centred: bool = False,
    tolerance: float = TOLERANCE,
    progress: PairsDone | None = None,
) -> Gram:
    """Compute the Gram matrix of the last of L normalised hidden layers, E[σ'(z)σ'(z')] ρ_L at the correlation ρ_L.

        ρ_1 = cos θ,    ρ_{l+1} = E[σ(z)σ(z')] / E[σ(z)²]

    Here θ is the angle between the points, and (z, z') is a Gaussian pair with unit variances and correlation ρ_l.
    Centred layers replace σ by σ − E[σ(z)]: ρ_{l+1} = Cov(σ(z), σ(z'))/Var(σ(z)). With L = 1 this is `gram_matrix` of
    the normalised points.

    A layer multiplies a small 1 − ρ by E[σ'(z)²]/E[σ(z)²]; a centred one by E[σ'(z)²]/Var σ(z), which exceeds 1 unless
    σ is affine (Poincaré's inequality), so that centred layers separate nearby points.

    Parameters
    ----------
    X, activation
        As for `gram_matrix`; lengths have no effect.
    layers : int
        L, from 1 to 10 000.
    centred : bool
        Subtract the mean of σ in each layer.
    tolerance : float
        As for `gram_matrix`.
    progress : callable(pairs, all pairs), optional
        Called after every block of pairs.

    Raises
    ------
    InputError
        As for `gram_matrix`, and for centred layers if the variance of σ is 0 up to rounding.

    References
    ----------
    Panigrahi, Shetty & Goyal (2020), abstract, on sufficient depth. Normalised and centred layers are ours.

    Examples
    --------
    >>> X = [[1.0, 0.0], [0.8, 0.6]]
    >>> [deep_gram(X, "tanh", layers).values[0, 1].round(4).item() for layers in (1, 4, 16)]
    [0.3357, 0.2969, 0.1497]
    >>> [deep_gram(X, "softplus", 64, centred=centred).values[0, 1].round(4).item() for centred in (False, True)]
    [0.2934, 0.006]
    """
    chosen, layers = activation_of(activation), checks.as_count(layers, "layers", most=MAX_NORMALISED_LAYERS)
    if layers == 1:
        return gram_matrix(X, chosen, normalise=True, tolerance=tolerance, progress=progress)
    points = Points.of(X, normalise=True)
    layer = Layer.of(chosen, np.ones(1), checks.as_fraction(tolerance, "tolerance"))
    mean = float(layer.values(unit_pairs(np.array([np.pi / 2])))[0]) if centred else 0.0
    if layer.squares[0] - mean <= 4 * layer.error * layer.squares[0]:
        raise InputError(f"{chosen.name} minus its mean is 0 up to rounding; leave out centred")
    given = checks.as_floats(X, "X", 2)

    def entries(rows: slice, columns: slice, pairs: GaussianPairs) -> list[tuple[Array, Array]]:
        same = repeated(given[rows], given[columns], pairs.angle, parallel=True)
        return [_normalised(layer, layers, mean, pairs, first_errors(points), same)]

    ((values, error),) = assemble_matrices(points, None, 1, entries, progress)
    return Gram(values, error, chosen.is_certified, layer.terms)


def _normalised(
    layer: Layer, layers: int, mean: float, pairs: GaussianPairs, errors: PairErrors, same: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """Return E[σ'(z)σ'(z')] ρ_L of a block of pairs, and error bounds.

    ρ_L is the correlation after L − 1 = `layers` − 1 normalised layers, ρ_1 = cos θ. `mean` is E[σ(z)]² if centred,
    else 0. Where `same`, the correlations after the first are exactly 1.
    """
    variance = layer.squares[0] - mean
    ones = np.ones((1, 1)), np.ones((1, 1))
    errors = PairErrors(0.0, errors.cosine, errors.angle)
    pairs = GaussianPairs(*ones, pairs.cosine, pairs.angle)
    for _ in range(layers - 1):
        covariances, _, covariances_error, _ = layer.means(pairs, errors)
        # The mean and the variance have the same relative error as the covariances.
        covariances_error = covariances_error + 4 * layer.error * layer.squares[0]
        pairs, errors = next_pairs(ones, (covariances - mean) / variance, covariances_error / variance, 0.0, same)
    _, slopes, _, slopes_error = layer.means(pairs, errors)
    total = slopes * pairs.cosine + 0.0
    return total, slopes_error + (np.abs(slopes) + slopes_error) * errors.cosine + 2 * EPS * np.abs(total)


@dataclass(frozen=True, eq=False)
class Prediction:
    """Gaussian distribution of the outputs of infinitely wide networks on m new points, at one time or T times."""

    #: Means (m,), or (m, k) for k outputs, which are independent; (T, m) or (T, m, k) for T times.
    mean: Array
    #: Covariance (m, m) or (T, m, m) of each output; None if it was not computed.
    covariance: Array | None = field(repr=False)

    @property
    def std(self) -> Array:
        """Standard deviations of an output, shape (m,) or (T, m); InputError without a covariance."""
        if self.covariance is None:
            raise InputError("this prediction has means only; call predict with covariance=True")
        return np.sqrt(np.maximum(np.diagonal(self.covariance, axis1=-2, axis2=-1), 0.0))


def predict(
    network: InfiniteNetwork,
    X: ArrayLike,
    y: ArrayLike,
    Z: ArrayLike,
    *,
    time: float | ArrayLike = np.inf,
    trained: str = "all",
    ridge: float = 0.0,
    noise: float = 0.0,
    covariance: bool = True,
    tolerance: float = TOLERANCE,
    progress: PairsDone | None = None,
) -> Prediction:
    """Predict the outputs on Z of networks of infinite width, trained on (X, y) by gradient flow up to time t.

        f_t(Z) = f_0(Z) + A (y + ε − f_0(X)),    A = Θ_zx (Θ + λI)⁻¹ (I − e^{−2t(Θ + λI)/n})
        mean A y,    covariance K_zz + A (K_xx + σ²I) Aᵀ − A K_xz − (A K_xz)ᵀ

    The flow is dθ/dt = −∂L/∂θ, where L = ⟨(y + ε − f(X))²⟩ + (λ/n) ‖θ − θ_0‖². The first term is the mean over n
    samples, summed over outputs. At infinite width Θ is constant, so that the flow is linear in f_0 ~ N(0, K) and the
    noise ε ~ N(0, σ²I). With `trained="readout"` only the last layer is trained, and Θ is K.

    The covariance is that of an ensemble of networks, each with its own f_0 and ε. It is the posterior of a Gaussian
    process in one case: for `trained="readout"`, t = ∞ and λ = σ². Then mean and covariance are

        K_zx (K_xx + σ²I)⁻¹ y,    K_zz − K_zx (K_xx + σ²I)⁻¹ K_xz

    for the prior K and targets with noise of variance σ², which may be 0. All covariances are of outputs without noise;
    those of new targets have σ² more on the diagonal.

    Parameters
    ----------
    network : InfiniteNetwork
    X, Z : array, shape (n, d) and (m, d)
    y : array, shape (n,) or (n, k)
        Targets.
    time : float, or array of shape (T,)
        t, from 0 to infinity. Several times share one factorisation.
    trained : str
        "all" or "readout".
    ridge : float
        λ ≥ 0.
    noise : float
        σ² ≥ 0. It changes the covariance only; for the posterior, set `ridge` to the same value.
    covariance : bool
        If False, compute only means, without the kernel of Z.
    tolerance : float
        As for `InfiniteNetwork.kernels`.
    progress : callable(pairs, all pairs), optional
        Called after every block of pairs of all kernels.

    Raises
    ------
    InputError
        As for `InfiniteNetwork.kernels`, if `network` is not one, or if t = ∞, λ = 0 and Θ is singular up to rounding.

    References
    ----------
    Lee et al. (2019), "Wide neural networks of any depth evolve as linear models under gradient descent". With
    `diag_reg`, neural-tangents has λ = σ² for "nngp" (readout), and σ² = 0 for "ntk" (all).

    Examples
    --------
    >>> network = InfiniteNetwork("erf", layers=2, weight_variance=1.5, bias_variance=0.1)
    >>> samples = [[-1.0], [0.0], [1.0]], [1.0, 0.0, 1.0]
    >>> found = predict(network, *samples, [[0.0], [0.5]])
    >>> found.mean.round(4).tolist(), found.std.round(4).tolist()
    ([0.0, 0.5003], [0.0, 0.0758])

    The posterior with noise of variance 0.1, and the means at two times:

    >>> predict(network, *samples, [[0.5]], trained="readout", ridge=0.1, noise=0.1).std.round(4).tolist()
    [0.2398]
    >>> predict(network, *samples, [[0.5]], time=[1.0, 100.0], covariance=False).mean.round(4).tolist()
    [[0.3263], [0.5016]]
    """
    if not isinstance(network, InfiniteNetwork):
        raise InputError(f"network must be an InfiniteNetwork, not {shown(network)}")
    times, single = _times(time), checks.dimensions(time) == 0
    which = checks.one_of(trained, TRAINED, "trained")
    ridge, noise = checks.as_positive(ridge, "ridge", zero=True), checks.as_positive(noise, "noise", zero=True)
    checks.check_callable(progress, "progress")
    n, m = len(checks.as_floats(X, "X", 2)), len(checks.as_floats(Z, "Z", 2))
    targets = checks.as_targets(y, n)
    checks.check_size(len(times) * m * (m if covariance else targets.shape[1]), "the predictions at all times")
    last = m * (m + 1) // 2 if covariance else 0
    first, second, total = np.cumsum([n * (n + 1) // 2, m * n, last]).tolist()
    training = network.kernels(X, tolerance=tolerance, progress=_shifted(progress, 0, total))
    cross = network.kernels(Z, X, tolerance=tolerance, progress=_shifted(progress, first, total))
    chosen, across = (training.ntk, cross.ntk) if which == "all" else (training.nngp, cross.nngp)
    values, vectors = _decomposed(chosen, ridge, singular=np.inf not in times)
    shares = np.array([_shares(values, t) for t in times])
    factors = vectors @ (shares[..., None] * (vectors.T @ targets)).swapaxes(0, 1).reshape(n, -1)
    mean = (across.values @ factors).reshape(m, len(times), -1).swapaxes(0, 1)
    mean = mean if checks.dimensions(y) == 2 else mean[..., 0]
    if not covariance:
        return Prediction(mean[0] if single else mean, None)
    new = network.kernels(Z, tolerance=tolerance, progress=_shifted(progress, second, total)).nngp.values
    # In the eigenbasis of Θ, A is Θ_zx times the diagonal matrix of shares.
    prior = vectors.T @ training.nngp.values @ vectors + noise * np.eye(n)
    covariances = _covariances(across.values @ vectors, cross.nngp.values @ vectors, prior, new, shares)
    return Prediction(mean[0] if single else mean, covariances[0] if single else covariances)


def _times(time: Any) -> list[float]:
    given = [time] if checks.dimensions(time) == 0 else np.asarray(time).tolist()
    if checks.dimensions(time) > 1 or not given:
        raise InputError(f"time must be a number or a list of numbers, not {shown(time)}")
    return [checks.as_positive(t, "time", infinite=True, zero=True) for t in given]


def _covariances(tangents: Array, kernels: Array, prior: Array, new: Array, shares: Array) -> Array:
    """Return K_zz + S + Sᵀ with S = A (½(K + σ²I) Aᵀ − K_xz) and A = Θ_zx diag(s), for each s of `shares` (T, n).

    `tangents` Θ_zx (m, n), `kernels` K_zx (m, n) and `prior` K + σ²I (n, n) are in the eigenbasis of Θ; `new` is K_zz.
    """
    covariances = np.empty((len(shares), *new.shape))
    for matrix, share in zip(covariances, shares, strict=True):
        A = tangents * share
        S = A @ (prior @ A.T / 2 - kernels.T)
        matrix[:] = new + S + S.T
    return covariances


def _shifted(progress: PairsDone | None, before: int, total: int) -> PairsDone | None:
    return None if progress is None else lambda done, _: progress(before + done, total)


def _decomposed(kernel: Gram, ridge: float, singular: bool) -> tuple[Array, Array]:
    """Return eigenvalues (n,) and eigenvectors of Θ + λI; InputError if it may be singular, unless `singular`."""
    values, vectors = scipy.linalg.eigh(kernel.values, check_finite=False)
    values = values + ridge
    rounding = len(values) * np.finfo(float).eps * max(values[-1], -values[0]) + kernel.error
    if not singular and values[0] <= rounding:
        raise InputError(
            f"the kernel of the samples is singular up to rounding (smallest eigenvalue {values[0]:.1e}): samples "
            "repeat or lie too close for this activation; give a ridge or a time, or leave samples out"
        )
    return values, vectors


def _shares(values: Array, time: float) -> Array:
    """Return (1 − e^{−2tμ/n})/μ for eigenvalues μ (n,) of Θ + λI, which is 2t/n for μ = 0, and 1/μ for t = ∞."""
    if np.isinf(time):
        return np.asarray(1 / values)
    # Negative eigenvalues are rounding errors of 0.
    rate = 2 * time / len(values)
    exponent = rate * np.maximum(values, 0.0)
    return np.where(exponent > 0, -np.expm1(-exponent) / np.where(values > 0, values, 1.0), rate)
