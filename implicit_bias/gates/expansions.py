"""Gates that are the kernel expansions of a fitted classifier."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Self

import numpy as np

from implicit_bias._utils.blocks import row_blocks
from implicit_bias._utils.checks import SMALLEST, Array, InputError, as_floats
from implicit_bias._utils.floats import UNIT
from implicit_bias.features import GatedFeatures
from implicit_bias.gates.base import Gates
from implicit_bias.gates.half_space_kernel import half_space_expansion, half_spaces, half_spaces_error, parameters_of

#: Rounding error of a Gaussian kernel above which the differences of inputs are formed one by one, which is slower.
MAX_CANCELLATION = 1e-12
#: Distance of the values of a function or matrix from a positive semidefinite kernel, as a share of √(k(x, x) k(z, z)).
FUNCTION_ERROR = 1e-12
#: Roundings of powers, exponential functions and scales.
ROUNDINGS = 24


class KernelExpansions(Gates):
    """Kernel expansions g_m(x) = Σ_i a_mi k_m(x, x_i), one per kernel, as gates of the constant input 1.

    The features are (ΦW)(x) = Σ_m W_m g_m(x) for W (k, 1). `samples` (s, d) are the x_i, and `coefficients` (k, s) the
    a_mi. `kernels` are functions k(X, Z) from inputs (n, d) and (m, d) to a matrix (n, m), or pairs of a name of
    scikit-learn's `pairwise_kernels`, or "half-spaces", and a dict of parameters. Only such pairs can be saved.
    InputError is raised if shapes do not match, or a kernel cannot be evaluated.

    >>> from implicit_bias.gates import KernelExpansions
    >>> gates = KernelExpansions([("linear", {}), ("rbf", {"gamma": 1.0})], np.eye(2), np.ones((2, 2)))
    >>> gates([[0.0, 0.0]]).dense().round(3).tolist()
    [[0.0, 0.736]]
    """

    made_of = ("kernels", "samples", "coefficients")
    learned = ("samples", "coefficients", "n_features_in_")

    def __init__(self, kernels: Sequence[Any], samples: Any, coefficients: Any) -> None:
        self.kernels = list(kernels)
        self.samples = as_floats(samples, "samples", 2)
        self.coefficients = as_floats(coefficients, "coefficients", 2)
        if self.coefficients.shape != (len(self.kernels), len(self.samples)):
            text = f"coefficients must have shape {(len(self.kernels), len(self.samples))}, a row per kernel"
            raise InputError(f"{text} and a column per sample, not {self.coefficients.shape}")
        self.n_features_in_ = self.samples.shape[1]
        self.groups = np.arange(len(self.kernels))

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Return the gates, which do not depend on X."""
        return self

    def restore(self, **learned: Any) -> Self:
        self.require_named()
        return super().restore(**learned)

    def require_named(self) -> None:
        """Raise InputError unless each kernel can be saved: a name with numbers, and sets of columns, as parameters."""
        named = [kernel for kernel in self.kernels if not callable(kernel)]
        given = [item for _, parameters in named for item in parameters.items()]
        if len(named) < len(self.kernels) or not all(name != "n_jobs" and _are_numbers(value) for name, value in given):
            text = "a kernel that is a function or a matrix, or has parameters other than numbers, cannot be saved"
            raise InputError(f"{text}; save the classifier with cloudpickle")

    def transform(self, X: Any) -> Array:
        X = self._fitted_inputs(X)
        values = np.zeros((len(X), len(self.kernels)))
        for m in np.flatnonzero(self.coefficients.any(axis=1)).tolist():
            values[:, [m]] = expansion(self.kernels[m], m, self.samples, self.coefficients[[m]].T)(X)
        return values

    def __call__(self, X: Any) -> Any:
        """Return the features g(x) of inputs X, with d = 1."""
        values = self.transform(X)
        # A Gaussian kernel nearly vanishes far from all samples, and features would refuse such sizes.
        values[np.abs(values) < SMALLEST] = 0.0
        return GatedFeatures(np.ones((len(values), 1)), values)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, int | float | None) or (isinstance(value, list) and all(map(_are_numbers, value)))


def function_of(kernel: Any) -> Callable[[Array, Array], Any]:
    """Return the function k(X, Z) of a kernel that is given as a function, or as a name and a dict of parameters.

    >>> function_of(("poly", {"degree": 2, "coef0": 0, "gamma": 1}))(np.eye(2), np.ones((1, 2))).tolist()
    [[1.0], [1.0]]
    """
    if callable(kernel):
        function: Callable[[Array, Array], Any] = kernel
        return function
    # Imported here because only kernels given by name need it.
    from sklearn.metrics.pairwise import pairwise_kernels

    name, parameters = kernel
    ours: dict[str, Callable[..., Array]] = {"rbf": gaussian, "half-spaces": half_spaces}
    return partial(ours.get(name, partial(pairwise_kernels, metric=name)), **parameters)


def gaussian(X: Array, Z: Array, gamma: float | None = None, **options: Any) -> Array:
    """Return the Gaussian kernel exp(−γ‖x − z‖²), shape (n, m), without cancellation far from 0; γ is 1/d by default.

    >>> far = 1e9 + np.arange(3.0)[:, None]
    >>> bool((gaussian(far, far) == gaussian(far - 1e9, far - 1e9)).all())
    True
    """
    # Imported here because only kernels given by name need them.
    from scipy.spatial.distance import cdist
    from sklearn.metrics.pairwise import pairwise_kernels

    gamma, centre = 1 / X.shape[1] if gamma is None else gamma, Z.mean(axis=0)
    U, V = X - centre, Z - centre
    # ‖x‖² + ‖z‖² − 2⟨x, z⟩ cancels for neighbours, with an error of this multiple of the machine epsilon.
    error = gamma * ((U**2).sum(axis=1).max() + (V**2).sum(axis=1).max()) * np.finfo(float).eps
    if error > MAX_CANCELLATION:
        return np.asarray(np.exp(-gamma * cdist(X, Z, "sqeuclidean")))
    return np.asarray(pairwise_kernels(U, V, metric="rbf", gamma=gamma, **options))


def entry_error(kernel: Any, X: Array) -> float:
    """Return a bound of the errors of `function_of(kernel)` at rows of X (n, p), as a share of √(k(x, x) k(z, z)).

    For the unit roundoff u, a sum of p terms has an error of pu times that of their sizes: pu ‖x‖ ‖z‖ for ⟨x, z⟩.
    Polynomials multiply it by their degree, and exp(−t) for a sum t of positive terms by t exp(−t) < 1. The squared
    distances of Gaussian kernels are differences, with errors of 2(p + 7)u (‖x‖² + ‖z‖²) for centred x and z, unless
    they are so large that `gaussian` sums the squares of differences. A constant c₀ < 0, and the hyperbolic tangent,
    enlarge errors relative to k(x, x). Values of functions are the kernel itself, up to FUNCTION_ERROR.

    >>> f"{entry_error(('linear', {}), np.ones((5, 10))):.1e}", f"{entry_error(('rbf', {}), np.eye(10)):.1e}"
    ('3.8e-15', '6.5e-15')
    """
    if callable(kernel):
        return FUNCTION_ERROR
    (name, parameters), p = kernel, X.shape[1]
    if name == "half-spaces":
        return half_spaces_error(parameters, p)
    given = {"gamma": None, "coef0": 1.0, "degree": 3} | parameters
    gamma = 1 / p if given["gamma"] is None else given["gamma"]
    terms = float(p + ROUNDINGS)
    if name == "rbf":
        # Centres are means of rows of X, and at most twice as far from x as the farthest x is from the mean of all.
        size = 8 * gamma * float(((X - X.mean(axis=0)) ** 2).sum(axis=1).max())
        terms += 2 * (p + 7) * min(size, MAX_CANCELLATION / np.finfo(float).eps)
    elif name == "cosine":
        terms *= 2
    elif name in ("poly", "polynomial", "sigmoid"):
        squares, c = gamma * (X**2).sum(axis=1), given["coef0"]
        value = np.abs(np.tanh(squares + c) if name == "sigmoid" else squares + c)
        # Where k(x, x) is 0, so is k(x, z).
        ratio = float(np.divide(np.abs(squares) + abs(c), value, out=np.ones_like(value), where=value > 0).max())
        terms *= ratio if name == "sigmoid" else given["degree"] * ratio ** given["degree"]
    return terms * UNIT


def expansion(kernel: Any, m: int, Z: Array, coefficients: Array) -> Callable[[Array], Array]:
    """Return the function X ↦ k_m(X, Z) A for samples Z (s, d) and `coefficients` A (s, c), a block of rows at a time.

    The kernel "half-spaces" of many samples is computed in single precision.

    >>> expansion(("linear", {}), 0, np.eye(2), np.ones((2, 1)))(np.array([[2.0, 3.0]])).tolist()
    [[5.0]]
    """
    function = function_of(kernel)
    if isinstance(function, partial) and function.func is half_spaces:
        return half_space_expansion(Z, coefficients, **function.keywords)

    def values(X: Array) -> Array:
        outputs = np.empty((len(X), coefficients.shape[1]))
        for rows in row_blocks(len(X)):
            outputs[rows] = evaluated(function, m, X[rows], Z) @ coefficients
        return outputs

    return values


def diagonal_of(kernel: Any, X: Array) -> Array:
    """Return k(x, x), shape (n,), for all rows x of X (n, d), without the matrix of the kernel.

    >>> diagonal_of(("half-spaces", {"sets": [[0], [0, 1]]}), np.array([[1.0, 2.0]])).tolist()
    [6.0]
    """
    if callable(kernel) or kernel[0] != "half-spaces":
        return np.concatenate([evaluated(kernel, 0, X[rows], X[rows]).diagonal() for rows in row_blocks(len(X), 100)])
    evaluated(kernel, 0, X[:1], X[:1])
    b, linear, fields = parameters_of(kernel[1], X.shape[1])
    total = np.sum([(X[:, columns] ** 2).sum(axis=1) for columns in fields], axis=0)
    return np.asarray(total * (1 - (1 - linear) / 2.0**b))


def evaluated(kernel: Any, m: int, X: Array, Z: Array) -> Array:
    """Return k(X, Z), shape (n, s), for X (n, d) and Z (s, d); raise InputError about kernel m if that fails."""
    try:
        values = as_floats(function_of(kernel)(X, Z), f"the values of kernel {m}", 2)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise InputError(f"kernel {m} cannot be called: {error}") from error
    if values.shape != (len(X), len(Z)):
        raise InputError(f"kernel {m} must give shape {(len(X), len(Z))} here, not {values.shape}")
    return values
