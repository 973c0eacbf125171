"""Which gates make fields local? Gated linear networks in closed form, with the gates of a ReLU network in training.

At a time s the gates of the ReLU network are frozen. For the rest of the time, the gradient flow with these gates is
computed in closed form, over separate samples. Their number is large, because the best weights of K units over m
samples have errors of about Kσ/√(mλ), where σ² is the loss and λ an eigenvalue of A. Three other kinds of gates are
frozen at the start: 1(uᵀx > 0) with random u; pixel gates 1(x_k > 0) of the first K pixels; and pixel gates chosen in
advance, at the largest entry of Cw_k(0), where C is the latent covariance of class 0.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias._utils.checks import Array
from implicit_bias.extensions.gated_flow import gradient_flow, ipr
from implicit_bias.extensions.gated_flow.online import OnlineTraining
from implicit_bias.features import GatedFeatures
from implicit_bias.studies.localization import common
from implicit_bias.studies.localization.common import LOCAL, MANY, ONE, curve, end, process_of, spread, stayed, trained
from implicit_bias.studies.localization.flips import placed
from implicit_bias.studies.runner import Rows, Settings, Verdict, decide, over_seeds, seeded, where
from implicit_bias.studies.runner.drawing import COLOURS, beside, panels

TITLE = "Gated linear networks with the gates of a ReLU network"
SOURCE = "gated linear networks"
CLAIM = "With gates frozen early, a gated linear network describes the rest, and its fields become as local."
REVISION = 2
TEN = MANY | {"units": 10}
#: Least share of the final IPR of the network that counts as the same.
NEARLY = 0.9
#: Largest share of the change of the network's IPR that counts as early.
EARLY = 0.5
OTHERS = {
    "own": ("sky", "its gates at the start"),
    "random": ("orange", "random half-spaces"),
    "pixel": ("green", "pixel gates"),
    "chosen": ("purple", "pixel gates chosen up front"),
}
#: Least share of units whose places gates chosen in advance must find.
FOUND = 0.75


def grid(quick: bool) -> list[Settings]:
    """Return K = 1 and 10 at gains 3 and 100.

    K = 1 has 16 repeats, 10 times of freezing and 40 000 samples, K = 10 has 8, 5 and 100 000. Quick: K = 1 with 4
    repeats, 7 times, 10 000 samples and 2000 steps.
    """
    cells = []
    for base, gain in ((base, gain) for base in (ONE, TEN) for gain in (3.0, 100.0)):
        one = base["units"] == 1
        extent = {"repeats": 16 if one else 8, "times": 10 if one else 5, "samples": 40_000 if one else 100_000}
        if one or not quick:
            extent |= {"repeats": 4, "times": 7, "samples": 10_000, "steps": 2000} if quick else {}
            cells.append(base | extent | {"process": "NLGP", "gain": gain})
    return seeded(cells, quick)


def rows(settings: Settings) -> Rows:
    """Return a row for each kind of gates and time of freezing, with the final fields in closed form.

    Columns: gates ('own', or at time 0 'random', 'pixel' or 'chosen'), time, network (median IPR of the ReLU network at
    that time), those of `spread`, away (relative distance from the final weights of the network), loss (half the mean
    square), `placed`, and those of `end`. Numbers are medians over the repeats.
    """
    training = trained(settings, record=100)
    last = training.steps[-1]
    asked = np.geomspace(last / 100, last, settings["times"])
    times = sorted({0, *(int(np.abs(training.steps - step).argmin()) for step in asked)})
    process = process_of(settings)
    X, y = process.sample(settings["samples"], seed=settings["seed"] + 1)
    shape, n = training.fields.shape[:2], settings["n"]
    random = np.random.default_rng([settings["seed"], 2]).normal(size=(*shape, n))
    pixel = np.broadcast_to(np.eye(n)[np.arange(shape[1]) % n], (*shape, n))
    chosen = np.eye(n)[(training.weights[0] @ process.latent(0)).argmax(axis=-1)]
    kinds = [("own", t, training.weights[t]) for t in times]
    kinds += [("random", 0, random), ("pixel", 0, pixel), ("chosen", 0, chosen)]
    return [
        {"gates": name, "time": float(training.times[t]), "network": float(np.median(ipr(training.weights[t])))}
        | _continued(training, t, directions, X, y)
        | {"placed": placed(directions, training.fields)}
        | end(training)
        for name, t, directions in kinds
    ]


def _continued(training: OnlineTraining, t: int, directions: Array, X: Array, y: Array) -> dict[str, float]:
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
    size = settings["units"] * settings["n"]
    flows = settings["repeats"] * (settings["times"] + 2)
    return common.cost(settings) + flows * (2e-10 * settings["samples"] * size**2 + 1.5e-9 * size**3)


def draw(table: pd.DataFrame) -> Figure:
    """Plot final IPR (above) and distance from the network (below) of the first seed against the time of freezing."""
    table = where(table, seed=table.seed.min())
    columns = table[["units", "gain"]].drop_duplicates().sort_values(["units", "gain"])
    axes = panels(TITLE, columns=len(columns), rows=2, size=(3.0, 2.5))
    for column, (units, gain) in zip(axes.T, columns.itertuples(index=False), strict=True):
        part = where(table, units=units, gain=gain)
        path = where(part[part.time > 0], gates="own").sort_values("time")
        column[0].axhline(path.network.iloc[-1], color="0.6", linewidth=0.8, label="ReLU network at the end")
        column[0].plot(path.time, path.network, ":", color="black", linewidth=1.2, label="ReLU network at s")
        style: dict[str, Any] = {"color": COLOURS["blue"], "marker": "o"}
        curve(column[0], path, "time", label="its gates at s, frozen", **style)
        column[1].plot(path.time, path.away, markersize=3, linewidth=1.2, **style)
        for kind, (colour, label) in OTHERS.items():
            other = where(part, gates=kind, time=0).iloc[0]
            line = {"color": COLOURS[colour], "linestyle": "--", "linewidth": 1.0}
            column[0].axhline(other.ipr, label=label, **line)
            column[1].axhline(other.away, **line)
        column[0].set(title=f"K = {units}, g = {gain:g}", ylim=(0, None))
        column[1].set(xlabel="gates frozen at time s", ylim=(0, None))
        for ax in column:
            ax.set_xscale("log")
    axes[0, 0].set_ylabel("IPR at the end")
    axes[1, 0].set_ylabel("‖w − w(end)‖ / ‖w(end)‖")
    return beside(axes[:1])


def _way(part: pd.DataFrame) -> tuple[str, float]:
    """Return as text when frozen gates suffice, and the percentage of its IPR change that the network has then made.

    They suffice if the final IPR is at least NEARLY that of the network, now and at all later times. The percentage is
    100 if only the final gates do.
    """
    path = where(part, gates="own").sort_values("time")
    first, late, last = path.iloc[0], path.iloc[-2], path.iloc[-1]
    start = " (one start)" if last.repeats == 1 else ""
    text = f"g = {last.gain:g}{start}: of {last.network:.3f} at the end, "
    lacking = np.flatnonzero(path.ipr < NEARLY * last.network)
    place = lacking[-1] + 1 if len(lacking) else 0
    if place >= len(path) - 1:
        return f"{text}{late.ipr:.3f} from s = {late.time:.4g}", 100.0
    row = path.iloc[place]
    share = 100 * (row.network - first.network) / (last.network - first.network)
    return f"{text}enough from s = {row.time:.4g}, when the network has {row.network:.2f}", share


@over_seeds
def verdicts(table: pd.DataFrame) -> list[Verdict]:
    decided = []
    for units in (ONE["units"], TEN["units"]):
        ways = [_way(part) for _, part in where(table, units=units).groupby("gain")]
        text, latest = "; ".join(text for text, _ in ways), max((share for _, share in ways), default=np.nan)
        share, unit = f"from {latest:.0f} % of the network's way on", " % of the network's way"
        decided.append(decide(f"K = {units}: frozen gates run ahead", text, latest, "below", 100 * NEARLY, unit))
        decided.append(decide(f"K = {units}: gates frozen early suffice", share, latest, "at most", 100 * EARLY, unit))
    start = where(table, gates="own", time=0).ipr.max()
    random, pixel = where(table, gates="random").ipr.max(), where(table, gates="pixel").ipr.min()
    text = f"median IPR up to {start:.3f}; random gates up to {random:.3f}, pixel gates at least {pixel:.2f}"
    named = where(table, gates="chosen")
    each = zip(named.placed, named.units, named.gain, strict=True)
    placed_ = [f"{100 * share:.0f} % (K = {units}, g = {gain:g})" for share, units, gain in each]
    places = f"within 2 pixels of the network's in {', '.join(placed_)}; by chance 12.5 %"
    lowest, of = 100 * named.placed.min(), " % of the units"
    decided.append(decide("a choice up front finds the places", places, lowest, "at least", 100 * FOUND, of))
    return [*decided, decide("gates of the start make fields local", text, start, "above", LOCAL), stayed(table)]
