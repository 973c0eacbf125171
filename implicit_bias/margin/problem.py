"""Margin problems."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from implicit_bias._utils.checks import (
    Array,
    InputError,
    as_numbers,
    as_positive,
    as_positives,
    as_signs,
    check_range,
    shown,
)
from implicit_bias._utils.scaling import TINY
from implicit_bias.features import Features
from implicit_bias.features.base import check_features
from implicit_bias.margin.constraints import LinearConstraints
from implicit_bias.norms import GroupForm, Norm

if TYPE_CHECKING:
    from implicit_bias.gates import Gates
    from implicit_bias.margin.program import MarginProgram


@dataclass(frozen=True, eq=False)
class MarginProblem:
    """minimise ‖W‖ + C Σ c_i ξ_i subject to y_i ((ΦW)_i + b) ≥ m_i − ξ_i, ξ ≥ 0; the hard margin (ξ = 0) for C = ∞.

    The required margins m_i and the sample weights c_i are 1 unless given, the intercept b is 0 unless it is free.
    With one class only, and b = 0, this is the one-class problem.

    Parameters
    ----------
    features : Features, such as GatedFeatures or KernelFeatures
        Φ: n samples, k gates (or blocks), d inputs.
    y : array, shape (n,)
        Labels −1 and +1.
    norm : Norm
        ‖·‖ of the weights W (k, d).
    C : float
        The price of a unit of slack; `inf` for the hard margin.
    gates : Gates, optional
        The fitted gates behind `features`, so that new inputs can be scored.
    name : str
        What to call the problem in tables and messages.
    required_margin : array, shape (n,), or one number
        m_i > 0.
    sample_weight : array, shape (n,), or one number
        c_i > 0, the price of sample i's slack in units of C; without effect on a hard margin.
    intercept : bool
        Whether b is free: it costs no norm, whatever its size.
    constraints : function, optional
        From a CVXPY expression W (k, d) to linear constraints, such as `lambda W: [W >= 0]`; they must be homogeneous.
        Kept as `LinearConstraints`.

    Raises
    ------
    InputError
        For labels other than −1 and +1, a free intercept with one class only, mismatched shapes, C ≤ 0, required
        margins or sample weights that are not positive, constraints that are not linear and homogeneous, or a norm
        that is not for these features.

    Examples
    --------
    >>> from implicit_bias import Frobenius, GatedFeatures, MarginProblem, solve
    >>> problem = MarginProblem(GatedFeatures([[2.0], [-1.0]], [[1], [1]]), [1, -1], Frobenius())
    >>> problem
    MarginProblem('margin problem', GatedFeatures(n=2, k=1, d=1), Frobenius(), hard margin)
    >>> round(solve(problem).objective, 6)
    1.0
    """

    features: Features
    y: Array
    norm: Norm
    C: float = np.inf
    gates: Gates | None = None
    name: str = "margin problem"
    required_margin: Any = 1.0
    sample_weight: Any = 1.0
    intercept: bool = False
    constraints: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.features, Features):
            raise InputError(f"features must be Features such as GatedFeatures(X, values), not {shown(self.features)}")
        if self.features.needs_check:
            check_features(self.features)
        if not isinstance(self.norm, Norm):
            raise InputError(f"norm must be a Norm such as GroupLasso(groups), not {shown(self.norm)}")
        if self.norm.gates not in (None, self.features.k):
            raise InputError(f"{self.norm!r} is for {self.norm.gates} gates, the features have {self.features.k}")
        if not isinstance(self.intercept, bool | np.bool_):
            raise InputError(f"intercept must be True (free) or False (none), not {shown(self.intercept)}")
        object.__setattr__(self, "y", as_signs(self.y, self.features.n, both=bool(self.intercept)))
        object.__setattr__(self, "C", as_positive(self.C, "C", infinite=True))
        for name in ("required_margin", "sample_weight"):
            object.__setattr__(self, name, as_positives(getattr(self, name), self.features.n, name))
        if self.constraints is not None and not isinstance(self.constraints, LinearConstraints):
            shape = (self.features.k, self.features.d)
            object.__setattr__(self, "constraints", LinearConstraints.of(self.constraints, shape))
        if self.constraints is not None and self.norm.seminorm:
            raise InputError(f"{self.norm!r} leaves some weights undetermined, so that it takes no constraints")
        if self.features.kept:
            self._check_samples()

    def _check_samples(self) -> None:
        """Raise InputError for sizes, prices or a norm that do not suit the samples."""
        with np.errstate(over="ignore"):
            lengths = self.features.row_norms() / self.required_margin
        check_range(np.where(self.features.closed(), 0.0, np.maximum(lengths, TINY)), "the features over the margins")
        self.check_prices()
        reason = self.norm.refuses(self.features)
        if reason:
            raise InputError(f"{self.norm!r} cannot take these features: {reason}")
        if self.norm.needs_check:
            # The checks load CVXPY, which takes a second; norms of the package need none.
            from implicit_bias.norms.check import check_norm

            check_norm(self.norm, self.features)

    def check_prices(self) -> None:
        """Raise InputError unless the upper bounds C c_i of λ_i stay in floating point, in any units."""
        if self.hard:
            return
        with np.errstate(over="ignore"):
            prices = self.prices
            scaled = prices * self.required_margin * (self.features.row_norms().max() or 1.0)
        if not np.isfinite(prices).all():
            raise InputError("C times sample_weight overflows; use C=inf for a hard margin")
        # What vanishes is too small, not zero.
        check_range(np.maximum(prices, TINY), "the prices C times sample_weight")
        check_range(np.maximum(scaled, TINY), "the prices in units of the features")

    def __repr__(self) -> str:
        parts = [repr(self.name), repr(self.features), repr(self.norm), "hard margin" if self.hard else f"C={self.C:g}"]
        parts += ["free intercept"] if self.intercept else []
        parts += [] if self.constraints is None else [f"{len(self.constraints.equal)} linear constraints"]
        return f"{type(self).__name__}({', '.join(parts)})"

    def replace(self, **parts: Any) -> MarginProblem:
        """Return a copy with some fields replaced by values that are not checked again; see `check_prices`."""
        problem = copy.copy(self)
        for name, value in parts.items():
            object.__setattr__(problem, name, value)
        if {"norm", "features"} & parts.keys():
            vars(problem).pop("group_form", None)
        return problem

    @cached_property
    def group_form(self) -> GroupForm | None:
        """The norm as a sum of group norms, which the native solver needs; None if it is none."""
        return self.norm.group_form(self.features.k)

    @property
    def hard(self) -> bool:
        """True for a hard margin: C = ∞."""
        return bool(np.isinf(self.C))

    @property
    def prices(self) -> Array:
        """C c_i, the upper bounds of the dual λ_i; shape (n,)."""
        return np.full(self.features.n, self.C * self.sample_weight)

    def margins(self, W: Any, b: float = 0.0) -> Array:
        """y_i ((ΦW)_i + b) for W (k, d); shape (n,)."""
        return self.y * (self.features.apply(W) + as_numbers(b, (), "the intercept"))

    def adjoint(self, dual: Any) -> Array:
        """Φᵀ(λ∘y) for λ (n,); shape (k, d)."""
        return self.features.adjoint(self.y * as_numbers(dual, (self.features.n,), "the dual"))

    def decision_function(self, W: Any, X: Any, b: float = 0.0) -> Array:
        """Scores Φ(x)·W + b of new inputs X (n, d) through the problem's own gates."""
        if self.gates is None:
            raise InputError("the problem was built from features, without gates; use GatedFeatures(X, values) @ W")
        return self.gates(X) @ W + as_numbers(b, (), "the intercept")

    def cvxpy(self, reduce: bool = True, quadratic: bool = False) -> MarginProgram:
        """The problem as a real `cvxpy.Problem`, with `weights`, `margins` and `margin_constraint` on it.

        Parameters
        ----------
        reduce : bool
            Rotate the inputs to their rank, where norm and constraints allow it. This keeps the optimum, but the
            weights then stay in the span of the inputs: pass False to add constraints on single weights.
        quadratic : bool
            Minimise ‖W‖² instead of ‖W‖ (the same weights for a hard margin), for QP solvers such as OSQP.

        Raises
        ------
        InputError
            If `quadratic` is asked of a norm whose square is no quadratic form, or of a soft margin.
        """
        reason = self.unsupported("quadratic") if quadratic else None
        if reason:
            raise InputError(reason)
        # CVXPY takes a second to load, which most solves do without.
        from implicit_bias.margin.program import program_of

        return program_of(self, reduce, quadratic)

    def unsupported(self, structure: str) -> str | None:
        """Explain why the problem does not have a structure that a solver needs; None if it has.

        'cone': every problem, by its norm's CVXPY expression. 'second-order': all except those of a nuclear norm.
        'quadratic': a hard margin and a norm whose square is a quadratic form. 'groups': a norm that is a sum of group
        norms (`group_form`). 'atoms': the same, or a nuclear norm, which is one of infinitely many groups, and no
        linear constraints.
        """
        if structure == "quadratic" and not self.hard:
            return "a soft margin with a norm is no quadratic program; use CLARABEL, ECOS or SCS"
        if structure == "quadratic":
            import cvxpy as cp

            if self.norm.quadratic(cp.Variable((self.features.k, 1))) is None:
                return f"the square of {self.norm!r} is no quadratic form; use CLARABEL, ECOS or SCS"
        if structure == "second-order" and self.norm.semidefinite:
            return "it knows no semidefinite cones, which a nuclear norm needs; use NATIVE, CLARABEL or SCS"
        if structure == "atoms" and self.constraints is not None:
            return "it takes no linear constraints; use CLARABEL or SCS"
        if structure == "groups" or (structure == "atoms" and not self.norm.has_atoms):
            form = self.group_form
            if form is None:
                remedy = "use CLARABEL or SCS"
                return f"it needs a norm that is a sum of group norms, {self.norm!r} gives no group_form(); {remedy}"
            if form.expand.shape != (self.features.k, len(form.groups)):
                return f"the group_form of {self.norm!r} must expand {len(form.groups)} rows to {self.features.k} gates"
        return None


def check_problem(problem: Any) -> None:
    """Raise InputError unless this is a MarginProblem."""
    if not isinstance(problem, MarginProblem):
        raise InputError(f"problem must be a MarginProblem (from a builder such as svm_gln), not {shown(problem)}")
