"""What do the fields look like? Receptive fields of one ReLU unit and of forty, drawn.

Settings as in `gain` and `scales`: one unit at ξ = (3, 1), four starts; forty units at ξ = (2, 1), the first four of
them. Each field is drawn against its own largest weight.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.extensions.gated_flow import ipr
from implicit_bias.studies.localization.drawing import LOCAL, scales
from implicit_bias.studies.localization.networks import MANY, ONE, PROCESSES, end, seconds, stayed, trained
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, decide, panels, where

TITLE = "Receptive fields of ReLU units"
SOURCE = "nonlinear Gaussian process"
CLAIM = "Fields are local bumps where the data are nonlinear, and spread over the ring where they are Gaussian."
REVISION = 2
cost = seconds
#: Fields per panel.
SHOWN = 4
#: The share of Σw² that a field's pixels are counted for.
MOST = 0.9
LINES = ("blue", "red", "green", "purple")
PANELS = (("NLGP", 0.01), ("NLGP", 3.0), ("NLGP", 100.0), ("Gaussian", 100.0))


def grid(quick: bool) -> list[Settings]:
    """One unit and forty, three gains and a clone; quick: fewer steps."""
    cells = []
    for base, (process, gain) in ((base, column) for base in (ONE, MANY) for column in PANELS):
        steps = base["steps"] // 16 if quick else base["steps"]
        repeats = SHOWN if base["units"] == 1 else 1
        cells.append(base | {"process": process, "gain": gain, "steps": steps, "repeats": repeats, "seed": 1})
    return cells


def rows(settings: Settings) -> Rows:
    """A row (unit, pixel, weight) for every pixel of the first four fields."""
    training = trained(settings)
    shown = training.fields.reshape(-1, settings["n"])[:SHOWN]
    return [
        {"unit": unit, "pixel": pixel, "weight": float(f"{weight:.4g}")} | end(training)
        for unit, field in enumerate(shown)
        for pixel, weight in enumerate(field)
    ]


def shapes(table: pd.DataFrame) -> pd.DataFrame:
    """A row per field: its IPR, and how many pixels hold nine tenths of Σw².

    >>> one = {"units": 1, "process": "NLGP", "gain": 3.0, "unit": 0, "pixel": range(4), "weight": [0, 3.0, -1.0, 0.0]}
    >>> shapes(pd.DataFrame(one)).to_dict("records")[0]["pixels"]
    1
    """
    found = []
    for key, part in table.groupby(["units", "process", "gain", "unit"]):
        w = part.sort_values("pixel").weight.to_numpy(float)
        held = np.cumsum(np.sort(w**2)[::-1]) / np.sum(w**2)
        named = dict(zip(("units", "process", "gain", "unit"), key, strict=True))
        found.append(named | {"ipr": float(ipr(w)), "pixels": int(np.argmax(held >= MOST)) + 1})
    return pd.DataFrame(found)


def draw(table: pd.DataFrame) -> Figure:
    """A row for one unit and one for forty, a column per process; the fields above one another."""
    axes = panels(TITLE, columns=len(PANELS), rows=2, size=(2.6, 2.6))
    for row, base in zip(axes, (ONE, MANY), strict=True):
        for ax, (process, gain) in zip(row, PANELS, strict=True):
            part = where(table, units=base["units"], process=process, gain=gain)
            for unit, field in part.groupby("unit"):
                height = -2.2 * int(str(unit))
                ax.axhline(height, color="0.8", linewidth=0.6)
                w = field.weight / field.weight.abs().max()
                ax.plot(field.pixel, height + w, color=COLOURS[LINES[int(str(unit)) % SHOWN]], linewidth=1.2)
            name = "NLGP" if process == "NLGP" else "Gaussian clone of"
            ax.set(title=f"{name} g = {gain:g}", yticks=[], xlim=(0, base["n"] - 1))
            ax.spines["left"].set_visible(False)
        row[0].set_ylabel(f"K = {base['units']}, {scales(base['xi0'], base['xi1'])}")
    for ax in axes[1]:
        ax.set_xlabel("pixel")
    return axes[0, 0].figure


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """How local the median field is at the largest gain, and that of the clone."""
    found, decided = shapes(table), []
    gain = PANELS[-1][1]
    for units in (ONE["units"], MANY["units"]):
        for process, relation in zip(PROCESSES, ("above", "below"), strict=True):
            field = where(found, units=units, gain=gain, process=process)[["pixels", "ipr"]].median()
            text = f"{field.pixels:g} of {table.n.iloc[0]} pixels hold {100 * MOST:.0f} % of Σw², IPR {field.ipr:.3f}"
            claim = f"K = {units}, {process}, g = {gain:g}: fields are {'local' if relation == 'above' else 'spread'}"
            decided.append(decide(claim, text, field.ipr, relation, LOCAL))
    return [*decided, stayed(table)]
