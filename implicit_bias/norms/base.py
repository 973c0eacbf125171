"""Base class of norms: value, dual norm and CVXPY expression."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from math import inf, nextafter
from typing import Any

import numpy as np
import scipy.sparse as sp

from implicit_bias._utils.checks import CONVERSION_ERRORS, Array, InputError, as_floats, as_reals, shown
from implicit_bias._utils.floats import UNIT, length, without_exponent
from implicit_bias._utils.lazy import cp
from implicit_bias.features.base import Features

#: Largest number of matrix entries read by `Norm.entries`; reached at about 20 000 weights, after a few seconds.
MAX_ENTRIES_READ = 10**9
#: Results of `cache_of`, by the norm's id.
_CACHES: dict[int, dict[Any, Any]] = {}


@dataclass(frozen=True, eq=False)
class GroupForm:
    """A norm as a sum of group norms: ‖W‖ = Σ_h ‖Ŵ_h‖₂ with W = TŴ, up to a part of W that changes no margin.

    Attributes
    ----------
    expand : sparse array, shape (k, k̂)
        The matrix T.
    groups : array, shape (k̂,)
        The group of each row of Ŵ.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from implicit_bias.norms import GroupForm
    >>> GroupForm(sp.csr_array(np.eye(2)), np.array([0, 1])).groups
    array([0, 1])
    """

    expand: sp.csr_array
    groups: np.ndarray

    @cached_property
    def index(self) -> np.ndarray:
        """The group of each row of Ŵ as a number from 0 to H − 1, shape (k̂,)."""
        return np.unique(self.groups, return_inverse=True)[1]

    @cached_property
    def count(self) -> int:
        """Number of groups."""
        return int(self.index.max()) + 1


def diagonal(entries: Array) -> sp.csr_array:
    """Return the diagonal matrix with these entries (k,); SciPy's function takes six times as long for small k."""
    k = len(entries)
    return sp.csr_array((entries, np.arange(k), np.arange(k + 1)), shape=(k, k))


def padding(index: np.ndarray) -> sp.csr_array:
    """Return the matrix (H·R, k) that sorts rows by their group `index` (k,) and adds zeros up to R rows per group."""
    sizes, order = np.bincount(index), np.argsort(index, kind="stable")
    places = index[order] * sizes.max() + np.concatenate([np.arange(size) for size in sizes])
    return sp.csr_array((np.ones(len(index)), (places, order)), shape=(len(sizes) * sizes.max(), len(index)))


@dataclass(frozen=True, eq=False)
class PolyhedralForm:
    """A norm whose unit ball is a polyhedron, with groups h of gates, factors a_j > 0 and costs c_h > 0.

    It is ‖W‖ = Σ_h c_h max_{j∈h} a_j ‖w_j‖_∞, or, if `sums`, ‖W‖ = max_h Σ_{j∈h} a_j ‖w_j‖₁ / c_h.

    Attributes
    ----------
    sums : bool
        True for the second kind.
    groups : array of int, shape (k,)
        The group of each gate, from 0.
    factors : array, shape (k,)
        The factors a_j.
    costs : array, shape (H,)
        The factors c_h.

    Examples
    --------
    >>> from implicit_bias import TwoLayerNorm
    >>> TwoLayerNorm([0, 1], "entries", "l_inf", [1, 2]).polyhedral_form(2).factors
    array([1. , 0.5])
    """

    sums: bool
    groups: np.ndarray
    factors: Array
    costs: Array

    def value(self, W: Array) -> float:
        """Norm ‖W‖ of weights W (k, d)."""
        sizes, totals = self.factors[:, None] * np.abs(W), np.zeros(len(self.costs))
        if self.sums:
            np.add.at(totals, self.groups, sizes.sum(axis=1))
            return float((totals / self.costs).max())
        np.maximum.at(totals, self.groups, sizes.max(axis=1))
        return float(self.costs @ totals)


@dataclass(frozen=True, eq=False)
class SpectralForm:
    """A norm of W as a matrix (H, D), by ‖W‖² = min { Σ_j σ_j : WWᵀ ⪯ diag(Bσ), σ ≥ 0 }.

    Attributes
    ----------
    order : array of int, shape (k,)
        The gates sorted by unit: row h of the matrix stacks the weights of k/H gates.
    bounds : array, shape (H, J)
        The matrix B.

    Examples
    --------
    >>> from implicit_bias import TwoLayerNorm
    >>> TwoLayerNorm([0, 1], "spectral", "l_inf", [1, 2]).spectral_form(2).bounds.round(9).tolist()
    [[1.0], [2.0]]
    """

    order: np.ndarray
    bounds: Array


def above(size: float, by: int) -> float:
    """Return size · 2^by, rounded up, for size ≥ 0; 0 for 0, and infinity for NaN."""
    with np.errstate(over="ignore"):
        scaled = float(np.ldexp(size, by))
    return inf if np.isnan(scaled) else nextafter(scaled, inf) if scaled else 0.0


def cache_of(norm: Norm) -> dict[Any, Any]:
    """Return the dict of cached results of a norm object; copies of the norm have other dicts."""
    if id(norm) not in _CACHES:
        _CACHES[id(norm)] = {}
        weakref.finalize(norm, _CACHES.pop, id(norm))
    return _CACHES[id(norm)]


class Norm(ABC):
    """Base class of norms and seminorms of weights W (k, d).

    A new norm is a subclass with `value`, `dual` and `expression`. The certificate uses `value` for the upper bound and
    `dual` for the lower bound. The three methods are compared when a problem is built and solved, and InputError is
    raised if they contradict each other. `ExpressionNorm` defines a norm by a CVXPY expression alone.

    Examples
    --------
    >>> from implicit_bias import Frobenius, GroupLasso, PredictorL2
    >>> from implicit_bias.norms import Norm
    >>> [issubclass(norm, Norm) for norm in (Frobenius, GroupLasso, PredictorL2)]
    [True, True, True]
    """

    #: Attributes that are the parameters of a saved norm, in order; None if the class cannot be saved.
    made_of: tuple[str, ...] | None = None
    #: Required number of gates k; None if any number is supported.
    gates: int | None = None
    #: True if ‖WV‖ = ‖W‖ for orthogonal V, as for norms of rows and spectral norms. CVXPY problems then use coordinates
    #: in the span of the inputs.
    rotation_invariant: bool = False
    #: True if ‖W‖ = 0 for some W ≠ 0 that changes no margin. Such norms do not support constraints.
    seminorm: bool = False
    #: True if `dual` is a formula, which is checked; False if a solver computes it from `expression`.
    has_formula: bool = True
    #: True if the formulas are proved and `rounding` bounds their errors. Each class sets this itself; subclasses do
    #: not inherit it and are checked.
    verified: bool = False
    #: True if `expression` needs semidefinite cones.
    semidefinite: bool = False
    #: True if the norm is a group lasso over infinitely many atoms, like `NuclearNorm`.
    has_atoms: bool = False

    @abstractmethod
    def value(self, W: Array) -> float:
        """Norm ‖W‖ of weights W (k, d)."""

    @abstractmethod
    def dual(self, V: Array) -> float:
        """Dual norm sup {⟨V, W⟩: ‖W‖ ≤ 1} of V (k, d); infinity if the supremum is infinite."""

    @abstractmethod
    def expression(self, W: cp.Expression) -> cp.Expression:
        """Norm ‖W‖ of a CVXPY expression W (k, r), as a CVXPY expression."""

    def for_gates(self, k: int) -> Norm:
        """Return the norm of k gates: the norm itself, unless it was defined without their number."""
        return self

    def of_gates(self, W: Any) -> Array:
        """Return weights (k, d) as an array; raise InputError unless they match the norm's number of gates."""
        W = as_floats(W, "weights", 2)
        if self.gates not in (None, len(W)):
            raise InputError(f"the norm is for weights of {self.gates} gates, not of {len(W)}; give one row each")
        return W

    def number(self, name: str, M: Array) -> float:
        """Return `value` or `dual`, by `name`, of M (k, d); raise InputError unless it is a number ≥ 0 or infinity."""
        given = getattr(self, name)(M)
        try:
            number = as_reals(given)
        except CONVERSION_ERRORS:
            number = np.array(np.nan)
        if number.shape != () or not number >= 0:
            raise InputError(
                f"{self!r}: its `{name}` gives {shown(given)}, and must be a number, not negative; correct `{name}`"
            )
        return float(number)

    def rounding(self, k: int, d: int) -> float:
        """Bound of the relative rounding error of `value` and `dual` for k × d matrices.

        Verified formulas need at most k·d + 2k + d + 16 operations, all on numbers ≥ 0. For others 1e-12 is assumed.
        """
        return (k * d + 2 * k + d + 16) * UNIT if not self.needs_check else 1e-12

    @property
    def needs_check(self) -> bool:
        """True if `value`, `dual` and `expression` are compared when a problem is built and solved."""
        return not vars(type(self)).get("verified", False)

    def matrices(self, W: Array) -> Array:
        """Weights (k, d) as the matrices (H, ·, ·) whose singular values define the norm; by default one, W."""
        return self.of_gates(W)[None]

    def dual_bound(self, lengths: Array) -> float | None:
        """Upper bound of ‖V‖_* over all V with row lengths up to `lengths` (k,); None if there is no formula."""
        return None

    def value_bound(self, W: Array) -> float:
        """Upper bound of ‖W‖: `value` plus a bound of its rounding error; infinity if W is not finite.

        Examples
        --------
        >>> import numpy as np
        >>> from implicit_bias import Frobenius
        >>> 5 < Frobenius().value_bound(np.array([[3.0, 4.0]])) < 5 + 1e-13
        True
        """
        if not np.isfinite(W).all():
            return inf
        W, by = without_exponent(W)
        return above(self._value_within(W), by) if W.any() else 0.0

    def _value_within(self, W: Array) -> float:
        """`value_bound` for W with largest entry about 1."""
        return self.number("value", W) * (1 + 2 * self.rounding(*W.shape))

    def dual_upper(self, V: Array, error: Array | None = None) -> float:
        """Upper bound of ‖V′‖_* over all V′ whose rows differ from those of V by at most `error` (k,) in length.

        The bound is ‖V‖_* + ‖V′ − V‖_* plus rounding errors; `dual_bound` or, without it, `entries` bounds the second
        term. It is infinite if V is not finite. If a solver computes `dual` (`has_formula` is False), the bound relies
        on this solver and on the assumption that ‖V′‖_*/‖V‖_* ≤ 1 + ‖V′ − V‖_F/‖V‖_F.

        Examples
        --------
        >>> import numpy as np
        >>> from implicit_bias import GroupLasso
        >>> round(GroupLasso([0, 1]).dual_upper(np.array([[3.0, 4.0], [0.0, 1.0]]), np.array([0.5, 1.0])), 9)
        6.0
        """
        error = np.zeros(len(V)) if error is None else np.asarray(error, dtype=np.float64)
        if not (np.isfinite(V).all() and np.isfinite(error).all()):
            return inf
        both, by = without_exponent(np.column_stack([V, error]))
        V, error = both[:, :-1], both[:, -1]
        return above((self._dual_within(V, error) if both.any() else 0.0) * (1 + 2 * self.rounding(*V.shape)), by)

    def _dual_within(self, V: Array, error: Array) -> float:
        """`dual_upper` for V (k, d) and error (k,) of largest number about 1, before its factor 1 + 2 · `rounding`."""
        size = self.number("dual", V) if V.any() else 0.0
        more = self.dual_bound(error) if error.any() else 0.0
        if more is None and self.has_formula:
            rows = np.linalg.norm(self.entries("dual", V.shape), axis=1)
            more = float(rows[error > 0] @ error[error > 0])
        elif more is None:
            more = size * float(length(error) / length(V)) if V.any() else inf
        return size + more

    def entries(self, name: str, shape: tuple[int, int]) -> Array:
        """Norms max(‖E_jl‖, ‖−E_jl‖), by `value` or `dual`, of the matrices E_jl of `shape` (k, d) with one entry 1.

        They bound the norm of any V: ``‖V‖ ≤ Σ_jl |V_jl| ‖±E_jl‖``. The result is (k, d), or (k, 1) for a
        rotation-invariant norm. It is infinite if more than `MAX_ENTRIES_READ` entries would be read. Results are
        cached, so that a norm must not change after its construction.
        """
        cache = cache_of(self)
        columns = 1 if self.rotation_invariant else shape[1]
        if (name, shape) not in cache:
            values = np.full((shape[0], columns), inf)
            if 2 * values.size * shape[0] * shape[1] <= MAX_ENTRIES_READ:
                unit = np.zeros(shape)
                for place in np.ndindex(values.shape):
                    unit[place] = 1.0
                    values[place] = max(self.number(name, unit), self.number(name, -unit))
                    unit[place] = 0.0
            cache[name, shape] = values
        return np.asarray(cache[name, shape])

    def refusal(self, features: Features) -> str | None:
        """Explain why the norm does not support these features; None if it does."""
        return None

    def quadratic(self, W: cp.Expression) -> cp.Expression | None:
        """Square ‖W‖² as a CVXPY quadratic form of W (k, r), for QP solvers; None if it is not quadratic."""
        return None

    def gauge(self, W: cp.Expression) -> list[cp.Constraint]:
        """Constraints that make W unique among weights with equal margins and norm; empty except for seminorms."""
        return []

    def group_form(self, k: int) -> GroupForm | None:
        """Return the norm for k gates as a sum of group norms, for the native solver; None if there is no such form."""
        return None

    def polyhedral_form(self, k: int) -> PolyhedralForm | None:
        """Return the norm for k gates with its polyhedral unit ball, for the native solver; None if it has none."""
        return None

    def spectral_form(self, k: int) -> SpectralForm | None:
        """Return the norm for k gates as a spectral one, for the native solver; None if there is no such form."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
