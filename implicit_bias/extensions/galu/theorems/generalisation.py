"""Losses on new samples: our bound of order 1/√m, Theorem 3, and the first version's results on linear predictors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils import checks
from implicit_bias._utils.blocks import Cholesky
from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.files import finite_numbers
from implicit_bias._utils.floats import length
from implicit_bias.extensions.galu.theorems.memorisation import check_lengths, memorisation_width, positive_kernel
from implicit_bias.features.gated import GatedFeatures, as_gated


@dataclass(frozen=True)
class GeneralisationBound:
    """Upper `bound` on E(f(x) − y)², the sum of `training_loss`, `complexity` and `confidence`.

        complexity = 4(M̂ + B)M̂/√m,    confidence = (M̂ + B)² √(log(1/δ_i)/(2m)),    δ_i = δ/((i + 1)(i + 2))

    `training_loss` is (1/m)‖Φw − y‖², and `complexity` is twice the Rademacher complexity of the losses. `output` is
    M = √k ‖w‖, which bounds |f(x)| for ‖x‖ ≤ 1. `radius` is M̂ = 2ⁱB, the smallest of B, 2B, 4B, … that is at least M.
    `label_bound` is ``B ≥ |y|``. `width` is the number of gates k: the given or a sufficient one. The bound holds with
    probability at least 1 − `delta`. `generalisation_bound_a_priori` divides δ_i by 2(j + 1)(j + 2) for k = 2ʲ gates.
    """

    bound: float
    training_loss: float
    complexity: float
    confidence: float
    output: float
    radius: float
    label_bound: float
    width: int
    delta: float

    @property
    def loss_range(self) -> float:
        """M̂² + 2M̂B, the largest |(f(x) − y)² − (0 − y)²|. The losses themselves lie between 0 and (M̂ + B)²."""
        return self.radius**2 + 2 * self.radius * self.label_bound

    @property
    def is_vacuous(self) -> bool:
        """True if the bound is at least B², which already the prediction 0 guarantees."""
        return self.bound >= self.label_bound**2


def generalisation_bound(
    features: GatedFeatures, y: ArrayLike, weights: ArrayLike, label_bound: float, delta: float = 0.05
) -> GeneralisationBound:
    """Bound E(f(x) − y)² for a layer f(x) = ⟨w, Φ(x)⟩ of given gates, with probability at least 1 − δ.

        E(f(x) − y)² ≤ (1/m)‖Φw − y‖² + 4(M̂ + B)M̂/√m + (M̂ + B)² √(log((i + 1)(i + 2)/δ)/(2m))

    Here M̂ = 2ⁱB ≥ √k‖w‖ with the smallest i ≥ 0. The bound holds for all w at once, so that w may depend on the m
    independent samples; the gates must not. The bound is ours, with a proof in docs/galu_proofs.md. Theorem 3 of Fiat
    et al. (2019), `rkhs_bound`, has the rate log³m/m with an unspecified constant, for labels in a ball of an RKHS
    only.

    Parameters
    ----------
    features : GatedFeatures
        Φ of the training samples, each of length at most 1, with gate values from −1 to 1.
    y : array, shape (m,)
    weights : array, shape (k, d)
        w, for example `least_squares(features, y).weights`.
    label_bound : float
        ``B ≥ |y|``, an assumption on the distribution, which is checked on the samples.
    delta : float
        δ, strictly between 0 and 1.

    Raises
    ------
    InputError
        If a sample is longer than 1, a gate value exceeds 1 or a label exceeds B in size, or numbers are invalid.

    Examples
    --------
    >>> from implicit_bias.extensions.galu import least_squares
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 3)); X /= np.linalg.norm(X, axis=1)[:, None]
    >>> features = GatedFeatures(X, X @ rng.normal(size=(3, 2)) > 0)
    >>> generalisation_bound(features, X[:, 0], least_squares(features, X[:, 0]).weights, label_bound=1.0).is_vacuous
    False
    """
    features, label_bound = as_gated(features), checks.as_positive(label_bound, "label_bound")
    y = _labels(y, features.n, label_bound)
    w = finite_numbers(checks.as_numbers(weights, (features.k, features.d), "weights"), "weights")
    check_lengths(features.X)
    widest = float(np.abs(features.gate_values).max())
    if widest > 1:
        raise InputError(f"the bound needs gate values of at most 1, not {widest:.6g}; divide them by this")
    with np.errstate(over="ignore"):
        loss = float(np.mean((features @ w - y) ** 2))
    output = math.sqrt(features.k) * float(length(w))
    return _bound(loss, output, label_bound, features.k, features.n, checks.as_probability(delta), delta)


def generalisation_bound_a_priori(
    X: ArrayLike, y: ArrayLike, label_bound: float, delta: float = 0.05
) -> GeneralisationBound:
    """Bound E(f(x) − y)² before the gates are drawn, for least squares on k = `width` Gaussian gates.

        ‖w*‖² = yᵀ(ΦΦᵀ)⁻¹y ≤ (2/k) yᵀκ(X)⁻¹y = M²/k   and   Φw* = y,    except with probability δ/2

    The `width` is the smallest power of two k = 2ʲ of at least `memorisation_width(X, delta/2).width`. Since k depends
    on the samples, the bound is a union over all j: `generalisation_bound` applies at δ/(2(j + 1)(j + 2)), with
    training loss 0 and M = √(2 yᵀκ(X)⁻¹y). The training samples X (m, d) must be independent and of length at most 1.
    The bound is ours; that the kernel bounds ‖w*‖² is a step in the proof of Theorem 3 of Fiat et al. (2019).

    Raises
    ------
    InputError
        As for `generalisation_bound`, and if λ(X) is 0 up to rounding.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> X /= np.linalg.norm(X, axis=1)[:, None]
    >>> found = generalisation_bound_a_priori(X, X[:, 0], label_bound=1.0)
    >>> found.output < 8**0.5, found.is_vacuous
    (True, True)
    """
    X = checks.as_floats(X, "X", 2)
    check_lengths(X)
    label_bound = checks.as_positive(label_bound, "label_bound")
    y = _labels(y, len(X), label_bound)
    delta = checks.as_probability(delta)
    doublings = (memorisation_width(X, delta / 2).width - 1).bit_length()
    sampling = delta / (2 * (doublings + 1) * (doublings + 2))
    return _bound(0.0, math.sqrt(2 * kernel_energy(X, y)[1]), label_bound, 2**doublings, len(X), sampling, delta)


def kernel_energy(X: Array, y: Array) -> tuple[float, float]:
    """Return a lower and an upper bound of yᵀκ(X)⁻¹y that include the rounding of κ, for X (m, d) and y (m,)."""
    kernel, eigenvalue = positive_kernel(X)
    energy = float(y @ Cholesky(kernel).solve(y))
    # (1 − r/λ) κ̂ ⪯ κ ⪯ (1 + r/λ) κ̂ for the computed κ̂, its smallest eigenvalue λ and its error r.
    share = float(eigenvalue.error / eigenvalue.value)
    return energy / (1 + share), energy / (1 - share)


def _labels(y: ArrayLike, samples: int, label_bound: float) -> Array:
    y = checks.as_column(y, samples)
    if np.abs(y).max() > label_bound:
        raise InputError(f"y reaches {np.abs(y).max():g}, beyond label_bound = {label_bound:g}; use a larger bound")
    return y


def _bound(
    loss: float, output: float, label_bound: float, k: int, m: int, sampling: float, delta: float
) -> GeneralisationBound:
    """Return the union bound over the radii 2ⁱB, for |f| ≤ M = `output`, k gates, m samples and `sampling` = Σ δ_i."""
    checks.check_range(np.array([output, label_bound]), "label_bound and the outputs √k‖w‖", 1e-100, 1e100)
    mantissa, exponent = math.frexp(output / label_bound)
    doublings = max(0, exponent - (mantissa == 0.5))
    radius = label_bound * 2.0**doublings
    complexity = 4 * (radius + label_bound) * radius / math.sqrt(m)
    tail = math.log((doublings + 1) * (doublings + 2) / sampling)
    confidence = (radius + label_bound) ** 2 * math.sqrt(tail / (2 * m))
    bound = loss + complexity + confidence
    return GeneralisationBound(bound, loss, complexity, confidence, output, radius, label_bound, k, delta)


@dataclass(frozen=True)
class RKHSBound:
    """Result of `rkhs_bound`: E ½(f(x) − y)² ≤ C · `rate` with probability at least 1 − 2δ and an unspecified C.

        rate = (2M² log³m + (2M² + √2M) log(1/δ))/m,    width = (m/(M²λ) + 1)² (32‖X‖⁴/λ²) log(m/δ)

    Here M is `radius`, m `samples` and δ `delta`. `energy` is a lower bound on √(yᵀκ(X)⁻¹y), the norm of the
    least-norm function with these labels, hence on ‖f*‖_κ ≤ M. `norm` is √2 M ≥ ‖w‖ of the least-squares solution, for
    networks with the factor 1/√k. `width` depends on the samples, and the proof is for a k fixed beforehand: fix
    one, and check that it reaches `width`.
    """

    rate: float
    width: int
    radius: float
    energy: float
    norm: float
    samples: int
    delta: float


def rkhs_bound(X: ArrayLike, y: ArrayLike, radius: float, delta: float = 0.05) -> RKHSBound:
    """Theorem 3: return width and rate of least squares on random gates for labels y = f*(x) with ‖f*‖_κ ≤ `radius`.

    The theorem assumes independent samples X (m, d) of length at most 1, λ(X) > 0, and labels y = f*(x) from −1 to 1
    with probability 1; M is `radius`; for y = ⟨v, x⟩, M = 2‖v‖. Samples can refute the last assumption: the least-norm
    function that interpolates them has norm √(yᵀκ⁻¹y) ≤ M. With `width` gates, E ½(f(x) − y)² ≤ C · `rate` with
    probability at least 1 − 2δ; Theorem 3 does not specify C, so `rate` alone is no bound. Source: Fiat et al. (2019),
    Theorem 3 and appendix C.

    Raises
    ------
    InputError
        If √(yᵀκ⁻¹y) exceeds M, λ(X) is 0 up to rounding, or samples or labels are larger than 1.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(300, 30))
    >>> X /= np.linalg.norm(X, axis=1)[:, None]
    >>> ours, theirs = generalisation_bound_a_priori(X, X[:, 0], label_bound=1.0), rkhs_bound(X, X[:, 0], radius=2.0)
    >>> ours.width < theirs.width
    True
    """
    X, radius, delta = checks.as_floats(X, "X", 2), checks.as_positive(radius, "radius"), checks.as_probability(delta)
    y = checks.as_column(y, len(X))
    checks.check_range(np.array([radius]), "radius", 1e-100, 1e100)
    check_lengths(X)
    if np.abs(y).max() > 1:
        raise InputError(f"Theorem 3 needs labels from −1 to 1, and y reaches {np.abs(y).max():g}; divide y by this")
    m, eigenvalue = len(X), float(positive_kernel(X)[1].lower_bound)
    energy = math.sqrt(kernel_energy(X, y)[0])
    if energy > radius * (1 + 1e-9):
        raise InputError(f"no function of norm {radius:.6g} has these labels, which need {energy:.6g}; give a larger M")
    ratio, spread = m / eigenvalue / radius / radius + 1, float(np.linalg.norm(X, 2)) ** 2 / eigenvalue
    if not ratio < 1e40:
        raise InputError(f"radius {radius:.4g} needs more than 1e80 gates; give a larger one")
    width = 32 * (ratio * spread) ** 2 * math.log(m / delta)
    square, root = 2 * radius**2, math.sqrt(2) * radius
    rate = (square * math.log(m) ** 3 + (square + root) * math.log(1 / delta)) / m
    return RKHSBound(rate, math.ceil(width), radius, energy, root, m, delta)


def expected_train_loss(m: int, d: int, sigma: float = 1.0) -> float:
    """Return the expected training loss of ordinary least squares on m samples of d inputs with label noise σ > 0.

        y = ⟨β, x⟩ + N(0, σ²):    E[(1/m) Σ_i (⟨ŵ, x_i⟩ − y_i)²] = σ² (1 − d/m)    for m ≥ d, else 0

    This holds for any β and any distribution of x whose samples have full rank. Lemma 1 of the first version of Fiat et
    al., after Rosset & Tibshirani (2018), states it for Gaussian x and m > d + 1.

    Examples
    --------
    >>> expected_train_loss(m=12, d=9), expected_train_loss(m=12, d=9, sigma=0.5)
    (0.25, 0.0625)
    """
    m, d, variance = checks.as_number_of(m, "m"), checks.as_number_of(d, "d"), _variance(sigma)
    return variance * (max(0, m - d) / m)


def expected_test_loss(m: int, d: int, sigma: float = 1.0) -> float:
    """Return the expected test loss of ordinary least squares on m Gaussian samples of d inputs with label noise σ > 0.

        y = ⟨β, x⟩ + N(0, σ²),  x ~ N(0, Σ):    E[(⟨ŵ, x⟩ − y)²] = σ² (m − 1)/(m − d − 1)    for m ≥ d + 2

    This holds for any β and any invertible Σ. Lemma 1 of the first version of Fiat et al., after Rosset & Tibshirani
    (2018), prints the same number as σ²(1 + d/m + (d/m)(d + 1)/(m − d − 1)).

    Raises
    ------
    InputError
        If m < d + 2, where the expectation is infinite or ŵ is not unique.

    Examples
    --------
    >>> expected_test_loss(m=12, d=10), expected_test_loss(m=110, d=9)
    (11.0, 1.09)
    """
    m, d, variance = checks.as_number_of(m, "m"), checks.as_number_of(d, "d"), _variance(sigma)
    if m < d + 2:
        raise InputError(f"the expected test loss is finite from m = d + 2 = {d + 2} samples on; m is {m}")
    return variance * (m - 1) / (m - d - 1)


def rademacher_bound(samples: GatedFeatures | ArrayLike, radius: float, p: int) -> float:
    """Bound the Rademacher complexity of linear predictors with ‖w‖_p ≤ B = `radius`, on samples or gated features φ_i.

        E[sup_{‖w‖_p ≤ B} (1/m) Σ_i s_i ⟨w, φ_i⟩]  ≤  B max_i ‖φ_i‖₂ /√m                       (p = 2)
                                                   ≤  B max_i ‖φ_i‖_∞ √(2 log(2D)/m)           (p = 1)

    The s_i = ±1 are random signs, and D is the number of columns of `samples` (m, D), or k·d for gated features φ(x) =
    g(x) ⊗ x. Source: first version of Fiat et al., section 4.2.1, which assumes ‖x_i‖_∞ ≤ 1; the bounds hold without
    this.

    Examples
    --------
    >>> rademacher_bound([[3.0, 4.0], [0.0, 5.0]] * 50, radius=2.0, p=2)
    1.0
    """
    radius, p = checks.as_positive(radius, "radius", zero=True), checks.as_count(p, "p", most=2)
    gated = isinstance(samples, GatedFeatures)
    features = as_gated(samples) if gated else GatedFeatures(checks.as_floats(samples, "X", 2))
    # ‖g ⊗ x‖ is ‖g‖ ‖x‖ in both norms.
    sizes = [length(A, axis=1) if p == 2 else np.abs(A).max(axis=1) for A in (features.X, features.gate_values)]
    largest = float(np.max(sizes[0] * sizes[1]))
    share = 1.0 if p == 2 else math.sqrt(2 * math.log(2 * features.k * features.d))
    return radius * largest * share / math.sqrt(features.n)


def _variance(sigma: float) -> float:
    sigma = checks.as_positive(sigma, "sigma")
    checks.check_range(np.array([sigma]), "sigma", 1e-100, 1e100)
    return sigma**2
