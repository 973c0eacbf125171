"""The loss of a GaLU network as a function of both its layers, (W, α): no spurious minima, strict saddles."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import Array, InputError, as_column, as_floats, as_numbers
from implicit_bias._utils.scaling import length
from implicit_bias.extensions.galu.closed_form import least_squares
from implicit_bias.features.gated import GatedFeatures, as_gated


@dataclass(frozen=True)
class Landscape:
    """Where a network (W, α) stands on L(W, α) = (1/m)‖Φ(α ∘ W) − y‖².

    Attributes
    ----------
    loss : float
        L.
    excess : float
        L minus its global minimum, that of the least squares problem in w̃_j = α_j w_j.
    gradient : float
        ‖∇L‖, in all of W and α.
    curvature : float
        An upper bound of the least eigenvalue of the Hessian of L. Where ∇L = 0 it is negative unless excess is 0.

    Examples
    --------
    >>> from implicit_bias import GatedFeatures
    >>> from implicit_bias.extensions.galu.theorems.landscape import landscape
    >>> found = landscape(GatedFeatures([[1.0, 0.0], [0.0, 1.0]]), [1.0, 2.0], [[0.0, 0.0]], [0.0])
    >>> found.excess, found.gradient, round(found.curvature, 4)
    (2.5, 0.0, -2.2361)
    """

    loss: float
    excess: float
    gradient: float
    curvature: float


def landscape(features: GatedFeatures, y: ArrayLike, weights: ArrayLike, readout: ArrayLike) -> Landscape:
    """The squared loss of N(x) = Σ_j α_j g_j(x) ⟨w_j, x⟩ at (W, α): every stationary point is a minimum or a saddle.

    With G_j = ∂/∂w̃_j of the convex loss in w̃_j = α_j w_j: ∂L/∂w_j = α_j G_j and ∂L/∂α_j = ⟨w_j, G_j⟩. At a
    stationary point that is not a global minimum some G_j ≠ 0, hence α_j = 0 and ⟨w_j, G_j⟩ = 0; along
    δw_j = −tG_j/‖G_j‖, δα_j = s the second derivative is 2·(−ts‖G_j‖) + s²c, c = w_jᵀH_jj w_j, whose least value
    for t² + s² = 1 is (c − √(c² + 4‖G_j‖²))/2 < 0. At other points `curvature` is the least eigenvalue over the
    same planes.

    Parameters
    ----------
    features : GatedFeatures
        Φ of m samples.
    y : array, shape (m,)
    weights : array, shape (k, d)
        W.
    readout : array, shape (k,)
        α; divided by √k for normalised networks.

    Raises
    ------
    InputError
        As for `least_squares`, and for weights that are not finite, of other shapes, or so large that a figure is not
        finite.

    References
    ----------
    Fiat, Malach & Shalev-Shwartz (2019), section 3, by a theorem on linear networks; the proof above is ours and needs
    of the loss only that it is convex and twice differentiable in w̃.

    Examples
    --------
    >>> from implicit_bias import GatedFeatures
    >>> from implicit_bias.extensions.galu import least_squares
    >>> from implicit_bias.extensions.galu.theorems.landscape import landscape
    >>> features, y = GatedFeatures([[1.0, 2.0], [3.0, 1.0], [0.0, 1.0]]), [1.0, 0.0, 2.0]
    >>> found = landscape(features, y, least_squares(features, y).weights / 2, [2.0])
    >>> round(found.excess, 12), round(found.gradient, 9)
    (0.0, 0.0)
    """
    features = as_gated(features)
    y = as_column(y, features.n)
    W = as_numbers(weights, (features.k, features.d), "weights")
    alpha = as_floats(readout, "readout", 1)
    if len(alpha) != features.k:
        raise InputError(f"readout must have {features.k} numbers, one per gate, not {len(alpha)}")
    if not np.isfinite(W).all():
        raise InputError("the weights hold NaN or infinity; give finite ones")
    least = least_squares(features, y).loss
    with np.errstate(over="ignore", invalid="ignore"):
        residual = features @ (alpha[:, None] * W) - y
        slopes = 2 / features.n * features.adjoint(residual)
        gradient = np.concatenate([(alpha[:, None] * slopes).ravel(), np.sum(W * slopes, axis=1)])
        loss = float(np.mean(residual**2))
        size, curvature = float(length(gradient)), _curvature(features, slopes, W, alpha)
    if not np.isfinite([loss, size, curvature]).all():
        raise InputError("loss, gradient or curvature leave floating point; scale weights, readout and labels down")
    return Landscape(loss, max(0.0, loss - least), size, curvature)


def _curvature(features: GatedFeatures, slopes: Array, W: Array, alpha: Array) -> float:
    """The least eigenvalue of the Hessian on the planes of (G_j/‖G_j‖, 0) and (0, 1), over j."""
    sizes = length(slopes, axis=1)
    ways = slopes / np.where(sizes > 0, sizes, 1.0)[:, None]
    outputs = [features.gate_values * (features.X @ A.T) for A in (alpha[:, None] * ways, W)]
    t, s = (2 / features.n * np.sum(output**2, axis=0) for output in outputs)
    both = 2 / features.n * np.sum(outputs[0] * outputs[1], axis=0) + sizes
    return float(np.min((t + s - np.hypot(t - s, 2 * both)) / 2))
