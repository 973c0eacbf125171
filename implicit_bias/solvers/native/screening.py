"""Screening by dual coordinate ascent: cheap estimates of which samples are inactive, free, or at their bound.

‖W‖ is the minimum of ½ Σ_h (‖Ŵ_h‖²/η_h + η_h) over group weights η. The dual for fixed η,

    maximise   1ᵀλ − ½ λᵀK(η)λ   over   0 ≤ λ ≤ p,

where p = ∞ for a hard margin, is maximised exactly in one λ_i at a time, by blocks of samples whose kernel is formed.
η is updated in between: at the optimum ‖Ŵ_h‖ = η_h‖V_h‖ = η_h with V = Φ̂ᵀλ, so that η_h is multiplied by a small power
of ‖V_h‖. A free intercept b is the multiplier of ỹᵀλ = 0, by the method of multipliers.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from implicit_bias._utils.blocks import row_blocks
from implicit_bias.margin.problem import balanced
from implicit_bias.margin.solution import Status
from implicit_bias.solvers.native.algebra import Tensor, as_numpy, filled, library
from implicit_bias.solvers.native.interior_point import Outcome, Watch
from implicit_bias.solvers.native.loop import Bounds, upper_bound
from implicit_bias.solvers.native.scaled import ScaledProblem, many_bounded


class Ascent:
    """State of the ascent: λ (n,), V = Φ̂ᵀλ, η (H,) and the intercept b, shape (0,) or (1,)."""

    def __init__(self, scaled: ScaledProblem) -> None:
        self.scaled, self.settings, self.column = scaled, scaled.settings, scaled.intercept_column
        self.lam = scaled.nothing_known().lam
        self.box = filled(self.lam, scaled.n, np.inf) if scaled.box is None else scaled.box
        self.V, self.eta = scaled.adjoint(self.lam), filled(self.lam, scaled.H, 1 / scaled.H)
        self.b, self.factor = filled(self.lam, 0 if self.column is None else 1, 0.0), self.settings.eta_factor

    def pass_over(self, samples: np.ndarray, power: float, late: Callable[[], bool] = bool) -> None:
        """Maximise over λ of the samples, by blocks; update V and b, and multiply η_h by ‖V_h‖^`power` after each.

        ‖V_h‖ is clipped to `factor` and its inverse. The pass ends early if it is `late()`.
        """
        if self.column is not None:
            self.b = self.b + self.eta.sum() * (self.column @ self.lam)
        for part in np.split(samples, range(self.settings.fetched, len(samples), self.settings.fetched)):
            fetched = self.scaled.to_device(part)
            kernels = self.scaled.linear(fetched)
            for block in row_blocks(len(part), self.settings.block):
                if late():
                    return
                rows, K = fetched[block], kernels.part(block)
                lam, stiffness, column, b = self.lam[rows], self.eta.sum(), 0 * self.lam[rows], 0.0
                if self.column is not None:
                    column, b = self.column[rows], self.b
                new = K.ascended(self.V, self.eta, lam, self.box[rows], column, b, stiffness)
                self.lam[rows] = new
                if self.column is not None:
                    self.b = self.b + stiffness * (column @ (new - lam))
                self.eta = self.eta * (K.squares(self.V) ** 0.5).clip(1 / self.factor, self.factor) ** power

    def select_groups(self) -> None:
        """Set η_h of groups that hardly count to 0, so that they are skipped, and let others in with a small η_h."""
        self.V = self.scaled.adjoint(self.lam)
        sizes, most = self.scaled.squares(self.V) ** 0.5, self.eta.max()
        skipped = (self.eta < self.settings.skipped_eta * most) & (sizes < self.settings.skipped_norm)
        self.eta = np.where(skipped, 0.0, np.maximum(self.eta, (sizes > 1) * self.settings.entering_eta * most))

    def rescale(self) -> None:
        """Multiply η, and divide λ and V, by t = √(Σ_h η_h‖V_h‖² / Σ_h η_h), or more if λ/t would exceed its bounds.

        The margins do not change.
        """
        mean = ((self.eta @ self.scaled.squares(self.V)) / self.eta.sum()) ** 0.5
        t = max(mean, (self.lam / self.box).max())
        if t > 0:
            self.eta, self.lam, self.V = t * self.eta, self.lam / t, self.V / t

    def margins(self) -> Tensor:
        """Return the margins of all samples (n,)."""
        return self.scaled.margins(self.V, self.eta, self.b)

    def unsettled(self, f: Tensor) -> np.ndarray:
        """Return indices of samples neither at λ = 0 with a margin f ≥ 1 nor at their bound with f ≤ 1."""
        settled = ((self.lam == 0) & (f >= 1)) | ((self.lam == self.box) & (f <= 1))
        return np.asarray(as_numpy(library(f).where(~settled)[0]))

    def evaluated(self, f: Tensor, best: Outcome, epoch: int) -> Outcome:
        """Return `best` with λ, weights and bounds of this state replaced where they are better.

        f (n,) are the margins. Until some weights have a finite objective, the latest weights replace earlier ones.
        """
        sizes = self.scaled.squares(self.V) ** 0.5
        upper = upper_bound(float(self.eta @ sizes), f, self.scaled.box)[0]
        fair = lam = 1 * self.lam
        if self.column is not None:
            fair = balanced(fair, self.column)
            sizes = self.scaled.squares(self.scaled.adjoint(fair)) ** 0.5
        reach = max(float(sizes.max()), float((fair / self.box).max()))
        lower = float(fair.sum()) / reach if reach > 0 else 0.0
        weights = lam, self.eta, self.b
        outcome = best.better(fair, weights, Bounds(lower, upper), epoch)
        # Weights that do not separate the samples yet are useful for screening, too.
        return outcome if outcome.bounds.upper < np.inf else replace(outcome, weights=weights)


def screen(scaled: ScaledProblem, tol: float, most: int, watch: Watch, late: Callable[[], bool] = bool) -> Outcome:
    """Return the best λ, weights and bounds of a dual ascent.

    The ascent ends at a gap of at most `tol` or the settings' gap, whichever is larger, or at their limit of epochs.
    Epochs count as iterations, at most `most`. The first one passes over a random draw, the others over the samples
    that were not settled at the last evaluation of all. The λ of the weights is exactly 0 or p where it reached these
    bounds. If the features are few, `visits` may end the ascent earlier; at a gap above `rough_gap`, the result is then
    `rough`. `watch(epoch, best)` may return a status to stop with, and must do so once `late()` is true; by default it
    never is.
    """
    settings, at, random, best = scaled.settings, Ascent(scaled), np.random.default_rng(0), scaled.nothing_known()
    rows = np.arange(scaled.n) if scaled.n <= settings.drawn else random.choice(scaled.n, settings.drawn, replace=False)
    products = scaled.columns * (scaled.columns + settings.side_cost * (scaled.H + 3))
    visits = settings.visits * products * scaled.n if scaled.few_features else np.inf
    if most < 1:
        return replace(best, stopped=Status.ITERATION_LIMIT)
    cycle = settings.cycle
    for epoch in range(1, settings.epochs_unsettled + 1):
        visits -= len(rows)
        many = len(rows) >= settings.unsettled_from
        cheap = many or scaled.sparse_groups or scaled.uses_partial(len(rows))
        if visits < 0 or (epoch > settings.epochs and not cheap):
            break
        first = scaled.sparse_groups and epoch <= settings.first_epochs
        at.factor = settings.first_eta_factor if first else settings.eta_factor
        # In the first epoch V is arbitrary.
        power = settings.eta_power * settings.block / max(len(rows), 1)
        at.pass_over(random.permutation(rows), min(power, settings.eta_block_power) if epoch > 1 else 0.0, late)
        evaluates = epoch % cycle == 1
        if evaluates:
            cycle = settings.sparse_cycle if scaled.sparse_groups and not first else settings.cycle
            f = at.margins()
            if scaled.sparse_groups:
                at.select_groups()
            best = at.evaluated(f, best, epoch)
        stop = watch(epoch, best) or (Status.ITERATION_LIMIT if epoch >= most else None)
        bounded = many_bounded(at.lam, scaled.box, settings)
        enough = settings.screening_gap if bounded else settings.unsettled_gap if many else settings.unbounded_gap
        if stop or best.bounds.gap <= max(enough, tol):
            return replace(best, stopped=stop, iterations=epoch)
        if evaluates:
            unsettled = at.unsettled(f)
            # If all samples are settled, only η may still change.
            rows = unsettled if len(unsettled) else np.arange(scaled.n)
            if not bounded:
                at.rescale()
    return replace(best, rough=visits < 0 and best.bounds.gap > settings.rough_gap)
