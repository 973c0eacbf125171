"""The least value of least squares while single gates are replaced, by updates of rank d of an inverse."""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import scipy.linalg

from implicit_bias.features import GatedFeatures
from implicit_bias.ground.checks import Array, InputError

#: Accepted updates after which the inverse is computed anew.
FRESH_AFTER = 64
#: Added to the Gram matrix, against its trace over its size, so that it has an inverse.
SHIFT = 1e-11
#: Of ‖y‖²: by how much the value may differ from that of the weights before the inverse is computed anew.
DRIFT = 1e-6


class LeastValue(ABC):
    """min_W ‖ΦW − y‖² + s‖W‖² for the present gates, by an inverse that each gate which is taken updates."""

    value: float
    inverse: Array

    def __init__(self, X: Array, y: Array, G: Array, shift: float) -> None:
        self.X, self.y, self.G, self.shift, self.accepted = X, y, G, shift, 0
        self._invert()

    @property
    def features(self) -> GatedFeatures:
        """Φ of the present gates."""
        return GatedFeatures(self.X, self.G)

    @abstractmethod
    def _invert(self) -> None:
        """The inverse and the value, anew."""

    @abstractmethod
    def _update(self, unit: int, values: Array) -> Callable[[], None] | None:
        """What takes the gate values (n,) of a unit into the inverse and the value; None if that raises the value."""

    @abstractmethod
    def weights(self) -> Array:
        """W (k, d)."""

    def replace(self, unit: int, values: Array) -> bool:
        """Whether the gate values (n,) of a unit were taken."""
        if not self.X[values > 0].any():
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
        """Whether ‖ΦW − y‖² + s‖W‖² differs from the value, after updates of an inverse of a nearly singular matrix."""
        W = self.weights()
        missing = self.y - self.features @ W
        own = float(missing @ missing) + self.shift * float(np.sum(W**2))
        return abs(own - self.value) > DRIFT * float(self.y @ self.y)


def least_value(X: Array, y: Array, G: Array, shift: float) -> LeastValue:
    """The value for inputs X (n, d), targets (n,) and gates G (n, k), by the smaller of the two Gram matrices."""
    if not (G.any(axis=1) & X.any(axis=1)).any():
        raise InputError("every filter is closed for every sample; ask for more units, or give other directions")
    if G.shape[1] * X.shape[1] >= len(X):
        trace = float(np.sum(G.sum(axis=1) * np.sum(X**2, axis=1)))
        return SampleForm(X, y, G, shift + SHIFT * trace / len(X))
    return WeightForm(X, y, G, shift + SHIFT * float(np.sum(X**2)) / X.shape[1])


class SampleForm(LeastValue):
    """With A = (ΦΦᵀ + sI)⁻¹, n × n: the value is s·yᵀAy. Φ_jΦ_jᵀ leaves and Φ̂Φ̂ᵀ enters by Woodbury's formula."""

    def _invert(self) -> None:
        self.inverse = _inverse(self.features.gram(), self.shift)
        self.dual = self.inverse @ self.y
        self.value = self.shift * float(self.y @ self.dual)

    def weights(self) -> Array:
        """W (k, d)."""
        return self.features.adjoint(self.dual)

    def _update(self, unit: int, values: Array) -> Callable[[], None] | None:
        old, new, d = self.G[:, unit] > 0, values > 0, self.X.shape[1]
        across = np.hstack([self.inverse[:, old] @ self.X[old], self.inverse[:, new] @ self.X[new]])
        inner = np.vstack([self.X[old].T @ across[old], self.X[new].T @ across[new]])
        inner[np.diag_indices(2 * d)] += np.repeat([-1.0, 1.0], d)
        slopes = np.concatenate([self.X[old].T @ self.dual[old], self.X[new].T @ self.dual[new]])
        turned = np.linalg.solve(inner, np.column_stack([slopes, across.T]))
        value = self.value - self.shift * float(slopes @ turned[:, 0])
        if not 0 < value <= self.value:
            return None

        def update() -> None:
            self.inverse -= across @ turned[:, 1:]
            self.dual = self.inverse @ self.y
            self.value = value

        return update


class WeightForm(LeastValue):
    """With A = (ΦᵀΦ + sI)⁻¹, kd × kd: the value is yᵀy − cᵀAc, c = Φᵀy. A block leaves, another enters."""

    def _invert(self) -> None:
        self.inverse = _inverse(self.features.weight_gram(), self.shift)
        self.slopes = self.features.adjoint(self.y).ravel()
        self.value = float(self.y @ self.y - self.slopes @ self.inverse @ self.slopes)

    def weights(self) -> Array:
        """W (k, d)."""
        return (self.inverse @ self.slopes).reshape(-1, self.X.shape[1])

    def _update(self, unit: int, values: Array) -> Callable[[], None] | None:
        d, opened = self.X.shape[1], values > 0
        block = slice(unit * d, (unit + 1) * d)
        # Without the unit, at a cost.
        leaving = np.linalg.solve(self.inverse[block, block], self.inverse[block])
        weights = self.inverse[block] @ self.slopes
        cost = float(weights @ np.linalg.solve(self.inverse[block, block], weights))
        inputs = self.X[opened]
        cross = np.matmul((self.G[opened].T[:, :, None] * inputs).transpose(0, 2, 1), inputs).reshape(-1, d)
        cross[block] = 0.0
        turned = self.inverse @ cross - self.inverse[:, block] @ (leaving @ cross)
        turned[block] = 0.0
        # With the new one, at a gain.
        added = inputs.T @ inputs - cross.T @ turned
        added[np.diag_indices(d)] += self.shift
        missing = inputs.T @ self.y[opened] - turned.T @ self.slopes
        factor = scipy.linalg.cho_factor(added, check_finite=False)
        value = self.value + cost - float(missing @ scipy.linalg.cho_solve(factor, missing))
        if not 0 <= value <= self.value:
            return None

        def update() -> None:
            self.inverse -= self.inverse[:, block] @ leaving
            ends = turned.copy()
            ends[block] = -np.eye(d)
            self.inverse[block] = self.inverse[:, block] = 0.0
            self.inverse += ends @ scipy.linalg.cho_solve(factor, ends.T)
            self.slopes[block] = inputs.T @ self.y[opened]
            self.value = value

        return update


def _inverse(gram: Array, shift: float) -> Array:
    gram[np.diag_indices(len(gram))] += shift
    factor = scipy.linalg.cho_factor(gram, overwrite_a=True, check_finite=False)
    return np.asarray(scipy.linalg.cho_solve(factor, np.eye(len(gram)), check_finite=False))
