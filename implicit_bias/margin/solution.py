"""Result types of `certify` and `solve`: immutable records."""

from dataclasses import dataclass, field
from enum import Enum
from textwrap import fill
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias.margin.display import draw_gates, draw_margins, summary

#: λ_i, and lengths of weights, up to this share of the largest count as zero.
INACTIVE = 1e-5
#: Width of a printed solution, in characters.
WIDTH = 79


class Status(Enum):
    """How a solve ended; each value's text is a remedy.

    >>> from implicit_bias import Status
    >>> print(Status.ITERATION_LIMIT.value)
    stopped at the iteration limit; increase max_iterations
    """

    OPTIMAL = "certified to the tolerance; nothing to do"
    INACCURATE = "the gap is larger than asked; scale inputs alike, loosen tol, raise max_iterations, change the solver"
    NOT_SEPARABLE = "no weights separate these samples; use more units or contexts, or a soft margin (finite C)"
    NOT_SEPARABLE_BELOW = (
        "no weights of a norm below the lower bound separate these samples; "
        "use more units or contexts, or a soft margin (finite C)"
    )
    ITERATION_LIMIT = "stopped at the iteration limit; increase max_iterations"
    TIME_LIMIT = "stopped at the time limit; increase max_seconds"
    INTERRUPTED = "interrupted; this is the best answer so far: solve again with start= this solution to go on"

    @property
    def inseparable(self) -> bool:
        """True if no weights separate, at all or below some norm."""
        return self in (Status.NOT_SEPARABLE, Status.NOT_SEPARABLE_BELOW)


@dataclass(frozen=True, eq=False)
class Certificate:
    """Rigorous bounds on the optimum of a margin problem, recomputed from weights and dual alone.

    Any W and b with m = min_i y_i((ΦW)_i + b)/m_i > 0 give the upper bound ‖W‖/m, any λ ≥ 0 the lower bound
    Σ m_iλ_i / ‖Φᵀ(λ∘y)‖_* (soft margin: λ_i ≤ C c_i as well, and the slack of the best multiple of W and b; free
    intercept b: Σ y_iλ_i = 0 as well, for which the λ of one class are scaled down; else b = 0). Linear constraints
    E vec(W) ≤ 0 take multipliers μ ≥ 0, Φᵀ(λ∘y) − Eᵀμ stands in place of Φᵀ(λ∘y), and W lies in their cone.

    The bounds are those of `weights` and `dual` as they stand, in exact arithmetic: the rounding of every sum on the
    way is counted against them. They rest on the norm's `value` and `dual`.

    Attributes
    ----------
    weights : array, shape (k, d)
        W, scaled to be feasible: every y_i((ΦW)_i + b) ≥ m_i, one with equality (soft margin: the best multiple), up to
        rounding, which `objective` counts.
    dual : array, shape (n,)
        λ ≥ 0, scaled to be feasible: ‖Φᵀ(λ∘y)‖_* = 1 (soft margin: at most 1, and λ_i ≤ C c_i), up to rounding, which
        `lower_bound` counts; if nothing separates, 1ᵀλ = 1.
    objective : float
        The upper bound, reached by a multiple of `weights`; infinity if they do not separate.
    lower_bound : float
        The lower bound, proved by a multiple of `dual`; infinity if it proves, by rational arithmetic, that nothing
        separates.
    gap : float
        (objective − lower_bound) / objective; infinity if there is no upper bound.
    margins : array, shape (n,)
        y_i ((ΦW)_i + b) at `weights` and `intercept`.
    farkas_residual : float
        ‖Φᵀ(λ∘y) − Eᵀμ‖_F / Σ_i λ_i ‖φ(x_i)‖, every input in units of its own size, so that a large one hides no small
        one: no W of length 1 has margins of more than this share of the features' mean length, weighted by λ.
    intercept : float
        b, scaled with W; 0 unless it is free.
    multipliers : array, shape (m,)
        μ of the linear constraints, scaled with λ; empty without constraints.

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

    @property
    def minimum_margin(self) -> float:
        """min_i y_i ((ΦW)_i + b); 1 for a separating W of a hard-margin problem that requires margins of 1."""
        return float(self.margins.min())

    @property
    def support(self) -> np.ndarray:
        """Indices of the support vectors: λ_i above 1e-5 of the largest."""
        return np.flatnonzero(self.dual > INACTIVE * self.dual.max(initial=0.0))

    @property
    def active(self) -> np.ndarray:
        """Mask (k,) of the gates with weights: rows of W longer than 1e-5 of the longest."""
        lengths = np.linalg.norm(self.weights, axis=1)
        return np.asarray(lengths > INACTIVE * lengths.max(initial=0.0))

    def plot_margins(self, ax: Any = None) -> Any:
        """Draw histograms of the margins, of support vectors and others, on `ax`, new axes if None; return the axes.

        Raises InputError if there are no weights.
        """
        return draw_margins(self, ax)

    def plot_gates(self, ax: Any = None) -> Any:
        """Draw the length ‖w_j‖₂ of each gate's weights, the longest first, on `ax`, new axes if None; return the axes.

        Raises InputError if there are no weights.
        """
        return draw_gates(self, ax)

    @property
    def separable(self) -> bool:
        """False if `dual` proves that no weights separate."""
        return self.objective < np.inf or self.lower_bound < np.inf


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
    reason : str
        Of INACCURATE: what in the data or the solver keeps the gap from `tol`. Empty where there is nothing to say.

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
    reason: str = ""

    def __repr__(self) -> str:
        try:
            k, d = self.weights.shape
            bounds = f"objective={self.objective:.9g}, gap={self.gap:.1e}"
            told = f"{self.status.name}, {bounds}, k={k}, d={d}, {len(self.support)} support vectors, {self.solver}"
        except (AttributeError, TypeError, ValueError):
            told = "made by hand of other things than numbers"
        return f"Solution({told})"

    def _repr_html_(self) -> str:
        return summary({"": self})

    def __str__(self) -> str:
        told = [self.reason] if self.reason else []
        how = f"{self.solver}, {self.iterations} iterations, {self.seconds:.2f} s"
        if self.status is Status.NOT_SEPARABLE:
            told += [f"proved by {np.count_nonzero(self.dual)} samples in rational arithmetic", how]
        elif self.status is Status.NOT_SEPARABLE_BELOW:
            told += [f"lower bound {self.lower_bound:.9g}", how]
        else:
            told += [f"objective {self.objective:.9g}, lower bound {self.lower_bound:.9g}, gap {self.gap:.1e}"]
            told += [f"minimum margin {self.minimum_margin:.6g}; {how}"]
        lines = [fill(f"{self.status.name}: {self.status.value}", WIDTH, subsequent_indent="  ")]
        return "\n".join(lines + [fill(each, WIDTH, initial_indent="  ", subsequent_indent="    ") for each in told])
