"""Margins of networks with one hidden layer, and their gradients, for descent to the limit.

`LayerFunction` selects the samples that matter. `SpanFunction` makes steps in the span of the samples, for fewer than
two for each input; `WeightFunction` makes them on the weights, for many samples, and preconditioned.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
import torch
from scipy.linalg import block_diag, helmert
from scipy.linalg.blas import daxpy
from torch import Tensor

from implicit_bias._utils.checks import Array
from implicit_bias.networks import GatedNetwork, ParallelNetwork
from implicit_bias.training.homogeneous import MarginFunction

#: Samples are selected for a ball of this many steps around the present weights.
REACH = 40.0
#: Steps after which samples are selected again.
PATIENCE = 100
#: Number of samples from which products with them are in single precision.
SINGLE_FROM = 2000
#: Largest length of samples, and inverse of the smallest, for single precision.
SINGLE_UP_TO = 1e12
#: If more than this share of the samples is selected, all of them are.
NEARLY_ALL = 0.9
#: Steps longer than this, in radians, take all samples.
LONG = 0.1
#: Steps after which the readout's part of the preconditioner is computed again.
REFRESH = 20
#: Least ρ of the preconditioner, as a share of ‖∇F_R‖.
LEAST = 1e-6


class LayerFunction(ABC):
    """The margins of f(x) = A V(x), V = Σ_m g_m(x) ⟨w_m, x⟩ or relu ⟨w, x⟩, as `MarginFunction` has them.

    The readout A is (K, H) for K outputs, of which some entries stay 0 where these have units of their own. Whatever
    else a vector holds of weights (W, A), it holds the values V_hi of their units at the samples: all that descent asks
    for is linear or bilinear in W, A and V, so that one product with the samples a step is enough.

    A sample whose margin is above the smallest by more than log(n/ε), ε the rounding of doubles, changes neither the
    loss nor its gradient. As f(x) changes by at most γ(x)‖x‖ times the angle that unit weights turn by, γ² the largest
    Σ_m g_mh², and the difference of two outputs by at most √2 of that, a ball around the present weights is known in
    which that holds for all samples but some, and only those take part. Where the ball is left, all margins are
    computed and samples chosen anew (`around`).

    Of many samples the product is in single precision: where steps are taken V is then off by some 1e-7 of itself,
    until it is computed anew from the weights, after `PATIENCE` steps at the latest; rows of tables have doubles.
    """

    degree: ClassVar[int] = 2

    @torch.no_grad()
    def __init__(self, function: MarginFunction, *, single_from: int = SINGLE_FROM) -> None:
        self.has_kinks, self.count, self.outputs = function.has_kinks, function.count, function.outputs
        self.rest = function.rest
        self.X, self.y = function.inputs.numpy(), function.y.numpy()
        layer = networks_of(function.network)[0].one_layer()
        assert layer is not None
        self.constant = int(layer.chosen)
        #: Gates of a GLN are turned as in `TwoLayerUpdates`: the first is constant.
        self.turn = helmert(layer.parts, full=True)
        self.gates: Array | None = None
        if function.contexts is not None:
            seen = function.contexts.numpy()
            each = self.turn.T[seen] if self.constant else seen[..., None].astype(float)
            self.gates = np.ascontiguousarray(each.transpose(2, 1, 0))
        steepness = 1.0 if self.gates is None else np.sqrt((self.gates**2).sum(0).max(0))
        steepness = steepness * (2.0**0.5 if self.outputs > 1 else 1.0)
        self.slopes = np.maximum(steepness * np.linalg.norm(self.X, axis=1), np.finfo(float).tiny)
        ordinary = 1 / SINGLE_UP_TO < self.slopes.max() < SINGLE_UP_TO
        single = ordinary and len(self.X) >= single_from
        self.precision: type[np.floating] = np.float32 if single else np.float64
        self.ball, self.age = np.inf, 0
        #: Of each network side by side, or the one: hidden weights and readout, one after the other.
        self.sizes = [parameter.numel() for parameter in function.parameters]
        self.free = block_diag(*(np.ones((1, size)) for size in self.sizes[1::2]))
        if len(self.sizes) == 2:
            self.free = self.free.reshape(self.outputs, -1)
        self._prepare()
        parts, readout = self._turned(function.start.numpy())
        self.start, _ = self._rebase(None, np.stack([parts, parts]), np.stack([readout, readout]))

    @abstractmethod
    def _prepare(self) -> None:
        """Whatever is needed of all samples before they are taken first."""

    @abstractmethod
    def dot(self, a: Array, b: Array) -> float:
        """⟨a, b⟩ of weights."""

    @abstractmethod
    def gradient(self, vector: Array, radius: float) -> tuple[float, Array, Array]:
        """log Σ exp(−q) at `radius` times a unit vector, ∇F_R, and q (K, n) for the samples that take part."""

    @abstractmethod
    def tangent(self, gradient: Array, radial: float, vector: Array) -> Array:
        """The gradient less its part along the vector."""

    def direction(self, tangent: Array, radial: float, vector: Array, radius: float) -> Array:
        """Against which a step goes: the tangent itself."""
        return tangent

    @abstractmethod
    def _rebase(self, kept: Array | None, parts: Array, readouts: Array) -> tuple[Array, Array]:
        """Let these samples take part, or all; weights (2, M, H, d), (2, K, H), now and a step before, as vectors."""

    @abstractmethod
    def _split(self, vector: Array) -> tuple[Array, Array]:
        """V (H, n) and A (K, H)."""

    @abstractmethod
    def _explicit(self, vector: Array) -> tuple[Array, Array]:
        """The turned weights (M, H, d) and the readout (K, H)."""

    @abstractmethod
    def _cosine(self, vector: Array) -> float:
        """That of the angle between a unit vector and the one that samples were chosen at."""

    @staticmethod
    def mix(s: float, a: Array, t: float, b: Array) -> Array:
        """s a + t b."""
        mixed: Array = s * a
        daxpy(b.ravel(), mixed.ravel(), a=t)
        return mixed

    def _turned(self, w: Array) -> tuple[Array, Array]:
        """The turned weights (M, H, d) and the readout (K, H) of all weights as one vector."""
        found = np.split(w, np.cumsum(self.sizes)[:-1])
        each = np.concatenate(found[::2]).reshape(-1, len(self.turn), self.X.shape[1])
        readout = self.free.copy()
        readout[self.free > 0] = np.concatenate(found[1::2])
        return np.einsum("mc,hcd->mhd", self.turn, each), readout

    def flat(self, vector: Array) -> Tensor:
        """All weights as one vector."""
        parts, readout = self._explicit(vector)
        hidden = np.einsum("mc,mhd->hcd", self.turn, parts).ravel()
        both = [
            np.split(rows, np.cumsum(sizes)[:-1])
            for rows, sizes in ((hidden, self.sizes[::2]), (readout[self.free > 0], self.sizes[1::2]))
        ]
        return torch.as_tensor(np.concatenate([part for own in zip(*both, strict=True) for part in own]))

    def _take(self, kept: Array | None) -> None:
        """Let these samples take part, or all."""
        self.own_X, self.own_y, self.own_gates = self.X, self.y, self.gates
        if kept is not None:
            self.own_X, self.own_y = self.X[kept], self.y[kept]
            self.own_gates = None if self.gates is None else self.gates[:, :, kept]

    def _units(self, values: Array) -> Array:
        return values if self.gates is not None else np.maximum(values, 0.0)

    def _evaluated(self, vector: Array, radius: float) -> tuple[Array, float, Array, Array]:
        """The units (H, n); log Σ exp(−q) at `radius` times a unit vector, the softmax of −q, and q (K, n)."""
        values, readout = self._split(vector)
        units = self._units(values)
        margins = radius**2 * margins_of(readout @ units, self.own_y)
        return units, *softmin(margins), margins

    def loss(self, vector: Array, radius: float) -> float:
        """log Σ_i exp(−q_i) at `radius` times a unit vector, over all samples outside the ball."""
        if self._angle(vector) <= self.ball:
            return self._evaluated(vector, radius)[1]
        return softmin(radius**2 * self._all_margins(*self._explicit(vector)))[0]

    def _all_margins(self, parts: Array, readout: Array) -> Array:
        return margins_of(readout @ self._units(values_at(self.X, self.gates, parts)), self.y)

    def _angle(self, vector: Array) -> float:
        """At least the angle between a unit vector and the one that samples were chosen at."""
        if self.ball == np.inf:
            return 0.0
        return float(np.arccos(min(max(self._cosine(vector) - 1e-14, -1.0), 1.0)))

    def around(self, u: Array, before: Array, radius: float) -> tuple[Array, Array]:
        """Both unit vectors, over samples that suffice where extrapolation by less than their distance leads."""
        self.age += 1
        if self.ball == np.inf and self.age < PATIENCE:
            return u, before
        apart = self.mix(1.0, u, -1.0, before)
        step = max(self.dot(apart, apart), 0.0) ** 0.5
        if self._angle(u) + 2 * step <= self.ball and self.age < PATIENCE:
            return u, before
        both = [self._explicit(one) for one in (u, before)]
        margins = self._all_margins(*both[0]).min(0)
        least = int(margins.argmin())
        beyond = margins - margins[least] - np.log(self.count / np.finfo(float).eps) / radius**2
        angles = beyond / (self.slopes + self.slopes[least])
        kept = angles <= REACH * step
        whole = step > LONG or kept.mean() > NEARLY_ALL
        self.ball, self.age = np.inf if whole else float(angles[~kept].min()), 0
        parts, readouts = (np.stack(each) for each in zip(*both, strict=True))
        return self._rebase(None if whole else kept.nonzero()[0], parts, readouts)


class SpanFunction(LayerFunction):
    """Steps on how much of each sample the weights have.

        ∂/∂w_mh Σ_i ⟨s_i, f(x_i)⟩ = Σ_i α_hi g_mh(x_i) x_i,  α = Aᵀ S,   V of that = Σ_m g_m ∘ (g_m ∘ α) K,  K = X Xᵀ

    Weights (W, A), W = Σ_k c_k B_k + Σ_i α_i g(x_i) x_iᵀ, are two rows: [V, A, t] with t_k = ⟨B_k, W⟩, and [α, A, c].
    ⟨(W, A), (W′, A′)⟩ is the product of the first row of one and the second of the other.
    """

    def _prepare(self) -> None:
        rows = self.X.astype(self.precision)
        self.kernel = rows @ rows.T

    def dot(self, a: Array, b: Array) -> float:
        return float(a[0] @ b[1])

    def _rebase(self, kept: Array | None, parts: Array, readouts: Array) -> tuple[Array, Array]:
        """Both weights are B."""
        self._take(kept)
        self.parts = parts
        self.own_kernel = self.kernel if kept is None else self.kernel[np.ix_(kept, kept)]
        self.values = np.stack([values_at(self.own_X, self.own_gates, one).ravel() for one in parts])
        products = np.einsum("jmhd,kmhd->jk", parts, parts)
        readouts = readouts.reshape(2, -1)
        first = np.hstack([self.values, readouts, products])
        second = np.hstack([np.zeros_like(self.values), readouts, np.eye(2)])
        self.centre, before = np.ascontiguousarray(np.stack([first, second], 1))
        return self.centre, before

    def _split(self, vector: Array) -> tuple[Array, Array]:
        return self._row(vector[0])

    def _row(self, row: Array) -> tuple[Array, Array]:
        """V or α (H, n), and A (K, H)."""
        size = self.values.shape[1]
        return row[:size].reshape(-1, len(self.own_y)), row[size:-2].reshape(self.free.shape)

    def _explicit(self, vector: Array) -> tuple[Array, Array]:
        alpha, readout = self._row(vector[1])
        pushed = alpha[None] if self.own_gates is None else self.own_gates * alpha
        return np.tensordot(vector[1, -2:], self.parts, 1) + pushed @ self.own_X, readout

    def _cosine(self, vector: Array) -> float:
        size = self.values.shape[1]
        return float(vector[0, size:-2] @ self.centre[1, size:-2] + vector[0, -2])

    def gradient(self, vector: Array, radius: float) -> tuple[float, Array, Array]:
        values, readout = self._split(vector)
        units, value, softmax, margins = self._evaluated(vector, radius)
        slopes = slopes_of(softmax, self.own_y)
        alpha = readout.T @ slopes
        if self.own_gates is None:
            alpha *= values > 0
            pushed = self._spread(alpha)
        else:
            pushed = np.zeros_like(alpha)
            for gate in self.own_gates[self.constant :]:
                pushed += self._gated(alpha, gate)
            if self.constant:
                pushed += (readout.T * self.turn[0, 0] ** 2) @ self._spread(slopes)
        size, rows = alpha.size, np.empty_like(vector)
        rows[0, :size], rows[1, :size] = pushed.ravel(), alpha.ravel()
        rows[:, size:-2] = (self.free * (slopes @ units.T)).ravel()
        rows[0, -2:], rows[1, -2:] = self.values @ rows[1, :size], 0.0
        return value, rows, margins

    def tangent(self, gradient: Array, radial: float, vector: Array) -> Array:
        return self.mix(1.0, gradient, -radial, vector)

    def _gated(self, alpha: Array, gate: Array) -> Array:
        """g ∘ (g ∘ α) K."""
        spread = self._spread(gate * alpha)
        spread *= gate
        return spread

    def _spread(self, alpha: Array) -> Array:
        """α K."""
        spread: Array = alpha.astype(self.precision, copy=False) @ self.own_kernel
        return spread.astype(float, copy=False)


class WeightFunction(LayerFunction):
    """Steps on the weights themselves; vectors are [V, A, W], gradients [A, W], and V of a step takes one product.

    Preconditioned, a step goes along P M⁻¹ P∇F_R(u), P = I − uuᵀ, M a bound on the curvature of F_R, in blocks:

        M = I + (R²/ρ) E_p[∂f ∂fᵀ],  ρ = |⟨∇F_R(u), u⟩|,  p = softmax(−q)
        for w_mhj:        E_p[(∂f/∂w_mhj)²] ≈ Σ_c a_ch² · E[g_mh²] · E[x_j²],    E over all samples
        for the readout:  E_p[V Vᵀ]  (H, H), anew every `REFRESH` steps; of it the free entries take part

    ρ is the curvature of the sphere, the second moment bounds that of log Σ exp(−q), the variance under p. For images
    it is thousands of times larger along their mean than along most other directions. Gates, inputs and softmax are
    taken for independent, units for uncorrelated; inputs that are rotated to their principal axes have a diagonal
    E[x xᵀ]. Ours.
    """

    def __init__(
        self, function: MarginFunction, preconditioned: bool = False, *, single_from: int = SINGLE_FROM
    ) -> None:
        self.preconditioned, self.refreshed = preconditioned, 0
        super().__init__(function, single_from=single_from)

    def _prepare(self) -> None:
        self.tail = self.free.size + len(self.turn) * self.free.shape[1] * self.X.shape[1]
        if self.preconditioned:
            assert self.gates is not None
            H = self.free.shape[1]
            self.moments, self.axes = np.zeros(H), np.eye(H)
            #: E[g_mh²] E[x_j²], shape (M, H, d).
            self.spectrum = (self.gates**2).mean(2)[..., None] * (self.X**2).mean(0)

    def dot(self, a: Array, b: Array) -> float:
        return float(a[-self.tail :] @ b[-self.tail :])

    def _rebase(self, kept: Array | None, parts: Array, readouts: Array) -> tuple[Array, Array]:
        self._take(kept)
        self.factor = self.own_X.astype(self.precision, copy=False)
        self.own_factors = None if self.own_gates is None else self.own_gates.astype(self.precision, copy=False)
        values = (values_at(self.own_X, self.own_gates, one).ravel() for one in parts)
        present, last = (
            np.concatenate([own, readout.ravel(), part.ravel()])
            for own, readout, part in zip(values, readouts, parts, strict=True)
        )
        self.centre = present[-self.tail :]
        return present, last

    def _split(self, vector: Array) -> tuple[Array, Array]:
        first = len(vector) - self.tail
        readout = vector[first : first + self.free.size].reshape(self.free.shape)
        return vector[:first].reshape(-1, len(self.own_y)), readout

    def _explicit(self, vector: Array) -> tuple[Array, Array]:
        return self._parts(vector), self._split(vector)[1]

    def _parts(self, vector: Array) -> Array:
        """The turned weights (M, H, d), of a gradient too."""
        return vector[self.free.size - self.tail :].reshape(len(self.turn), -1, self.X.shape[1])

    def _cosine(self, vector: Array) -> float:
        return self.dot(self.centre, vector)

    def gradient(self, vector: Array, radius: float) -> tuple[float, Array, Array]:
        values, readout = self._split(vector)
        units, value, softmax, margins = self._evaluated(vector, radius)
        if self.preconditioned and self.refreshed % REFRESH == 0:
            moments = (units * softmax.sum(0)) @ units.T
            if np.isfinite(moments).all():
                self.moments, self.axes = np.linalg.eigh(moments)
        slopes = slopes_of(softmax, self.own_y)
        found = np.empty(self.tail)
        found[: self.free.size] = (self.free * (slopes @ units.T)).ravel()
        parts, slopes = self._parts(found), slopes.astype(self.precision, copy=False)
        alpha = readout.T.astype(self.precision, copy=False) @ slopes
        if self.own_factors is None:
            alpha *= values > 0
            parts[0] = alpha @ self.factor
        else:
            if self.constant:
                parts[0] = (readout.T * self.turn[0, 0]) @ (slopes @ self.factor)
            for part, gate in zip(parts[self.constant :], self.own_factors[self.constant :], strict=True):
                part[:] = (gate * alpha) @ self.factor
        return value, found, margins

    def tangent(self, gradient: Array, radial: float, vector: Array) -> Array:
        tangent: Array = gradient - radial * vector[-self.tail :]
        return tangent

    def direction(self, tangent: Array, radial: float, vector: Array, radius: float) -> Array:
        """Against which a step goes, with its V."""
        if self.preconditioned:
            rho = max(abs(radial), LEAST * self.dot(tangent, tangent) ** 0.5)
            tangent = self._steered(tangent, radius * (radius / rho), vector) if rho > 0 else tangent
        found = np.empty_like(vector)
        found[-self.tail :] = tangent
        found[: -self.tail] = self._values(self._parts(tangent)).ravel()
        return found

    def _steered(self, tangent: Array, sharpness: float, vector: Array) -> Array:
        """P M⁻¹ of a tangent."""
        self.refreshed += 1
        squares, steered = (self._split(vector)[1] ** 2).sum(0)[:, None], np.empty_like(tangent)
        pulls = tangent[: self.free.size].reshape(self.free.shape)
        # Where a weight's curvature overflows, it stays.
        with np.errstate(over="ignore"):
            self._parts(steered)[:] = self._parts(tangent) / (1.0 + sharpness * squares * self.spectrum)
            moved = (pulls @ self.axes / (1.0 + sharpness * self.moments.clip(0.0))) @ self.axes.T
        steered[: self.free.size] = (self.free * moved).ravel()
        return self.mix(1.0, steered, -self.dot(steered, vector), vector[-self.tail :])

    def _values(self, parts: Array) -> Array:
        """V (H, n) of weights (M, H, d)."""
        rows = parts.reshape(-1, parts.shape[2]).astype(self.precision, copy=False)
        products = (rows @ self.factor.T).reshape(*parts.shape[:2], -1)
        if self.own_factors is None:
            return products[0]
        products *= self.own_factors
        return products.sum(0)


def values_at(X: Array, gates: Array | None, parts: Array) -> Array:
    """V (H, n)."""
    products: Array = parts @ X.T
    return products[0] if gates is None else (gates * products).sum(0)


def margins_of(outputs: Array, y: Array) -> Array:
    """q of outputs (K, n): of one the product with signs y, of several the differences, infinite to the class itself.

    >>> margins_of(np.array([[2.0], [0.5], [1.0]]), np.array([0])).ravel().tolist()
    [inf, 1.5, 1.0]
    """
    if len(outputs) == 1:
        return y * outputs
    own = y, np.arange(len(y))
    margins = outputs[own] - outputs
    margins[own] = np.inf
    return margins


def slopes_of(softmax: Array, y: Array) -> Array:
    """The derivatives (K, n) of log Σ exp(−q) by the outputs, which `softmax` is used up for.

    >>> slopes_of(np.array([[0.0], [0.25], [0.75]]), np.array([0])).ravel().tolist()
    [-1.0, 0.25, 0.75]
    """
    if len(softmax) == 1:
        return -y * softmax
    softmax[y, np.arange(len(y))] = -softmax.sum(0)
    return softmax


def softmin(margins: Array) -> tuple[float, Array]:
    """log Σ exp(−q), and the softmax of −q."""
    least = margins.min()
    shares = np.exp(least - margins)
    total = shares.sum()
    return float(np.log(total) - least), shares / total


def networks_of(network: GatedNetwork) -> list[GatedNetwork]:
    """The networks of a `ParallelNetwork`, or the network alone."""
    return network.parts if isinstance(network, ParallelNetwork) else [network]
