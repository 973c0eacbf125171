"""The margin problem of several classes at once: f_{y_i}(x_i) − f_c(x_i) ≥ 1 for every other class c."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_numbers, check_size
from implicit_bias.datasets.task import labels_and_classes
from implicit_bias.features import GatedFeatures
from implicit_bias.gates import Gates
from implicit_bias.margin.formulations import fitted_gates
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.norms import GroupLasso, NuclearNorm


@dataclass(frozen=True, eq=False, repr=False)
class ClassMarginProblem(MarginProblem):
    """A margin problem whose samples are pairs of a sample and a class that is not its own (`svm_classes`).

    W (K·k, d) stacks the weights of K outputs, each of k gates.

    Attributes
    ----------
    classes : array, shape (K,)
        The labels, sorted.

    >>> import numpy as np
    >>> from implicit_bias import ConstantGate, solve, svm_classes
    >>> problem = svm_classes([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], ["a", "b", "c"], ConstantGate())
    >>> problem.classes.tolist(), problem.features.n
    (['a', 'b', 'c'], 6)
    """

    classes: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        K = len(self.classes) if np.ndim(self.classes) == 1 else 0
        if K < 2 or self.features.k % K:
            raise InputError(f"classes must be two or more labels that share {self.features.k} gates evenly")

    def outputs(self, W: Any) -> Array:
        """The weights (K, k, d) of each output."""
        _, k, d = self.features.shape
        return as_numbers(W, (k, d), "weights").reshape(len(self.classes), -1, d)

    def decision_function(self, W: Any, X: Any, b: float = 0.0) -> Array:
        """f_c(x) of new inputs X (n, d), shape (n, K); `b`, which cancels in every margin, must be 0."""
        if b or self.gates is None:
            raise InputError("several classes have no common intercept, and are scored through the problem's own gates")
        features = self.gates(X)
        return np.column_stack([features @ own for own in self.outputs(W)])

    def predict(self, W: Any, X: Any) -> Array:
        """The class of largest f_c for each input (n, d)."""
        return np.asarray(self.classes[self.decision_function(W, X).argmax(axis=1)])


def svm_classes(X: Any, labels: Any, gates: Gates, C: float = np.inf, *, shared: bool = False) -> ClassMarginProblem:
    """Several classes at once: minimise ‖ζ‖ subject to f_{y_i}(x_i) − f_c(x_i) ≥ 1 for all c ≠ y_i, f_c = Φζ_c.

    This is ours, the counterpart of min ½‖w‖² in Theorem 3.1 of Lippl, Abbott & Chung for two classes. Convergence of
    gradient descent on the softmax loss to its stationary points is shown neither there nor here. For given gates and
    f_c(x) = Σ_h a_ch ⟨w_h, φ_h(x)⟩, the least ½‖w‖² behind outputs is a norm of ζ:

    - **Outputs with units of their own**: ζ_ch = a_ch w_ch, and ½a² + ½‖w‖² ≥ ‖aw‖, with equality for equal lengths.
      The norm is Σ_c Σ_h ‖ζ_ch‖, a group lasso over the units of all outputs.
    - **Outputs that share their units**: ζ_h = a_h w_hᵀ is a matrix of rank one, a row for each output, and ½‖a_h‖² +
      ½‖w_h‖² ≥ ‖a_h‖‖w_h‖ = ‖ζ_h‖_*. Σ_h ‖ζ_h‖_* over all matrices is the largest convex function below that. It is
      exact if the answer has rank one, or at most as many as there are units behind the same gates.

    With two classes they are SVM-GLN, and SVM-GLN over √2: ζ_2 = −ζ_1.

    Parameters
    ----------
    X : array, shape (n, d)
    labels : array, shape (n,), of two classes or more
    gates : Gates
        With `groups`, the units; fitted, or fitted on X.
    C : float
        Price of slack, for every pair; inf for the hard margin.
    shared : bool
        Whether outputs share their units.

    Returns
    -------
    ClassMarginProblem
        Its samples are the n(K − 1) pairs, its inputs those of X, once for each pair.

    Raises
    ------
    InputError
        For bad arrays or gates, labels of one class, or labels with fractions.

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
    gates = fitted_gates(X, gates, grouped=True)
    features = gates(X)
    given, found = labels_and_classes(labels)
    # Texts in a column of a data frame are objects.
    classes = np.asarray(found)
    if classes.dtype.kind not in "biufU":
        raise InputError("labels must be numbers or texts")
    if given.shape != (features.n,) or len(classes) < 2:
        raise InputError(f"labels must be {features.n}, one per sample, of at least two classes")
    codes = np.unique(given, return_inverse=True)[1]
    K, n, k = len(classes), features.n, features.k
    check_size(n * (K - 1) * max(K * k, features.d), "the pairs of samples and classes")
    samples = np.repeat(np.arange(n), K - 1)
    others = np.broadcast_to(np.arange(K), (n, K))[np.arange(K) != codes[:, None]]
    signs = np.eye(K)[codes[samples]] - np.eye(K)[others]
    values = np.einsum("pc,pj->pcj", signs, features.gate_values[samples]).reshape(len(samples), K * k)
    units, outputs = np.tile(np.unique(gates.groups, return_inverse=True)[1], K), np.repeat(np.arange(K), k)
    own = GroupLasso(outputs * (units.max() + 1) + units)
    norm = NuclearNorm(units, outputs) if shared else own
    pairs = GatedFeatures(features.X[samples], values)
    name = "several classes, shared units" if shared else "several classes"
    return ClassMarginProblem(pairs, np.ones(len(samples)), norm, C, gates, name, classes=classes)
