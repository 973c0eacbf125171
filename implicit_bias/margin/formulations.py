"""Builders of the margin problems of papers. They fit gates on X if these are not fitted."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import scipy.sparse as sp

from implicit_bias._utils.checks import InputError, as_floats, as_signs, one_of, shown
from implicit_bias.features import Features, GatedFeatures
from implicit_bias.gates import ContextGates, Gates, HiddenActivations
from implicit_bias.margin.constraints import LinearConstraints
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.norms import Frobenius, GroupLasso, Norm, PredictorL2, TwoLayerNorm
from implicit_bias.norms.two_layers import INPUT_LAYERS, OUTPUT_LAYERS

#: Norms of the input layer and of the output layer in which optimisers descend.
OPTIMISERS = {
    "gd": ("frobenius", "l2"),
    "sign": ("entries", "l_inf"),
    "adam": ("entries", "l_inf"),
    "muon": ("spectral", "l2"),
    "muon-sign": ("spectral", "l_inf"),
}
#: Names of other optimisers whose steps without averages of second moments are steepest in the same norms.
SYNONYMS = {"signsgd": "sign", "signum": "sign", "lion": "sign", "shampoo": "muon", "soap": "muon"}


def fitted_gates(X: Any, gates: Any, grouped: bool) -> Gates:
    """Return `gates` fitted on X, or as they are if fitted already; if `grouped`, they must have `groups`."""
    if not isinstance(gates, Gates):
        raise InputError(f"gates must be Gates such as HyperplaneGates(10, 2), not {type(gates).__name__}")
    gates = gates.fitted(X)
    if grouped and not hasattr(gates, "groups"):
        raise InputError(f"{type(gates).__name__} has no `groups`, the unit of each gate; its fit must set them")
    return gates


def _build(X: Any, y: Any, gates: Any, norm: Norm | None, C: float, name: str) -> MarginProblem:
    gates = fitted_gates(X, gates, norm is None)
    features = gates(X)
    return MarginProblem(features, as_signs(y, features.n), norm or GroupLasso(gates.groups), C, gates, name)


def svm_gln(X: Any, y: Any, gates: Gates, C: float = np.inf) -> MarginProblem:
    """SVM-GLN: minimise Σ_h ‖ζ_h‖₂ subject to y_i (Φζ)_i ≥ 1, the limit of gradient descent on a GLN.

    Lippl, Abbott & Chung, eq. 20; Proposition B.8 is the statement about gradient descent.

    Parameters
    ----------
    X : array, shape (n, d)
        Inputs.
    y : array, shape (n,)
        Labels −1 and +1.
    gates : Gates
        Usually `HyperplaneGates`.
    C : float
        Cost of slack; inf for the hard margin.

    Raises
    ------
    InputError
        If arrays, labels or gates are invalid.

    Examples
    --------
    >>> from implicit_bias import HyperplaneGates, load_binary, solve, svm_gln
    >>> task = load_binary("digits", train_size=60)
    >>> problem = svm_gln(task.X_train, task.y_train, HyperplaneGates(4, 2, seed=1).fit(task.X_pool))
    >>> solve(problem).status.name
    'OPTIMAL'
    """
    return _build(X, y, gates, None, C, "SVM-GLN")


def svm_l2(X: Any, y: Any, gates: ContextGates, C: float = np.inf) -> MarginProblem:
    """SVM-L2: minimise ‖Aζ‖_F = K^{1−H/2} ‖β‖₂ subject to y_i (Φζ)_i ≥ 1; `PredictorL2` defines A.

    Parameters and errors are those of `svm_gln`; `gates` must be contexts, such as `HyperplaneGates`.

    Examples
    --------
    >>> from implicit_bias import HyperplaneGates, load_binary, svm_l2
    >>> task = load_binary("digits", train_size=60)
    >>> svm_l2(task.X_train, task.y_train, HyperplaneGates(4, 2)).norm
    PredictorL2(units=4, contexts=2)
    """
    if not isinstance(gates, ContextGates):
        raise InputError(f"SVM-L2 needs contexts, such as HyperplaneGates(10, 2), not {type(gates).__name__}")
    gates = gates.fitted(X)
    return _build(X, y, gates, PredictorL2(gates.units, gates.contexts), C, "SVM-L2")


def svm_rc(X: Any, y: Any, gates: Gates, C: float = np.inf) -> MarginProblem:
    """SVM-RC: minimise Σ_h ‖ζ_h‖₂ with random contexts, usually `RandomHalfSpaces`.

    Parameters and errors are those of `svm_gln`.

    Examples
    --------
    >>> from implicit_bias import RandomHalfSpaces, load_binary, svm_rc
    >>> task = load_binary("digits", train_size=60)
    >>> svm_rc(task.X_train, task.y_train, RandomHalfSpaces(5, seed=1)).norm
    GroupLasso(5 groups, 5 gates)
    """
    return _build(X, y, gates, None, C, "SVM-RC")


def svm_lc(X: Any, y: Any, network: Any, C: float = np.inf) -> MarginProblem:
    """SVM-LC: minimise Σ_h ‖ζ_h‖₂ with the learned contexts 1(⟨w_h, x⟩ ≥ 0) of a trained ReLU network.

    `network` has one output, and either a method `gates()`, like `ReLUNetwork`, or it is a torch module with one hidden
    layer, such as Sequential(Linear, ReLU, Linear). The gates of leaky ReLU units are 1 and their slope. Biases of the
    hidden layer are weights of the constant input, the last column of X, which the module may take or not. Biases of
    the readout are ignored. The other parameters and errors are those of `svm_gln`.

    Examples
    --------
    >>> from implicit_bias import ReLUNetwork, load_binary, svm_lc
    >>> task = load_binary("digits", train_size=60)
    >>> svm_lc(task.X_train, task.y_train, ReLUNetwork(65, 5, seed=1)).name
    'SVM-LC'
    """
    method, torch = getattr(network, "gates", None), sys.modules.get("torch")
    if method is None and torch is not None and isinstance(network, torch.nn.Module):
        # This module loads torch, which a network without it does not need.
        from implicit_bias.gates.modules import learned_gates

        return _build(X, y, learned_gates(network, X), None, C, "SVM-LC")
    if not callable(method) or isinstance(method, Gates):
        raise InputError(f"SVM-LC needs a network with gates(), or a torch module, not {type(network).__name__}")
    if getattr(network, "outputs", 1) != 1:
        raise InputError(f"SVM-LC needs a network with one output, not {network.outputs}")
    return _build(X, y, network.gates(), None, C, "SVM-LC")


def svm_hl(X: Any, y: Any, network: Any, C: float = np.inf) -> MarginProblem:
    """SVM-HL: minimise ‖a‖₂ subject to y_i ⟨a, h(x_i)⟩ ≥ 1 on a trained network's last hidden activations h(x).

    W is (1, H), and there is no intercept. `network` has a method `hidden` from X (n, d) to activations (n, H).

    Examples
    --------
    >>> from implicit_bias import ReLUNetwork, load_binary, svm_hl
    >>> task = load_binary("digits", train_size=60)
    >>> svm_hl(task.X_train, task.y_train, ReLUNetwork(65, 5, seed=1)).features.d
    5
    """
    # Before the gates are cloned, which not everything can be.
    if not callable(getattr(network, "hidden", None)):
        raise InputError(f"SVM-HL needs a network with hidden(X), not {type(network).__name__}")
    return _build(X, y, HiddenActivations(network), Frobenius(), C, "SVM-HL")


def svm_shallow(X: Any, y: Any, gates: Gates, C: float = np.inf) -> MarginProblem:
    """SVM of a shallow GLN: minimise ‖β‖₂ with one linear model per context of `HyperplaneGates(1, contexts)`.

    It separates into one linear SVM per context. With `ConstantGate()` it is the linear SVM without intercept.
    Parameters and errors are those of `svm_gln`.

    Examples
    --------
    >>> from implicit_bias import HyperplaneGates, load_binary, svm_shallow
    >>> task = load_binary("digits", train_size=60)
    >>> svm_shallow(task.X_train, task.y_train, HyperplaneGates(1, 8)).features.k
    8
    """
    return _build(X, y, gates, Frobenius(), C, "SVM-shallow")


def interpolation(features: Any, targets: Any, norm: Norm | None = None, tolerance: Any = 0.0) -> MarginProblem:
    """Least-norm interpolation: minimise ‖W‖ subject to ``|(ΦW)_i − t_i| ≤ ε_i``.

    Gradient descent from 0 on the squared loss of a linear model converges to the solution for the Frobenius norm. The
    conditions are linear constraints, of the rows Φ_i w = t_i, or, for ε_i > 0, Φ_i w ≤ t_i + ε_i and −Φ_i w ≤ ε_i −
    t_i. They imply the margins of the problem, whose λ are 0: ‖Eᵀμ‖_* ≤ 1 for the `multipliers` μ of the solution.

    Parameters
    ----------
    features : Features, or array, shape (n, d)
        Features Φ, or inputs of a linear model.
    targets : array, shape (n,) or (n, c)
        t_i; for several outputs of a linear model, W is (c, d), and the conditions are those of all outputs of x_1, x_2
        and so on.
    norm : Norm, optional
        Norm of W; `Frobenius` by default.
    tolerance : float or array, shape (n,)
        ε_i ≥ 0; of all outputs of x_i.

    Raises
    ------
    InputError
        If arrays are invalid, or W = 0 meets all conditions.

    Examples
    --------
    >>> from implicit_bias import interpolation, solve
    >>> solution = solve(interpolation([[1.0, 0.0, 1.0], [0.0, 2.0, 0.0]], [2.0, -2.0]))
    >>> solution.status.name, solution.weights.round(6).tolist(), round(solution.objective**2, 6)
    ('OPTIMAL', [[1.0, -1.0, 1.0]], 3.0)
    """
    t = as_floats(targets, "targets", (1, 2))
    n, outputs = len(t), t[0].size
    if not isinstance(features, Features):
        X = as_floats(features, "X", 2)
        features = GatedFeatures(np.repeat(X, outputs, axis=0), np.tile(np.eye(outputs), (len(X), 1)))
    given = as_floats(tolerance, "tolerance", (1, 0))
    tolerances = np.full(n, given) if given.ndim == 0 else given
    if features.n != t.size or len(tolerances) != n or not (tolerances >= 0).all():
        raise InputError(f"there must be {features.n} targets, with a tolerance ≥ 0 for each or for all")
    t, room = t.ravel(), np.repeat(tolerances, outputs)
    spare = np.abs(t) - room
    if not (spare > 0).any():
        raise InputError("W = 0 meets all conditions; give a target beyond its tolerance")
    # Rows of samples with a margin are first.
    order = np.argsort(spare <= 0, kind="stable")
    rows, t, room = sp.csr_array(features.dense()[order]), t[order], room[order]
    wide = room > 0
    E, h = sp.vstack([rows, -rows[wide]]), np.append(t + room, (room - t)[wide])
    constraints = LinearConstraints(sp.csr_array(E), ~np.append(wide, wide[wide]), (features.k, features.d), h)
    used = order[: np.count_nonzero(spare > 0)]
    least, signs = spare[used] / 2, np.where(t[: len(used)] > 0, 1.0, -1.0)
    return MarginProblem(
        features.select(used), signs, norm or Frobenius(), np.inf, None, "interpolation", least, constraints=constraints
    )


def layers_of(optimiser: str | tuple[str, str]) -> tuple[str, str]:
    """Return the names of the norms of the input layer and of the output layer in which an optimiser descends.

    `optimiser` is a name in `OPTIMISERS` or `SYNONYMS`, or these two names themselves.

    >>> layers_of("muon"), layers_of(("rows", "l2"))
    (('spectral', 'l2'), ('rows', 'l2'))
    """
    if isinstance(optimiser, str):
        name = one_of(optimiser, (*OPTIMISERS, *SYNONYMS), "optimiser")
        return OPTIMISERS[SYNONYMS.get(name, name)]
    if isinstance(optimiser, tuple) and len(optimiser) == 2:
        return one_of(optimiser[0], INPUT_LAYERS, "input_layer"), one_of(optimiser[1], OUTPUT_LAYERS, "output_layer")
    raise InputError(f"optimiser must be a name or the norms of two layers, not {shown(optimiser)}")


def svm_of_optimiser(
    X: Any, y: Any, gates: Gates, optimiser: str | tuple[str, str], C: float = np.inf, *, multiplicities: Any = 1
) -> MarginProblem:
    """Margin problem that an optimiser of a two-layer network with fixed gates solves in the limit.

    Steepest descent in max(‖v‖, ‖U‖) on f(x) = Σ_h v_h ⟨u_h, φ_h(x)⟩ tends in direction to a KKT point of

        minimise max(‖v‖, ‖U‖)   subject to   y_i f(x_i) ≥ 1.

    `TwoLayerNorm` states the problem for the effective weights ζ_h = v_h u_h. A KKT point solves it if no v_h is 0,
    the output layer has the norm l2 or l_inf, and the input layer any but l1; that statement is ours.

    ===========  ===========  ======  =================================================================================
    Optimiser    ‖U‖          ‖v‖     Convergence to KKT points
    ===========  ===========  ======  =================================================================================
    "gd"         frobenius    l2      Lyu & Li (2020), gradient flow; Lippl, Abbott & Chung, Proposition B.8
    "sign"       entries      l_inf   Tsilivis, Vardi & Kempe (arXiv 2410.22069), steepest flow
    "adam"       entries      l_inf   Gronich & Vardi (arXiv 2602.16340), smooth networks, full batches, ε = 0
    "muon"       spectral     l2      Gronich & Vardi, as above, one norm for each layer; v with normalised gradients
    "muon-sign"  spectral     l_inf   Gronich & Vardi, as above; v with the signs of its gradient, or with Adam
    ===========  ===========  ======  =================================================================================

    Gradient flow is steepest in (‖v‖² + ‖U‖²)^½, with the same norm of ζ. Rates fall to 0. With ε > 0, Adam ends as
    gradient descent. Fixed gates are smooth in the weights; no theorem covers minibatches, or gates that are learned.

    "signsgd" and "signum" are "sign", and so is "lion", whose steps are signs of another mean gradient. "shampoo"
    without accumulation is steepest in the spectral norm (Bernstein & Newhouse, arXiv 2409.20325), and so is "soap":
    in Shampoo's basis the gradient is diagonal, and Adam without averages takes its signs. Both are "muon" if v is a
    matrix (1, H). No theorem covers their averages, nor Lion.

    Parameters
    ----------
    X, y, gates, C
        As in `svm_gln`. Row h of U contains the weights of all gates of unit h, as `gates.groups` says.
    optimiser : str or pair of str
        A name above, or the norms of U and v, such as ("rows", "l_inf"); see `TwoLayerNorm`.
    multiplicities : int or array of int, shape (H,)
        Number of units that share the gates of unit h.

    Raises
    ------
    InputError
        As for `svm_gln`; if the optimiser is unknown; or if the norms of the layers do not induce a convex problem.

    Examples
    --------
    >>> from implicit_bias import HyperplaneGates, load_binary, solve, svm_of_optimiser
    >>> task = load_binary("digits", train_size=60)
    >>> problem = svm_of_optimiser(task.X_train, task.y_train, HyperplaneGates(4, 2, seed=1).fit(task.X_pool), "gd")
    >>> problem.norm
    TwoLayerNorm(frobenius, l2, 4 units, 8 gates)
    >>> solve(problem).status.name
    'OPTIMAL'
    """
    layers, gates = layers_of(optimiser), fitted_gates(X, gates, grouped=True)
    name = f"SVM of {optimiser if isinstance(optimiser, str) else ' and '.join(map(str, layers))}"
    return _build(X, y, gates, TwoLayerNorm(gates.groups, *layers, multiplicities), C, name)
