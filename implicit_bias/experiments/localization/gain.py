"""Do nonlinear data localise fields, and their Gaussian clone not? IPR against gain, for three activations.

x = erf(g z)/Z on a ring of 40 pixels, ξ = (3, 1). One ReLU unit without bias (labels 1 and 0, w ~ N(0, 0.01/n), lr 0.1,
4000 steps of 500 fresh samples); 40 sigmoid or erf units with biases (labels 1 and −1, w ~ N(0, 1/n), lr 4 and 1),
which without biases would be odd functions and learn nothing of symmetric data.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.experiments.figures.base import Experiment, Rows, Settings, panels, product
from implicit_bias.experiments.localization.drawing import LOCAL, NAMES, STYLES, curve, sinusoid
from implicit_bias.experiments.localization.networks import ONE, PROCESSES, SATURATING, seconds, spread, trained


def grid(quick: bool) -> list[Settings]:
    """Eight gains, 24 starts of ReLU and 5 of the others; quick: three gains and fewer."""
    gains = (0.01, 1.0, 100.0) if quick else (0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
    cells = []
    for cell in product(activation=NAMES, process=PROCESSES, gain=gains):
        if cell["activation"] == "relu":
            own = {"steps": 1000, "repeats": 10} if quick else {"steps": 4000, "repeats": 24}
            cells.append(ONE | cell | own | {"seed": 1})
        else:
            many = ONE | SATURATING[cell["activation"]] | {"units": 40, "biases": True, "label": -1.0, "batch": 300}
            cells.append(many | cell | {"steps": 500 if quick else 1500, "repeats": 2 if quick else 5, "seed": 1})
    return cells


def rows(settings: Settings) -> Rows:
    """The spread over all units of all starts, and the median loss."""
    training = trained(settings)
    return [spread(training.fields) | {"loss": float(np.median(training.losses[-1]))}]


def draw(table: pd.DataFrame) -> Figure:
    """A panel an activation: IPR against gain of the process and of its clone."""
    there = [activation for activation in NAMES if activation in set(table.activation)]
    with panels(EXPERIMENT.title, columns=len(there), size=(3.0, 2.9)) as axes:
        for ax, activation in zip(axes[0], there, strict=True):
            part = table[table.activation == activation]
            for process in PROCESSES:
                curve(ax, part[part.process == process], "gain", **STYLES[process])
            sinusoid(ax)
            ax.set(
                title=f"{NAMES[activation]}, K = {part.units.iloc[0]}", xlabel="gain g", xscale="log", ylim=(0, 0.65)
            )
        axes[0, 0].set_ylabel("IPR, median and quartiles")
        axes[0, 0].legend(frameon=False, loc="upper left")
    figure: Figure = axes[0, 0].figure
    return figure


def finding(table: pd.DataFrame) -> str:
    """Medians at the least and the largest gain, and the largest of the clone."""
    texts, holds = [], []
    for activation in NAMES:
        part = table[table.activation == activation].sort_values("gain")
        local, clone = (part[part.process == process] for process in PROCESSES)
        if local.gain.nunique() < 2 or clone.empty:
            continue
        first, last = local.iloc[0], local.iloc[-1]
        most = local.sort_values("ipr").iloc[-1]
        holds.append([last.ipr > LOCAL > clone.ipr.max(), most.gain == last.gain > first.gain])
        peak = "" if holds[-1][1] else f" (most, {most.ipr:.2f}, at g = {most.gain:g})"
        texts.append(
            f"{NAMES[activation]} (K = {first.units}) from {first.ipr:.3f} at g = {first.gain:g} to {last.ipr:.2f} at "
            f"g = {last.gain:g}{peak}, its clone at most {clone.ipr.max():.3f}"
        )
    if not texts:
        return "Undecided: no activation was trained on both processes and at two gains."
    word = "Yes" if np.all(holds) else "Partly" if any(hold[0] for hold in holds) else "No"
    return f"{word}: median IPRs go with {'; with '.join(texts)}; a sinusoid has {1.5 / table.n.iloc[0]:.3f}."


EXPERIMENT = Experiment(
    name="gain",
    title="How local fields become, against the gain",
    source="nonlinear Gaussian process",
    claim="Nonlinear data localise receptive fields, the more the larger the gain, and a Gaussian clone does not.",
    grid=grid,
    rows=rows,
    cost=seconds,
    draw=draw,
    finding=finding,
)
