"""The contexts of a gated linear network, and the published random stream they are drawn from."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_count, as_floats, as_seed, check_size, context_bits
from implicit_bias._utils.stream import TorchStream
from implicit_bias.gates.contexts import ContextGates
from implicit_bias.gates.thresholds import Cutoff, ThresholdGates, check_cutoff

#: The standard deviations of published directions and cutoffs.
DIRECTIONS, CUTOFFS = 36.0, 9.0


def draw_hyperplanes(inputs: int, count: int, seed: int) -> tuple[Array, Array]:
    """The published stream of a seed: directions (count, inputs) and cutoffs (count,).

    torch's Mersenne twister seeded with `seed`: the default initialisation of a linear layer (drawn and discarded),
    directions N(0, 36²) and cutoffs N(0, 9²), all in float32 (Lippl, Abbott & Chung, published code).
    """
    check_size(count * inputs, "the hyperplanes")
    stream = TorchStream(seed)
    stream.words(count * inputs)
    directions = stream.normal(count * inputs, DIRECTIONS).reshape(count, inputs)
    return directions.astype(np.float64), stream.normal(count, CUTOFFS).astype(np.float64)


class HyperplaneGates(ContextGates, ThresholdGates):
    """The contexts of a gated linear network: H units, each with b hyperplanes and K = 2^b contexts, one-hot.

        c_h(x) = bits 1(⟨v_{h,1}, x⟩ > b_{h,1}) … 1(⟨v_{h,b}, x⟩ > b_{h,b}), most significant first
        g_{hK+c}(x) = 1(c_h(x) = c)

    Parameters
    ----------
    units : int
        H, the number of hidden units.
    contexts : int
        K = 2^b contexts per unit, as many as b hyperplanes have sides, whether or not inputs lie there; 1 gives one
        gate that is always open. `FunctionContexts` takes any number.
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
    groups : array, shape (H·K,)
        The unit of each gate.

    Raises
    ------
    InputError
        From `fit`: for contexts that are not a power of two, an unknown cutoff, or data whose projections are constant.

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
        self.units = units
        self.contexts = contexts
        self.seed = seed
        self.cutoff = cutoff

    def check(self) -> tuple[int, int]:
        """H and the b of K = 2^b. Raises InputError for parameters that no inputs can mend, as `fit` does."""
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
                f"{contexts} contexts need {bits} hyperplanes per unit and one cutoff each; "
                f"got directions {directions.shape} and cutoffs {cutoffs.shape}"
            )
        gates = cls(units=len(directions) // bits, contexts=contexts)
        return gates.restore(n_features_in_=directions.shape[1], directions_=directions, cutoffs_=cutoffs)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Draw the hyperplanes and fix the cutoffs on X (n, d): the published code uses all inputs (`X_pool`)."""
        units, bits = self.check()
        X, weight = self._first_inputs(X, sample_weight)
        self.directions_, random = draw_hyperplanes(X.shape[1], units * bits, self.seed)
        self.cutoffs_ = self._fit_cutoffs(X, random, CUTOFFS, self.cutoff, weight)
        return self

    def contexts_of(self, X: Any) -> np.ndarray:
        """The context c_h(x) of every unit, whole numbers of shape (n, H)."""
        bits = context_bits(self.contexts)
        powers = 2 ** np.arange(bits)[::-1]
        projections = self._project(X)
        check_size(len(projections) * int(self.units), "the contexts")
        opened = (projections > self.cutoffs_).reshape(len(projections), self.units, bits)
        return np.asarray(opened.astype(np.int64) @ powers)
