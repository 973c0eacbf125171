"""What descent learns, and what it does not: a linear rule and a parity (second version, figure 4)

d = 100, 50 000 training and 10 000 test samples. Separable: x ~ N(0, I), y = sign⟨w*, x⟩ with |⟨w*, x⟩| ≥ 0.01.
Parity: x uniform on {−1, +1}^d, y = x_1 x_2 … x_50. GaLU and ReLU networks of one hidden layer, with a trained readout,
hinge loss and Adam at 1e-3, batches of 128.

The paper draws errors against iterations; here they are drawn against the number of units, after 10 000 iterations (26
epochs), because wide networks memorise parities. Half of the inputs are in the parity; which ones does not matter to
networks whose first weights are Gaussian.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.comparison import error
from implicit_bias.datasets import parity, separable
from implicit_bias.experiments.galu.gaussian import NETWORKS, repeats
from implicit_bias.experiments.runner.drawing import COLOURS, band, panels
from implicit_bias.experiments.runner.experiment import Experiment, Rows, Settings, product
from implicit_bias.ground.checks import Array
from implicit_bias.training.stacked import Adam, train_together

#: A stack's widths are its widest divided by powers of this.
STEP = 4
TASKS = {"separable": "linearly separable", "parity": "parity"}


def grid(quick: bool) -> list[Settings]:
    """Both networks on both tasks, four widths, two repeats; quick: fewer inputs, samples and steps, three widths."""
    if quick:
        fixed = {"d": 30, "m": 4000, "fresh": 2000, "margin": 0.01, "bits": 15, "steps": 4000}
    else:
        fixed = {"d": 100, "m": 50_000, "fresh": 10_000, "margin": 0.01, "bits": 50, "steps": 10_000}
    fixed |= {"batch_size": 128, "lr": 1e-3, "repeats": 2, "seed": 1}
    # What trains together is filled up to its widest network.
    stacks = [{"widest": 128, "widths": 3}] if quick else [{"widest": 128, "widths": 3}, {"widest": 512, "widths": 1}]
    return [fixed | cell | stack for cell in product(task=TASKS, network=NETWORKS) for stack in stacks]


def sample(settings: Settings, seed: int) -> tuple[Array, Array]:
    """Training samples, and behind them test samples: X (m + fresh, d), y (m + fresh,)."""
    m = settings["m"] + settings["fresh"]
    if settings["task"] == "parity":
        return parity(m, settings["d"], settings["bits"], seed=seed)
    return separable(m, settings["d"], settings["margin"], seed=seed)


def rows(settings: Settings) -> Rows:
    """For each width and repeat: train_loss (hinge), train_error and test_error."""
    widths = [settings["widest"] // STEP**power for power in reversed(range(settings["widths"]))]
    pairs = [(units, seed) for units in widths for seed in repeats(settings)]
    samples = {seed: sample(settings, seed) for seed in repeats(settings)}
    m, build = settings["m"], NETWORKS[settings["network"]]
    networks = [build(settings["d"], units, seed=seed) for units, seed in pairs]
    inputs, labels = (np.stack([samples[seed][part][:m] for _, seed in pairs]) for part in (0, 1))
    config = Adam(settings["steps"], settings["batch_size"], settings["lr"], "hinge")
    training = train_together(networks, inputs, labels, config, every=settings["steps"], seed=settings["seed"])
    found = []
    for (units, seed), network, loss in zip(pairs, networks, training.losses, strict=True):
        X, y = samples[seed]
        scores = network.decision_function(X)
        row = {"units": units, "repeat": seed, "train_loss": float(loss)}
        found.append(row | {"train_error": error(scores[:m], y[:m]), "test_error": error(scores[m:], y[m:])})
    return found


def cost(settings: Settings) -> float:
    """A part for each step, and one for each network's share of it."""
    networks = settings["widths"] * settings["repeats"]
    return settings["steps"] * (1.5e-3 + 2e-8 * networks * settings["widest"] * settings["d"])


def draw(table: pd.DataFrame) -> Figure:
    """Training (dashed) and test errors of both networks against their width, a panel for each task."""
    with panels(EXPERIMENT.title, columns=len(TASKS)) as axes:
        for ax, (task, title) in zip(axes[0], TASKS.items(), strict=True):
            for network, own in table[table.task == task].groupby("network"):
                for name, style in {"train": "--", "test": "-"}.items():
                    values = 100 * own.set_index("units")[f"{name}_error"]
                    band(ax, values, color=COLOURS[str(network)], linestyle=style, label=f"{network}, {name}")
            ax.set(title=title, xlabel="units $k$", ylabel="error (%)")
            ax.set_xscale("log", base=2)
            if task == "parity":
                ax.axhline(50, linestyle=":", color=COLOURS["theory"], label="chance")
        figure: Figure = axes[0, 0].figure
        handles = {line.get_label(): line for ax in axes[0] for line in ax.get_lines()}
        figure.legend(handles=handles.values(), loc="outside lower center", ncols=5, frameon=False)
    return figure


def finding(table: pd.DataFrame) -> str:
    """Errors on the linear rule, and whether any network's test error on the parity differs from a coin's."""
    linear, odd = (table[table.task == task] for task in TASKS)
    errors = linear.groupby(["units", "network"]).test_error.mean().unstack().dropna()
    if not {"GaLU", "ReLU"} <= set(errors.columns) or not len(errors) or set(odd.network) != set(NETWORKS):
        return "Undecided: no cells of both networks on both tasks."
    apart = (errors["GaLU"] - errors["ReLU"]).abs().max()
    # A coin's test error leaves this interval once in 16 000 times.
    chance = (odd.test_error - 0.5).abs() < 4 * 0.5 / np.sqrt(odd.fresh)
    learnt, alike = linear.test_error.max() < 0.1, apart < 0.02
    word = "Yes" if learnt and alike and chance.all() else "Partly" if chance.all() or learnt else "No"
    least = odd.groupby(["network", "units"]).train_error.mean().unstack("network").iloc[-1]
    widest = errors.iloc[-1]
    return (
        f"{word}: on the linear rule test errors are at most {linear.test_error.max():.1%} "
        f"(k = {errors.index[-1]}: GaLU {widest['GaLU']:.1%}, ReLU {widest['ReLU']:.1%}; at most {apart:.1%} apart), "
        f"and on the parity {chance.sum()} of {len(odd)} networks test as a coin does ({odd.test_error.min():.1%} to "
        f"{odd.test_error.max():.1%}), though at k = {least.name} training errors are {least['GaLU']:.1%} (GaLU) and "
        f"{least['ReLU']:.1%} (ReLU)."
    )


EXPERIMENT = Experiment(
    name="separable",
    title="A linear rule is learnt, a parity is not",
    source="second version, figure 4",
    claim="GaLU and ReLU networks learn linearly separable data alike, and neither learns a parity.",
    grid=grid,
    rows=rows,
    cost=cost,
    draw=draw,
    finding=finding,
)
