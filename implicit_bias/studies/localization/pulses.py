"""Do single pulses localize fields? One ReLU unit on blocks of ones and variants; forty erf and sigmoid units.

Pulses have lengths 11 in one class and 3 in the other, or 8–14 and 1–5, on a ring of 40 pixels. Networks have no biases
and train until their fields settle. With `signs`, pixels outside the pulse are −1 and not 0; with `flip`, the sign of
each pattern is changed with probability ½.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.extensions.gated_flow import SinglePulse
from implicit_bias.studies.localization import common
from implicit_bias.studies.localization.common import LOCAL, NAMES, ONE, SATURATING, N, stayed
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, beside, over_seeds, panels, product, seeded

TITLE = "Single pulses"
SOURCE = "single pulses"
CLAIM = "Single pulses localize fields."
SHARED = common
RANGES = {"11 / 3": ((11, 11), (3, 3)), "8–14 / 1–5": ((8, 14), (1, 5))}
LABELS = {0.0: ("blue", "labels 1 and 0"), -1.0: ("orange", "labels 1 and −1")}


def grid(quick: bool) -> list[Settings]:
    """Return all pulses for a ReLU unit (16 repeats), and plain ones for 40 erf and 40 sigmoid units (2 repeats).

    Quick: the ReLU unit with labels 1 and 0, 8 repeats and 1000 steps.
    """
    extent = {"lr": 0.05, "batch": 300, "steps": 1000 if quick else 16_000, "repeats": 8 if quick else 16}
    base = {name: ONE[name] for name in ("n", "activation", "units", "scale", "biases", "output_bias")} | extent
    choices = {"lengths": RANGES, "signs": (False, True), "flip": (False, True)}
    cells = [base | cell for cell in product(label=[0.0] if quick else LABELS, **choices)]
    plain = {"units": N, "repeats": 2, "signs": False, "flip": False}
    for cell in [] if quick else product(label=LABELS, lengths=RANGES, activation=SATURATING):
        cells.append(base | SATURATING[cell["activation"]] | plain | cell)
    return seeded(cells, quick)


def rows(settings: Settings) -> Rows:
    """Return the row of `common.rows` for the pulses of the settings."""
    names = {name: settings[name] for name in ("n", "signs", "flip")}
    pulses = SinglePulse(lengths=RANGES[settings["lengths"]], labels=(1.0, settings["label"]), **names)
    return common.rows(settings, pulses)


def _name_of(row: pd.Series) -> str:
    values = "±1" if row.signs else "0 and 1"
    return f"{NAMES[row.activation]}, {row.lengths}, {values}{', flipped' if row.flip else ''}"


def draw(table: pd.DataFrame) -> Figure:
    """Plot medians over seeds of the median and the quartiles of the IPR."""
    cells = table.assign(name=table.apply(_name_of, axis=1)).groupby(["name", "label"], sort=False)
    table = cells[["ipr_low", "ipr", "ipr_high"]].median().reset_index()
    names = list(dict.fromkeys(table.name))
    axes = panels(TITLE, size=(6.2, 3.4))
    ax = axes[0, 0]
    for shift, (label, (colour, text)) in zip((0.12, -0.12), LABELS.items(), strict=True):
        part = table[table.label == label]
        if part.empty:
            continue
        common.whiskers(ax, part, [-names.index(name) + shift for name in part.name], color=COLOURS[colour], label=text)
    common.sinusoid(ax, upright=True)
    ax.axvline(LOCAL, color="0.5", linewidth=0.8, label=f"local, above {LOCAL:.2f}")
    ax.set_yticks(range(0, -len(names), -1), names)
    ax.set(xlabel="IPR, median and quartiles", xlim=(0, None))
    return beside(axes)


@over_seeds
def verdicts(table: pd.DataFrame) -> list[Verdict]:
    variants = table.sort_values("ipr") if len(table) > 1 else table.assign(ipr=np.nan)
    lowest, best = variants.iloc[0], variants.iloc[-1]
    texts = [f"median IPR {row.ipr:.3f} ({_name_of(row)}; labels 1 and {row.label:g})" for row in (lowest, best)]
    plain = table[~table.signs & ~table.flip]
    plain_text = "; ".join(
        f"{NAMES[str(name)]} {part.ipr.min():.3f} to {part.ipr.max():.3f}"
        for name, part in plain.groupby("activation", sort=False)
    )
    side = common.sides(table)
    count = f"; of {len(table)} variants {(side > 0).sum()} are local, {(side < 0).sum()} are not"
    return [
        common.decide_local("every variant localizes fields", texts[0] + count, variants),
        common.decide_local("some variant localizes fields", texts[1], variants, some=True),
        common.decide_local("plain pulses localize some fields", plain_text, plain, some=True),
        stayed(table),
    ]
