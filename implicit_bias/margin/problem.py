"""The margin problem: features, labels, norm, and optional slack, intercept and linear constraints."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from implicit_bias._utils import checks
from implicit_bias._utils.checks import Array, InputError, shown
from implicit_bias._utils.floats import TINY, UNIT, pair_sum
from implicit_bias._utils.lazy import cp
from implicit_bias.features import Features
from implicit_bias.features.base import check_features
from implicit_bias.margin.constraints import LinearConstraints
from implicit_bias.norms import GroupForm, Norm

if TYPE_CHECKING:
    from implicit_bias.gates import Gates
    from implicit_bias.margin.program import MarginProgram

#: Largest number of groups times the square of the number of equations of an interpolation by the native solver.
MAX_INTERPOLATED = 5 * 10**7


@dataclass(frozen=True, eq=False)
class MarginProblem:
    """Margin problem of gated linear features, with a hard or a soft margin.

        minimise ‖W‖ + C Σ_i c_i ξ_i   subject to   y_i ((ΦW)_i + b) ≥ m_i − ξ_i,   ξ ≥ 0

    C = ∞ is the hard margin, ξ = 0. The required margins m_i and the sample weights c_i are 1 by default, and the
    intercept b is 0 by default. With labels of one class only, this is the one-class problem.

    Parameters
    ----------
    features : Features
        Φ of n samples, k gates (or blocks) and d inputs, such as `GatedFeatures` or `KernelFeatures`.
    y : array, shape (n,)
        Labels −1 and +1.
    norm : Norm
        ‖·‖ of the weights W (k, d).
    C : float
        Cost of slack; `inf` for the hard margin.
    gates : Gates, optional
        The fitted gates of `features`, which predictions for new inputs need.
    name : str
        Name of the problem in tables and messages.
    required_margin : float or array, shape (n,)
        m_i > 0.
    sample_weight : float or array, shape (n,)
        c_i > 0, factor of C for sample i; no effect on a hard margin.
    intercept : bool
        True if b is a free variable, which the norm does not penalise.
    constraints : function, optional
        Maps a CVXPY expression W (k, d) to linear constraints, such as `lambda W: [W >= 0, cp.abs(W @ z) <= 0.1]`. The
        attribute is a `LinearConstraints`.

    Raises
    ------
    InputError
        If labels are not −1 or +1; if C, a required margin or a sample weight is not positive; if shapes do not match;
        if the intercept is free with one class only; if constraints are not linear; if the norm does not support the
        features; or if the name is not a text.

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
        object.__setattr__(self, "norm", self.norm.for_gates(self.features.k))
        if self.norm.gates not in (None, self.features.k):
            raise InputError(
                f"{self.norm!r} is for {self.norm.gates} gates, but the features have {self.features.k}; "
                "build the norm for these gates"
            )
        if not isinstance(self.intercept, bool | np.bool_):
            raise InputError(f"intercept must be True (free) or False (none), not {shown(self.intercept)}")
        object.__setattr__(self, "y", checks.as_signs(self.y, self.features.n, both=bool(self.intercept)))
        object.__setattr__(self, "C", checks.as_positive(self.C, "C", infinite=True))
        object.__setattr__(self, "name", checks.as_text(self.name, "name"))
        for name, instead in (
            ("required_margin", "a margin of 1e-6 requires practically only the sign"),
            ("sample_weight", "leave such samples out"),
        ):
            object.__setattr__(self, name, checks.as_positives(getattr(self, name), self.features.n, name, instead))
        if self.constraints is not None and not isinstance(self.constraints, LinearConstraints):
            shape = (self.features.k, self.features.d)
            object.__setattr__(self, "constraints", LinearConstraints.of(self.constraints, shape))
        if self.constraints is not None and self.norm.seminorm:
            raise InputError(f"{self.norm!r} is zero for some nonzero weights: choose another norm for constraints")
        if not self.features.kept:
            return
        with np.errstate(over="ignore"):
            lengths = self.features.row_norms() / self.required_margin
        lengths = np.where(self.features.closed(), 0.0, np.maximum(lengths, TINY))
        checks.check_range(lengths, "the features over the margins")
        self.check_upper_bounds()
        if reason := self.norm.refusal(self.features):
            raise InputError(f"{self.norm!r} does not support these features: {reason}")
        if self.norm.needs_check:
            # Imported here because the checks load CVXPY, which takes a second, and only user-defined norms need them.
            from implicit_bias.norms.check import check_norm

            check_norm(self.norm, self.features)

    def check_upper_bounds(self) -> None:
        """Raise InputError if an upper bound C c_i of λ_i overflows or underflows, also after scaling the features."""
        if self.hard:
            return
        with np.errstate(over="ignore"):
            bounds = self.upper_bounds
            scaled = bounds * self.required_margin * (self.features.row_norms().max() or 1.0)
        if not np.isfinite(bounds).all():
            raise InputError("C times sample_weight overflows; use C=inf for a hard margin")
        # A product that underflows is too small, not zero.
        checks.check_range(np.maximum(bounds, TINY), "C times sample_weight")
        checks.check_range(np.maximum(scaled, TINY), "C times sample_weight in units of the features")

    def __repr__(self) -> str:
        parts = [repr(self.name), repr(self.features), repr(self.norm), "hard margin" if self.hard else f"C={self.C:g}"]
        parts += ["free intercept"] if self.intercept else []
        parts += [] if self.constraints is None else [f"{len(self.constraints.equal)} linear constraints"]
        return f"{type(self).__name__}({', '.join(parts)})"

    def replace(self, **parts: Any) -> MarginProblem:
        """Return a copy with some fields replaced, unchecked; call `check_upper_bounds` after a change of C c_i."""
        problem = copy.copy(self)
        for name, value in parts.items():
            object.__setattr__(problem, name, value)
        if {"norm", "features"} & parts.keys():
            vars(problem).pop("group_form", None)
        return problem

    @cached_property
    def group_form(self) -> GroupForm | None:
        """The norm as a sum of group norms, which the native solver needs; None if it has no such form."""
        return self.norm.group_form(self.features.k)

    @property
    def hard(self) -> bool:
        """True for a hard margin, C = ∞."""
        return bool(np.isinf(self.C))

    @property
    def affine(self) -> bool:
        """True if a linear constraint has a right-hand side other than 0; multiples of feasible W may violate it."""
        return self.constraints is not None and not self.constraints.homogeneous

    @property
    def interpolates(self) -> bool:
        """True if the constraints are equations of values (ΦW)_i that imply all margins, like `interpolation`'s."""
        n, constraints = self.features.n, self.constraints
        if constraints is None or not self.hard or self.intercept:
            return False
        if not constraints.equal.all() or len(constraints.h) < n:
            return False
        W = np.random.default_rng(0).normal(size=constraints.shape)
        known = np.allclose((constraints.E @ W.ravel())[:n], self.features.apply(W))
        return known and bool((self.y * constraints.h[:n] >= self.required_margin).all())

    @property
    def upper_bounds(self) -> Array:
        """Upper bounds C c_i of the dual λ_i, infinite for a hard margin; shape (n,)."""
        return np.full(self.features.n, self.C * self.sample_weight)

    def margins(self, W: Any, b: float = 0.0) -> Array:
        """Margins y_i ((ΦW)_i + b) for W (k, d); shape (n,)."""
        return self.y * (self.features.apply(W) + checks.as_numbers(b, (), "the intercept"))

    def margins_bounded(self, W: Array, b: float = 0.0, precise: bool = False) -> tuple[Array, Array]:
        """Margins f (n,) for W (k, d) and b, and bounds (n,) of their errors and of rounding f ± error.

        `precise` uses error-free products, as in `Features.apply_bounded`.
        """
        upper, lower, error = self.features.apply_bounded(W, precise)
        if b != 0:
            b_, zero = np.full_like(upper, b), np.zeros_like(upper)
            upper, lower, more = pair_sum(np.stack([upper, b_], axis=1), np.stack([lower, zero], axis=1))
            error = error + more
        f = upper + lower
        return self.y * f, error + 2 * UNIT * np.abs(f)

    def adjoint(self, dual: Any) -> Array:
        """Correlations Φᵀ(λ∘y) with a dual λ (n,); shape (k, d)."""
        return self.features.adjoint(self.y * checks.as_numbers(dual, (self.features.n,), "the dual"))

    def decision_function(self, W: Any, X: Any, b: float = 0.0) -> Array:
        """Scores ⟨W, Φ(x)⟩ + b of new inputs X (n, d), gated by the problem's `gates`; shape (n,)."""
        if self.gates is None:
            raise InputError("the problem was built from features, without gates; use GatedFeatures(X, values) @ W")
        return self.gates(X) @ W + checks.as_numbers(b, (), "the intercept")

    def cvxpy(self, reduce: bool = True, quadratic: bool = False) -> MarginProgram:
        """Return the problem as a `cvxpy.Problem` that can be extended.

        Parameters
        ----------
        reduce : bool
            Replace the inputs by coordinates in their span if norm and constraints allow it. The optimum stays the
            same, but the weights stay in this span: pass False to add constraints on single weights.
        quadratic : bool
            Minimise ‖W‖² instead of ‖W‖, for QP solvers such as OSQP. The weights of a hard margin stay the same.

        Raises
        ------
        InputError
            If `quadratic` is True for a soft margin or for a norm whose square is not a quadratic form.
        """
        reason = self.unsupported("quadratic") if quadratic else None
        if reason:
            raise InputError(reason)
        # Imported here because CVXPY takes a second to load, and most solves do not need it.
        from implicit_bias.margin.program import program_of

        return program_of(self, reduce, quadratic)

    def unsupported(self, structure: str) -> str | None:
        """Explain why the problem does not have a structure that a solver needs; None if it has it.

        Parameters
        ----------
        structure : str
            'cone': all problems. 'second-order': no nuclear norm. 'quadratic': a hard margin, and a norm whose square
            is a quadratic form. 'groups': a sum of group norms (`group_form`). 'native': a sum of group norms, a
            nuclear norm, or a norm with a `polyhedral_form` or `spectral_form`, without linear constraints; or a sum of
            group norms with the constraints of `interpolation`.
        """
        if structure == "quadratic" and not self.hard:
            return "a soft margin with a norm is not a quadratic program; use CLARABEL, ECOS or SCS"
        if structure == "quadratic" and self.norm.quadratic(cp.Variable((self.features.k, 1))) is None:
            return f"the square of {self.norm!r} is not a quadratic form; use CLARABEL, ECOS or SCS"
        if structure == "second-order" and self.norm.semidefinite:
            return "it has no semidefinite cones, which a nuclear norm needs; use NATIVE, CLARABEL or SCS"
        norm, k = self.norm, self.features.k
        if structure == "native" and self.constraints is not None:
            groups = self.group_form.count if self.group_form is not None and self.interpolates else np.inf
            few = groups * len(self.constraints.equal) ** 2 <= MAX_INTERPOLATED
            return None if few else "it does not support these linear constraints; use CLARABEL or SCS"
        known = norm.has_atoms or norm.polyhedral_form(k) or norm.spectral_form(k)
        if structure == "groups" or (structure == "native" and not known):
            form = self.group_form
            if form is None:
                return f"it needs a sum of group norms, but {self.norm!r} has no group_form(); use CLARABEL or SCS"
            if form.expand.shape != (self.features.k, len(form.groups)):
                return f"the group_form of {self.norm!r} must expand {len(form.groups)} rows to {self.features.k} gates"
        return None


def balanced(lam: Any, column: Any) -> Any:
    """Return λ (n,) with ỹᵀλ = 0, ỹ in `column`: the λ_i of the class with the larger Σ |ỹ_i| λ_i are scaled down.

    If a class has no λ, those of the other one are 0. Arrays are NumPy's, of any type of numbers, or torch's.
    """
    positive, negative = column > 0, column < 0
    sides = (lam * column * positive).sum(), -(lam * column * negative).sum()
    least = min(sides)
    return lam * (positive * (least / (sides[0] or 1.0)) + negative * (least / (sides[1] or 1.0)) + (column == 0))


def check_problem(problem: Any) -> None:
    """Raise InputError unless this is a MarginProblem."""
    if not isinstance(problem, MarginProblem):
        raise InputError(f"problem must be a MarginProblem (from a builder such as svm_gln), not {shown(problem)}")
