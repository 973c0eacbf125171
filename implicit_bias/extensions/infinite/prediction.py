"""What networks of infinite width predict: the Gaussian process of their outputs while they train."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import (
    Array,
    InputError,
    as_floats,
    as_positive,
    as_targets,
    check_callable,
    dimensions,
    one_of,
    shown,
)
from implicit_bias.extensions.infinite.angles import PairsDone
from implicit_bias.extensions.infinite.infinite import InfiniteNetwork

#: Which weights train.
TRAINED = ("all", "readout")


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
    own = network.kernels(X, progress=later(progress, 0, total))
    cross = network.kernels(Z, X, progress=later(progress, first, total))
    new = network.kernels(Z, progress=later(progress, second, total))
    targets = as_targets(y, len(own.nngp.values))
    chosen, across = (own.ntk, cross.ntk) if which == "all" else (own.nngp, cross.nngp)
    A = smoother(chosen.values, across.values, until, ridge, chosen.error)
    prior, shared = own.nngp.values, A @ cross.nngp.values.T
    covariance = new.nngp.values + A @ prior @ A.T - shared - shared.T
    mean = A @ targets
    return Prediction(mean if dimensions(y) == 2 else mean[:, 0], (covariance + covariance.T) / 2)


def later(progress: PairsDone | None, before: int, total: int) -> PairsDone | None:
    """The progress of a part of the work, after so many pairs of so many."""
    return None if progress is None else lambda done, _: progress(before + done, total)


def smoother(kernel: Array, across: Array, time: float, ridge: float, error: float) -> Array:
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
