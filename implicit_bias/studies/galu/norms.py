"""Does the generalisation gap grow with the norm of the weights? (first version, figure 4)

The data are noisy clusters as in figure 3, with more noise levels. A GaLU layer of k Gaussian gates is fitted by least
squares, w = Φ⁺y; and a GaLU network is trained in both layers, w_j = α_j a_j.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias._utils.checks import Array
from implicit_bias.extensions.galu import least_squares, noisy_clusters
from implicit_bias.gates import ReLUGates
from implicit_bias.studies.galu.common import fits, runs
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, claims, finished, panels, product
from implicit_bias.studies.runner.mean_test import student_interval
from implicit_bias.studies.runner.verdicts import Claim

TITLE = "Generalisation gap against the norm of the weights"
SOURCE = "first version, figure 4 and section 4.2.1"
CLAIM = (
    "The gap between test and training loss grows linearly with the squared norm of the weights as label noise grows: "
    "in closed form, and not if both layers are trained."
)
#: Test samples for each training sample.
FRESH = 9
#: Least number of noise levels for two slopes.
LEVELS = 5
#: First seed. Smaller ones were seen before the threshold was set.
FIRST = 101
CLAIMS = claims("galu", "norms")
#: Names of the fits of both layers, with their optimisers.
TRAINED = {"both layers": "Adam", "both layers, SGD at 0.01": "SGD at 0.01", "both layers, SGD at 0.1": "SGD at 0.1"}
#: Columns, with their names in figures and in verdicts.
NORMS = {"l2": ("$\\|w\\|_2^2$", "‖w‖₂²"), "l1": ("$\\|w\\|_1^2$", "‖w‖₁²")}


def grid(quick: bool) -> list[Settings]:
    sizes: Settings = {"clusters": 30, "units": 30, "d": 30, "m": 1000, "sigma_x": 0.1}
    levels = (0.0, 0.25, 0.5, 0.75, 1.0) if quick else tuple(step / 10 for step in range(11))
    few, many, steps, lr = (2, 3, 5000, 2e-3) if quick else (6, 8, 20_000, 1e-3)
    cells = [
        {"fit": "least squares"} | sizes | cell for cell in product(sigma_y=levels, seed=range(FIRST, FIRST + many))
    ]
    # All levels train in one stack.
    both = sizes | {"fit": "both layers", "sigma_y": list(levels), "repeats": few, "seed": FIRST}
    both |= {"steps": steps, "batch_size": 128, "lr": lr}
    sgd = [{"fit": f"both layers, SGD at {lr}", "optimiser": "SGD", "lr": lr} for lr in (0.01, 0.1)]
    return cells + [both | how for how in ({}, *sgd)]


def rows(settings: Settings) -> Rows:
    """Return rows of train_loss and test_loss (mean squares), l2 = ‖w‖₂² and l1 = ‖w‖₁².

    Least squares gives one row, with `rank`, that of Φ. Training of both layers gives a row for each noise level and
    repeat, with sigma_y, seed and all_l2 = ‖A‖² + ‖α‖².
    """
    m, seed, k, d = (settings[name] for name in ("m", "seed", "units", "d"))
    if settings["fit"] not in TRAINED:
        X, y = _sample(settings, settings["sigma_y"], seed)
        # A separate stream, because the clusters are drawn with the plain seed.
        features = ReLUGates(np.random.default_rng([seed, 1]).normal(size=(k, d)))(X)
        fit = least_squares(features.select(slice(m)), y[:m])
        test = float(np.mean((features @ fit.weights - y)[m:] ** 2))
        return [{"train_loss": fit.loss, "test_loss": test, **_squares(fit.weights), "rank": fit.rank}]
    pairs = runs(settings, settings["sigma_y"])
    samples = [_sample(settings, *pair) for pair in pairs]
    fitted, table = fits(settings, [seed for _, seed in pairs], samples, "squared", "GaLU"), []
    for (noise, seed), (network, loss, _, (f, y)) in zip(pairs, fitted, strict=True):
        row = {"sigma_y": noise, "seed": seed, "train_loss": loss, "test_loss": float(np.mean((f - y) ** 2))}
        table.append(row | _squares(network.effective_weights()) | {"all_l2": network.norm() ** 2})
    return table


def _sample(settings: Settings, noise: float, seed: int) -> tuple[Array, Array]:
    c = settings
    return noisy_clusters((FRESH + 1) * c["m"], c["clusters"], c["d"], c["sigma_x"], sigma_y=noise, seed=seed)[:2]


def _squares(weights: Array) -> dict[str, float]:
    return {"l2": float((weights**2).sum()), "l1": float(np.abs(weights).sum() ** 2)}


def cost(settings: Settings) -> float:
    if settings["fit"] in TRAINED:
        return settings["steps"] * (3e-4 + 2e-5 * len(settings["sigma_y"]) * settings["repeats"])
    return 1.5e-9 * settings["m"] * (settings["units"] * settings["d"]) ** 2


def gaps(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return 'means' of gap (test − train loss) and norms by noise level, and 'fits', all rows with their gap."""
    fits = table.assign(gap=table.test_loss - table.train_loss)
    return {"means": fits.groupby("sigma_y")[["gap", *NORMS]].mean(), "fits": fits}


def slope_ratios(table: pd.DataFrame, norm: str) -> pd.Series:
    """Return, for each seed, the slope of gap against norm in the noisiest third of levels over that in the least."""
    slopes = {}
    for seed, subset in table.sort_values("sigma_y").groupby("seed"):
        x, gap, third = subset[norm], subset.test_loss - subset.train_loss, -(-len(subset) // 3)
        first, last = (np.polyfit(x[part], gap[part], 1)[0] for part in (slice(third), slice(-third, None)))
        slopes[seed] = last / first
    return pd.Series(slopes, dtype=float)


def draw(table: pd.DataFrame) -> Figure:
    axes = panels(TITLE, columns=2, rows=table.fit.nunique())
    for row, (fit, part) in zip(axes, table.groupby("fit", sort=False), strict=True):
        means, fits = gaps(part).values()
        title = f"both layers, {TRAINED[str(fit)]}" if fit in TRAINED else fit
        for ax, (norm, (text, _)) in zip(row, NORMS.items(), strict=True):
            ax.plot(fits[norm], fits.gap, ".", color=COLOURS["sky"], markersize=4, label="one fit")
            ax.plot(means[norm], means.gap, "o-", color=COLOURS["GaLU"], markersize=4, label="mean of a noise level")
            ax.set(title=title, xlabel=text, ylabel="test loss − train loss")
    return finished(axes)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    fitted = table.groupby("fit").sigma_y.nunique()
    return [
        _judged(table[table.fit == fit], CLAIMS["trained" if fit in TRAINED else "exact"], norm, fit)
        for fit in ("least squares", *TRAINED)
        for norm in NORMS
        if fit in fitted
    ]


def _judged(table: pd.DataFrame, claim: Claim, norm: str, fit: str) -> Verdict:
    names, levels = {"norm": NORMS[norm][1], "how": TRAINED.get(fit, "")}, table.sigma_y.nunique()
    table = table[table.groupby("seed").sigma_y.transform("nunique") == levels]
    ratios = slope_ratios(table, norm) if levels >= LEVELS and table.seed.nunique() > 1 else pd.Series([np.nan])
    if not (ratios > 0).all():
        return claim.undecided(f"{LEVELS} noise levels of two seeds, and slopes of one sign", **names)
    logarithms = pd.Series(np.log(ratios))
    (low, high), middle = np.exp(student_interval(logarithms)), np.exp(logarithms.mean())
    within = low >= claim.limits["least"] and high <= claim.limits["most"]
    outside = low > claim.limits["most"] or high < claim.limits["least"]
    means = gaps(table)["means"]
    text = f"ratio {middle:.2f} [{low:.2f}, {high:.2f}], {len(ratios)} repeats; "
    text += f"correlation of the means {means.gap.corr(means[norm]):.3f}"
    holds, fails = (outside, within) if fit in TRAINED else (within, outside)
    return claim.verdict(text, True if holds else False if fails else None, **names)
