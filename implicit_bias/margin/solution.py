"""Result types of `certify` and `solve`: immutable records, their tables in notebooks, and their plots."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from html import escape
from textwrap import fill
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, shown

#: Relative size, compared with the largest, up to which λ_i and the lengths of weights count as zero.
INACTIVE = 1e-5
#: Colours of active items (support vectors, or gates with weights) and of inactive ones.
COLOURS = ("#0072B2", "#B9C4CC")
#: Width of a printed solution, in characters.
WIDTH = 79


class Status(Enum):
    """Outcome of a solve; the value is a text that names the remedy.

    Examples
    --------
    >>> from implicit_bias import Status
    >>> print(Status.ITERATION_LIMIT.value)
    stopped at the iteration limit; increase max_iterations
    """

    #: The certified gap is at most `tol`.
    OPTIMAL = "certified to the tolerance; nothing to do"
    #: The solver stopped with a larger gap.
    INACCURATE = "the gap exceeds tol; bring the inputs to one scale, loosen tol, or choose another solver"
    #: Proved in rational arithmetic.
    NOT_SEPARABLE = "no weights separate these samples; use more units or contexts, or a soft margin (finite C)"
    #: Proved by the lower bound.
    NOT_SEPARABLE_BELOW = (
        "no weights of a norm below the lower bound separate these samples; "
        "use more units or contexts, or a soft margin (finite C)"
    )
    #: Proved in rational arithmetic.
    INFEASIBLE = "no weights satisfy the linear constraints; loosen them, or leave some out"
    #: The best bounds so far.
    ITERATION_LIMIT = "stopped at the iteration limit; increase max_iterations"
    #: The best bounds so far.
    TIME_LIMIT = "stopped at the time limit; increase max_seconds"
    #: The best bounds so far.
    INTERRUPTED = "interrupted with the best answer so far; pass this solution as start= to continue"

    @property
    def inseparable(self) -> bool:
        """True if no weights separate the samples, or none below some norm, or none satisfy the constraints."""
        return self in (Status.NOT_SEPARABLE, Status.NOT_SEPARABLE_BELOW, Status.INFEASIBLE)


@dataclass(frozen=True, eq=False)
class Certificate:
    """Rigorous bounds of the optimum of a margin problem, computed from weights and dual alone.

    Any W and b with m = min_i y_i((ΦW)_i + b)/m_i > 0 give the upper bound ‖W‖/m. Any λ ≥ 0 gives the lower bound
    Σ m_iλ_i / ‖Φᵀ(λ∘y)‖_*. Three extensions change these formulas:

    - Soft margin: also λ_i ≤ C c_i, and the upper bound is the objective of the best multiple of W and b.
    - Free intercept b (otherwise b = 0): also Σ y_iλ_i = 0, for which the λ of one class are scaled down.
    - Linear constraints E vec(W) ≤ h: W satisfies them, and Φᵀ(λ∘y) − Eᵀμ with μ ≥ 0 replaces Φᵀ(λ∘y).
      If h ≠ 0, the numerator is Σ m_iλ_i − hᵀμ, and the upper bound is the objective of feasible W and b, not of their
      best multiple. `LinearConstraints` derives this.

    The bounds hold in exact arithmetic: every rounding error of their computation is bounded and included. They rely on
    the norm's `value` and `dual`.

    Attributes
    ----------
    weights : array, shape (k, d)
        W, scaled so that y_i((ΦW)_i + b) ≥ m_i up to rounding, with equality for one i. For a soft margin, the multiple
        with the smallest objective. Constraints with a right-hand side also hold up to the rounding of each entry.
    dual : array, shape (n,)
        λ ≥ 0, scaled so that ‖Φᵀ(λ∘y)‖_* = 1 up to rounding (soft margin: at most 1, and λ_i ≤ C c_i). For inseparable
        data 1ᵀλ = 1, and λ = 0 if the constraints contradict each other.
    objective : float
        Upper bound, attained by a multiple of `weights`; infinity if none is feasible.
    lower_bound : float
        Lower bound, proved by a multiple of `dual`; infinity if it proves inseparability in rational arithmetic.
    gap : float
        Relative gap (objective − lower_bound) / objective; infinity without an upper bound.
    margins : array, shape (n,)
        y_i ((ΦW)_i + b) at `weights` and `intercept`.
    farkas_residual : float
        ‖Φᵀ(λ∘y) − Eᵀμ‖_F / Σ_i λ_i ‖φ(x_i)‖, with every input divided by its size. For W of length 1 in these units,
        the smallest margin is at most this multiple of the mean of ‖φ(x_i)‖ weighted by λ. If h ≠ 0, the denominator
        also has ``Σ_j |μ_j| ‖E_j‖`` and is multiplied by ``(Σ m_iλ_i − hᵀμ) / (Σ m_iλ_i + Σ_j |h_jμ_j|)``.
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
        """Smallest margin, min_i y_i ((ΦW)_i + b); 1 for a separable hard-margin problem with all m_i = 1."""
        # Without a sign if it is zero.
        return float(self.margins.min()) + 0.0

    @property
    def support(self) -> np.ndarray:
        """Indices of the support vectors, those with λ_i > 1e-5 max_j λ_j."""
        return np.flatnonzero(self.dual > INACTIVE * self.dual.max(initial=0.0))

    @property
    def active(self) -> np.ndarray:
        """Mask (k,) of the active gates, those with ‖w_h‖₂ > 1e-5 max_j ‖w_j‖₂ for the rows of W."""
        lengths = np.linalg.norm(self.weights, axis=1)
        return np.asarray(lengths > INACTIVE * lengths.max(initial=0.0))

    def plot_margins(self, ax: Any = None) -> Any:
        """Draw histograms of the margins of support vectors and other samples; return the matplotlib axes.

        They are drawn in `ax`, by default in new axes.

        Raises
        ------
        InputError
            If there are no weights.
        """
        ax, margins = _axes(self, ax), self.margins
        in_support = np.isin(np.arange(len(margins)), self.support)
        parts = {"support vectors": margins[in_support], "other samples": margins[~in_support]}
        labels = [f"{name} ({len(part)})" for name, part in parts.items()]
        most = max(margins.max(), margins.min() + 1e-6 * max(1.0, np.abs(margins).max()))
        bins = np.linspace(margins.min(), most, min(40, max(5, len(margins) // 5)) + 1)
        ax.hist(list(parts.values()), bins, stacked=True, color=COLOURS, label=labels)
        if margins.min() <= 0:
            ax.axvline(0, color="black", linewidth=0.8, label="decision boundary")
        ax.set(xlabel=r"margin $y_i\,((\Phi W)_i + b)$", ylabel="samples")
        ax.legend()
        return ax

    def plot_gates(self, ax: Any = None) -> Any:
        """Draw the length ‖w_j‖₂ of each gate's weights, in descending order.

        Parameters, result and errors are those of `plot_margins`.
        """
        ax, active = _axes(self, ax), self.active
        lengths = np.linalg.norm(self.weights, axis=1)
        order = np.argsort(-lengths, kind="stable")
        colours = [COLOURS[0] if active[j] else COLOURS[1] for j in order]
        ax.bar(np.arange(1, len(order) + 1), lengths[order], color=colours)
        title = f"{active.sum()} of {len(active)} gates have weights"
        ax.set(xlabel="gate, by size", ylabel=r"$\|w_j\|_2$", title=title)
        return ax

    @property
    def separable(self) -> bool:
        """False if `dual` and `multipliers` prove that no weights are feasible."""
        return self.objective < np.inf or self.lower_bound < np.inf


def _axes(certificate: Any, ax: Any) -> Any:
    import matplotlib.pyplot as plt
    from matplotlib.axes import Axes

    if not np.isfinite(certificate.weights).all():
        raise InputError("no weights separate these samples, so that there is nothing to plot; use a soft margin")
    if ax is not None and not isinstance(ax, Axes):
        raise InputError(f"ax must be matplotlib axes or None, not {shown(ax)}")
    return plt.subplots()[1] if ax is None else ax


@dataclass(frozen=True, eq=False)
class Solution(Certificate):
    """Certified solution of a margin problem: a `Certificate` with the status and cost of the solve.

    Attributes
    ----------
    status : Status
    iterations : int
        Number of iterations of the solver; −1 if it does not report them.
    seconds : float
        Wall-clock time of the whole solve, including translation and certificate; 0 in a loaded solution.
    solver : str
        Name of the solver whose answer has the smallest gap.
    tol : float
        Largest relative gap of an OPTIMAL solution.
    reason : str
        Cause of an INACCURATE status, or attempts of several solvers; often empty otherwise.

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
            text = f"{self.status.name}, {bounds}, k={k}, d={d}, {len(self.support)} support vectors, {self.solver}"
        except (AttributeError, TypeError, ValueError):
            text = "with fields that are not numbers"
        return f"Solution({text})"

    def _repr_html_(self) -> str:
        return summary({"": self})

    def __str__(self) -> str:
        details = [self.reason] if self.reason else []
        cost = f"{self.solver}, {self.iterations} iterations, {self.seconds:.2f} s"
        if self.status is Status.NOT_SEPARABLE:
            details += [f"proved by {np.count_nonzero(self.dual)} samples in rational arithmetic", cost]
        elif self.status is Status.INFEASIBLE:
            details += [f"proved by {np.count_nonzero(self.multipliers)} constraints in rational arithmetic", cost]
        elif self.status is Status.NOT_SEPARABLE_BELOW:
            details += [f"lower bound {self.lower_bound:.9g}", cost]
        else:
            details += [f"objective {self.objective:.9g}, lower bound {self.lower_bound:.9g}, gap {self.gap:.1e}"]
            details += [f"minimum margin {self.minimum_margin:.6g}; {cost}"]
        head = fill(f"{self.status.name}: {self.status.value}", WIDTH, subsequent_indent="  ")
        return "\n".join([head, *(fill(one, WIDTH, initial_indent="  ", subsequent_indent="    ") for one in details)])


def summary(solutions: Mapping[Any, Any], groups: np.ndarray | None = None) -> str:
    """Return an HTML table of solutions, one row per class, "" without a name; `groups` (k,) are those of gates."""
    classes = list(solutions) != [""]
    if groups is not None and any(len(one.weights) != len(groups) for one in solutions.values()):
        groups = None
    head = ["class"] * classes + ["status", "lower bound", "objective", "gap"]
    head += ["active gates" if groups is None else "active groups", "support vectors", "solver"]
    rows = [[str(label)] * classes + _row(one, groups) for label, one in solutions.items()]
    remedies = [f"{one.status.value}{f': {one.reason}' if one.reason else ''}" for one in solutions.values()]
    lines = ["".join(f"<th>{name}</th>" for name in head)]
    for cells, remedy in zip(rows, remedies, strict=True):
        lines.append("".join(f'<td title="{escape(remedy)}">{escape(cell)}</td>' for cell in cells))
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def _row(one: Any, groups: np.ndarray | None) -> list[str]:
    names = np.arange(len(one.weights)) if groups is None else groups
    active = "none" if one.status.inseparable else f"{len(np.unique(names[one.active]))} of {len(np.unique(names))}"
    numbers = [f"{one.lower_bound:.9g}", f"{one.objective:.9g}", f"{one.gap:.1e}"]
    return [one.status.name, *numbers, active, f"{len(one.support)} of {len(one.dual)}", one.solver]
