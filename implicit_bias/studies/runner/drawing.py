"""Palette, style and layout of all figures, and conversion of a figure to PNG and PDF."""

import io
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

#: Colours of networks and lines, the same in every figure (Okabe and Ito's palette).
COLOURS = {
    **{"black": "#000000", "orange": "#E69F00", "sky": "#56B4E9", "green": "#009E73", "yellow": "#F0E442"},
    **{"blue": "#0072B2", "red": "#D55E00", "purple": "#CC79A7", "grey": "#999999"},
    **{"GaLU": "#0072B2", "ReLU": "#E69F00", "linear": "#009E73", "theory": "#000000"},
}
#: Names of the data sets in titles.
DATASETS = {"digits": "digits", "mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}
#: Colour and marker of every model on two classes: trained networks, limits of their descent, and margin problems.
MODELS = {
    **dict.fromkeys(("GD", "GD-GLN", "GD-shallow", "GD-ReLU"), ("black", "D")),
    **{"GD-FReLU": ("purple", "P"), "limit": ("red", "v"), "limit of GD-FReLU": ("grey", "<")},
    **dict.fromkeys(("SVM", "SVM-GLN", "SVM-shallow", "SVM-LC"), ("blue", "o")),
    **dict.fromkeys(("SVM-L2", "SVM-RC"), ("orange", "s")),
    **dict.fromkeys(("SVM-Fro", "SVM-HL"), ("green", "^")),
    **{"SVM-LC in cones": ("sky", "p"), "best network": ("green", "s"), "gates_only": ("purple", "v")},
}


def style(model: str, label: str = "") -> dict[str, Any]:
    """Return colour, marker and label of one of `MODELS` for `plot`; the label defaults to the name of the model.

    >>> style("SVM-GLN")
    {'color': '#0072B2', 'marker': 'o', 'label': 'SVM-GLN'}
    """
    colour, marker = MODELS[model]
    return {"color": COLOURS[colour], "marker": marker, "label": label or model}


def styled(size: float = 9, titles: str = "large") -> AbstractContextManager[None]:
    """Context in which all figures have the same style: `size` is the font size, `titles` the size of panel titles."""
    style: Any = {"font.size": size, "axes.titlesize": titles, "legend.frameon": False}
    return mpl.rc_context(style | {"axes.spines.top": False, "axes.spines.right": False})


def panels(
    title: str,
    columns: int = 1,
    rows: int = 1,
    size: tuple[float, float] = (3.6, 2.9),
    around: tuple[float, float] = (0.0, 0.4),
    **shared: Any,
) -> Any:
    """Return the axes, an array of shape (rows, columns), of a new figure with a title.

    `size` is (width, height) of each panel and `around` what all panels together leave free, both in inches.
    `shared` are options of `Figure.subplots`, such as sharey.
    """
    inches = (size[0] * columns + around[0], size[1] * rows + around[1])
    figure = Figure(figsize=inches, layout="constrained")
    figure.suptitle(title)
    return figure.subplots(rows, columns, squeeze=False, **shared)


def log_ticks(ax: Axes, values: Iterable[Any], base: float = 10, form: Callable[[Any], str] = str) -> None:
    """Make the x axis logarithmic, with ticks only at `values`, labelled by `form`."""
    places = sorted(set(values))
    ax.set_xscale("log", base=base)
    ax.set_xticks(places, [form(place) for place in places])
    ax.minorticks_off()


def band(ax: Axes, values: pd.Series, **style: Any) -> None:
    """Plot the mean of `values` at each index as a line, with a band of one standard deviation on either side.

    >>> ax = panels("Loss")[0, 0]
    >>> band(ax, pd.Series([1.0, 3.0, 4.0], index=[5, 5, 6]), label="GaLU")
    >>> ax.get_lines()[0].get_ydata().tolist()
    [2.0, 4.0]
    """
    stats = values.groupby(level=0).agg(["mean", "std"]).dropna(subset=["mean"])
    spread = stats["std"].fillna(0.0)
    ribbon(ax, stats["mean"], stats["mean"] - spread, stats["mean"] + spread, **{"marker": "o"} | style)


def ribbon(ax: Axes, middle: pd.Series, low: pd.Series, high: pd.Series, *, alpha: float = 0.2, **style: Any) -> None:
    """Plot `middle` against its index as a line, with a band from `low` to `high` of the opacity `alpha`."""
    look: dict[str, Any] = {"markersize": 3, "linewidth": 1.2} | style
    (line,) = ax.plot(middle.index, middle, **look)
    ax.fill_between(middle.index, low, high, color=line.get_color(), alpha=alpha, linewidth=0)


def trend(ax: Axes, values: pd.Series, middle: str = "median", **look: Any) -> None:
    """Plot `values` against their index as faint points, and their `middle` ('median', 'mean') as a line."""
    ax.plot(values, linestyle="", markersize=3, alpha=0.5, **look | {"label": None})
    ax.plot(values.groupby(level=0).agg(middle), linewidth=1.2, markersize=4, **look)


def finished(axes: Any, below: int = 0) -> Figure:
    """Add a legend to the first panel, or one of all panels in `below` columns under the figure; return the figure."""
    figure: Figure = axes[0, 0].figure
    if below:
        lines = {label: line for ax in axes.flat for line, label in zip(*ax.get_legend_handles_labels(), strict=True)}
        figure.legend(handles=lines.values(), loc="outside lower center", ncols=below)
    else:
        axes[0, 0].legend()
    return figure


def beside(axes: Any) -> Figure:
    """Add the legend of the last panel of each row to the right of this panel; return the figure."""
    for row in axes:
        row[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return axes[0, 0].figure


def pictures(figure: Figure, name: str) -> dict[str, bytes]:
    """Return the contents of `name`.png (200 dots per inch) and `name`.pdf by file name; its layout stays fixed."""
    contents = {}
    for kind in ("png", "pdf"):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=200)
        figure.set_layout_engine("none")  # Laid out once, which is what takes the time.
        contents[f"{name}.{kind}"] = buffer.getvalue()
    return contents
