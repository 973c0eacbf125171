"""Vector outputs on one layer of gated linear units, by alternate convex search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from implicit_bias._utils.blocks import Cholesky
from implicit_bias._utils.checks import Array, as_count, as_fraction, as_seed, as_targets, check_callable, check_range
from implicit_bias._utils.floats import length
from implicit_bias._utils.limits import Deadline
from implicit_bias.extensions.galu.closed_form import check_open
from implicit_bias.features.gated import GatedFeatures, as_gated

#: Added to the diagonal of the normal matrix, relative to its mean: selects the smallest step if several are optimal.
SHIFT = 1e-11


@dataclass(frozen=True, eq=False)
class Alternation:
    """Result of `alternate_convex_search`: A as `hidden` (k, d) and B as `readout` (q, k), with ‖a_j‖ = ‖b_j‖.

    `loss` is (1/n)‖(G ∘ XAᵀ)Bᵀ − Y‖². `history` contains the losses at the start and after each half step, which never
    rise. `converged` is True if the last step lowered the loss by at most the fraction `tol`; otherwise `steps` or
    Ctrl-C ended the search.
    """

    hidden: Array = field(repr=False)
    readout: Array = field(repr=False)
    loss: float
    history: Array = field(repr=False)
    converged: bool
    seconds: float

    def effective_weights(self) -> Array:
        """Return W_cj = B_cj a_j, shape (q, k, d); output c is Φ W_c."""
        return self.readout[:, :, None] * self.hidden


def alternate_convex_search(
    features: GatedFeatures,
    Y: ArrayLike,
    *,
    steps: int = 1000,
    tol: float = 1e-4,
    seed: int = 1,
    progress: Callable[[int, float], None] | None = None,
) -> Alternation:
    """Minimise (1/n)‖(G ∘ XAᵀ)Bᵀ − Y‖² alternately over A (k, d) and B (q, k).

    Each half step solves a convex problem exactly. For A the normal matrix is (BᵀB ⊗ 11ᵀ) ∘ ΦᵀΦ (kd × kd), where ΦᵀΦ is
    formed once. For B it is least squares on the hidden activations G ∘ XAᵀ (n × k). The loss never rises. The joint
    problem is not convex, so the result depends on the seed. After Ctrl-C the last A and B are returned. Memory:
    16(kd)² bytes. Source: Fiat, Malach & Shalev-Shwartz, first version, section 5; Gorski, Pfeuffer & Klamroth (2007).

    Parameters
    ----------
    features : GatedFeatures
        Inputs X (n, d) and gate values G (n, k).
    Y : array, shape (n, q), or (n,)
    steps : int
        Maximum number of steps; each consists of a half step for A and one for B.
    tol : float
        The search ends after a step that lowers the loss by at most this fraction. More steps may lower it by some
        percent; with 0 the search takes all `steps`, unless the loss stays the same.
    seed : int
        Seed of NumPy's PCG64 for the initial A ~ N(0, 1/d) and B ~ N(0, 1/k).
    progress : callable(step, loss), optional
        Called after each step.

    Raises
    ------
    InputError
        If targets do not fit the features, all features are zero, or a value is out of range.

    Examples
    --------
    >>> from implicit_bias import GatedFeatures
    >>> from implicit_bias.extensions.galu import alternate_convex_search, least_squares
    >>> rng = np.random.default_rng(0)
    >>> features = GatedFeatures(rng.normal(size=(50, 4)), rng.integers(0, 2, size=(50, 6)))
    >>> y = rng.normal(size=50)  # with one output the problem is least squares
    >>> abs(alternate_convex_search(features, y).loss - least_squares(features, y).loss) < 1e-6
    True
    >>> alternate_convex_search(features, rng.normal(size=(50, 3)), steps=20).effective_weights().shape
    (3, 6, 4)
    """
    deadline = Deadline()
    check_open(as_gated(features))
    check_range(features.row_norms().max(keepdims=True), "the features g(x) ⊗ x", 1e-60, 1e60)
    search = _AlternatingSearch(features, as_targets(Y, features.n), np.random.default_rng(as_seed(seed)))
    as_count(steps, "steps")
    tol = as_fraction(tol, "tol")
    check_callable(progress, "progress")
    history, converged = [search.loss()], False
    with deadline:
        for step in range(1, steps + 1):
            before = history[-1]
            for improve in (search.improve_hidden, search.improve_readout):
                improve(history[-1])
                history.append(min(search.loss(), history[-1]))
            if progress is not None:
                deadline.call(progress, step, history[-1])
            if deadline.passed():
                break
            converged = before - history[-1] <= tol * before
            if converged:
                break
    return Alternation(search.A, search.B, search.loss(), np.array(history), converged, deadline.seconds)


class _AlternatingSearch:
    """Alternating minimisation over the layer A (k, d) and the readout B (q, k), which start as Gaussian numbers."""

    def __init__(self, features: GatedFeatures, Y: Array, rng: np.random.Generator) -> None:
        self.features, self.Y = features, Y
        k, d, q = features.k, features.d, Y.shape[1]
        self.A, self.B = rng.normal(size=(k, d)) / d**0.5, rng.normal(size=(q, k)) / k**0.5
        self.gram = features.weight_gram()

    def activations(self) -> Array:
        """Return the hidden activations G ∘ XAᵀ (n, k)."""
        return self.features.gate_values * (self.features.X @ self.A.T)

    def residual(self) -> Array:
        """Return Y − (G ∘ XAᵀ)Bᵀ (n, q)."""
        return self.Y - self.activations() @ self.B.T

    def loss(self) -> float:
        """Return (1/n)‖residual‖², summed over outputs."""
        return float(length(self.residual())) ** 2 / self.features.n

    def improve_hidden(self, loss: float) -> None:
        """Minimise over A; keep the old A if that fails, or if rounding would raise the current `loss`."""
        k, d = self.A.shape
        slopes = (self.features.gate_values * (self.residual() @ self.B)).T @ self.features.X
        couplings = self.B.T @ self.B
        normal = (self.gram.reshape(k, d, k, d) * couplings[:, None, :, None]).reshape(k * d, k * d)
        normal[np.diag_indices(k * d)] += SHIFT * max(np.trace(normal) / (k * d), np.finfo(float).tiny)
        try:
            factor = Cholesky(normal)
        except np.linalg.LinAlgError:
            return
        self._take(loss, self.A + factor.solve(slopes.ravel()).reshape(k, d), self.B)

    def improve_readout(self, loss: float) -> None:
        """Minimise over B; keep the old B if rounding would raise the loss. Then rescale to ‖a_j‖ = ‖b_j‖."""
        change = scipy.linalg.lstsq(self.activations(), self.residual(), check_finite=False)[0]
        self._take(loss, self.A, self.B + change.T)
        sizes = np.linalg.norm(self.A, axis=1), np.linalg.norm(self.B, axis=0)
        ratio = np.where((sizes[0] > 0) & (sizes[1] > 0), sizes[1] / np.where(sizes[0] > 0, sizes[0], 1.0), 1.0) ** 0.5
        # Unconditional, because rescaling leaves the network unchanged and its loss up to rounding.
        self.A, self.B = self.A * ratio[:, None], self.B / ratio

    def _take(self, loss: float, A: Array, B: Array) -> None:
        """Set A and B, unless their loss would exceed `loss`."""
        before = self.A, self.B
        self.A, self.B = A, B
        if not self.loss() <= loss:
            self.A, self.B = before
