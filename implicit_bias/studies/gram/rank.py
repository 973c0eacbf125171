"""The rank of polynomial kernels

For σ(z) = z^p, each entry of G is a polynomial of degree p in either point, even or odd like p. Hence, on the sphere of
R^d, the rank is at most binom(d + p − 1, p), the number of monomials of degree p. With more points, networks of no
width fit all labels.
"""

import math

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.extensions.infinite import gram_matrix, polynomial
from implicit_bias.studies.gram.sphere import unit_points
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, decide, panels, product

TITLE = "Rank of polynomial kernels"
SOURCE = "ours, on polynomials in few dimensions"
CLAIM = "For z^p the rank is at most the number of monomials of degree p, 15 for z² and 35 for z³ in R^5."
SHADES = {2: "black", 3: "blue", 4: "orange"}


def grid(quick: bool) -> list[Settings]:
    if quick:
        return product(degree=(2, 3), d=(3,), most=(20,), step=(2,), seed=(1,))
    return product(degree=(2, 3, 4), d=(3, 5), most=(100,), step=(5,), seed=(1,))


def rows(settings: Settings) -> Rows:
    """Return n, index, eigenvalue, error, relative to the largest, for every eigenvalue of the first n points."""
    X = unit_points(settings["most"], settings["d"], settings["seed"])
    sigma = polynomial([0.0] * settings["degree"] + [1.0])
    table = []
    for n in range(settings["step"], settings["most"] + 1, settings["step"]):
        gram = gram_matrix(X[:n], sigma)
        values = np.linalg.eigvalsh(gram.values)[::-1]
        # LAPACK's own rounding in addition to that of the entries.
        error = float(gram.error + 4 * n * np.finfo(float).eps * values[0]) / values[0]
        pairs = enumerate(values / values[0], start=1)
        table += [{"n": n, "index": i, "eigenvalue": float(value), "error": error} for i, value in pairs]
    return table


def cost(settings: Settings) -> float:
    return 1e-8 * settings["most"] ** 4 / settings["step"]


def ranks(table: pd.DataFrame) -> pd.DataFrame:
    """Return rank (eigenvalues above their error), kept (least of these) and cut (largest other) by degree, d and n."""
    above, keys = table.eigenvalue > table.error, ["degree", "d", "n"]
    counted = table[above].groupby(keys).eigenvalue.agg(["size", "min"]).set_axis(["rank", "kept"], axis=1)
    return counted.join(table[~above].assign(cut=table.eigenvalue.abs()).groupby(keys).cut.max())


def ceiling(degree: int, d: int) -> int:
    """Return the number of monomials of a degree in d variables."""
    return math.comb(d + degree - 1, degree)


def draw(table: pd.DataFrame) -> Figure:
    widest, d = table[table.d == table.d.max()], table.d.max()
    ranked = ranks(widest).droplevel("d")
    ax, other = panels(TITLE, columns=2, size=(4.0, 3.3))[0]
    for degree in sorted(widest.degree.unique()):
        colour = COLOURS[SHADES[degree]]
        look = {"color": colour, "label": f"$z^{degree}$", "markersize": 3, "linewidth": 1.0}
        ax.plot(ranked.loc[degree].index, ranked.loc[degree, "rank"], marker="o", **look)
        ax.axhline(ceiling(degree, d), color=colour, linestyle=":", linewidth=0.8)
        last = widest[(widest.degree == degree) & (widest.n == widest.n.max())]
        other.semilogy(last["index"], last.eigenvalue.abs(), marker=".", **look)
        other.axhline(last.error.iloc[0], color=colour, linestyle="--", linewidth=0.6)
    ax.set(xlabel=f"points $n$ on the sphere of $R^{d}$", ylabel="rank of $G$", ylim=(0, None), xlim=(0, None))
    ax.plot([], [], ":", color=COLOURS["theory"], linewidth=0.8, label="monomials")
    other.plot([], [], "--", color=COLOURS["theory"], linewidth=0.6, label="error bound")
    other.set(xlabel="index", ylabel="|eigenvalue| / largest", title=f"$n = {widest.n.max()}$")
    ax.legend()
    other.legend()
    return ax.figure


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    cases = ranks(table).reset_index()
    cases["monomials"] = [ceiling(degree, d) for degree, d in zip(cases.degree, cases.d, strict=True)]
    beyond = cases[cases.n > cases.monomials]
    gap = f"the last eigenvalue that counts is at least {(cases.kept / cases.cut).min():.0e} times the next"
    reached = (cases["rank"] == cases[["n", "monomials"]].min(axis=1)).sum()
    last = cases[cases.n == cases.n.max()]
    texts = [f"{rank} (z^{degree} in R^{d})" for degree, d, rank in last[["degree", "d", "rank"]].to_numpy()]
    sizes = f"at {reached} of {len(cases)} sizes; for {cases.n.max()} points {', '.join(texts)}"
    excess = (beyond["rank"] - beyond.monomials).max()
    return [
        decide("the rank is at most the number of monomials", f"larger by {excess}; {gap}", excess, "at most", 0),
        decide("it is that number, or that of the points if smaller", sizes, reached, "at least", len(cases), " sizes"),
    ]
