"""Margins of networks with one hidden layer, and their gradients, for descent to the limit."""

from abc import abstractmethod

import numpy as np
import torch
from scipy.linalg import block_diag
from scipy.linalg.blas import daxpy
from torch import Tensor

from implicit_bias._utils.blocks import gram
from implicit_bias._utils.checks import Array
from implicit_bias.training.homogeneous import MarginFunction, Objective

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


class LayerFunction(Objective):
    """The objective of `MarginFunction` for f(x) = A V(x) with V = Σ_m g_m(x) ⟨w_m, x⟩ or V = relu ⟨w, x⟩.

    The readout A is (K, H) for K outputs; some entries stay 0 if every output has its own units. W (M, H, d) and the
    gates g (M, H, n) are w′ and g′ of `OneLayer`. A vector of weights (W, A) also contains the values V_hi of the units
    at the selected samples, so that one product with the samples per step is enough. With many samples it is in single
    precision, and V is computed again from the weights after `PATIENCE` steps at most. Tables are computed in doubles.

    A sample with a margin above the smallest by more than log(n/ε), ε the rounding of doubles, changes neither the loss
    nor its gradient. When unit weights turn by an angle, f(x) changes by at most γ(x)‖x‖ times this angle, γ² the
    largest Σ_m g_mh², and the difference of two outputs by at most √2 times that. This gives a ball around the present
    weights in which only some samples matter; outside the ball, samples are chosen again (`around`).
    """

    degree = 2

    @torch.no_grad()
    def __init__(self, function: MarginFunction, *, single_from: int = SINGLE_FROM) -> None:
        self.has_kinks, self.count, self.outputs = function.has_kinks, function.count, function.outputs
        self.rest = function.rest
        self.X, self.y = function.inputs.numpy(), function.y.numpy()
        layer = function.layers[0]
        assert layer is not None
        self.turn, self.constant = layer.turn(), int(layer.chosen)
        #: The gates g (M, H, n); None if they are learned.
        self.gates: Array | None = None
        if function.contexts is not None:
            self.gates = np.ascontiguousarray(layer.turned_gates(function.contexts).mT.numpy())
        steepness = 1.0 if self.gates is None else np.sqrt((self.gates**2).sum(0).max(0))
        steepness = steepness * (2.0**0.5 if self.outputs > 1 else 1.0)
        self.slopes = np.maximum(steepness * np.linalg.norm(self.X, axis=1), np.finfo(float).tiny)
        ordinary = 1 / SINGLE_UP_TO < self.slopes.max() < SINGLE_UP_TO
        self.precision: type[np.floating] = np.float32 if ordinary and len(self.X) >= single_from else np.float64
        self.ball, self.age = np.inf, 0
        #: Sizes of the hidden weights and the readout of each parallel network, in turn.
        self.sizes = [parameter.numel() for parameter in function.parameters]
        #: 1 for the entries of the readout that are weights, else 0.
        self.free = block_diag(*(np.ones((1, size)) for size in self.sizes[1::2]))
        if len(self.sizes) == 2:
            self.free = self.free.reshape(self.outputs, -1)
        self._prepare()
        parts, readout = self._turned(function.start.numpy())
        self.start, _ = self._rebase(None, np.stack([parts, parts]), np.stack([readout, readout]))

    @abstractmethod
    def _prepare(self) -> None:
        """Compute the arrays of all samples that a subclass needs."""

    @abstractmethod
    def _vectors(self, selected: Array | None, values: Array, parts: Array, readouts: Array) -> Array:
        """Return the vectors (2, …) of two sets of weights: V (2, H·n), W (2, M, H, d) and A (2, K·H)."""

    @abstractmethod
    def _split(self, vector: Array) -> tuple[Array, Array]:
        """Return V (H, n) at the selected samples, and A (K, H), of a vector."""

    @abstractmethod
    def _explicit(self, vector: Array) -> tuple[Array, Array]:
        """Return W (M, H, d) and A (K, H) of a vector."""

    @abstractmethod
    def _cosine(self, vector: Array) -> float:
        """Return the cosine of the angle between a unit vector and the one at which samples were selected."""

    @abstractmethod
    def _gradient(self, values: Array, readout: Array, slopes: Array, of_readout: Array) -> Array:
        """Return the gradient as a vector, given the derivatives `slopes` (K, n) and `of_readout` (K, H)."""

    def mix(self, s: float, a: Array, t: float, b: Array) -> Array:
        mixed: Array = s * a
        daxpy(b.ravel(), mixed.ravel(), a=t)
        return mixed

    def _turned(self, w: Array) -> tuple[Array, Array]:
        """Return W (M, H, d) and A (K, H), given all weights of the network in one array, in the network's order."""
        blocks = np.split(w, np.cumsum(self.sizes)[:-1])
        each = np.concatenate(blocks[::2]).reshape(-1, len(self.turn), self.X.shape[1])
        readout = self.free.copy()
        readout[self.free > 0] = np.concatenate(blocks[1::2])
        return np.einsum("mc,hcd->mhd", self.turn, each), readout

    def flat(self, w: Array) -> Tensor:
        parts, readout = self._explicit(w)
        inner = np.split(np.einsum("mc,mhd->hcd", self.turn, parts).ravel(), np.cumsum(self.sizes[::2])[:-1])
        outer = np.split(readout[self.free > 0], np.cumsum(self.sizes[1::2])[:-1])
        return torch.as_tensor(np.concatenate([part for layer in zip(inner, outer, strict=True) for part in layer]))

    def _rebase(self, selected: Array | None, parts: Array, readouts: Array) -> tuple[Array, Array]:
        """Select samples by index, or all for None; return the vectors of both weights, the current ones first."""
        rows = slice(None) if selected is None else selected
        self.selected_X, self.selected_y = self.X[rows], self.y[rows]
        self.selected_gates = None if self.gates is None else self.gates[:, :, rows]
        values = np.stack([values_at(self.selected_X, self.selected_gates, one).ravel() for one in parts])
        self.centre, before = self._vectors(selected, values, parts, readouts.reshape(2, -1))
        return self.centre, before

    def _units(self, values: Array) -> Array:
        return values if self.gates is not None else np.maximum(values, 0.0)

    def _evaluated(self, vector: Array, radius: float) -> tuple[Array, float, Array, Array]:
        """Return the hidden layer (H, n) at a unit vector, and at R times it log Σ exp(−q), softmax(−q), q (K, n)."""
        values, readout = self._split(vector)
        units = self._units(values)
        margins = radius**2 * margins_of(readout @ units, self.selected_y)
        return units, *softmin(margins), margins

    def loss(self, w: Array, radius: float) -> float:
        """Return log Σ_i exp(−q_i) at `radius` times a unit vector; over all samples if w is outside the ball."""
        if self._angle(w) <= self.ball:
            return self._evaluated(w, radius)[1]
        return softmin(radius**2 * self._all_margins(*self._explicit(w)))[0]

    def gradient(self, w: Array, radius: float) -> tuple[float, Array, Array]:
        """Return log Σ exp(−q) at `radius` times a unit vector, ∇F_R, and q (K, n) of the selected samples."""
        units, value, softmax, margins = self._evaluated(w, radius)
        slopes = slopes_of(softmax, self.selected_y)
        return value, self._gradient(*self._split(w), slopes, self.free * (slopes @ units.T)), margins

    def _all_margins(self, parts: Array, readout: Array) -> Array:
        return margins_of(readout @ self._units(values_at(self.X, self.gates, parts)), self.y)

    def _angle(self, vector: Array) -> float:
        """Return an upper bound of the angle from the unit vector at which samples were selected; 0 if all were."""
        if self.ball == np.inf:
            return 0.0
        return float(np.arccos(min(max(self._cosine(vector) - 1e-14, -1.0), 1.0)))

    def around(self, u: Array, before: Array, radius: float) -> tuple[Array, Array]:
        """Return the unit vectors `u` and `before`; select samples again if the next step may leave their ball."""
        self.age += 1
        if self.ball == np.inf and self.age < PATIENCE:
            return u, before
        difference = self.mix(1.0, u, -1.0, before)
        step = max(self.dot(difference, difference), 0.0) ** 0.5
        if self._angle(u) + 2 * step <= self.ball and self.age < PATIENCE:
            return u, before
        parts, readouts = (np.stack(both) for both in zip(self._explicit(u), self._explicit(before), strict=True))
        margins = self._all_margins(parts[0], readouts[0]).min(0)
        closest = int(margins.argmin())
        excess = margins - margins[closest] - np.log(self.count / np.finfo(float).eps) / radius**2
        angles = excess / (self.slopes + self.slopes[closest])
        selected = angles <= REACH * step
        takes_all = step > LONG or selected.mean() > NEARLY_ALL
        self.ball, self.age = np.inf if takes_all else float(angles[~selected].min()), 0
        return self._rebase(None if takes_all else selected.nonzero()[0], parts, readouts)


class SpanFunction(LayerFunction):
    """Steps on the coefficients of the samples in the weights.

        ∂/∂w_mh Σ_i ⟨s_i, f(x_i)⟩ = Σ_i α_hi g_mh(x_i) x_i,  α = Aᵀ S,   V of that = Σ_m g_m ∘ (g_m ∘ α) K,  K = X Xᵀ

    Weights (W, A), W = Σ_k c_k B_k + Σ_i α_i g(x_i) x_iᵀ, are two rows: [V, A, t] with t_k = ⟨B_k, W⟩, and [α, A, c].
    B_1 and B_2 are the weights at the last selection of samples, and those a step before.
    ⟨(W, A), (W′, A′)⟩ is the product of the first row of one and the second of the other.
    """

    def _prepare(self) -> None:
        self.kernel = gram(self.X.astype(self.precision))

    def dot(self, a: Array, b: Array) -> float:
        return float(a[0] @ b[1])

    def _vectors(self, selected: Array | None, values: Array, parts: Array, readouts: Array) -> Array:
        """Return the vectors of both weights, which become B_1 and B_2."""
        self.selected_kernel = self.kernel if selected is None else self.kernel[np.ix_(selected, selected)]
        self.parts, self.values = parts, values
        first = np.hstack([values, readouts, np.einsum("jmhd,kmhd->jk", parts, parts)])
        second = np.hstack([np.zeros_like(values), readouts, np.eye(2)])
        return np.ascontiguousarray(np.stack([first, second], 1))

    def _split(self, vector: Array) -> tuple[Array, Array]:
        return self._row(vector[0])

    def _row(self, row: Array) -> tuple[Array, Array]:
        """Return V (H, n) from row 0 of a vector or α (H, n) from row 1, and the readout A (K, H)."""
        size = self.values.shape[1]
        return row[:size].reshape(-1, len(self.selected_y)), row[size:-2].reshape(self.free.shape)

    def _explicit(self, vector: Array) -> tuple[Array, Array]:
        alpha, readout = self._row(vector[1])
        gated = alpha[None] if self.selected_gates is None else self.selected_gates * alpha
        return np.tensordot(vector[1, -2:], self.parts, 1) + gated @ self.selected_X, readout

    def _cosine(self, vector: Array) -> float:
        size = self.values.shape[1]
        return float(vector[0, size:-2] @ self.centre[1, size:-2] + vector[0, -2])

    def _gradient(self, values: Array, readout: Array, slopes: Array, of_readout: Array) -> Array:
        alpha = readout.T @ slopes
        if self.selected_gates is None:
            alpha *= values > 0
            of_values = self._through_kernel(alpha)
        else:
            of_values = np.zeros_like(alpha)
            for gate in self.selected_gates[self.constant :]:
                of_values += gate * self._through_kernel(gate * alpha)
            if self.constant:
                of_values += (readout.T * self.turn[0, 0] ** 2) @ self._through_kernel(slopes)
        size = alpha.size
        rows = np.empty((2, size + of_readout.size + 2))
        rows[0, :size], rows[1, :size] = of_values.ravel(), alpha.ravel()
        rows[:, size:-2] = of_readout.ravel()
        rows[0, -2:], rows[1, -2:] = self.values @ rows[1, :size], 0.0
        return rows

    def tangent(self, gradient: Array, radial: float, w: Array) -> Array:
        return self.mix(1.0, gradient, -radial, w)

    def _through_kernel(self, alpha: Array) -> Array:
        return np.asarray(alpha.astype(self.precision, copy=False) @ self.selected_kernel, dtype=float)


class WeightFunction(LayerFunction):
    """Steps on the weights themselves; vectors are [V, A, W], gradients [A, W], and V of a step takes one product.

    Preconditioned, a step goes along P M⁻¹ P∇F_R(u), P = I − uuᵀ, M a bound on the curvature of F_R, in blocks:

        M = I + (R²/ρ) E_p[∂f ∂fᵀ],  ρ = |⟨∇F_R(u), u⟩|,  p = softmax(−q)
        for w_mhj:        E_p[(∂f/∂w_mhj)²] ≈ Σ_c a_ch² · E[g_mh²] · E[x_j²],    E over all samples
        for the readout:  E_p[V Vᵀ]  (H, H), again every `REFRESH` steps, of which the free entries take part

    ρ is the curvature due to the sphere. The curvature of log Σ exp(−q) is a variance under p, which the second moment
    bounds. Gates, inputs and softmax are treated as independent, units as uncorrelated. Inputs that are rotated to
    their principal axes have a diagonal E[x xᵀ]. This preconditioner is ours.
    """

    def __init__(self, function: MarginFunction, preconditioned: bool = False, **options: int) -> None:
        self.preconditioned, self.directions = preconditioned, 0
        super().__init__(function, **options)

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

    def _vectors(self, selected: Array | None, values: Array, parts: Array, readouts: Array) -> Array:
        self.rounded_X = self.selected_X.astype(self.precision, copy=False)
        self.rounded_gates = (
            None if self.selected_gates is None else self.selected_gates.astype(self.precision, copy=False)
        )
        return np.hstack([values, readouts, parts.reshape(2, -1)])

    def _split(self, vector: Array) -> tuple[Array, Array]:
        first = len(vector) - self.tail
        readout = vector[first : first + self.free.size].reshape(self.free.shape)
        return vector[:first].reshape(-1, len(self.selected_y)), readout

    def _explicit(self, vector: Array) -> tuple[Array, Array]:
        return self._parts(vector), self._split(vector)[1]

    def _parts(self, vector: Array) -> Array:
        return vector[self.free.size - self.tail :].reshape(len(self.turn), -1, self.X.shape[1])

    def _cosine(self, vector: Array) -> float:
        return self.dot(self.centre, vector)

    def _gradient(self, values: Array, readout: Array, slopes: Array, of_readout: Array) -> Array:
        gradient = np.empty(self.tail)
        gradient[: self.free.size] = of_readout.ravel()
        parts, slopes = self._parts(gradient), slopes.astype(self.precision, copy=False)
        alpha = readout.T.astype(self.precision, copy=False) @ slopes
        if self.rounded_gates is None:
            alpha *= values > 0
            parts[0] = alpha @ self.rounded_X
        else:
            if self.constant:
                parts[0] = (readout.T * self.turn[0, 0]) @ (slopes @ self.rounded_X)
            for part, gate in zip(parts[self.constant :], self.rounded_gates[self.constant :], strict=True):
                part[:] = (gate * alpha) @ self.rounded_X
        return gradient

    def tangent(self, gradient: Array, radial: float, w: Array) -> Array:
        return np.asarray(gradient - radial * w[-self.tail :])

    def direction(self, tangent: Array, radial: float, w: Array, radius: float) -> Array:
        """Return the tangent, maybe preconditioned, and its V: the vector of which a step at w subtracts a multiple."""
        if self.preconditioned:
            rho = max(abs(radial), LEAST * self.dot(tangent, tangent) ** 0.5)
            tangent = self._steered(tangent, rho, w, radius) if rho > 0 else tangent
        step = np.empty_like(w)
        step[-self.tail :] = tangent
        parts = self._parts(tangent).astype(self.precision, copy=False)
        step[: -self.tail] = values_at(self.rounded_X, self.rounded_gates, parts).ravel()
        return step

    def _steered(self, tangent: Array, rho: float, vector: Array, radius: float) -> Array:
        """Return P M⁻¹ times a tangent [A, W], R = `radius`, ρ = `rho`; every `REFRESH` calls, update E_p[V Vᵀ]."""
        if self.directions % REFRESH == 0:
            units, _, softmax, _ = self._evaluated(vector, radius)
            moments = (units * softmax.sum(0)) @ units.T
            if np.isfinite(moments).all():
                self.moments, self.axes = np.linalg.eigh(moments)
        self.directions += 1
        sharpness = radius * (radius / rho)
        squares, damped = (self._split(vector)[1] ** 2).sum(0)[:, None], np.empty_like(tangent)
        of_readout = tangent[: self.free.size].reshape(self.free.shape)
        # Where a weight's curvature overflows, it stays.
        with np.errstate(over="ignore"):
            self._parts(damped)[:] = self._parts(tangent) / (1.0 + sharpness * squares * self.spectrum)
            moved = (of_readout @ self.axes / (1.0 + sharpness * self.moments.clip(0.0))) @ self.axes.T
        damped[: self.free.size] = (self.free * moved).ravel()
        return self.mix(1.0, damped, -self.dot(damped, vector), vector[-self.tail :])


def values_at(X: Array, gates: Array | None, parts: Array) -> Array:
    """Return V (H, n) = Σ_m g_m ∘ w_m Xᵀ, for w (M, H, d) and g (M, H, n); without gates, w_1 Xᵀ before the ReLU."""
    products: Array = (parts.reshape(-1, parts.shape[2]) @ X.T).reshape(*parts.shape[:2], -1)
    if gates is None:
        return products[0]
    products *= gates
    return products.sum(0)


def margins_of(outputs: Array, y: Array) -> Array:
    """Return q (K, n) of outputs f (K, n): y f for K = 1 and signs y, or f_y − f_c for classes y, infinity for c = y.

    >>> margins_of(np.array([[2.0], [0.5], [1.0]]), np.array([0])).ravel().tolist()
    [inf, 1.5, 1.0]
    """
    if len(outputs) == 1:
        return y * outputs
    of_labels = y, np.arange(len(y))
    margins = outputs[of_labels] - outputs
    margins[of_labels] = np.inf
    return margins


def slopes_of(softmax: Array, y: Array) -> Array:
    """Return the derivatives (K, n) of log Σ exp(−q) by the outputs, for the margins q of `margins_of`.

    `softmax` (K, n) is softmax(−q) over all entries; for K > 1 it is overwritten.

    >>> slopes_of(np.array([[0.0], [0.25], [0.75]]), np.array([0])).ravel().tolist()
    [-1.0, 0.25, 0.75]
    """
    if len(softmax) == 1:
        return -y * softmax
    softmax[y, np.arange(len(y))] = -softmax.sum(0)
    return softmax


def softmin(margins: Array) -> tuple[float, Array]:
    """Return log Σ exp(−q) and softmax(−q), both over all entries of q (K, n); infinite q have the share 0."""
    smallest = margins.min()
    shares = np.exp(smallest - margins)
    total = shares.sum()
    return float(np.log(total) - smallest), shares / total
