"""The classifiers of ReLU networks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from implicit_bias._utils.checks import Array, InputError, as_count, one_of
from implicit_bias.estimators.base import MarginClassifier
from implicit_bias.gates import Gates, RandomHalfSpaces
from implicit_bias.gates.hyperplanes import Cutoff, check_cutoff
from implicit_bias.margin.classes import svm_classes
from implicit_bias.margin.formulations import svm_hl, svm_lc, svm_rc
from implicit_bias.margin.problem import MarginProblem

if TYPE_CHECKING:
    from implicit_bias.networks import ReLUNetwork
    from implicit_bias.training.optimisers import SGD


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
