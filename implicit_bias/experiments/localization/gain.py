"""Do nonlinear data localise fields, and their Gaussian clone not? IPR against gain, for three activations.

x = erf(g z)/Z on a ring of 40 pixels, ξ = (3, 1). One ReLU unit without bias (labels 1 and 0, w ~ N(0, 0.01/n), lr 0.1,
4000 steps of 500 fresh samples); 40 sigmoid or erf units with biases (labels 1 and −1, w ~ N(0, 1/n), lr 4 and 1),
which without biases would be odd functions and learn nothing of symmetric data.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.experiments.localization.drawing import LOCAL, NAMES, STYLES, curve, sinusoid
from implicit_bias.experiments.localization.networks import ONE, PROCESSES, SATURATING, seconds, spread, trained
from implicit_bias.experiments.runner.experiment import Experiment, Rows, Settings, panels, product


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
    """The spread over all units of all starts, and the median of half the loss."""
    training = trained(settings)
    return [spread(training.fields) | {"loss": float(np.median(training.losses[-1])) / 2}]


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


def fall(part: pd.DataFrame) -> tuple[float, pd.Series, pd.Series]:
    """By how much medians of IPR fall most as the gain grows, from which row to which.

    >>> import pandas as pd
    >>> from implicit_bias.experiments.localization.gain import fall
    >>> most, first, last = fall(pd.DataFrame({"gain": [1, 3, 10, 30], "ipr": [0.1, 0.5, 0.25, 0.375]}))
    >>> most, int(first.gain), int(last.gain)
    (0.25, 3, 10)
    """
    part = part.sort_values("gain")
    falls = (part.ipr.cummax() - part.ipr).to_numpy()
    low = int(np.argmax(falls))
    return float(falls[low]), part.iloc[int(np.argmax(part.ipr.iloc[: low + 1]))], part.iloc[low]


def finding(table: pd.DataFrame) -> str:
    """Where fields localise and the clone's do not, and where IPRs fall with the gain by more than the clone's vary."""
    texts, local, growing, falling = [], [], [], []
    for activation in NAMES:
        part = table[table.activation == activation].sort_values("gain")
        ours, clone = (part[part.process == process] for process in PROCESSES)
        if ours.gain.nunique() < 2 or clone.empty:
            continue
        first, last, name = ours.iloc[0], ours.iloc[-1], NAMES[activation]
        local.append(last.ipr > LOCAL > clone.ipr.max())
        texts.append(
            f"with {name} (K = {first.units}) from {first.ipr:.3f} at g = {first.gain:g} to {last.ipr:.2f} at "
            f"g = {last.gain:g} (quartiles {last.ipr_low:.2f} and {last.ipr_high:.2f}), the clone at most "
            f"{clone.ipr.max():.3f}"
        )
        most, before, after = fall(ours)
        if last.ipr > first.ipr and most <= clone.ipr.max() - clone.ipr.min():
            growing.append(name)
        else:
            falling.append(f"{name} ({before.ipr:.2f} at g = {before.gain:g}, {after.ipr:.2f} at g = {after.gain:g})")
    if not texts:
        return "Undecided: no activation was trained on both processes and at two gains."
    word = "Yes" if all(local) and not falling else "Partly" if any(local) else "No"
    rises = f"with {', '.join(growing)}" if growing else "with none"
    rises += f", not with {', '.join(falling)}" if falling else ""
    return (
        f"{word}: nonlinear data localise and the clone does not for {sum(local)} of {len(local)} activations: median "
        f"IPRs go {'; '.join(texts)}; they rise with g throughout {rises}; a sinusoid has "
        f"{1.5 / table.n.iloc[0]:.3f}."
    )


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
