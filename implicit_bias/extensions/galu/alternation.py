"""Vector outputs over one layer of gated units, by alternate convex search."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import Array, as_count, as_fraction, as_seed, as_targets, check_callable, check_range
from implicit_bias._utils.scaling import length
from implicit_bias._utils.threads import Interruptible
from implicit_bias.extensions.galu.closed_form import check_open
from implicit_bias.features.gated import GatedFeatures, as_gated

#: Added to a layer's normal matrix, against its mean diagonal: a layer that is not unique moves least.
SHIFT = 1e-11


@dataclass(frozen=True, eq=False)
class Alternation:
    """A layer A of k units, `hidden` (k, d), and a readout B of q outputs, `readout` (q, k); unit j has ‖a_j‖ = ‖b_j‖.

    `loss` is (1/n)‖(G ∘ XAᵀ)Bᵀ − Y‖², and `history` the loss at the start and after every half step, which never rises.
    `converged` is True if a whole step lowered the loss by less than `tol` of itself; else the steps ended, or Ctrl-C
    came.
    """

    hidden: Array = field(repr=False)
    readout: Array = field(repr=False)
    loss: float
    history: Array = field(repr=False)
    converged: bool
    seconds: float

    def effective_weights(self) -> Array:
        """W_cj = B_cj a_j, shape (q, k, d): output c is Φ W_c."""
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
    """Lower (1/n)‖(G ∘ XAᵀ)Bᵀ − Y‖² over A for fixed B and over B for fixed A, in turn.

    Each half step is a convex problem, solved exactly: for A with the normal matrix (BᵀB ⊗ 11ᵀ) ∘ ΦᵀΦ (kd × kd, of
    which ΦᵀΦ is formed once), for B on the hidden activations G ∘ XAᵀ (n × k). The loss never rises; the problem as a
    whole is not convex, so that another seed may end elsewhere. Memory 16·(kd)² bytes.

    Raises InputError for targets that do not fit the features, or values out of range.

    Parameters
    ----------
    features : GatedFeatures
        Inputs X (n, d) and gate values G (n, k).
    Y : array, shape (n, q), or (n,)
    steps : int
        Most steps; each is one half step for A and one for B.
    tol : float
        Relative fall of the loss, in a step, below which the search ends.
    seed : int
        Of the first A and B, N(0, 1/d) and N(0, 1/k); NumPy's PCG64.
    progress : callable(step, loss), optional

    References
    ----------
    Fiat, Malach & Shalev-Shwartz, first version, on outputs in R^{d'}; Gorski, Pfeuffer & Klamroth (2007).

    Examples
    --------
    >>> from implicit_bias import GatedFeatures
    >>> from implicit_bias.extensions.galu import alternate_convex_search, least_squares
    >>> rng = np.random.default_rng(0)
    >>> features = GatedFeatures(rng.normal(size=(50, 4)), rng.integers(0, 2, size=(50, 6)))
    >>> y = rng.normal(size=50)  # for one output the problem is least squares
    >>> abs(alternate_convex_search(features, y).loss - least_squares(features, y).loss) < 1e-6
    True
    >>> alternate_convex_search(features, rng.normal(size=(50, 3)), steps=20).effective_weights().shape
    (3, 6, 4)
    """
    start = time.perf_counter()
    check_open(as_gated(features))
    check_range(features.row_norms().max(keepdims=True), "the features g(x) ⊗ x", 1e-60, 1e60)
    search = _Search(features, as_targets(Y, features.n), np.random.default_rng(as_seed(seed)))
    as_count(steps, "steps")
    tol = as_fraction(tol, "tol")
    check_callable(progress, "progress")
    history, converged = [search.loss()], False
    with Interruptible():
        for step in range(1, steps + 1):
            before = history[-1]
            for half in (search.better_hidden, search.better_readout):
                half(history[-1])
                history.append(min(search.loss(), history[-1]))
            if progress is not None:
                progress(step, history[-1])
            converged = before - history[-1] <= tol * before
            if converged:
                break
    loss = search.loss()
    seconds = time.perf_counter() - start
    return Alternation(search.A, search.B, loss, np.array(history), converged, seconds)


class _Search:
    """The present layer A (k, d) and readout B (q, k), and how each is improved."""

    def __init__(self, features: GatedFeatures, Y: Array, rng: np.random.Generator) -> None:
        self.features, self.Y = features, Y
        k, d, q = features.k, features.d, Y.shape[1]
        self.A, self.B = rng.normal(size=(k, d)) / d**0.5, rng.normal(size=(q, k)) / k**0.5
        self.gram = features.weight_gram()

    def activations(self) -> Array:
        return self.features.gate_values * (self.features.X @ self.A.T)

    def missing(self) -> Array:
        return self.Y - self.activations() @ self.B.T

    def loss(self) -> float:
        return float(length(self.missing())) ** 2 / self.features.n

    def better_hidden(self, loss: float) -> None:
        """The best A for B, taken unless rounding makes it worse."""
        k, d = self.A.shape
        slopes = (self.features.gate_values * (self.missing() @ self.B)).T @ self.features.X
        couplings = self.B.T @ self.B
        normal = (self.gram.reshape(k, d, k, d) * couplings[:, None, :, None]).reshape(k * d, k * d)
        normal[np.diag_indices(k * d)] += SHIFT * max(np.trace(normal) / (k * d), np.finfo(float).tiny)
        try:
            factor = scipy.linalg.cho_factor(normal, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            return
        change = scipy.linalg.cho_solve(factor, slopes.ravel(), check_finite=False)
        self._take(loss, self.A + change.reshape(k, d), self.B)

    def better_readout(self, loss: float) -> None:
        """The best B for A, taken unless rounding makes it worse; then ‖a_j‖ = ‖b_j‖."""
        change = scipy.linalg.lstsq(self.activations(), self.missing(), check_finite=False)[0]
        self._take(loss, self.A, self.B + change.T)
        sizes = np.linalg.norm(self.A, axis=1), np.linalg.norm(self.B, axis=0)
        even = np.where((sizes[0] > 0) & (sizes[1] > 0), sizes[1] / np.where(sizes[0] > 0, sizes[0], 1.0), 1.0) ** 0.5
        # The same network: its loss changes by rounding alone, which must not keep it as it is.
        self.A, self.B = self.A * even[:, None], self.B / even

    def _take(self, loss: float, A: Array, B: Array) -> None:
        before = self.A, self.B
        self.A, self.B = A, B
        if not self.loss() <= loss:
            self.A, self.B = before
