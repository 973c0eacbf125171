"""Working sets: solve for few samples, score all, add those served worst, drop the idle, join the priced in one row."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias._utils.memory import TooLargeError
from implicit_bias._utils.threads import one_thread
from implicit_bias.margin.solution import Status
from implicit_bias.solvers.native.arrays import Tensor, filled, library
from implicit_bias.solvers.native.coordinate_ascent import many_priced
from implicit_bias.solvers.native.interior_point import Bounds, Outcome, Program, descend, upper_bound
from implicit_bias.solvers.native.newton import Point
from implicit_bias.solvers.native.scaled import ScaledProblem

#: Up to how many samples all stay in, how many start out of more, and how many of a known support at most.
ALL_UP_TO, FIRST, SUPPORTING = 1000, 500, 8000
#: Working sets from this size are worth all of BLAS's threads; below, threads wait more than they work.
MANY_SAMPLES = 1000
#: The relative gaps of the rounds, each used until one round could take in every violated sample.
TOLERANCES = (3e-2, 1e-2, 1e-3)
#: Where samples are violated, those join them whose margins are within this share of what is asked.
NEAR = 0.03
#: The most that a round adds, as a share of the working set, or until it is of FEW.
GROWTH = 0.4
#: A round starts from the last iterate whose gap was this share of the gap over all samples, and at most WARM_GAP.
WARM_SHARE, WARM_GAP = 0.3, 0.1
#: The samples whose earlier λ exceeds this share of the largest are the first working set.
SUPPORT = 1e-5
#: The λ of newcomers, as a share of the mean.
NEWCOMER = 0.01
#: Samples of each class that are solved for one by one after a sorting, whatever their λ.
NEAREST = 10
#: So few samples at least are solved for at once, to the end: steps with fewer take no less time.
FEW = 250

#: Called with the iterations of earlier rounds, the size of the working set, the bounds over all samples, and those of
#: the present iterate; may return a status to stop with.
WatchAll = Callable[[int, int, Bounds, int, Bounds], Status | None]


@dataclass(frozen=True)
class WorkingSet:
    """The samples `rows`, solved for one by one, and the `priced` ones, which are one row: λ_i = λ̄ p_i/Σp."""

    scaled: ScaledProblem
    rows: Tensor
    priced: Tensor

    @cached_property
    def program(self) -> Program:
        """The problem of these samples."""
        return self.scaled.program(self.rows, self.priced)

    def spread(self, lam: Tensor) -> Tensor:
        """The λ (n,) of all samples from the program's."""
        every = filled(lam, self.scaled.n, 0.0)
        every[self.rows] = lam[: len(self.rows)]
        if self.scaled.prices is not None and len(self.priced):
            prices = self.scaled.prices[self.priced]
            every[self.priced] = lam[-1] * (prices / prices.sum())
        return every

    def done(self, found: Outcome, f: Tensor, least: float) -> tuple[Tensor, Tensor]:
        """Which rows are idle, and which at their price: λ, or what it lacks, is small against how far the margin is.

        Never a whole class. Weights that do not separate even the working set do not tell.
        """
        if least <= 0:
            return self.rows < 0, self.rows < 0
        own, prices = found.lam[: len(self.rows)], self.program.prices
        away = own.mean() * (f[self.rows] / least - 1)
        idle, paid = own < away, self.rows < 0
        if prices is not None:
            rho = found.lam.sum() / found.bounds.lower
            paid = (prices * rho - found.lam)[: len(self.rows)] < -away
        for side in (self.scaled.positive[self.rows], ~self.scaled.positive[self.rows]):
            if (idle | paid)[side].all():
                idle, paid = idle & ~side, paid & ~side
        return idle, paid

    def violated(self, f: Tensor, least: float) -> tuple[Tensor, bool]:
        """Idle samples with margins below `least` and priced ones above, worst first; whether more than may join.

        If there are any, those that are NEAR to being so follow them.
        """
        beyond = least - f
        beyond[self.priced] *= -1
        beyond[self.rows] = -float("inf")
        most = max(FEW - len(self.rows), int(GROWTH * len(self.rows)))
        order = (-beyond).argsort()[: most + 1]
        wrong = int((beyond[order] > 0).sum())
        new = order[beyond[order] > -NEAR * max(least, 0.0)] if wrong else order[:0]
        return new[:most], wrong > most

    def changed(self, idle: Tensor, paid: Tensor, new: Tensor, near: Point) -> tuple[WorkingSet, Point]:
        """Without the idle rows, with those at their price among the priced, and with new ones; and where to start."""
        xp = library(new)
        kept = self.priced[~xp.isin(self.priced, new)]
        rows, priced = xp.hstack([self.rows[~idle & ~paid], new]), xp.hstack([kept, self.rows[paid]])
        changed, m = replace(self, rows=rows, priced=priced), len(self.rows)
        lam, u = self.spread(near.lam), near.u
        little = NEWCOMER * near.lam[:m].mean()
        if self.scaled.prices is not None:
            little = xp.clip(self.scaled.prices[rows] * near.rho / 2, None, little)
        lam[rows] = xp.where(lam[rows] > 0, lam[rows], little)
        own = xp.hstack([lam[rows], lam[priced].sum()]) if len(priced) else lam[rows]
        if self.scaled.prices is not None:
            every = filled(u, self.scaled.n, np.nan)
            every[self.rows], every[kept] = u[:m], u[-1]
            prices = self.scaled.prices[priced]
            joined = [every[priced] @ prices / prices.sum()] if len(priced) else []
            u = xp.hstack([every[rows], *joined])
        return changed, _carried(changed.program, near, own, u)


def few(scaled: ScaledProblem) -> bool:
    """Whether the samples are so few that none is left out."""
    return scaled.n <= ALL_UP_TO


def at_once(scaled: ScaledProblem) -> bool:
    """Whether all samples can be solved for together."""
    return few(scaled) or scaled.few_features


def first_set(scaled: ScaledProblem, dual: Array | None, known: Outcome) -> WorkingSet:
    """The first working set: as `known` weights sort the samples, if there are any.

    Else it is the support of an earlier λ (n,), else all of few samples or where the features are few, else a seeded
    draw of many. Where the intercept is free, it holds samples of both classes.
    """
    if known.weights[0].any():
        return _sorted(scaled, known)
    n = scaled.n
    rows = np.arange(n)
    if dual is not None and np.count_nonzero(dual > SUPPORT * dual.max()) >= 2:
        most = min(n, SUPPORTING)
        # All of a large support would be too large a matrix: those that carry most of it lead to the others.
        rows = np.sort(np.argpartition(-dual, most - 1)[:most])
        rows = rows[dual[rows] > SUPPORT * dual.max()]
    elif not at_once(scaled):
        rows = np.sort(np.random.default_rng(0).choice(n, FIRST, replace=False))
    if scaled.tilt is not None:
        y = scaled.problem.y
        missing = [np.flatnonzero(y == sign)[:FIRST] for sign in (-1, 1) if not (y[rows] == sign).any()]
        rows = np.concatenate([rows, *missing])
    return WorkingSet(scaled, scaled.moved(rows), scaled.moved(rows[:0]))


def _sorted(scaled: ScaledProblem, known: Outcome) -> WorkingSet:
    """One by one: samples whose λ is between its bounds, and those next to the margin; priced: lower margins.

    Next to the margin may be far more than carry the weights, where these are next to zero: then only the nearest are
    solved for, the others stay at the bound where they are. Where few are at their price, nobody is priced, and all
    that carry the weights or violate them are solved for; if they can be priced, at most SUPPORTING.
    """
    lam, eta, b = known.weights
    V = scaled.together(lam)
    f = scaled.margins(V, eta, b)
    priced = many_priced(lam, scaled.prices)
    least = upper_bound(float(eta @ scaled.squares(V) ** 0.5), f, scaled.prices)[1] if priced else 1.0
    xp, away = library(f), library(f).nan_to_num(f / least - 1, nan=0.0)
    low = away < 0
    if priced:
        near, paid = abs(away) <= known.bounds.gap, lam == scaled.prices
        between = (lam > 0) & ~(paid & (near | low))
        low = xp.where(near, paid, low)
        order = xp.where(near & ~between, abs(away), np.inf).argsort()[: max(FEW, int(between.sum()))]
        between[order] |= near[order]
    else:
        between = (lam > 0) | low
        between[away.argsort()[:FEW]] = True
    most = scaled.n if scaled.prices is None else SUPPORTING
    beyond = xp.where(between, abs(away), np.inf).argsort()[most:]
    joined = priced or bool(between[beyond].any())
    between[beyond] = False
    for side in (scaled.positive, ~scaled.positive):
        own = xp.where(side)[0]
        between[own[abs(away[own]).argsort()[:NEAREST]]] = True
    rows, others = (xp.where(part)[0] for part in (between, ~between & low))
    return WorkingSet(scaled, rows, others if joined else others[:0])


def solve_in_rounds(chosen: WorkingSet, tol: float, max_iterations: int, best: Outcome, watch: WatchAll) -> Outcome:
    """Solve for the first working set, then for changed ones, until the gap over all samples is at most `tol`.

    `best` is what is known. `watch` is called at every iterate. A sample leaves the rows at most once, so that the
    rounds end; a set that the memory has no room for ends them, too.
    """
    scaled = chosen.scaled
    left = scaled.positive & False
    stage = int(len(chosen.rows) == scaled.n)
    if best.bounds.gap < 1:
        # Where samples are sorted only few have to be found, and one finer round finds them.
        stage = len(TOLERANCES) - (len(chosen.rows) > FEW + 2 * NEAREST)
    leads = best.bounds.gap < 1 and len(chosen.priced) == 0
    start = _led(chosen, best) if leads else None
    try:
        while not (best.stopped or best.reason or best.bounds.gap <= tol):
            scaled.check_room(len(chosen.rows))
            whole = at_once(scaled) and len(chosen.rows) == scaled.n
            last = whole or stage == len(TOLERANCES)
            aim = tol if whole else tol / 2 if last else max(TOLERANCES[stage], tol / 2)
            seen = partial(watch, best.iterations, len(chosen.rows), best.bounds)
            with one_thread() if len(chosen.rows) < MANY_SAMPLES else nullcontext():
                outcome = descend(chosen.program, aim, max_iterations - best.iterations, start, seen)
                best, f, least = _scored(chosen, outcome, best)
            new, more = chosen.violated(f, least)
            if outcome.bounds.upper == float("inf") or (len(new) == 0 and last):
                return best
            stage = len(TOLERANCES) if len(new) == 0 else min(stage + (not more), len(TOLERANCES))
            idle, paid = (rows & ~left[chosen.rows] for rows in chosen.done(outcome, f, least))
            if aim <= TOLERANCES[-1] and len(chosen.priced) == 0:
                # Fewer rows would save less than the rounds that bring some of them back.
                idle = idle & False
            left[chosen.rows[idle | paid]] = True
            near = outcome.iterate(min(WARM_GAP, WARM_SHARE * best.bounds.gap))
            chosen, start = chosen.changed(idle, paid, new, near)
            if scaled.partial(len(chosen.rows)) and len(chosen.priced) == 0:
                # Partial factors are small far from the boundary: from the start anew takes no longer, and is safer.
                start = None
    except KeyboardInterrupt:
        return replace(best, stopped=Status.INTERRUPTED)
    except TooLargeError as error:
        return replace(best, reason=str(error))
    return best


def _scored(chosen: WorkingSet, outcome: Outcome, best: Outcome) -> tuple[Outcome, Tensor, float]:
    """The best bounds over all samples, all margins (n,), and the margin that the weights ask of a sample."""
    (lam, eta, b), program, scaled = outcome.weights, chosen.program, chosen.scaled
    q, P = program.kernels.sweep(lam)
    value, heavy = float(eta @ q**0.5), chosen.spread(lam)
    f = scaled.margins(scaled.together(heavy), eta, b)
    upper = upper_bound(value, f, scaled.prices)[0]
    # What the weights ask of the working set itself: a multiple chosen for all samples would excuse the violated.
    least = upper_bound(value, P @ eta + program.equalities[:, 1:] @ b, program.prices)[1]
    bounds, iterations = Bounds(outcome.bounds.lower, upper), best.iterations + outcome.iterations
    found = best.better(chosen.spread(outcome.lam), (heavy, eta, b), bounds, iterations)
    return replace(found, stopped=outcome.stopped, reason=outcome.reason), f, least


def _led(chosen: WorkingSet, known: Outcome) -> Point:
    """A feasible iterate near `known` weights, every λ at some distance from 0."""
    (lam, eta, b), program = known.weights, chosen.program
    xp = library(lam)
    own = xp.clip(lam[chosen.rows], NEWCOMER * lam[chosen.rows].mean(), None)
    lam = program.balanced(own)
    q, P = program.kernels.sweep(lam)
    rho, u = (1.01 * q.max()) ** 0.5, lam[:0]
    if program.prices is not None:
        rho = xp.maximum(rho, 1.1 * (lam / program.prices).max())
        u = known.bounds.gap * rho / (len(lam) * (program.prices * rho - lam))
    return program.feasible(lam, eta, q, P, rho, u, b / (own.sum() * rho))


def _carried(program: Program, near: Point, lam: Tensor, u: Tensor) -> Point:
    """A feasible iterate of `program` with this λ and u, and the η of an iterate for other samples.

    λ and ρ are scaled alike, so that λ stays below its prices by as much as it was.
    """
    own = program.balanced(lam)
    q, P = program.kernels.sweep(own)
    xp = library(own)
    rho = xp.maximum(near.rho * (own / lam).max(), (1.01 * q.max()) ** 0.5)
    if program.prices is not None:
        u = xp.where(xp.isnan(u), near.complementarity() / (program.prices * rho - own), u)
    return program.feasible(own, near.eta, q, P, rho, u, near.nu[1:])
