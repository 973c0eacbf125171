"""When do the gates of a ReLU network settle? Flips, IPR and loss in training.

Networks as in `gain` (one unit, ξ = (3, 1)) and `scales` (forty, ξ = (2, 1)). The gate 1(w_kᵀx > 0) of each pair of a
held-out sample and a unit is compared with what it is at the end, and with what it was at the time recorded before;
times are at a constant ratio.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.experiments.figures.base import COLOURS, Experiment, Rows, Settings, panels
from implicit_bias.experiments.localization.drawing import curve, sinusoid
from implicit_bias.experiments.localization.networks import MANY, ONE, process_of, seconds, spread, trained

#: Held-out samples.
HELD_OUT = 4000
GAINS = {1.0: "sky", 3.0: "blue", 100.0: "purple"}
#: Parts of the way of the IPR from its start to its end.
WAYS = (0.1, 0.5, 0.9)
#: Gates that still flip by the end, of all pairs, which count as few.
FEW = 0.05


def grid(quick: bool) -> list[Settings]:
    """One unit and forty, three gains; quick: one gain and fewer steps."""
    cells = []
    for base in (ONE, MANY):
        repeats, part = (10, 4) if base["units"] == 1 else (1, 3)
        own = {"repeats": repeats, "steps": base["steps"] // part} if quick else {"repeats": 2 * repeats}
        cells += [base | own | {"process": "NLGP", "gain": g, "seed": 1} for g in ((3.0,) if quick else GAINS)]
    return cells


def rows(settings: Settings) -> Rows:
    """A row a time: shares flipped by the end and since the time before (a gap at first), spread of IPR, and loss."""
    training = trained(settings, record=25)
    X, y = process_of(settings).sample(HELD_OUT, seed=settings["seed"] + 1)
    gates = training.gates(X)
    last = training.flips(X)
    since = [np.nan, *(gates[1:] != gates[:-1]).mean(axis=(1, 2, 3))]
    found = []
    for t, (time, w) in enumerate(zip(training.times, training.weights, strict=True)):
        outputs = np.maximum(w @ X.T, 0.0).mean(axis=1)
        loss = np.median(np.mean((y - outputs) ** 2, axis=1) / 2)
        row = {"time": float(time), "flips": float(np.median(last[:, t])), "recent": float(since[t])}
        found.append(row | spread(w) | {"loss": float(loss)})
    return found


def milestones(part: pd.DataFrame) -> list[tuple[float, float]]:
    """(time, flips still to come) when the median IPR of a cell has first gone each of `WAYS` of its way.

    >>> import pandas as pd
    >>> from implicit_bias.experiments.localization.flips import milestones
    >>> times = {"time": [0, 1.0, 2.0], "ipr": [0.0, 0.6, 1.0], "flips": [0.3, 0.1, 0.0]}
    >>> milestones(pd.DataFrame(times))
    [(1.0, 0.1), (1.0, 0.1), (2.0, 0.0)]
    """
    part = part.sort_values("time")
    way = (part.ipr - part.ipr.iloc[0]) / (part.ipr.iloc[-1] - part.ipr.iloc[0])
    firsts = [part[way >= share].iloc[0] for share in WAYS]
    return [(float(row.time), float(row.flips)) for row in firsts]


def draw(table: pd.DataFrame) -> Figure:
    """Flips, IPR and loss against time, a column for one unit and one for forty."""
    bases = [base for base in (ONE, MANY) if base["units"] in set(table.units)]
    with panels(EXPERIMENT.title, columns=len(bases), rows=3, size=(4.2, 2.2)) as axes:
        for column, base in zip(axes.T, bases, strict=True):
            for gain, colour in GAINS.items():
                part = table[(table.units == base["units"]) & (table.gain == gain)].sort_values("time")
                part, style = part[part.time > 0], {"color": COLOURS[colour], "linewidth": 1.2}
                column[0].plot(part.time, part.flips, label=f"g = {gain:g}, by the end", **style)
                column[0].plot(part.time, part.recent, **style | {"linestyle": "--", "linewidth": 0.9})
                curve(column[1], part, "time", color=COLOURS[colour])
                column[2].plot(part.time, part.loss, **style)
            column[0].plot([], [], "--", color="0.4", linewidth=0.9, label="since the time before")
            sinusoid(column[1])
            for ax, label in zip(column, ("share of gates that flip", "IPR", "½⟨(y − ŷ)²⟩"), strict=True):
                ax.set(xscale="log", ylabel=label)
            column[0].set(title=f"K = {base['units']}, ξ = ({base['xi0']:g}, {base['xi1']:g})", ylim=(0, None))
            column[1].set(ylim=(0, None))
            column[2].set(xlabel="time, lr · steps")
        axes[0, 0].legend(frameon=False)
        axes[1, 0].legend(frameon=False, loc="upper left")
    figure: Figure = axes[0, 0].figure
    return figure


def finding(table: pd.DataFrame) -> str:
    """Flips still to come when fields have gone a tenth, half and nine tenths of their way."""
    texts, left = [], []
    for (units, gain), part in table.groupby(["units", "gain"]):
        if part.ipr.iloc[-1] > 2 * part.ipr.iloc[0]:
            left.append([flips for _, flips in milestones(part)])
            texts.append(f"{'/'.join(f'{100 * flips:.1f}' for flips in left[-1])} % (K = {units}, g = {gain:g})")
    if not texts:
        return "Undecided: in no cell has the median IPR doubled."
    start = 100 * table[table.time == 0].flips.median()
    early, middle = (max(cell[way] for cell in left) for way in (0, 1))
    word = "Yes" if early <= FEW else "Partly" if middle <= 2 * FEW else "No"
    return (
        f"{word}: {start:.0f} % of the gates flip from start to end; when the median IPR has gone 10/50/90 % "
        f"of its way, {', '.join(texts)} are still to flip: gates and fields settle "
        f"{'one after the other' if word == 'Yes' else 'together'}."
    )


EXPERIMENT = Experiment(
    name="flips",
    title="Flips of the gates in training",
    source="sign flips of the gates",
    claim="Gates stop flipping early in training, before the fields localise.",
    grid=grid,
    rows=rows,
    cost=seconds,
    draw=draw,
    finding=finding,
)
