"""Synthetic tasks, drawn by NumPy's PCG64: noisy and linear clusters, a linear rule with a margin, and parities."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from implicit_bias._utils import checks
from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.floats import unit_samples

#: Largest margin, in standard deviations; beyond it the normal tail probability underflows.
MAX_MARGIN = 35.0


class Clusters(NamedTuple):
    """Result of `noisy_clusters`: inputs X (m, d), labels y (m,), cluster indices (m,) and centres (n, d).

    >>> from implicit_bias.extensions.galu.datasets import noisy_clusters
    >>> noisy_clusters(m=4, n=2, d=3).X.shape
    (4, 3)
    """

    X: Array
    y: Array
    cluster: np.ndarray
    centres: Array


def noisy_clusters(
    m: int, n: int, d: int, sigma_x: float = 0.1, sigma_y: float = 0.0, *, flip: float | None = None, seed: int = 1
) -> Clusters:
    """Draw m samples from n clusters in R^d: centres c_i ~ N(0, I), x = c_i + N(0, σ_x² I), i uniform.

        regression:      y = b_i + N(0, σ_y²),  b_i ~ N(0, 1)
        classification:  y = b_i, or −b_i with probability p,  b_i = ±1 with probability ½ each

    The random numbers do not depend on σ_x, σ_y and p, so that changing the noise moves the same samples. To draw
    training and test samples from the same clusters, split the result of one call. Source: Fiat, Malach &
    Shalev-Shwartz, first version, section 4.2.

    Parameters
    ----------
    m, n, d : int
        Numbers of samples, clusters and inputs.
    sigma_x, sigma_y : float
        Standard deviations, from 0 to 1e100.
    flip : float, optional
        p, from 0 to 1; selects classification.
    seed : int
        Seed of NumPy's PCG64.

    Raises
    ------
    InputError
        If a number is out of range, or both `sigma_y` and `flip` are given.

    Examples
    --------
    >>> X, y, cluster, centres = noisy_clusters(m=1000, n=5, d=3, sigma_x=0.01, flip=0.1, seed=1)
    >>> X.shape, sorted(set(y.tolist())), bool(abs(X - centres[cluster]).max() < 0.05)
    ((1000, 3), [-1.0, 1.0], True)
    """
    m, n, d = checks.as_count(m, "m"), checks.as_count(n, "n"), checks.as_count(d, "d")
    sigma_x = checks.as_positive(sigma_x, "sigma_x", zero=True)
    sigma_y = checks.as_positive(sigma_y, "sigma_y", zero=True)
    if flip is not None and sigma_y:
        raise InputError("give sigma_y, the noise of regression, or flip, the noise of classification, not both")
    checks.check_range(np.array([sigma_x, sigma_y]), "sigma_x and sigma_y", 0.0, 1e100)
    checks.check_size(max(m, n) * d, "the samples")
    rng = np.random.default_rng(checks.as_seed(seed))
    centres, cluster, noise = rng.normal(size=(n, d)), rng.integers(n, size=m), rng.normal(size=(m, d))
    labels, blur = rng.normal(size=n), rng.normal(size=m)
    if flip is None:
        y = labels[cluster] + sigma_y * blur
    else:
        flipped = ndtr(blur) < checks.as_fraction(flip, "flip")
        y = np.where(labels[cluster] > 0, 1.0, -1.0) * np.where(flipped, -1.0, 1.0)
    return Clusters(centres[cluster] + sigma_x * noise, y, cluster, centres)


class LinearClusters(NamedTuple):
    """Result of `linear_clusters`: the fields of `Clusters`, and the label maps ℓ (n, d).

    >>> from implicit_bias.extensions.galu.datasets import linear_clusters
    >>> linear_clusters(m=4, centres=[[1.0, 0.0, 0.0]], radius=0.1).maps.shape
    (1, 3)
    """

    X: Array
    y: Array
    cluster: np.ndarray
    centres: Array
    maps: Array


def linear_clusters(
    m: int, centres: ArrayLike, radius: float, *, shares: ArrayLike | None = None, seed: int = 1
) -> LinearClusters:
    """Draw m unit samples near n centres v_i on the sphere, with labels that are linear in each cluster.

        y = ⟨ℓ_i, x⟩,  ℓ_i ~ N(0, I),  i ~ Q;    ‖x − v_i‖ = r U^{1/(d−1)} in a uniform direction, U uniform on [0, 1]

    The samples are nearly uniform on the caps. The random numbers do not depend on r. To draw training and test samples
    from the same clusters, split the result of one call. Source: Fiat, Malach & Shalev-Shwartz (2019), appendix B. Q,
    the ℓ_i and the distribution around v_i are our choice.

    Parameters
    ----------
    m : int
        Number of samples.
    centres : array, shape (n, d)
        v_i with d ≥ 2, of any positive length; they are normalised. `rng.choice([-1.0, 1.0], (n, d))` draws those of
        Lemma 3.
    radius : float
        r, from 0 to 2; `cluster_width(centres).radius` satisfies Theorem 7.
    shares : array, shape (n,), optional
        Positive weights proportional to Q; uniform by default.
    seed : int
        Seed of NumPy's PCG64.

    Raises
    ------
    InputError
        If a centre is zero, arrays do not fit, or a number is out of range.

    Examples
    --------
    >>> found = linear_clusters(m=1000, centres=np.eye(4), radius=0.01)
    >>> float(np.linalg.norm(found.X - found.centres[found.cluster], axis=1).max().round(3))
    0.01
    >>> bool(np.allclose(found.y, np.sum(found.X * found.maps[found.cluster], axis=1)))
    True
    """
    m, V = checks.as_count(m, "m"), unit_samples(centres, normalise=True, name="centres")
    (n, d), radius = V.shape, checks.as_positive(radius, "radius", zero=True)
    if d < 2 or radius > 2:
        raise InputError(f"clusters need d ≥ 2 inputs and a radius of at most 2, not {d} and {radius:g}")
    checks.check_size(max(m, n) * d, "the samples")
    weights = np.ones(n) if shares is None else checks.as_floats(shares, "shares", 1)
    if len(weights) != n or not (weights > 0).all():
        raise InputError(f"shares must be {n} positive numbers, one per centre")
    weights = weights / weights.max()
    rng = np.random.default_rng(checks.as_seed(seed))
    maps, cluster = rng.normal(size=(n, d)), rng.choice(n, size=m, p=weights / weights.sum())
    near, tangents = V[cluster], rng.normal(size=(m, d))
    tangents -= np.sum(tangents * near, axis=1)[:, None] * near
    tangents /= np.linalg.norm(tangents, axis=1)[:, None]
    chord = radius * rng.random(m)[:, None] ** (1 / (d - 1))
    # The point at distance `chord` from v on the great circle through v in the drawn direction.
    X = near + chord * (np.sqrt(1 - chord**2 / 4) * tangents - chord / 2 * near)
    return LinearClusters(X, np.sum(X * maps[cluster], axis=1), cluster, V, maps)


def separable(m: int, d: int, margin: float = 0.0, *, seed: int = 1) -> tuple[Array, Array]:
    """Draw m samples x ~ N(0, I) given ``|⟨w*, x⟩| ≥ margin``, and labels y = sign⟨w*, x⟩; return X (m, d) and y (m,).

    w* is uniform on the unit sphere. ⟨w*, x⟩ is drawn from the truncated normal distribution, which is equivalent to
    rejecting samples within the margin, a number from 0 to 35. `seed` is that of NumPy's PCG64.

    Examples
    --------
    >>> X, y = separable(m=100, d=5, margin=0.5, seed=1)
    >>> w = np.linalg.lstsq(X, y, rcond=None)[0]
    >>> X.shape, bool((y * (X @ w) > 0).mean() > 0.9)
    ((100, 5), True)
    """
    m, d, margin = checks.as_count(m, "m"), checks.as_count(d, "d"), checks.as_positive(margin, "margin", zero=True)
    if margin > MAX_MARGIN:
        raise InputError(f"margin must be at most {MAX_MARGIN:g} standard deviations, not {margin:g}")
    checks.check_size(m * d, "the samples")
    rng = np.random.default_rng(checks.as_seed(seed))
    w = rng.normal(size=d)
    w /= np.linalg.norm(w)
    X = rng.normal(size=(m, d))
    y = np.where(rng.random(m) < 0.5, -1.0, 1.0)
    # 1 − U lies in (0, 1], which keeps the quantile finite.
    return X + np.outer(y * np.maximum(-ndtri(ndtr(-margin) * (1 - rng.random(m))), margin) - X @ w, w), y


def parity(m: int, d: int, bits: int, *, seed: int = 1) -> tuple[Array, Array]:
    """Draw m samples x uniform on {−1, +1}^d and labels y = x_1 x_2 … x_bits; return X (m, d) and y (m,).

    `bits`, from 1 to d, is the number of leading inputs whose parity is the label; `seed` is that of NumPy's PCG64.

    Examples
    --------
    >>> X, y = parity(m=100, d=5, bits=2, seed=1)
    >>> bool((y == X[:, 0] * X[:, 1]).all())
    True
    """
    m, d = checks.as_count(m, "m"), checks.as_count(d, "d")
    bits = checks.as_count(bits, "bits", most=d, limit=f"d = {d}, the number of inputs")
    checks.check_size(m * d, "the samples")
    X = np.random.default_rng(checks.as_seed(seed)).choice([-1.0, 1.0], size=(m, d))
    return X, X[:, :bits].prod(axis=1)
