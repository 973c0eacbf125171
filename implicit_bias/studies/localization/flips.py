"""When do gates, place, size and shape of the fields of a ReLU network settle during training?

For each pair of a held-out sample and a unit, the gate 1(w_kᵀx > 0) is compared with the gate at the end, and with the
gate at the previous recorded time; recorded times have a constant ratio. The place of a field is the pixel with the
largest |w|. Its direction is compared with the final direction by the cosine.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias._utils.checks import Array
from implicit_bias.studies.localization import common
from implicit_bias.studies.localization.common import MANY, ONE, end, scales, slashed, stayed, trained
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, decide, over_seeds, panels, seeded, where

TITLE = "Gates, place, size and shape in training"
SOURCE = "sign flips of the gates"
CLAIM = "Gates stop flipping early in training, before the fields localize: weights mostly grow."
SHARED = common
GAINS = {1.0: "sky", 3.0: "blue", 100.0: "purple"}
#: Share of the flips after which gates count as settled.
MOST = 0.75
#: Largest distance of a field in place from its place at the end, in pixels.
NEAR = 2
#: Least share of fields in place at which the places count as found.
PLACED = 0.75
#: Least cosine of fields that only grow.
ALONG = 0.9
#: Largest share of the time that counts as early, and of the change of the IPR that counts as none.
EARLY = 0.1


def grid(quick: bool) -> list[Settings]:
    """Return 1 and 40 units (16 and 2 repeats) at g = 1, 3, 100; quick: g = 3, half the repeats, 1/16 of the steps."""
    cells = []
    for base in (ONE, MANY):
        repeats = 8 if base["units"] == 1 else 1
        extent = {"repeats": repeats, "steps": base["steps"] // 16} if quick else {"repeats": 2 * repeats}
        cells += [base | extent | {"process": "NLGP", "gain": g} for g in ((3.0,) if quick else GAINS)]
    return seeded(cells, quick)


def rows(settings: Settings) -> Rows:
    """Return a row for each recorded time: time, flips, recent, placed, cosine, those of `spread` and `end`, and loss.

    `flips` is the share of gates that differ from the final ones, and `recent` from those at the previous time (NaN at
    first). `cosine` is the median cosine between fields and final fields.
    """
    training = trained(settings, record=30)
    X, y = common.process_of(settings).sample(4000, seed=settings["seed"] + 1)
    gates = training.gates(X)
    last = training.flips(X)
    since = [np.nan, *(gates[1:] != gates[:-1]).mean(axis=(1, 2, 3))]
    table = []
    for t, (time, w) in enumerate(zip(training.times, training.weights, strict=True)):
        outputs = np.maximum(w @ X.T, 0.0).mean(axis=1)
        loss = np.median(np.mean((y - outputs) ** 2, axis=1) / 2)
        row = {"time": float(time), "flips": float(np.median(last[:, t])), "recent": float(since[t])}
        sizes = np.linalg.norm(w, axis=-1) * np.linalg.norm(training.fields, axis=-1)
        cosine = np.median(np.sum(w * training.fields, axis=-1) / sizes)
        row |= {"placed": placed(w, training.fields), "cosine": float(cosine)}
        table.append(row | common.spread(w) | {"loss": float(loss)} | end(training))
    return table


def placed(w: Array, last: Array) -> float:
    """Return the share of fields w (…, n) whose largest |w| is at most `NEAR` pixels from that of `last` (…, n)."""
    n = w.shape[-1]
    away = (np.abs(w).argmax(axis=-1) - np.abs(last).argmax(axis=-1)) % n
    return float(np.mean(np.minimum(away, n - away) <= NEAR))


def _shape_and_place(part: pd.DataFrame) -> pd.Series:
    """Return placed and ipr just before the IPR has made a tenth of its change, and cosine at half the length."""
    part = part.sort_values("time")
    gone = (part.ipr - part.ipr.iloc[0]) / (part.ipr.iloc[-1] - part.ipr.iloc[0])
    before = part.iloc[max(int(np.argmax(gone > EARLY)) - 1, 0)]
    grown = part.iloc[int(np.argmax(part.length >= part.length.iloc[-1] / 2))]
    return pd.Series({"placed": before.placed, "ipr": before.ipr, "cosine": grown.cosine})


def _settled(part: pd.DataFrame) -> tuple[float, float] | None:
    """Return the shares (0 to 1) of time, and of the change of the median IPR, that have passed when gates are settled.

    Gates are settled from the first recorded time on after which at most 1 − MOST of the flips remain: the share of
    gates that differ from the final ones, divided by the share at the start. The share that flips between the last
    two times is noise, and is subtracted from both. Return None if the share at the start does not exceed the noise.
    """
    part = part.sort_values("time")
    noise = part.recent.iloc[-1]
    if not part.flips.iloc[0] > noise:
        return None
    left = (part.flips - noise) / (part.flips.iloc[0] - noise)
    row = part.iloc[np.flatnonzero(left > 1 - MOST)[-1] + 1]
    way = (row.ipr - part.ipr.iloc[0]) / (part.ipr.iloc[-1] - part.ipr.iloc[0])
    return float(row.time / part.time.iloc[-1]), float(way)


def _end(part: pd.DataFrame) -> tuple[float, float, bool]:
    part = part.sort_values("time")
    return part.ipr.iloc[-1], part.change.iloc[-1], common.approaches(part.time, part.ipr)


#: Rows of panels: label of the axis, and its columns, the first as a solid and the second as a dashed line.
SHOWN = {
    "share of gates that flip": ("flips", "recent"),
    "place, direction": ("placed", "cosine"),
    "IPR": (),
    "length ‖w‖": ("length",),
    "½⟨(y − ŷ)²⟩": ("loss",),
}


def draw(table: pd.DataFrame) -> Figure:
    """Plot flips, place, direction, IPR, length and loss of the first seed against time; columns are 1 and 40 units."""
    table = where(table, seed=table.seed.min())
    bases = [base for base in (ONE, MANY) if base["units"] in set(table.units)]
    axes = panels(TITLE, columns=len(bases), rows=5, size=(4.2, 1.9))
    looks: list[dict[str, Any]] = [{"linewidth": 1.2}, {"linewidth": 0.9, "linestyle": "--"}]
    for column, base in zip(axes.T, bases, strict=True):
        for gain, colour in GAINS.items():
            part = where(table, units=base["units"], gain=gain).sort_values("time")
            part = part[part.time > 0]
            for ax, names in zip(column, SHOWN.values(), strict=True):
                for name, look in zip(names, looks, strict=False):
                    text = f"g = {gain:g}, by the end" if name == "flips" else None
                    ax.plot(part.time, part[name], label=text, color=COLOURS[colour], **look)
            common.curve(column[2], part, "time", color=COLOURS[colour])
        column[0].plot([], [], color="0.4", label="since the time before", **looks[1])
        column[1].plot([], [], color="0.4", label=f"within {NEAR} pixels of the last place", **looks[0])
        column[1].plot([], [], color="0.4", label="cosine with the last field", **looks[1])
        common.sinusoid(column[2])
        for ax, label in zip(column, SHOWN, strict=True):
            ax.set(xscale="log", ylabel=label)
        column[0].set(title=f"K = {base['units']}, {scales(base['xi0'], base['xi1'])}")
        for ax in column[:4]:
            ax.set(ylim=(0, None))
        column[4].set(xlabel="time, lr · steps")
    for row, place in enumerate(("best", "lower right", "upper left")):
        axes[row, 0].legend(loc=place)
    return axes[0, 0].figure


@over_seeds
def verdicts(table: pd.DataFrame) -> list[Verdict]:
    decided, limit = [], 100 * EARLY
    start = f"{100 * where(table, time=0).flips.median():.0f} % of the gates flip from start to end"
    for units in (ONE["units"], MANY["units"]):
        parts, K = where(table, units=units).groupby("gain"), f"K = {units}:"
        local = {gain: _settled(part) for gain, part in parts if part.ipr.iloc[-1] > 2 * part.ipr.iloc[0]}
        gone = {gain: np.multiply(100, shares) for gain, shares in local.items() if shares}
        settling = pd.DataFrame.from_dict(gone, orient="index", columns=["time", "way"])
        at = f"at g = {slashed(settling.index)}, when {100 * MOST:.0f} % of the flips are over"
        time, way = (f"{slashed(settling[name], '.0f')} % gone {at}" for name in settling)
        shape = pd.DataFrame([_shape_and_place(parts.get_group(gain)) for gain in local])
        shape = shape.reindex(columns=["placed", "ipr", "cosine"])
        there = f"{slashed(100 * shape.placed, '.0f')} % of the units in place at an IPR of {slashed(shape.ipr, '.3f')}"
        cosine = f"cosine with the last field {slashed(shape.cosine, '.2f')} at half its length"
        last = pd.DataFrame([_end(part) for _, part in parts], columns=["ipr", "change", "near"])
        localized = (
            f"median IPR {slashed(last.ipr, '.3f')} at g = {slashed(sorted(where(table, units=units).gain.unique()))}"
        )
        before, time = f"{K} gates settle before fields localize", f"{time}; {start}"
        placed, of_units = 100 * shape.placed.min(), " % of the units"
        decided += [
            common.decide_local(f"{K} fields localize", localized, last),
            decide(f"{K} gates settle early", time, settling.time.max(), "at most", limit, " % of the time"),
            decide(before, way, settling.way.max(), "at most", limit, " % of the IPR's way"),
            decide(f"{K} the place is there before the shape", there, placed, "at least", 100 * PLACED, of_units),
            decide(f"{K} then fields grow only", cosine, shape.cosine.min(), "at least", ALONG),
        ]
    return [*decided, stayed(table)]
