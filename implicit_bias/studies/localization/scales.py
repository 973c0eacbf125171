"""Does it matter which class has the longer correlations? Forty ReLU units, ξ = (2, 1) against ξ = (1, 2).

The class of label 1 has the length-scale ξ₁, and the class of label 0 has ξ₂. The output is the mean over units;
there are no biases.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.extensions.gated_flow import ipr, peak_frequency
from implicit_bias.studies.localization import common
from implicit_bias.studies.localization.common import LOCAL, MANY, curve, end, sinusoid, slashed, stayed, trained
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, decide, over_seeds, panels, seeded, where

TITLE = "Which class has the longer correlations"
SOURCE = "nonlinear Gaussian process"
CLAIM = "Fields localize where ξ₁ > ξ₂, and oscillate where ξ₁ < ξ₂."
SHARED = common
#: Share of units that counts as few.
FEW = 0.1
STYLES: dict[tuple[float, float], dict[str, Any]] = {
    (2.0, 1.0): {"color": COLOURS["blue"], "marker": "o", "label": "ξ₁ > ξ₂: (2, 1)"},
    (1.0, 2.0): {"color": COLOURS["red"], "marker": "s", "label": "ξ₁ < ξ₂: (1, 2)"},
}


def grid(quick: bool) -> list[Settings]:
    """Return both orders at gains 0.01, 1, 3 and 100 with 2 repeats; quick: gains 0.01 and 3, 1 repeat, 2000 steps."""
    gains, steps, repeats = ((0.01, 3.0), 2000, 1) if quick else ((0.01, 1.0, 3.0, 100.0), 256_000, 2)
    extent = {"process": "NLGP", "steps": steps, "repeats": repeats}
    cells = [MANY | {"xi0": first, "xi1": second, "gain": gain} | extent for first, second in STYLES for gain in gains]
    return seeded(cells, quick)


def rows(settings: Settings) -> Rows:
    """Return a row for each unit of each repeat: unit, ipr, frequency (its peak), and those of `end`."""
    training = trained(settings)
    fields = training.fields.reshape(-1, settings["n"])
    pairs = zip(ipr(fields), peak_frequency(fields), strict=True)
    return [
        {"unit": k, "ipr": round(float(i), 5), "frequency": int(f)} | end(training) for k, (i, f) in enumerate(pairs)
    ]


def _summary(table: pd.DataFrame) -> pd.DataFrame:
    groups = table.assign(local=table.ipr > LOCAL).groupby(["xi0", "xi1", "gain"])
    columns = {"ipr_low": groups.ipr.quantile(0.25), "ipr": groups.ipr.median(), "ipr_high": groups.ipr.quantile(0.75)}
    columns["change"] = groups.change.first()
    return pd.DataFrame(columns | {"frequency": groups.frequency.median(), "local": groups.local.mean()}).reset_index()


def draw(table: pd.DataFrame) -> Figure:
    """Plot medians and quartiles of the IPRs of the units of all seeds, and the units at gain 3."""
    summary, shift = _summary(table), np.random.default_rng(0)
    axes = panels(TITLE, columns=2, size=(4.0, 3.1))
    for order, style in STYLES.items():
        pair = {"xi0": order[0], "xi1": order[1]}
        curve(axes[0, 0], where(summary, **pair), "gain", **style)
        units = where(table, **pair, gain=3.0)
        # Frequencies are whole numbers, and dots would hide one another.
        places = units.frequency + shift.uniform(-0.3, 0.3, size=len(units))
        axes[0, 1].plot(places, units.ipr, style["marker"], color=style["color"], markersize=3, alpha=0.6)
    sinusoid(axes[0, 0])
    axes[0, 0].set(xscale="log", xlabel="gain g", ylabel="IPR, median and quartiles of units", ylim=(0, None))
    axes[0, 0].legend()
    axes[0, 1].set(xlabel="peak frequency, waves around the ring", ylabel="IPR", title="units at g = 3")
    axes[0, 1].set(xlim=(-1, table.n.iloc[0] / 2 + 1), ylim=(0, None))
    return axes[0, 0].figure


@over_seeds
def verdicts(table: pd.DataFrame) -> list[Verdict]:
    local, waves = (where(_summary(table), xi0=one, xi1=two).set_index("gain") for one, two in STYLES)
    gains = local.index.intersection(waves.index)
    # Below a gain of 1 the data are all but Gaussian.
    last = max(gains[gains >= 1], default=np.nan)
    here, there = (part.reindex([last]).iloc[0] for part in (local, waves))
    iprs = [f"median IPR {slashed(part.ipr[gains], '.3f')} at g = {slashed(gains)}" for part in (local, waves)]
    few = f"{slashed(100 * waves.local[gains], '.0f')} % of the units; {iprs[1]}"
    share = 100 * waves.local[gains].max() + 0 * last
    more = f"median peak frequency {there.frequency:g} at g = {last:g}; ξ₁ > ξ₂: {here.frequency:g}"
    return [
        common.decide_local("ξ₁ > ξ₂: fields localize", iprs[0], here.to_frame().T),
        decide("ξ₁ < ξ₂: few units are local", few, share, "at most", 100 * FEW, " % of the units"),
        decide("ξ₁ < ξ₂: fields oscillate", more, there.frequency, "above", here.frequency, " waves, as where ξ₁ > ξ₂"),
        stayed(table),
    ]
