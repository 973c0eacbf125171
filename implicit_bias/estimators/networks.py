"""The classifiers of gated linear and ReLU networks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_count, one_of
from implicit_bias.estimators.base import MarginClassifier
from implicit_bias.gates import Gates, HyperplaneGates, RandomHalfSpaces
from implicit_bias.gates.hyperplanes import Cutoff, check_cutoff
from implicit_bias.margin.classes import svm_classes
from implicit_bias.margin.formulations import svm_gln, svm_hl, svm_l2, svm_lc, svm_rc, svm_shallow
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.norms import Frobenius, Norm

if TYPE_CHECKING:
    from implicit_bias.networks import ReLUNetwork
    from implicit_bias.training.optimisers import SGD


@dataclass(eq=False, repr=False)
class GLNClassifier(MarginClassifier):
    """The limit of a trained gated linear network: SVM-GLN, or SVM-L2, over random hyperplane contexts.

        minimise ‖ζ‖ + C Σ_i c_i ξ_i   subject to   y_i ((Φζ)_i + b) ≥ 1 − ξ_i,   ξ ≥ 0

    Parameters
    ----------
    units, contexts : int
        H units with 2^b contexts each (`HyperplaneGates`).
    C : float
        The price of slack; `inf` for the hard margin. The norm is not squared: below some C all weights are zero.
    norm : 'group-lasso', 'predictor-l2', 'frobenius' or a Norm
        Σ_h ‖ζ_h‖₂ (SVM-GLN), ‖β‖₂ of the predictors (SVM-L2), ‖ζ‖_F, or one for gates of these H units.
    cutoff : 'median', 'random', number or (low, high)
        As for `HyperplaneGates`.
    fit_intercept : bool
        Append the constant input 1, so that every context has a bias of its own (penalised like any weight).
    free_intercept : bool
        Add one bias b that costs nothing, as SVC does. The limit of gradient descent has none: False.
    solver, tol, max_seconds, device, verbose
        As for `solve`, for the problem of each class.
    n_jobs : int, optional
        Processes that share the classes between them; −1 for one per core. The answer is the same.
    warm_start : bool
        Start from the solutions of the last `fit`, if it was on the same samples, for example at another C.
    class_weight : dict, 'balanced' or None
        Multiplies the prices of the classes' samples, as in scikit-learn; positive. 'balanced' counts sample weights.
    random_state : int, RandomState or None
        An int is the seed of the gates, as in `HyperplaneGates(seed=…)`.
    multi_class : 'ovr', 'joint' or 'shared'
        More than two classes: one problem each, this class against the rest; or one problem of all (`svm_classes`), to
        whose hard margin softmax descent is seen to tend: f_{y_i}(x_i) − f_c(x_i) ≥ 1 − ξ_ic for all c ≠ y_i, whose
        outputs have units of their own ('joint'), or share them ('shared', slower). There is then no free intercept.
        The norm is that of 'group-lasso'; 'joint' takes 'frobenius', too.

    Attributes
    ----------
    classes_ : array
    certificate_ : Solution, or a list of one per class if there are more than two
        Of 'joint' and 'shared' one, over all pairs of a sample and another class.
    status_ : Status
        OPTIMAL, or the first that is not.
    weights_ : array, shape (k, d), or (classes, k, d)
        W.
    intercept_ : array, shape (1,), or (classes,)
        The free intercepts b; 0 without.
    gates_ : Gates, fitted, or a list of one per class
        As many as `certificate_`.
    samples_ : array of int
        The samples that the certificates are over, in their order: those with weight, and of equal ones, whose weights
        are added, the first.
    support_ : array of int
        Those of them that carry the solutions (λ_i > 0).
    n_support_ : array of int, shape (classes,)
        How many there are of each class.
    n_features_in_ : int
        p.
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

    units: int = 10
    contexts: int = 2
    C: float = 1.0
    norm: str | Norm = field(default="group-lasso", kw_only=True)
    cutoff: Cutoff = field(default="median", kw_only=True)

    def _shared(self, X: Array, seed: int, weight: Array | None) -> Gates:
        return HyperplaneGates(self.units, self.contexts, seed, self.cutoff).fit(X, sample_weight=weight)

    def _problem(self, X: Array, y: Array, gates: Gates | None, seed: int) -> MarginProblem:
        assert isinstance(gates, HyperplaneGates)
        if isinstance(self.norm, Norm):
            return replace(svm_gln(X, y, gates, self.C), norm=self.norm)
        kind = one_of(self.norm, ("group-lasso", "predictor-l2", "frobenius"), "norm")
        if kind == "frobenius":
            return svm_shallow(X, y, gates, self.C).replace(name="SVM-Fro")
        return (svm_gln if kind == "group-lasso" else svm_l2)(X, y, gates, self.C)

    def _joint_problem(self, X: Array, codes: np.ndarray, gates: Gates | None, seed: int) -> MarginProblem:
        assert gates is not None
        known = ("group-lasso",) if self.multi_class == "shared" else ("group-lasso", "frobenius")
        if not isinstance(self.norm, str) or self.norm not in known:
            raise InputError(f"multi_class={self.multi_class!r} takes norm={' or '.join(map(repr, known))}")
        problem = svm_classes(X, codes, gates, self.C, shared=self.multi_class == "shared")
        return problem.replace(norm=Frobenius()) if self.norm == "frobenius" else problem


@dataclass(eq=False, repr=False)
class GatedReLUClassifier(MarginClassifier):
    """The limit of a ReLU network whose gates stay: SVM-RC with random, SVM-LC with learned, or given gates.

        minimise Σ_h ‖ζ_h‖₂ + C Σ_i c_i ξ_i   subject to   y_i ((Φζ)_i + b) ≥ 1 − ξ_i,   ξ ≥ 0

    Parameters
    ----------
    units : int
        H half-spaces, or hidden units of the network; without effect for given gates.
    C, fit_intercept, free_intercept, solver, tol, max_seconds, device, verbose, n_jobs, warm_start
        As for `GLNClassifier`.
    class_weight, multi_class
        As for `GLNClassifier`.
    random_state : int, RandomState or None
        An int is the seed of half-spaces, network and training.
    gates : 'random', 'learned' or Gates
        'random': `RandomHalfSpaces`. 'learned': those of a `ReLUNetwork` trained on the samples, one network per class,
        or one of as many outputs unless `multi_class` is 'ovr'; sample weights play no part in its training. Gates of
        your own see the constant input too (`fit_intercept`); unfitted ones are fitted on a copy.
        A search or cross-validation clones them, that is, fits them again on every part.
    cutoff : 'median', 'random', number or (low, high)
        Of random half-spaces.
    training : SGD, optional
        How the network of learned gates is trained.

    Attributes
    ----------
    classes_, certificate_, status_, weights_, intercept_, gates_, samples_, support_, n_support_
        As for `GLNClassifier`.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    A sample in no half-space scores 0, and no weights give it a margin: with a hard margin it is a proof that nothing
    separates; use `RandomHalfSpaces(…, always_on=True)` as gates.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from implicit_bias import GatedReLUClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = GatedReLUClassifier(units=20, random_state=0).fit(X, y)
    >>> model.decision_function(X).shape, model.score(X, y) > 0.95, [c.gap < 1e-6 for c in model.certificate_]
    ((150, 3), True, [True, True, True])
    """

    units: int = 20
    C: float = 1.0
    gates: str | Gates = field(default="random", kw_only=True)
    cutoff: Cutoff = field(default="median", kw_only=True)
    training: SGD | None = field(default=None, kw_only=True)

    def _shared(self, X: Array, seed: int, weight: Array | None) -> Gates | None:
        # Parameters that other gates make no use of are checked all the same.
        check_cutoff(self.cutoff)
        if isinstance(self.gates, Gates):
            return self.gates.fitted(X, weight)
        if one_of(self.gates, ("random", "learned"), "gates") == "learned":
            return None
        return RandomHalfSpaces(self.units, seed, self.cutoff).fit(X, sample_weight=weight)

    def _problem(self, X: Array, y: Array, gates: Gates | None, seed: int) -> MarginProblem:
        if gates is not None:
            return svm_rc(X, y, gates, self.C)
        return svm_lc(X, y, _trained(X, y, self.units, seed, self.training), self.C)

    def _joint_problem(self, X: Array, codes: np.ndarray, gates: Gates | None, seed: int) -> MarginProblem:
        if gates is None:
            gates = _trained(X, codes, self.units, seed, self.training, outputs=int(codes.max()) + 1).gates()
        return svm_classes(X, codes, gates, self.C, shared=self.multi_class == "shared")


@dataclass(eq=False, repr=False)
class HiddenLayerClassifier(MarginClassifier):
    """The maximum margin on a trained ReLU network's hidden activations: SVM-HL.

        minimise ‖a‖₂ + C Σ_i c_i ξ_i   subject to   y_i ⟨a, h(x_i)⟩ ≥ 1 − ξ_i,   ξ ≥ 0

    Parameters
    ----------
    units : int
        Hidden units H.
    training : SGD, optional
        How the network is trained; sample weights play no part in it.
    solver, tol, max_seconds, device, verbose, n_jobs, warm_start, C, fit_intercept, free_intercept, class_weight
        As for `GatedReLUClassifier`; the constant input goes into the network. `multi_class` is 'ovr' only.
    random_state : int, RandomState or None
        An int is the seed of the network and its training.

    Attributes
    ----------
    weights_ : array, shape (1, H), or (classes, 1, H)
    gates_ : HiddenActivations, or a list of one per class
        Their `network` is the trained one.
    classes_, certificate_, status_, intercept_, samples_, support_, n_support_, n_features_in_, feature_names_in_
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
    C: float = 1.0
    training: SGD | None = field(default=None, kw_only=True)

    def _problem(self, X: Array, y: Array, gates: Gates | None, seed: int) -> MarginProblem:
        return svm_hl(X, y, _trained(X, y, self.units, seed, self.training), self.C)


def _trained(X: Array, y: Array, units: int, seed: int, config: SGD | None, outputs: int = 1) -> ReLUNetwork:
    """A ReLU network trained on X and signs or classes y, in float64: scores must not depend on samples' batches."""
    from implicit_bias.networks import ReLUNetwork
    from implicit_bias.training.optimisers import SGD
    from implicit_bias.training.sgd import train

    if not isinstance(config, SGD | None):
        raise InputError(f"training must be an SGD(…) or None, not {type(config).__name__}")
    network = ReLUNetwork(X.shape[1], as_count(units, "units"), outputs=outputs, seed=seed)
    if train(network, X, y, config, seed=seed, every=10**9).interrupted:
        raise KeyboardInterrupt
    return network.double()
