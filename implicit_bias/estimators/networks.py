"""Classifiers that are the limits of gated linear and ReLU networks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_count, one_of, shown
from implicit_bias._utils.missing import torch_is_needed
from implicit_bias._utils.validation import validated
from implicit_bias.estimators.base import MarginClassifier
from implicit_bias.gates import ConstantGate, Gates, HyperplaneGates, RandomHalfSpaces
from implicit_bias.gates.hyperplanes import Cutoff, check_cutoff
from implicit_bias.margin.classes import ClassMarginProblem, svm_classes
from implicit_bias.margin.constraints import LinearConstraints
from implicit_bias.margin.formulations import svm_gln, svm_hl, svm_l2, svm_lc, svm_rc, svm_shallow
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.norms import Frobenius, Norm

if TYPE_CHECKING:
    from implicit_bias.networks import ReLUNetwork
    from implicit_bias.training.optimisers import SGD

#: Coefficient of the intercept up to which it cancels in a constraint.
CANCELLED = 1e-9


@dataclass(kw_only=True, eq=False, repr=False)
class _GatedClassifier(MarginClassifier):
    """Base class of the classifiers whose scores are linear in W for any inputs, so that they may be constrained."""

    constraints: Any = None

    @property
    def coef_(self) -> Array:
        """Gradients of linear scores, shape (1, p) or (classes, p): of ``contexts=1``, or ``gates=ConstantGate()``.

        The scores are ``X @ coef_.T + decision_function(0)``. `intercept_` lacks the weight of the constant input.
        """
        gates: Any = self.gates_[0] if isinstance(self.gates_, list) else self.gates_
        if type(gates) is not ConstantGate and getattr(gates, "contexts", None) != 1:
            raise AttributeError("only linear classifiers have coef_, such as those with contexts=1")
        return np.atleast_2d(self.weights_.sum(axis=-2))[:, : self.n_features_in_]

    def _constrained(self, problem: MarginProblem) -> MarginProblem:
        if self.constraints is None:
            return problem
        if not callable(self.constraints):
            raise InputError(f"constraints must be a function of the predictor f, not {shown(self.constraints)}")
        if isinstance(problem, ClassMarginProblem):
            raise InputError("constraints need one problem per class: use multi_class='ovr'")
        # Imported here because CVXPY takes a second to load, and only constraints need it.
        import cvxpy as cp

        def features(Z: Any) -> Array:
            assert problem.gates is not None
            return problem.gates(self._inputs(validated(self, Z, reset=False, sparse=True))).dense()

        limited = replace(problem, constraints=lambda W: self.constraints(lambda Z: features(Z) @ cp.vec(W, order="C")))
        # The same constraints on the predictor f = b.
        constant = lambda b: self.constraints(lambda Z: np.ones(len(features(Z))) * b[0, 0])  # noqa: E731
        intercept = LinearConstraints.of(constant, (1, 1))
        if problem.intercept and np.abs(intercept.E).max() > CANCELLED:
            raise InputError("the intercept must cancel in constraints, as in differences; set free_intercept=False")
        return limited


@dataclass(eq=False, repr=False)
class GLNClassifier(_GatedClassifier):
    """Max-margin classifier that is the limit of a gated linear network (SVM-GLN or SVM-L2).

        minimise ‖ζ‖ + C Σ_i c_i ξ_i   subject to   y_i ((Φζ)_i + b) ≥ 1 − ξ_i,   ξ ≥ 0

    Φ are the features of random hyperplane contexts.

    Parameters
    ----------
    units, contexts : int
        H units with 2^b contexts each (`HyperplaneGates`).
    C : float or 'scale'
        Cost of slack; `inf` for the hard margin. Because the norm is not squared, all weights are zero below some C.
        'scale' is C = 4.6/√(max_h Σ_i c_i² ‖φ_h(x_i)‖²), about 4.6/(√n · length of the inputs), which falls with n as
        the best C does; φ_h are the features of a group of the norm. With a free intercept, the c_i of the larger class
        count times the ratio of the classes' sizes, so that C is larger if the other class is rare.
    norm : 'group-lasso', 'predictor-l2', 'frobenius' or a Norm
        Σ_h ‖ζ_h‖₂ (SVM-GLN), ‖β‖₂ of the predictors (SVM-L2), ‖ζ‖_F, or a norm for gates of these H units.
    cutoff : 'median', 'random', number or (low, high)
        As for `HyperplaneGates`. The default draws quantiles; medians, as in the experiments of Lippl, Abbott & Chung,
        let all hyperplanes pass close to the centre, where gates of few inputs are too much alike.
    fit_intercept : bool
        Append the constant input 1, so that every context has its own bias, penalised like any weight.
    free_intercept : bool
        Add one intercept b that the norm does not penalise, as in SVC. The limit of gradient descent has no free
        intercept; choose False to compute this limit.
    solver, tol, device, verbose
        As for `solve`, for the problem of each class.
    max_seconds : float, optional
        Time limit of a fit. The classes share the time left, and each returns its best answer so far (TIME_LIMIT).
    n_jobs : int, optional
        Number of processes for the classes; −1 for one per core. The number does not change the result.
    warm_start : bool
        Start from the solutions of the last `fit` if it was on the same samples, for example at another C.
    class_weight : dict, 'balanced' or None
        Positive factors of the sample weights of each class, as in scikit-learn. 'balanced' takes sample weights into
        account.
    random_state : int, RandomState or None
        An int is the seed of the gates, as in `HyperplaneGates(seed=…)`.
    multi_class : 'ovr', 'joint' or 'shared'
        Method for more than two classes. 'ovr' solves one problem per class, this class against the rest. The others
        solve one joint problem (`svm_classes`) without a free intercept: f_{y_i}(x_i) − f_c(x_i) ≥ 1 − ξ_ic for all
        c ≠ y_i. In experiments, descent on the softmax loss converges to its hard margin. With 'joint' each output has
        its own units; the norm is 'group-lasso' or 'frobenius'. With 'shared' all outputs share the units, which is
        slower; the norm is 'group-lasso'.
    constraints : function, optional
        Maps the predictor f to linear constraints in CVXPY (`MarginProblem`). f maps inputs Z (m, p), scaled like those
        of `fit`, to the expression of their scores (m,). The constraints hold for the score of every class. An example
        is `lambda f: cp.abs(cp.mean(f(A)) - cp.mean(f(B))) <= 0.1`. A free intercept must cancel in them, and `norm`
        must not be 'predictor-l2'. CLARABEL solves such problems.

    Attributes
    ----------
    classes_ : array
    certificate_ : Solution or list of Solution
        A list in the order of `classes_` for 'ovr' with more than two classes. For 'joint' and 'shared' a single
        certificate over all pairs of a sample and another class.
    status_ : Status
        Status of the first solution that is not OPTIMAL, else OPTIMAL.
    weights_ : array, shape (k, d), or (classes, k, d)
        W of the certificates.
    intercept_ : array, shape (1,), or (classes,)
        The free intercepts b; 0 without.
    C_ : float, or array of shape (classes,)
        C of the problems; an array if 'scale' differs between the classes.
    gates_ : Gates or list of Gates
        Fitted gates, a list if `certificate_` is one.
    samples_ : array of int
        Indices in X of the distinct samples with weight, in the order of the certificates. Of equal samples, whose
        weights are added, `samples_` contains the first.
    support_ : array of int
        Indices in X of the support vectors (λ_i > 0), of all problems together.
    n_support_ : array of int, shape (classes,)
        Number of support vectors of each class.
    n_features_in_ : int
        Number p of inputs.
    feature_names_in_ : array
        As in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from implicit_bias import GLNClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), GLNClassifier(units=5, C=0.1, random_state=1)).fit(X[:400], y[:400])
    >>> model[-1].status_.name, model.score(X[400:], y[400:]) > 0.95
    ('OPTIMAL', True)
    """

    units: int = 100
    contexts: int = 2
    C: float | str = "scale"
    norm: str | Norm = field(default="group-lasso", kw_only=True)
    cutoff: Cutoff = field(default=(0.1, 0.9), kw_only=True)

    def _shared_gates(self, X: Array, seed: int, weight: Array | None) -> Gates:
        return HyperplaneGates(self.units, self.contexts, seed, self.cutoff).fit(X, sample_weight=weight)

    def _problem(self, X: Array, y: Array, gates: Gates | None, seed: int) -> MarginProblem:
        assert isinstance(gates, HyperplaneGates)
        if isinstance(self.norm, Norm):
            return replace(svm_gln(X, y, gates), norm=self.norm)
        kind = one_of(self.norm, ("group-lasso", "predictor-l2", "frobenius"), "norm")
        if kind == "frobenius":
            return svm_shallow(X, y, gates).replace(name="SVM-Fro")
        return (svm_gln if kind == "group-lasso" else svm_l2)(X, y, gates)

    def _joint_problem(self, X: Array, codes: np.ndarray, gates: Gates | None, seed: int) -> MarginProblem:
        assert gates is not None
        supported = ("group-lasso",) if self.multi_class == "shared" else ("group-lasso", "frobenius")
        if not isinstance(self.norm, str) or self.norm not in supported:
            names = " or ".join(map(repr, supported))
            raise InputError(f"multi_class={self.multi_class!r} takes norm={names}, not {shown(self.norm)}")
        problem = svm_classes(X, codes, gates, shared=self.multi_class == "shared")
        return problem.replace(norm=Frobenius()) if self.norm == "frobenius" else problem


@dataclass(eq=False, repr=False)
class GatedReLUClassifier(_GatedClassifier):
    """Max-margin classifier that is the limit of a ReLU network with fixed gates.

        minimise Σ_h ‖ζ_h‖₂ + C Σ_i c_i ξ_i   subject to   y_i ((Φζ)_i + b) ≥ 1 − ξ_i,   ξ ≥ 0

    The gates are random (SVM-RC), learned (SVM-LC) or given.

    Parameters
    ----------
    units : int
        Number H of half-spaces, or of hidden units of the network; no effect for given gates.
    C, fit_intercept, free_intercept, solver, tol, max_seconds, device, verbose, n_jobs, warm_start
        As for `GLNClassifier`.
    class_weight, multi_class, constraints
        As for `GLNClassifier`.
    random_state : int, RandomState or None
        An int is the seed of half-spaces, network and training.
    gates : 'random', 'learned' or Gates
        'random' is `RandomHalfSpaces`. 'learned' are the gates of a `ReLUNetwork` trained on the samples without their
        weights: one network per class for 'ovr', else one network with an output per class. Custom gates get the
        constant input, too (`fit_intercept`). A copy of unfitted gates is fitted; grid search and cross-validation
        clone the gates and fit the clones on every part.
    cutoff : 'median', 'random', number or (low, high)
        Cutoff of random half-spaces, by default as for `GLNClassifier`.
    training : SGD, optional
        Training of the network of learned gates; `SGD()` by default.

    Attributes
    ----------
    classes_, C_, certificate_, status_, weights_, intercept_, gates_, samples_, support_, n_support_
        As for `GLNClassifier`.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    A sample in no half-space has the score 0 for all weights, so that no hard margin exists. To avoid this, choose
    gates=RandomHalfSpaces(…, always_on=True).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from implicit_bias import GatedReLUClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GatedReLUClassifier(units=20, C=1.0, random_state=0).fit(X, y)
    >>> model.decision_function(X).shape, model.score(X, y) > 0.95, [c.gap < 1e-6 for c in model.certificate_]
    ((150, 3), True, [True, True, True])
    """

    units: int = 200
    C: float | str = "scale"
    gates: str | Gates = field(default="random", kw_only=True)
    cutoff: Cutoff = field(default=(0.1, 0.9), kw_only=True)
    training: SGD | None = field(default=None, kw_only=True)

    def _shared_gates(self, X: Array, seed: int, weight: Array | None) -> Gates | None:
        # The cutoff is checked for all kinds of gates, although only random half-spaces use it.
        check_cutoff(self.cutoff)
        if isinstance(self.gates, Gates):
            return self.gates.fitted(X, weight)
        if one_of(self.gates, ("random", "learned"), "gates") == "learned":
            return None
        return RandomHalfSpaces(self.units, seed, self.cutoff).fit(X, sample_weight=weight)

    def _problem(self, X: Array, y: Array, gates: Gates | None, seed: int) -> MarginProblem:
        if gates is not None:
            return svm_rc(X, y, gates)
        return svm_lc(X, y, _trained(X, y, self.units, seed, self.training))

    def _joint_problem(self, X: Array, codes: np.ndarray, gates: Gates | None, seed: int) -> MarginProblem:
        if gates is None:
            gates = _trained(X, codes, self.units, seed, self.training, outputs=int(codes.max()) + 1).gates()
        return svm_classes(X, codes, gates, shared=self.multi_class == "shared")


@dataclass(eq=False, repr=False)
class HiddenLayerClassifier(_GatedClassifier):
    """Max-margin classifier on the hidden activations of a trained ReLU network (SVM-HL).

        minimise ‖a‖₂ + C Σ_i c_i ξ_i   subject to   y_i ⟨a, h(x_i)⟩ ≥ 1 − ξ_i,   ξ ≥ 0

    Parameters
    ----------
    units : int
        Number H of hidden units.
    training : SGD, optional
        Training of the network, which ignores sample weights; `SGD()` by default.
    solver, tol, max_seconds, device, verbose, n_jobs, warm_start, C, fit_intercept, free_intercept, class_weight
        As for `GatedReLUClassifier`, like `constraints`; the constant is an input of the network. `multi_class` must
        be 'ovr'.
    random_state : int, RandomState or None
        An int is the seed of the network and its training.

    Attributes
    ----------
    weights_ : array, shape (1, H), or (classes, 1, H)
    gates_ : HiddenActivations, or a list of one per class
        Their `network` is the trained one.
    classes_, C_, certificate_, status_, intercept_, samples_, support_, n_support_, n_features_in_, feature_names_in_
        As for `GLNClassifier`.

    Examples
    --------
    >>> from implicit_bias import SGD, HiddenLayerClassifier, load_binary
    >>> task = load_binary("digits", train_size=100)
    >>> model = HiddenLayerClassifier(units=10, training=SGD(steps=200), random_state=1)
    >>> model.fit(task.X_train, task.y_train).certificate_.gap < 1e-6
    True
    """

    units: int = 20
    C: float | str = "scale"
    training: SGD | None = field(default=None, kw_only=True)

    def _problem(self, X: Array, y: Array, gates: Gates | None, seed: int) -> MarginProblem:
        return svm_hl(X, y, _trained(X, y, self.units, seed, self.training))


def _trained(X: Array, y: Array, units: int, seed: int, config: SGD | None, outputs: int = 1) -> ReLUNetwork:
    """Return a ReLU network trained on signs or classes y, in float64, so that batching changes no score."""
    with torch_is_needed("a classifier of learned gates or hidden units"):
        from implicit_bias.networks import ReLUNetwork
        from implicit_bias.training.optimisers import SGD
        from implicit_bias.training.sgd import train

    if not isinstance(config, SGD | None):
        raise InputError(f"training must be an SGD(…) or None, not {type(config).__name__}")
    network = ReLUNetwork(X.shape[1], as_count(units, "units"), outputs=outputs, seed=seed)
    if train(network, X, y, config, seed=seed, every=10**9).interrupted:
        raise KeyboardInterrupt
    return network.double()
