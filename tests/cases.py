"""The gates, features, norms and solvers that the laws are swept over (`test_laws*.py`), each listed once."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
import torch
from hypothesis import settings
from sklearn.preprocessing import StandardScaler

import implicit_bias as ib
from implicit_bias.features import Features
from implicit_bias.gates import FunctionContexts, Gates, HiddenActivations, LeakyReLUGates, ProductGates
from implicit_bias.norms import Norm
from implicit_bias.solvers.cvxpy_solvers import CVXPY_SOLVERS
from implicit_bias.training import SGD, Adam, Muon, Signum, TorchOptimiser
from implicit_bias.training.optimisers import Optimiser


def _filters(X: np.ndarray, seed: int, units: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(units, X.shape[1]))


def _sign_and_squares(X: np.ndarray) -> np.ndarray:
    return np.column_stack([X[:, 0] > 0, X[:, :2] ** 2])


def _slabs(X: np.ndarray, units: int, contexts: int) -> np.ndarray:
    """Return the contexts (n, units): for each unit, the slab of X between equidistant cuts in one direction."""
    return np.digitize(X @ _filters(X, 6, units).T, np.linspace(-2, 2, contexts + 1)[1:-1])


#: Gates fitted on inputs X (n, d).
GATES: dict[str, Callable[[np.ndarray], Gates]] = {
    "constant": lambda X: ib.ConstantGate().fit(X),
    "contexts 2": lambda X: ib.HyperplaneGates(4, 2, seed=3).fit(X),
    "contexts 4": lambda X: ib.HyperplaneGates(3, 4, seed=3, cutoff="random").fit(X),
    "contexts 1": lambda X: ib.HyperplaneGates(2, 1).fit(X),
    "contexts 3": lambda X: FunctionContexts(functools.partial(_slabs, units=4, contexts=3), 3).fit(X),
    "contexts 5": lambda X: FunctionContexts(functools.partial(_slabs, units=2, contexts=5), 5).fit(X),
    "quantiles": lambda X: ib.HyperplaneGates(3, 2, seed=5, cutoff=(0.3, 0.7)).fit(X),
    "region": lambda X: ib.HyperplaneGates(1, 8, seed=3).fit(X),
    "subsets": lambda X: ib.SubsetGates(3, 4, 2, seed=3).fit(X),
    "occupied": lambda X: ib.OccupiedRegions(ib.HyperplaneGates(1, 16, seed=3).fit(X)).fit(X),
    "half-spaces": lambda X: ib.RandomHalfSpaces(5, seed=2, always_on=True).fit(X),
    "fixed cutoff": lambda X: ib.RandomHalfSpaces(4, seed=2, cutoff=0.1).fit(X),
    "relu": lambda X: ib.ReLUGates(_filters(X, 8, 6)),
    "leaky": lambda X: LeakyReLUGates(_filters(X, 8, 3), slope=0.2),
    "soft": lambda X: ib.SoftGates(_filters(X, 9, 4), sharpness=2.0),
    "product": lambda X: ProductGates([ib.ReLUGates(_filters(X, 8, 2)), ib.SoftGates(_filters(X, 9, 3))]),
    "function": lambda X: ib.FunctionGates(_sign_and_squares, [0, 1, 1]).fit(X),
    "hidden": lambda X: HiddenActivations(ib.ReLUNetwork(X.shape[1], 30, seed=4)).fit(X),
}


class OwnFeatures(Features):
    """User-defined features that implement the required methods and no others."""

    def __init__(self, blocks: np.ndarray) -> None:
        self.blocks = blocks

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.blocks.shape

    def dense(self) -> np.ndarray:
        return self.blocks.reshape(len(self.blocks), -1)


class OwnNorm(Norm):
    """Nuclear norm with only the methods that a custom norm needs; arguments replace them."""

    rotation_invariant = True

    def __init__(self, **methods: Any) -> None:
        vars(self).update(methods)

    def value(self, W: Any) -> float:
        return float(np.linalg.norm(W, "nuc"))

    def dual(self, V: Any) -> float:
        return float(np.linalg.norm(V, 2))

    def expression(self, W: Any) -> Any:
        return cp.normNuc(W)

    def __repr__(self) -> str:
        return "OwnNorm()"


def _kernels(features: ib.GatedFeatures) -> ib.KernelFeatures:
    """Return KernelFeatures with one kernel for each gate of the features."""
    return ib.KernelFeatures.from_kernels(
        [features.mixed(np.eye(features.k)[:, [j]]).gram() for j in range(features.k)]
    )


def _subsets(features: ib.GatedFeatures) -> ib.SubsetFeatures:
    """Return SubsetFeatures with one unit for each gate, whose inputs are products of the gate and the inputs."""
    n, k, d = features.shape
    return ib.SubsetFeatures(features.dense(), np.zeros((n, k), np.int64), np.arange(k * d).reshape(k, d), 1)


#: The features of gates on inputs, as features of each kind; with the same Gram matrix.
FEATURES: dict[str, Callable[[ib.GatedFeatures], Features]] = {
    "gated": lambda features: features,
    "chunked": lambda features: ib.ChunkedFeatures(ib.ChunkedInputs(features.X, chunk=7), features.gate_values),
    "blocks": lambda features: ib.KernelFeatures(features.dense().reshape(features.shape)),
    "kernels": _kernels,
    "subsets": _subsets,
    "own": lambda features: OwnFeatures(features.dense().reshape(features.shape)),
}


def _predictor(groups: np.ndarray) -> ib.PredictorL2 | None:
    """Return PredictorL2 if all units in `groups` have equally many contexts, else None."""
    sizes = np.unique(groups, return_counts=True)[1]
    return None if np.ptp(sizes) else ib.PredictorL2(len(sizes), int(sizes[0]))


def _nuclear(groups: np.ndarray) -> ib.NuclearNorm | None:
    """Return NuclearNorm if all units in `groups` have equally many gates, else None.

    With an even number of units, two units share a matrix with a row for each; otherwise each unit has a matrix
    with a row for each of its gates.
    """
    labels, units, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if np.ptp(sizes):
        return None
    if len(labels) % 2 == 0:
        return ib.NuclearNorm(units // 2, units % 2)
    return ib.NuclearNorm(units, [int(np.sum(units[:j] == unit)) for j, unit in enumerate(units)])


def _layers(input_layer: str, output_layer: str) -> Callable[[np.ndarray], ib.TwoLayerNorm | None]:
    """Return the function from groups to a TwoLayerNorm with multiplicities 1, 2, 3, 1, …, or to None."""

    def norm(groups: np.ndarray) -> ib.TwoLayerNorm | None:
        labels, sizes = np.unique(groups, return_counts=True)
        if input_layer == "spectral" and np.ptp(sizes):
            return None
        return ib.TwoLayerNorm(groups, input_layer, output_layer, 1 + labels % 3)

    return norm


#: Norms for gates of these groups (k,), whatever their order; None if there is none.
NORMS: dict[str, Callable[[np.ndarray], Norm | None]] = {
    "frobenius": lambda groups: ib.Frobenius(),
    "group lasso": lambda groups: ib.GroupLasso(groups),
    "uneven groups": lambda groups: ib.GroupLasso(np.minimum(groups, 1) * 7),
    "weighted groups": lambda groups: ib.GroupLasso(groups, weights=1.5 ** np.unique(groups)),
    "predictor L2": _predictor,
    "nuclear": _nuclear,
    "frobenius, l_inf": _layers("frobenius", "l_inf"),
    "rows, l_inf": _layers("rows", "l_inf"),
    "rows, l1": _layers("rows", "l1"),
    "entries, l2": _layers("entries", "l2"),
    "entries, l_inf": _layers("entries", "l_inf"),
    "entries, l1": _layers("entries", "l1"),
    "l1, l_inf": _layers("l1", "l_inf"),
    "spectral, l2": _layers("spectral", "l2"),
    "spectral, l_inf": _layers("spectral", "l_inf"),
    "l1": lambda groups: ib.ExpressionNorm(lambda W: cp.norm1(W), lambda V: np.abs(V).max(), "l1"),
}

#: The relative gap that is asked of each solver; first-order ones are asked for less.
SOLVERS = {"NATIVE": 1e-8, "CLARABEL": 1e-6, "ECOS": 1e-6, "OSQP": 1e-4, "SCS": 1e-3, "PRECISE": 1e-9}
#: Optional solvers that are not installed; tests that have one as a parameter are skipped.
MISSING_SOLVERS = {name for name, solver in CVXPY_SOLVERS.items() if not solver.installed}
#: How many samples, and of gated features how many inputs, the slow one gets.
FEW_SAMPLES = 8
FEW_INPUTS = 3


def _velocity(config: Any, w: np.ndarray, gradients: np.ndarray, rates: Sequence[float]) -> np.ndarray:
    v = np.zeros_like(w)
    for gradient, rate in zip(gradients, rates, strict=True):
        v = config.momentum * v + gradient
        w = w - rate * v
    return w


def _moments(config: Any, w: np.ndarray, gradients: np.ndarray, rates: Sequence[float]) -> np.ndarray:
    mean, square, a, b = np.zeros_like(w), np.zeros_like(w), config.momentum, config.beta2
    for t, (gradient, rate) in enumerate(zip(gradients, rates, strict=True), start=1):
        mean, square = a * mean + (1 - a) * gradient, b * square + (1 - b) * gradient**2
        step = mean / (1 - a**t) / (np.sqrt(square / (1 - b**t)) + config.eps)
        w = (1 - rate * config.weight_decay) * w - rate * step
    return w


def _along(steepest: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    """Return the formula of steps along a direction of the mean gradient of a matrix."""

    def steps(config: Any, w: np.ndarray, gradients: np.ndarray, rates: Sequence[float]) -> np.ndarray:
        mean = np.zeros_like(w)
        for gradient, rate in zip(gradients, rates, strict=True):
            mean = config.momentum * mean + (1 - config.momentum) * gradient
            w = (1 - rate * config.weight_decay) * w - rate * steepest(mean)
        return w

    return steps


def polar(M: np.ndarray, sizes_of: Callable[[np.ndarray], np.ndarray] = np.sign) -> np.ndarray:
    """Return U f(Σ) Vᵀ of M = U Σ Vᵀ, by default the polar factor U Vᵀ."""
    left, sizes, right = np.linalg.svd(M, full_matrices=False)
    return np.asarray(left * sizes_of(sizes) @ right)


def newton_schulz(sizes: np.ndarray) -> np.ndarray:
    """Return the singular values to which five steps of Muon's iteration bring those of a matrix."""
    sizes = sizes / np.linalg.norm(sizes)
    for _ in range(5):
        sizes = 3.4445 * sizes - 4.775 * sizes**3 + 2.0315 * sizes**5
    return sizes


#: Optimisers of `train`, and their steps on a matrix w by the formula: (optimiser, w, gradients, rates) → w.
OPTIMISERS: dict[str, tuple[Optimiser, Callable[..., np.ndarray]]] = {
    "descent": (SGD(lr_factor=1.0), _velocity),
    "momentum": (SGD(lr_factor=1.0, momentum=0.9), _velocity),
    "adam": (Adam(loss="logistic", momentum=0.8, beta2=0.9, eps=0.1), _moments),
    "signum": (Signum(), _along(np.sign)),
    "muon": (Muon(momentum=0.7), _along(polar)),
    "muon-sign": (Muon(vectors="l_inf"), _along(lambda M: np.sign(M) if len(M) == 1 else polar(M))),
    "newton-schulz": (Muon(newton_schulz=True), _along(lambda M: polar(M, newton_schulz if len(M) > 1 else np.sign))),
    "torch": (
        TorchOptimiser(functools.partial(torch.optim.Adagrad, lr=0.1, eps=0.0)),
        lambda _, w, gradients, rates: w - 0.1 * np.sum(gradients / np.sqrt(np.cumsum(gradients**2, axis=0)), axis=0),
    ),
}


def inputs(n: int = 30, d: int = 12, seed: int = 0) -> np.ndarray:
    """Random inputs (n, d) with the constant 1 last."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[:, -1] = 1.0
    return X


def samples(
    gate: str, seed: int = 0, scale: float = 1.0, size: tuple[int, int] = (30, 12)
) -> tuple[Gates, ib.GatedFeatures, np.ndarray]:
    """Return fitted gates, features (n, k, d) and labels that they separate; at every sample some gate is open.

    Labels are those of a linear model; the first input is moved by ±`scale` so that no sample is close to its
    plane.
    """
    X = scale * inputs(*size, seed=seed)
    y = np.where(X @ np.random.default_rng(seed + 1).normal(size=X.shape[1]) > 0, 1.0, -1.0)
    X[:, 0] += scale * y
    gates = GATES[gate](X)
    values = gates.transform(X)
    opened = np.where(values.any(axis=1, keepdims=True), values, 1.0)
    return gates, ib.GatedFeatures(X, opened), y


def problem(gate: str, norm: str, C: float = np.inf, features: str = "gated", **options: Any) -> ib.MarginProblem:
    """Return the separable margin problem of `samples(gate, **options)` with a kind of features and a norm."""
    gates, gated, y = samples(gate, **options)
    chosen = NORMS[norm](gates.groups)
    assert chosen is not None, f"{norm} is not for {gate}"
    return ib.MarginProblem(FEATURES[features](gated), y, chosen, C)


#: Norms that are sums of group norms.
GROUP_NORMS = (
    *("frobenius", "group lasso", "uneven groups", "weighted groups", "predictor L2"),
    *("frobenius, l_inf", "rows, l1"),
)
#: Norms of two layers, which are not swept over all kinds of features.
LAYER_NORMS = tuple(name for name in NORMS if ", " in name)
#: Norms that a kind of features refuses: separate coordinates for each kernel share no rows, and blocks no inputs.
UNSUITABLE = {"kernels": ("nuclear", "predictor L2")} | dict.fromkeys(("blocks", "own", "subsets"), ("predictor L2",))
#: Gates, norm and kind of features: every gate, every norm with every kind, and the other shapes of groups.
CASES = [
    *((gate, "group lasso", "gated") for gate in GATES if gate != "contexts 2"),
    *(
        ("contexts 2", norm, kind)
        for norm in NORMS
        for kind in FEATURES
        if norm not in UNSUITABLE.get(kind, ())
        and (kind == "gated" or norm not in LAYER_NORMS)
        and (norm, kind) != ("l1", "subsets")
    ),
    ("contexts 1", "l1", "subsets"),
    ("contexts 2", "entries, l_inf", "chunked"),
    ("contexts 2", "spectral, l2", "blocks"),
    ("contexts 5", "spectral, l2", "gated"),
    ("region", "entries, l1", "kernels"),
    ("relu", "entries, l_inf", "own"),
    ("half-spaces", "spectral, l_inf", "gated"),
    ("function", "entries, l2", "gated"),
    ("soft", "rows, l_inf", "gated"),
    *(("product", "group lasso", kind) for kind in FEATURES if kind != "gated"),
    ("contexts 1", "predictor L2", "gated"),
    ("contexts 4", "predictor L2", "gated"),
    ("contexts 4", "nuclear", "gated"),
    ("region", "weighted groups", "blocks"),
    ("contexts 3", "weighted groups", "gated"),
    ("occupied", "frobenius", "gated"),
    ("half-spaces", "uneven groups", "chunked"),
    ("fixed cutoff", "l1", "gated"),
    ("relu", "nuclear", "gated"),
    ("soft", "weighted groups", "own"),
    ("function", "uneven groups", "gated"),
    ("function", "l1", "kernels"),
]
#: Gates and norms of the cases whose norms are sums of group norms.
PAIRS = list(dict.fromkeys((gate, norm) for gate, norm, _ in CASES if norm in GROUP_NORMS))

#: Samples and inputs: more samples than inputs, few enough for a second of solves.
SIZE = (16, 5)

every_gate = pytest.mark.parametrize("gate", GATES)
every_kind = pytest.mark.parametrize(
    ("gate", "kind"),
    [*((gate, "gated") for gate in GATES), *((gate, kind) for gate in ("contexts 4", "product") for kind in FEATURES)],
)
every_norm = pytest.mark.parametrize(("gate", "norm"), list(dict.fromkeys(case[:2] for case in CASES)))
every_case = pytest.mark.parametrize(("gate", "norm", "kind"), CASES)


def every_case_with(name: str, values: Sequence[Any]) -> pytest.MarkDecorator:
    """Parametrise a test by all `CASES`, with the `values` of a further argument `name` assigned in turn."""
    cases = [(*case, values[i % len(values)]) for i, case in enumerate(CASES)]
    return pytest.mark.parametrize(("gate", "norm", "kind", name), cases)


def made(gate: str, kind: str = "gated") -> Features:
    """Return features (n, k, d) of inputs of rank d − 1 and one kind of gates, with sample 5 closed at every gate."""
    X = inputs(*SIZE)
    X[:, 3] = X[:, 1] + X[:, 2]
    values = GATES[gate](X).transform(X)
    values[5] = 0.0
    return FEATURES[kind](ib.GatedFeatures(X, values))


@functools.cache
def case_of(gate: str, norm: str, kind: str = "gated", C: float = np.inf) -> ib.MarginProblem:
    """Return the margin problem of size `SIZE` on which the laws of solutions are tested."""
    return problem(gate, norm, C, features=kind, size=SIZE)


@functools.cache
def solved(gate: str, norm: str, kind: str = "gated", C: float = np.inf) -> ib.Solution:
    """Return the solution of `case_of` by the default solver."""
    return ib.solve(case_of(gate, norm, kind, C))


def optimal(problem: ib.MarginProblem, *solver: Any, **options: Any) -> ib.Solution:
    """Return the solution of a problem, and assert that it is OPTIMAL."""
    found = ib.solve(problem, *solver, **options)
    assert found.status is ib.Status.OPTIMAL, str(found)
    return found


def constraints_of(rule: Callable[[cp.Variable], Any], W: cp.Variable) -> list[cp.Constraint]:
    """Return the constraints that a rule gives for W, one or a list, as a list."""
    given = rule(W)
    return given if isinstance(given, list) else [given]


def optimum(
    case: ib.MarginProblem, rule: Callable[[cp.Variable], Any] = lambda W: [], solver: str = "CLARABEL"
) -> float:
    """Return the optimum by CVXPY on the dense features, without the package's reductions, under a rule for W."""
    W, b = cp.Variable(case.features.shape[1:]), cp.Variable() if case.intercept else 0
    missing = case.required_margin - cp.multiply(case.y, case.features.dense() @ cp.vec(W, order="C") + b)
    paid, limits = (0, [missing <= 0]) if case.hard else (case.upper_bounds @ cp.pos(missing), [])
    objective = cp.Minimize(case.norm.expression(W) + paid)
    return float(cp.Problem(objective, [*limits, *constraints_of(rule, W)]).solve(solver=solver))


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def assert_refused(call: Callable[[], Any], words: str) -> None:
    """Assert that a call raises InputError with one sentence like `words`."""
    with pytest.raises(ib.InputError, match=words) as refusal:
        call()
    assert "\n" not in str(refusal.value)


def refusals(*rows: tuple[Any, ...], call: Callable[..., Any] = lambda refused: refused()) -> Callable[[Any], None]:
    """Return a test that `call` of each row's first entries is refused in words like its last entry."""

    @pytest.mark.parametrize("row", rows, ids=[row[-1] for row in rows])
    def test(row: tuple[Any, ...]) -> None:
        assert_refused(lambda: call(*row[:-1]), row[-1])

    return test


def interrupt(when: Callable[..., bool] = lambda *told: True) -> Callable[..., None]:
    """Return a callback that raises KeyboardInterrupt if `when` is true of its arguments, by default at once."""

    def interrupted(*told: Any) -> None:
        if when(*told):
            raise KeyboardInterrupt

    return interrupted


def assert_farkas(case: ib.MarginProblem, found: ib.Solution) -> None:
    """Assert that `found` proves inseparability: λ ≥ 0, Σλ = 1 and Φᵀ(λ∘y) = 0 in dense arithmetic."""
    assert found.status is ib.Status.NOT_SEPARABLE
    assert (found.dual >= 0).all()
    assert found.dual.sum() == pytest.approx(1.0)
    V = (case.y * found.dual) @ case.features.dense()
    assert np.linalg.norm(V) <= 1e-12 * case.features.row_norms().max()
    assert not case.intercept or abs(case.y @ found.dual) <= 1e-12
    assert np.isnan(found.weights).all()
    again = ib.certify(case, np.zeros_like(found.weights), found.dual)
    assert not again.separable


#: A property test of few draws, the same ones in every run.
FEW = settings(max_examples=30, deadline=None, derandomize=True)


def scaled(load: Callable[..., Any], n: int | None = None, names: Sequence[str] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Return the first n samples of a data set of scikit-learn, standardised, and their targets or class names."""
    X, y = load(return_X_y=True)
    return StandardScaler().fit_transform(X)[:n], (np.array(names)[y] if names else y)[:n]


def unit(m: int, d: int, seed: int = 0) -> np.ndarray:
    X = np.random.default_rng(seed).normal(size=(m, d))
    return X / np.linalg.norm(X, axis=1)[:, None]


def layer(X: np.ndarray, k: int, rng: np.random.Generator) -> ib.GatedFeatures:
    """Return the features of k gates 1(⟨u, x⟩ > 0) with u ~ N(0, I) on X (m, d)."""
    return ib.GatedFeatures(X, (X @ rng.normal(size=(k, X.shape[1])).T > 0).astype(float))


def drawn(m: int, d: int, k: int, seed: int, gates: str = "hard") -> tuple[ib.GatedFeatures, np.ndarray]:
    """Return features of m samples N(0, I) in R^d behind k gates of a kind, and targets N(0, 1)."""
    rng = np.random.default_rng(seed)
    X, U = rng.normal(size=(m, d)), rng.normal(size=(k, d))
    values = {
        "hard": lambda: ib.ReLUGates(U).transform(X),
        "soft": lambda: ib.SoftGates(U, sharpness=3.0).transform(X),
        "contexts": lambda: ib.HyperplaneGates(k, 2, seed=seed).fit(X).transform(X),
        "real": lambda: X @ U.T,
    }[gates]()
    return ib.GatedFeatures(X, values), rng.normal(size=m)
