"""Measure Gram matrices of activations against bivariate quadrature and against sampled units; see --help."""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from common import alternately, run

from implicit_bias._utils.checks import Array
from implicit_bias.extensions.infinite import activation, empirical_gram, gram_matrix

#: Gaussian points of mean squared length 1, and inputs.
SMALL = (300, 10)
COMPARED = ("relu", "selu", "gelu", "swish", "tanh")
#: Nodes a side of the quadrature.
NODES = 48
#: Sampled units.
UNITS = 100_000
#: Pairs whose nodes are held at once.
AT_ONCE = 512


def quadrature(X: Array, name: str) -> Array:
    """Return the Gram matrix by a Gauss–Hermite rule with NODES² nodes in the plane of each pair."""
    sigma = activation(name)
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    lengths, inner = np.linalg.norm(X, axis=1), X @ X.T
    i, j = np.triu_indices(len(X))
    cosines = np.clip(inner[i, j] / (lengths[i] * lengths[j]), -1.0, 1.0)
    means = np.empty(len(i))
    for first in range(0, len(i), AT_ONCE):
        chosen = slice(first, first + AT_ONCE)
        c, r, s = cosines[chosen], lengths[i[chosen]], lengths[j[chosen]]
        one = sigma.derivative(r[:, None] * nodes) * weights
        other = c[:, None, None] * nodes[:, None] + np.sqrt(1 - c * c)[:, None, None] * nodes
        means[chosen] = np.einsum("pa,pa->p", one, sigma.derivative(s[:, None, None] * other) @ weights)
    values = np.empty_like(inner)
    values[i, j] = values[j, i] = means * inner[i, j]
    return values


def compared(repeats: int) -> list[dict[str, str]]:
    """Return a row per activation: seconds and relative errors of ours, of quadrature and of sampled units."""
    X, rows = np.random.default_rng(0).normal(size=SMALL) / np.sqrt(SMALL[1]), []
    for name in COMPARED:
        ways: dict[str, Callable[[], Any]] = {"ours": partial(gram_matrix, X, name)}
        ways |= {"quadrature": partial(quadrature, X, name), "sampled": partial(empirical_gram, X, name, UNITS)}
        seconds, found = alternately(ways, repeats)
        gram, size = found["ours"], np.abs(found["ours"].values).max()
        apart = {way: np.abs(found[way] - gram.values).max() / size for way in ("quadrature", "sampled")}
        bound = gram.error / float(np.trace(gram.values))
        # Errors fall like the root of the number of units.
        same = seconds["sampled"] * (apart["sampled"] / bound) ** 2
        rows.append(
            {"activation": name, "ours, s": f"{seconds['ours']:.3f}", "error bound": f"{bound:.0e}"}
            | {f"{NODES}² nodes, s": f"{seconds['quadrature']:.1f}", "apart": f"{apart['quadrature']:.0e}"}
            | {f"{UNITS} units, s": f"{seconds['sampled']:.1f}", "apart ": f"{apart['sampled']:.0e}"}
            | {"as exact as ours, years": f"{same / 3.15e7:.0e}"}
        )
    return rows


def report(options: argparse.Namespace) -> Iterator[Any]:
    yield f"{SMALL[0]} points in {SMALL[1]} dimensions, medians of {options.repeats}:"
    yield compared(options.repeats)


if __name__ == "__main__":
    run(__doc__, report, "threads as the environment says", repeats=(3, "runs of each, of which the median counts"))
