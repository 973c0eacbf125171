"""Gram matrices through depth: the last hidden layer of a wide network whose layers keep lengths."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from implicit_bias._utils.checks import Array, InputError, as_count, as_floats
from implicit_bias.extensions.infinite.activations import Activation
from implicit_bias.extensions.infinite.activations import activation as activation_of
from implicit_bias.extensions.infinite.angles import GaussianPairs, PairsDone, Points, mirror, repeated, unit_pairs
from implicit_bias.extensions.infinite.gram import TOLERANCE, Gram, gram_matrix
from implicit_bias.extensions.infinite.layers import EPS, Layer, PairErrors, first_errors, next_pairs

#: More layers than this take minutes, and change nothing any more.
MOST_LAYERS = 10_000


def deep_gram(
    X: ArrayLike,
    activation: str | Activation,
    layers: int,
    *,
    centred: bool = False,
    progress: PairsDone | None = None,
) -> Gram:
    """The Gram matrix of the last of L hidden layers, each normalised: E[σ'σ'](ρ_L) ρ_L for every pair.

        ρ_1 = cos of the angle of the points,    ρ_{l+1} = E[σ(z)σ(z')] / E[σ(z)²]  at the correlation ρ_l

    of unit Gaussian pairs. `centred` layers take σ − E[σ(z)] for σ: ρ_{l+1} = Cov(σ(z), σ(z'))/Var(σ(z)). One layer is
    `gram_matrix` of the normalised points. More of them multiply a small 1 − ρ by E[σ'²] over E[σ²] (or Var σ): they
    push near points apart if that is more than 1, which it always is of centred layers of a σ that is not affine, for
    Var σ(z) ≤ E[σ'(z)²] (Poincaré), and together if less.

    An error δ of ρ enters the next layer times |E[σ'σ'](ρ)|/E[σ²] of that pair, which pulls errors together again where
    the layers pull ρ together.

    Parameters
    ----------
    X, activation, and errors : as for `gram_matrix`
        Lengths play no part.
    layers : int
        L, from 1 to 10 000.
    centred : bool
        Raises InputError for a σ whose variance is 0 up to rounding.
    progress : callable(pairs, all pairs), optional
        Called after every block of pairs.

    References
    ----------
    Panigrahi, Shetty & Goyal (2020), abstract, on sufficient depth. The layers, normalised or centred, are ours.

    Examples
    --------
    >>> X = [[1.0, 0.0], [0.8, 0.6]]
    >>> [deep_gram(X, "tanh", layers).values[0, 1].round(4).item() for layers in (1, 4, 16)]
    [0.3357, 0.2969, 0.1497]
    >>> [deep_gram(X, "softplus", 64, centred=centred).values[0, 1].round(4).item() for centred in (False, True)]
    [0.2934, 0.006]
    """
    chosen, layers = activation_of(activation), as_count(layers, "layers", most=MOST_LAYERS)
    if layers == 1:
        return gram_matrix(X, chosen, normalise=True, progress=progress)
    points = Points.of(X, normalise=True)
    layer = Layer.of(chosen, np.ones(1), TOLERANCE)
    mean = float(layer.values(unit_pairs(np.array([np.pi / 2])))[0]) if centred else 0.0
    if layer.squares[0] - mean <= 4 * layer.error * layer.squares[0]:
        raise InputError(f"{chosen.name} minus its mean is 0 up to rounding; leave out centred")
    n, given = len(points), as_floats(X, "X", 2)
    values, sums = np.empty((n, n)), np.zeros(n)
    for rows, columns, pairs in points.blocks(progress=progress):
        same = repeated(given[rows], given[columns], pairs.angle, parallel=True)
        block, off = through(layer, layers, mean, pairs, first_errors(points), same)
        mirror(values, rows, columns, block)
        sums[rows] += off.sum(axis=1)
        sums[rows.stop :] += off[:, len(block) :].sum(axis=0)
    return Gram(values, float(sums.max()), chosen.is_certified, layer.terms)


def through(
    layer: Layer, layers: int, mean: float, pairs: GaussianPairs, off: PairErrors, same: NDArray[np.bool_]
) -> tuple[Array, Array]:
    """E[σ'σ'](ρ_L) ρ_L of a block of pairs, with bounds of its errors; `mean` is E[σ]², or 0."""
    spread = layer.squares[0] - mean
    ones = np.ones((1, 1)), np.ones((1, 1))
    off = PairErrors(0.0, off.cosine, off.angle)
    pairs = GaussianPairs(*ones, pairs.cosine, pairs.angle)
    for _ in range(layers - 1):
        covariances, _, covariances_off, _ = layer.means(pairs, off)
        # The mean and the spread are as well known as the covariances.
        own = 4 * layer.error * layer.squares[0]
        pairs, off = next_pairs(ones, (covariances - mean) / spread, (covariances_off + own) / spread, 0.0, same)
    _, slopes, _, slopes_off = layer.means(pairs, off)
    total = slopes * pairs.cosine + 0.0
    return total, slopes_off + (np.abs(slopes) + slopes_off) * off.cosine + 2 * EPS * np.abs(total)
