"""Hermite coefficients of σ' by quadrature, with an error bound where σ' is analytic in a strip."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import Array, InputError
from implicit_bias.extensions.infinite.special import Number, Numbers, context_of, exp, log, pi, sqrt

if TYPE_CHECKING:
    from implicit_bias.extensions.infinite.activations import Activation, Strip

#: Nodes that are held at once; sums of so many terms are added up in turn.
CHUNK = 32
#: Products that extended precision, which no library speeds up, is fast enough for.
EXTENDED = 2e8
#: Products of nodes, lengths and terms beyond which an answer would take minutes.
LARGEST = 2e11
#: Values of σ that are held at once.
AT_ONCE = 2**22
#: Errors of quadrature in doubles: nothing beside their rounding.
TARGET = 1e-20


@dataclass(frozen=True)
class Rule:
    """∫ f(x) φ(x) dx ≈ Σ_m `weights`_m (f(`nodes`_m) + f(−`nodes`_m)), φ the standard normal density.

    Attributes
    ----------
    nodes, weights : array, shape (N,)
    error : number
        A bound of the errors of E[σ'(rz) he_k(z)] and E[σ'(rz)²]; NaN without one.
    """

    nodes: Numbers
    weights: Numbers
    error: Number


def strip_rule(strip: Strip, norms: Numbers, terms: int, tolerance: Number) -> Rule:
    """The trapezoidal rule with a step h for σ' analytic and bounded by M in the strip |Im z| ≤ `width`.

        |error| ≤ 2 (1 + M²) e^{a²/2 + a√k} / (e^{2πa/h} − 1),    a ≤ width/r for every length r

    since the integrand on the lines Im x = ±a is at most M e^{a²/2} φ(x) |he_k(x ± ia)|, and
    E|he_k(z + ia)|² = Σ_j binom(k, j) a^{2j}/j! ≤ e^{2a√k}. What is left out beyond ±T is at most 2 (1 + M²) e^{−T²/4},
    because |he_k(x)| ≤ 1.09 e^{x²/4} (Cramér).
    """
    context = context_of(norms)
    target = TARGET if context is None else context.mpf(tolerance) / 10**8
    room = float(-log(np.asarray(target)) + math.log(4 * (1 + strip.bound**2)))
    a = min(strip.width / float(norms[-1]), 1.5)
    h = 2 * math.pi * a / (room + a * a / 2 + a * math.sqrt(terms) + 1)
    # A power of two, so that nodes and steps are the same numbers in every arithmetic.
    h = 2.0 ** math.floor(math.log2(h))
    count = math.ceil(2 * math.sqrt(room) / h)
    if count * len(norms) * terms > LARGEST:
        raise InputError(
            f"{len(norms)} different lengths up to {float(norms[-1]):.3g} need too many nodes of quadrature; "
            "scale the points down"
        )
    whole = np.arange(count + 1)
    # The node 0 is its own opposite.
    share = np.where(whole == 0, 0.5, 1.0)
    number: Any = np.longdouble if context is None else np.frompyfunc(context.mpf, 1, 1)
    nodes = number(whole) * h
    density = exp(-nodes * nodes / 2) / sqrt(2 * pi(nodes) + 0 * nodes)
    return Rule(nodes, density * h * share, target)


def panel_rule(longest: float, terms: int, level: int) -> Rule:
    """Gauss and Legendre's rule with 16 nodes on panels of [−14, 14], crowded at 0 where σ' may jump or bend."""
    x, w = np.polynomial.legendre.leggauss(16)
    width = min(1.0, 8 / math.sqrt(terms), 4 / longest) / 2**level
    count = math.ceil(14 / width)
    if 32 * count > 2**22:
        raise InputError(f"points of length {longest:.3g} need too many nodes of quadrature; scale the points down")
    edges = np.concatenate([[0.0], width * 0.5 ** np.arange(24 + 4 * level, 0, -1.0), width * np.arange(1, count + 1)])
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    right = (middle[:, None] + half[:, None] * x).ravel().astype(np.longdouble)
    weights = (half[:, None] * w).ravel() * np.exp(-right * right / 2) / np.sqrt(2 * np.longdouble(np.pi))
    return Rule(right, weights, math.nan)


def coefficients(activation: Activation, norms: Numbers, rule: Rule, terms: int) -> tuple[Numbers, Numbers, Number]:
    """E[σ'(rz) he_k(z)] for k = 0 … terms (p, terms + 1) and E[σ'(rz)²] (p,) by a rule, and the rounding error.

    Nodes and their opposites share he_k but for the sign (−1)^k. The error is of each coefficient, over √E[σ'(rz)²].
    """
    coarse = rule.nodes.dtype != object and len(norms) * len(rule.nodes) * terms > EXTENDED
    even: Number = 0
    odd: Number = 0
    squares: Number = 0
    for first in range(0, len(rule.nodes), CHUNK):
        chosen = slice(first, first + CHUNK)
        nodes, weights = rule.nodes[chosen], rule.weights[chosen]
        basis = hermite_functions(nodes, terms)
        if coarse:
            nodes, weights, basis = (part.astype(np.float64) for part in (nodes, weights, basis))
        right = np.asarray(activation.derivative(np.multiply.outer(norms, nodes)))
        left = np.asarray(activation.derivative(np.multiply.outer(norms, -nodes)))
        squares = squares + (right * right + left * left) @ weights
        right, left = right * weights, left * weights
        even = even + (right + left) @ basis[:, 0::2]
        odd = odd + (right - left) @ basis[:, 1::2]
    found = np.empty((len(norms), terms + 1), dtype=np.asarray(even).dtype)
    found[:, 0::2], found[:, 1::2] = even, odd
    # Chunks of sums, then sums of chunks: no term takes part in more additions.
    additions = CHUNK + len(rule.nodes) / CHUNK
    context, doubles = context_of(norms), np.finfo(np.float64).eps
    fine = np.finfo(np.longdouble).eps if context is None else context.eps
    # A derivative of one's own is rounded to doubles, however its argument came.
    own = 8 * doubles if coarse or activation.strip is None else 0
    return found, squares, own + (doubles if coarse else 0) * additions + fine * (additions + 4 * terms)


def hermite_functions(nodes: Numbers, terms: int) -> Numbers:
    """he_0 … he_terms = He_k/√k! at the nodes, shape (N, terms + 1): √(k+1) he_{k+1} = x he_k − √k he_{k−1}."""
    roots = sqrt(np.arange(terms + 1) + 0 * nodes[:1])
    basis = np.empty((terms + 1, len(nodes)), dtype=nodes.dtype)
    basis[0] = 1 + 0 * nodes
    basis[1] = nodes
    for k in range(1, terms):
        basis[k + 1] = (nodes * basis[k] - roots[k] * basis[k - 1]) * (1 / roots[k + 1])
    return basis.T


def means(activation: Activation, norms: Array) -> tuple[Array, float]:
    """E[σ(rz)] (p,) for lengths r (p,), z ~ N(0, 1), and a bound of the error; an estimate without a strip.

    In the strip |σ(z)| ≤ |σ(0)| + M|z|, which takes the place of M in the error of the rule.
    """
    strip, eps = activation.strip, float(np.finfo(float).eps)
    rules = [strip_rule(strip, norms, 1, TARGET)] if strip else [panel_rule(float(norms[-1]), 64, i) for i in (0, 1)]
    found, sizes = np.empty((len(rules), len(norms))), np.empty(len(norms))
    for i, rule in enumerate(rules):
        nodes, weights = rule.nodes.astype(np.float64), rule.weights.astype(np.float64)
        for rows in row_blocks(len(norms), max(1, AT_ONCE // len(nodes))):
            at = np.multiply.outer(norms[rows], nodes)
            right, left = np.asarray(activation.function(at)), np.asarray(activation.function(-at))
            # Opposites first: the mean of an odd σ is 0.
            found[i, rows], sizes[rows] = (right + left) @ weights, (np.abs(right) + np.abs(left)) @ weights
    off = float(np.abs(found[-1] - found[0]).max()) + 64 * eps * float(sizes.max())
    if strip:
        off += float(rules[0].error) * (abs(float(activation.function(0.0))) + strip.bound * (norms[-1] + strip.width))
    return found[-1], off
