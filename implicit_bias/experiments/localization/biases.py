"""Are biases needed? Activations, labels and widths with and without them, on the process and on its clone.

g = 3, ξ = (3, 1), n = 40. Without biases erf(wᵀx), and sigmoid(wᵀx) − ½, are odd, and x and −x are equally likely in
each class: the best such unit is silent, w = 0. Rates and starts as in `gain`.
"""

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.experiments.localization.drawing import LOCAL, NAMES, sinusoid, where, whiskers
from implicit_bias.experiments.localization.networks import ONE, PROCESSES, SATURATING, one_row, seconds
from implicit_bias.experiments.runner import COLOURS, Settings, Verdict, decide, panels, product

TITLE = "With and without biases"
SOURCE = "nonlinear Gaussian process"
CLAIM = "ReLU units localize without biases; sigmoid and erf units need them."
rows = one_row
cost = seconds
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


def draw(table: pd.DataFrame) -> Figure:
    """Median and quartiles of IPR: a panel per width, a line per activation and pair of labels."""
    settings = [(activation, label) for activation in NAMES for label in LABELS]
    widths = sorted(table.units.unique())
    axes = panels(TITLE, columns=len(widths), size=(3.8, 3.2))
    for ax, units in zip(axes[0], widths, strict=True):
        for place, ((process, biases), (colour, marker)) in enumerate(STYLES.items()):
            part = where(table, units=units, process=process, biases=biases)
            text = f"{'NLGP' if process == 'NLGP' else 'clone'}, {'with' if biases else 'no'} biases"
            pairs = zip(part.activation, part.label, strict=True)
            places = [0.3 - 0.2 * place - settings.index(pair) for pair in pairs]
            whiskers(ax, part, places, color=COLOURS[colour], marker=marker, label=text)
        sinusoid(ax, upright=True)
        names = [f"{NAMES[activation]}, y {LABELS[label]}" for activation, label in settings]
        ax.set_yticks(range(0, -len(names), -1), names)
        ax.set(title=f"K = {units}", xlabel="IPR, median and quartiles", xlim=(0, None))
    axes[0, -1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return axes[0, 0].figure


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Where fields are local with biases, and where without; the claims are of every pair of labels and width."""
    found, of = [], " in every setting"
    clone = where(table, process="Gaussian").ipr.max()
    for activation, name in NAMES.items():
        iprs = where(table, process="NLGP", activation=activation).set_index("biases").ipr
        with_, without = (iprs[iprs.index == biases] for biases in (True, False))
        texts = [f"{(own > LOCAL).sum()} of {len(own)} local, IPR up to {own.max():.2f}" for own in (with_, without)]
        text = f"without biases {texts[1]}; with biases {texts[0]}; the clone's IPR up to {clone:.2f}"
        if activation == "relu":
            found.append(decide(f"{name} localizes without biases", text, without.min(), "above", LOCAL, of))
        else:
            found.append(decide(f"{name} does not localize without biases", text, without.max(), "at most", LOCAL, of))
            found.append(decide(f"{name} localizes with biases", texts[0], with_.min(), "above", LOCAL, of))
    return found
