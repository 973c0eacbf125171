"""Are biases needed? Activations, labels and widths with and without them, on the process and on its clone.

g = 3, ξ = (3, 1), n = 40. Without biases erf(wᵀx), and sigmoid(wᵀx) − ½, are odd, and x and −x are equally likely in
each class: the best such unit is silent, w = 0. Rates and starts as in `gain`.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.experiments.localization.drawing import LOCAL, NAMES, sinusoid, whiskers
from implicit_bias.experiments.localization.networks import ONE, PROCESSES, SATURATING, seconds, spread, trained
from implicit_bias.experiments.runner.experiment import COLOURS, Experiment, Rows, Settings, panels, product

RATES = {"relu": {"lr": 0.2}} | SATURATING
LABELS = {0.0: "1 and 0", -1.0: "1 and −1"}
STYLES = {
    **{("NLGP", True): ("blue", "o"), ("NLGP", False): ("sky", "D")},
    **{("Gaussian", True): ("red", "o"), ("Gaussian", False): ("orange", "D")},
}


def grid(quick: bool) -> list[Settings]:
    """Three activations, two widths and pairs of labels, all with and without biases; quick: one unit, fewer steps."""
    cells = []
    for cell in product(units=(1,) if quick else (1, 40), activation=NAMES, label=LABELS, biases=(True, False)):
        own = {"gain": 3.0, "batch": 300, "steps": 400 if quick else 2000, "seed": 1}
        base = ONE | RATES[cell["activation"]]
        repeats = (6 if quick else 24) if cell["units"] == 1 else 2
        cells += [base | cell | own | {"repeats": repeats, "process": process} for process in PROCESSES]
    return cells


def rows(settings: Settings) -> Rows:
    """The spread over all units of all starts, and the median of half the loss."""
    training = trained(settings)
    return [spread(training.fields) | {"loss": float(np.median(training.losses[-1])) / 2}]


def draw(table: pd.DataFrame) -> Figure:
    """Median and quartiles of IPR: a panel a width, a line an activation and pair of labels."""
    settings = [(activation, label) for activation in NAMES for label in LABELS]
    widths = sorted(table.units.unique())
    with panels(EXPERIMENT.title, columns=len(widths), size=(3.8, 3.2)) as axes:
        for ax, units in zip(axes[0], widths, strict=True):
            for place, ((process, biases), (colour, marker)) in enumerate(STYLES.items()):
                part = table[(table.units == units) & (table.process == process) & (table.biases == biases)]
                text = f"{'NLGP' if process == 'NLGP' else 'clone'}, {'with' if biases else 'no'} biases"
                pairs = zip(part.activation, part.label, strict=True)
                places = [0.3 - 0.2 * place - settings.index(pair) for pair in pairs]
                whiskers(ax, part, places, color=COLOURS[colour], marker=marker, label=text)
            sinusoid(ax, upright=True)
            names = [f"{NAMES[activation]}, y {LABELS[label]}" for activation, label in settings]
            ax.set(title=f"K = {units}", yticks=[-i for i in range(len(names))], yticklabels=names, xlim=(0, None))
            ax.set_xlabel("IPR, median and quartiles")
        axes[0, -1].legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure: Figure = axes[0, 0].figure
    return figure


def finding(table: pd.DataFrame) -> str:
    """Where fields are local with biases, and where without; the claim is of every pair of labels and width."""
    ours = table[table.process == "NLGP"]
    texts, holds = [], {}
    for activation in NAMES:
        part = ours[ours.activation == activation]
        with_, without = (part[part.biases == biases].ipr for biases in (True, False))
        if len(with_) and len(without):
            counts = [f"{int((iprs > LOCAL).sum())} of {len(iprs)} settings" for iprs in (with_, without)]
            texts.append(
                f"{NAMES[activation]} in {counts[0]} with biases (IPR up to {with_.max():.2f}) and {counts[1]} without "
                f"(up to {without.max():.2f})"
            )
            expected = without if activation == "relu" else with_
            needless = activation != "relu" and without.max() > LOCAL
            holds[activation] = 0.0 if needless else float((expected > LOCAL).mean())
    if set(holds) != set(NAMES):
        return "Undecided: not all activations have been trained with and without biases."
    word = "Yes" if min(holds.values()) == 1 else "Partly" if any(holds.values()) else "No"
    clone = table[table.process == "Gaussian"]
    ends = f"; the clone's median IPR is at most {clone.ipr.max():.2f}" if len(clone) else ""
    return f"{word}: fields are local (median IPR above {LOCAL:.2f}) for {'; '.join(texts)}{ends}."


EXPERIMENT = Experiment(
    name="biases",
    title="With and without biases",
    source="nonlinear Gaussian process",
    claim="ReLU units localise without biases; sigmoid and erf units need them.",
    grid=grid,
    rows=rows,
    cost=seconds,
    draw=draw,
    finding=finding,
)
