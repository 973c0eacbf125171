"""Working-set method: solve for a few samples or groups, evaluate all, add the most violated, and repeat."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias._utils.floats import length
from implicit_bias._utils.limits import TooLargeError, check_memory
from implicit_bias._utils.threads import one_thread
from implicit_bias.margin.problem import balanced
from implicit_bias.margin.solution import Status
from implicit_bias.norms import GroupForm
from implicit_bias.solvers.base import Answer
from implicit_bias.solvers.native.algebra import Tensor, filled, free_on_device, library
from implicit_bias.solvers.native.interior_point import Outcome, Point, Program, descend
from implicit_bias.solvers.native.kernels import FEWER
from implicit_bias.solvers.native.loop import Bounds, Incumbent, lower_bound, upper_bound
from implicit_bias.solvers.native.scaled import ScaledProblem, many_bounded
from implicit_bias.solvers.native.settings import Settings

#: Called with the iterations of earlier rounds and of this one, the size of the set, the bounds over all samples, the
#: gap of the current iterate, and its result for all samples if these were checked; may return a status.
WatchAll = Callable[[int, int, int, Bounds, float, Outcome | None], Status | None]


class GrowingSet(ABC):
    """Base class of working sets: the members of a problem that a round solves for, and the best result so far."""

    #: True if the current round has the final tolerance.
    last = False

    @property
    @abstractmethod
    def ended(self) -> bool:
        """True if the gap is closed, or a limit or the memory ends the rounds."""

    @abstractmethod
    def solve(self) -> None:
        """Solve for the members, and update the bounds of the whole problem."""

    @abstractmethod
    def violated(self) -> Any:
        """Return members to add, the most violated first."""

    @abstractmethod
    def update(self, new: Any) -> None:
        """Drop inactive members, add new ones, and choose the tolerance and the start of the next round."""

    def grow(self) -> None:
        """Repeat rounds until nothing outside the set is violated in a round at the final tolerance, or `ended`."""
        while not self.ended:
            self.solve()
            if self.ended:
                return
            new = self.violated()
            if self.last and len(new) == 0:
                return
            self.update(new)


class Support:
    """Working set of samples: the `rows` have a λ_i each; the `bounded` ones share one row, λ_i = λ̄ s_i/Σs.

    The `shares` s (n,) are upper bounds, or λ_i of the screening; None without bounds: then no sample is at its bound.
    Those with True in `left` have left the rows for `bounded`: each may do so only once, so that the rounds end.
    """

    def __init__(self, rows: np.ndarray, bounded: np.ndarray, y: Array, shares: Any = None) -> None:
        self.rows, self.bounded, self.shares = rows, bounded, shares
        self.positive, self.left = y > 0, np.zeros(len(y), dtype=bool)

    @classmethod
    def drawn(cls, y: Array, size: int, shares: Any = None) -> Support:
        """Return a set of `size` rows, drawn at random, and as many of a class that they lack."""
        drawn = np.random.default_rng(0).choice(len(y), min(size, len(y)), replace=False)
        rows = _of_both_classes(np.sort(drawn), y, size)
        return cls(rows, rows[:0], y, shares)

    def shortfall(self, f: Any, least: Any = 1) -> Any:
        """Return by how much samples are violated: `least` − f, for `bounded` ones f − `least`, and −∞ for rows."""
        shortfall = least - f
        shortfall[self.bounded] *= -1
        shortfall[self.rows] = -float("inf")
        return shortfall

    def scattered(self, lam: Any) -> Any:
        """Return λ (n,), given that of the rows and then of the row of `bounded` samples."""
        every = filled(lam, len(self.left), 0.0)
        every[self.rows] = lam[: len(self.rows)]
        if len(self.bounded):
            every[self.bounded] = lam[-1] * (self.shares[self.bounded] / self.shares[self.bounded].sum())
        return every

    def outside(self, f: Any, most: int) -> np.ndarray:
        """Return at most `most` violated samples, worst first."""
        shortfall = self.shortfall(f).astype(np.float64)
        order = np.argsort(-shortfall, kind="stable")[:most]
        return order[shortfall[order] > 0]

    def leaving(self, lam: Any, away: Any, room: Any, drops: Any) -> tuple[Any, Any]:
        """Return masks of inactive rows among those in `drops`, and of rows at their bound that have not `left` before.

        A row is inactive if λ, and at its bound if the `room` p − λ, is small compared with the distance `away` of its
        margin from the required one, as a share. The nearest row of a class stays if all others leave.
        """
        away = lam.mean() * away
        inactive, at_bound = (lam < away) & drops, self.rows < 0
        if room is not None:
            at_bound = (room < -away) & ~self.left[self.rows]
        for side in (self.positive[self.rows], ~self.positive[self.rows]):
            if (inactive | at_bound)[side].all() and side.any():
                nearest = library(away).where(side, abs(away), float("inf")).argmin()
                inactive[nearest] = at_bound[nearest] = False
        return inactive, at_bound

    def renew(self, new: np.ndarray, lam: Any, f: Any, p: Any, drops: bool) -> None:
        """Move rows at their bound p to `bounded`, drop inactive ones if `drops`, and make the samples `new` rows."""
        inactive, at_bound = self.leaving(lam, f[self.rows] - 1, None if p is None else p - lam, drops)
        self.left[self.rows[at_bound]] = True
        self.bounded = np.concatenate([np.setdiff1d(self.bounded, new), self.rows[at_bound]])
        self.rows = np.concatenate([self.rows[~inactive & ~at_bound], new])


def _of_both_classes(rows: np.ndarray, y: Array, most: int) -> np.ndarray:
    """Return `rows` and, of a class that they lack, the first samples, at most `most`."""
    lacking = [sign for sign in (-1, 1) if not (y[rows] == sign).any()]
    return np.concatenate([rows, *(np.flatnonzero(y == sign)[:most] for sign in lacking)])


class SampleSet(GrowingSet, Support):
    """Working set of samples of `scaled`.

    If `known`, the result of the screening, has weights, these determine the first set. Otherwise it is the support of
    an earlier λ (n,) in `dual`; without one, all samples if they or the features are few, else a seeded random draw.
    After the screening of `sparse_groups` with a soft margin, rounds solve for the `groups` with weights, in `part`;
    others join if their dual norms are violated.
    If the solve is `limited`, iterates are checked over all samples from time to time, and a round that the limit ends
    leaves the weights of its last check: those of the last iterate might be worse.
    """

    def __init__(
        self,
        scaled: ScaledProblem,
        dual: Array | None,
        known: Outcome,
        tol: float,
        most: int,
        watch: WatchAll,
        limited: bool = False,
    ) -> None:
        self.scaled, self.settings, self.best = scaled, scaled.settings, known
        self.tol, self.most, self.watch, self.limited = tol, most, watch, limited
        self.screened = bool(known.weights[0].any()) and not known.rough
        self.positive, self.left = scaled.positive, scaled.positive & False
        self.part, self.groups = scaled, np.arange(scaled.H)
        self.missing = self.groups[:0]
        self.shares = scaled.box
        if self.screened and scaled.sparse_groups and scaled.box is not None:
            self.groups = np.flatnonzero(known.weights[1])
            self.part = scaled.of_groups(self.groups)
        self.rows, self.bounded = self._screened() if self.screened else self._first(dual)
        self.stage, self.failed = int(len(self.rows) == scaled.n), False
        self.program: Program | None = None
        self.start: Point | None = None
        #: Multiplications since the last check. Without any bounds the first iterate is checked.
        self.work = 0.0 if known.bounds.upper < np.inf else np.inf
        if self.screened and known.bounds.gap < 1:
            # After screening only few samples are missing, and one finer round finds them.
            few = len(self.rows) <= self.settings.least_samples + 2 * self.settings.nearest
            self.stage = len(self.settings.round_gaps) - (not few)

    @property
    def ended(self) -> bool:
        best = self.best
        return self.failed or best.stopped is not None or bool(best.reason) or best.bounds.gap <= self.tol

    def run(self, strict: bool) -> Outcome:
        """Repeat rounds; return the best result, also without memory, unless this is the first round and `strict`."""
        try:
            self.grow()
        except TooLargeError as error:
            if strict and self.program is None:
                raise
            return replace(self.best, reason=str(error))
        return self.best

    def _first(self, dual: Array | None) -> tuple[Tensor, Tensor]:
        scaled, settings, n = self.scaled, self.settings, self.scaled.n
        rows = np.arange(n)
        if dual is not None and np.count_nonzero(dual > settings.support * dual.max()) >= 2:
            # A large support would be too large a matrix: the samples with the largest λ find the others.
            most = min(n, settings.known_support_up_to)
            rows = np.sort(np.argpartition(-dual, most - 1)[:most])
            rows = rows[dual[rows] > settings.support * dual.max()]
        elif not (scaled.few or scaled.few_features):
            rows = np.sort(np.random.default_rng(0).choice(n, min(settings.first_samples, n), replace=False))
        if scaled.intercept_column is not None:
            rows = _of_both_classes(rows, scaled.problem.y, settings.first_samples)
        return scaled.to_device(rows), scaled.to_device(rows[:0])

    def _screened(self) -> tuple[Tensor, Tensor]:
        """Return the first `rows`, with free λ or near the margin, and `bounded` samples, below the margin.

        If few samples are at their bound, `bounded` is empty, unless rows would exceed `known_support_up_to`.
        """
        scaled, settings, known = self.scaled, self.settings, self.best
        lam, eta, b = known.weights
        V = scaled.adjoint(lam)
        f, many = scaled.margins(V, eta, b), many_bounded(lam, scaled.box, settings)
        least = upper_bound(float(eta @ scaled.squares(V) ** 0.5), f, scaled.box)[1] if many else 1.0
        xp, away = library(f), library(f).nan_to_num(f / least - 1, nan=0.0)
        low = away < 0
        # A step with few samples takes no less time if those at their bound are one row.
        many = many and int(((lam > 0) | low).sum()) > settings.least_samples
        if many:
            # If weights are nearly zero, far more samples may be near the margin than have free λ.
            near, at_bound = abs(away) <= known.bounds.gap, lam == scaled.box
            between = (lam > 0) & ~(at_bound & (near | low))
            low = xp.where(near, at_bound, low)
            size = int(between.sum())
            excess = size - max(settings.least_samples, self.part.columns)
            if scaled.sparse_groups and excess > 0:
                # Some optimal λ has at most as many free entries as columns. Others keep their λ, in the last row.
                room = np.where(between & near, np.minimum(lam, scaled.box - lam), np.inf)
                kept = (room < np.inf) & (room.argsort().argsort() < excess)
                between, low, self.shares = between & ~kept, low | kept, np.where(kept, lam, scaled.box)
            else:
                order = xp.where(near & ~between, abs(away), np.inf).argsort()[: max(settings.least_samples, size)]
                between[order] |= near[order]
        else:
            between = (lam > 0) | low
            between[away.argsort()[: settings.least_samples]] = True
        narrow = scaled.sparse_groups and self.part.by_features(int(between.sum()))
        most = scaled.n if scaled.box is None or narrow else settings.known_support_up_to
        surplus = xp.where(between, abs(away), np.inf).argsort()[most:]
        joined = many or bool(between[surplus].any())
        between[surplus] = False
        for side in (scaled.positive, ~scaled.positive):
            members = xp.where(side)[0]
            between[members[abs(away[members]).argsort()[: settings.nearest]]] = True
        rows, others = (xp.where(part)[0] for part in (between, ~between & low))
        return rows, others if joined else others[:0]

    def solve(self) -> None:
        scaled, settings, gaps = self.scaled, self.settings, self.settings.round_gaps
        size = len(self.rows)
        what, free = f"a step of {size} samples in {self.part.H} groups", free_on_device(scaled.device)
        check_memory(self.part.bytes_needed(size), what, FEWER, free)
        whole = (scaled.few or scaled.few_features) and size == scaled.n
        final, rough = self.tol if whole else self.tol / 2, 0.0 if whole else [*gaps, 0.0][self.stage]
        if self.part is not scaled:
            # Other groups and samples move this solution: a finer one would be wasted.
            rough = settings.group_gap_share * self.best.bounds.gap
        self.aim, self.last = max(final, rough), final >= rough
        with one_thread() if size < settings.threads_from else nullcontext():
            if self.program is None:
                self.program = self.part.program(self.rows, self.bounded, self.shares)
                if self.screened and self.best.bounds.gap < 1:
                    self.start = self._warm_start(self.program)
            most, self.checked = self.most - self.best.iterations, self.best
            self.outcome = descend(self.program, self.aim, most, self.start, self._seen)
            ended, whole = self.outcome.stopped in (None, Status.INTERRUPTED), size == scaled.n
            evaluated = self._evaluated(self.outcome) if ended or whole or not self.limited else self.checked
        iterations = self.best.iterations + self.outcome.iterations
        bounds = Bounds(self._lower(self.outcome), evaluated.bounds.upper)
        # A round that misses its aim would miss it again: it is the last one unless members are added.
        self.last = (self.last or self.outcome.bounds.gap > self.aim) and len(self.missing) == 0
        best = self.checked.better(self.scattered(self.outcome.lam), evaluated.weights, bounds, iterations)
        self.best = replace(best, stopped=self.outcome.stopped, reason=self.outcome.reason)
        self.failed = self.outcome.bounds.upper == float("inf")

    def _seen(self, iteration: int, inner: Outcome) -> Status | None:
        """Call `watch`; if steps have taken longer than a check, first check the best weights over all samples."""
        size, features, checked = len(self.rows), self.scaled.problem.features, None
        self.work += self.part.step_work(size)
        width = max(self.scaled.columns, features.k * features.d)
        if self.limited and self.work >= self.settings.check_after * self.scaled.n * width:
            checked, self.work = self._evaluated(inner), 0.0
            self.checked = self.checked.better(checked.lam, checked.weights, checked.bounds, iteration)
        known, inside = self.checked.bounds, inner.bounds.lower if self.part is self.scaled else 0.0
        upper = inner.bounds.upper if size == self.scaled.n else known.upper
        bounds = Bounds(max(known.lower, inside), upper)
        return self.watch(self.best.iterations, iteration, size, bounds, inner.bounds.gap, checked)

    def _lower(self, outcome: Outcome) -> float:
        """Return the lower bound of λ; set `missing`, groups whose norms violate it, and `next`, which nearly do."""
        if self.part is self.scaled:
            return outcome.bounds.lower
        lam = self.scattered(outcome.lam)
        lam = lam if self.scaled.intercept_column is None else balanced(lam, self.scaled.intercept_column)
        sizes = self.scaled.squares(self.scaled.adjoint(lam)) ** 0.5
        allowed = max(float(sizes[self.groups].max()), float((lam / self.scaled.box).max()))
        self.next = np.flatnonzero(sizes > self.settings.inactive_group * allowed)
        self.missing = np.setdiff1d(np.flatnonzero(sizes > allowed), self.groups)
        return float(lam.sum()) / max(float(sizes.max()), allowed)

    def _evaluated(self, outcome: Outcome) -> Outcome:
        """Return a result of the round for all samples, and set their margins `f` (n,) and the set's `least`."""
        assert self.program is not None
        (lam, eta, b), scaled, program = outcome.weights, self.scaled, self.program
        q, P = program.kernels.sweep(lam)
        value, every, whole_eta = float(eta @ q**0.5), self.scattered(lam), filled(eta, scaled.H, 0.0)
        whole_eta[self.groups] = eta
        margins = program.with_intercept(P @ eta, b)
        whole = len(self.rows) == scaled.n
        self.f = self.scattered(margins) if whole else scaled.margins(scaled.adjoint(every), whole_eta, b)
        # The margin that the working set itself requires: a multiple chosen for all samples would excuse violated ones.
        self.least = upper_bound(value, margins, program.box)[1]
        bounds = Bounds(self._lower(outcome), upper_bound(value, self.f, scaled.box)[0])
        return replace(outcome, lam=self.scattered(outcome.lam), weights=(every, whole_eta, b), bounds=bounds)

    def violated(self) -> Tensor:
        """Return samples that violate `least`, worst first, then, if there are any, samples that nearly do.

        The share `growth` of the set limits their number, and `more` is True if violated samples are left.
        """
        shortfall, settings = self.shortfall(self.f, self.least), self.settings
        most = max(settings.least_samples - len(self.rows), int(settings.growth * len(self.rows)))
        if self.shares is not self.scaled.box:
            new = self._costly()
            self.more = len(new) > most
            return new[:most]
        order = (-shortfall).argsort()[: most + 1]
        wrong = int((shortfall[order] > 0).sum())
        self.more = wrong > most
        new = order[shortfall[order] > -settings.near * max(self.least, 0.0)] if wrong else order[:0]
        return new[:most]

    def _costly(self) -> Tensor:
        """Return samples, drawn by their costs, without which the gap of all others is at most half the aim.

        The gap of a sample with margin f_i is λ_i (f_i − 1)₊ + (p_i − λ_i)(1 − f_i)₊.
        """
        box, lam, away = self.scaled.box, self.scattered(self.outcome.lam), self.f / self.least - 1
        lam = lam * (self.outcome.bounds.lower / lam.sum())
        cost = lam * away.clip(0) + (box - lam) * (-away).clip(0)
        cost[self.rows] = 0
        order = cost.argsort()
        new = order[cost[order].cumsum() > self.aim / 2 * self.best.bounds.upper]
        # The costliest alone would often be alike.
        return new[(-(cost[new] ** 0.5) * np.random.default_rng(0).exponential(size=len(new))).argsort()]

    def update(self, new: Tensor) -> None:
        assert self.program is not None
        scaled, settings, gaps = self.scaled, self.settings, self.settings.round_gaps
        self.stage = len(gaps) if len(new) == 0 else min(self.stage + (not self.more), len(gaps))
        inactive = at_bound = self.rows < 0
        if self.least > 0 and len(self.rows) + len(new) > settings.least_samples:
            row_lam, box = self.outcome.lam[: len(self.rows)], self.program.box
            rho = self.outcome.lam.sum() / self.outcome.bounds.lower
            room = None if box is None else box[: len(row_lam)] * rho - row_lam
            # At a small gap, fewer rows would save less than the rounds that bring some of them back.
            drops = ~self.left[self.rows] & bool(self.aim > gaps[-1] or len(self.bounded))
            inactive, at_bound = self.leaving(row_lam, self.f[self.rows] / self.least - 1, room, drops)
        self.left[self.rows[inactive | at_bound]] = True
        far = max(settings.warm_least, settings.warm_share * self.best.bounds.gap)
        near = self.outcome.iterate(min(settings.warm_gap, far))
        xp, m, old, box = library(new), len(self.rows), self.rows, scaled.box
        kept = self.bounded[~xp.isin(self.bounded, new)]
        lam, u = self.scattered(near.lam), near.split(near.second)[2]
        rows = xp.hstack([old[~inactive & ~at_bound], new])
        bounded = xp.hstack([kept, old[at_bound]])
        little = settings.newcomer * near.lam[:m].mean()
        if box is not None:
            little = xp.clip(box[rows] * near.rho / 2, None, little)
        lam[rows] = xp.where(lam[rows] > 0, lam[rows], little)
        new_lam = xp.hstack([lam[rows], lam[bounded].sum()]) if len(bounded) else lam[rows]
        if box is not None:
            every = filled(u, scaled.n, np.nan)
            every[old], every[kept] = u[:m], u[-1]
            if self.shares is not box:
                self.shares[old[at_bound]] = box[old[at_bound]]
            joined = [every[bounded] @ self.shares[bounded] / self.shares[bounded].sum()] if len(bounded) else []
            u = xp.hstack([every[rows], *joined])
        eta = filled(near.eta, scaled.H, settings.entering_eta * float(near.eta.max()))
        eta[self.groups] = near.eta
        if self.part is not scaled:
            self.groups = np.union1d(self.groups, self.next)
            self.part = scaled.of_groups(self.groups)
        self.rows, self.bounded, self.program = rows, bounded, self.part.program(rows, bounded, self.shares)
        # Partial factors are small far from the boundary: a cold start takes no longer, and is safer.
        cold = scaled.uses_partial(len(rows)) and len(bounded) == 0
        self.start = None if cold else _restart(self.program, near, eta[self.groups], new_lam, u)

    def _warm_start(self, program: Program) -> Point:
        """Return a feasible iterate near the best weights, with every λ at some distance from 0."""
        (lam, eta, b), xp = self.best.weights, library(self.rows)
        row_lam, little = lam[self.rows], self.settings.newcomer * lam[self.rows].mean()
        row_lam = xp.hstack([row_lam, lam[self.bounded].sum()]) if len(self.bounded) else row_lam
        row_lam = xp.clip(row_lam, little, None)
        lam = program.normalised(row_lam)
        q, P = program.kernels.sweep(lam)
        rho, u = (1.01 * q.max()) ** 0.5, lam[:0]
        if program.box is not None:
            rho = xp.maximum(rho, 1.1 * (lam / program.box).max())
            u = self.best.bounds.gap * rho / (len(lam) * (program.box * rho - lam))
        # A screening may have skipped groups.
        eta = xp.clip(eta[self.groups], self.settings.least_eta * eta.max(), None)
        # The weights of the program are those of margins of 1, divided by their objective.
        return program.feasible(lam, eta, q, P, rho, u, b / self.best.bounds.upper)


def _restart(program: Program, near: Point, eta: Tensor, lam: Tensor, u: Tensor) -> Point:
    """Return a feasible iterate of `program` with these η, λ and u, close to `near`, one for other samples."""
    feasible_lam, xp = program.normalised(lam), library(lam)
    q, P = program.kernels.sweep(feasible_lam)
    # λ and ρ are scaled alike, so that the distance of λ from its upper bounds is kept.
    rho = xp.maximum(near.rho * (feasible_lam / lam).max(), (1.01 * q.max()) ** 0.5)
    if program.box is not None:
        u = xp.where(xp.isnan(u), near.complementarity() / (program.box * rho - feasible_lam), u)
    return program.feasible(feasible_lam, eta, q, P, rho, u, near.nu[1:])


#: Solves for some groups; the bounds hold for these alone.
#: Arguments: a form of them, a known λ, the gap to reach, iterations so far, and bounds over all groups.
Solve = Callable[[GroupForm, Array | None, float, int, Bounds], tuple[Answer, Bounds]]


class GroupSet(GrowingSet):
    """Working set of groups, chosen by the dual norms ‖Φ̂_hᵀ(λ∘y)‖, Φ̂ the features of the gate values GT.

    Weights of its members give an upper bound; a lower bound needs the dual norms of all. If the members do not
    separate the samples, the λ that proves this has positive dual norms for groups that help to separate them.
    """

    def __init__(
        self, incumbent: Incumbent, form: GroupForm, tol: float, start: Array | None, solve: Solve, settings: Settings
    ) -> None:
        self.incumbent, self.problem, self.tol = incumbent, incumbent.problem, tol
        # A start may be of a problem without an intercept, whose λ proves no bound here.
        self.start = balanced(start, self.problem.y) if start is not None and self.problem.intercept else start
        self.solve_form, self.settings = solve, settings
        self.iterations, self.rounds, self.stopped = 0, 0, False
        self.whole, self.features = form, self.problem.features.mixed(form.expand)
        self.index, self.H, self.aim = form.index, form.count, settings.group_gap
        share = settings.first_groups_share * min(self.problem.features.n, settings.counted_samples)
        self.first = max(settings.first_groups, int(share))
        self.chosen, self.dropped = np.zeros(self.H, dtype=bool), np.zeros(self.H, dtype=bool)
        sizes = self._dual_norms(incumbent.even() if self.start is None else self.start)
        self.chosen[np.argsort(-sizes, kind="stable")[: self.first]] = True

    @property
    def ended(self) -> bool:
        return self.stopped or self.incumbent.bounds.gap <= self.tol or self.rounds >= self.settings.rounds

    def run(self) -> Answer:
        self.grow()
        return self.incumbent.answer(self.iterations, self.answer.stopped, self.answer.reason)

    def solve(self) -> None:
        """Solve for the chosen groups; offer the result, and set `allowed`, above which a dual norm is violated."""
        self.last = self.aim <= self.tol / 2
        aim, columns = max(self.aim, self.tol / 2), np.flatnonzero(self.chosen[self.index])
        form = GroupForm(self.whole.expand[:, columns], self.whole.groups[columns])
        answer, bounds = self.solve_form(form, self.start, aim, self.iterations, self.incumbent.bounds)
        self.separated, self.answer = bounds.upper < np.inf, answer
        self.iterations, self.rounds = self.iterations + answer.iterations, self.rounds + 1
        if answer.stopped not in (None, Status.INTERRUPTED):
            # The upper bound only improves with the iterations; the next λ might be worse for the other groups.
            self.incumbent.offer(answer, Bounds(0.0, bounds.upper), checked=False)
            self.stopped = True
            return
        self.sizes = self._dual_norms(answer.dual)
        lower, reach = lower_bound(self.problem, answer.dual, float(self.sizes.max()))
        self.allowed = max(float(self.sizes[self.chosen].max()), reach)
        self.incumbent.offer(answer, Bounds(lower, bounds.upper))
        self.stopped = answer.stopped is not None or bool(answer.reason)
        self.start = answer.dual

    def _dual_norms(self, lam: Array) -> Array:
        rows = length(self.features.adjoint(self.problem.y * lam), axis=1)
        size = float(rows.max()) or 1.0
        return size * np.sqrt(np.bincount(self.index, (rows / size) ** 2, self.H))

    def violated(self) -> np.ndarray:
        new = np.flatnonzero(~self.chosen & (self.sizes > self.allowed))
        return new[np.argsort(-self.sizes[new], kind="stable")]

    def update(self, new: np.ndarray) -> None:
        settings = self.settings
        # The largest group stays, even if all weights are 0.
        small = self.sizes < min(settings.inactive_group * self.allowed, self.sizes[self.chosen].max())
        inactive = self.chosen & ~self.dropped & small & self.separated
        self.dropped |= inactive
        self.chosen &= ~inactive
        self.chosen[new[: max(self.first // 2, int(settings.group_growth * self.chosen.sum()))]] = True
        self.aim = min(self.aim, settings.group_gap_share * self.incumbent.bounds.gap) if len(new) else self.tol / 2
