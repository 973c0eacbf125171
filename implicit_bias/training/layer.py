"""Descent of networks with one hidden layer: what they are at their samples, and which of these count."""

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

#: Samples are chosen for a ball of this many steps around the present weights, and anew after this many steps.
REACH, PATIENCE = 40.0, 100
#: From this many samples on, of lengths up to this, products with them are in single precision.
SINGLE_FROM, SINGLE_UP_TO = 2000, 1e12
#: Above this share of all samples all are taken; steps longer than this, in radians, need all.
NEARLY_ALL, LONG = 0.9, 0.1


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
    def __init__(self, function: MarginFunction) -> None:
        self.has_kinks, self.count, self.outputs = function.has_kinks, function.count, function.outputs
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
        single = ordinary and len(self.X) >= SINGLE_FROM
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

    @abstractmethod
    def direction(self, tangent: Array, radial: float, vector: Array, radius: float) -> Array:
        """Against which a step goes."""

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
