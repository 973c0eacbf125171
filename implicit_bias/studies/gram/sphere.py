"""Points of the sphere, their smallest eigenvalues, and the style of each activation, for all figures."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias._utils.checks import Array
from implicit_bias.extensions.infinite import gram_matrix, mean_square, smallest_eigenvalue
from implicit_bias.studies.runner import COLOURS, Rows, Settings, log_ticks, named, panels, ribbon

#: Activations whose derivative jumps at 0.
JUMP = ("relu", "leaky relu", "selu")
#: Activations whose second derivative jumps at 0.
BEND = ("elu",)
SMOOTH = ("gelu", "swish", "softplus", "tanh", "sigmoid", "erf", "square", "cube")
ALL = (*JUMP, *BEND, *SMOOTH)
NAMES = {"relu": "ReLU", "leaky relu": "leaky ReLU", "selu": "SELU", "elu": "ELU", "gelu": "GELU", "square": "$z^2$"}
NAMES |= {"cube": "$z^3$"}
HUES = {"relu": "orange", "selu": "red", "elu": "purple", "gelu": "sky", "swish": "green", "tanh": "blue", "erf": "sky"}
HUES |= {"leaky relu": "yellow", "softplus": "green", "sigmoid": "purple", "square": "black", "cube": "black"}
#: Activations that share a colour differ in the dots.
DOTTED = ("erf", "softplus", "sigmoid", "cube")
#: Axis label of smallest eigenvalues.
LEAST = "$\\lambda_{\\min}(G)/E[\\sigma'^2]$"


def unit_points(n: int, d: int, *seed: int) -> Array:
    """Return n points uniform on the sphere of R^d, shape (n, d), drawn by NumPy's PCG64."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    return np.asarray(X / np.linalg.norm(X, axis=1, keepdims=True))


def each_draw(settings: Settings, measured: Callable[[Array], dict[str, float]]) -> Rows:
    """Return a row for each random draw of points (n, d): `draw`, its number, and the columns from `measured`."""
    n, d, seed = (settings[name] for name in ("n", "d", "seed"))
    return [{"draw": turn} | measured(unit_points(n, d, seed, turn)) for turn in range(settings["draws"])]


def scaled(eigenvalue: Any, activation: str) -> dict[str, float]:
    """Return the columns lambda_min and error: a smallest eigenvalue and its error bound, both divided by E[σ'²]."""
    unit = mean_square(activation)
    return {"lambda_min": float(eigenvalue.value) / unit, "error": float(eigenvalue.error) / unit}


def least(X: Array, activation: str, digits: int | None = None) -> dict[str, float]:
    """Return `scaled` for the smallest eigenvalue of the Gram matrix of points X (n, d)."""
    return scaled(smallest_eigenvalue(gram_matrix(X, activation, normalise=True, digits=digits)), activation)


def style(activation: str) -> dict[str, Any]:
    """Return colour, line style and label: solid if σ' or σ'' jumps at 0, dashed or dotted if σ is smooth."""
    line = ":" if activation in DOTTED else "--" if activation in SMOOTH else "-"
    return {"color": COLOURS[HUES[activation]], "linestyle": line, "label": NAMES.get(activation, activation)}


def ordered(activations: Iterable[str]) -> list[str]:
    """Return the different activations in the order of `ALL`."""
    return sorted(set(activations), key=ALL.index)


def quartiles(table: pd.DataFrame, over: str) -> pd.DataFrame:
    """Return a table by activation and `over`: middle, low and high, the quartiles of `lambda_min`; bound; and upper.

    If the median error hides the median, that is, is at least as large, the quartiles are NaN and `bound` is the median
    of lambda_min + error. Otherwise `bound` is NaN. `upper` is `middle`, or `bound` if `middle` is NaN.
    """
    parts = table.assign(top=table.lambda_min + table.error).groupby(["activation", over])
    shares = np.array([0.5, 0.25, 0.75])
    summary = parts.lambda_min.quantile(shares).unstack().set_axis(["middle", "low", "high"], axis=1)
    hidden = summary.middle <= parts.error.median()
    summary["bound"] = parts.top.median().where(hidden)
    summary.loc[hidden, ["middle", "low", "high"]] = np.nan
    return summary.assign(upper=summary.middle.fillna(summary.bound))


def number(value: float) -> str:
    """Return a number as text with two significant digits, and an exponent below 0.001: '0.47', '4.6e-46'."""
    return f"{value:.1e}" if abs(value) < 1e-3 else f"{value:#.2g}"


def power(values: pd.Series) -> float:
    """Return the exponent of the index in positive values, by least squares on logarithms; NaN for one value."""
    if values.count() < 2:
        return float("nan")
    return float(np.polyfit(np.log(values.index), np.log(values), 1)[0])


def as_text(row: pd.Series) -> str:
    """Return the median in a row of `quartiles`, or its upper bound, as text: '0.50', '< 1.0e-12'."""
    return f"< {number(row.bound)}" if np.isnan(row.middle) else number(row.middle)


def listed(values: pd.Series, form: str = "") -> str:
    """Return activations and values as text, in the order of all figures: 'relu 1.0, tanh −2.0'."""
    return named(values[ordered(values.index)], form)


def against(table: pd.DataFrame, over: str, title: str, xlabel: str, ylabel: str = LEAST) -> Figure:
    """Return a figure of the `quartiles` of λ_min against the column `over`; triangles are upper bounds."""
    summary = quartiles(table, over)
    ax = panels(title, size=(5.6, 4.0))[0, 0]
    for activation in ordered(table.activation):
        path, look = pd.DataFrame(summary.loc[activation]), style(activation)
        shown, only = path.dropna(subset="middle"), path[path.middle.isna()]
        ribbon(ax, shown.middle, shown.low, shown.high, alpha=0.15, marker="o", **look)
        ax.plot(only.index, only.bound, "v", color=look["color"], markerfacecolor="none", markersize=5)
    ax.set(yscale="log", xlabel=xlabel, ylabel=ylabel)
    log_ticks(ax, table[over])
    if summary.bound.notna().any():
        ax.plot([], [], "v", color="black", markerfacecolor="none", label="upper bound")
    ax.figure.legend(loc="outside right center")
    return ax.figure
