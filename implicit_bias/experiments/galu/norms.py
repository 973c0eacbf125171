"""Does the generalisation gap grow with the norm of the weights? (first version, figure 4)

Noisy clusters, n = k = d = 30, m = 1000: centres c_i ~ N(0, I) with labels b_i ~ N(0, 1); a sample of cluster i is
x = c_i + σ_x ξ, y = b_i + σ_y ζ with σ_x = 0.1. A GaLU layer of k Gaussian gates is fitted by least squares,
w = Φ⁺y, for σ_y = 0, 0.1, …, 1.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.datasets import noisy_clusters
from implicit_bias.experiments.runner import COLOURS, Rows, Settings, Verdict, finished, panels, product
from implicit_bias.gates import ReLUGates
from implicit_bias.regression import least_squares

TITLE = "Generalisation gap against the norm of the weights"
SOURCE = "first version, figure 4"
CLAIM = "The gap between test and training loss grows in proportion to the norm of the weights as label noise grows."
#: Test samples for each training sample.
FRESH = 9
#: Correlations that show proportion.
PROPORTIONAL = 0.9
NORMS = {"l2": "$\\|w\\|_2^2$", "l1": "$\\|w\\|_1^2$"}


def grid(quick: bool) -> list[Settings]:
    """Eleven noise levels, 16 repeats; quick: three levels, two repeats."""
    sizes = {name: (value,) for name, value in {"clusters": 30, "units": 30, "d": 30, "m": 1000}.items()}
    levels = (0.0, 0.5, 1.0) if quick else tuple(step / 10 for step in range(11))
    return product(**sizes, sigma_x=(0.1,), sigma_y=levels, seed=range(1, 3 if quick else 17))


def rows(settings: Settings) -> Rows:
    """One fit: train_loss and test_loss (mean squares), l2 = ‖w‖₂², l1 = ‖w‖₁², and the rank of Φ."""
    m, seed, k, d = (settings[name] for name in ("m", "seed", "units", "d"))
    noise = {name: settings[name] for name in ("sigma_x", "sigma_y")}
    X, y, _, _ = noisy_clusters((FRESH + 1) * m, settings["clusters"], d, seed=seed, **noise)
    # A stream of its own: the clusters' is begun from the bare seed.
    features = ReLUGates(np.random.default_rng([seed, 1]).normal(size=(k, d)))(X)
    fit = least_squares(features.select(slice(m)), y[:m])
    test = float(np.mean((features @ fit.weights - y)[m:] ** 2))
    l1 = float(np.abs(fit.weights).sum() ** 2)
    return [{"train_loss": fit.loss, "test_loss": test, "l2": fit.norm**2, "l1": l1, "rank": fit.rank}]


def cost(settings: Settings) -> float:
    """The least squares of m samples and kd features."""
    return 1.5e-9 * settings["m"] * (settings["units"] * settings["d"]) ** 2


def gaps(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Every fit with its gap, test loss − train loss, and the means of the noise levels."""
    fits = table.assign(gap=table.test_loss - table.train_loss)
    return {"means": fits.groupby("sigma_y")[["gap", *NORMS]].mean(), "fits": fits}


def correlations(table: pd.DataFrame) -> dict[str, float]:
    """Pearson's, of gap and norm: over the means of the noise levels, and over single fits; NaN if there are too few.

    >>> fits = pd.DataFrame({"sigma_y": [0, 1, 2], "train_loss": 0.0, "test_loss": [1.0, 2.0, 3.0]})
    >>> correlations(fits.assign(l2=[2.0, 3.0, 4.0], l1=[3.0, 2.0, 1.0]))
    {'l2 means': 1.0, 'l2 fits': 1.0, 'l1 means': -1.0, 'l1 fits': -1.0}
    """
    return {
        f"{norm} {of}": round(float(part.gap.corr(part[norm])), 6) if len(part) > 2 else float("nan")
        for norm in NORMS
        for of, part in gaps(table).items()
    }


def draw(table: pd.DataFrame) -> Figure:
    """Gap against both norms: every fit, and the means of the noise levels."""
    fits, means = (gaps(table)[of] for of in ("fits", "means"))
    axes = panels(TITLE, columns=2)
    for ax, (norm, text) in zip(axes[0], NORMS.items(), strict=True):
        ax.plot(fits[norm], fits.gap, ".", color=COLOURS["sky"], markersize=4, label="one fit")
        ax.plot(means[norm], means.gap, "o-", color=COLOURS["GaLU"], markersize=4, label="mean of a noise level")
        ax.set(xlabel=text, ylabel="test loss − train loss")
    return finished(axes)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """The correlations over the means of the noise levels."""
    found, levels = correlations(table), table.sigma_y.nunique()
    if np.isnan(list(found.values())).any():
        return [Verdict.undecided(CLAIM, "three noise levels")]
    return [
        Verdict(
            f"the gap grows in proportion to {text}",
            f"correlation {found[f'{norm} means']:.3f} over the means of {levels} noise levels, "
            f"{found[f'{norm} fits']:.3f} over {len(table)} single fits",
            f"above {PROPORTIONAL} over the means",
            bool(found[f"{norm} means"] > PROPORTIONAL),
        )
        for norm, text in (("l2", "‖w‖₂²"), ("l1", "‖w‖₁²"))
    ]
