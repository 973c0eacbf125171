"""Pixel gates in closed form: IPR and loss of the best weights behind a gate 1(x_i ≥ 0), without any training.

w = A_11⁻¹ b_1 and ⟨(y − ŷ)²⟩ = ⟨y²⟩ − bᵀA⁻¹b of the gates 1(x_i ≥ 0) and 1(x_i < 0), n = 40, labels 1 and 0, for
several pairs of length-scales; held against 20 000 samples.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.dynamics import ipr, pixel_moments
from implicit_bias.experiments.localization.networks import COMMON, process_of
from implicit_bias.experiments.runner.experiment import COLOURS, Experiment, Rows, Settings, panels, product

SAMPLES = 20_000
#: How far apart the loss in closed form and over samples may be: five standard errors of ⟨(y − ŷ)²⟩ about 0.2.
NEAR = 0.01
PAIRS = {(5.0, 1.0): "blue", (3.0, 1.0): "green", (2.0, 1.0): "purple", (1.0, 2.0): "red"}
#: The pair whose fields are drawn, the gate's pixel in the middle.
DRAWN = (5.0, 1.0)
FIELDS = {0.01: "0.75", 1.0: "0.5", 3.0: "#56B4E9", 100.0: "#0072B2"}


def grid(quick: bool) -> list[Settings]:
    """Four pairs of length-scales, thirteen gains; quick: two pairs, four gains."""
    steps = np.geomspace(0.01, 100.0, 9).round(4).tolist()
    gains = list(FIELDS) if quick else sorted({*FIELDS, *steps, 2.0, 5.0})
    pairs = [DRAWN, (1.0, 2.0)] if quick else list(PAIRS)
    return [
        COMMON | {"process": "NLGP", "xi0": one, "xi1": two} | cell | {"pixel": COMMON["n"] // 2, "seed": 1}
        for one, two in pairs
        for cell in product(gain=gains)
    ]


def rows(settings: Settings) -> Rows:
    """A row a pixel: its weight, and the IPR, the loss and the loss over samples of them all."""
    process = process_of(settings)
    moments = pixel_moments(process, settings["pixel"])
    w = moments.best_weights
    X, y = process.sample(SAMPLES, seed=settings["seed"])
    outputs = np.where(X[:, settings["pixel"]] >= 0, X @ w[0], X @ w[1])
    found = {"ipr": ipr(w)[0], "mse": moments.best_loss, "sampled_mse": np.mean((y - outputs) ** 2)}
    same = {name: round(float(value), 5) for name, value in found.items()}
    return [{"place": place, "weight": round(float(weight), 5)} | same for place, weight in enumerate(w[0])]


def cost(settings: Settings) -> float:
    """Mostly the samples."""
    return 4e-6 * SAMPLES * settings["n"] / 40


def draw(table: pd.DataFrame) -> Figure:
    """IPR and loss against gain, and the fields of one pair."""
    found = table.drop_duplicates(["xi0", "xi1", "gain"]).sort_values("gain")
    with panels(EXPERIMENT.title, columns=3, size=(3.2, 3.0)) as axes:
        for pair, colour in PAIRS.items():
            part = found[(found.xi0 == pair[0]) & (found.xi1 == pair[1])]
            style = {"color": COLOURS[colour], "linewidth": 1.2, "label": f"ξ = ({pair[0]:g}, {pair[1]:g})"}
            axes[0, 0].plot(part.gain, part.ipr, **style)
            axes[0, 1].plot(part.gain, part.mse, **style)
            axes[0, 1].plot(part.gain, part.sampled_mse, ".", color=COLOURS[colour], markersize=4)
        for gain, shade in FIELDS.items():
            field = table[(table.xi0 == DRAWN[0]) & (table.xi1 == DRAWN[1]) & (table.gain == gain)]
            line = {"color": shade, "linewidth": 1.2, "label": f"g = {gain:g}"}
            axes[0, 2].plot(field.place, field.weight / field.weight.abs().max(), **line)
        axes[0, 0].set(xscale="log", xlabel="gain g", ylabel="IPR", ylim=(0, None))
        axes[0, 1].set(xscale="log", xlabel="gain g", ylabel="⟨(y − ŷ)²⟩ (dots: samples)", ylim=(0, None))
        axes[0, 2].set(xlabel="pixel", ylabel="weight / largest", title=f"ξ = ({DRAWN[0]:g}, {DRAWN[1]:g})")
        axes[0, 1].legend(frameon=False, loc="lower left")
        axes[0, 2].legend(frameon=False)
    figure: Figure = axes[0, 0].figure
    return figure


def finding(table: pd.DataFrame) -> str:
    """IPR and loss of the drawn pair at its gains, and how far the samples are from the closed form."""
    found = table.drop_duplicates(["xi0", "xi1", "gain"])
    ours = found[(found.xi0 == DRAWN[0]) & (found.xi1 == DRAWN[1])].sort_values("gain")
    named = ours[ours.gain.isin(FIELDS)]
    if len(named) < 2 or len(_by_pair(found)) < 2:
        return "Undecided: fewer than two pairs of length-scales have been computed at two of the drawn gains."
    away = float((found.mse - found.sampled_mse).abs().max())
    rising = {pair: bool((np.diff(part.sort_values("gain").ipr) > 0).all()) for pair, part in _by_pair(found)}
    word = "No" if away > NEAR or not rising[DRAWN] else "Yes" if all(rising.values()) else "Partly"
    iprs, losses = ("/".join(f"{value:.3f}" for value in named[name]) for name in ("ipr", "mse"))
    others = [
        f"for ({pair[0]:g}, {pair[1]:g}) from {part.ipr.min():.2f} to {part.ipr.max():.2f}"
        + ("" if rising[pair] else ", not rising throughout")
        for pair, part in _by_pair(found)
        if pair != DRAWN
    ]
    return (
        f"{word}: at g = {'/'.join(f'{gain:g}' for gain in named.gain)} and ξ = (5, 1) the IPR is {iprs} and "
        f"⟨(y − ŷ)²⟩ is {losses}; IPR {'rises' if rising[DRAWN] else 'does not rise'} with g there, and goes "
        f"{'; '.join(others)}; over {SAMPLES} samples losses differ by at most {away:.4f} in {len(found)} settings."
    )


def _by_pair(found: pd.DataFrame) -> list[tuple[tuple[float, float], pd.DataFrame]]:
    parts = ((pair, found[(found.xi0 == pair[0]) & (found.xi1 == pair[1])]) for pair in PAIRS)
    return [(pair, part) for pair, part in parts if len(part) > 1]


EXPERIMENT = Experiment(
    name="pixels",
    title="Pixel gates in closed form",
    source="pixel gates",
    claim="Behind pixel gates the best weights are known in closed form, and are the more local the larger the gain.",
    grid=grid,
    rows=rows,
    cost=cost,
    draw=draw,
    finding=finding,
)
