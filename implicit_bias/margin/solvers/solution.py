"""What the judge and `solve` return: plain records, which everybody may read and nobody computes with."""

from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from implicit_bias.ground.checks import Array

#: A Farkas residual at or below this proves that the data are not separable, up to rounding.
FARKAS_TOLERANCE = 1e-13
#: λ_i up to this share of the largest count as zero.
IDLE = 1e-5


class Status(Enum):
    """How a solve ended; each value's text is a remedy.

    >>> from implicit_bias import Status
    >>> print(Status.ITERATION_LIMIT.value)
    stopped at the iteration limit; increase max_iterations
    """

    OPTIMAL = "certified to the tolerance; nothing to do"
    INACCURATE = "the gap is larger than asked; scale inputs alike, loosen tol, raise max_iterations, change the solver"
    NOT_SEPARABLE = "no weights separate these samples; use more units or contexts, or a soft margin (finite C)"
    ITERATION_LIMIT = "stopped at the iteration limit; increase max_iterations"
    TIME_LIMIT = "stopped at the time limit; increase max_seconds"
    INTERRUPTED = "interrupted; this is the best answer so far: solve again with start= this solution to go on"


@dataclass(frozen=True, eq=False)
class Certificate:
    """Rigorous bounds on the optimum of a margin problem, recomputed from weights and dual alone.

    Any W and b with m = min_i y_i((ΦW)_i + b)/m_i > 0 give the upper bound ‖W‖/m, any λ ≥ 0 the lower bound
    Σ m_iλ_i / ‖Φᵀ(λ∘y)‖_* (soft margin: λ_i ≤ C c_i as well, and the slack of the best multiple of W and b; free
    intercept b: Σ y_iλ_i = 0 as well, for which the λ of one class are scaled down; else b = 0). Linear constraints
    E vec(W) ≤ 0 take multipliers μ ≥ 0, Φᵀ(λ∘y) − Eᵀμ stands in place of Φᵀ(λ∘y), and a soft margin takes W as it is.

    Attributes
    ----------
    weights : array, shape (k, d)
        W, scaled to be feasible: every y_i((ΦW)_i + b) ≥ m_i, one with equality (soft margin: the best multiple).
    dual : array, shape (n,)
        λ ≥ 0, scaled to be feasible: ‖Φᵀ(λ∘y)‖_* = 1; if the data are not separable, 1ᵀλ = 1.
    objective : float
        The upper bound, the objective at `weights`; infinity if they do not separate.
    lower_bound : float
        Σ m_iλ_i of the scaled dual.
    gap : float
        (objective − lower_bound) / objective; infinity if there is no upper bound.
    margins : array, shape (n,)
        y_i ((ΦW)_i + b) at `weights` and `intercept`.
    farkas_residual : float
        ‖Φᵀ(λ∘y)‖_F / Σ_i λ_i ‖φ(x_i)‖, every input in units of its own size, so that a large one hides no small one:
        at rounding level, λ proves that no W separates.
    intercept : float
        b, scaled with W; 0 unless it is free.
    multipliers : array, shape (m,)
        μ of the linear constraints, scaled with λ; empty without constraints.
    violation : float
        By how much W violates them: what repairing the worst of them by one weight changes in a margin, as a share of
        the smallest required margin; 0 without constraints.

    Examples
    --------
    >>> from implicit_bias import ConstantGate, certify, svm_gln
    >>> problem = svm_gln([[1.0], [1.0]], [1, -1], ConstantGate())
    >>> certify(problem, weights=[[1.0]], dual=[0.5, 0.5]).separable
    False
    """

    weights: Array = field(repr=False)
    dual: Array = field(repr=False)
    objective: float
    lower_bound: float
    gap: float
    margins: Array = field(repr=False)
    farkas_residual: float
    intercept: float
    multipliers: Array = field(repr=False)
    violation: float

    @property
    def minimum_margin(self) -> float:
        """min_i y_i ((ΦW)_i + b); 1 for a separating W of a hard-margin problem that requires margins of 1."""
        return float(self.margins.min())

    @property
    def support(self) -> np.ndarray:
        """Indices of the samples that carry the solution: λ_i above 1e-5 of the largest."""
        return np.flatnonzero(self.dual > IDLE * self.dual.max(initial=0.0))

    @property
    def separable(self) -> bool:
        """Whether `weights` separate, or `dual` at least fails to prove that nothing does."""
        return self.objective < np.inf or self.farkas_residual > FARKAS_TOLERANCE


@dataclass(frozen=True, eq=False)
class Solution(Certificate):
    """The certified answer to a margin problem: a `Certificate` and how it was obtained.

    Attributes
    ----------
    status : Status
    iterations : int
        Of the solver; −1 where it does not tell.
    seconds : float
        Wall-clock time of the whole solve: translation, solver and certificate.
    solver : str
    tol : float
        The relative gap that was asked for.

    Examples
    --------
    >>> from implicit_bias import ConstantGate, solve, svm_gln
    >>> solution = solve(svm_gln([[2.0, 1.0], [-2.0, 1.0]], [1, -1], ConstantGate()))
    >>> solution.status, round(solution.objective, 6), solution.gap < 1e-6
    (<Status.OPTIMAL: 'certified to the tolerance; nothing to do'>, 0.5, True)
    """

    status: Status
    iterations: int
    seconds: float
    solver: str
    tol: float

    def __str__(self) -> str:
        head = f"{self.status.name}: {self.status.value}"
        how = f"{self.solver}, {self.iterations} iterations, {self.seconds:.2f} s"
        if self.status is Status.NOT_SEPARABLE:
            return f"{head}\n  Farkas residual {self.farkas_residual:.1e}   ({how})"
        return (
            f"{head}\n  objective {self.objective:.9g}, lower bound {self.lower_bound:.9g}, "
            f"gap {self.gap:.1e}, minimum margin {self.minimum_margin:.6g}   ({how})"
        )
