"""Algorithm 1: better filters for a GaLU layer, by updates of rank d instead of solving anew."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from implicit_bias.features import GatedFeatures
from implicit_bias.gates import ReLUGates
from implicit_bias.ground.checks import (
    Array,
    InputError,
    as_count,
    as_floats,
    as_positive,
    as_seed,
    as_targets,
    check_callable,
    check_range,
    check_size,
)
from implicit_bias.ground.scaling import nearest_power_of_two
from implicit_bias.regression.closed_form import LeastSquares, least_squares, shift_of

#: Accepted updates after which the inverse is computed anew.
FRESH_AFTER = 64
#: Added to the Gram matrix, against its trace over its size, so that it has an inverse.
SHIFT = 1e-11
#: Of ‖y‖²: by how much the value may differ from that of the weights before the inverse is computed anew.
DRIFT = 1e-6


@dataclass(frozen=True, eq=False)
class FilterSearch:
    """What `improve_filters` found.

    Attributes
    ----------
    directions : array, shape (k, d)
        The filters u_j as rows.
    solution : LeastSquares
        The solution for these filters, computed anew.
    history : array, shape (steps + 1,)
        What was lowered, before the first step and after each: min_W (1/n)‖ΦW − y‖² + ρ‖W‖².
    ridge : float
        The ρ of `history`: the ridge asked for, and about 1e-11 of the features' mean square, without which a
        rank-deficient matrix has no inverse. So the norm ‖W‖² = history/ρ is lowered where the loss is zero already;
        `solution` has the ridge asked for, and no other.
    accepted : int
        Steps that changed a filter.
    interrupted : bool
        Whether Ctrl-C ended it early.
    seconds : float

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias import improve_filters
    >>> rng = np.random.default_rng(0)
    >>> found = improve_filters(rng.normal(size=(100, 5)), rng.normal(size=100), units=6, steps=50)
    >>> found.accepted > 0, bool(np.all(np.diff(found.history) <= 0)), found.gates().transform(np.ones((1, 5))).shape
    (True, True, (1, 6))
    """

    directions: Array = field(repr=False)
    solution: LeastSquares
    history: Array = field(repr=False)
    ridge: float
    accepted: int
    interrupted: bool
    seconds: float

    def gates(self) -> ReLUGates:
        """The gates 1(⟨u_j, x⟩ ≥ 0) of the filters."""
        return ReLUGates(self.directions)


def improve_filters(
    X: ArrayLike,
    y: ArrayLike,
    units: int = 0,
    *,
    directions: ArrayLike | None = None,
    steps: int = 512,
    ridge: float = 0.0,
    seed: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> FilterSearch:
    """Algorithm 1: replace random filters by fresh Gaussian ones wherever that does not raise the least loss.

    Each step draws a unit j and a filter u ~ N(0, I), and keeps it if min_W (1/n)‖ΦW − y‖² + ρ‖W‖² does not rise.
    A step costs one update of rank d of the inverse Gram matrix, O(min(n, kd)²·d), instead of a solution.

    Parameters
    ----------
    X : array, shape (n, d)
    y : array, shape (n,)
    units : int
        k; the first filters are N(0, I).
    directions : array, shape (k, d), instead of `units`
        The first filters.
    steps : int
    ridge : float
        ρ ≥ 0.
    seed : int
        Seed of NumPy's PCG64.
    progress : callable(step, steps), optional

    Raises
    ------
    InputError
        For bad arrays or counts, and for both or neither of `units` and `directions`.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz, first version, Algorithm 1 (published with a new pseudo-inverse at every step).

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias import improve_filters
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(200, 8)), rng.normal(size=200)
    >>> first, last = improve_filters(X, y, units=10, steps=0), improve_filters(X, y, units=10, steps=200)
    >>> last.solution.loss < 0.9 * first.solution.loss
    True
    """
    start = time.perf_counter()
    X = as_floats(X, "X", 2)
    targets = as_targets(y, len(X))
    if targets.shape[1] > 1:
        raise InputError("improve_filters takes one target a sample; improve the filters of each target apart")
    as_count(steps, "steps", least=0)
    check_callable(progress, "progress")
    rng = np.random.default_rng(as_seed(seed))
    filters = _first(X, units, directions, rng)
    ridge = as_positive(ridge, "ridge", zero=True)
    by, to = nearest_power_of_two(np.abs(X).max()), nearest_power_of_two(np.abs(targets).max())
    check_range(np.array([by, to / by]), "the inputs X and the targets over them", 1e-140, 1e140)
    shift = shift_of(ridge, len(X), by)
    form = _form(X / by, targets[:, 0] / to, (X @ filters.T >= 0).astype(float), shift)
    history, accepted, interrupted = [form.value], 0, False
    try:
        for step in range(steps):
            unit, candidate = int(rng.integers(len(filters))), rng.normal(size=X.shape[1])
            if form.replace(unit, (X @ candidate >= 0).astype(float)):
                filters[unit] = candidate
                accepted += 1
            history.append(min(form.value, history[-1]))
            if progress is not None:
                progress(step + 1, steps)
    except KeyboardInterrupt:
        interrupted = True
    solution = least_squares(ReLUGates(filters)(X), targets[:, 0], ridge=ridge)
    lowered = np.array(history) / len(X) * to**2
    seconds = time.perf_counter() - start
    return FilterSearch(filters, solution, lowered, form.shift / len(X) * by**2, accepted, interrupted, seconds)


def _first(X: Array, units: int, directions: Any, rng: np.random.Generator) -> Array:
    if (directions is None) == (isinstance(units, int) and units == 0):
        raise InputError("give either units, the number of filters, or directions, the filters to begin with")
    if directions is None:
        check_size(as_count(units, "units") * max(X.shape), "the filters and their gates")
        return rng.normal(size=(units, X.shape[1]))
    filters = as_floats(directions, "directions", 2)
    if filters.shape[1] != X.shape[1]:
        raise InputError(f"directions must have the {X.shape[1]} columns of X, not {filters.shape[1]}")
    return filters.copy()


class _Form(Protocol):
    """min_W ‖ΦW − y‖² + s‖W‖² for the present gates; `replace` takes other values of a unit if that does not rise."""

    value: float
    shift: float

    def replace(self, unit: int, values: Array) -> bool: ...


def _form(X: Array, y: Array, G: Array, shift: float) -> _Form:
    if not (G.any(axis=1) & X.any(axis=1)).any():
        raise InputError("every filter is closed for every sample; ask for more units, or give other directions")
    return _SampleForm(X, y, G, shift) if G.shape[1] * X.shape[1] >= len(X) else _WeightForm(X, y, G, shift)


class _SampleForm:
    """With A = (ΦΦᵀ + sI)⁻¹, n × n: the value is s·yᵀAy. Φ_jΦ_jᵀ leaves and Φ̂Φ̂ᵀ enters by Woodbury's formula."""

    def __init__(self, X: Array, y: Array, G: Array, shift: float) -> None:
        self.X, self.y, self.G = X, y, G
        self.shift = shift + SHIFT * float(np.sum(G.sum(axis=1) * np.sum(X**2, axis=1))) / len(X)
        self.accepted = 0
        self._invert()

    def _invert(self) -> None:
        gram = GatedFeatures(self.X, self.G).gram()
        gram[np.diag_indices(len(gram))] += self.shift
        self.inverse = _inverse(gram)
        self.dual = self.inverse @ self.y
        self.value = self.shift * float(self.y @ self.dual)

    def replace(self, unit: int, values: Array) -> bool:
        """Whether the gate values (n,) of a unit were taken."""
        old, new = self.G[:, unit] > 0, values > 0
        if not self.X[new].any():
            return False
        d = self.X.shape[1]
        across = np.hstack([self.inverse[:, old] @ self.X[old], self.inverse[:, new] @ self.X[new]])
        inner = np.vstack([self.X[old].T @ across[old], self.X[new].T @ across[new]])
        inner[np.diag_indices(2 * d)] += np.repeat([-1.0, 1.0], d)
        slopes = np.concatenate([self.X[old].T @ self.dual[old], self.X[new].T @ self.dual[new]])
        try:
            turned = np.linalg.solve(inner, np.column_stack([slopes, across.T]))
        except np.linalg.LinAlgError:
            return False
        value = self.value - self.shift * float(slopes @ turned[:, 0])
        if not 0 < value <= self.value:
            return False
        self.G[:, unit] = values
        self.accepted += 1
        self.inverse -= across @ turned[:, 1:]
        self.dual = self.inverse @ self.y
        self.value = value
        if self.accepted % FRESH_AFTER == 0 or _drifted(self, GatedFeatures(self.X, self.G).adjoint(self.dual)):
            self._invert()
        return True


class _WeightForm:
    """With A = (ΦᵀΦ + sI)⁻¹, kd × kd: the value is yᵀy − cᵀAc, c = Φᵀy. A block leaves, another enters."""

    def __init__(self, X: Array, y: Array, G: Array, shift: float) -> None:
        self.X, self.y, self.G = X, y, G
        self.shift = shift + SHIFT * float(np.sum(X**2)) / X.shape[1]
        self.accepted = 0
        self._invert()

    def _invert(self) -> None:
        gram = GatedFeatures(self.X, self.G).weight_gram()
        gram[np.diag_indices(len(gram))] += self.shift
        self.inverse = _inverse(gram)
        self.slopes = GatedFeatures(self.X, self.G).adjoint(self.y).ravel()
        self.value = float(self.y @ self.y - self.slopes @ self.inverse @ self.slopes)

    def replace(self, unit: int, values: Array) -> bool:
        """Whether the gate values (n,) of a unit were taken."""
        d, opened = self.X.shape[1], values > 0
        if not self.X[opened].any():
            return False
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
        try:
            factor = scipy.linalg.cho_factor(added, check_finite=False)
        except np.linalg.LinAlgError:
            return False
        value = self.value + cost - float(missing @ scipy.linalg.cho_solve(factor, missing))
        if not 0 <= value <= self.value:
            return False
        self.G[:, unit] = values
        self.accepted += 1
        self.inverse -= self.inverse[:, block] @ leaving
        ends = turned.copy()
        ends[block] = -np.eye(d)
        self.inverse[block] = self.inverse[:, block] = 0.0
        self.inverse += ends @ scipy.linalg.cho_solve(factor, ends.T)
        self.slopes[block] = inputs.T @ self.y[opened]
        self.value = value
        if self.accepted % FRESH_AFTER == 0 or _drifted(self, (self.inverse @ self.slopes).reshape(-1, d)):
            self._invert()
        return True


def _drifted(form: _SampleForm | _WeightForm, W: Array) -> bool:
    """Whether ‖ΦW − y‖² + s‖W‖² differs from the value, after updates of an inverse of a nearly singular matrix."""
    missing = form.y - GatedFeatures(form.X, form.G) @ W
    own = float(missing @ missing) + form.shift * float(np.sum(W**2))
    return abs(own - form.value) > DRIFT * float(form.y @ form.y)


def _inverse(gram: Array) -> Array:
    factor = scipy.linalg.cho_factor(gram, overwrite_a=True, check_finite=False)
    return np.asarray(scipy.linalg.cho_solve(factor, np.eye(len(gram)), check_finite=False))
