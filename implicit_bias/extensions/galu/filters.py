"""Algorithm 1: improve the filters of a GaLU layer by rank-d updates of an inverse, from one start or several."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils import checks
from implicit_bias._utils.blocks import Cholesky
from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.floats import nearest_power_of_two
from implicit_bias._utils.limits import Deadline
from implicit_bias.extensions.galu.closed_form import LeastSquares, adjoints, least_squares, products, shift_of
from implicit_bias.features import GatedFeatures
from implicit_bias.gates import ReLUGates, SoftGates

#: Number of restarts above which the request is taken for a typing error.
MAX_RESTARTS = 10**6
#: Number of accepted updates after which the inverse is recomputed, because updates accumulate rounding errors.
RECOMPUTE_AFTER = 64
#: Added to the diagonal of the Gram matrix, relative to its mean, so that the inverse exists.
SHIFT = 1e-11
#: Difference between updated and true value, relative to ‖Y‖², above which the inverse is recomputed.
MAX_DRIFT = 1e-6


@dataclass(frozen=True, eq=False)
class FilterSearch:
    """Result of `improve_filters`: the filters u_j as `directions` (k, d), and the least-squares `solution` for them.

    `history` (steps + 1,) is min_W (1/n)‖ΦW − Y‖² + ρ‖W‖² before the first step and after each step. The ρ of the
    history is `ridge`: the given ridge plus about 1e-11 of the features' mean square, which makes the Gram matrix
    invertible. If the loss is zero, the search therefore lowers ‖W‖² = history/ρ. `accepted` counts the steps that
    replaced a filter. `interrupted` is True if Ctrl-C ended the search early. `sharpness` is that of soft gates, and
    None for hard gates.
    """

    directions: Array = field(repr=False)
    solution: LeastSquares
    history: Array = field(repr=False)
    ridge: float
    accepted: int
    interrupted: bool
    seconds: float
    sharpness: float | None = None

    def gates(self) -> ReLUGates | SoftGates:
        """Return the gates of the filters, 1(⟨u_j, x⟩ ≥ 0) or σ(s⟨u_j, x⟩)."""
        return filter_gates(self.directions, self.sharpness)

    def predict(self, X: ArrayLike) -> Array:
        """Return ΦW for new inputs X (m, d), shape (m,) or (m, q); raise InputError if X does not have d columns."""
        return self.solution.predict(self.gates()(X))


def filter_gates(filters: Array, sharpness: float | None) -> ReLUGates | SoftGates:
    """Return the gates of filters (k, d): hard without a sharpness, else soft."""
    return ReLUGates(filters) if sharpness is None else SoftGates(filters, sharpness)


def sharpness_of(gates: ReLUGates | SoftGates) -> float | None:
    """Return the sharpness s of soft gates, and None for hard gates."""
    return gates.sharpness if isinstance(gates, SoftGates) else None


def improve_filters(
    X: ArrayLike,
    y: ArrayLike,
    units: int = 0,
    *,
    directions: ArrayLike | None = None,
    sharpness: float | None = None,
    steps: int = 512,
    ridge: float = 0.0,
    sample_weight: ArrayLike | None = None,
    seed: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> FilterSearch:
    """Algorithm 1: replace random filters by new Gaussian ones unless that raises the least loss.

    Each step draws a unit j and a filter u ~ N(0, I), and accepts it if min_W (1/n)‖ΦW − Y‖² + ρ‖W‖² does not rise.
    Several targets share the filters but have separate weights. A step updates the inverse Gram matrix by rank d in
    O(min(n, kd)²·d) operations instead of solving the problem again. Source: Fiat, Malach & Shalev-Shwartz, first
    version, section 4.1.1, Algorithm 1, for one target and filters drawn "randomly". Accepting ties, several targets,
    the ridge and the weights are ours.

    Parameters
    ----------
    X : array, shape (n, d)
    y : array, shape (n,), or (n, q) for q targets
    units : int
        k; the initial filters are N(0, I).
    directions : array, shape (k, d)
        Initial filters, instead of `units`.
    sharpness : float, optional
        s of soft gates σ(s⟨u, x⟩); hard gates 1(⟨u, x⟩ ≥ 0) by default.
    steps : int
    ridge : float
        ρ ≥ 0.
    sample_weight : array, shape (n,), optional
        c ≥ 0, not all zero: the loss becomes Σ_i c_i ‖·‖²/Σ_i c_i, so that weight 2 equals two copies.
    seed : int
        Seed of NumPy's PCG64.
    progress : callable(step, steps), optional
        Called after each step. Ctrl-C ends the search, and the filters so far are returned.

    Raises
    ------
    InputError
        If an array or number is invalid, or not exactly one of `units` and `directions` is given.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(200, 8)), rng.normal(size=200)
    >>> first, last = improve_filters(X, y, units=10, steps=0), improve_filters(X, y, units=10, steps=200)
    >>> last.solution.loss < 0.9 * first.solution.loss
    True
    """
    deadline = Deadline()
    X = checks.as_floats(X, "X", 2)
    targets = checks.as_targets(y, len(X))
    checks.as_count(steps, "steps", least=0, most=10**9, limit="10^9")
    checks.check_callable(progress, "progress")
    sharpness = None if sharpness is None else checks.as_positive(sharpness, "sharpness")
    rng = np.random.default_rng(checks.as_seed(seed))
    filters = _initial_filters(X, units, directions, rng)
    ridge = checks.as_positive(ridge, "ridge", zero=True)
    scale, y_scale = nearest_power_of_two(np.abs(X).max()), nearest_power_of_two(np.abs(targets).max())
    checks.check_range(np.array([scale, y_scale / scale]), "the inputs X and the targets over them", 1e-140, 1e140)
    root = row_factors(sample_weight, len(X))

    # Gate values (n, k) of filters (k, d) on X.
    gates = lambda filters: filter_gates(filters, sharpness).transform(X)  # noqa: E731
    form = _least_value(root * X / scale, root * targets / y_scale, gates(filters), shift_of(ridge, len(X), scale))
    with deadline:
        for step in range(steps):
            form.propose(filters, gates, rng)
            if progress is not None:
                deadline.call(progress, step + 1, steps)
            if deadline.passed():
                break
    targets = root * targets if checks.dimensions(y) == 2 else (root * targets)[:, 0]
    solution = least_squares(GatedFeatures(root * X, gates(filters)), targets, ridge=ridge)
    values, total_ridge = np.array(form.history) / len(X) * y_scale**2, form.shift / len(X) * scale**2
    interrupted, seconds = deadline.interrupted, deadline.seconds
    return FilterSearch(filters, solution, values, total_ridge, form.accepted, interrupted, seconds, sharpness)


def row_factors(sample_weight: Any, samples: int) -> Array:
    """Return √(n c_i/Σc) of each sample as a column (n, 1), whose mean square is 1; ones without weights."""
    if sample_weight is None:
        return np.ones((samples, 1))
    weight = checks.as_column(sample_weight, samples, "sample_weight", "weight")
    if weight.min() < 0 or not weight.any():
        raise InputError("sample_weight must contain numbers of at least 0, not all of them 0")
    weight = weight / weight.max()
    return np.sqrt(weight / np.mean(weight)).reshape(samples, 1)


def _initial_filters(X: Array, units: int, directions: Any, rng: np.random.Generator) -> Array:
    if (directions is None) == (isinstance(units, int) and units == 0):
        raise InputError("give either units, the number of filters, or directions, the initial filters")
    if directions is None:
        checks.check_size(checks.as_count(units, "units") * max(X.shape), "the filters and their gates")
        return rng.normal(size=(units, X.shape[1]))
    filters = checks.as_floats(directions, "directions", 2)
    if filters.shape[1] != X.shape[1]:
        raise InputError(f"directions must have the {X.shape[1]} columns of X, not {filters.shape[1]}")
    return filters.copy()


@dataclass(frozen=True, eq=False)
class GateSearch:
    """Result of `search_gates` from r random starts; after Ctrl-C, r counts the starts so far.

    `first` (r,) contains the least loss min_W (1/n)‖ΦW − y‖² for the initial gates of each start, `losses` (r,) for its
    final gates. `best` is the search with the lowest final loss.
    """

    first: Array
    losses: Array
    best: FilterSearch = field(repr=False)


def search_gates(
    X: ArrayLike, y: ArrayLike, units: int, *, restarts: int = 10, steps: int = 512, seed: int = 1
) -> GateSearch:
    """Search for hyperplane gates 1(⟨u_j, x⟩ ≥ 0) with low least loss: `improve_filters` from several starts.

    This local search by random proposals proves no minimum. The spread of `losses` over the starts indicates how far
    from a minimum it may be. The losses refer to the samples of the search; evaluate the gates on other samples.

    Parameters
    ----------
    X, y
        As for `improve_filters`.
    units : int
        k, with k·d < n, because more units fit any targets with almost any gates.
    restarts, steps : int
        Number of starts, and of proposals per start.
    seed : int
        Seed of NumPy's PCG64, which draws the seeds of the starts.

    Raises
    ------
    InputError
        As for `improve_filters`, and if k·d ≥ n.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> found = search_gates(X, abs(X[:, 0]), units=4, restarts=3, steps=100)
    >>> bool(found.losses.min() < 0.5 * found.first.min())
    True
    """
    X, restarts = checks.as_floats(X, "X", 2), checks.as_count(restarts, "restarts", most=MAX_RESTARTS)
    if checks.as_count(units, "units") * X.shape[1] >= len(X):
        raise InputError(
            f"{units} units on {X.shape[1]} inputs fit {len(X)} samples with almost any gates; take fewer units"
        )
    first, losses, best = [], [], None
    for start in np.random.default_rng(checks.as_seed(seed)).integers(2**63, size=restarts):
        search = improve_filters(X, y, units=units, steps=steps, seed=int(start))
        first.append(search.history[0])
        losses.append(search.solution.loss)
        best = search if best is None or search.solution.loss < best.solution.loss else best
        if search.interrupted:
            break
    assert best is not None
    return GateSearch(np.array(first), np.array(losses), best)


class _LeastValue(ABC):
    """The `value` min_W ‖ΦW − Y‖² + s‖W‖² for Y (n, q) and gates G (n, k), updated with the `inverse` by `replace`."""

    value: float
    inverse: Array

    def __init__(self, X: Array, Y: Array, G: Array, shift: float) -> None:
        self.X, self.Y, self.G, self.shift, self.accepted = X, Y, G, shift, 0
        self._invert()
        #: The values at the start and after each proposal.
        self.history = [self.value]

    @property
    def features(self) -> GatedFeatures:
        """Φ for the current gates."""
        return GatedFeatures(self.X, self.G)

    @abstractmethod
    def _invert(self) -> None:
        """Compute the inverse and the value from the gates."""

    @abstractmethod
    def _update(self, unit: int, values: Array) -> Callable[[], None] | None:
        """Return None if gate values (n,) of a unit raise the value; else a function that updates inverse and value."""

    @abstractmethod
    def weights(self) -> Array:
        """Return the minimiser W, shape (q, k, d)."""

    def propose(self, filters: Array, gates: Callable[[Array], Array], rng: np.random.Generator) -> None:
        """Draw a unit and a filter, and replace that of `filters` (k, d) unless the value rises."""
        unit, candidate = int(rng.integers(len(filters))), rng.normal(size=filters.shape[1:])
        if self.replace(unit, gates(candidate[None])[:, 0]):
            filters[unit] = candidate
        self.history.append(min(self.value, self.history[-1]))

    def replace(self, unit: int, values: Array) -> bool:
        """Replace the gate values (n,) of a unit; return False if this fails, closes the unit or raises the value."""
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
        if self.accepted % RECOMPUTE_AFTER == 0 or self._drifted():
            self._invert()
        return True

    def _drifted(self) -> bool:
        """True if the updated value differs from ‖ΦW − Y‖² + s‖W‖² by more than MAX_DRIFT ‖Y‖², as rounding causes."""
        W = self.weights()
        residual = self.Y - products(self.features, W)
        value = float(np.sum(residual**2)) + self.shift * float(np.sum(W**2))
        return abs(value - self.value) > MAX_DRIFT * float(np.sum(self.Y**2))


def _least_value(X: Array, Y: Array, G: Array, shift: float) -> _LeastValue:
    """Return the form with the smaller of ΦΦᵀ and ΦᵀΦ for inputs X (n, d), targets Y (n, q) and gates G (n, k)."""
    if not (G.any(axis=1) & X.any(axis=1)).any():
        raise InputError("every filter is closed for every sample; use more units or other directions")
    if G.shape[1] * X.shape[1] >= len(X):
        trace = float(np.sum(np.sum(G**2, axis=1) * np.sum(X**2, axis=1)))
        return _SampleForm(X, Y, G, shift + SHIFT * trace / len(X))
    return _WeightForm(X, Y, G, shift + SHIFT * float(np.sum(X**2)) / X.shape[1])


class _SampleForm(_LeastValue):
    """A = (ΦΦᵀ + sI)⁻¹ (n × n) as `inverse`; the value is s·tr YᵀAY. Woodbury's formula exchanges Φ_jΦ_jᵀ of unit j."""

    def _invert(self) -> None:
        self.inverse = _inverse(self.features.gram(), self.shift)
        self.dual = self.inverse @ self.Y
        self.value = self.shift * float(np.sum(self.Y * self.dual))

    def weights(self) -> Array:
        return adjoints(self.features, self.dual)

    def _update(self, unit: int, values: Array) -> Callable[[], None] | None:
        old, new, d = self.G[:, unit] != 0, values != 0, self.X.shape[1]
        leaving, entering = self.G[old, unit, None] * self.X[old], values[new, None] * self.X[new]
        across = np.hstack([self.inverse[:, old] @ leaving, self.inverse[:, new] @ entering])
        inner = np.vstack([leaving.T @ across[old], entering.T @ across[new]])
        inner[np.diag_indices(2 * d)] += np.repeat([-1.0, 1.0], d)
        slopes = np.concatenate([leaving.T @ self.dual[old], entering.T @ self.dual[new]])
        solved = np.linalg.solve(inner, np.column_stack([slopes, across.T]))
        targets = slopes.shape[1]
        value = self.value - self.shift * float(np.sum(slopes * solved[:, :targets]))
        if not 0 < value <= self.value:
            return None

        def update() -> None:
            self.inverse -= across @ solved[:, targets:]
            self.dual = self.inverse @ self.Y
            self.value = value

        return update


class _WeightForm(_LeastValue):
    """A = (ΦᵀΦ + sI)⁻¹ (kd × kd) as `inverse`; the value is tr(YᵀY − CᵀAC), C = ΦᵀY. An update replaces one block."""

    def _invert(self) -> None:
        self.inverse = _inverse(self.features.weight_gram(), self.shift)
        self.slopes = adjoints(self.features, self.Y).reshape(self.Y.shape[1], -1).T.copy()
        self.value = float(np.sum(self.Y**2) - np.sum(self.slopes * (self.inverse @ self.slopes)))

    def weights(self) -> Array:
        return (self.inverse @ self.slopes).T.reshape(self.Y.shape[1], -1, self.X.shape[1])

    def _update(self, unit: int, values: Array) -> Callable[[], None] | None:
        d, opened = self.X.shape[1], values != 0
        block = slice(unit * d, (unit + 1) * d)
        # Remove the unit, which raises the value by `cost`.
        leaving = np.linalg.solve(self.inverse[block, block], self.inverse[block])
        weights = self.inverse[block] @ self.slopes
        cost = float(np.sum(weights * np.linalg.solve(self.inverse[block, block], weights)))
        plain = self.X[opened]
        inputs = values[opened, None] * plain
        cross = np.matmul((self.G[opened].T[:, :, None] * plain).transpose(0, 2, 1), inputs).reshape(-1, d)
        cross[block] = 0.0
        solved = self.inverse @ cross - self.inverse[:, block] @ (leaving @ cross)
        solved[block] = 0.0
        # Add the new unit, which lowers the value.
        added = inputs.T @ inputs - cross.T @ solved
        added[np.diag_indices(d)] += self.shift
        residual = inputs.T @ self.Y[opened] - solved.T @ self.slopes
        factor = Cholesky(added)
        value = self.value + cost - float(np.sum(residual * factor.solve(residual)))
        if not 0 <= value <= self.value:
            return None

        def update() -> None:
            self.inverse -= self.inverse[:, block] @ leaving
            columns = solved.copy()
            columns[block] = -np.eye(d)
            self.inverse[block] = self.inverse[:, block] = 0.0
            self.inverse += columns @ factor.solve(columns.T)
            self.slopes[block] = inputs.T @ self.Y[opened]
            self.value = value

        return update


def _inverse(gram: Array, shift: float) -> Array:
    """Return (gram + shift·I)⁻¹ and overwrite `gram`; LinAlgError if the sum is not positive definite."""
    gram[np.diag_indices(len(gram))] += shift
    return np.asarray(Cholesky(gram).solve(np.eye(len(gram))))
