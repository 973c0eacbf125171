"""Descent of networks with one hidden layer in the span of their samples: one product a step, over those that count."""

from __future__ import annotations

import numpy as np
import torch
from scipy.linalg import block_diag, helmert
from scipy.linalg.blas import daxpy
from torch import Tensor

from implicit_bias.ground.checks import Array
from implicit_bias.networks import GatedLinearNetwork, GatedNetwork, ParallelNetwork
from implicit_bias.training.homogeneous import MarginFunction
from implicit_bias.training.two_layers import has_one_layer

#: Samples are chosen for a ball of this many steps around the present weights, and anew after this many steps.
REACH, PATIENCE = 40.0, 100
#: From this many samples on, of lengths up to this, products with their kernel are in single precision.
SINGLE_FROM, SINGLE_UP_TO = 2000, 1e12
#: Above this share of all samples all are taken; steps longer than this, in radians, need all.
NEARLY_ALL, LONG = 0.9, 0.1


class SpanFunction:
    """The margins of f(x) = A V(x), V = Σ_m g_m(x) ⟨w_m, x⟩ or relu ⟨w, x⟩, as `MarginFunction` has them.

        ∂/∂w_mh Σ_i ⟨s_i, f(x_i)⟩ = Σ_i α_hi g_mh(x_i) x_i,  α = Aᵀ S,   V of that = Σ_m g_m ∘ (g_m ∘ α) K,  K = X Xᵀ

    The readout A is (K, H) for K outputs, of which some entries stay 0 where these have units of their own. Weights
    (W, A), W = Σ_k c_k B_k + Σ_i α_i g(x_i) x_iᵀ, are two rows: [V, A, t] of the values V_hi of the units at the
    samples and t_k = ⟨B_k, W⟩, and [α, A, c]. All that descent asks for is linear or bilinear in them: ⟨(W, A), (W′,
    A′)⟩ is the product of the first row of one and the second of the other.

    A sample whose margin is above the smallest by more than log(n/ε), ε the rounding of doubles, changes neither the
    loss nor its gradient. As f(x) changes by at most γ(x)‖x‖ times the angle that unit weights turn by, γ² the largest
    Σ_m g_mh², and the difference of two outputs by at most √2 of that, a ball around the present weights is known in
    which that holds for all samples but some, and only those take part. Where the ball is left, all margins are
    computed and samples chosen anew (`around`).

    Of many samples the product is in single precision: where steps are taken V is then off by some 1e-7 of itself,
    until it is computed anew from the weights, after `PATIENCE` steps at the latest; rows of tables have doubles.
    """

    degree = 2

    @torch.no_grad()
    def __init__(self, function: MarginFunction) -> None:
        self.has_kinks, self.count, self.outputs = function.has_kinks, function.count, function.outputs
        self.X, self.y, network = function.inputs.numpy(), function.y.numpy(), _first(function.network)
        self.constant = int(isinstance(network, GatedLinearNetwork))
        #: Gates of a GLN are turned as in `TwoLayerUpdates`: the first is constant.
        self.turn = helmert(network.shape[0][1] if isinstance(network, GatedLinearNetwork) else 1, full=True)
        self.gates: Array | None = None
        if function.contexts is not None:
            seen = function.contexts.numpy()
            each = self.turn.T[seen] if self.constant else seen[..., None].astype(float)
            self.gates = np.ascontiguousarray(each.transpose(2, 1, 0))
        steepness = 1.0 if self.gates is None else np.sqrt((self.gates**2).sum(0).max(0))
        steepness = steepness * (2.0**0.5 if self.outputs > 1 else 1.0)
        self.slopes = np.maximum(steepness * np.linalg.norm(self.X, axis=1), np.finfo(float).tiny)
        ordinary = 1 / SINGLE_UP_TO < self.slopes.max() < SINGLE_UP_TO
        single = ordinary and len(self.X) >= SINGLE_FROM
        self.precision: type[np.floating] = np.float32 if single else np.float64
        self.kernel, self.ball, self.age = _kernel(self.X.astype(self.precision)), np.inf, 0
        #: Of each network side by side, or the one: hidden weights and readout, one after the other.
        self.sizes = [parameter.numel() for parameter in function.parameters]
        self.free = block_diag(*(np.ones((1, size)) for size in self.sizes[1::2]))
        if len(self.sizes) == 2:
            self.free = self.free.reshape(self.outputs, -1)
        parts, readout = self._turned(function.start.numpy())
        self.start, _ = self._rebase(None, np.stack([parts, parts]), np.stack([readout, readout]))

    @staticmethod
    def dot(a: Array, b: Array) -> float:
        """⟨a, b⟩."""
        return float(a[0] @ b[1])

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

    def _rebase(self, kept: Array | None, parts: Array, readouts: Array) -> tuple[Array, Array]:
        """Let these samples take part, or all; both weights (2, M, H, d), (2, K, H) are B, and given as vectors."""
        self.parts, self.own_X, self.own_y, self.own_gates = parts, self.X, self.y, self.gates
        self.own_kernel = self.kernel
        if kept is not None:
            self.own_X, self.own_y = self.X[kept], self.y[kept]
            self.own_gates = None if self.gates is None else self.gates[:, :, kept]
        self.factor = self.own_X.astype(self.precision, copy=False)
        if kept is not None:
            self.own_kernel = _kernel(self.factor) if self.kernel is None else self.kernel[np.ix_(kept, kept)]
        self.values = np.stack([_values(self.own_X, self.own_gates, one).ravel() for one in parts])
        products = np.einsum("jmhd,kmhd->jk", parts, parts)
        readouts = readouts.reshape(2, -1)
        first = np.hstack([self.values, readouts, products])
        second = np.hstack([np.zeros_like(self.values), readouts, np.eye(2)])
        self.centre, before = np.ascontiguousarray(np.stack([first, second], 1))
        return self.centre, before

    def _split(self, row: Array) -> tuple[Array, Array]:
        """V or α (H, n), and A (K, H)."""
        size = self.values.shape[1]
        return row[:size].reshape(-1, len(self.own_y)), row[size:-2].reshape(self.free.shape)

    def _explicit(self, vector: Array) -> tuple[Array, Array]:
        """The turned weights (M, H, d) and the readout (K, H)."""
        alpha, readout = self._split(vector[1])
        pushed = alpha[None] if self.own_gates is None else self.own_gates * alpha
        return np.tensordot(vector[1, -2:], self.parts, 1) + pushed @ self.own_X, readout

    def _units(self, values: Array) -> Array:
        return values if self.gates is not None else np.maximum(values, 0.0)

    def loss(self, vector: Array, radius: float) -> float:
        """log Σ_i exp(−q_i) at `radius` times a unit vector, over all samples outside the ball."""
        if self._angle(vector) <= self.ball:
            values, readout = self._split(vector[0])
            return _log_sum_exp(radius**2 * _margins(readout @ self._units(values), self.own_y))[0]
        return _log_sum_exp(radius**2 * self._all_margins(*self._explicit(vector)))[0]

    def _all_margins(self, parts: Array, readout: Array) -> Array:
        return _margins(readout @ self._units(_values(self.X, self.gates, parts)), self.y)

    def _angle(self, vector: Array) -> float:
        """At least the angle between a unit vector and the one that samples were chosen at."""
        if self.ball == np.inf:
            return 0.0
        size = self.values.shape[1]
        cosine = float(vector[0, size:-2] @ self.centre[1, size:-2] + vector[0, -2])
        return float(np.arccos(min(max(cosine - 1e-14, -1.0), 1.0)))

    def gradient(self, vector: Array, radius: float) -> tuple[float, Array, Array]:
        """log Σ exp(−q) at `radius` times a unit vector, ∇F_R, and q (K, n) for the samples that take part."""
        values, readout = self._split(vector[0])
        units = self._units(values)
        margins = radius**2 * _margins(readout @ units, self.own_y)
        value, softmax = _log_sum_exp(margins)
        slopes = _slopes(softmax, self.own_y)
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

    def _gated(self, alpha: Array, gate: Array) -> Array:
        """g ∘ (g ∘ α) K."""
        spread = self._spread(gate * alpha)
        spread *= gate
        return spread

    def _spread(self, alpha: Array) -> Array:
        """α K."""
        alpha = alpha.astype(self.precision, copy=False)
        K, X = self.own_kernel, self.factor
        spread: Array = (alpha @ X) @ X.T if K is None else alpha @ K
        return spread.astype(float, copy=False)

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


def _kernel(X: Array) -> Array | None:
    """X Xᵀ where the product with it is shorter than with X and Xᵀ."""
    n, d = X.shape
    return X @ X.T if n <= 2 * d else None


def _values(X: Array, gates: Array | None, parts: Array) -> Array:
    """V (H, n)."""
    products: Array = parts @ X.T
    return products[0] if gates is None else (gates * products).sum(0)


def _margins(outputs: Array, y: Array) -> Array:
    """q of outputs (K, n): of one the product with signs y, of several the differences, infinite to the class itself.

    >>> _margins(np.array([[2.0], [0.5], [1.0]]), np.array([0])).ravel().tolist()
    [inf, 1.5, 1.0]
    """
    if len(outputs) == 1:
        return y * outputs
    own = y, np.arange(len(y))
    margins = outputs[own] - outputs
    margins[own] = np.inf
    return margins


def _slopes(softmax: Array, y: Array) -> Array:
    """The derivatives (K, n) of log Σ exp(−q) by the outputs, which `softmax` is used up for.

    >>> _slopes(np.array([[0.0], [0.25], [0.75]]), np.array([0])).ravel().tolist()
    [-1.0, 0.25, 0.75]
    """
    if len(softmax) == 1:
        return -y * softmax
    softmax[y, np.arange(len(y))] = -softmax.sum(0)
    return softmax


def _log_sum_exp(margins: Array) -> tuple[float, Array]:
    """log Σ exp(−q), and the softmax of −q."""
    least = margins.min()
    shares = np.exp(least - margins)
    total = shares.sum()
    return float(np.log(total) - least), shares / total


def steps_of(function: MarginFunction) -> MarginFunction | SpanFunction:
    """What descent steps on."""
    each = function.network.parts if isinstance(function.network, ParallelNetwork) else [function.network]
    alike = len({(type(one), getattr(one, "shape", [(0, 0)])[0][1]) for one in each}) == 1
    return SpanFunction(function) if alike and all(map(has_one_layer, each)) else function


def _first(network: GatedNetwork) -> GatedNetwork:
    """The network, or of networks side by side the first."""
    return network.parts[0] if isinstance(network, ParallelNetwork) else network
