"""A linear rule, which descent learns, and a parity, which it does not (second version, figure 4)

Separable: x ~ N(0, I), y = sign⟨w*, x⟩ with |⟨w*, x⟩| ≥ 0.01. Parity: x uniform on {−1, +1}^d, y = x_1 x_2 … x_d. The
paper does not name the loss; here it is the hinge loss.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias._utils.checks import Array
from implicit_bias.extensions.galu import parity, separable
from implicit_bias.metrics import error
from implicit_bias.studies.galu.common import NETWORKS, at_every_size, error_panels, fits, means, repeats
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, claims, finished, named, product, span

TITLE = "A linear rule is learnt, a parity is not"
SOURCE = "second version, figure 4"
CLAIM = "GaLU and ReLU networks both learn linearly separable data, ReLU visibly better, and neither learns a parity."
CLAIMS = claims("galu", "separable")
TASKS = {"separable": "linearly separable", "parity": "parity"}


def grid(quick: bool) -> list[Settings]:
    d, m, fresh, steps = (30, 4000, 2000, 4000) if quick else (100, 50_000, 10_000, 100_000)
    fixed = {"d": d, "m": m, "fresh": fresh, "margin": 0.01, "bits": d, "steps": steps}
    fixed |= {"batch_size": 128, "lr": 1e-3, "repeats": 3, "seed": 1}
    units = (8, 32, 128) if quick else (8, 32, 128, 512)
    return [fixed | cell for cell in product(task=TASKS, network=NETWORKS, units=units)]


def sample(settings: Settings, seed: int) -> tuple[Array, Array]:
    """Return m training samples, followed by `fresh` test samples: X (m + fresh, d) and y (m + fresh,)."""
    make, option = (parity, "bits") if settings["task"] == "parity" else (separable, "margin")
    return make(settings["m"] + settings["fresh"], settings["d"], settings[option], seed=seed)


def rows(settings: Settings) -> Rows:
    """Return a row for each repeat: repeat, train_loss, train_error and test_error."""
    seeds = repeats(settings)
    fitted = fits(settings, seeds, [sample(settings, seed) for seed in seeds], "hinge", settings["network"])
    return [
        {"repeat": seed, "train_loss": loss, "train_error": error(*train), "test_error": error(*test)}
        for seed, (_, loss, train, test) in zip(seeds, fitted, strict=True)
    ]


def cost(settings: Settings) -> float:
    return settings["steps"] * (3e-4 + 1e-8 * settings["repeats"] * settings["units"] * settings["d"])


def draw(table: pd.DataFrame) -> Figure:
    axes = error_panels(TITLE, {title: table[table.task == task] for task, title in TASKS.items()})
    axes[0, 1].axhline(50, linestyle=":", color=COLOURS["theory"], label="chance")
    return finished(axes, below=5)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    decided = [claim.undecided("both networks at one width") for claim in CLAIMS.values()]
    learnt, higher, chance = CLAIMS.values()
    rule, coin = table[table.task == "separable"], table[table.task == "parity"]
    if len(errors := means(rule, ["units"], "test_error")):
        low, gain = rule.groupby("units").test_error.max() < learnt.limits["learnt"], errors["GaLU"] - errors["ReLU"]
        text = f"test errors of at most {rule.test_error.max():.1%}; {_last(errors)}"
        better = f"GaLU's test error is higher by {span(gain, '.2%')}".replace("-", "−")
        decided[:2] = [learnt.verdict(text, at_every_size(low)), higher.verdict(better, at_every_size(gain > 0))]
    if len(fitted := means(coin, ["units"], "train_error")):
        # By chance an error is further than 4 standard deviations from ½ once in 16 000 times.
        near = (coin.test_error - 0.5).abs() < chance.limits["deviations"] * 0.5 / np.sqrt(coin.fresh)
        text = f"{near.sum()} of {len(coin)} test as a coin does ({span(coin.test_error, '.1%')}); in training, "
        decided[2] = chance.verdict(text + _last(fitted), at_every_size(near.groupby(coin.units).all()))
    return decided


def _last(errors: pd.DataFrame) -> str:
    return f"at k = {errors.index[-1]}: {named(errors.iloc[-1], '.1%')}"
