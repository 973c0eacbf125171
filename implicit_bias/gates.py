"""Gates: contexts and half-spaces that turn inputs X (n, d) into gate values (n, k).

Every class follows scikit-learn's transformers: `fit(X)`, `transform(X)`, `get_params`, `clone`. A fitted gate object
called on inputs gives their features: `gates(X) @ W`.
"""

from __future__ import annotations

import numbers
from typing import Any, Self, cast

import numpy as np
import torch
from scipy.special import ndtr
from sklearn.base import BaseEstimator, TransformerMixin, clone

from implicit_bias.checks import (
    Array,
    InputError,
    as_count,
    as_floats,
    as_seed,
    check_size,
    context_bits,
    is_finite,
    shown,
)
from implicit_bias.features import GatedFeatures
from implicit_bias.validation import UnfittedError, as_weights, validated

#: Hyperplanes whose projections of all inputs are held at once.
FIT_AT_ONCE = 64

Cutoff = str | float | tuple[float, float]


class Gates(TransformerMixin, BaseEstimator):
    """Base of all gates. A subclass has `fit`, `transform` and, once fitted, `groups` (k,): each gate's hidden unit.

    Setting `n_features_in_` in `fit`, or what `fitted_last` names, is what marks gates as fitted.

    >>> from implicit_bias import Gates, HyperplaneGates
    >>> issubclass(HyperplaneGates, Gates)
    True
    """

    groups: np.ndarray
    #: What `fit` sets last, which marks gates as fitted.
    fitted_last = "n_features_in_"

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fix everything that depends on the inputs X (n, d); a sample of weight 2 counts as two."""
        raise InputError(f"{type(self).__name__} has no method fit(X), which gates need; use HyperplaneGates(…), say")

    def transform(self, X: Any) -> Array:
        """Gate values (n, k) of inputs X (n, d)."""
        raise InputError(f"{type(self).__name__} has no method transform(X), which gates need")

    @property
    def is_fitted(self) -> bool:
        """Whether `fit` has run."""
        return hasattr(self, self.fitted_last)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, as scikit-learn does; fitted gates are unfitted by it, for they no longer describe them."""
        super().set_params(**params)
        if params:
            self.__dict__.pop(self.fitted_last, None)
        return self

    def fitted(self, X: Any, sample_weight: Any = None) -> Self:
        """These gates if they are fitted, else a copy of them fitted on X."""
        return self if self.is_fitted else clone(self).fit(X, sample_weight=sample_weight)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the gates, shape (k,), for data frames: the class in lower case and a number."""
        if not self.is_fitted:
            raise UnfittedError(f"these {type(self).__name__} are not fitted; call fit(X) first")
        name = type(self).__name__.lower()
        return np.array([f"{name}{j}" for j in range(len(self.groups))], dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return self.is_fitted

    def __call__(self, X: Any) -> GatedFeatures:
        """The gated linear features of inputs X (n, d)."""
        return GatedFeatures(X, self.transform(X))

    def _first_inputs(self, X: Any, sample_weight: Any) -> tuple[Array, Array | None]:
        """The inputs of `fit` that have weight, and their weights; the number and names of features are kept.

        Whatever was fitted before no longer counts, so that a fit that fails leaves nothing half fitted.
        """
        self.__dict__.pop(self.fitted_last, None)
        inputs: Array = validated(self, X, reset=True)
        if sample_weight is None:
            return inputs, None
        weight = as_weights(sample_weight, inputs)
        return inputs[weight > 0], weight[weight > 0]

    def _fitted_inputs(self, X: Any) -> Array:
        if not self.is_fitted:
            raise UnfittedError(f"these {type(self).__name__} are not fitted; call fit(X) first")
        inputs: Array = validated(self, X, reset=False)
        return inputs


class ConstantGate(Gates):
    """One gate that is always 1: Φ(x) = x, the linear model.

    >>> from implicit_bias import ConstantGate
    >>> ConstantGate().fit_transform([[0.5, 1.0], [2.0, 1.0]]).tolist()
    [[1.0], [1.0]]
    """

    groups = np.zeros(1, dtype=np.int64)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Store the number of inputs."""
        self._first_inputs(X, sample_weight)
        return self

    def transform(self, X: Any) -> Array:
        """Ones, shape (n, 1)."""
        return np.ones((len(self._fitted_inputs(X)), 1))


class ThresholdGates(Gates):
    """Base of the gates made of hyperplanes: `directions_` (p, d) and `cutoffs_` (p,), compared as ⟨v, x⟩ > cutoff.

    >>> from implicit_bias.gates import ThresholdGates
    >>> from implicit_bias import HyperplaneGates, RandomHalfSpaces, ReLUGates
    >>> all(issubclass(g, ThresholdGates) for g in (HyperplaneGates, RandomHalfSpaces, ReLUGates))
    True
    """

    directions_: Array
    cutoffs_: Array
    fitted_last = "cutoffs_"

    def _project(self, X: Any) -> Array:
        return self._fitted_inputs(X) @ self.directions_.T

    def _fit_cutoffs(self, X: Array, random: Array, spread: float, cutoff: Cutoff, weight: Array | None) -> Array:
        """The cutoffs (p,) that `cutoff` asks for; `random` are the drawn ones, N(0, spread²)."""
        if cutoff == "random":
            return random
        if isinstance(cutoff, numbers.Real):
            return np.full(len(random), float(cutoff))
        cutoffs = np.empty(len(random))
        for first in range(0, len(random), FIT_AT_ONCE):
            block = slice(first, first + FIT_AT_ONCE)
            cutoffs[block] = self._divide(X @ self.directions_[block].T, random[block] / spread, cutoff, weight)
        return cutoffs

    @staticmethod
    def _divide(projections: Array, levels: Array, cutoff: Cutoff, weight: Array | None) -> Array:
        """The median, or the quantile at a normally distributed level, of each projection (N, p)."""
        size = np.abs(projections).max(axis=0, initial=0.0)
        constant = np.ptp(projections, axis=0) <= 1e-12 * size
        if constant.any():
            raise InputError(
                f"a hyperplane's projections are the same for all inputs (n_samples = {len(projections)}), so "
                f"cutoff={cutoff!r} cannot divide them; give more varied inputs, or cutoff='random' or a number"
            )
        # Raised at rounding level: a sample that is the median or quantile itself is closed however it is computed.
        if cutoff == "median" and weight is None:
            return np.asarray(np.median(projections, axis=0) + 1e-12 * size)
        low, high = (0.5, 0.5) if cutoff == "median" else cast(tuple[float, float], cutoff)
        shares = zip(projections.T, low + (high - low) * ndtr(levels), strict=True)
        return np.array([quantile(p, share, weight) for p, share in shares]) + 1e-12 * size


def quantile(values: Array, share: float, weight: Array | None = None) -> float:
    """The least of the values (N,) that `share` of all weight does not exceed; midway to the next where it is exact.

    The inverse of the distribution function, averaged at its jumps: the median for a half, and the same for weights 2
    as for two copies.

    >>> import numpy as np
    >>> from implicit_bias.gates import quantile
    >>> quantile(np.array([1.0, 2.0, 4.0]), 0.5, np.array([1.0, 1.0, 2.0])), quantile(np.array([1.0, 1.0, 4.0]), 0.5)
    (3.0, 1.0)
    """
    if weight is None:
        return float(np.quantile(values, share, method="averaged_inverted_cdf"))
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    aim, slack = share * reached[-1], 1e-12 * reached[-1]
    first, last = np.searchsorted(reached, [aim - slack, aim + slack])
    return float(values[order[[first, min(last, len(order) - 1)]]].mean())


def check_cutoff(cutoff: Any) -> None:
    """Refuse a cutoff that is not 'median', 'random', a finite number or a range of quantile levels."""
    if isinstance(cutoff, str) and cutoff in ("median", "random"):
        return
    if isinstance(cutoff, numbers.Real) and not isinstance(cutoff, bool) and is_finite(cutoff):
        return
    pair = isinstance(cutoff, (tuple, list)) and len(cutoff) == 2 and all(isinstance(q, numbers.Real) for q in cutoff)
    if pair and 0 <= cutoff[0] <= cutoff[1] <= 1:
        return
    raise InputError(
        "cutoff must be 'median', 'random', a finite number or a range of quantile levels such as (0.25, 0.75), "
        f"not {shown(cutoff)}"
    )


def default_linear_(weight: torch.Tensor, generator: torch.Generator) -> None:
    """Draw what `torch.nn.Linear` draws for a weight or bias: U(−1/√d, 1/√d)."""
    bound = weight.shape[-1] ** -0.5
    weight.uniform_(-bound, bound, generator=generator)


def draw_hyperplanes(inputs: int, count: int, seed: int) -> tuple[Array, Array, torch.Generator]:
    """The published stream of a seed: directions (count, inputs), cutoffs (count,), and the generator behind them.

    torch's Mersenne twister seeded with `seed`: the default initialisation of a linear layer (drawn and discarded),
    directions N(0, 36²) and cutoffs N(0, 9²), all in float32. The network's weights continue the stream
    (Lippl, Abbott & Chung, published code).
    """
    check_size(count * inputs, "the hyperplanes")
    generator = torch.Generator().manual_seed(as_seed(seed))
    directions = torch.empty(count, inputs)
    default_linear_(directions, generator)
    directions.normal_(0, 36, generator=generator)
    cutoffs = torch.empty(count).normal_(0, 9, generator=generator)
    return directions.numpy().astype(np.float64), cutoffs.numpy().astype(np.float64), generator


class HyperplaneGates(ThresholdGates):
    """The contexts of a gated linear network: H units, each with b hyperplanes and C = 2^b contexts, one-hot.

        c_h(x) = bits 1(⟨v_{h,1}, x⟩ > b_{h,1}) … 1(⟨v_{h,b}, x⟩ > b_{h,b}), most significant first
        g_{hC+c}(x) = 1(c_h(x) = c)

    Parameters
    ----------
    units : int
        H, the number of hidden units.
    contexts : int
        C = 2^b contexts a unit; 1 gives one gate that is always open.
    seed : int
        Seed of torch's Mersenne twister. The stream is the published one (`draw_hyperplanes`), so that on MNIST the
        contexts equal the paper's bit for bit.
    cutoff : 'median', 'random', number or (low, high)
        'median': the median of each projection over the X of `fit`; (low, high): its quantile at a random level,
        uniform between the two; both raised by 1e-12 of the largest projection. 'random': N(0, 9²). A number: that
        cutoff for all.

    Attributes
    ----------
    directions_ : array, shape (H·b, d)
        The v as rows, unit-major.
    cutoffs_ : array, shape (H·b,)
        The b.
    groups : array, shape (H·C,)
        The unit of each gate.

    Raises
    ------
    InputError
        From `fit`: for contexts that are no power of two, an unknown cutoff, or data whose projections are constant.

    Examples
    --------
    >>> from implicit_bias import HyperplaneGates, load_binary
    >>> gates = HyperplaneGates(units=3, contexts=4, seed=1).fit(load_binary("digits").X_pool)
    >>> gates.groups.tolist()
    [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]
    >>> gates.transform(load_binary("digits").X_train).sum(axis=1).max()
    np.float64(3.0)
    """

    def __init__(self, units: int = 10, contexts: int = 2, seed: int = 1, cutoff: Cutoff = "median") -> None:
        self.units = units
        self.contexts = contexts
        self.seed = seed
        self.cutoff = cutoff

    def check(self) -> tuple[int, int]:
        """H and the b of C = 2^b. Raises InputError for parameters that no inputs can mend, as `fit` does."""
        as_seed(self.seed)
        check_cutoff(self.cutoff)
        return as_count(self.units, "units"), context_bits(self.contexts)

    @classmethod
    def from_hyperplanes(cls, directions: Any, cutoffs: Any, contexts: int = 2) -> Self:
        """Fitted gates with given hyperplanes: directions (H·b, d) unit-major and cutoffs (H·b,).

        >>> from implicit_bias import HyperplaneGates
        >>> gates = HyperplaneGates.from_hyperplanes([[1.0, 0.0]], [0.5])
        >>> gates.transform([[0.0, 1.0], [1.0, 1.0]]).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        bits = context_bits(contexts)
        directions = as_floats(directions, "directions", 2)
        cutoffs = as_floats(cutoffs, "cutoffs", 1)
        if bits == 0 or len(directions) % bits or cutoffs.shape != (len(directions),):
            raise InputError(
                f"{contexts} contexts need {bits} hyperplanes a unit and one cutoff each; "
                f"got directions {directions.shape} and cutoffs {cutoffs.shape}"
            )
        gates = cls(units=len(directions) // bits, contexts=contexts)
        return gates.set_hyperplanes(directions, cutoffs)

    def set_hyperplanes(self, directions: Array, cutoffs: Array) -> Self:
        """Take the hyperplanes as they are; afterwards the gates count as fitted."""
        self.directions_, self.cutoffs_ = directions, cutoffs
        self.n_features_in_ = directions.shape[1]
        return self

    @property
    def groups(self) -> np.ndarray:  # type: ignore[override]
        """The unit of each gate, shape (H·C,)."""
        return np.repeat(np.arange(self.units), self.contexts)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Draw the hyperplanes and fix the cutoffs on X (n, d): the published code uses all inputs (`X_pool`)."""
        units, bits = self.check()
        X, weight = self._first_inputs(X, sample_weight)
        self.directions_, random, _ = draw_hyperplanes(X.shape[1], units * bits, self.seed)
        self.cutoffs_ = self._fit_cutoffs(X, random, 9.0, self.cutoff, weight)
        return self

    def contexts_of(self, X: Any) -> np.ndarray:
        """The context c_h(x) of every unit, whole numbers of shape (n, H)."""
        bits = context_bits(self.contexts)
        powers = 2 ** np.arange(bits)[::-1]
        projections = self._project(X)
        check_size(len(projections) * int(self.units), "the contexts")
        opened = (projections > self.cutoffs_).reshape(len(projections), self.units, bits)
        result: np.ndarray = opened.astype(np.int64) @ powers
        return result

    def transform(self, X: Any) -> Array:
        """One-hot gate values, shape (n, H·C): column h·C + c is 1(c_h(x) = c)."""
        context = self.contexts_of(X)
        check_size(context.size * int(self.contexts), "the one-hot gates")
        values = np.zeros((len(context), self.units, self.contexts))
        np.put_along_axis(values, context[:, :, None], 1.0, axis=2)
        return values.reshape(len(context), -1)


class RandomHalfSpaces(ThresholdGates):
    """Random contexts of SVM-RC: H half-spaces g_h(x) = 1(⟨u_h, x⟩ > b_h) with orthonormal directions u_h.

    Parameters
    ----------
    units : int
        H, the number of half-spaces.
    seed : int
        Seed of torch's Mersenne twister; the directions are `torch.nn.init.orthogonal_` of (H, d), as published.
    cutoff : 'median', 'random', number or (low, high)
        As for `HyperplaneGates`; 'random' is N(0, 1/(16 d)), the distances to the origin that GLN contexts have.
    always_on : bool
        Add a last gate that is always 1, as the published code does and the paper does not say.

    Raises
    ------
    InputError
        As for `HyperplaneGates`.

    Examples
    --------
    >>> from implicit_bias import RandomHalfSpaces, load_binary
    >>> X = load_binary("digits").X_pool
    >>> RandomHalfSpaces(units=2, seed=1).fit(X).transform(X).mean(axis=0).round(2).tolist()
    [0.5, 0.5]
    """

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
        """One group a gate, shape (H,) or, with the always-on gate, (H + 1,)."""
        return np.arange(self.units + bool(self.always_on))

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Draw the directions and fix the cutoffs on X (n, d)."""
        units = self.check()
        X, weight = self._first_inputs(X, sample_weight)
        check_size(units * X.shape[1], "the half-spaces")
        generator = torch.Generator().manual_seed(as_seed(self.seed))
        directions = torch.nn.init.orthogonal_(torch.empty(units, X.shape[1]), generator=generator)
        spread = 0.25 * X.shape[1] ** -0.5
        random = torch.empty(units).normal_(0, spread, generator=generator)
        self.directions_ = directions.numpy().astype(np.float64)
        drawn = random.numpy().astype(np.float64)
        self.cutoffs_ = self._fit_cutoffs(X, drawn, spread, self.cutoff, weight)
        return self

    def transform(self, X: Any) -> Array:
        """Gate values 0 or 1, shape (n, H) or, with the always-on gate, (n, H + 1)."""
        values = (self._project(X) > self.cutoffs_).astype(np.float64)
        return np.hstack([values, np.ones((len(values), 1))]) if self.always_on else values


class ReLUGates(ThresholdGates):
    """The gates of a ReLU layer's own units: g_h(x) = 1(⟨w_h, x⟩ ≥ 0). The learned contexts of SVM-LC.

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

    def __init__(self, weights: Any) -> None:
        self.weights = weights
        self.fit()

    @property
    def groups(self) -> np.ndarray:  # type: ignore[override]
        """One group a unit, shape (H,)."""
        return np.arange(len(self.directions_))

    def fit(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> Self:
        """Read the weights; the inputs play no part."""
        self.directions_ = as_floats(self.weights, "weights", 2)
        self.cutoffs_ = np.zeros(len(self.directions_))
        self.n_features_in_ = self.directions_.shape[1]
        return self

    def transform(self, X: Any) -> Array:
        """Gate values 0 or 1, shape (n, H)."""
        return (self._project(X) >= self.cutoffs_).astype(np.float64)
