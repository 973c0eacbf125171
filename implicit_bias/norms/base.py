"""Base class of norms: value, dual norm and CVXPY expression."""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf, nextafter
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from implicit_bias._utils.checks import CONVERSION_ERRORS, Array, InputError, as_floats, as_reals, shown
from implicit_bias._utils.rounding import UNIT
from implicit_bias._utils.scaling import length, without_exponent
from implicit_bias.features.base import Features

if TYPE_CHECKING:
    import cvxpy as cp

#: Numbers that are read for norms of single entries, a few seconds' worth: about 20 000 weights.
WORK = 10**9
#: Results of `known_of`, by the norm's id.
_KNOWN: dict[int, dict[Any, Any]] = {}


@dataclass(frozen=True, eq=False)
class GroupForm:
    """A norm as a sum of group norms: ‖W‖ = Σ_h ‖Ŵ_h‖₂ with W = TŴ, up to a part of W that changes no margin.

    `expand` is T (k, k̂), `groups` (k̂,) the group of each row of Ŵ.

    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from implicit_bias.norms import GroupForm
    >>> GroupForm(sp.csr_array(np.eye(2)), np.array([0, 1])).groups
    array([0, 1])
    """

    expand: sp.csr_array
    groups: np.ndarray


def above(size: float, by: int) -> float:
    """Return size · 2^by, rounded up; infinity for NaN."""
    with np.errstate(over="ignore"):
        scaled = float(np.ldexp(size, by))
    return inf if np.isnan(scaled) else nextafter(scaled, inf) if scaled else 0.0


def known_of(norm: Norm) -> dict[Any, Any]:
    """Return a dictionary of what was computed for a norm: it ends with the norm, and copies start with their own."""
    if id(norm) not in _KNOWN:
        _KNOWN[id(norm)] = {}
        weakref.finalize(norm, _KNOWN.pop, id(norm))
    return _KNOWN[id(norm)]


class Norm(ABC):
    """A (semi)norm of weights W (k, d).

    A new norm is a subclass with `value`, `dual` and `expression`. The certificate needs no more: `value` gives the
    upper bound, `dual` the lower one. They are compared when a problem is built and at its answer, and raise InputError
    if they contradict each other. `ExpressionNorm` makes a norm of a CVXPY expression alone.

    >>> from implicit_bias import Frobenius, GroupLasso, PredictorL2
    >>> from implicit_bias.norms import Norm
    >>> [issubclass(norm, Norm) for norm in (Frobenius, GroupLasso, PredictorL2)]
    [True, True, True]
    """

    #: Attributes that the class is made from again, in the order of its parameters; None if it is not saved.
    made_of: tuple[str, ...] | None = None
    #: Number of gates k the norm is for; None if it takes any.
    gates: int | None = None
    #: Whether ‖WV‖ = ‖W‖ for orthogonal V, as for norms of whole rows and spectral norms: CVXPY then gets the inputs
    #: rotated to their rank.
    rotation_invariant: bool = False
    #: Whether ‖W‖ = 0 for some W ≠ 0 that changes no margin. Constraints may depend on it: such norms take none.
    seminorm: bool = False
    #: Whether `dual` is a formula, which is checked; else a solver computes it from `expression`.
    has_formula: bool = True
    #: Whether the formulas of the class are proved, and rounded as `rounding` says. A class sets it in its own body;
    #: classes derived from it are checked as all others.
    verified: bool = False
    #: Whether `expression` needs semidefinite cones.
    semidefinite: bool = False
    #: Whether the norm is a group lasso over infinitely many atoms u, as `NuclearNorm` is.
    has_atoms: bool = False

    @abstractmethod
    def value(self, W: Array) -> float:
        """‖W‖ for W (k, d)."""

    @abstractmethod
    def dual(self, V: Array) -> float:
        """The dual norm sup {⟨V, W⟩: ‖W‖ ≤ 1} for V (k, d); infinity where the supremum is."""

    @abstractmethod
    def expression(self, W: cp.Expression) -> cp.Expression:
        """‖W‖ of a CVXPY expression W (k, r)."""

    def of_gates(self, W: Any) -> Array:
        """Return weights (k, d) as an array; raise InputError if the norm is for another number of gates."""
        W = as_floats(W, "weights", 2)
        if self.gates not in (None, len(W)):
            raise InputError(f"the norm is for weights of {self.gates} gates, not of {len(W)}")
        return W

    def number(self, name: str, M: Array) -> float:
        """Return `value` or `dual` of a matrix (k, d); raise InputError if it is not a number, or negative."""
        found = getattr(self, name)(M)
        try:
            number = as_reals(found)
        except CONVERSION_ERRORS:
            number = np.array(np.nan)
        if number.shape != () or not number >= 0:
            raise InputError(
                f"{self!r}: its `{name}` gives {shown(found)}, and must be a number, not negative; mend `{name}`"
            )
        return float(number)

    def rounding(self, k: int, d: int) -> float:
        """Relative rounding error of `value` and `dual` of k × d numbers.

        Verified formulas take at most k·d + 2k + d + 16 operations, all on numbers ≥ 0; 1e-12 is assumed of others.
        """
        return (k * d + 2 * k + d + 16) * UNIT if not self.needs_check else 1e-12

    @property
    def needs_check(self) -> bool:
        """True if `value`, `dual` and `expression` are compared when a problem is built and at its answer."""
        return not vars(type(self)).get("verified", False)

    def matrices(self, W: Array) -> Array:
        """Weights (k, d) as the matrices (H, ·, ·) whose singular values the norm is about; W alone by default."""
        return self.of_gates(W)[None]

    def dual_bound(self, lengths: Array) -> float | None:
        """sup ‖V‖_* over all V whose rows have at most these lengths (k,), for the rounding of V; None if unknown."""
        return None

    def value_bound(self, W: Array) -> float:
        """No less than ‖W‖: `value` and its rounding.

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
        """`value_bound` for W of about 1."""
        return self.number("value", W) * (1 + 2 * self.rounding(*W.shape))

    def dual_upper(self, V: Array, error: Array | None = None) -> float:
        """No less than ‖V′‖_* of any V′ whose rows differ from those of V by at most the lengths `error` (k,).

        ‖V′‖_* ≤ ‖V‖_* + ‖V′ − V‖_*, the latter by `dual_bound` or, without it, by `entries`, and the rounding of both.
        Infinity for V that is not finite. If a solver computes `dual` (`has_formula` is False), the result is as good
        as that solver: the dual norm is then assumed to grow by no larger a share than the length of V.

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
        size = self._dual_within(V, error) if both.any() else 0.0
        return above(size * (1 + 2 * self.rounding(*V.shape)), by)

    def _dual_within(self, V: Array, error: Array) -> float:
        """`dual_upper` for V and lengths of about 1, up to a share `rounding`."""
        size = self.number("dual", V) if V.any() else 0.0
        more = self.dual_bound(error) if error.any() else 0.0
        if more is None and self.has_formula:
            rows = np.linalg.norm(self.entries("dual", V.shape), axis=1)
            more = float(rows[error > 0] @ error[error > 0])
        elif more is None:
            more = size * float(length(error) / length(V)) if V.any() else inf
        return size + more

    def entries(self, name: str, shape: tuple[int, int]) -> Array:
        """max(‖E_jl‖, ‖−E_jl‖) of single entries E_jl, by `value` or `dual`: any V has ‖V‖ ≤ Σ_jl |V_jl| ‖±E_jl‖.

        Shape (k, d), or (k, 1) if rotations keep the norm; all infinite if that takes more than `WORK`. They are
        computed once, so a norm must not change after it is made.
        """
        known = known_of(self)
        columns = 1 if self.rotation_invariant else shape[1]
        if (name, shape) not in known:
            found = np.full((shape[0], columns), inf)
            if 2 * found.size * shape[0] * shape[1] <= WORK:
                unit = np.zeros(shape)
                for place in np.ndindex(found.shape):
                    unit[place] = 1.0
                    found[place] = max(self.number(name, unit), self.number(name, -unit))
                    unit[place] = 0.0
            known[name, shape] = found
        return np.asarray(known[name, shape])

    def refuses(self, features: Features) -> str | None:
        """Explain why the norm does not take these features; None if it does."""
        return None

    def quadratic(self, W: cp.Expression) -> cp.Expression | None:
        """‖W‖² as a CVXPY quadratic form, for QP solvers; None if it is none."""
        return None

    def gauge(self, W: cp.Expression) -> list[cp.Constraint]:
        """Constraints that pick one W among those of equal margins and norm; none for a true norm."""
        return []

    def group_form(self, k: int) -> GroupForm | None:
        """The norm of weights of k gates as a sum of group norms, which the native solver needs; None if it is none."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
