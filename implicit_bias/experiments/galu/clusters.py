"""Do networks over-fit noisy labels of clusters? (first version, figure 3)

Noisy clusters (`datasets.noisy_clusters`), n = k = d = 30, m = 1000 training and 9000 test samples, σ_x = 0.1: labels
b_i + σ_y N(0, 1) with b_i ~ N(0, 1), or ±1 flipped with probability p. GaLU and ReLU networks with a trained readout,
Adam at 1e-3, batches of 128, 100 000 iterations; squared loss, or hinge loss. No predictor expects less on fresh noisy
labels than σ_y², hinge loss 2p, error p (p ≤ ½).

The paper has 16 repeats of more noise levels; here are four of five levels, as a repeat of a level takes about ten
seconds of one core for each network and task. All levels of a repeat share samples, noise and first weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.comparison import error
from implicit_bias.datasets import Clusters, noisy_clusters
from implicit_bias.experiments.galu.gaussian import NETWORKS, repeats
from implicit_bias.experiments.runner.drawing import COLOURS, band, panels
from implicit_bias.experiments.runner.experiment import Experiment, Rows, Settings, product
from implicit_bias.training.stacked import Adam, train_together

#: The largest σ_y, and the largest p.
MOST_NOISE = {"regression": 1.0, "classification": 0.5}
LOSSES = {"regression": "squared", "classification": "hinge"}
#: What a panel shows: task, measure, name, and the least that is expected at a noise level.
PANELS: tuple[tuple[str, str, str, Callable[[Any], Any]], ...] = (
    ("regression", "loss", "mean squared error", np.square),
    ("classification", "loss", "hinge loss", lambda p: 2 * p),
    ("classification", "error", "error", lambda p: p),
)


def grid(quick: bool) -> list[Settings]:
    """Both networks on both tasks; five noise levels, four repeats; quick: three levels, two repeats, fewer steps."""
    fixed = {"clusters": 30, "d": 30, "units": 30, "m": 1000, "fresh": 9000, "sigma_x": 0.1, "batch_size": 128}
    fixed |= {"steps": 8000 if quick else 100_000, "lr": 2e-3 if quick else 1e-3, "levels": 3 if quick else 5}
    cells = product(task=MOST_NOISE, network=NETWORKS, repeats=(2 if quick else 4,), seed=(1,))
    return [fixed | {"most_noise": MOST_NOISE[cell["task"]]} | cell for cell in cells]


def sample(settings: Settings, noise: float, seed: int) -> Clusters:
    """Training samples, and behind them test samples of the same clusters."""
    c, kind = settings, {"flip": noise} if settings["task"] == "classification" else {"sigma_y": noise}
    return noisy_clusters(c["m"] + c["fresh"], c["clusters"], c["d"], c["sigma_x"], **kind, seed=seed)


def rows(settings: Settings) -> Rows:
    """For each noise and repeat: train_loss, test_loss, and in classification train_error and test_error."""
    levels = np.linspace(0.0, settings["most_noise"], settings["levels"]).tolist()
    pairs = [(noise, seed) for noise in levels for seed in repeats(settings)]
    samples = [sample(settings, noise, seed) for noise, seed in pairs]
    m, loss = settings["m"], LOSSES[settings["task"]]
    build = NETWORKS[settings["network"]]
    networks = [build(settings["d"], settings["units"], seed=seed) for _, seed in pairs]
    config = Adam(settings["steps"], settings["batch_size"], settings["lr"], loss)
    inputs, labels = np.stack([s.X[:m] for s in samples]), np.stack([s.y[:m] for s in samples])
    train_together(networks, inputs, labels, config, every=settings["steps"], seed=settings["seed"])
    found = []
    for (noise, seed), network, (X, y, *_) in zip(pairs, networks, samples, strict=True):
        row, scores = {"noise": noise, "repeat": seed}, network.decision_function(X)
        for name, part in {"train": slice(m), "test": slice(m, None)}.items():
            f, b = scores[part], y[part]
            each = (f - b) ** 2 if loss == "squared" else np.maximum(0.0, 1 - b * f)
            row[f"{name}_loss"] = float(each.mean())
            row[f"{name}_error"] = float("nan") if loss == "squared" else error(f, b)
        found.append(row)
    return found


def cost(settings: Settings) -> float:
    """A part for each step, and one for each network's share of it."""
    return settings["steps"] * (1e-3 + 6e-5 * settings["levels"] * settings["repeats"])


def draw(table: pd.DataFrame) -> Figure:
    """Training (dashed) and test values of both networks against the noise, and the least that is expected."""
    with panels(EXPERIMENT.title, columns=len(PANELS)) as axes:
        for ax, (task, measure, text, least) in zip(axes[0], PANELS, strict=True):
            part = table[table.task == task]
            for network, own in part.groupby("network"):
                for name, style in {"train": "--", "test": "-"}.items():
                    values = own.set_index("noise")[f"{name}_{measure}"]
                    band(ax, values, color=COLOURS[str(network)], linestyle=style, label=f"{network}, {name}")
            if len(part):
                levels = np.linspace(part.noise.min(), part.noise.max(), 50)
                ax.plot(levels, least(levels), ":", color=COLOURS["theory"], label="best possible test")
            noise = "noise of labels $\\sigma_y$" if task == "regression" else "flipped labels $p$"
            ax.set(title=task, xlabel=noise, ylabel=text)
        figure: Figure = axes[0, 0].figure
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return figure


def overfit(table: pd.DataFrame) -> pd.DataFrame:
    """Mean train_loss and test_loss and the `least` test loss of every task, network and noise.

    >>> import pandas as pd
    >>> from implicit_bias.experiments.galu.clusters import overfit
    >>> cells = pd.DataFrame({"task": "regression", "network": "GaLU", "noise": [0.5], "repeat": 1})
    >>> overfit(cells.assign(train_loss=0.1, test_loss=0.9)).iloc[0].tolist()
    [0.1, 0.9, 0.25]
    """
    means = table.groupby(["task", "noise", "network"])[["train_loss", "test_loss"]].mean()
    least = {task: function for task, measure, _, function in PANELS if measure == "loss"}
    return means.assign(least=[float(least[task](noise)) for task, noise, _ in means.index])


def finding(table: pd.DataFrame) -> str:
    """Whether both fall below the best possible loss in training and not in test, by how much, and without noise."""
    means = overfit(table)
    noise = means.index.get_level_values("noise")
    noisy, quiet = means[noise > 0], means[noise == 0]
    pairs = noisy.test_loss.unstack().dropna()
    if not len(quiet) or not {"GaLU", "ReLU"} <= set(pairs.columns) or not len(pairs):
        return "Undecided: no cells of both networks, with and without noise."
    ratios = pairs["GaLU"] / pairs["ReLU"]
    both = (noisy.train_loss < noisy.least) & (noisy.test_loss > noisy.least)
    learnt, alike = quiet.test_loss.max() < 0.1, ratios.min() > 0.5 and ratios.max() < 2
    word = "No" if not both.any() else "Yes" if both.all() and learnt and alike else "Partly"
    task, level = pairs.index[-1]
    last = means.loc[(task, level)]
    named = {name: " and ".join(f"{last[name][n]:.3g} ({n})" for n in NETWORKS) for name in ("train_loss", "test_loss")}
    return (
        f"{word}: {both.sum()} of {len(both)} mean losses under noise are below the best possible in training and "
        f"above it in test; in {task} at noise {level:g} they end at {named['train_loss']} in training and "
        f"{named['test_loss']} in test, where {last.least.iloc[0]:.3g} is possible; GaLU's test losses are "
        f"{ratios.min():.2f} to {ratios.max():.2f} times ReLU's, and without noise none exceeds "
        f"{quiet.test_loss.max():.2g}."
    )


EXPERIMENT = Experiment(
    name="clusters",
    title="Noisy labels of clusters",
    source="first version, figure 3",
    claim="GaLU and ReLU networks over-fit noisy labels of clusters alike, and generalise where there is little noise.",
    grid=grid,
    rows=rows,
    cost=cost,
    draw=draw,
    finding=finding,
)
