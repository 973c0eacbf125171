"""Repeats, training and evaluation of a cell, and comparison and drawing of results, for all figures."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from implicit_bias._utils.checks import Array
from implicit_bias.datasets.images import ImageClasses
from implicit_bias.extensions.galu import GaLUNetwork
from implicit_bias.networks import ReLUNetwork
from implicit_bias.networks.layers import LayeredNetwork
from implicit_bias.studies.runner import COLOURS, Rows, Settings, band, panels
from implicit_bias.training import sgd
from implicit_bias.training.optimisers import SGD, Adam

T = TypeVar("T")
#: Least number of widths, or other sizes, for a claim about every size to hold.
SIZES = 3
#: Steps between two comparisons of the losses with a target.
LOOK = 500
#: Networks that most claims compare, with a trained readout.
NETWORKS: dict[str, type[GaLUNetwork] | type[ReLUNetwork]] = {"GaLU": GaLUNetwork, "ReLU": ReLUNetwork}


def repeats(settings: Settings) -> range:
    """Return the seeds of a cell's repeats, each for samples, weights and filters: seed, seed + 1, …."""
    return range(settings["seed"], settings["seed"] + settings["repeats"])


def runs(settings: Settings, values: Iterable[T]) -> list[tuple[T, int]]:
    """Return all pairs (value, seed) of values, such as widths or noise levels, and the seeds of the repeats."""
    return [(value, seed) for value in values for seed in repeats(settings)]


def train(
    settings: Settings, networks: Sequence[LayeredNetwork], X: Array, Y: Array, loss: str, target: float | None = None
) -> Array:
    """Train networks in place and together for `steps` steps; return their final losses, shape (networks,).

    The optimiser is Adam, or SGD with a constant rate if the setting `optimiser` is "SGD". Training ends early if all
    losses are below `target`, checked every `LOOK` steps.
    """
    common = {"batch_size": settings.get("batch_size") or settings["batch"], "lr": settings["lr"], "loss": loss}
    plain = settings.get("optimiser") == "SGD"
    config = SGD(settings["steps"], **common, lr_factor=1.0) if plain else Adam(settings["steps"], **common)
    # Evaluating the losses takes time, which only a target needs.
    every = settings["steps"] if target is None else LOOK
    return sgd.train(networks, X, Y, config, target=target, every=every, seed=settings["seed"]).losses


def fits(
    settings: Settings, seeds: Sequence[int], samples: Sequence[Any], loss: str, kind: str
) -> Iterator[tuple[LayeredNetwork, float, tuple[Array, Array], tuple[Array, Array]]]:
    """Train networks on the first m samples of each; yield each, its loss, (scores, labels) of these and the others."""
    m = settings["m"]
    networks = [NETWORKS[kind](settings["d"], settings["units"], seed=seed) for seed in seeds]
    inputs, labels = (np.stack([sample[part][:m] for sample in samples]) for part in (0, 1))
    losses = train(settings, networks, inputs, labels, loss)
    for network, (X, y, *_), value in zip(networks, samples, losses, strict=True):
        scores = network.decision_function(X)
        yield network, float(value), (scores[:m], y[:m]), (scores[m:], y[m:])


def image_rows(
    settings: Settings, images: ImageClasses, networks: Sequence[tuple[dict[str, Any], LayeredNetwork]], *parts: str
) -> Rows:
    """Train all networks; return a row of each: its columns, train_loss, and PART_error for each of `parts`."""
    losses = train(settings, [network for _, network in networks], images.X_train, images.y_train, "logistic")
    table = []
    for (name, network), loss in zip(networks, losses, strict=True):
        table.append(name | {"train_loss": float(loss)})
        for part in parts:
            chosen = network.decision_function(getattr(images, f"X_{part}")).argmax(axis=1)
            table[-1][f"{part}_error"] = float(np.mean(chosen != getattr(images, f"y_{part}")))
    return table


def trained_by(optimiser: str, table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows trained by `optimiser`, "SGD" or "Adam"; rows without a value count as "Adam"."""
    named = table.get("optimiser", pd.Series(index=table.index, dtype=object)).fillna("Adam")
    return table[named == optimiser]


def at_every_size(holds: pd.Series) -> bool | None:
    """Return False if any value is false, True if there are at least `SIZES` values, else None."""
    return False if not holds.all() else True if len(holds) >= SIZES else None


def means(
    table: pd.DataFrame, places: list[str], column: str, kinds: Iterable[str] = tuple(NETWORKS), by: str = "network"
) -> pd.DataFrame:
    """Return the means of a column: a row for each combination of values of `places`, a column for each of `kinds`.

    `by` is the column that contains the kinds. Combinations without a value of every kind are omitted.

    >>> fits = pd.DataFrame({"units": [8, 8, 9], "network": ["GaLU", "ReLU", "ReLU"], "loss": [0.5, 0.25, 0.1]})
    >>> means(fits, ["units"], "loss").to_dict("index")
    {8: {'GaLU': 0.5, 'ReLU': 0.25}}
    """
    return table.pivot_table(column, index=places, columns=by).reindex(columns=list(kinds)).dropna()


def curves(ax: Axes, values: pd.DataFrame, column: str, times: float = 1) -> None:
    """Plot train_COLUMN (dashed) and test_COLUMN of every network, multiplied by `times`, against the index."""
    for network, subset in values.groupby("network"):
        for part, style in {"train": "--", "test": "-"}.items():
            look = {"color": COLOURS[str(network)], "linestyle": style, "label": f"{network}, {part}"}
            band(ax, times * subset[f"{part}_{column}"], **look)


def error_panels(title: str, parts: Mapping[str, pd.DataFrame]) -> Any:
    """Return the axes with a panel for each of `parts`: training and test errors in percent against the width."""
    axes = panels(title, columns=len(parts))
    for ax, (name, part) in zip(axes[0], parts.items(), strict=True):
        curves(ax, part.set_index("units"), "error", times=100)
        ax.set(title=name, xlabel="units $k$", ylabel="error (%)")
        ax.set_xscale("log", base=2)
    return axes
