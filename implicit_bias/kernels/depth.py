"""Gram matrices through depth: the last hidden layer of a wide network whose layers keep lengths."""

from collections.abc import Callable

import numpy as np
from numpy.polynomial import Chebyshev
from numpy.typing import ArrayLike

from implicit_bias.ground.checks import Array, InputError, as_count
from implicit_bias.kernels.activations import Activation
from implicit_bias.kernels.activations import activation as activation_of
from implicit_bias.kernels.angles import Points, unit_pairs
from implicit_bias.kernels.gram import TOLERANCE, Entries, Gram, gram_matrix, pair_mean
from implicit_bias.kernels.quadrature import mean

#: Degrees of the polynomials in θ that stand in for E(θ) sin θ.
DEGREES = (32, 64, 128, 256)
#: More layers than this take minutes, and change nothing any more.
MOST_LAYERS = 10_000


def deep_gram(X: ArrayLike, activation: str | Activation, layers: int) -> Gram:
    """The Gram matrix of the last of L hidden layers, each normalised: E[σ'σ'](ρ_L) ρ_L for every pair.

        ρ_1 = cos of the angle of the points,    ρ_{l+1} = E[σ(z)σ(z')] / E[σ(z)²]  at the correlation ρ_l

    of unit Gaussian pairs, where (Price) E[σ(z)σ(z')] = E[σ(z)]² + ∫_0^ρ E[σ'(z)σ'(z')] dρ. One layer is
    `gram_matrix` of the normalised points; more layers push near points apart if E[σ'²] > E[σ²], and together if less.
    With more than one, the error is an estimate: the map of a layer is a polynomial in the angle that has settled.

    Parameters
    ----------
    X, activation, and errors : as for `gram_matrix`
        Lengths play no part; an E[σ'σ'] that no polynomial in the angle of degree 256 follows is refused.
    layers : int
        L, from 1 to 10 000.

    References
    ----------
    Panigrahi, Shetty & Goyal (2020), on depth.

    Examples
    --------
    >>> from implicit_bias.kernels import deep_gram
    >>> X = [[1.0, 0.0], [0.8, 0.6]]
    >>> [deep_gram(X, "tanh", layers).values[0, 1].round(4).item() for layers in (1, 4, 16)]
    [0.3357, 0.2969, 0.1497]
    """
    chosen, layers = activation_of(activation), as_count(layers, "layers", most=MOST_LAYERS)
    if layers == 1:
        return gram_matrix(X, chosen, normalise=True)
    points = Points.of(X, normalise=True)
    entries, error, terms = pair_mean(chosen, np.ones(1), 1.0, TOLERANCE, points.rows.shape[1])
    pairs, eps = points.gaussian_pairs(slice(0, len(points))), float(np.finfo(float).eps)
    angles, cosines = pairs.angle, pairs.cosine
    defect, slope, rounding = layer_map(chosen, entries)
    off = (points.rows.shape[1] + 8) * eps
    for _ in range(layers - 1):
        cosines = np.clip(1 - defect(angles), -1.0, 1.0)
        np.fill_diagonal(cosines, 1.0)
        angles = np.arccos(cosines)
        off = slope * (off + 4 * eps) + rounding + 4 * error * slope
    values = entries(unit_pairs(angles)) * cosines
    values = (values + values.T) / 2
    entry = change(entries, cosines, off) + (error + 4 * eps) * values[0, 0]
    np.fill_diagonal(entry, error * values[0, 0])
    return Gram(values, float(entry.sum(axis=1).max()), False, terms)


def layer_map(activation: Activation, entries: Entries) -> tuple[Callable[[Array], Array], float, float]:
    """1 − ρ' as a function of θ, the largest dρ'/dρ, and the rounding error of ρ' for one layer."""
    first = mean(activation)
    for degree in DEGREES:
        # dρ = −sin θ dθ: what a layer takes from ρ = 1 on.
        found = Chebyshev.interpolate(lambda t: entries(unit_pairs(t)) * np.sin(t), degree, domain=[0.0, np.pi])
        settled = float(np.abs(found.coef[-4:]).max()), float(np.abs(found.coef).max())
        if settled[0] <= 1e-14 * settled[1]:
            break
    else:
        raise InputError(f"the layers of {activation.name} are too irregular; give another activation")
    lost = found.integ(lbnd=0.0)
    square = first**2 + float(lost(np.pi / 2))
    slope = float(entries(unit_pairs(np.zeros(1)))[0]) / square
    return lambda t: lost(t) / square, slope, 16 * (settled[0] + 2e-15 * settled[1]) / square


def change(entries: Entries, cosines: Array, off: float) -> Array:
    """How much E(ρ) ρ may change where ρ is off by so much: it is a power series with coefficients ≥ 0."""
    most = np.minimum(1.0, np.abs(cosines) + off)
    ends = [entries(unit_pairs(np.arccos(np.maximum(rho, 0.0)))) * rho for rho in (most, most - off)]
    return np.asarray(np.abs(ends[0] - ends[1]))
