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

from implicit_bias.dynamics import gradient_flow, ipr
from implicit_bias.experiments.localization.networks import MANY, ONE, process_of, seconds, spread, trained
from implicit_bias.experiments.runner.experiment import COLOURS, Experiment, Rows, Settings, panels
from implicit_bias.features import GatedFeatures
from implicit_bias.ground.checks import Array
from implicit_bias.training.online import OnlineTraining

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

    network is the median IPR of the network itself at that time, loss half of what the closed form says of its samples.
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
    loss = np.median([flow.losses[-1] for flow in flows]) / 2
    return spread(fields) | {"away": float(np.median(away)), "loss": float(loss)}


def cost(settings: Settings) -> float:
    """The training, and an eigenproblem and a product for each closed form."""
    size = settings["units"] * settings["n"]
    flows = settings["repeats"] * (settings["times"] + 2)
    return seconds(settings) + flows * (2e-10 * settings["samples"] * size**2 + 1.5e-9 * size**3)


def enough(part: pd.DataFrame) -> pd.Series | None:
    """The time from which on the frozen gates of a cell lead to nearly the network's IPR, as a row; None if the end.

    >>> import pandas as pd
    >>> from implicit_bias.experiments.localization.frozen import enough
    >>> cell = {"gates": "own", "time": [0.0, 1.0, 5.0], "network": [0.1, 0.2, 0.5], "ipr": [0.1, 0.46, 0.5]}
    >>> float(enough(pd.DataFrame(cell)).time)
    1.0
    >>> enough(pd.DataFrame(cell | {"ipr": [0.1, 0.44, 0.5]})) is None
    True
    """
    own = part[part.gates == "own"].sort_values("time")
    lacking = np.flatnonzero(own.ipr < NEARLY * own.network.iloc[-1])
    first = lacking[-1] + 1 if len(lacking) else 0
    return own.iloc[first] if first < len(own) - 1 else None


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
    ends, times, ways = [], [], []
    for (units, gain), part in table.groupby(["units", "gain"]):
        own = part[part.gates == "own"].sort_values("time")
        first, last, row = own.iloc[0], own.iloc[-1], enough(part)
        name = f"K = {units}, g = {gain:g}"
        ends.append(f"{last.network:.2f} ({name}{', one start' if part.repeats.iloc[0] == 1 else ''})")
        if row is None:
            late = own.iloc[-2]
            times.append(
                f"never before the end ({name}; {late.ipr:.3f} of {last.network:.3f} from s = {late.time:.4g})"
            )
        else:
            times.append(f"from s = {row.time:.4g} ({name}; the network itself has {row.network:.2f} then)")
        ways.append(1.0 if row is None else (row.network - first.network) / (last.network - first.network))
    word = "Yes" if max(ways) <= 0.5 else "Partly" if min(ways) < NEARLY else "No"
    start = table[(table.gates == "own") & (table.time == 0)].ipr.max()
    random, pixel = (table[table.gates == kind].ipr for kind in ("random", "pixel"))
    return (
        f"{word}: networks end at median IPRs of {', '.join(ends)}; gates of the start lead to at most {start:.3f}, "
        f"random ones to {random.max():.3f}, pixel gates to at least {pixel.min():.2f}; their own gates lead to nine "
        f"tenths if frozen {', '.join(times)}."
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
