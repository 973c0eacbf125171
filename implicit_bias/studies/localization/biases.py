"""Are biases needed? Activations, labels and widths without, with hidden biases b_k, and with the output bias b₂ too.

Without biases, erf(wᵀx) and sigmoid(wᵀx) − ½ are odd functions of x, and x and −x are equally likely in each class.
The best such unit has w = 0.
"""

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.studies.localization import common
from implicit_bias.studies.localization.common import NAMES, ONE, SATURATING, sinusoid, stayed, whiskers
from implicit_bias.studies.runner import Settings, Verdict, over_seeds, product, seeded, span, where
from implicit_bias.studies.runner.drawing import COLOURS, beside, panels

TITLE = "With and without biases"
SOURCE = "nonlinear Gaussian process"
CLAIM = "ReLU units localize without biases; sigmoid and erf units need them."
SHARED = common
#: The output bias has the same learning rate as the weights, and is stable below 2.
RATES = SATURATING | {"relu": {"lr": 0.2, "steps": 16_000}, "sigmoid": {"scale": 1.0, "lr": 1.0, "steps": 32_000}}
LABELS = {0.0: "1 and 0", -1.0: "1 and −1"}
#: Kinds of biases: whether there are b_k, and b₂.
KINDS = {"no biases": (False, False), "hidden": (True, False), "both": (True, True)}
STYLES = {
    **{("NLGP", "both"): ("blue", "o"), ("NLGP", "hidden"): ("green", "s"), ("NLGP", "no biases"): ("sky", "D")},
    **{("Gaussian", "both"): ("orange", "o")},
}


def grid(quick: bool) -> list[Settings]:
    """Return all activations, labels and STYLES at gain 3 for 1 unit (12 repeats) and 40 units (2).

    Quick: 1 unit, 6 repeats, 400 steps.
    """
    cells = []
    for cell in product(units=(1,) if quick else (1, 40), activation=NAMES, label=LABELS):
        extent = {"gain": 3.0, "batch": 300, "repeats": 2}
        # Single units whose weights vanish end as noise, which never settles.
        limit = 16_000 if cell["activation"] == "sigmoid" else 4000
        extent |= {"repeats": 12, "steps": limit} if cell["units"] == 1 else {}
        base = ONE | RATES[cell["activation"]] | cell | extent | ({"steps": 400, "repeats": 6} if quick else {})
        for process, kind in STYLES:
            hidden, output = KINDS[kind]
            cells.append(base | {"biases": hidden, "output_bias": output, "process": process})
    return seeded(cells, quick)


def draw(table: pd.DataFrame) -> Figure:
    """Plot medians over seeds of the median and the quartiles of the IPR."""
    settings = [(activation, label) for activation in NAMES for label in LABELS]
    widths = sorted(table.units.unique())
    cells = table.groupby(["units", "process", "biases", "output_bias", "activation", "label"], sort=False)
    table = cells[["ipr_low", "ipr", "ipr_high"]].median().reset_index()
    axes = panels(TITLE, columns=len(widths), size=(3.8, 3.2))
    for ax, units in zip(axes[0], widths, strict=True):
        for place, ((process, kind), (colour, marker)) in enumerate(STYLES.items()):
            hidden, output = KINDS[kind]
            part = where(table, units=units, process=process, biases=hidden, output_bias=output)
            text = f"{'NLGP' if process == 'NLGP' else 'clone'}, {kind}"
            pairs = zip(part.activation, part.label, strict=True)
            places = [0.3 - 0.2 * place - settings.index(pair) for pair in pairs]
            whiskers(ax, part, places, color=COLOURS[colour], marker=marker, label=text)
        sinusoid(ax, upright=True)
        names = [f"{NAMES[activation]}, y {LABELS[label]}" for activation, label in settings]
        ax.set_yticks(range(0, -len(names), -1), names)
        ax.set(title=f"K = {units}", xlabel="IPR, median and quartiles", xlim=(0, None))
    return beside(axes)


@over_seeds
def verdicts(table: pd.DataFrame) -> list[Verdict]:
    decided = []
    clone = where(table, process="Gaussian").ipr.max()
    for activation, name in NAMES.items():
        ours = where(table, process="NLGP", activation=activation)
        runs = {kind: where(ours, biases=b, output_bias=c) for kind, (b, c) in KINDS.items()}
        texts = {
            kind: f"{(side > 0).sum()} of {len(side)} local, {(side < 0).sum()} not, IPR {span(subset.ipr, '.2f')}"
            for kind, subset in runs.items()
            for side in [common.sides(subset)]
        }
        without, both = runs["no biases"], runs["both"]
        text = f"{texts['both']}; with hidden biases alone {texts['hidden']}; the clone's IPR up to {clone:.2f}"
        decided.append(common.decide_local(f"{name} localizes with both biases in every setting", text, both))
        does, relation = ("localizes", "above") if activation == "relu" else ("does not localize", "below")
        decided.append(
            common.decide_local(f"{name} {does} without biases in every setting", texts["no biases"], without, relation)
        )
    return [*decided, stayed(table)]
