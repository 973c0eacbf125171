"""Palette and style of all figures, and figures as the contents of files."""

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
    **{"SVM-LC in cones": ("sky", "p"), "best network": ("green", "s")},
}


def style(model: str, label: str = "") -> dict[str, Any]:
    """Colour, marker and label of one of `MODELS`; the label is its name if none is given.

    >>> style("SVM-GLN")
    {'color': '#0072B2', 'marker': 'o', 'label': 'SVM-GLN'}
    """
    colour, marker = MODELS[model]
    return {"color": COLOURS[colour], "marker": marker, "label": label or model}


def styled(size: float = 9, titles: str = "large") -> AbstractContextManager[None]:
    """The style of all figures drawn within: letters of this size, and panels' titles relative to it."""
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
    """A figure's axes, shape (rows, columns), each of a size in inches, with so much around them all.

    `shared` are the options sharex and sharey of Matplotlib's `subplots`.
    """
    inches = (size[0] * columns + around[0], size[1] * rows + around[1])
    figure = Figure(figsize=inches, layout="constrained")
    figure.suptitle(title)
    return figure.subplots(rows, columns, squeeze=False, **shared)


def log_ticks(ax: Axes, values: Iterable[Any], base: float = 10, form: Callable[[Any], str] = str) -> None:
    """A logarithmic x axis, with a tick at each of these values and no others."""
    places = sorted(set(values))
    ax.set_xscale("log", base=base)
    ax.set_xticks(places, [form(place) for place in places])
    ax.minorticks_off()


def band(ax: Axes, values: pd.Series, **style: Any) -> None:
    """A line through the means of `values` over its index, and a band of one standard deviation about it.

    >>> ax = panels("Loss")[0, 0]
    >>> band(ax, pd.Series([1.0, 3.0, 4.0], index=[5, 5, 6]), label="GaLU")
    >>> ax.get_lines()[0].get_ydata().tolist()
    [2.0, 4.0]
    """
    stats = values.groupby(level=0).agg(["mean", "std"]).dropna(subset=["mean"])
    spread = stats["std"].fillna(0.0)
    ribbon(ax, stats["mean"], stats["mean"] - spread, stats["mean"] + spread, **{"marker": "o"} | style)


def ribbon(ax: Axes, middle: pd.Series, low: pd.Series, high: pd.Series, *, alpha: float = 0.2, **style: Any) -> None:
    """A line through the values of `middle` over its index, and a band from `low` to `high`."""
    look: dict[str, Any] = {"markersize": 3, "linewidth": 1.2} | style
    (line,) = ax.plot(middle.index, middle, **look)
    ax.fill_between(middle.index, low, high, color=line.get_color(), alpha=alpha, linewidth=0)


def trend(ax: Axes, values: pd.Series, middle: str = "median", **look: Any) -> None:
    """A line through the medians or means of `values` over its index, and every value as a faint point."""
    ax.plot(values, linestyle="", markersize=3, alpha=0.5, **look | {"label": None})
    ax.plot(values.groupby(level=0).agg(middle), linewidth=1.2, markersize=4, **look)


def finished(axes: Any, below: int = 0) -> Figure:
    """The figure of some panels, with a legend in the first, or one of all panels in columns below them."""
    figure: Figure = axes[0, 0].figure
    if below:
        lines = {label: line for ax in axes.flat for line, label in zip(*ax.get_legend_handles_labels(), strict=True)}
        figure.legend(handles=lines.values(), loc="outside lower center", ncols=below)
    else:
        axes[0, 0].legend()
    return figure


def beside(axes: Any) -> Figure:
    """The figure of some panels, with the legend of each row's last one to its right."""
    for row in axes:
        row[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure: Figure = axes[0, 0].figure
    return figure


def pictures(figure: Figure, name: str) -> dict[str, bytes]:
    """A figure as the contents of `name`.png (200 dots per inch) and `name`.pdf."""
    contents = {}
    for kind in ("png", "pdf"):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=200)
        figure.set_layout_engine("none")  # Laid out once, which is what takes the time.
        contents[f"{name}.{kind}"] = buffer.getvalue()
    return contents
