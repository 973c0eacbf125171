"""Bounds of the loss on new samples: ours of rate 1/√m, and that of Theorem 3 for labels of the kernel's space."""

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import (
    Array,
    InputError,
    as_column,
    as_floats,
    as_numbers,
    as_positive,
    as_probability,
    check_range,
)
from implicit_bias._utils.scaling import length
from implicit_bias.extensions.galu.theorems.kernel import check_lengths, positive_kernel
from implicit_bias.extensions.galu.theorems.memorisation import memorisation_width
from implicit_bias.features.gated import GatedFeatures, as_gated


@dataclass(frozen=True)
class GeneralisationBound:
    """A bound of E(f(x) − y)² on the distribution that the samples came from: training loss + complexity + confidence.

    Attributes
    ----------
    bound : float
    training_loss : float
        (1/m)‖Φw − y‖².
    complexity : float
        4(M̂ + B)M̂/√m, twice the Rademacher complexity of the losses.
    confidence : float
        (M̂ + B)² √(log(1/δ_i)/(2m)), δ_i = δ/((i + 1)(i + 2)).
    output : float
        M = √k ‖w‖, a bound of |f(x)| for every x of length at most 1.
    radius : float
        M̂ = 2ⁱB, the first of B, 2B, 4B, … that is at least M.
    label_bound : float
        B ≥ |y|.
    width : int
        k, the number of gates: those given, or those that are enough.
    delta : float
        The bound holds with probability at least 1 − δ.

    Examples
    --------
    >>> from implicit_bias import GatedFeatures
    >>> from implicit_bias.extensions.galu.theorems.generalisation import generalisation_bound
    >>> found = generalisation_bound(GatedFeatures([[1.0, 0.0]] * 10_000), [0.5] * 10_000, [[0.5, 0.0]], label_bound=1)
    >>> found.output, found.radius, found.loss_range, found.is_vacuous, round(found.bound, 3)
    (0.5, 1.0, 3.0, False, 0.134)
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
        """M̂² + 2M̂B, the largest |(f(x) − y)² − (0 − y)²|; the losses themselves lie between 0 and (M̂ + B)²."""
        return self.radius**2 + 2 * self.radius * self.label_bound

    @property
    def is_vacuous(self) -> bool:
        """Whether the bound says no more than B², which is what the prediction 0 guarantees."""
        return self.bound >= self.label_bound**2


def generalisation_bound(
    features: GatedFeatures, y: ArrayLike, weights: ArrayLike, label_bound: float, delta: float = 0.05
) -> GeneralisationBound:
    """Our bound for a layer at hand: E(f(x) − y)² for f(x) = ⟨w, Φ(x)⟩, with probability at least 1 − δ.

        E(f(x) − y)² ≤ (1/m)‖Φw − y‖² + 4(M̂ + B)M̂/√m + (M̂ + B)² √(log((i + 1)(i + 2)/δ)/(2m))

    with M̂ = 2ⁱB ≥ √k‖w‖, i ≥ 0 as small as possible. It holds for all w at once, so w may be fitted in any way to
    the m independent samples; the gates may not depend on them.

    Parameters
    ----------
    features : GatedFeatures
        Φ of the training samples, each of length at most 1.
    y : array, shape (m,)
        Their labels.
    weights : array, shape (k, d)
        w: `least_squares(features, y).weights`, say.
    label_bound : float
        B, which |y| never exceeds: an assumption on the distribution, checked on the samples.
    delta : float
        δ, strictly between 0 and 1.

    Raises
    ------
    InputError
        For samples longer than 1, gate values beyond ±1, labels beyond B, shapes that do not fit, and a δ or B out of
        range.

    References
    ----------
    Ours, proved in the guide's page on GaLU. Theorem 3 of Fiat, Malach & Shalev-Shwartz (2019), `rkhs_bound`, has
    the rate log³m/m, for labels of its ball alone and with a constant that it does not give.

    Examples
    --------
    >>> from implicit_bias import ReLUGates
    >>> from implicit_bias.extensions.galu import least_squares
    >>> from implicit_bias.extensions.galu.theorems.generalisation import generalisation_bound
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20_000, 3)); X /= np.linalg.norm(X, axis=1)[:, None]
    >>> features = ReLUGates(rng.normal(size=(2, 3)))(X)
    >>> weights = least_squares(features, X[:, 0]).weights
    >>> generalisation_bound(features, X[:, 0], weights, label_bound=1.0).is_vacuous
    False
    """
    features, label_bound = as_gated(features), as_positive(label_bound, "label_bound")
    y = _labels(y, features.n, label_bound)
    w = as_numbers(weights, (features.k, features.d), "weights")
    if not np.isfinite(w).all():
        raise InputError("the weights hold NaN or infinity; give finite ones")
    check_lengths(features.X)
    widest = float(np.abs(features.gate_values).max())
    if widest > 1:
        raise InputError(f"the bound is for gate values of at most 1, not {widest:.6g}; divide them by this")
    with np.errstate(over="ignore"):
        loss = float(np.mean((features @ w - y) ** 2))
    output = math.sqrt(features.k) * float(length(w))
    return _bound(loss, output, label_bound, features.k, features.n, as_probability(delta), delta)


def generalisation_bound_a_priori(
    X: ArrayLike, y: ArrayLike, label_bound: float, delta: float = 0.05
) -> GeneralisationBound:
    """The same before the gates are drawn: least squares on k ≥ `width` gates 1(⟨u_j, x⟩ > 0) with u_j ~ N(0, I).

        ‖w*‖² = yᵀ(ΦΦᵀ)⁻¹y ≤ (2/k) yᵀκ(X)⁻¹y = M²/k   and   Φw* = y,    except with probability δ/2

    and then the bound of `generalisation_bound` at δ/2, with training loss 0 and M = √(2 yᵀκ(X)⁻¹y): it depends on k
    no more. Labels ⟨v, x⟩ have M ≤ √8 ‖v‖.

    Parameters
    ----------
    X, and errors : as for `memorisation_width`
        Training samples, independent, each of length at most 1.
    y, label_bound, and their errors : as for `generalisation_bound`
    delta : float
        δ, strictly between 0 and 1; half for the gates, half for the samples.

    References
    ----------
    Ours; that ‖w*‖² is bounded by the kernel is a step of the proof of Fiat, Malach & Shalev-Shwartz (2019), Theorem 3.

    Examples
    --------
    >>> from implicit_bias.extensions.galu.theorems.generalisation import generalisation_bound_a_priori
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> X /= np.linalg.norm(X, axis=1)[:, None]
    >>> found = generalisation_bound_a_priori(X, X[:, 0], label_bound=1.0)
    >>> found.output < 8**0.5, found.is_vacuous
    (True, True)
    """
    X = as_floats(X, "X", 2)
    check_lengths(X)
    label_bound = as_positive(label_bound, "label_bound")
    y = _labels(y, len(X), label_bound)
    delta = as_probability(delta)
    lemma = memorisation_width(X, delta / 2)
    output = math.sqrt(2 * kernel_energy(X, y)[1])
    return _bound(0.0, output, label_bound, lemma.width, len(X), delta / 2, delta)


def kernel_energy(X: Array, y: Array) -> tuple[float, float]:
    """Between which two numbers yᵀκ⁻¹y lies, for all that rounding of κ may hide; X (m, d), y (m,)."""
    kernel, eigenvalue = positive_kernel(X)
    energy = float(y @ scipy.linalg.solve(kernel, y, assume_a="pos", check_finite=False))
    # (1 − r/λ) κ̂ ⪯ κ ⪯ (1 + r/λ) κ̂ for the computed κ̂, its smallest eigenvalue λ and its error r.
    share = float(eigenvalue.error / eigenvalue.value)
    return energy / (1 + share), energy / (1 - share)


def _labels(y: ArrayLike, samples: int, label_bound: float) -> Array:
    y = as_column(y, samples)
    if np.abs(y).max() > label_bound:
        raise InputError(f"y reaches {np.abs(y).max():g}, beyond label_bound = {label_bound:g}; give a larger bound")
    return y


def _bound(
    loss: float, output: float, label_bound: float, k: int, m: int, sampling: float, delta: float
) -> GeneralisationBound:
    """The bound for |f| ≤ `output`, by a union over the radii 2ⁱB; `sampling` is the δ of the samples' part."""
    check_range(np.array([output, label_bound]), "label_bound and the outputs √k‖w‖", 1e-100, 1e100)
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
    """Theorem 3: E½(f(x) − y)² ≤ C · `rate` with probability at least 1 − 2δ, for a C that the paper does not give.

    Attributes
    ----------
    rate : float
        (2M² log³m + (2M² + √2M) log(1/δ))/m.
    width : int
        k ≥ (m/(M²λ) + 1)² (32‖X‖⁴/λ²) log(m/δ).
    radius : float
        M.
    energy : float
        √(yᵀκ(X)⁻¹y), the norm of the least function with these labels, less what rounding may add to it; at most
        ‖f*‖_κ ≤ M.
    norm : float
        √2 M, which ‖w‖ of the least squares solution does not exceed, for networks of 1/√k Σ_j.
    samples : int
        m.
    delta : float

    Examples
    --------
    >>> from implicit_bias.extensions.galu.theorems.generalisation import rkhs_bound
    >>> X = np.random.default_rng(0).normal(size=(50, 20))
    >>> X /= np.linalg.norm(X, axis=1)[:, None]
    >>> found = rkhs_bound(X, X[:, 0], radius=2.0)
    >>> found.energy < 2, found.width > 10**7, round(found.rate, 1)
    (True, True, 10.2)
    """

    rate: float
    width: int
    radius: float
    energy: float
    norm: float
    samples: int
    delta: float


def rkhs_bound(X: ArrayLike, y: ArrayLike, radius: float, delta: float = 0.05) -> RKHSBound:
    """Theorem 3: what least squares on random gates loses on new samples, for labels y = f*(x) with ‖f*‖_κ ≤ M.

    It holds if the samples are independent and of length at most 1, |y| ≤ 1, λ(X) > 0, and y = f*(x) with
    probability 1. The last is an assumption on the distribution; what the samples can tell against it is checked: the
    least function through them has the norm √(yᵀκ⁻¹y), and a larger one than M is refused. y = ⟨v, x⟩ has M = 2‖v‖.
    For labels with noise, of any distribution, and with all constants, see `generalisation_bound`.

    Parameters
    ----------
    X : array, shape (m, d)
        Of length at most 1.
    y : array, shape (m,)
        From −1 to 1.
    radius : float
        M > 0.
    delta : float
        δ, strictly between 0 and 1.

    Raises
    ------
    InputError
        For samples longer than 1 or with λ(X) = 0 up to rounding, labels beyond ±1, and labels of no function in the
        ball.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), Theorem 3 and appendix C.

    Examples
    --------
    >>> from implicit_bias.extensions.galu.theorems.generalisation import generalisation_bound_a_priori
    >>> from implicit_bias.extensions.galu.theorems.generalisation import rkhs_bound
    >>> X = np.random.default_rng(0).normal(size=(300, 30))
    >>> X /= np.linalg.norm(X, axis=1)[:, None]
    >>> ours, theirs = generalisation_bound_a_priori(X, X[:, 0], label_bound=1.0), rkhs_bound(X, X[:, 0], radius=2.0)
    >>> ours.width < theirs.width
    True
    """
    X, radius, delta = as_floats(X, "X", 2), as_positive(radius, "radius"), as_probability(delta)
    y = as_column(y, len(X))
    check_range(np.array([radius]), "radius", 1e-100, 1e100)
    check_lengths(X)
    if np.abs(y).max() > 1:
        raise InputError(f"Theorem 3 is for labels from −1 to 1, and y reaches {np.abs(y).max():g}; divide them")
    m, eigenvalue = len(X), float(positive_kernel(X)[1].lower_bound)
    energy = math.sqrt(kernel_energy(X, y)[0])
    if energy > radius * (1 + 1e-9):
        raise InputError(f"no function of norm {radius:.6g} has these labels, which need {energy:.6g}; give a larger M")
    ratio, spread = m / eigenvalue / radius / radius + 1, float(np.linalg.norm(X, 2)) ** 2 / eigenvalue
    if not ratio < 1e40:
        raise InputError(f"radius {radius:.4g} asks for more than 1e80 gates; give a larger one")
    width = 32 * (ratio * spread) ** 2 * math.log(m / delta)
    square, root = 2 * radius**2, math.sqrt(2) * radius
    rate = (square * math.log(m) ** 3 + (square + root) * math.log(1 / delta)) / m
    return RKHSBound(rate, math.ceil(width), radius, energy, root, m, delta)
