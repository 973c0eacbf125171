"""Half-spaces: random ones, and those of a ReLU layer's own units."""

from typing import Any, Self

import numpy as np

from implicit_bias._utils.checks import Array, as_count, as_floats, as_seed, check_size
from implicit_bias._utils.stream import TorchStream
from implicit_bias.gates.thresholds import Cutoff, ThresholdGates, check_cutoff


class RandomHalfSpaces(ThresholdGates):
    """Random contexts of SVM-RC: H half-spaces g_h(x) = 1(⟨u_h, x⟩ > b_h) with orthonormal directions u_h.

    Parameters
    ----------
    units : int
        H, the number of half-spaces.
    seed : int
        Seed of torch's Mersenne twister; the directions are `torch.nn.init.orthogonal_` of (H, d), as published, which
        rounds them to float32: a share of 1e-7.
    cutoff : 'median', 'random', number or (low, high)
        As for `HyperplaneGates`; 'random' is N(0, 1/(16 d)), the distances to the origin that GLN contexts have.
    always_on : bool
        Add a last gate that is always 1, as the published code does and the paper does not say.

    Errors as for `HyperplaneGates`.

    Examples
    --------
    >>> from implicit_bias import RandomHalfSpaces, load_binary
    >>> X = load_binary("digits").X_pool
    >>> RandomHalfSpaces(units=2, seed=1).fit(X).transform(X).mean(axis=0).round(2).tolist()
    [0.5, 0.5]
    """

    made_of = ("units", "seed", "cutoff", "always_on")

    def __init__(self, units: int = 20, seed: int = 1, cutoff: Cutoff = "median", always_on: bool = False) -> None:
        self.units = units
        self.seed = seed
        self.cutoff = cutoff
        self.always_on = always_on

    def check(self) -> int:
        """H. Raises InputError for parameters that no inputs can mend, as `fit` does."""
        as_seed(self.seed)
        check_cutoff(self.cutoff)
        return as_count(self.units, "units")

    @property
    def groups(self) -> np.ndarray:  # type: ignore[override]
        """One group per gate, shape (H,) or, with the always-on gate, (H + 1,)."""
        return np.arange(self.units + bool(self.always_on))

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Draw the directions and fix the cutoffs on X (n, d)."""
        units = self.check()
        X, weight = self._first_inputs(X, sample_weight)
        check_size(units * X.shape[1], "the half-spaces")
        spread = 0.25 * X.shape[1] ** -0.5
        stream = TorchStream(self.seed)
        self.directions_ = _orthogonal(stream.normal(units * X.shape[1], 1.0).reshape(units, -1).astype(np.float64))
        drawn = stream.normal(units, spread).astype(np.float64)
        self.cutoffs_ = self._fit_cutoffs(X, drawn, spread, self.cutoff, weight)
        return self

    def transform(self, X: Any) -> Array:
        """Gate values 0 or 1, shape (n, H) or, with the always-on gate, (n, H + 1)."""
        values = (self._project(X) > self.cutoffs_).astype(np.float64)
        return np.hstack([values, np.ones((len(values), 1))]) if self.always_on else values


def _orthogonal(drawn: Array) -> Array:
    """The Q of a QR factorisation of normal numbers (m, d), or of their transpose, whose R has a positive diagonal."""
    wide = drawn.shape[0] < drawn.shape[1]
    Q, R = np.linalg.qr(drawn.T if wide else drawn)
    Q = Q * np.sign(np.diag(R))
    return Q.T if wide else Q


class ReLUGates(ThresholdGates):
    """The gates of a ReLU layer's own units: g_h(x) = 1(⟨w_h, x⟩ ≥ 0). The learned contexts of SVM-LC.

    On the hyperplane itself they are open; those of Lippl, Abbott & Chung, section 5, are closed there.

    Parameters
    ----------
    weights : array, shape (H, d)
        The layer's weights w_h as rows; the gates are fitted from the start.

    Examples
    --------
    >>> from implicit_bias import ReLUGates
    >>> ReLUGates([[1.0, -1.0], [0.0, 1.0]]).transform([[0.5, 1.0]]).tolist()
    [[0.0, 1.0]]
    """

    made_of = ("directions_",)

    def __init__(self, weights: Any) -> None:
        self.weights = weights
        self.fit()

    def fit(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> Self:
        """Read the weights; the inputs play no part."""
        self.directions_ = as_floats(self.weights, "weights", 2)
        self.cutoffs_ = np.zeros(len(self.directions_))
        self.groups = np.arange(len(self.directions_))
        self.n_features_in_ = self.directions_.shape[1]
        return self

    def transform(self, X: Any) -> Array:
        """Gate values 0 or 1, shape (n, H)."""
        return (self._project(X) >= self.cutoffs_).astype(np.float64)
