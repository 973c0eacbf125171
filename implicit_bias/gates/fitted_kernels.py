"""Kernels at the samples of a fit, as features of margin problems."""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

from implicit_bias._utils.blocks import ROWS
from implicit_bias._utils.checks import Array, InputError, as_count, check_range, one_of, shown
from implicit_bias._utils.floats import length
from implicit_bias._utils.limits import check_memory
from implicit_bias.features import KernelFeatures
from implicit_bias.features.base import semidefinite
from implicit_bias.gates.expansions import diagonal_of, entry_error, evaluated
from implicit_bias.gates.half_space_kernel import half_spaces_of_samples, receptive_fields
from implicit_bias.gates.hyperplanes import SubsetGates

#: γ p Var X of the default Gaussian kernels.
WIDTHS = (1 / 16, 1 / 4, 1.0, 4.0, 16.0)
#: Kernels are too narrow if those of most samples with the nearest other one, relative to k(x, x), are below this.
NARROW = 0.01
#: Largest number of samples at which one kernel is checked, drawn at random.
SAMPLED = 500


class FittedKernels(KernelFeatures):
    """Kernels k_m/s_m at given samples, whose factors are computed when they are first needed.

    `kernels` are as users give them, and s_m is the mean of k_m(x, x) if `normalise`, else 1.

    >>> features = FittedKernels(["linear", ("rbf", {"gamma": 1.0})], np.array([[1.0], [2.0]]))
    >>> features.shape[:2], features.scales.tolist(), features.stack[0].tolist()
    ((2, 2), [2.5, 1.0], [[0.4, 0.8], [0.8, 1.6]])
    """

    verified = True
    samples: Array
    #: The k_m.
    kernels: list[Any]
    #: The s_m, shape (k,).
    scales: Array
    #: √(k_m(x, x)/s_m) of the samples, shape (k, n).
    lengths: Array
    #: Bounds of the errors of the values, as shares of √(k_m(x, x) k_m(z, z)), shape (k,).
    entry_errors: Array
    #: The matrices (k, n, n) of the k_m/s_m; None for one kernel, of which `values` are computed when needed.
    stack: Array | None
    #: True if most samples have nearly zero kernel values with all others.
    narrow: bool

    def __init__(
        self, kernels: Any, samples: Array, weight: Array | None = None, normalise: bool = True, seed: int = 0
    ) -> None:
        kernels = _listed(kernels, samples, weight, seed)
        changes, k, n = np.zeros(len(kernels)), len(kernels), len(samples)
        if k == 1:
            diagonals = diagonal_of(kernels[0], samples)[None]
            # The matrix is not computed, but a random part of it is checked.
            some = samples[np.random.default_rng(seed).permutation(n)[:SAMPLED]]
            checked, changes[0] = _semidefinite(kernels[0], 0, some)
            values = checked[None]
        else:
            check_memory(8.0 * (k + 3) * n**2, f"{k} kernels of {n} samples", "use fewer kernels or samples")
            values = np.empty((k, n, n))
            for m, kernel in enumerate(kernels):
                values[m], changes[m] = _semidefinite(kernel, m, samples)
            diagonals = values.diagonal(axis1=1, axis2=2).copy()
        narrow, scales = _narrow(values), np.ones(k)
        if normalise:
            means = np.average(diagonals, axis=1, weights=weight)
            scales = np.where(means > 0, means, 1.0)
        if k > 1:
            values /= scales[:, None, None]
        errors = changes + [entry_error(kernel, samples) for kernel in kernels]
        check_range(np.sqrt(np.abs(diagonals)).ravel(), "the kernels")
        lengths, stack = np.sqrt(np.maximum(diagonals, 0.0) / scales[:, None]), values if k > 1 else None
        vars(self).update(samples=samples, kernels=kernels, scales=scales, lengths=lengths)
        vars(self).update(entry_errors=errors, stack=stack, narrow=narrow)

    def values(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        """Return k(x_i, x_j)/s of the first kernel for i in `rows` and j in `columns`, shape (rows, columns)."""
        return evaluated(self.kernels[0], 0, self.samples[rows], self.samples[columns]) / self.scales[0]

    def of_half_spaces(self, dtype: Any) -> Callable[[np.ndarray, np.ndarray], Array]:
        """Return a function like `values`, of a data type, for the kernel "half-spaces"; it stores the directions."""
        # k(X/√s) = k(X)/s.
        return half_spaces_of_samples(self.samples / np.sqrt(self.scales[0]), self.kernels[0][1], dtype)

    @cached_property
    def matrices(self) -> Array:
        """The matrices of all kernels, `stack` if it is not None."""
        every = np.arange(self.n)
        return self.values(every, every)[None] if self.stack is None else self.stack

    @cached_property
    def factors(self) -> Array:
        check_memory(24.0 * self.k * self.n**2, f"the factors of kernels of {self.n} samples", "use fewer samples")
        stack = self.stack
        if stack is None:
            stack = _semidefinite(self.kernels[0], 0, self.samples)[0][None] / self.scales[0]
        return KernelFeatures.from_kernels(stack).factors

    @property
    def n(self) -> int:
        return len(self.samples)

    @property
    def k(self) -> int:
        return len(self.kernels)

    # The checks of a problem need no factors.
    def row_norms(self, units: Any = 1.0) -> Array:
        return np.asarray(length(self.lengths, axis=0)) if np.ndim(units) == 0 else super().row_norms(units)

    def closed(self) -> np.ndarray:
        return np.asarray(~self.lengths.any(axis=0))


def _semidefinite(kernel: Any, m: int, X: Array) -> tuple[Array, float]:
    """Return the positive semidefinite k_m(X, X), and the change from the values as a share of √(k(x, x) k(z, z))."""
    # A copy, because products of many rows with themselves crash; see `_utils.blocks`.
    K = evaluated(kernel, m, X, X if len(X) <= ROWS else X.copy())
    values, lengths = semidefinite(K, f"kernel {m}"), np.sqrt(np.abs(K.diagonal()))
    if values is K:
        return values, 0.0
    sizes = np.outer(lengths, lengths)
    return values, float(np.divide(np.abs(values - K), sizes, out=np.zeros_like(K), where=sizes > 0).max())


def _narrow(values: Array) -> bool:
    """Return True if, for most samples x, |k(x, z)|/√(k(x, x) k(z, z)) < NARROW for all kernels and other samples z."""
    nearest = np.zeros(values.shape[1])
    for K in values:
        lengths, others = np.sqrt(np.abs(K.diagonal())), np.abs(K)
        np.fill_diagonal(others, 0.0)
        sizes = np.outer(lengths, lengths)
        nearest = np.maximum(nearest, np.divide(others, sizes, out=others, where=sizes > 0).max(axis=1))
        if np.median(nearest) >= NARROW:
            return False
    return True


def _listed(kernels: Any, X: Array, weight: Array | None, seed: int) -> list[Any]:
    """Return `kernels`, or the default kernels for training samples X (n, p), as functions or (name, parameters)."""
    if kernels is None:
        centred = X - np.average(X, weights=None if weight is None else np.repeat(weight[:, None], X.shape[1], 1))
        unit = float(np.average((centred**2).sum(axis=1), weights=weight)) or 1.0
        kernels = ["linear", *(("rbf", {"gamma": width / unit}) for width in WIDTHS)]
    if callable(kernels) or isinstance(kernels, str):
        kernels = [kernels]
    if not isinstance(kernels, Sequence) or not kernels:
        raise InputError("kernels must be at least one function, name, or name and dict of parameters")
    if len(kernels) == 2 and isinstance(kernels[0], str) and isinstance(kernels[1], dict):
        kernels = [tuple(kernels)]
    return [kernel if callable(kernel) else _named(kernel, X, weight, seed) for kernel in kernels]


def _named(kernel: Any, X: Array, weight: Array | None, seed: int) -> tuple[str, dict[str, Any]]:
    """Return name and parameters of a kernel, with γ = 1/(p Var X) for "scale", 1/p for "auto", and random sets."""
    match kernel:
        case str(name):
            parameters: dict[str, Any] = {}
        case (str(name), dict(parameters)):
            parameters = dict(parameters)
        case _:
            raise InputError(f"a kernel is a function, a name, or a name and a dict of parameters, not {shown(kernel)}")
    if name == "gaussian":
        raise InputError("the Gaussian kernel has the name 'rbf'")
    gamma = parameters.get("gamma")
    if isinstance(gamma, str):
        # The variance of all entries, as in SVC.
        mean = np.average(X.mean(axis=1), weights=weight)
        variance = float(np.average(((X - mean) ** 2).mean(axis=1), weights=weight))
        values = {"scale": 1 / (X.shape[1] * variance or 1.0), "auto": 1 / X.shape[1]}
        parameters["gamma"] = values[one_of(gamma, values, "gamma")]
    if name == "half-spaces" and {"columns", "count"} & parameters.keys():
        if "columns" not in parameters or {"sets", "side"} & parameters.keys():
            raise InputError("half-spaces takes sets, or side, or columns and perhaps count; leave the others out")
        count = as_count(parameters.pop("count", 300), "count")
        parameters["sets"] = np.unique(SubsetGates(count, 2, parameters.pop("columns"), seed).fit(X).subsets_, axis=0)
    if name == "half-spaces" and "sets" in parameters:
        parameters["sets"] = [field.tolist() for field in receptive_fields(X.shape[1], sets=parameters["sets"])]
    return one_of(name, ["half-spaces", *sorted(PAIRWISE_KERNEL_FUNCTIONS)], "kernel"), parameters
