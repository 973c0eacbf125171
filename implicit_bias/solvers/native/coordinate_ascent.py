"""Dual coordinate ascent: a cheap first sorting of all samples into idle, free and priced ones.

With weights η of the groups, ‖W‖ is the least of ½ Σ_h (‖Ŵ_h‖²/η_h + η_h). The dual for fixed η,

    maximise   1ᵀλ − ½ λᵀK(η)λ   over   0 ≤ λ ≤ p,

where p = ∞ for a hard margin, is maximised exactly in one λ_i at a time, by blocks of samples whose kernel is at hand.
In between η follows: at the optimum ‖Ŵ_h‖ = η_h‖V_h‖ = η_h with V = Φ̂ᵀλ, so that η_h is multiplied by a small power of
‖V_h‖. A free intercept b is the multiplier of ỹᵀλ = 0, by the method of multipliers.
"""

from dataclasses import replace

import numpy as np

from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.scaling import TINY
from implicit_bias.margin.solution import Status
from implicit_bias.solvers.native.arrays import Tensor, as_numpy, filled, library
from implicit_bias.solvers.native.interior_point import Bounds, Outcome, Watch, balanced, upper_bound
from implicit_bias.solvers.native.kernels import LinearKernels
from implicit_bias.solvers.native.scaled import ScaledProblem

#: Samples of a block, how often each is passed while the block's kernel is at hand, and samples fetched at once.
BLOCK, PASSES, FETCHED = 64, 3, 2048
#: The power of ‖V_h‖ by which η_h is multiplied, over all blocks of an epoch, and in one block at most.
POWER, MOST_POWER = 4.0, 0.5
#: What ‖V_h‖ counts at most and its inverse at least: before V has followed η it may be far from 1.
FASTEST = 1.25
#: The gap that sorts well, and the epochs after which whatever was found has to do: the first number, or the second
#: as long as so many samples are left that steps take partial factors.
COARSE, EPOCHS, LONGEST = 1e-2, 40, 100
#: The gap that is enough where few samples are at their price.
LOOSE = 0.3
#: Where all samples could be solved for at once: the visits to a sample that a sorting may cost, for each product of a
#: step, which makes it a fifth of what solving at once costs; and the gap above which that does better than what was
#: found. Products of a step: those of the columns for its factor, and of H + 3 right-hand sides, each as slow as many.
VISITS, ROUGH, SIDES = 7e-5, 0.1, 50
#: The epochs between two looks at all samples.
CYCLE = 2
#: The samples of the first epoch, which finds how large η is.
DRAWN = 1000
#: The share of the positive λ that are at their price from which a sorting saves more than it costs.
PRICED, NEXT_TO = 0.25, 0.99


def many_priced(lam: Tensor, prices: Tensor | None) -> bool:
    """Whether more than PRICED of the positive λ are at their price, or next to it."""
    return prices is not None and bool(((lam > 0) & (lam >= NEXT_TO * prices)).sum() > PRICED * (lam > 0).sum())


class Ascent:
    """The iterate: λ (n,), V = Φ̂ᵀλ, η (H,) and the intercept b (0 or 1,)."""

    def __init__(self, scaled: ScaledProblem) -> None:
        self.scaled, self.tilt = scaled, scaled.tilt
        self.lam = scaled.nothing().lam
        self.prices = filled(self.lam, scaled.n, np.inf) if scaled.prices is None else scaled.prices
        self.V, self.eta = scaled.together(self.lam), filled(self.lam, scaled.H, 1 / scaled.H)
        self.b = filled(self.lam, 0 if self.tilt is None else 1, 0.0)

    def pass_over(self, rows: Tensor, block: LinearKernels, power: float) -> None:
        """PASSES over the samples `rows` of a block, then one step of η."""
        lam, prices = self.lam[rows], self.prices[rows]
        kernel, f = block.weighted(self.eta), block.columns(self.V) @ self.eta
        stiffness = self.eta.sum()
        if self.tilt is not None:
            tilt = self.tilt[rows]
            kernel, f = kernel + stiffness * tilt[:, None] * tilt, f + self.b * tilt
        new = self.scaled.moved(_maximised(*(as_numpy(values) for values in (kernel, f, lam, prices))))
        self.lam[rows] = new
        self.V += block.adjoint(new - lam)
        if self.tilt is not None:
            self.b = self.b + stiffness * (tilt @ (new - lam))
        self.eta = self.eta * (block.squares(self.V) ** 0.5).clip(1 / FASTEST, FASTEST) ** power

    def pass_over_all(self, rows: np.ndarray, power: float) -> None:
        """A pass over these samples, block by block."""
        if self.tilt is not None:
            self.b = self.b + self.eta.sum() * (self.tilt @ self.lam)
        for fetched in np.split(rows, range(FETCHED, len(rows), FETCHED)):
            samples = self.scaled.moved(fetched)
            kernels = self.scaled.linear(samples)
            for block in row_blocks(len(fetched), BLOCK):
                self.pass_over(samples[block], kernels.part(block), power)

    def rescale(self) -> None:
        """The best multiple t of η, λ/t being that of λ where no price is in its way: t² Σ_h η_h = Σ_h η_h‖V_h‖².

        Margins stay as they are.
        """
        mean = ((self.eta @ self.scaled.squares(self.V)) / self.eta.sum()) ** 0.5
        t = max(mean, (self.lam / self.prices).max())
        if t > 0:
            self.eta, self.lam, self.V = t * self.eta, self.lam / t, self.V / t

    def margins(self) -> Tensor:
        """Of all samples (n,)."""
        return self.scaled.margins(self.V, self.eta, self.b)

    def open(self, f: Tensor) -> np.ndarray:
        """The samples with margins f that are not at the bound of λ where they belong."""
        settled = ((self.lam == 0) & (f >= 1)) | ((self.lam == self.prices) & (f <= 1))
        return np.asarray(as_numpy(library(f).where(~settled)[0]))

    def judged(self, f: Tensor, best: Outcome, epoch: int) -> Outcome:
        """The best bounds and weights; f: the margins of all samples."""
        sizes = self.scaled.squares(self.V) ** 0.5
        upper = upper_bound(float(self.eta @ sizes), f, self.scaled.prices)[0]
        fair = lam = 1 * self.lam
        if self.tilt is not None:
            fair = balanced(fair, self.tilt)
            sizes = self.scaled.squares(self.scaled.together(fair)) ** 0.5
        reach = max(float(sizes.max()), float((fair / self.prices).max()))
        lower = float(fair.sum()) / reach if reach > 0 else 0.0
        weights = lam, self.eta, self.b
        found = best.better(fair, weights, Bounds(lower, upper), epoch)
        # Weights that do not separate the samples yet sort them, too.
        return found if found.bounds.upper < np.inf else replace(found, weights=weights)


def ascend(scaled: ScaledProblem, tol: float, most: int, watch: Watch) -> Outcome:
    """Ascend to a gap of COARSE or `tol`, or of LOOSE where that is enough, in EPOCHS or LONGEST, its iterations.

    The first epoch passes over a draw, the others over samples that are not settled at the last look at all of them.
    The λ of its weights is at its bounds, 0 and p, wherever it met them. Where the features are few, VISITS may end it
    earlier, and what is not even ROUGH is not returned. `watch(epoch, bounds)` may return a status to stop with.
    """
    at, random, best = Ascent(scaled), np.random.default_rng(0), scaled.nothing()
    rows = np.arange(scaled.n) if scaled.n <= DRAWN else random.choice(scaled.n, DRAWN, replace=False)
    products = scaled.columns * (scaled.columns + SIDES * (scaled.H + 3))
    visits = VISITS * products * scaled.n if scaled.few_features else np.inf
    try:
        for epoch in range(1, min(most, LONGEST) + 1):
            visits -= len(rows)
            if visits < 0 or (epoch > EPOCHS and not scaled.partial(len(rows))):
                break
            # In the first epoch V means nothing yet.
            power = min(POWER * BLOCK / max(len(rows), 1), MOST_POWER) if epoch > 1 else 0.0
            at.pass_over_all(random.permutation(rows), power)
            looks = epoch % CYCLE == 1
            if looks:
                f = at.margins()
                best = at.judged(f, best, epoch)
            stop, priced = watch(epoch, best.bounds), many_priced(at.lam, scaled.prices)
            if stop or best.bounds.gap <= max(COARSE if priced else LOOSE, tol):
                return replace(best, stopped=stop, iterations=epoch)
            if looks:
                rows = at.open(f)
                if not priced:
                    at.rescale()
    except KeyboardInterrupt:
        return replace(best, stopped=Status.INTERRUPTED)
    rough = scaled.few_features and best.bounds.gap > ROUGH
    return replace(scaled.nothing(), iterations=best.iterations) if rough else best


def _maximised(kernel: np.ndarray, f: np.ndarray, lam: np.ndarray, prices: np.ndarray) -> np.ndarray:
    """λ of a block after PASSES over it, from its kernel and margins."""
    new, upper, curvature = lam.tolist(), prices.tolist(), np.maximum(kernel.diagonal(), TINY).tolist()
    turns = list(range(len(upper)))
    for _ in range(PASSES):
        for i in turns:
            best = new[i] + (1 - f.item(i)) / curvature[i]
            if best < 0.0:
                best = 0.0
            elif best > upper[i]:
                best = upper[i]
            if best != new[i]:
                f += kernel[i] * (best - new[i])
                new[i] = best
        # Once more for those between their bounds.
        turns = [i for i in turns if 0.0 < new[i] < upper[i]]
    return np.array(new)
