"""Does it matter which class has the longer correlations? Forty ReLU units, ξ = (2, 1) against ξ = (1, 2).

The class of label 1 has the length-scale ξ₁, that of label 0 ξ₂. Mean readout without biases, w ~ N(0, 0.01/n), lr 0.2,
4000 steps of 500 fresh samples, three starts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.dynamics import ipr, peak_frequency
from implicit_bias.experiments.localization.drawing import LOCAL, curve, sinusoid
from implicit_bias.experiments.localization.networks import MANY, seconds, trained
from implicit_bias.experiments.runner.drawing import COLOURS, panels
from implicit_bias.experiments.runner.experiment import Experiment, Rows, Settings

#: A share of units that does not count.
FEW = 0.1
ORDERS = ((2.0, 1.0), (1.0, 2.0))
STYLES: dict[tuple[float, float], dict[str, Any]] = {
    (2.0, 1.0): {"color": COLOURS["blue"], "marker": "o", "label": "ξ₁ > ξ₂: (2, 1)"},
    (1.0, 2.0): {"color": COLOURS["red"], "marker": "s", "label": "ξ₁ < ξ₂: (1, 2)"},
}


def grid(quick: bool) -> list[Settings]:
    """Both orders, four gains, three starts; quick: two gains, one start and fewer steps."""
    gains = (0.01, 3.0) if quick else (0.01, 1.0, 3.0, 100.0)
    own = {"process": "NLGP", "steps": MANY["steps"] // (3 if quick else 1), "repeats": 1 if quick else 3, "seed": 1}
    return [MANY | {"xi0": first, "xi1": second, "gain": gain} | own for first, second in ORDERS for gain in gains]


def rows(settings: Settings) -> Rows:
    """A row a unit: its IPR and peak frequency."""
    fields = trained(settings).fields.reshape(-1, settings["n"])
    pairs = zip(ipr(fields), peak_frequency(fields), strict=True)
    return [{"unit": k, "ipr": round(float(i), 5), "frequency": int(f)} for k, (i, f) in enumerate(pairs)]


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each order and gain: quartiles of IPR, the median frequency, and the share of units that are local.

    >>> import pandas as pd
    >>> from implicit_bias.experiments.localization.scales import summary
    >>> units = pd.DataFrame({"xi0": 2.0, "xi1": 1.0, "gain": 3.0, "ipr": [0.1, 0.2, 0.3], "frequency": [1, 2, 9]})
    >>> summary(units)[["ipr_low", "ipr", "ipr_high", "frequency", "local"]].round(3).to_dict("records")
    [{'ipr_low': 0.15, 'ipr': 0.2, 'ipr_high': 0.25, 'frequency': 2.0, 'local': 0.667}]
    """
    groups = table.assign(local=table.ipr > LOCAL).groupby(["xi0", "xi1", "gain"])
    found = {"ipr_low": groups.ipr.quantile(0.25), "ipr": groups.ipr.median(), "ipr_high": groups.ipr.quantile(0.75)}
    return pd.DataFrame(found | {"frequency": groups.frequency.median(), "local": groups.local.mean()}).reset_index()


def draw(table: pd.DataFrame) -> Figure:
    """IPR against gain, and every unit's IPR against its peak frequency at g = 3."""
    found, shift = summary(table), np.random.default_rng(0)
    with panels(EXPERIMENT.title, columns=2, size=(4.0, 3.1)) as axes:
        for order, style in STYLES.items():
            ours = (found.xi0 == order[0]) & (found.xi1 == order[1])
            curve(axes[0, 0], found[ours], "gain", **style)
            units = table[(table.xi0 == order[0]) & (table.xi1 == order[1]) & (table.gain == 3.0)]
            # Frequencies are whole numbers, and dots would hide one another.
            places = units.frequency + shift.uniform(-0.3, 0.3, size=len(units))
            axes[0, 1].plot(places, units.ipr, style["marker"], color=style["color"], markersize=3, alpha=0.6)
        sinusoid(axes[0, 0])
        axes[0, 0].set(xscale="log", xlabel="gain g", ylabel="IPR, median and quartiles of units", ylim=(0, None))
        axes[0, 0].legend(frameon=False)
        axes[0, 1].set(xlabel="peak frequency, waves around the ring", ylabel="IPR", title="units at g = 3")
        axes[0, 1].set(xlim=(-1, table.n.iloc[0] / 2 + 1), ylim=(0, None))
    figure: Figure = axes[0, 0].figure
    return figure


def finding(table: pd.DataFrame) -> str:
    """Medians of IPR by gain, and of the frequency at the gain that both orders share last."""
    found = summary(table)
    parts = [found[(found.xi0 == one) & (found.xi1 == two)].set_index("gain") for one, two in ORDERS]
    gains = sorted(set(parts[0].index) & set(parts[1].index))
    if not gains or gains[-1] < 1:
        return "Undecided: both orders have not been trained at the same gain of at least 1."
    local, waves = (part.loc[gains] for part in parts)
    last = gains[-1]
    oscillating = waves.local.max() <= FEW and waves.frequency[last] > local.frequency[last]
    holds = (local.ipr[last] > LOCAL, oscillating)
    word = "Yes" if all(holds) else "Partly" if any(holds) else "No"
    texts = ["/".join(f"{value:.3f}" for value in part.ipr) for part in (local, waves)]
    shares = "/".join(f"{100 * share:.0f}" for share in waves.local)
    return (
        f"{word}: at g = {'/'.join(f'{gain:g}' for gain in gains)} the median IPR of 40 units is {texts[0]} for "
        f"ξ = (2, 1) and {texts[1]} for ξ = (1, 2), with median peak frequencies {local.frequency[last]:g} and "
        f"{waves.frequency[last]:g} at g = {last:g}; {shares} % of the latter's units are above "
        f"{LOCAL:.2f}."
    )


EXPERIMENT = Experiment(
    name="scales",
    title="Which class has the longer correlations",
    source="nonlinear Gaussian process",
    claim="Fields localise where ξ₁ > ξ₂, and oscillate where ξ₁ < ξ₂.",
    grid=grid,
    rows=rows,
    cost=seconds,
    draw=draw,
    finding=finding,
)
