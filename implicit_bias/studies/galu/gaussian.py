"""Gaussian samples with Gaussian targets, networks fitted to them, and plots of their losses, for several figures.

X of shape (m, d) and Y of shape (m, q) have entries N(0, 1), drawn again in every repeat. Networks have one hidden
layer and a trained readout; all widths and repeats of a cell train together.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias._utils.checks import Array
from implicit_bias.extensions.galu import LeastSquares, least_squares
from implicit_bias.networks.layers import LayeredNetwork
from implicit_bias.studies.galu.common import NETWORKS, repeats, runs, train
from implicit_bias.studies.runner import COLOURS, Rows, Settings, band, finished, panels

#: Training of networks in full runs.
ADAM = {"steps": 100_000, "batch": 128, "lr": 1e-3}


def samples(settings: Settings, seed: int) -> tuple[Array, Array]:
    """Return standard normal X (m, d) and Y (m, q) of the repeat with this seed."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(settings["m"], settings["d"])), rng.normal(size=(settings["m"], settings.get("outputs", 1)))


def widths(settings: Settings, shares: Iterable[float]) -> list[int]:
    """Return the widths k ≥ 1 with kd/m nearest to `shares`, increasing and without duplicates."""
    return sorted({max(1, round(share * settings["m"] / settings["d"])) for share in shares})


def network(settings: Settings, kind: str, units: int, seed: int) -> LayeredNetwork:
    """Return an untrained network of a kind, width and repeat."""
    return NETWORKS[kind](settings["d"], units, outputs=settings.get("outputs", 1), seed=seed)


def trained(settings: Settings, kind: str, units: Iterable[int], target: float | None = None) -> Rows:
    """Train networks of all widths and repeats together; return a row (units, repeat, loss) for each.

    `loss` is the final mean square over samples and outputs. If `target` is given, training ends as soon as the losses
    of all networks are below the target.

    >>> tiny = {"m": 12, "d": 3, "steps": 500, "batch": 6, "lr": 0.01, "repeats": 1, "seed": 1}
    >>> few, many = trained(tiny, "ReLU", [1, 12])
    >>> few["units"], few["repeat"], few["loss"] > many["loss"]
    (1, 1, True)
    """
    pairs = runs(settings, units)
    data = {seed: samples(settings, seed) for seed in repeats(settings)}
    networks = [network(settings, kind, k, seed) for k, seed in pairs]
    X, Y = (np.stack([data[seed][part] for _, seed in pairs]) for part in (0, 1))
    losses = zip(pairs, train(settings, networks, X, Y, "squared", target), strict=True)
    return [{"units": k, "repeat": seed, "loss": float(loss)} for (k, seed), loss in losses]


def training_cost(settings: Settings) -> float:
    """Return the approximate seconds to train all widths with kd ≤ m on one core."""
    return settings["steps"] * (3e-4 + 1.5e-6 * settings["repeats"] * settings["m"] / settings["d"])


def closed_form(settings: Settings, units: int, seed: int) -> LeastSquares:
    """Return the least-squares fit with the gates that the GaLU network of `trained` has, for one output."""
    X, Y = samples(settings, seed)
    return least_squares(network(settings, "GaLU", units, seed).gates()(X), Y[:, 0])


def by_kind(table: pd.DataFrame, column: str, kind: str) -> pd.DataFrame:
    """Return the table with columns `kind`, the network's name, and `share` = kd/m, and further rows of `kind`.

    The further rows repeat those of GaLU with the values of `column` as loss; there are none without this column.

    >>> fit = pd.DataFrame({"network": ["GaLU"], "m": 8, "d": 2, "units": 2, "loss": 0.5, "closed_form": 0.4})
    >>> by_kind(fit, "closed_form", "best")[["kind", "share", "loss"]].values.tolist()
    [['GaLU', 0.5, 0.5], ['best', 0.5, 0.4]]
    """
    shares = table.assign(kind=table.network, share=table.units * table.d / table.m)
    if column not in table:
        return shares
    galu = shares[shares.network == "GaLU"]
    return pd.concat([shares, galu.assign(kind=kind, loss=galu[column])], ignore_index=True)


def doubled(losses: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Return the losses of ReLU with k units and, as `double`, of `kind` with 2k units, wherever both are known.

    The last level of the index of `losses` is kd/m, and its columns are kinds.

    >>> index = pd.MultiIndex.from_tuples([(8, 0.25), (8, 0.5)], names=["d", "share"])
    >>> doubled(pd.DataFrame({"ReLU": [0.6, 0.3], "GaLU": [0.75, 0.5]}, index), "GaLU").to_dict("index")
    {(8, 0.25): {'ReLU': 0.6, 'double': 0.5}}
    """
    twice = losses.reindex([(*place[:-1], 2 * place[-1]) for place in losses.index])[kind].to_numpy()
    return losses[["ReLU"]].assign(double=twice).dropna()


def draw_losses(title: str, fits: pd.DataFrame, styles: dict[str, dict[str, Any]], width: float) -> Figure:
    """Return a figure of losses against kd/m, a panel for each (d, m), with the lines 1 − kd/m and 1 − 2kd/m."""
    sizes = list(fits.groupby(["d", "m"]))
    axes = panels(title, columns=len(sizes), size=(width, 3.4))
    for ax, ((d, m), part) in zip(axes[0], sizes, strict=True):
        look: dict[str, Any] = {"color": COLOURS["theory"], "linewidth": 0.8}
        ax.plot([0, 1], [1, 0], "--", label="1 − kd/m", **look)
        ax.plot([0, 0.5, 1], [1, 0, 0], ":", label="1 − 2kd/m", **look)
        for kind, style in styles.items():
            if kind in set(part.kind):
                band(ax, part[part.kind == kind].set_index("share").loss, **style)
        ax.set(xlabel="kd / m", ylabel="training loss", title=f"d = {d}, m = {m}", ylim=(-0.03, 1.0))
    return finished(axes)
