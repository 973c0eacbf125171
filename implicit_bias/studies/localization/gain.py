"""Do nonlinear data localize fields, and their Gaussian clone not? IPR against gain, for three activations.

x = erf(g z)/Z on a ring of 40 pixels. ReLU units have no biases. Sigmoid and erf units have biases, because without
biases they would be odd functions and learn nothing from symmetric data. All train until their fields settle.
"""

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.studies.localization import common
from implicit_bias.studies.localization.common import NAMES, ONE, PROCESSES, SATURATING, STYLES, slashed, stayed
from implicit_bias.studies.runner import Settings, Verdict, decide, over_seeds, product, seeded, where
from implicit_bias.studies.runner.drawing import log_ticks, panels

TITLE = "How local fields become, against the gain"
SOURCE = "nonlinear Gaussian process"
CLAIM = "Nonlinear data localize receptive fields, the more the larger the gain, and a Gaussian clone does not."
SHARED = common


def grid(quick: bool) -> list[Settings]:
    """Return six gains from 0.01 to 100 for both processes and three activations.

    ReLU has 16 repeats, the others 8. Quick: three gains, 1000 steps, 10 and 2 repeats.
    """
    gains = (0.01, 1.0, 100.0) if quick else (0.01, 0.3, 1.0, 3.0, 10.0, 100.0)
    cells = []
    for cell in product(activation=NAMES, process=PROCESSES, gain=gains):
        base, repeats, few = ONE, 16, 10
        if cell["activation"] != "relu":
            base = ONE | SATURATING[cell["activation"]] | {"units": 40, "biases": True, "label": -1.0, "batch": 300}
            repeats, few = 8, 2
        extent = {"steps": 1000, "repeats": few} if quick else {"repeats": repeats}
        cells.append(base | cell | extent)
    return seeded(cells, quick)


def draw(table: pd.DataFrame) -> Figure:
    there = [activation for activation in NAMES if activation in set(table.activation)]
    axes = panels(TITLE, columns=len(there), size=(2.5, 2.6))
    for ax, activation in zip(axes[0], there, strict=True):
        part = where(table, activation=activation)
        for process in PROCESSES:
            common.curve(ax, where(part, process=process), "gain", **STYLES[process])
        common.sinusoid(ax)
        ax.set(title=f"{NAMES[activation]}, K = {part.units.iloc[0]}", xlabel="gain g", ylim=(0, 0.65))
        log_ticks(ax, (0.01, 0.1, 1.0, 10.0, 100.0), form="{:g}".format)
    axes[0, 0].set_ylabel("IPR, median and quartiles")
    axes[0, -1].legend(loc="upper left")
    return axes[0, 0].figure


def _fall(part: pd.DataFrame) -> tuple[float, str]:
    if len(part) < 2:
        return float("nan"), ""
    part = part.sort_values("gain")
    falls = part.ipr.cummax() - part.ipr
    low = int(falls.argmax())
    ends = part.iloc[int(part.ipr[: low + 1].argmax())], part.iloc[low]
    return float(falls.max()), " to ".join(f"{row.ipr:.3f} at g = {row.gain:g}" for row in ends)


@over_seeds
def verdicts(table: pd.DataFrame) -> list[Verdict]:
    decided = []
    for activation, name in NAMES.items():
        ours, clone = (where(table, activation=activation, process=process) for process in PROCESSES)
        ends = ours[ours.gain.isin([ours.gain.min(), ours.gain.max()])].sort_values("gain")
        last, widest = ends[1:], clone.ipr.max()
        text = f"K = {slashed(ours.units.unique())}: median IPR {slashed(ends.ipr, '.3f')} at g = {slashed(ends.gain)}"
        text += f", quartiles at last {slashed(last.ipr_low, '.2f')} and {slashed(last.ipr_high, '.2f')}"
        clones, (fall, path), vary = f"median IPR up to {widest:.3f}", _fall(ours), widest - clone.ipr.min()
        decided.append(common.decide_local(f"{name}: nonlinear data localize fields", text, last))
        decided.append(common.decide_local(f"{name}: their clone does not", clones, clone, "below"))
        decided.append(decide(f"{name}: IPR never falls with g", path, fall, "at most", vary, ", as the clone's vary"))
    return [*decided, stayed(table)]
