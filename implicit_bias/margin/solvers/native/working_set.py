"""Working sets: solve for a few samples, score all, add those that the weights serve worst, drop the idle ones."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from implicit_bias.ground.checks import Array
from implicit_bias.margin.solvers.native.interior_point import Bounds, Outcome, Program, descend, upper_bound
from implicit_bias.margin.solvers.native.newton import Point
from implicit_bias.margin.solvers.native.scaled import ScaledProblem
from implicit_bias.margin.solvers.solution import Status

#: Up to how many samples all stay in, how many start out of more, and how many of a known support at most.
ALL_UP_TO, FIRST, SUPPORTING = 1000, 500, 8000
#: The relative gaps of the rounds, each used until one round could take in every violated sample.
TOLERANCES = (3e-2, 1e-2, 1e-3)
#: The most that a round adds, as a share of the working set.
GROWTH = 0.4
#: A round starts from the last iterate whose gap was this share of the gap over all samples, and at most WARM_GAP.
WARM_SHARE, WARM_GAP = 0.3, 0.1
#: The samples whose earlier λ exceeds this share of the largest are the first working set.
SUPPORT = 1e-5
#: The λ of newcomers, as a share of the mean.
NEWCOMER = 0.1


#: Called with the iterations of earlier rounds, the size of the working set, the bounds over all samples, and those of
#: the present iterate; may return a status to stop with.
WatchAll = Callable[[int, int, Bounds, int, Bounds], Status | None]


def first_rows(scaled: ScaledProblem, dual: Array | None) -> Tensor:
    """The first working set: the support of an earlier λ (n,), else all of few samples, else a seeded draw of many.

    All samples, too, where the features are few.

    Where the intercept is free, it holds samples of both classes.
    """
    n = scaled.n
    rows = np.arange(n)
    if dual is not None and np.count_nonzero(dual > SUPPORT * dual.max()) >= 2:
        most = min(n, SUPPORTING)
        # All of a large support would be too large a matrix: those that carry most of it lead to the others.
        rows = np.sort(np.argpartition(-dual, most - 1)[:most])
        rows = rows[dual[rows] > SUPPORT * dual.max()]
    elif n > ALL_UP_TO and not scaled.at_once:
        rows = np.sort(np.random.default_rng(0).choice(n, FIRST, replace=False))
    if scaled.tilt is not None:
        y = scaled.problem.y
        missing = [np.flatnonzero(y == sign)[:FIRST] for sign in (-1, 1) if not (y[rows] == sign).any()]
        rows = np.concatenate([rows, *missing])
    return scaled.moved(rows)


def solve_in_rounds(scaled: ScaledProblem, tol: float, max_iterations: int, rows: Tensor, watch: WatchAll) -> Outcome:
    """Solve for the samples `rows`, then for changed sets, until the gap over all samples is at most `tol`.

    `watch` is called at every iterate. A sample is dropped at most once, so that the rounds end.
    """
    nothing = scaled.moved(np.zeros(scaled.n))
    best = Outcome(nothing, (nothing, nothing.new_zeros(scaled.H), nothing[:0]))
    dropped = torch.zeros_like(nothing, dtype=torch.bool)
    # Where no sample is left out, only the idle ones have to be found, and one finer round finds them.
    stage = int(len(rows) == scaled.n)
    warm: tuple[Point, Tensor, Tensor] | None = None
    try:
        while True:
            program = scaled.program(rows)
            start = None if warm is None else _carried(program, *warm)
            whole = (scaled.n <= ALL_UP_TO or scaled.at_once) and len(rows) == scaled.n
            last = whole or stage == len(TOLERANCES)
            aim = tol if whole else tol / 2 if last else max(TOLERANCES[stage], tol / 2)
            seen = partial(watch, best.iterations, len(rows), best.bounds)
            outcome = descend(program, aim, max_iterations - best.iterations, start, seen)
            best, f, least = _scored(scaled, program, rows, outcome, best)
            proved = outcome.bounds.upper == float("inf")
            if outcome.stopped or proved or best.bounds.gap <= tol:
                return best
            new, more = _violated(rows, f, least)
            if len(new) == 0 and last:
                return best
            stage = len(TOLERANCES) if len(new) == 0 else min(stage + (not more), len(TOLERANCES))
            # Weights that do not separate even the working set do not tell which samples are idle.
            margin = f[rows] / least - 1 if least > 0 else torch.zeros_like(outcome.lam)
            idle = (outcome.lam < outcome.lam.mean() * margin) & ~dropped[rows]
            dropped[rows[idle]] = True
            near = outcome.iterate(min(WARM_GAP, WARM_SHARE * best.bounds.gap))
            changed = torch.cat([rows[~idle], new])
            lam = torch.full_like(nothing, NEWCOMER * float(near.lam.mean())).index_copy(0, rows, near.lam)[changed]
            u = near.u if scaled.prices is None else torch.full_like(f, torch.nan).index_copy(0, rows, near.u)[changed]
            warm = near, lam, u
            rows = changed
    except KeyboardInterrupt:
        return replace(best, stopped=Status.INTERRUPTED)


def _scored(
    scaled: ScaledProblem, program: Program, rows: Tensor, outcome: Outcome, best: Outcome
) -> tuple[Outcome, Tensor, float]:
    """The best bounds over all samples, all margins (n,), and the margin that the weights ask of a sample."""
    lam, eta, b = outcome.weights
    value = float(eta @ program.kernels.sweep(lam)[0].sqrt())
    f = scaled.margins(rows, lam, eta, b)
    upper = upper_bound(value, f, scaled.prices)[0]
    # What the weights ask of the working set itself: a multiple chosen for all samples would excuse the violated.
    least = upper_bound(value, f[rows], program.prices)[1]
    dual, heavy = (torch.zeros_like(f).index_copy(0, rows, values) for values in (outcome.lam, lam))
    bounds, iterations = Bounds(outcome.bounds.lower, upper), best.iterations + outcome.iterations
    return replace(best.better(dual, (heavy, eta, b), bounds, iterations), stopped=outcome.stopped), f, least


def _violated(rows: Tensor, f: Tensor, least: float) -> tuple[Tensor, bool]:
    """Samples outside the working set with margins below `least`, worst first; whether more than may join."""
    outside = f.clone()
    outside[rows] = float("inf")
    most = max(1, int(GROWTH * len(rows)))
    order = torch.argsort(outside)[: most + 1]
    new = order[outside[order] < least]
    return new[:most], len(new) > most


def _carried(program: Program, near: Point, lam: Tensor, u: Tensor) -> Point:
    """A feasible iterate of `program` with this λ and u, and the η of an iterate for other samples."""
    lam = program.balanced(lam)
    q, P = program.kernels.sweep(lam)
    rho = torch.maximum(near.rho, (1.01 * q.max()).sqrt())
    if program.prices is not None:
        rho = torch.maximum(rho, 1.1 * (lam / program.prices).max())
        u = torch.where(torch.isnan(u), near.complementarity() / (program.prices * rho - lam), u)
    return program.feasible(lam, near.eta, q, P, rho, u, near.nu[1:])
