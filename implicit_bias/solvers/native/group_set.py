"""Working sets over groups: solve for a few, ask how all of them pull at the answer, add those that pull most."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias._utils.scaling import length
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.norms import GroupForm
from implicit_bias.solvers.base import Answer
from implicit_bias.solvers.native.interior_point import Bounds

#: Groups that all stay in, and so many times the samples of a first working set; more start as few.
ALL_UP_TO, TIMES, SAMPLES = 500, 2, 2000
#: How many groups start, or this share of the samples, and the share of a set by which it grows.
FIRST, FIRST_SHARE, GROWTH = 60, 0.25, 0.5
#: The first relative gap that is asked for, and by how much each of the next is below the gap over all groups.
COARSE, FINER = 0.1, 0.1
#: A group is dropped that pulls less than this share of the most that it may, once.
IDLE = 0.8


@dataclass(frozen=True)
class Found:
    """What the solver of some groups found: weights (k, d), λ (n,), intercept, bounds that hold without the others."""

    answer: Answer
    bounds: Bounds

    @property
    def ended(self) -> bool:
        """Whether a limit, the user or want of memory ended it."""
        return self.answer.stopped is not None or bool(self.answer.reason)


#: From a form of some groups, the λ that is known, the gap to reach, iterations so far and bounds over all groups.
Solve = Callable[[GroupForm, Array | None, float, int, Bounds], Found]


def many(groups: int, samples: int) -> bool:
    """Whether a step with all groups costs more than rounds with some."""
    return groups > max(ALL_UP_TO, TIMES * min(samples, SAMPLES))


def solve_by_groups(problem: MarginProblem, form: GroupForm, tol: float, start: Array | None, solve: Solve) -> Answer:
    """Solve for few groups, then for changed sets, until the gap over all groups is at most `tol`.

    Weights of some groups are weights: their objective is an upper bound. A λ is judged by the pulls ‖Φ̂_hᵀ(λ∘y)‖ of all
    groups. Where some groups do not separate, the λ that says so leads to those that may.
    """
    pulls = Pulls(problem, form)
    lam = pulls.first() if start is None else start
    chosen, dropped = np.zeros(pulls.H, dtype=bool), np.zeros(pulls.H, dtype=bool)
    first = max(FIRST, int(FIRST_SHARE * min(problem.features.n, SAMPLES)))
    chosen[np.argsort(-pulls.of(lam), kind="stable")[:first]] = True
    aim, iterations, bounds = COARSE, 0, Bounds()
    best = Answer(np.zeros(problem.features.shape[1:]), np.zeros(problem.features.n), 0)
    while True:
        found = solve(pulls.form_of(chosen), start, max(aim, tol / 2), iterations, bounds)
        lam, iterations = found.answer.dual, iterations + found.answer.iterations
        sizes = pulls.of(lam)
        lower, reach = proved(problem, lam, float(sizes.max()))
        upper = min(bounds.upper, found.bounds.upper)
        best = Answer(
            found.answer.weights if found.bounds.upper <= upper else best.weights,
            lam if lower > bounds.lower else best.dual,
            iterations,
            found.answer.stopped,
            found.answer.intercept if found.bounds.upper <= upper else best.intercept,
            reason=found.answer.reason,
        )
        bounds = Bounds(max(bounds.lower, lower), upper)
        # How far λ may pull: as far as its groups do, or as its prices let it.
        allowed = max(float(sizes[chosen].max()), reach)
        new = np.flatnonzero(~chosen & (sizes > allowed))
        if found.ended or bounds.gap <= tol or (len(new) == 0 and aim <= tol / 2):
            return best
        idle = chosen & ~dropped & (sizes < IDLE * allowed) & (found.bounds.upper < np.inf)
        dropped |= idle
        chosen &= ~idle
        most = max(first // 2, int(GROWTH * chosen.sum()))
        chosen[new[np.argsort(-sizes[new], kind="stable")[:most]]] = True
        aim, start = (tol / 2 if len(new) == 0 else min(aim, FINER * bounds.gap)), lam


def proved(problem: MarginProblem, lam: Array, pull: float) -> tuple[float, float]:
    """The lower bound of λ, whose dual norm is `pull`, and max_i λ_i/p_i."""
    reach = 0.0 if problem.hard else float((lam / problem.prices).max())
    size = max(pull, reach)
    return (float((problem.required_margin * lam).sum()) / size if size > 0 else 0.0), reach


class Pulls:
    """How the groups of a form pull at a λ: ‖Φ̂_hᵀ(λ∘y)‖, Φ̂ the features of the gate values GT."""

    def __init__(self, problem: MarginProblem, form: GroupForm) -> None:
        self.problem, self.form = problem, form
        labels, self.index = np.unique(form.groups, return_inverse=True)
        self.H, self.features = len(labels), problem.features.mixed(form.expand)

    def of(self, lam: Array) -> Array:
        """‖Φ̂_hᵀ(λ∘y)‖, shape (H,)."""
        rows = length(self.features.adjoint(self.problem.y * lam), axis=1)
        size = float(rows.max()) or 1.0
        return size * np.sqrt(np.bincount(self.index, (rows / size) ** 2, self.H))

    def first(self) -> Array:
        """λ to begin with: samples of equal weight, and classes where the intercept is free."""
        norms, y = self.problem.features.row_norms(), self.problem.y
        lam = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
        return (
            lam / np.where(y > 0, lam[y > 0].sum() or 1.0, lam[y < 0].sum() or 1.0) if self.problem.intercept else lam
        )

    def form_of(self, chosen: np.ndarray) -> GroupForm:
        """The form of some groups."""
        columns = np.flatnonzero(chosen[self.index])
        return GroupForm(self.form.expand[:, columns], self.form.groups[columns])
