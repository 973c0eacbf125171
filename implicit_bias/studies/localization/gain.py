"""Do nonlinear data localize fields, and their Gaussian clone not? IPR against gain, for three activations.

x = erf(g z)/Z on a ring of 40 pixels, ξ = (3, 1). One ReLU unit without bias (labels 1 and 0, w ~ N(0, 0.01/n), lr 0.1,
500 fresh samples a step); 40 sigmoid or erf units with biases (labels 1 and −1, w ~ N(0, 1/n), lr 4 and 1, 300
samples), which without biases would be odd functions and learn nothing of symmetric data. All train until fields stay.
"""

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.studies.localization.drawing import LOCAL, NAMES, STYLES, curve, sinusoid, slashed
from implicit_bias.studies.localization.networks import ONE, PROCESSES, SATURATING, one_row, seconds, stayed
from implicit_bias.studies.runner import Settings, Verdict, decide, panels, product, where

TITLE = "How local fields become, against the gain"
SOURCE = "nonlinear Gaussian process"
CLAIM = "Nonlinear data localize receptive fields, the more the larger the gain, and a Gaussian clone does not."
REVISION = 2
rows = one_row
cost = seconds


def grid(quick: bool) -> list[Settings]:
    """Six gains, 16 starts of ReLU, 8 of sigmoid and erf; quick: three gains and fewer steps."""
    gains = (0.01, 1.0, 100.0) if quick else (0.01, 0.3, 1.0, 3.0, 10.0, 100.0)
    cells = []
    for cell in product(activation=NAMES, process=PROCESSES, gain=gains):
        if cell["activation"] == "relu":
            own = {"steps": 1000, "repeats": 10} if quick else {"repeats": 16}
            cells.append(ONE | cell | own | {"seed": 1})
        else:
            many = ONE | SATURATING[cell["activation"]] | {"units": 40, "biases": True, "label": -1.0, "batch": 300}
            own = {"steps": 1000, "repeats": 2} if quick else {"repeats": 8}
            cells.append(many | cell | own | {"seed": 1})
    return cells


def draw(table: pd.DataFrame) -> Figure:
    """A panel per activation: IPR against gain of the process and of its clone."""
    there = [activation for activation in NAMES if activation in set(table.activation)]
    axes = panels(TITLE, columns=len(there), size=(3.0, 2.9))
    for ax, activation in zip(axes[0], there, strict=True):
        part = where(table, activation=activation)
        for process in PROCESSES:
            curve(ax, where(part, process=process), "gain", **STYLES[process])
        sinusoid(ax)
        ax.set(title=f"{NAMES[activation]}, K = {part.units.iloc[0]}", xlabel="gain g", xscale="log", ylim=(0, 0.65))
    axes[0, 0].set_ylabel("IPR, median and quartiles")
    axes[0, 0].legend(loc="upper left")
    return axes[0, 0].figure


def fall(part: pd.DataFrame) -> tuple[float, str]:
    """By how much medians of IPR fall most as the gain grows, and from which gain to which; NaN of a single gain.

    >>> fall(pd.DataFrame({"gain": [1, 3, 10, 30], "ipr": [0.1, 0.5, 0.25, 0.375]}))
    (0.25, '0.500 at g = 3 to 0.250 at g = 10')
    """
    if len(part) < 2:
        return float("nan"), ""
    part = part.sort_values("gain")
    falls = part.ipr.cummax() - part.ipr
    low = int(falls.argmax())
    ends = part.iloc[int(part.ipr[: low + 1].argmax())], part.iloc[low]
    return float(falls.max()), " to ".join(f"{row.ipr:.3f} at g = {row.gain:g}" for row in ends)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Where fields localize and the clone's do not, and where IPRs fall with the gain by more than the clone's vary."""
    found = []
    for activation, name in NAMES.items():
        ours, clone = (where(table, activation=activation, process=process) for process in PROCESSES)
        ends = ours[ours.gain.isin([ours.gain.min(), ours.gain.max()])].sort_values("gain")
        last, widest = ends[1:], clone.ipr.max()
        text = f"K = {slashed(ours.units.unique())}: median IPR {slashed(ends.ipr, '.3f')} at g = {slashed(ends.gain)}"
        text += f", quartiles at last {slashed(last.ipr_low, '.2f')} and {slashed(last.ipr_high, '.2f')}"
        clones = f"median IPR up to {widest:.3f}"
        most, path = fall(ours)
        vary = widest - clone.ipr.min()
        found.append(decide(f"{name}: nonlinear data localize fields", text, last.ipr.max(), "above", LOCAL))
        found.append(decide(f"{name}: their clone does not", clones, widest, "below", LOCAL))
        found.append(decide(f"{name}: IPR never falls with g", path, most, "at most", vary, ", as the clone's vary"))
    return [*found, stayed(table)]
