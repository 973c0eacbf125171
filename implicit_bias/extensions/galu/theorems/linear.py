"""What the first version says of linear predictors (section 4.2): what least squares loses, and Rademacher bounds."""

import math

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import InputError, as_count, as_floats, as_number_of, as_positive, check_range
from implicit_bias._utils.scaling import length
from implicit_bias.features.gated import GatedFeatures, as_gated


def expected_train_loss(m: int, d: int, sigma: float = 1.0) -> float:
    """The expected training loss of ordinary least squares on m samples of d inputs with label noise σ.

        y = ⟨β, x⟩ + N(0, σ²):    E[(1/m) Σ_i (⟨ŵ, x_i⟩ − y_i)²] = σ² (1 − d/m)    for m ≥ d

    whatever β and the distribution of x, as long as the samples have rank d; for fewer than d samples it is 0.

    Parameters
    ----------
    m, d : int
    sigma : float
        σ > 0.

    Raises
    ------
    InputError
        For numbers that are not positive and whole, and a σ that is not positive.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz, first version, Lemma 1, after Rosset & Tibshirani (2018), for Gaussian x
    and m > d + 1.

    Examples
    --------
    >>> from implicit_bias.extensions.galu.theorems.linear import expected_train_loss
    >>> expected_train_loss(m=12, d=9), expected_train_loss(m=12, d=9, sigma=0.5)
    (0.25, 0.0625)
    """
    m, d, variance = as_number_of(m, "m"), as_number_of(d, "d"), _variance(sigma)
    return variance * (max(0, m - d) / m)


def expected_test_loss(m: int, d: int, sigma: float = 1.0) -> float:
    """The expected test loss of ordinary least squares on m Gaussian samples of d inputs with label noise σ.

        y = ⟨β, x⟩ + N(0, σ²),  x ~ N(0, Σ):    E[(⟨ŵ, x⟩ − y)²] = σ² (m − 1)/(m − d − 1)    for m ≥ d + 2

    whatever β and the invertible Σ; (d + 1)σ² at m = d + 2. For fewer samples the expectation is infinite (m = d,
    m = d + 1) or ŵ is not determined (m < d). With `expected_train_loss` it tells signal from noise: on D_{σ,β} with
    σ near 0 both losses are small, on D_{1,0}, labels of pure noise, the training loss alone.

    Parameters
    ----------
    m, d : int
    sigma : float
        σ > 0.

    Raises
    ------
    InputError
        For m < d + 2, and for a σ that is not positive.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz, first version, Lemma 1, after Rosset & Tibshirani (2018):
    σ²(1 + d/m + (d/m)(d + 1)/(m − d − 1)), the same number.

    Examples
    --------
    >>> from implicit_bias.extensions.galu.theorems.linear import expected_test_loss
    >>> expected_test_loss(m=12, d=10), expected_test_loss(m=110, d=9)
    (11.0, 1.09)
    """
    m, d, variance = as_number_of(m, "m"), as_number_of(d, "d"), _variance(sigma)
    if m < d + 2:
        raise InputError(f"the expected test loss is finite from m = d + 2 = {d + 2} samples on; m is {m}")
    return variance * (m - 1) / (m - d - 1)


def rademacher_bound(samples: GatedFeatures | ArrayLike, radius: float, p: int) -> float:
    """A bound of the Rademacher complexity of linear predictors in an ℓ_p ball, on samples or gated features φ_i.

        E[sup_{‖w‖_p ≤ B} (1/m) Σ_i s_i ⟨w, φ_i⟩]  ≤  B max_i ‖φ_i‖₂ /√m                       (p = 2)
                                                   ≤  B max_i ‖φ_i‖_∞ √(2 log(2D)/m)           (p = 1)

    with signs s_i = ±1, m samples and D inputs or, of gated features, k·d: φ(x) = g(x) ⊗ x.

    Parameters
    ----------
    samples : GatedFeatures, or array of shape (m, D)
    radius : float
        B ≥ 0: `np.linalg.norm(weights.ravel(), p)`, say.
    p : int
        1 or 2.

    Raises
    ------
    InputError
        For a bad array, a negative radius, and another p.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz, first version, section 4.2.1, who take ‖x_i‖_∞ ≤ 1; their bounds need no such thing.

    Examples
    --------
    >>> from implicit_bias.extensions.galu.theorems.linear import rademacher_bound
    >>> rademacher_bound([[3.0, 4.0], [0.0, 5.0]] * 50, radius=2.0, p=2)
    1.0
    """
    radius, p = as_positive(radius, "radius", zero=True), as_count(p, "p", most=2)
    features = as_gated(samples) if isinstance(samples, GatedFeatures) else GatedFeatures(as_floats(samples, "X", 2))
    # ‖g ⊗ x‖ is ‖g‖ ‖x‖ in both norms.
    sizes = [length(A, axis=1) if p == 2 else np.abs(A).max(axis=1) for A in (features.X, features.gate_values)]
    largest = float(np.max(sizes[0] * sizes[1]))
    share = 1.0 if p == 2 else math.sqrt(2 * math.log(2 * features.k * features.d))
    return radius * largest * share / math.sqrt(features.n)


def _variance(sigma: float) -> float:
    """σ² of a standard deviation that can be squared."""
    sigma = as_positive(sigma, "sigma")
    check_range(np.array([sigma]), "sigma", 1e-100, 1e100)
    return sigma**2
