"""What do the fields look like? Receptive fields of one ReLU unit and of forty, divided by their largest |weight|."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.extensions.gated_flow import ipr
from implicit_bias.studies.localization import common
from implicit_bias.studies.localization.common import MANY, ONE, end, scales, stayed, trained
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, over_seeds, panels, seeded, where

TITLE = "Receptive fields of ReLU units"
SOURCE = "nonlinear Gaussian process"
CLAIM = "Fields are local bumps where the data are nonlinear, and spread over the ring where they are Gaussian."
SHARED = common
#: Fields per cell in the table.
SHOWN = 4
#: Share of Σw² that the counted pixels of a field hold.
MOST = 0.9
LINES = ("blue", "red", "green", "purple", "orange")
PANELS = (("NLGP", 0.01), ("NLGP", 3.0), ("NLGP", 100.0), ("Gaussian", 100.0))


def grid(quick: bool) -> list[Settings]:
    """Return NLGP at g = 0.01, 3, 100 and the clone at 100, for 1 and 40 units; quick: a sixteenth of the steps."""
    part = 16 if quick else 1
    cells = [
        base | {"process": process, "gain": gain, "steps": base["steps"] // part, "repeats": repeats}
        for base, repeats in ((ONE, SHOWN), (MANY, 1))
        for process, gain in PANELS
    ]
    return seeded(cells, quick)


def rows(settings: Settings) -> Rows:
    """Return a row for every pixel of the first four fields: unit, pixel, weight, and those of `end`."""
    training = trained(settings)
    shown = training.fields.reshape(-1, settings["n"])[:SHOWN]
    return [
        {"unit": unit, "pixel": pixel, "weight": float(f"{weight:.4g}")} | end(training)
        for unit, field in enumerate(shown)
        for pixel, weight in enumerate(field)
    ]


def _shapes(table: pd.DataFrame) -> pd.DataFrame:
    shapes, names = [], ["units", "process", "gain", "unit"]
    for key, part in table.groupby(names):
        w = part.sort_values("pixel").weight.to_numpy(float)
        held = np.cumsum(np.sort(w**2)[::-1]) / np.sum(w**2)
        measures = {"ipr": float(ipr(w)), "pixels": int(np.argmax(held >= MOST)) + 1, "change": part.change.iloc[0]}
        shapes.append(dict(zip(names, key, strict=True)) | measures)
    return pd.DataFrame(shapes)


def draw(table: pd.DataFrame) -> Figure:
    """Plot five fields in each panel, below one another, as far as possible of different seeds.

    Rows are 1 and 40 units, columns are the NLGP at g = 0.01, 3 and 100 and its Gaussian clone at 100.
    """
    axes = panels(TITLE, columns=len(PANELS), rows=2, size=(1.95, 2.2))
    for row, base in zip(axes, (ONE, MANY), strict=True):
        for ax, (process, gain) in zip(row, PANELS, strict=True):
            part = where(table, units=base["units"], process=process, gain=gain)
            shown = (field for _, field in part.groupby(["unit", "seed"]))
            for place, (field, colour) in enumerate(zip(shown, LINES, strict=False)):
                ax.axhline(-2.2 * place, color="0.8", linewidth=0.6)
                w = field.weight / field.weight.abs().max()
                ax.plot(field.pixel, w - 2.2 * place, color=COLOURS[colour], linewidth=1.2)
            name = "NLGP," if process == "NLGP" else "clone,"
            ax.set(title=f"{name} g = {gain:g}", yticks=[], xlim=(0, base["n"] - 1))
            ax.spines["left"].set_visible(False)
        row[0].set_ylabel(f"K = {base['units']}, {scales(base['xi0'], base['xi1'])}")
    for ax in axes[1]:
        ax.set_xlabel("pixel")
    return axes[0, 0].figure


@over_seeds
def verdicts(table: pd.DataFrame) -> list[Verdict]:
    shapes, decided, gain = _shapes(table), [], PANELS[-1][1]
    for units in (ONE["units"], MANY["units"]):
        for process, shape, relation in (("NLGP", "local", "above"), ("Gaussian", "spread", "below")):
            field = where(shapes, units=units, gain=gain, process=process)[["pixels", "ipr", "change"]].median()
            text = f"{field.pixels:g} of {table.n.iloc[0]} pixels hold {100 * MOST:.0f} % of Σw², IPR {field.ipr:.3f}"
            claim = f"K = {units}, {process}, g = {gain:g}: fields are {shape}"
            decided.append(common.decide_local(claim, text, field.to_frame().T, relation))
    return [*decided, stayed(table)]
