"""Do networks over-fit noisy labels of clusters? (first version, figure 3)

Noisy clusters (`datasets.noisy_clusters`), n = k = d = 30, m = 1000 training and 9000 test samples, σ_x = 0.1: labels
b_i + σ_y N(0, 1) with b_i ~ N(0, 1), or ±1 flipped with probability p. GaLU and ReLU networks with a trained readout,
Adam at 1e-3, batches of 128; squared loss, or hinge loss. No predictor expects less on fresh noisy labels than σ_y²,
hinge loss 2p, error p (p ≤ ½).

The text names the sizes, and neither noise levels, repeats, optimiser nor steps: five levels and four repeats, after
100 000 iterations, are ours. Its caption says that more SGD steps mean a larger test error in regression; so there are
1000, 4000 and 16 000 iterations as well, and all four by plain SGD at 0.1. All levels of a repeat share samples, noise
and first weights.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.extensions.galu import Clusters, noisy_clusters
from implicit_bias.metrics import error
from implicit_bias.studies.galu.common import NETWORKS, curves, fits, means, runs, trained_by
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, finished, named, panels, product, span

TITLE = "Noisy labels of clusters"
SOURCE = "first version, figure 3"
CLAIM = "GaLU and ReLU networks over-fit noisy labels of clusters alike, and generalise where there is little noise."
#: The largest σ_y, and the largest p.
MOST_NOISE = {"regression": 1.0, "classification": 0.5}
LOSSES = {"regression": "squared", "classification": "hinge"}
#: How many times ReLU's test loss GaLU's is, at least and at most, where they over-fit alike.
LEAST, MOST = 0.5, 2.0
#: What test losses without noise stay below where networks generalise.
LEARNT = 0.1
#: What a panel shows: task, measure, name, and the least that is expected at a noise level.
PANELS: tuple[tuple[str, str, str, Callable[[Any], Any]], ...] = (
    ("regression", "loss", "mean squared error", np.square),
    ("classification", "loss", "hinge loss", lambda p: 2 * p),
    ("classification", "error", "error", lambda p: p),
)


def grid(quick: bool) -> list[Settings]:
    """Both networks and tasks, in regression after fewer steps too; five noise levels, four repeats; quick: fewer."""
    fixed = {"clusters": 30, "d": 30, "units": 30, "m": 1000, "fresh": 9000, "sigma_x": 0.1, "batch_size": 128}
    fixed |= {"lr": 2e-3 if quick else 1e-3, "levels": 3 if quick else 5}
    early, steps = ((500,), 8000) if quick else ((1000, 4000, 16_000), 100_000)
    common = {"network": NETWORKS, "repeats": (2 if quick else 4,), "seed": (1,)}
    cells = product(task=MOST_NOISE, steps=(steps,), **common) + product(task=("regression",), steps=early, **common)
    sgd = {"optimiser": ("SGD",), "lr": (0.1,)}
    cells += product(task=("regression",), steps=(*early, steps), **common, **sgd)
    return [fixed | {"most_noise": MOST_NOISE[cell["task"]]} | cell for cell in cells]


def sample(settings: Settings, noise: float, seed: int) -> Clusters:
    """Training samples, and behind them test samples of the same clusters."""
    c, kind = settings, {"flip": noise} if settings["task"] == "classification" else {"sigma_y": noise}
    return noisy_clusters(c["m"] + c["fresh"], c["clusters"], c["d"], c["sigma_x"], **kind, seed=seed)


def rows(settings: Settings) -> Rows:
    """For each noise and repeat: train_loss, test_loss, and in classification train_error and test_error."""
    levels = np.linspace(0.0, settings["most_noise"], settings["levels"]).tolist()
    pairs, loss = runs(settings, levels), LOSSES[settings["task"]]
    samples = [sample(settings, noise, seed) for noise, seed in pairs]
    shapes = [(settings["units"], seed) for _, seed in pairs]
    found = []
    for (noise, seed), (_, *parts) in zip(pairs, fits(settings, shapes, samples, loss), strict=True):
        row = {"noise": noise, "repeat": seed}
        for name, (f, b) in zip(("train", "test"), parts, strict=True):
            each = (f - b) ** 2 if loss == "squared" else np.maximum(0.0, 1 - b * f)
            row[f"{name}_loss"] = float(each.mean())
            row[f"{name}_error"] = float("nan") if loss == "squared" else error(f, b)
        found.append(row)
    return found


def cost(settings: Settings) -> float:
    return settings["steps"] * (3e-4 + 2e-5 * settings["levels"] * settings["repeats"])


def draw(table: pd.DataFrame) -> Figure:
    """After the most steps, training (dashed) and test values against the noise, and the least that is expected."""
    table = latest(table)
    axes = panels(TITLE, columns=len(PANELS))
    for ax, (task, measure, text, least) in zip(axes[0], PANELS, strict=True):
        part = table[table.task == task]
        curves(ax, part.set_index("noise"), measure)
        if len(part):
            levels = np.linspace(part.noise.min(), part.noise.max(), 50)
            ax.plot(levels, least(levels), ":", color=COLOURS["theory"], label="best possible test")
        noise = "noise of labels $\\sigma_y$" if task == "regression" else "flipped labels $p$"
        ax.set(title=task, xlabel=noise, ylabel=text)
    return finished(axes, below=5)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """After the most steps, who over-fits, how much, and who generalises; and what the steps do in regression."""
    every, table = table, latest(table)
    losses = table.groupby(["task", "noise", "network"])[["train_loss", "test_loss"]].mean()
    best = {task: least for task, measure, _, least in PANELS if measure == "loss"}
    losses["least"] = [float(best[task](noise)) for task, noise, _ in losses.index]
    noise = losses.index.get_level_values("noise")
    noisy, quiet = losses[noise > 0], losses[noise == 0].test_loss.max()
    pairs = means(noisy, ["task", "noise"], "test_loss")
    if pairs.empty or np.isnan(quiet):
        return [Verdict.undecided(CLAIM, "both networks, with and without noise")]
    over = (noisy.train_loss < noisy.least) & (noisy.test_loss > noisy.least)
    (task, level), ratios = pairs.index[-1], pairs["GaLU"] / pairs["ReLU"]
    last = losses.loc[(task, level)]
    ends = f"{named(last.train_loss, '.3g')} in training; {named(last.test_loss, '.3g')} in test"
    possible = f"{task} at noise {level:g}, where {last.least.iloc[0]:.3g} is possible"
    told = f"{over.sum()} of {len(over)} mean losses; in {possible}: {ends}"
    beyond = "all below the best possible in training and above it in test"
    between = f"between {LEAST} and {MOST} times ReLU's"
    alike = bool(ratios.min() > LEAST and ratios.max() < MOST)
    return [
        Verdict("both networks over-fit noisy labels", told, beyond, bool(over.all())),
        Verdict("GaLU over-fits as ReLU does", f"test losses {span(ratios, '.2f')} times ReLU's", between, alike),
        Verdict(
            "both generalise without noise", f"at most {quiet:.2g} in test", f"below {LEARNT}", bool(quiet < LEARNT)
        ),
        *(by_steps(every, optimiser) for optimiser in ("SGD", "Adam")),
    ]


def latest(table: pd.DataFrame) -> pd.DataFrame:
    """What Adam gave after the most steps."""
    table = trained_by("Adam", table)
    return table[table.steps == table.steps.max()]


def by_steps(table: pd.DataFrame, optimiser: str) -> Verdict:
    """Whether the test loss at the most noise grows with the steps of an optimiser, in regression."""
    table = trained_by(optimiser, table)
    claim, part = f"in regression, more {optimiser} steps mean larger test error", table[table.task == "regression"]
    noisy = part[part.noise == part.noise.max()]
    losses = means(noisy, ["steps"], "test_loss")
    if len(losses) < 2:
        return Verdict.undecided(claim, "both networks at two numbers of steps")
    told = "; ".join(f"{steps} steps: {named(row, '.2f')}" for steps, row in losses.iterrows())
    rising = bool((losses.diff().iloc[1:] > 0).all(axis=None))
    return Verdict(
        claim, f"at noise {noisy.noise.max():g}, {told}", "rising at every step up, in both networks", rising
    )
