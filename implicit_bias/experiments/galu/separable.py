"""What descent learns, and what it does not: a linear rule and a parity (second version, figure 4)

d = 100, 50 000 training and 10 000 test samples. Separable: x ~ N(0, I), y = sign⟨w*, x⟩ with |⟨w*, x⟩| ≥ 0.01.
Parity: x uniform on {−1, +1}^d, y = x_1 x_2 … x_50. GaLU and ReLU networks of one hidden layer, with a trained readout,
hinge loss and Adam at 1e-3, batches of 128.

The paper draws errors against iterations; here they are drawn against the number of units, after 10 000 iterations (26
epochs), because wide networks memorise parities. Half of the inputs are in the parity; which ones does not matter to
networks whose first weights are Gaussian.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.comparison import error
from implicit_bias.datasets import parity, separable
from implicit_bias.experiments.galu.common import NETWORKS, curves, fits, means, repeats, runs
from implicit_bias.experiments.runner import COLOURS, Rows, Settings, Verdict, finished, named, panels, product, span
from implicit_bias.ground.checks import Array

TITLE = "A linear rule is learnt, a parity is not"
SOURCE = "second version, figure 4"
CLAIM = "GaLU and ReLU networks learn linearly separable data alike, and neither learns a parity."
#: A stack's widths are its widest divided by powers of this.
STEP = 4
#: Test errors below which the linear rule is learnt, and less than which apart it is learnt alike.
LEARNT, ALIKE = 0.1, 0.02
#: Standard deviations from ½ within which an error is a coin's; a coin leaves them once in 16 000 times.
DEVIATIONS = 4
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
    pairs = runs(settings, widths)
    samples = {seed: sample(settings, seed) for seed in repeats(settings)}
    found = zip(pairs, fits(settings, pairs, [samples[seed] for _, seed in pairs], "hinge"), strict=True)
    return [
        {"units": k, "repeat": seed, "train_loss": loss, "train_error": error(*train), "test_error": error(*test)}
        for (k, seed), (loss, train, test) in found
    ]


def cost(settings: Settings) -> float:
    """A part for each step, and one for each network's share of it."""
    networks = settings["widths"] * settings["repeats"]
    return settings["steps"] * (1.5e-3 + 2e-8 * networks * settings["widest"] * settings["d"])


def draw(table: pd.DataFrame) -> Figure:
    """Training (dashed) and test errors of both networks against their width, a panel for each task."""
    axes = panels(TITLE, columns=len(TASKS))
    for ax, (task, title) in zip(axes[0], TASKS.items(), strict=True):
        curves(ax, table[table.task == task].set_index("units"), "error", times=100)
        ax.set(title=title, xlabel="units $k$", ylabel="error (%)")
        ax.set_xscale("log", base=2)
        if task == "parity":
            ax.axhline(50, linestyle=":", color=COLOURS["theory"], label="chance")
    return finished(axes, below=5)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Errors on the linear rule, and whether any network's test error on the parity differs from a coin's."""
    linear, odd = (table[table.task == task] for task in TASKS)
    errors, fitted = means(linear, ["units"], "test_error"), means(odd, ["units"], "train_error")
    if errors.empty or fitted.empty:
        return [Verdict.undecided(CLAIM, "both networks on both tasks")]
    most, apart = linear.test_error.max(), (errors["GaLU"] - errors["ReLU"]).abs().max()
    chance = (odd.test_error - 0.5).abs() < DEVIATIONS * 0.5 / np.sqrt(odd.fresh)
    widest, trained = (f"at k = {part.index[-1]}: {named(part.iloc[-1], '.1%')}" for part in (errors, fitted))
    rule = f"test errors of at most {most:.1%}; {widest}"
    coins = f"{chance.sum()} of {len(odd)} test as a coin does ({span(odd.test_error, '.1%')}); in training, {trained}"
    coin = f"all within {DEVIATIONS} standard deviations of 50%"
    return [
        Verdict("both networks learn a linear rule", rule, f"below {LEARNT:.0%}", bool(most < LEARNT)),
        Verdict("their errors on it agree", f"at most {apart:.1%} apart", f"below {ALIKE:.0%}", bool(apart < ALIKE)),
        Verdict("neither learns a parity", coins, coin, bool(chance.all())),
    ]
