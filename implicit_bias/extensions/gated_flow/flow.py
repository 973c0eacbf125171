"""Gradient flow of gated deep linear networks with fixed gates in closed form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils import checks
from implicit_bias._utils.checks import Array, InputError, shown
from implicit_bias.extensions.gated_flow.gate_blocks import solve_diagonal
from implicit_bias.extensions.gated_flow.moments import Moments
from implicit_bias.features import GatedFeatures

#: Largest t/Kτ whose products with eigenvalues do not overflow.
MAX_SCALED_TIME = 1e100


@dataclass(frozen=True, eq=False)
class GradientFlow:
    """Solution w(t) of `gradient_flow` at any time.

    Attributes
    ----------
    moments : Moments
        `moments.exclusive` and `moments.redundant` describe the structure that the solution uses.
    w0 : array, shape (k, d)
    tau : float
    times : array, shape (T,)
    losses : array, shape (T,)
        ⟨(y − ŷ)²⟩ at these times.
    limit : array, shape (k, d)
        w(∞) = A⁺b + (I − A⁺A)w₀, with loss `moments.best_loss`.

    Examples
    --------
    >>> from implicit_bias.extensions.gated_flow import Moments, gradient_flow
    >>> flow = gradient_flow(Moments.from_arrays([[1.0]], [[2.0]], power=1.0), [[0.0]], times=[0.0, 1.0])
    >>> flow.losses.round(6).tolist(), flow.weights().ravel().round(6).tolist(), flow.limit.tolist()
    ([1.0, 0.509158], [0.0, 0.432332], [[0.5]])
    """

    moments: Moments
    w0: Array = field(repr=False)
    tau: float
    times: Array = field(repr=False)
    losses: Array = field(repr=False)
    limit: Array = field(repr=False)

    def weights(self, times: ArrayLike | None = None) -> Array:
        """Return w(t), shape (T, k, d) at times (T,), by default those of the flow, or (k, d) at a single time.

        Errors of `times` as for `gradient_flow`.
        """
        single = times is not None and checks.dimensions(times) == 0
        at = self.times if times is None else as_times([times] if single else times)
        checks.check_size(len(at) * self.w0.size, "the weights at all times")
        path = self.moments.moved(self.w0, scaled_times(at, self.moments.k, self.tau))
        return np.asarray(path[0]) if single else np.asarray(path)


def gradient_flow(
    data: Moments | GatedFeatures, w0: ArrayLike, times: ArrayLike, *, y: ArrayLike | None = None, tau: float = 1.0
) -> GradientFlow:
    """Solve the flow Kτ dw/dt = b − Aw of L = ⟨(y − ŷ)²⟩, ŷ = Σ_i g_i(x) w_iᵀx, from w(0) = w₀ in closed form.

        w(t) = e^{−At/Kτ} w₀ + φ(A) b,   φ(λ) = (1 − e^{−λt/Kτ})/λ,   φ(0) = t/Kτ;   w(∞) = A⁺b + (I − A⁺A) w₀

    Here K = k counts all gates, and b − Aw = −½∂L/∂w. The solution uses the eigendecomposition of A, which may be
    singular. Gates that are never open together are separate blocks. The m copies of a gate are reduced to one: the sum
    of their weights moves with mA, and their differences are constant.

    For a mean readout ŷ = (1/K) Σ_i g_i v_iᵀx, the flow is τ dv/dt = −½∂L/∂v = (1/K)(b − Av/K). This is the same flow
    with w = v/K and Kτ instead of τ: v(t) = K · gradient_flow(data, v₀/K, times, tau=K·tau).weights().

    Eigenvalues below 1e-12 of the largest of their block count as 0. The limit is therefore exact for condition numbers
    of the features up to 1e6, and w(t) has an error of up to 1e-12 λ_max t/Kτ, relative to the remaining distance.
    `moments.unresolved` counts the directions that this may have removed; the losses omit their contribution. Source:
    Saxe, Sodhani & Lewallen (2022), "The neural race reduction", for gated deep linear networks. docs/dynamics.md
    proves the formulas.

    Parameters
    ----------
    data : Moments, or GatedFeatures with targets `y`
    w0 : array, shape (k, d)
    times : array, shape (T,)
        Non-negative and in order.
    y : array, shape (n,)
        Only with features.
    tau : float
        τ > 0.

    Raises
    ------
    InputError
        As for `Moments.from_samples`, and if times are negative, not finite, not in order or beyond 1e100 Kτ, or
        weights have the wrong shape or are not finite.

    Examples
    --------
    >>> from implicit_bias import GatedFeatures
    >>> from implicit_bias.extensions.gated_flow import gradient_flow
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(50, 3))
    >>> features, y = GatedFeatures(X, (X[:, :2] > 0).astype(float)), rng.normal(size=50)
    >>> flow = gradient_flow(features, np.zeros((2, 3)), [0.0, 1.0, 1e9], y=y)
    >>> bool(np.all(np.diff(flow.losses) < 0)), flow.weights().shape, bool(np.allclose(flow.weights(1e9), flow.limit))
    (True, (3, 2, 3), True)
    """
    moments = _moments(data, y)
    start = as_start(w0, (moments.k, moments.d))
    at, tau = as_times(times), checks.as_positive(tau, "tau")
    scaled = scaled_times(at, moments.k, tau)
    losses, changes = np.full(len(at), moments.best_loss), []
    for c, s in zip(moments.coordinates(start), moments.spectra, strict=True):
        velocity = s.rhs - s.values * c
        changes.append(solve_diagonal(velocity, s.values))
        losses += np.exp(-2 * scaled[:, None] * s.values) @ solve_diagonal(velocity, np.sqrt(s.values)) ** 2
    return GradientFlow(moments, start, tau, at, losses, start + moments.combine(changes))


def as_start(w0: Any, shape: tuple[int, ...], name: str = "w0") -> Array:
    """Return weights as an array; raise InputError unless they have this shape, are finite and within range."""
    start = checks.as_numbers(w0, shape, name)
    if not np.isfinite(start).all():
        raise InputError(f"{name} holds NaN or infinity; start from finite weights")
    checks.check_range(np.abs(start).max(keepdims=True).ravel(), f"the weights {name}", 1e-100, 1e60)
    return start


def scaled_times(times: Array, k: int, tau: float) -> Array:
    """Return t/Kτ for ascending times (T,) and K = k gates; raise InputError if the last one exceeds 1e100."""
    with np.errstate(over="ignore"):
        scaled: Array = times / tau / k
    if not scaled[-1] <= MAX_SCALED_TIME:
        raise InputError(
            f"times over K tau are at most {MAX_SCALED_TIME:g}, not {scaled[-1]:g}; for later ones take `limit`"
        )
    return scaled


def as_times(times: Any) -> Array:
    """Return times (T,) as an array; raise InputError unless they are non-negative and in order."""
    if isinstance(times, list | tuple | np.ndarray) and checks.dimensions(times) == 1 and len(times) == 0:
        raise InputError("times is empty; give at least one")
    at = checks.as_floats(times, "times", 1)
    if at[0] < 0 or (np.diff(at) < 0).any():
        raise InputError("times must start at 0 or later and be in order; sort them and remove negative ones")
    return at


def _moments(data: Any, y: Any) -> Moments:
    if isinstance(data, GatedFeatures):
        if y is None:
            raise InputError("features need their targets: gradient_flow(features, w0, times, y=y)")
        return Moments.from_samples(data, y)
    if not isinstance(data, Moments):
        raise InputError(f"give Moments, or GatedFeatures with their targets, not {shown(data)}")
    if y is not None:
        raise InputError("moments already contain the targets; leave y out")
    return data
