"""Joint margin problem of several classes: f_{y_i}(x_i) − f_c(x_i) ≥ 1 for every other class c."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_numbers, check_size, dimensions, one_of, shown
from implicit_bias.datasets.tables import labels_and_classes
from implicit_bias.features import GatedFeatures
from implicit_bias.gates import Gates
from implicit_bias.margin.formulations import fitted_gates
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.norms import GroupLasso, Norm, NuclearNorm, TwoLayerNorm


@dataclass(frozen=True, eq=False, repr=False)
class ClassMarginProblem(MarginProblem):
    """Joint margin problem of K classes (`svm_classes`); its samples are the pairs of a sample and another class.

    W (K·k, d) stacks the weights of K outputs with k gates each.

    Attributes
    ----------
    classes : array, shape (K,)
        The labels, sorted.

    Examples
    --------
    >>> import numpy as np
    >>> from implicit_bias import ConstantGate, solve, svm_classes
    >>> problem = svm_classes([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], ["a", "b", "c"], ConstantGate())
    >>> problem.classes.tolist(), problem.features.n
    (['a', 'b', 'c'], 6)
    """

    classes: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        K = len(self.classes) if dimensions(self.classes) == 1 else 0
        if K < 2 or self.features.k % K:
            raise InputError(f"classes must be two or more labels whose number divides {self.features.k}, the gates")

    def outputs(self, W: Any) -> Array:
        """Weights of each output; shape (K, k, d)."""
        _, k, d = self.features.shape
        return as_numbers(W, (k, d), "weights").reshape(len(self.classes), -1, d)

    def decision_function(self, W: Any, X: Any, b: float = 0.0) -> Array:
        """Scores f_c(x) of new inputs X (n, d); shape (n, K). `b` must be 0, because it cancels in every margin."""
        if b:
            raise InputError(f"b must be 0, not {shown(b)}, because a common intercept cancels in every margin")
        if self.gates is None:
            raise InputError("the problem was built without gates, and cannot score new inputs; build it from gates")
        features = self.gates(X)
        return np.column_stack([features @ weights for weights in self.outputs(W)])

    def predict(self, W: Any, X: Any) -> Array:
        """Class with the largest f_c for each input X (n, d); shape (n,)."""
        return np.asarray(self.classes[self.decision_function(W, X).argmax(axis=1)])


#: Norms of one layer with K outputs.
ONE_LAYER = ("spectral", "entries", "frobenius", "l1")


def svm_classes(
    X: Any, labels: Any, gates: Gates, C: float = np.inf, *, shared: bool = False, norm: str | None = None
) -> ClassMarginProblem:
    """Joint problem of K classes: minimise ‖ζ‖ subject to f_{y_i}(x_i) − f_c(x_i) ≥ 1 for all c ≠ y_i, f_c = Φζ_c.

    This problem is ours. It extends min ½‖w‖² in Theorem 3.1 of Lippl, Abbott & Chung from two to K classes.
    Convergence of gradient descent on the softmax loss to its stationary points is not proved, neither there nor here.
    For given gates and f_c(x) = Σ_h a_ch ⟨w_h, φ_h(x)⟩, the smallest ½‖w‖² that represents f is a norm of ζ:

    - **Each output has its own units**: ζ_ch = a_ch w_ch, and ½a² + ½‖w‖² ≥ ‖aw‖, with equality for equal lengths.
      The norm is Σ_c Σ_h ‖ζ_ch‖, a group lasso over the units of all outputs.
    - **All outputs share the units**: ζ_h = a_h w_hᵀ is a matrix of rank one with one row per output, and
      ½‖a_h‖² + ½‖w_h‖² ≥ ‖a_h‖‖w_h‖ = ‖ζ_h‖_*, the nuclear norm. Σ_h ‖ζ_h‖_* over all matrices is the largest convex
      lower bound. It is exact if the rank of each solution ζ_h is at most the number of units with the same gates.

    A single layer f_c(x) = ⟨W_c, Φ(x)⟩ is trained with W (K, kd) itself. Steepest descent in ‖W‖ on the loss of linear
    models maximises the margin in this norm (Fan, Schmidt & Thrampoulidis, arXiv 2502.04664): "spectral" is the limit
    of Muon, "entries", ``max |w|``, that of sign descent and Adam without ε, "frobenius" that of gradient descent, and
    "l1", ``Σ|w|``, that of coordinate descent.

    For two classes the optima are that of SVM-GLN and, with shared units, that of SVM-GLN over √2, because ζ_2 = −ζ_1.

    Parameters
    ----------
    X : array, shape (n, d)
        Inputs.
    labels : array, shape (n,)
        Integers or strings of at least two classes.
    gates : Gates
        Gates with the attribute `groups`, the unit of each gate; fitted on X if they are not fitted.
    C : float
        Cost of slack, for every pair; inf for the hard margin.
    shared : bool
        True if all outputs share the units.
    norm : str, optional
        Norm of the weights of a single layer: "spectral", "entries", "frobenius" or "l1"; by default the layers are
        two.

    Returns
    -------
    ClassMarginProblem
        Its n(K − 1) samples are the pairs of a sample and another class; the rows of X are repeated accordingly.

    Raises
    ------
    InputError
        If arrays or gates are invalid, labels are of one class or not integers or strings, the norm is unknown or given
        with `shared`, or the pairs do not fit into the memory.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from implicit_bias import HyperplaneGates, solve, svm_classes
    >>> digits = load_digits()
    >>> X = np.c_[digits.data / 16, np.ones(len(digits.data))]
    >>> problem = svm_classes(X[:300], digits.target[:300], HyperplaneGates(3, 2, seed=1).fit(X))
    >>> solution = solve(problem)
    >>> solution.status.name, bool(np.mean(problem.predict(solution.weights, X[300:]) == digits.target[300:]) > 0.8)
    ('OPTIMAL', True)
    """
    if norm is not None and one_of(norm, ONE_LAYER, "norm") and shared:
        raise InputError("shared=True is for two layers and norm for one; give one of them")
    gates = fitted_gates(X, gates, grouped=norm is None)
    features = gates(X)
    if not features.gated:
        raise InputError(f"a joint problem takes gates of all inputs, not {type(gates).__name__}: solve one per class")
    given, distinct = labels_and_classes(labels)
    # Strings in a column of a data frame have the dtype object.
    classes = np.asarray(distinct)
    if classes.dtype.kind not in "biufU":
        raise InputError("labels must be numbers or strings")
    if given.shape != (features.n,) or len(classes) < 2:
        raise InputError(f"labels must be an array of {features.n}, one per sample, with at least two classes")
    codes = np.unique(given, return_inverse=True)[1]
    K, n, k = len(classes), features.n, features.k
    check_size(n * (K - 1) * max(K * k, features.d), "the pairs of samples and classes")
    samples = np.repeat(np.arange(n), K - 1)
    others = np.broadcast_to(np.arange(K), (n, K))[np.arange(K) != codes[:, None]]
    signs = np.eye(K)[codes[samples]] - np.eye(K)[others]
    values = np.einsum("pc,pj->pcj", signs, features.gate_values[samples]).reshape(len(samples), K * k)
    outputs = np.repeat(np.arange(K), k)
    if norm is not None:
        penalty: Norm = TwoLayerNorm(outputs, norm, "l_inf")
        name = f"several classes, one layer, {norm}"
    else:
        units = np.tile(np.unique(gates.groups, return_inverse=True)[1], K)
        penalty = NuclearNorm(units, outputs) if shared else GroupLasso(outputs * (units.max() + 1) + units)
        name = "several classes, shared units" if shared else "several classes"
    pairs = GatedFeatures(features.X[samples], values)
    return ClassMarginProblem(pairs, np.ones(len(samples)), penalty, C, gates, name, classes=classes)
