"""Style of the figures of localization, and the IPR that counts as local."""

from collections.abc import Iterable
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from implicit_bias.studies.localization.networks import N
from implicit_bias.studies.runner import COLOURS
from implicit_bias.studies.runner.drawing import trend

#: An IPR from which on a field counts as localized: twice 3/n, about that of white noise.
LOCAL = 6 / N
STYLES: dict[str, dict[str, Any]] = {
    "NLGP": {"color": COLOURS["blue"], "marker": "o", "label": "NLGP"},
    "Gaussian": {"color": COLOURS["orange"], "marker": "s", "label": "Gaussian clone"},
}
NAMES = {"relu": "ReLU", "sigmoid": "sigmoid", "erf": "erf"}


def scales(one: float, two: float) -> str:
    """Return a pair of length-scales as text: 'ξ = (3, 1)'."""
    return f"ξ = ({one:g}, {two:g})"


def slashed(values: Iterable[float], form: str = "g") -> str:
    """Return numbers as text, each in the format `form`, separated by slashes: '0.01/3'."""
    return "/".join(f"{value:{form}}" for value in values)


def curve(ax: Axes, part: pd.DataFrame, x: str, **style: Any) -> None:
    """Plot the median IPR against the column `x`, with a band between the quartiles: medians over seeds."""
    trend(ax, part.set_index(x).ipr, **style)
    ends = part.groupby(x)[["ipr_low", "ipr_high"]].median()
    ax.fill_between(ends.index, ends.ipr_low, ends.ipr_high, color=style["color"], alpha=0.2, linewidth=0)


def sinusoid(ax: Axes, *, upright: bool = False) -> None:
    """Draw the IPR of a sinusoid as a horizontal line, or as a vertical one if `upright`."""
    line = ax.axvline if upright else ax.axhline
    line(1.5 / N, color=COLOURS["theory"], linewidth=0.8, linestyle=":", label="a sinusoid, 1.5/n")


def whiskers(ax: Axes, part: pd.DataFrame, places: list[float], **style: Any) -> None:
    """Plot the median IPR of each row of `part` as a dot at height `places[i]`, with a line between the quartiles."""
    look: dict[str, Any] = {"fmt": style.pop("marker", "o"), "markersize": 4, "elinewidth": 1.2} | style
    ax.errorbar(part.ipr, places, xerr=[part.ipr - part.ipr_low, part.ipr_high - part.ipr], **look)
