"""Descent of networks with one hidden layer on their weights, for many samples, and preconditioned."""

from __future__ import annotations

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias.training.homogeneous import MarginFunction
from implicit_bias.training.layer import LayerFunction, slopes_of, values_at

#: Steps after which the readout's part of the preconditioner is computed anew; the least ρ, as a share of ‖∇F_R‖.
REFRESH, LEAST = 20, 1e-6


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

    def __init__(self, function: MarginFunction, preconditioned: bool = False) -> None:
        self.preconditioned, self.refreshed = preconditioned, 0
        super().__init__(function)

    def _prepare(self) -> None:
        self.tail = self.free.size + len(self.turn) * self.free.shape[1] * self.X.shape[1]
        if self.preconditioned:
            assert self.gates is not None
            H = self.free.shape[1]
            self.moments, self.axes = np.zeros(H), np.eye(H)
            #: E[g_mh²] E[x_j²], shape (M, H, d).
            self.spectrum = (self.gates**2).mean(2)[..., None] * (self.X**2).mean(0)

    def dot(self, a: Array, b: Array) -> float:
        """⟨a, b⟩."""
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
        """log Σ exp(−q) at `radius` times a unit vector, ∇F_R, and q (K, n) for the samples that take part."""
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
        """The gradient less its part along the vector."""
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
