"""Gates defined by hyperplanes: contexts of gated linear networks, random half-spaces, and units of a ReLU layer.

The random numbers are those of the published code.
"""

from __future__ import annotations

import math
import numbers
from typing import Any, Self, cast

import numpy as np
from scipy.special import ndtr

from implicit_bias._utils import checks
from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import Array, InputError, shown
from implicit_bias._utils.stream import TorchStream
from implicit_bias.features.chunked import ChunkedInputs
from implicit_bias.features.subsets import SubsetFeatures
from implicit_bias.gates.base import ContextGates, Gates

#: Standard deviation of the directions in the published code.
DIRECTION_STD = 36.0
#: Standard deviation of the cutoffs in the published code.
CUTOFF_STD = 9.0
#: Number of hyperplanes whose projections of all inputs are in memory at once.
FIT_BLOCK = 64

Cutoff = str | float | tuple[float, float]


class ThresholdGates(Gates):
    """Base class of gates that compare projections ⟨v_j, x⟩ with cutoffs b_j.

    Attributes
    ----------
    directions_ : array, shape (p, d)
        The v_j as rows.
    cutoffs_ : array, shape (p,)
        The b_j.
    """

    units: int
    seed: int
    cutoff: Cutoff
    directions_: Array
    cutoffs_: Array
    learned: tuple[str, ...] = ("n_features_in_", "directions_", "cutoffs_")

    def restore(self, **learned: Any) -> Self:
        """Set the results of `fit`; raise InputError unless directions and cutoffs have shapes (p, d) and (p,)."""
        planes, inputs = np.size(learned["cutoffs_"]), int(learned["n_features_in_"])
        checks.as_numbers(learned["cutoffs_"], (planes,), "the gates' cutoffs")
        checks.as_numbers(learned["directions_"], (planes, inputs), "the gates' directions")
        return super().restore(**learned)

    def _first_inputs(self, X: Any, sample_weight: Any) -> tuple[Any, Array | None]:
        # ChunkedInputs are not loaded, because only their projections are needed.
        if not isinstance(X, ChunkedInputs):
            return super()._first_inputs(X, sample_weight)
        if sample_weight is not None:
            raise InputError("fit the gates on ChunkedInputs without sample_weight, or on an array of some samples")
        self.__dict__.pop(self.learned[-1], None)
        self.n_features_in_ = X.shape[1]
        return X, None

    def _draw(self, inputs: int) -> tuple[Array, Array, float]:
        """Return random directions (p, d), random cutoffs (p,) from N(0, s²), and s, for d = `inputs`."""
        raise NotImplementedError(f"{type(self).__name__} must define _draw(inputs) or override fit")

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Draw the hyperplanes and set the cutoffs on X (n, d); the published code uses all inputs (`X_pool`)."""
        self.check()
        X, weight = self._first_inputs(X, sample_weight)
        self.directions_, random, spread = self._draw(X.shape[1])
        self.cutoffs_ = self._fit_cutoffs(X, random, spread, weight)
        return self

    def check(self) -> None:
        """Raise InputError if a parameter is invalid, whatever the inputs."""
        checks.as_count(self.units, "units")
        checks.as_seed(self.seed)
        check_cutoff(self.cutoff)

    def _project(self, X: Any) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            projections: Array = self._fitted_inputs(X) @ self.directions_.T
        if not np.isfinite(projections).all():
            raise InputError("the inputs are so large that their projections overflow; scale them down")
        return projections

    def _fit_cutoffs(self, X: Any, random: Array, spread: float, weight: Array | None) -> Array:
        cutoff = self.cutoff
        if cutoff == "random":
            return random
        if isinstance(cutoff, numbers.Real):
            return np.full(len(random), float(cutoff))
        cutoffs = np.empty(len(random))
        for first in range(0, len(random), FIT_BLOCK):
            block = slice(first, first + FIT_BLOCK)
            cutoffs[block] = self._quantiles(X @ self.directions_[block].T, random[block] / spread, cutoff, weight)
        return cutoffs

    @staticmethod
    def _quantiles(projections: Array, levels: Array, cutoff: Cutoff, weight: Array | None) -> Array:
        """Return a quantile of each column of projections (n, p), increased by 1e-12 of the column's largest size.

        It is the median, or for `cutoff` = (low, high) at the level low + (high − low) Φ(z), where `levels` (p,) are
        the z ~ N(0, 1) and Φ is the normal distribution function. `weight` (n,) are sample weights. InputError is
        raised for a constant column.
        """
        size = np.abs(projections).max(axis=0, initial=0.0)
        if (np.ptp(projections, axis=0) <= 1e-12 * size).any():
            raise InputError(
                f"the projections on a hyperplane are the same for all inputs up to rounding (n_samples = "
                f"{len(projections)}), and cutoff={cutoff!r} cannot divide them; give more varied or centred inputs, "
                "or cutoff='random' or a number"
            )
        # The added rounding error closes the gate of a sample that is the median or quantile itself.
        if cutoff == "median" and weight is None:
            return np.asarray(np.median(projections, axis=0) + 1e-12 * size)
        low, high = (0.5, 0.5) if cutoff == "median" else cast(tuple[float, float], cutoff)
        return quantiles(projections, low + (high - low) * ndtr(levels), weight) + 1e-12 * size


def quantiles(values: Array, shares: Array, weight: Array | None = None) -> Array:
    """Return a quantile of each column of values (n, p) at the levels `shares` (p,); a weight of 2 is two copies.

    If the distribution function equals the level between two values, the result is their mean. Level ½ is the median.

    >>> quantiles(np.array([[1.0], [2.0], [4.0]]), np.array([0.5]), np.array([1.0, 1.0, 2.0])).tolist()
    [3.0]
    """
    rows = np.ascontiguousarray(values.T)
    if weight is None:
        rows, reached = np.sort(rows), np.arange(1.0, len(values) + 1)[None]
    else:
        order = np.argsort(rows)
        rows, reached = np.take_along_axis(rows, order, 1), np.cumsum(weight[order], axis=1)
    aims, slack = shares[:, None] * reached[:, -1:], 1e-12 * reached[:, -1:]
    first, last = ((reached < aim).sum(axis=1).clip(max=len(values) - 1) for aim in (aims - slack, aims + slack))
    columns = np.arange(len(rows))
    return np.asarray((rows[columns, first] + rows[columns, last]) / 2)


def check_cutoff(cutoff: Any) -> None:
    """Raise InputError unless a cutoff is 'median', 'random', a finite number or a range of quantile levels."""
    named = isinstance(cutoff, str) and cutoff in ("median", "random")
    pair = isinstance(cutoff, (tuple, list)) and len(cutoff) == 2 and all(isinstance(q, numbers.Real) for q in cutoff)
    if not (named or math.isfinite(checks.as_real(cutoff)) or (pair and 0 <= cutoff[0] <= cutoff[1] <= 1)):
        raise InputError(
            "cutoff must be 'median', 'random', a finite number or a range of quantile levels such as (0.25, 0.75), "
            f"not {shown(cutoff)}"
        )


def draw_hyperplanes(inputs: int, count: int, seed: int) -> tuple[Array, Array]:
    """Draw directions (count, inputs) and cutoffs (count,) like the published code of Lippl, Abbott & Chung.

    It draws from torch's Mersenne twister in float32: first the default initialisation of a linear layer, which is
    discarded, then directions from N(0, 36²) and cutoffs from N(0, 9²).
    """
    checks.check_size(count * inputs, "the hyperplanes")
    stream = TorchStream(seed)
    stream.words(count * inputs)
    directions = stream.normal(count * inputs, DIRECTION_STD).reshape(count, inputs)
    return directions.astype(np.float64), stream.normal(count, CUTOFF_STD).astype(np.float64)


class _HyperplaneContexts(ContextGates, ThresholdGates):
    """Base class of contexts whose bits are the sides of hyperplanes."""

    def check(self) -> None:
        super().check()
        checks.context_bits(self.contexts)

    def contexts_of(self, X: Any) -> np.ndarray:
        bits = checks.context_bits(self.contexts)
        projections = self._project(X)
        checks.check_size(len(projections) * int(self.units), "the contexts")
        opened = (projections > self.cutoffs_).reshape(len(projections), self.units, bits)
        return np.asarray(opened.astype(np.int64) @ (2 ** np.arange(bits)[::-1]))


class HyperplaneGates(_HyperplaneContexts):
    """Contexts of a gated linear network with H units, b hyperplanes per unit and K = 2^b one-hot contexts.

        c_h(x) = bits 1(⟨v_{h,1}, x⟩ > b_{h,1}) … 1(⟨v_{h,b}, x⟩ > b_{h,b}), most significant first
        g_{hK+c}(x) = 1(c_h(x) = c)

    Parameters
    ----------
    units : int
        Number H of hidden units.
    contexts : int
        Number K = 2^b of contexts per unit; 1 means one gate that is always open. `FunctionContexts` allows any number.
    seed : int
        Seed of torch's Mersenne twister. The random numbers are those of the published code, so that the contexts on
        MNIST equal the paper's bit for bit.
    cutoff : 'median', 'random', number or (low, high)
        'median' is the median of each projection over the X of `fit`. (low, high) is a quantile at a random level,
        uniform in this range. Both are increased by 1e-12 of the largest projection. 'random' draws from N(0, 9²).
        A number is the cutoff of all hyperplanes.

    Attributes
    ----------
    directions_ : array, shape (H·b, d)
        The v as rows, ordered by unit.
    cutoffs_ : array, shape (H·b,)
        The b.
    groups : array, shape (H·K,)
        The unit of each gate.

    Raises
    ------
    InputError
        From `fit`, if `contexts` is not a power of two, the cutoff is invalid, or the projections on a hyperplane are
        all equal.

    Examples
    --------
    >>> from implicit_bias import HyperplaneGates, load_binary
    >>> gates = HyperplaneGates(units=3, contexts=4, seed=1).fit(load_binary("digits").X_pool)
    >>> gates.groups.tolist()
    [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]
    >>> gates.transform(load_binary("digits").X_train).sum(axis=1).max()
    np.float64(3.0)
    """

    made_of = ("units", "contexts", "seed", "cutoff")

    def __init__(self, units: int = 10, contexts: int = 2, seed: int = 1, cutoff: Cutoff = "median") -> None:
        self.units, self.contexts, self.seed, self.cutoff = units, contexts, seed, cutoff

    @classmethod
    def from_hyperplanes(cls, directions: Any, cutoffs: Any, contexts: int = 2) -> Self:
        """Return fitted gates with given directions (H·b, d), ordered by unit, and cutoffs (H·b,).

        b is log₂(`contexts`), and must not be 0; H follows from the number of directions.

        Examples
        --------
        >>> from implicit_bias import HyperplaneGates
        >>> gates = HyperplaneGates.from_hyperplanes([[1.0, 0.0]], [0.5])
        >>> gates.transform([[0.0, 1.0], [1.0, 1.0]]).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
        """
        bits = checks.context_bits(contexts)
        directions = checks.as_floats(directions, "directions", 2)
        cutoffs = checks.as_floats(cutoffs, "cutoffs", 1)
        if bits == 0 or len(directions) % bits or cutoffs.shape != (len(directions),):
            raise InputError(
                f"{contexts} contexts need {bits} hyperplanes per unit and one cutoff each; "
                f"got directions {directions.shape} and cutoffs {cutoffs.shape}"
            )
        gates = cls(units=len(directions) // bits, contexts=contexts)
        return gates.restore(n_features_in_=directions.shape[1], directions_=directions, cutoffs_=cutoffs)

    def _draw(self, inputs: int) -> tuple[Array, Array, float]:
        return *draw_hyperplanes(inputs, int(self.units) * checks.context_bits(self.contexts), self.seed), CUTOFF_STD


class SubsetGates(_HyperplaneContexts):
    """Contexts of units that each see few inputs, which are also the inputs that the unit multiplies.

        c_h(x) = bits 1(⟨v_{h,1}, x⟩ > b_{h,1}) … 1(⟨v_{h,b}, x⟩ > b_{h,b}),   v_{h,j} zero outside the subset S_h
        Φ_h(x) = 1(c_h(x) = c)_c ⊗ (x_l)_{l ∈ S_h}

    Called on inputs, they return `SubsetFeatures`. The group lasso of `svm_gln` then selects subsets: which inputs
    interact. This model is ours; random subsets of inputs are those of the random subspace method (Ho 1998).

    Parameters
    ----------
    units, contexts, seed, cutoff
        As for `HyperplaneGates`, but the random numbers are NumPy's.
    columns : int or list of lists of int
        Number of random columns of X in each S_h, all if X has fewer; or the subsets, of which unit h has number h
        modulo their number. Constant columns are left out, but the last column, if it is constant, is an input of
        every unit: that of the biases.

    Attributes
    ----------
    directions_, cutoffs_, groups
        As for `HyperplaneGates`.
    subsets_ : array of int, shape (H, r)
        Columns of S_h, with that of the biases; smaller subsets are filled up with the number d.

    Raises
    ------
    InputError
        From `fit`, as for `HyperplaneGates`, and if there are no such columns.

    Examples
    --------
    >>> from implicit_bias import SubsetGates, load_binary
    >>> gates = SubsetGates(units=3, columns=[[2, 3], [10]]).fit(load_binary("digits").X_pool)
    >>> gates.subsets_.tolist()
    [[2, 3, 64], [10, 64, 65], [2, 3, 64]]
    """

    made_of = ("units", "contexts", "columns", "seed", "cutoff")
    learned = ("n_features_in_", "directions_", "subsets_", "cutoffs_")

    def __init__(
        self, units: int = 400, contexts: int = 4, columns: Any = 3, seed: int = 1, cutoff: Cutoff = (0.1, 0.9)
    ) -> None:
        self.units, self.contexts, self.columns, self.seed, self.cutoff = units, contexts, columns, seed, cutoff

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        self.check()
        X, weight = Gates._first_inputs(self, X, sample_weight)
        varied = np.ptp(X, axis=0) > 0
        # The input of the biases.
        constant, random = [] if varied[-1] else [X.shape[1] - 1], np.random.default_rng(self.seed)
        if not (isinstance(self.columns, list) and self.columns):
            size = min(checks.as_count(self.columns, "columns"), int(varied.sum()))
            drawn = (random.choice(np.flatnonzero(varied), size, replace=False) for _ in range(self.units))
            subsets = [np.sort(columns).tolist() for columns in drawn]
        else:
            subsets = [self._varied(self.columns[h % len(self.columns)], varied) for h in range(self.units)]
        width, bits = max(map(len, subsets)) + len(constant), checks.context_bits(self.contexts)
        self.directions_ = np.zeros((self.units * bits, X.shape[1]))
        for h, columns in enumerate(subsets):
            self.directions_[h * bits : (h + 1) * bits, columns] = random.normal(size=(bits, len(columns)))
        filled = [[*columns, *constant] + [X.shape[1]] * (width - len(columns) - len(constant)) for columns in subsets]
        self.subsets_ = np.array(filled, dtype=np.int64)
        self.cutoffs_ = self._fit_cutoffs(X, random.normal(size=len(self.directions_)), 1.0, weight)
        return self

    @staticmethod
    def _varied(subset: Any, varied: np.ndarray) -> list[int]:
        """Return the columns of a subset that are not constant; raise InputError if they are not columns."""
        columns = np.unique(subset)
        are_integers = columns.size > 0 and np.issubdtype(columns.dtype, np.integer)
        if not are_integers or columns[0] < 0 or columns[-1] >= len(varied):
            raise InputError(
                f"columns must be a number or lists of columns from 0 to {len(varied) - 1}, not {shown(subset)}"
            )
        return [column for column in columns.tolist() if varied[column]]

    def __call__(self, X: Any) -> SubsetFeatures:  # type: ignore[override]
        X = self._fitted_inputs(X)
        contexts = np.concatenate([self.contexts_of(X[rows]).astype(np.uint16) for rows in row_blocks(len(X))])
        padded = np.hstack([X, np.zeros((len(X), 1))]) if self.subsets_.max() == X.shape[1] else X
        return SubsetFeatures(padded, contexts, self.subsets_, int(self.contexts))


class RandomHalfSpaces(ThresholdGates):
    """Random contexts of SVM-RC: H half-spaces g_h(x) = 1(⟨u_h, x⟩ > b_h) with orthonormal directions u_h if H ≤ d.

    For H > d, the matrix of the u_h has orthonormal columns instead.

    Parameters
    ----------
    units : int
        Number H of half-spaces.
    seed : int
        Seed of torch's Mersenne twister. Up to float32 rounding, the directions are those of the published code:
        `torch.nn.init.orthogonal_` of an array (H, d).
    cutoff : 'median', 'random', number or (low, high)
        As for `HyperplaneGates`, but 'random' draws from N(0, 1/(16 d)). The hyperplanes then have the same distances
        from the origin as those of GLN contexts.
    always_on : bool
        Add a last gate that is always 1, which the published code has but the paper does not mention.

    Raises
    ------
    InputError
        From `fit`, as for `HyperplaneGates`.

    Examples
    --------
    >>> from implicit_bias import RandomHalfSpaces, load_binary
    >>> X = load_binary("digits").X_pool
    >>> RandomHalfSpaces(units=2, seed=1).fit(X).transform(X).mean(axis=0).round(2).tolist()
    [0.5, 0.5]
    """

    made_of = ("units", "seed", "cutoff", "always_on")

    def __init__(self, units: int = 20, seed: int = 1, cutoff: Cutoff = "median", always_on: bool = False) -> None:
        self.units, self.seed, self.cutoff, self.always_on = units, seed, cutoff, always_on

    @property
    def groups(self) -> np.ndarray:  # type: ignore[override]
        """Group of each gate, all different; shape (H,), or (H + 1,) with the always-on gate."""
        return np.arange(self.units + bool(self.always_on))

    def _draw(self, inputs: int) -> tuple[Array, Array, float]:
        units, spread = int(self.units), 0.25 * inputs**-0.5
        checks.check_size(units * inputs, "the half-spaces")
        stream = TorchStream(self.seed)
        directions = _orthogonal(stream.normal(units * inputs, 1.0).reshape(units, -1).astype(np.float64))
        return directions, stream.normal(units, spread).astype(np.float64), spread

    def transform(self, X: Any) -> Array:
        """Gate values 0 or 1, shape (n, H) or, with the always-on gate, (n, H + 1)."""
        values = (self._project(X) > self.cutoffs_).astype(np.float64)
        return np.hstack([values, np.ones((len(values), 1))]) if self.always_on else values


def _orthogonal(drawn: Array) -> Array:
    wide = drawn.shape[0] < drawn.shape[1]
    Q, R = np.linalg.qr(drawn.T if wide else drawn)
    Q = Q * np.sign(np.diag(R))
    return Q.T if wide else Q


class ReLUGates(ThresholdGates):
    """Gates of the units of a ReLU layer, g_h(x) = 1(⟨w_h, x⟩ ≥ 0): the learned contexts of SVM-LC.

    They are open on the hyperplane itself; in Lippl, Abbott & Chung, section 5, they are closed there.

    Parameters
    ----------
    weights : array, shape (H, d)
        The layer's weights w_h as rows. No `fit` is needed.

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
        self._set_directions(self.weights)
        self.cutoffs_ = np.zeros(len(self.directions_))
        return self

    def transform(self, X: Any) -> Array:
        return (self._project(X) >= self.cutoffs_).astype(np.float64)
