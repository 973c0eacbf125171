"""The gates, norms and problems that the laws are swept over, listed once."""

import numpy as np

from implicit_bias import (
    ConstantGate,
    Frobenius,
    GatedFeatures,
    GroupLasso,
    HyperplaneGates,
    MarginProblem,
    PredictorL2,
    RandomHalfSpaces,
    ReLUGates,
)

GATES = {
    "constant": lambda X: ConstantGate().fit(X),
    "contexts 2": lambda X: HyperplaneGates(4, 2, seed=3).fit(X),
    "contexts 4": lambda X: HyperplaneGates(3, 4, seed=3, cutoff="random").fit(X),
    "contexts 1": lambda X: HyperplaneGates(2, 1).fit(X),
    "quantiles": lambda X: HyperplaneGates(3, 2, seed=5, cutoff=(0.3, 0.7)).fit(X),
    "region": lambda X: HyperplaneGates(1, 8, seed=3).fit(X),
    "half-spaces": lambda X: RandomHalfSpaces(5, seed=2, always_on=True).fit(X),
    "fixed cutoff": lambda X: RandomHalfSpaces(4, seed=2, cutoff=0.1).fit(X),
    "relu": lambda X: ReLUGates(np.random.default_rng(8).normal(size=(6, X.shape[1]))),
}

NORMS = {
    "frobenius": lambda gates: Frobenius(),
    "group lasso": lambda gates: GroupLasso(gates.groups),
    "uneven groups": lambda gates: GroupLasso(np.arange(len(gates.groups)) // 3 * 7),
    "predictor L2": lambda gates: PredictorL2(gates.units, gates.contexts),
}


def inputs(n: int = 30, d: int = 12, seed: int = 0) -> np.ndarray:
    """Random inputs (n, d) with the constant 1 last."""
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[:, -1] = 1.0
    return X


def problem(gate: str, norm: str, C: float = np.inf, seed: int = 0, scale: float = 1.0) -> MarginProblem:
    """A margin problem that is separable for every gate: labels of a linear model, never close to its plane."""
    X = scale * inputs(seed=seed)
    y = np.where(X @ np.random.default_rng(seed + 1).normal(size=X.shape[1]) > 0, 1.0, -1.0)
    X[:, 0] += scale * y
    gates = GATES[gate](X)
    values = gates.transform(X)
    values[values.sum(axis=1) == 0] = 1.0
    return MarginProblem(GatedFeatures(X, values), y, NORMS[norm](gates), C)


#: Every pair of gates and norms that belong together.
PAIRS = [
    (gate, norm)
    for gate in GATES
    for norm in NORMS
    if norm != "predictor L2" or gate in ("contexts 2", "contexts 4", "contexts 1", "quantiles", "region")
]
