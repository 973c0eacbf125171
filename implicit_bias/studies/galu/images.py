"""Is GaLU0 close to ReLU on images? (first version, figure 1)

Inputs are 64 principal components, with unit variance, of MNIST and Fashion-MNIST, and a constant 1 in place of biases.
Networks have two hidden layers of k units: ReLU, GaLU0 with soft gates, linear, and ReLU with only the readout trained.
Networks of one kind and sharpness train together. The sharpness of the gates is chosen by the error on held-out
training images, for each data set and k.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.datasets.images import ImageClasses
from implicit_bias.extensions.galu import GaLU0Network
from implicit_bias.networks import LinearNetwork, ReadoutNetwork, ReLUNetwork
from implicit_bias.networks.layers import LayeredNetwork
from implicit_bias.studies.galu.common import image_rows, means, runs
from implicit_bias.studies.runner import Rows, Settings, Verdict, claims, named, product, span
from implicit_bias.studies.runner.cells import image_classes
from implicit_bias.studies.runner.drawing import COLOURS, DATASETS, band, finished, panels
from implicit_bias.studies.runner.mean_test import student_interval
from implicit_bias.studies.runner.verdicts import Claim

TITLE = "Networks of two hidden layers on images"
SOURCE = "first version, figure 1"
CLAIM = (
    "GaLU0 networks do about as well as ReLU networks of their size, both better than linear networks, and far better "
    "than ReLU networks of which the readout only is trained."
)
CLASSES = 10
CLAIMS = claims("galu", "images")
BUILD = {"ReLU": ReLUNetwork, "GaLU0": GaLU0Network, "linear": LinearNetwork, "readout": ReadoutNetwork}
#: Pairs of a network and the sharpness of its gates; 0: hard gates, or no gates.
KINDS = (("ReLU", 0.0), ("GaLU0", 0.0), ("GaLU0", 1.0), ("GaLU0", 2.0), ("linear", 0.0), ("readout", 0.0))
NAMES = {"ReLU": "ReLU", "GaLU0": "GaLU0", "linear": "linear", "readout": "readout only"}
SHADES = {"ReLU": "orange", "GaLU0": "blue", "linear": "green", "readout": "purple"}
data = image_classes


def grid(quick: bool) -> list[Settings]:
    fixed: Settings = {"steps": 2000 if quick else 10_000, "batch_size": 128, "layers": 2}
    fixed |= {"components": 10 if quick else 64, "held_out": 200 if quick else 5000}
    fixed |= {"widest": 48 if quick else 96, "widths": 3 if quick else 6, "repeats": 2, "seed": 1}
    cells = product(lr=(3e-3,), dataset=("digits",) if quick else ("mnist", "fashion-mnist"))
    every = [fixed | cell | {"network": name, "sharpness": s} for cell in cells for name, s in KINDS]
    return [cell | ({"widths": 3} if cell["network"] == "GaLU0" and not cell["sharpness"] else {}) for cell in every]


def rows(settings: Settings, images: ImageClasses) -> Rows:
    """Return a row for each width and repeat: units, repeat, train_loss, held_out_error and test_error."""
    widths = np.linspace(0, settings["widest"], settings["widths"] + 1)[1:].astype(int).tolist()
    networks = [
        ({"units": units, "repeat": seed}, _network(settings, images.X_train.shape[1], units, seed))
        for units, seed in runs(settings, widths)
    ]
    return image_rows(settings, images, networks, "held_out", "test")


def _network(settings: Settings, inputs: int, units: int, seed: int) -> LayeredNetwork:
    options: dict[str, Any] = {"sharpness": settings["sharpness"]} if settings["sharpness"] else {}
    return BUILD[settings["network"]](inputs, [units] * settings["layers"], outputs=CLASSES, seed=seed, **options)


def cost(settings: Settings) -> float:
    networks = settings["widths"] * settings["repeats"]
    return settings["steps"] * (5e-4 + 2.5e-8 * networks * settings["widest"] ** 2)


def chosen(table: pd.DataFrame) -> pd.DataFrame:
    """Return, for each data set, network and width, the rows of least held-out error; GaLU0 only with soft gates."""
    place, setting = ["dataset", "network", "units"], ["lr", "sharpness"]
    table = table[(table.network != "GaLU0") | (table.sharpness > 0)]
    means = table.groupby(place + setting, as_index=False).held_out_error.mean()
    best = means.loc[means.groupby(place).held_out_error.idxmin(), place + setting]
    return table.merge(best, on=place + setting)


def draw(table: pd.DataFrame) -> Figure:
    best, names = chosen(table), list(table.dataset.unique())
    axes = panels(TITLE, columns=len(names))
    for ax, name in zip(axes[0], names, strict=True):
        for network in BUILD:
            subset = best[(best.dataset == name) & (best.network == network)].set_index("units")
            if len(subset):
                band(ax, 100 * subset.test_error, color=COLOURS[SHADES[network]], label=NAMES[network])
        ax.set(title=DATASETS[name], xlabel="units of each hidden layer $k$", ylabel="test error (%)", yscale="log")
        ax.set_yticks([2, 5, 10, 20, 50], labels=["2", "5", "10", "20", "50"])
        ax.minorticks_off()
    return finished(axes, below=len(BUILD))


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    errors, decided = means(chosen(table), ["dataset", "units"], "test_error", BUILD), []
    similar, linear, readout, soft = CLAIMS.values()
    for name in table.dataset[table.dataset.isin(errors.index.unique("dataset"))].unique():
        of, data = errors.loc[name], DATASETS[name]
        near = (of["GaLU0"] - of["ReLU"]) < (of[["linear", "readout"]].min(axis=1) - of["GaLU0"])
        text = f"at {near.sum()} of {len(near)} widths; test errors at k = {of.index[-1]}: "
        text += named(of.iloc[-1].rename(NAMES), ".1%")
        decided.append(similar.verdict(text, bool(near.all()), data=data))
        both = of[["GaLU0", "ReLU"]].max(axis=1)
        lower, ratio = both < of["linear"], of["readout"] / both
        decided.append(linear.verdict(f"at {lower.sum()} of {len(lower)} widths", bool(lower.all()), data=data))
        times, holds = f"{span(ratio, '.1f')} times", bool(ratio.min() >= readout.limits["least"])
        decided.append(readout.verdict(f"{times} the larger of the two", holds, data=data))
        decided.append(_soft_against_hard(soft, table[table.dataset == name], data))
    return decided or [claim.undecided("all four networks at one width", data="images") for claim in CLAIMS.values()]


def _soft_against_hard(claim: Claim, table: pd.DataFrame, data: str) -> Verdict:
    gated = table[(table.network == "GaLU0") & table.sharpness.isin((0, 1))]
    pairs = gated.pivot_table("test_error", ["units", "repeat"], "sharpness").reindex(columns=[0, 1]).dropna()
    if len(pairs) < 2:
        return claim.undecided("soft and hard gates of two networks", data=data)
    gain = 100 * (pairs[0] - pairs[1])
    low, high = student_interval(gain, claim.limits["level"])
    text = f"hard gates {pairs[0].mean():.2%}, sigmoid {pairs[1].mean():.2%}; difference {gain.mean():.2f} "
    text += f"[{low:.2f}, {high:.2f}], {len(gain)} pairs"
    return claim.verdict(text.replace("-", "−"), True if low > 0 else False if high < 0 else None, data=data)
