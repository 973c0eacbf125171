"""Working sets: solve for few samples, look at all, add those that the weights serve worst, drop the idle ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from implicit_bias.solvers.conic.interior_point import Bounds, descend
from implicit_bias.solvers.conic.newton import Point
from implicit_bias.solvers.conic.samples import Samples
from implicit_bias.solvers.solution import Status

#: Samples up to which all are taken at once, and how many a working set starts with.
ALL_UP_TO, FIRST = 1000, 2000
#: The relative gaps of the first rounds; the last rounds take half of what is asked.
TOLERANCES = (3e-2, 1e-2, 1e-3)
#: The most that a round adds, as a share of the working set.
GROWTH = 0.4


@dataclass(frozen=True)
class Found:
    """The best λ (n,), the (λ, η) of the best weights, the bounds over all samples, and why it stopped early."""

    lam: Tensor
    weights: tuple[Tensor, Tensor]
    bounds: Bounds
    iterations: int
    stopped: Status | None


def solve_in_rounds(
    samples: Samples,
    tol: float,
    max_iterations: int,
    first: Tensor,
    watch: Callable[[int, int, Bounds, Bounds], Status | None],
) -> Found:
    """Solve for the samples `first`, then for larger sets, until the gap over all samples is at most `tol`.

    `watch(iteration, working set, its bounds, bounds over all samples)` is called at every iterate.
    """
    n, rows, dropped = samples.n, first, torch.zeros(samples.n, dtype=torch.bool, device=first.device)
    lam0 = samples.signs.new_zeros(n)
    best = Found(lam0, (lam0, samples.share.new_zeros(samples.share.shape[1])), Bounds(), 0, None)
    warm: Point | None = None
    for turn in itertools.count():
        program = samples.program(rows)
        everything = len(rows) == n
        aim = tol / 2 if everything or turn >= len(TOLERANCES) else max(TOLERANCES[turn], tol / 2)

        def seen(inner: Bounds) -> Status | None:
            nonlocal count
            count += 1
            return watch(best.iterations + count, len(rows), inner, best.bounds)

        count = -1
        outcome = descend(program, aim, max_iterations - best.iterations, warm, seen)
        lam, (lam_w, eta) = lam0.index_copy(0, rows, outcome.lam), outcome.weights
        value = float(eta @ program.kernels.sweep(lam_w)[0].sqrt())
        f = samples.margins(program.kernels, lam_w, eta)
        upper, asked = samples.upper_bound(value, f)
        better = upper < best.bounds.upper
        best = Found(
            lam if outcome.bounds.lower > best.bounds.lower else best.lam,
            (lam0.index_copy(0, rows, lam_w), eta) if better else best.weights,
            Bounds(max(best.bounds.lower, outcome.bounds.lower), min(best.bounds.upper, upper)),
            best.iterations + outcome.iterations,
            outcome.stopped,
        )
        if outcome.stopped or best.bounds.gap <= tol or everything or outcome.bounds.upper == float("inf"):
            return best
        # A hard margin asks for the working set's own margin.
        least = asked if samples.prices is not None else float(f[rows].min())
        new = _violated(rows, f, least)
        if len(new) == 0 and aim <= tol / 2:
            return best
        idle = (outcome.lam < outcome.lam.mean() * (f[rows] / least - 1)) & ~dropped[rows]
        dropped[rows[idle]] = True
        changed = torch.cat([rows[~idle], new])
        warm, rows = _carried(samples, outcome.warm, rows, changed), changed
    raise AssertionError("unreachable")


def _violated(rows: Tensor, f: Tensor, least: float) -> Tensor:
    """The samples outside the working set with margins below `least`, worst first, as many as may join."""
    outside = f.clone()
    outside[rows] = float("inf")
    order = torch.argsort(outside)[: max(1, int(GROWTH * len(rows)))]
    return order[outside[order] < least]


def _carried(samples: Samples, warm: Point, old: Tensor, new: Tensor) -> Point:
    """An iterate for the samples `old` as one for `new`; whoever joins is near the central path."""
    mu = warm.complementarity()

    def moved(values: Tensor, default: Tensor) -> Tensor:
        return default.index_copy(0, old, values)[new]

    base = warm.lam.mean().expand(samples.n)
    if samples.prices is None:
        lam = moved(warm.lam, base)
        total = lam.sum()
        z = moved(warm.z, mu / base)
        return Point(lam / total, z * total, warm.eta, warm.s, warm.u, warm.w, warm.nu, warm.t)
    base = torch.minimum(base, samples.prices / 2)
    lam = moved(warm.lam, base)
    w = samples.prices[new] - lam
    u = moved(warm.u, mu / (samples.prices - base))
    return Point(lam, moved(warm.z, mu / base), warm.eta, warm.s, u, w, warm.nu, warm.t)
