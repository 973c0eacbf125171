"""What descent learns, and what it does not: a linear rule and a parity (second version, figure 4)

d = 100, 50 000 training and 10 000 test samples. Separable: x ~ N(0, I), y = sign⟨w*, x⟩ with |⟨w*, x⟩| ≥ 0.01.
Parity: x uniform on {−1, +1}^d, y = x_1 x_2 … x_d. GaLU and ReLU networks of one hidden layer, with a trained readout,
Adam at 1e-3, batches of 128, 100 000 iterations, three repeats, all as in the text, which compares several widths
without naming them. The loss is not named either; it is the hinge here.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias._utils.checks import Array
from implicit_bias.extensions.galu import parity, separable
from implicit_bias.metrics import error
from implicit_bias.studies.galu.common import NETWORKS, at_every_size, curves, fits, means, repeats
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, finished, named, panels, product, span

TITLE = "A linear rule is learnt, a parity is not"
SOURCE = "second version, figure 4"
CLAIM = "GaLU and ReLU networks both learn linearly separable data, ReLU visibly better, and neither learns a parity."
#: The test error below which the linear rule is learnt.
LEARNT = 0.1
#: Standard deviations from ½ within which an error is a coin's; a coin leaves them once in 16 000 times.
DEVIATIONS = 4
TASKS = {"separable": "linearly separable", "parity": "parity"}


def grid(quick: bool) -> list[Settings]:
    """Both networks on both tasks, four widths, three repeats; quick: fewer inputs, samples, widths and steps."""
    if quick:
        fixed = {"d": 30, "m": 4000, "fresh": 2000, "margin": 0.01, "bits": 30, "steps": 4000}
    else:
        fixed = {"d": 100, "m": 50_000, "fresh": 10_000, "margin": 0.01, "bits": 100, "steps": 100_000}
    fixed |= {"batch_size": 128, "lr": 1e-3, "repeats": 3, "seed": 1}
    units = (8, 32, 128) if quick else (8, 32, 128, 512)
    return [fixed | cell for cell in product(task=TASKS, network=NETWORKS, units=units)]


def sample(settings: Settings, seed: int) -> tuple[Array, Array]:
    """Training samples, and behind them test samples: X (m + fresh, d), y (m + fresh,)."""
    m = settings["m"] + settings["fresh"]
    if settings["task"] == "parity":
        return parity(m, settings["d"], settings["bits"], seed=seed)
    return separable(m, settings["d"], settings["margin"], seed=seed)


def rows(settings: Settings) -> Rows:
    """For each repeat: train_loss (hinge), train_error and test_error."""
    seeds = repeats(settings)
    samples = [sample(settings, seed) for seed in seeds]
    shapes = [(settings["units"], seed) for seed in seeds]
    found = zip(seeds, fits(settings, shapes, samples, "hinge"), strict=True)
    return [
        {"repeat": seed, "train_loss": loss, "train_error": error(*train), "test_error": error(*test)}
        for seed, (loss, train, test) in found
    ]


def cost(settings: Settings) -> float:
    return settings["steps"] * (3e-4 + 1e-8 * settings["repeats"] * settings["units"] * settings["d"])


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
    return [*_of_rule(table[table.task == "separable"]), _of_parity(table[table.task == "parity"])]


def _of_rule(table: pd.DataFrame) -> list[Verdict]:
    errors, claims = (
        means(table, ["units"], "test_error"),
        ("both networks learn a linear rule", "ReLU errs less on it"),
    )
    if errors.empty:
        return [Verdict.undecided(claim, "both networks at one width") for claim in claims]
    most, ahead = table.test_error.max(), errors["GaLU"] - errors["ReLU"]
    learnt = at_every_size(table.groupby("units").test_error.max() < LEARNT)
    rule = f"test errors of at most {most:.1%}; at k = {errors.index[-1]}: {named(errors.iloc[-1], '.1%')}"
    better = f"GaLU's test error is higher by {span(ahead, '.2%')}".replace("-", "−")
    return [
        Verdict(claims[0], rule, f"below {LEARNT:.0%}", learnt),
        Verdict(claims[1], better, "at every width", at_every_size(ahead > 0)),
    ]


def _of_parity(table: pd.DataFrame) -> Verdict:
    fitted, claim = means(table, ["units"], "train_error"), "neither learns a parity"
    if fitted.empty:
        return Verdict.undecided(claim, "both networks at one width")
    chance = (table.test_error - 0.5).abs() < DEVIATIONS * 0.5 / np.sqrt(table.fresh)
    holds = at_every_size(chance.groupby(table.units).all())
    told = f"{chance.sum()} of {len(table)} test as a coin does ({span(table.test_error, '.1%')}); in training, "
    told += f"at k = {fitted.index[-1]}: {named(fitted.iloc[-1], '.1%')}"
    return Verdict(claim, told, f"all within {DEVIATIONS} standard deviations of 50%", holds)
