"""The least value of least squares while single gates are replaced, by updates of rank d of an inverse."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import scipy.linalg

from implicit_bias._utils.checks import Array, InputError
from implicit_bias.features import GatedFeatures

#: Accepted updates after which the inverse is computed anew.
FRESH_AFTER = 64
#: Added to the Gram matrix, against its trace over its size, so that it has an inverse.
SHIFT = 1e-11
#: Of ‖Y‖²: by how much the value may differ from that of the weights before the inverse is computed anew.
DRIFT = 1e-6


class LeastValue(ABC):
    """min_W ‖ΦW − Y‖² + s‖W‖² for the present gates and targets Y (n, q), by an inverse that each new gate updates."""

    value: float
    inverse: Array

    def __init__(self, X: Array, Y: Array, G: Array, shift: float) -> None:
        self.X, self.Y, self.G, self.shift, self.accepted = X, Y, G, shift, 0
        self._invert()

    @property
    def features(self) -> GatedFeatures:
        return GatedFeatures(self.X, self.G)

    @abstractmethod
    def _invert(self) -> None:
        """Compute the inverse and the value from the gates."""

    @abstractmethod
    def _update(self, unit: int, values: Array) -> Callable[[], None] | None:
        """What takes the gate values (n,) of a unit into the inverse and the value; None if that raises the value."""

    @abstractmethod
    def weights(self) -> Array:
        """W (q, k, d)."""

    def replace(self, unit: int, values: Array) -> bool:
        """Whether the gate values (n,) of a unit were taken."""
        if not self.X[values != 0].any():
            return False
        try:
            update = self._update(unit, values)
        except np.linalg.LinAlgError:
            return False
        if update is None:
            return False
        self.G[:, unit] = values
        self.accepted += 1
        update()
        if self.accepted % FRESH_AFTER == 0 or self._drifted():
            self._invert()
        return True

    def _drifted(self) -> bool:
        """Whether ‖ΦW − Y‖² + s‖W‖² differs from the value, after updates of an inverse of a nearly singular matrix."""
        W, features = self.weights(), self.features
        missing = self.Y - np.stack([features @ w for w in W], axis=1)
        own = float(np.sum(missing**2)) + self.shift * float(np.sum(W**2))
        return abs(own - self.value) > DRIFT * float(np.sum(self.Y**2))


def least_value(X: Array, Y: Array, G: Array, shift: float) -> LeastValue:
    """The value for inputs X (n, d), targets (n, q) and gates G (n, k), by the smaller of the two Gram matrices."""
    if not (G.any(axis=1) & X.any(axis=1)).any():
        raise InputError("every filter is closed for every sample; ask for more units, or give other directions")
    if G.shape[1] * X.shape[1] >= len(X):
        trace = float(np.sum(np.sum(G**2, axis=1) * np.sum(X**2, axis=1)))
        return SampleForm(X, Y, G, shift + SHIFT * trace / len(X))
    return WeightForm(X, Y, G, shift + SHIFT * float(np.sum(X**2)) / X.shape[1])


class SampleForm(LeastValue):
    """With A = (ΦΦᵀ + sI)⁻¹, n × n: the value is s·tr YᵀAY. Φ_jΦ_jᵀ leaves and Φ̂Φ̂ᵀ enters by Woodbury's formula."""

    def _invert(self) -> None:
        self.inverse = _inverse(self.features.gram(), self.shift)
        self.dual = self.inverse @ self.Y
        self.value = self.shift * float(np.sum(self.Y * self.dual))

    def weights(self) -> Array:
        features = self.features
        return np.stack([features.adjoint(dual) for dual in self.dual.T])

    def _update(self, unit: int, values: Array) -> Callable[[], None] | None:
        old, new, d = self.G[:, unit] != 0, values != 0, self.X.shape[1]
        leaving, entering = self.G[old, unit, None] * self.X[old], values[new, None] * self.X[new]
        across = np.hstack([self.inverse[:, old] @ leaving, self.inverse[:, new] @ entering])
        inner = np.vstack([leaving.T @ across[old], entering.T @ across[new]])
        inner[np.diag_indices(2 * d)] += np.repeat([-1.0, 1.0], d)
        slopes = np.concatenate([leaving.T @ self.dual[old], entering.T @ self.dual[new]])
        turned = np.linalg.solve(inner, np.column_stack([slopes, across.T]))
        targets = slopes.shape[1]
        value = self.value - self.shift * float(np.sum(slopes * turned[:, :targets]))
        if not 0 < value <= self.value:
            return None

        def update() -> None:
            self.inverse -= across @ turned[:, targets:]
            self.dual = self.inverse @ self.Y
            self.value = value

        return update


class WeightForm(LeastValue):
    """With A = (ΦᵀΦ + sI)⁻¹, kd × kd: the value is tr YᵀY − CᵀAC, C = ΦᵀY. A block leaves, another enters."""

    def _invert(self) -> None:
        self.inverse = _inverse(self.features.weight_gram(), self.shift)
        features = self.features
        self.slopes = np.stack([features.adjoint(column).ravel() for column in self.Y.T], axis=1)
        self.value = float(np.sum(self.Y**2) - np.sum(self.slopes * (self.inverse @ self.slopes)))

    def weights(self) -> Array:
        return (self.inverse @ self.slopes).T.reshape(self.Y.shape[1], -1, self.X.shape[1])

    def _update(self, unit: int, values: Array) -> Callable[[], None] | None:
        d, opened = self.X.shape[1], values != 0
        block = slice(unit * d, (unit + 1) * d)
        # Without the unit, at a cost.
        leaving = np.linalg.solve(self.inverse[block, block], self.inverse[block])
        weights = self.inverse[block] @ self.slopes
        cost = float(np.sum(weights * np.linalg.solve(self.inverse[block, block], weights)))
        plain = self.X[opened]
        inputs = values[opened, None] * plain
        cross = np.matmul((self.G[opened].T[:, :, None] * plain).transpose(0, 2, 1), inputs).reshape(-1, d)
        cross[block] = 0.0
        turned = self.inverse @ cross - self.inverse[:, block] @ (leaving @ cross)
        turned[block] = 0.0
        # With the new one, at a gain.
        added = inputs.T @ inputs - cross.T @ turned
        added[np.diag_indices(d)] += self.shift
        missing = inputs.T @ self.Y[opened] - turned.T @ self.slopes
        factor = scipy.linalg.cho_factor(added, check_finite=False)
        value = self.value + cost - float(np.sum(missing * scipy.linalg.cho_solve(factor, missing)))
        if not 0 <= value <= self.value:
            return None

        def update() -> None:
            self.inverse -= self.inverse[:, block] @ leaving
            ends = turned.copy()
            ends[block] = -np.eye(d)
            self.inverse[block] = self.inverse[:, block] = 0.0
            self.inverse += ends @ scipy.linalg.cho_solve(factor, ends.T)
            self.slopes[block] = inputs.T @ self.Y[opened]
            self.value = value

        return update


def _inverse(gram: Array, shift: float) -> Array:
    gram[np.diag_indices(len(gram))] += shift
    factor = scipy.linalg.cho_factor(gram, overwrite_a=True, check_finite=False)
    return np.asarray(scipy.linalg.cho_solve(factor, np.eye(len(gram)), check_finite=False))
