"""Do networks over-fit noisy labels of clusters? (first version, figure 3)

Samples of cluster i have labels b_i + σ_y N(0, 1) with b_i ~ N(0, 1), fitted by squared loss, or b_i = ±1 flipped with
probability p, fitted by hinge loss. On new noisy labels, the expected squared loss of any predictor is at least σ_y²,
the hinge loss at least 2p and the error at least p (p ≤ ½). All noise levels of a repeat share inputs, the underlying
random numbers of the noise, and initial weights.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.extensions.galu import Clusters, noisy_clusters
from implicit_bias.metrics import error
from implicit_bias.studies.galu.common import NETWORKS, curves, fits, means, runs, trained_by
from implicit_bias.studies.runner import Rows, Settings, Verdict, claims, named, product, span
from implicit_bias.studies.runner.drawing import COLOURS, finished, panels

TITLE = "Noisy labels of clusters"
SOURCE = "first version, figure 3"
CLAIM = "GaLU and ReLU networks over-fit noisy labels of clusters alike, and generalise where there is little noise."
#: The largest σ_y, and the largest p.
MOST_NOISE = {"regression": 1.0, "classification": 0.5}
CLAIMS = claims("galu", "clusters")
#: Panels: task, measure, name, and the least expected value at a noise level.
PANELS: tuple[tuple[str, str, str, Callable[[Any], Any]], ...] = (
    ("regression", "loss", "mean squared error", np.square),
    ("classification", "loss", "hinge loss", lambda p: 2 * p),
    ("classification", "error", "error", lambda p: p),
)


def grid(quick: bool) -> list[Settings]:
    fixed = {"clusters": 30, "d": 30, "units": 30, "m": 1000, "fresh": 9000, "sigma_x": 0.1, "batch_size": 128}
    fixed |= {"lr": 2e-3 if quick else 1e-3, "levels": 3 if quick else 5}
    early, steps = ((500,), 8000) if quick else ((1000, 4000, 16_000), 100_000)
    common = {"network": NETWORKS, "repeats": (2 if quick else 4,), "seed": (1,)}
    cells = product(task=MOST_NOISE, steps=(steps,), **common) + product(task=("regression",), steps=early, **common)
    cells += product(task=("regression",), steps=(*early, steps), **common, optimiser=("SGD",), lr=(0.1,))
    return [fixed | {"most_noise": MOST_NOISE[cell["task"]]} | cell for cell in cells]


def sample(settings: Settings, noise: float, seed: int) -> Clusters:
    """Return m training and `fresh` test samples; `noise`: deviation of labels, or in classification share flipped."""
    c, kind = settings, {"flip": noise} if settings["task"] == "classification" else {"sigma_y": noise}
    return noisy_clusters(c["m"] + c["fresh"], c["clusters"], c["d"], c["sigma_x"], **kind, seed=seed)


def rows(settings: Settings) -> Rows:
    """Return a row for each noise level and repeat: noise, repeat, and loss and error in training and test."""
    squared = settings["task"] == "regression"
    pairs = runs(settings, np.linspace(0.0, settings["most_noise"], settings["levels"]).tolist())
    samples, seeds = [sample(settings, *pair) for pair in pairs], [seed for _, seed in pairs]
    fitted = fits(settings, seeds, samples, "squared" if squared else "hinge", settings["network"])
    table = []
    for (noise, seed), (_, _, *parts) in zip(pairs, fitted, strict=True):
        table.append({"noise": noise, "repeat": seed})
        for name, (f, b) in zip(("train", "test"), parts, strict=True):
            each = (f - b) ** 2 if squared else np.maximum(0.0, 1 - b * f)
            table[-1] |= {f"{name}_loss": float(each.mean()), f"{name}_error": np.nan if squared else error(f, b)}
    return table


def cost(settings: Settings) -> float:
    return settings["steps"] * (3e-4 + 2e-5 * settings["levels"] * settings["repeats"])


def draw(table: pd.DataFrame) -> Figure:
    table, axes = _latest(table), panels(TITLE, columns=len(PANELS))
    for ax, (task, measure, text, bound) in zip(axes[0], PANELS, strict=True):
        part = table[table.task == task]
        curves(ax, part.set_index("noise"), measure)
        if len(part):
            levels = np.linspace(part.noise.min(), part.noise.max(), 50)
            ax.plot(levels, bound(levels), ":", color=COLOURS["theory"], label="best possible test")
        noise = "noise of labels $\\sigma_y$" if task == "regression" else "flipped labels $p$"
        ax.set(title=task, xlabel=noise, ylabel=text)
    return finished(axes, below=5)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    steps = [_by_steps(table, optimiser) for optimiser in ("SGD", "Adam")]
    losses = _latest(table).groupby(["task", "noise", "network"])[["train_loss", "test_loss"]].mean()
    best = {task: bound for task, measure, _, bound in PANELS if measure == "loss"}
    losses["least"] = [float(best[task](noise)) for task, noise, _ in losses.index]
    noise = losses.index.get_level_values("noise")
    noisy, quiet = losses[noise > 0], losses[noise == 0].test_loss.max()
    pairs = means(noisy, ["task", "noise"], "test_loss")
    over_fit, alike, learnt, noisier, *_ = CLAIMS.values()
    if pairs.empty or np.isnan(quiet):
        needs = "both networks, with and without noise"
        return [*(claim.undecided(needs) for claim in (over_fit, alike, learnt, noisier)), *steps]
    over = (noisy.train_loss < noisy.least) & (noisy.test_loss > noisy.least)
    (task, level), ratios = pairs.index[-1], pairs["GaLU"] / pairs["ReLU"]
    last = losses.loc[(task, level)]
    text = f"{over.sum()} of {len(over)} mean losses; in {task} at noise {level:g}, where {last.least.iloc[0]:.3g} is "
    text += f"possible: {named(last.train_loss, '.3g')} in training; {named(last.test_loss, '.3g')} in test"
    between = bool(ratios.min() > alike.limits["least"] and ratios.max() < alike.limits["most"])
    rises = losses.test_loss.groupby(["task", "network"]).diff().dropna()
    rising = f"{(rises > 0).sum()} of {len(rises)} steps up in noise"
    return [
        over_fit.verdict(text, bool(over.all())),
        alike.verdict(f"test losses {span(ratios, '.2f')} times ReLU's", between),
        learnt.verdict(f"at most {quiet:.2g} in test", bool(quiet < learnt.limits["learnt"])),
        noisier.verdict(rising, bool((rises > 0).all())),
        *steps,
    ]


def _latest(table: pd.DataFrame) -> pd.DataFrame:
    table = trained_by("Adam", table)
    return table[table.steps == table.steps.max()]


def _by_steps(table: pd.DataFrame, optimiser: str) -> Verdict:
    part, claim = trained_by(optimiser, table).query("task == 'regression'"), CLAIMS[optimiser]
    highest = part.noise.max()
    losses = means(part[part.noise == highest], ["steps"], "test_loss")
    if len(losses) < 2:
        return claim.undecided("both networks at two numbers of steps")
    text = "; ".join(f"{steps} steps: {named(row, '.2f')}" for steps, row in losses.iterrows())
    return claim.verdict(f"at noise {highest:g}, {text}", bool((losses.diff().iloc[1:] > 0).all(axis=None)))
