"""Pixel gates in closed form: IPR and loss of the best weights behind a gate 1(x_i ≥ 0), without training.

For the gates 1(x_i ≥ 0) and 1(x_i < 0), w = A_11⁻¹ b_1, and the loss ⟨(y − ŷ)²⟩ = ⟨y²⟩ − bᵀA⁻¹b is compared with the
loss over samples.
"""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.extensions.gated_flow import ipr, pixel_moments
from implicit_bias.studies.localization.common import COMMON, process_of, scales, slashed
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, decide, panels, product, where

TITLE = "Pixel gates in closed form"
SOURCE = "pixel gates"
CLAIM = "Behind pixel gates the best weights are known in closed form, and are the more local the larger the gain."
SAMPLES = 20_000
#: Largest distance of the loss over samples from the closed form: five standard errors of ⟨(y − ŷ)²⟩ about 0.2.
NEAR = 0.01
PAIRS = {(5.0, 1.0): "blue", (3.0, 1.0): "green", (2.0, 1.0): "purple", (1.0, 2.0): "red"}
#: The pair whose fields are plotted, with the gate's pixel in the middle.
DRAWN = (5.0, 1.0)
FIELDS = {0.01: "0.75", 1.0: "0.5", 3.0: "#56B4E9", 100.0: "#0072B2"}


def grid(quick: bool) -> list[Settings]:
    """Return four pairs of length-scales and 12 gains from 0.01 to 100; quick: two pairs, four gains."""
    steps = np.geomspace(0.01, 100.0, 9).round(4).tolist()
    gains = list(FIELDS) if quick else sorted({*FIELDS, *steps, 2.0, 5.0})
    pairs = [DRAWN, (1.0, 2.0)] if quick else list(PAIRS)
    return [
        COMMON | {"process": "NLGP", "xi0": one, "xi1": two} | cell | {"pixel": COMMON["n"] // 2, "seed": 1}
        for one, two in pairs
        for cell in product(gain=gains)
    ]


def rows(settings: Settings) -> Rows:
    """Return a row for each pixel: place and weight, and the same ipr, mse and sampled_mse in all rows.

    Weights are the best ones behind the open gate; `sampled_mse` is their loss over SAMPLES samples.
    """
    process = process_of(settings)
    moments = pixel_moments(process, settings["pixel"])
    w = moments.best_weights
    X, y = process.sample(SAMPLES, seed=settings["seed"])
    outputs = np.where(X[:, settings["pixel"]] >= 0, X @ w[0], X @ w[1])
    measured = {"ipr": ipr(w)[0], "mse": moments.best_loss, "sampled_mse": np.mean((y - outputs) ** 2)}
    same = {name: round(float(value), 5) for name, value in measured.items()}
    return [{"place": place, "weight": round(float(weight), 5)} | same for place, weight in enumerate(w[0])]


def cost(settings: Settings) -> float:
    return 4e-6 * SAMPLES * settings["n"] / 40


def draw(table: pd.DataFrame) -> Figure:
    cells = table.drop_duplicates(["xi0", "xi1", "gain"]).sort_values("gain")
    axes = panels(TITLE, columns=3, size=(3.2, 3.0))
    for pair, colour in PAIRS.items():
        part = where(cells, xi0=pair[0], xi1=pair[1])
        style = {"color": COLOURS[colour], "linewidth": 1.2, "label": scales(*pair)}
        axes[0, 0].plot(part.gain, part.ipr, **style)
        axes[0, 1].plot(part.gain, part.mse, **style)
        axes[0, 1].plot(part.gain, part.sampled_mse, ".", color=COLOURS[colour], markersize=4)
    for gain, shade in FIELDS.items():
        field = where(table, xi0=DRAWN[0], xi1=DRAWN[1], gain=gain)
        line = {"color": shade, "linewidth": 1.2, "label": f"g = {gain:g}"}
        axes[0, 2].plot(field.place, field.weight / field.weight.abs().max(), **line)
    axes[0, 0].set(xscale="log", xlabel="gain g", ylabel="IPR", ylim=(0, None))
    axes[0, 1].set(xscale="log", xlabel="gain g", ylabel="⟨(y − ŷ)²⟩ (dots: samples)", ylim=(0, None))
    axes[0, 2].set(xlabel="pixel", ylabel="weight / largest", title=scales(*DRAWN))
    axes[0, 1].legend(loc="lower left")
    axes[0, 2].legend()
    return axes[0, 0].figure


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    cells = table.drop_duplicates(["xi0", "xi1", "gain"]).sort_values("gain")
    away = (cells.mse - cells.sampled_mse).abs().max()
    shown = where(cells, xi0=DRAWN[0], xi1=DRAWN[1]).query("gain in @FIELDS")
    losses = f"off by at most {away:.4f} over {SAMPLES} samples in {len(cells)} settings; "
    losses += f"for {scales(*DRAWN)} {slashed(shown.mse, '.3f')} at g = {slashed(shown.gain)}"
    decided = [decide("⟨(y − ŷ)²⟩ is known in closed form", losses, away, "at most", NEAR)]
    for one, two in PAIRS:
        iprs = where(cells, xi0=one, xi1=two).set_index("gain").ipr
        some = iprs[iprs.index.isin(FIELDS)]
        text = f"IPR {iprs.min():.2f} to {iprs.max():.2f}; {slashed(some, '.3f')} at g = {slashed(some.index)}"
        claim = f"{scales(one, two)}: IPR grows with g"
        decided.append(decide(claim, text, iprs.diff().min(), "above", 0, " at every step"))
    return decided
