"""Which gates make fields local? Gated linear networks in closed form, their gates those of a ReLU network in training.

One ReLU unit is trained as in `flips`, and ten at ξ = (2, 1). From their weights at a time s the gates are frozen, and
the rest of the time is the gradient flow of those gates in closed form, over samples of their own: many, because the
best weights of K units over m samples are off by about Kσ/√(mλ), with σ² the loss and λ an eigenvalue of A. For
comparison, from the start: gates 1(uᵀx > 0) of random u, and pixel gates 1(x_k > 0), those of the first K pixels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.checks import Array
from implicit_bias.dynamics import OnlineTraining, gradient_flow, ipr
from implicit_bias.experiments.figures.base import COLOURS, Experiment, Rows, Settings, panels
from implicit_bias.experiments.localization.networks import MANY, ONE, process_of, seconds, spread, trained
from implicit_bias.features import GatedFeatures

TEN = MANY | {"units": 10, "steps": 8000}
#: A share of the network's own IPR at the end that counts as the same.
NEARLY = 0.9
OTHERS = {
    "own": ("sky", "its gates at the start"),
    "random": ("orange", "random half-spaces"),
    "pixel": ("green", "pixel gates"),
}


def grid(quick: bool) -> list[Settings]:
    """One unit and ten, two gains; quick: one unit."""
    cells = []
    for base, gain in ((base, gain) for base in (ONE, TEN) for gain in (3.0, 100.0)):
        one = base["units"] == 1
        own = {"repeats": 20 if one else 1, "times": 12 if one else 8, "samples": 40_000 if one else 400_000}
        if one or not quick:
            own |= {"repeats": 4, "times": 7, "samples": 10_000} if quick else {}
            cells.append(base | own | {"process": "NLGP", "gain": gain, "seed": 1})
    return cells


def rows(settings: Settings) -> Rows:
    """A row a kind of gates and time of freezing: fields in closed form at the end, and how far from the network's.

    network is the median IPR of the network itself at that time, loss what the closed form says of its samples.
    """
    steps = settings["steps"]
    times = np.geomspace(steps / 100, steps, settings["times"]).round().astype(int).tolist()
    training = trained(settings, record=times)
    X, y = process_of(settings).sample(settings["samples"], seed=settings["seed"] + 1)
    shape, n = training.fields.shape[:2], settings["n"]
    random = np.random.default_rng([settings["seed"], 2]).normal(size=(*shape, n))
    pixel = np.broadcast_to(np.eye(n)[np.arange(shape[1]) % n], (*shape, n))
    kinds = [("own", t, w) for t, w in enumerate(training.weights)] + [("random", 0, random), ("pixel", 0, pixel)]
    return [
        {"gates": name, "time": float(training.times[t]), "network": float(np.median(ipr(training.weights[t])))}
        | _continued(training, t, directions, X, y)
        for name, t, directions in kinds
    ]


def _continued(training: OnlineTraining, t: int, directions: Array, X: Array, y: Array) -> dict[str, float]:
    """Fields at the end that the flow leads to from time t on, with the gates 1(uᵀx > 0) of directions (R, K, n)."""
    units, rest = directions.shape[1], training.times[-1] - training.times[t]
    flows: list[Any] = [
        gradient_flow(GatedFeatures(X, (X @ u.T > 0).astype(float)), w / units, [rest], y=y)
        for u, w in zip(directions, training.weights[t], strict=True)
    ]
    fields = units * np.array([flow.weights(rest) for flow in flows])
    away = np.linalg.norm(fields - training.fields, axis=(1, 2)) / np.linalg.norm(training.fields, axis=(1, 2))
    return spread(fields) | {"away": float(np.median(away)), "loss": float(np.median([f.losses[-1] for f in flows]))}


def cost(settings: Settings) -> float:
    """The training, and an eigenproblem and a product for each closed form."""
    size = settings["units"] * settings["n"]
    flows = settings["repeats"] * (settings["times"] + 2)
    return seconds(settings) + flows * (2e-10 * settings["samples"] * size**2 + 1.5e-9 * size**3)


def enough(part: pd.DataFrame) -> tuple[float, float, float]:
    """(time, network's IPR then, at the end): from which on the frozen gates of a cell lead to nearly that IPR.

    >>> import pandas as pd
    >>> from implicit_bias.experiments.localization.frozen import enough
    >>> cell = {"gates": "own", "time": [0.0, 1.0, 5.0], "network": [0.1, 0.2, 0.5], "ipr": [0.1, 0.46, 0.5]}
    >>> enough(pd.DataFrame(cell))
    (1.0, 0.2, 0.5)
    """
    own = part[part.gates == "own"].sort_values("time")
    end = float(own.network.iloc[-1])
    lacking = np.flatnonzero(own.ipr < NEARLY * end)
    first = own.iloc[min(lacking[-1] + 1 if len(lacking) else 0, len(own) - 1)]
    return float(first.time), float(first.network), end


def draw(table: pd.DataFrame) -> Figure:
    """IPR in closed form against the time of freezing, and the distance from the network's own weights."""
    cells = table[["units", "gain"]].drop_duplicates().sort_values(["units", "gain"])
    with panels(EXPERIMENT.title, columns=len(cells), rows=2, size=(3.0, 2.5)) as axes:
        for column, (units, gain) in zip(axes.T, cells.itertuples(index=False), strict=True):
            part = table[(table.units == units) & (table.gain == gain)]
            own = part[(part.gates == "own") & (part.time > 0)].sort_values("time")
            column[0].axhline(own.network.iloc[-1], color="0.6", linewidth=0.8, label="ReLU network at the end")
            column[0].plot(own.time, own.network, ":", color="black", linewidth=1.2, label="ReLU network at s")
            style = {"color": COLOURS["blue"], "marker": "o", "markersize": 3, "linewidth": 1.2}
            column[0].plot(own.time, own.ipr, label="its gates at s, frozen", **style)
            column[0].fill_between(own.time, own.ipr_low, own.ipr_high, color=COLOURS["blue"], alpha=0.2, linewidth=0)
            column[1].plot(own.time, own.away, **style)
            for kind, (colour, label) in OTHERS.items():
                other = part[(part.gates == kind) & (part.time == 0)].iloc[0]
                line = {"color": COLOURS[colour], "linestyle": "--", "linewidth": 1.0}
                column[0].axhline(other.ipr, label=label, **line)
                column[1].axhline(other.away, **line)
            column[0].set(title=f"K = {units}, g = {gain:g}", ylim=(0, None))
            column[1].set(xlabel="gates frozen at time s", ylim=(0, None))
            for ax in column:
                ax.set_xscale("log")
        axes[0, 0].set_ylabel("IPR at the end")
        axes[1, 0].set_ylabel("‖w − w(end)‖ / ‖w(end)‖")
        axes[0, -1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure: Figure = axes[0, 0].figure
    return figure


def finding(table: pd.DataFrame) -> str:
    """From when on frozen gates suffice, and what those of the start and of no training lead to."""
    cells, ways = [], []
    for (units, gain), part in table.groupby(["units", "gain"]):
        own = part[part.gates == "own"].sort_values("time")
        time, then, end = enough(part)
        ways.append((then - own.network.iloc[0]) / (end - own.network.iloc[0]))
        random, pixel = (part[part.gates == kind].ipr.iloc[0] for kind in ("random", "pixel"))
        cells.append({"cell": f"{end:.2f} (K = {units}, g = {gain:g})", "start": own.ipr.iloc[0], "random": random,
                      "pixel": pixel, "time": f"{float(f'{time:.3g}'):g}", "then": f"{then:.2f}"})  # fmt: skip
    found = pd.DataFrame(cells)
    word = "Yes" if max(ways) <= 0.5 else "Partly" if min(ways) < NEARLY else "No"
    return (
        f"{word}: networks end at median IPRs of {', '.join(found.cell)}; gates of the start lead to at most "
        f"{found.start.max():.3f}, random ones to {found.random.max():.3f}, pixel gates to at least "
        f"{found.pixel.min():.2f}; to nine tenths lead those frozen from s = {', '.join(found.time)} on, where the "
        f"networks themselves have {', '.join(found.then)}."
    )


EXPERIMENT = Experiment(
    name="frozen",
    title="Gated linear networks with the gates of a ReLU network",
    source="gated linear networks",
    claim="With gates frozen early, a gated linear network describes the rest, and its fields become as local.",
    grid=grid,
    rows=rows,
    cost=cost,
    draw=draw,
    finding=finding,
)
