"""The least width whose loss is below a level: its search, its table and its figure."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias._utils.checks import Array
from implicit_bias.studies.runner import COLOURS, Rows, finished, panels

Fit = Callable[[Sequence[int]], Rows]
#: Format of marker and line, colour and label of every kind of fit.
STYLES = {
    "ReLU": ("s-", COLOURS["ReLU"], "ReLU (Adam)"),
    "GaLU": ("o-", COLOURS["GaLU"], "GaLU (Adam)"),
    "closed form": ("x--", COLOURS["GaLU"], "GaLU, any weights (closed form)"),
    "alternation": ("x--", COLOURS["sky"], "GaLU (alternate convex search)"),
}


def least_width(
    fit: Fit, level: float, start: int, widest: int, *, at_once: int, step: int = 1, failing: int = 0
) -> tuple[int | None, Rows]:
    """Return the least width whose mean loss over repeats is below `level`, and all rows of the search.

    The width may be up to `step` − 1 larger than the least, and is None if no width up to `widest` meets the level.
    `fit` returns a row (units, loss) for each of `at_once` widths and every repeat. The search begins at `start`,
    extends until one width meets the level and a smaller one does not, and then divides the interval between the two.
    Widths that fail above one that meets the level are ignored. `failing` is a width known not to meet the level.

    >>> fit = lambda widths: [{"units": k, "loss": 1 / k} for k in widths]
    >>> least_width(fit, 1 / 22, start=4, widest=100, at_once=3)[0]
    23
    """
    table: Rows = []
    low, high, stride = failing, widest + 1, step
    asked = [k for k in range(start, start + at_once * step, step) if low < k <= widest]
    while asked:
        rows = fit(asked)
        table += rows
        means = pd.DataFrame(rows).groupby("units").loss.mean()
        met = set(means.index[means < level])
        high = min([high, *met])
        low = max([low, *(k for k in asked if k not in met and k < high)])
        if high - low <= (step if high <= widest else 1):
            break
        if high > widest:
            asked = [k for k in range(low + stride, low + (at_once + 1) * stride, stride) if k < widest]
            asked = asked if len(asked) == at_once else [*asked, widest][-at_once:]
            stride *= 2
        elif low == failing and high - low > at_once * stride:
            asked = [high - turn * stride for turn in range(at_once, 0, -1)]
            stride *= 2
        else:
            between = np.linspace(low, high, min(at_once + 1, -(-(high - low) // step)) + 1)[1:-1]
            asked = sorted({round(k) for k in between})
    return (high if high <= widest else None), table


def least_units(fits: pd.DataFrame, size: str, level: float) -> pd.DataFrame:
    """Return the least width with a mean loss below `level`, NaN if there is none: rows `size`, columns kinds."""
    means = fits.groupby([size, "kind", "units"]).loss.mean().reset_index()
    widths = means[means.loss < level].pivot_table("units", index=size, columns="kind", aggfunc="min")
    kinds = [kind for kind in STYLES if kind in set(fits.kind)]
    return widths.reindex(index=sorted(fits[size].unique()), columns=kinds).astype(float)


def draw_least_units(
    title: str, widths: pd.DataFrame, level: float, theory: tuple[Array, Array, str], axis: dict[str, Any]
) -> Figure:
    """Return a figure of a result of `least_units` at `level`, with the line `theory` (places, values, label)."""
    (places, values, label), axes = theory, panels(title, size=(5.4, 3.6))
    ax = axes[0, 0]
    ax.plot(places, values, ":", color=COLOURS["theory"], linewidth=0.8, label=label)
    for kind in widths:
        look, color, name = STYLES[str(kind)]
        ax.plot(widths[kind], look, color=color, markersize=5, linewidth=1.2, label=name)
    ax.set(**{"ylabel": f"least width k with training MSE < {level}", "ylim": (0, None), "xticks": widths.index} | axis)
    return finished(axes)
