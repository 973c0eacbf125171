"""Points of the sphere, their smallest eigenvalues, and one look for each activation: what the figures share."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias._utils.checks import Array
from implicit_bias.extensions.infinite import gram_matrix, mean_square, smallest_eigenvalue
from implicit_bias.studies.runner import COLOURS, Settings, named, panels, ribbon

#: Activations whose derivative jumps at 0, whose second one does, and which are smooth.
JUMP, BEND = ("relu", "leaky relu", "selu"), ("elu",)
SMOOTH = ("gelu", "swish", "softplus", "tanh", "sigmoid", "erf", "square", "cube")
ALL = (*JUMP, *BEND, *SMOOTH)
NAMES = {"relu": "ReLU", "leaky relu": "leaky ReLU", "selu": "SELU", "elu": "ELU", "gelu": "GELU", "square": "$z^2$"}
NAMES |= {"cube": "$z^3$"}
HUES = {"relu": "orange", "selu": "red", "elu": "purple", "gelu": "sky", "swish": "green", "tanh": "blue", "erf": "sky"}
HUES |= {"leaky relu": "yellow", "softplus": "green", "sigmoid": "purple", "square": "black", "cube": "black"}
#: The axis of smallest eigenvalues.
LEAST = "$\\lambda_{\\min}(G)/E[\\sigma'^2]$"


def unit_points(n: int, d: int, *seed: int) -> Array:
    """n points uniform on the sphere of R^d, shape (n, d); NumPy's PCG64.

    >>> (unit_points(3, 5, 1, 2) ** 2).sum(axis=1).round(12).tolist()
    [1.0, 1.0, 1.0]
    """
    X = np.random.default_rng(seed).normal(size=(n, d))
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def draws(settings: Settings) -> Iterator[tuple[int, Array]]:
    """Each draw's number and its points, shape (n, d)."""
    for turn in range(settings["draws"]):
        yield turn, unit_points(settings["n"], settings["d"], settings["seed"], turn)


def scaled(found: Any, activation: str) -> dict[str, float]:
    """A smallest eigenvalue over E[σ'²], with a bound of its error: least, error."""
    unit = mean_square(activation)
    return {"least": float(found.value) / unit, "error": float(found.error) / unit}


def least(X: Array, activation: str, digits: int | None = None) -> dict[str, float]:
    """λ_min of the points' Gram matrix, `scaled`.

    >>> {name: round(value, 6) for name, value in least([[1.0, 0.0], [0.0, 1.0]], "tanh").items()}
    {'least': 1.0, 'error': 0.0}
    """
    return scaled(smallest_eigenvalue(gram_matrix(X, activation, normalise=True, digits=digits)), activation)


def style(activation: str) -> dict[str, Any]:
    """Colour, line and label of an activation: solid lines where a derivative jumps at 0, dashed ones where none does.

    >>> style("relu")
    {'color': '#E69F00', 'linestyle': '-', 'label': 'ReLU'}
    """
    line = "--" if activation in SMOOTH else "-"
    # Activations that share a colour differ in the dots.
    dotted = activation in ("erf", "softplus", "sigmoid", "cube")
    label = NAMES.get(activation, activation)
    return {"color": COLOURS[HUES[activation]], "linestyle": ":" if dotted else line, "label": label}


def ordered(activations: Iterable[str]) -> list[str]:
    """The activations in the order of all figures.

    >>> ordered({"tanh", "relu"})
    ['relu', 'tanh']
    """
    return sorted(set(activations), key=ALL.index)


def quartiles(table: pd.DataFrame, over: str) -> pd.DataFrame:
    """By activation and `over`: middle, low, high of `least` (quartiles); bound alone where the error hides the median.

    >>> draws = pd.DataFrame({"activation": "erf", "d": [3, 3, 3, 2], "least": [1.0, 2.0, 4.0, -0.1], "error": 0.5})
    >>> quartiles(draws, "d").reset_index().to_dict("records")[1]
    {'activation': 'erf', 'd': 3, 'middle': 2.0, 'low': 1.5, 'high': 3.0, 'bound': nan}
    >>> float(quartiles(draws, "d").loc[("erf", 2), "bound"])
    0.4
    """
    parts = table.assign(top=table.least + table.error).groupby(["activation", over])
    found = parts.least.quantile(np.array([0.5, 0.25, 0.75])).unstack().set_axis(["middle", "low", "high"], axis=1)
    hidden = found.middle <= parts.error.median()
    found["bound"] = parts.top.median().where(hidden)
    found.loc[hidden, ["middle", "low", "high"]] = np.nan
    return found


def number(value: float) -> str:
    """Two significant digits, with an exponent for what is small.

    >>> number(0.4699), number(4.6e-46)
    ('0.47', '4.6e-46')
    """
    return f"{value:.1e}" if abs(value) < 1e-3 else f"{value:#.2g}"


def power(values: pd.Series) -> float:
    """The power of its index like which a positive series grows, by least squares on logarithms; NaN of one place.

    >>> round(power(pd.Series([0.2, 0.1], index=[5, 10])), 6)
    -1.0
    """
    if values.count() < 2:
        return float("nan")
    return float(np.polyfit(np.log(values.index), np.log(values), 1)[0])


def as_text(found: pd.Series) -> str:
    """A median of `quartiles`, or below what it lies.

    >>> as_text(pd.Series({"middle": 0.5})), as_text(pd.Series({"middle": float("nan"), "bound": 1e-12}))
    ('0.50', '< 1.0e-12')
    """
    return f"< {number(found.bound)}" if np.isnan(found.middle) else number(found.middle)


def listed(values: pd.Series, form: str = "") -> str:
    """Every activation with its value, in the order of all figures.

    >>> listed(pd.Series({"tanh": -2.0, "relu": 1.0}), ".1f")
    'relu 1.0, tanh −2.0'
    """
    return named(values[ordered(values.index)], form)


def against(table: pd.DataFrame, over: str, title: str, xlabel: str, ylabel: str = LEAST) -> Figure:
    """Medians and quartiles of every activation against `over`, on logarithmic axes, with a legend beside them.

    Triangles stand where only a bound is known.

    >>> draws = pd.DataFrame({"activation": "erf", "d": [3, 3, 3, 2], "least": [1.0, 2.0, 4.0, -0.1], "error": 0.5})
    >>> ax = against(draws, "d", "Least eigenvalues", "d", "least").axes[0]
    >>> ax.get_xlabel(), [line.get_ydata().tolist() for line in ax.get_lines()]
    ('d', [[2.0], [0.4], []])
    """
    found, places = quartiles(table, over), sorted(table[over].unique())
    axes = panels(title, size=(5.6, 4.0))
    ax = axes[0, 0]
    for activation in ordered(table.activation):
        own, look = pd.DataFrame(found.loc[activation]), style(activation)
        shown, only = own.dropna(subset="middle"), own[own.middle.isna()]
        ribbon(ax, shown.middle, shown.low, shown.high, alpha=0.15, marker="o", **look)
        ax.plot(only.index, only.bound, "v", color=look["color"], markerfacecolor="none", markersize=5)
    ax.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
    ax.set_xticks(places, [str(place) for place in places])
    ax.minorticks_off()
    if found.bound.notna().any():
        ax.plot([], [], "v", color="black", markerfacecolor="none", label="upper bound")
    ax.figure.legend(loc="outside right center")
    return ax.figure
