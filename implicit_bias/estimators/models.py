"""Fitted classifiers as models: the problems that they solved, without the samples, and the certified answers."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from implicit_bias._utils.checks import Array
from implicit_bias._utils.scaling import length
from implicit_bias.datasets.tables import Columns
from implicit_bias.features.unkept import UnkeptFeatures
from implicit_bias.gates import KernelExpansions
from implicit_bias.margin.model import MarginModel
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Solution


def model_of(classifier: Any, problems: Sequence[MarginProblem], solutions: Sequence[Solution]) -> MarginModel:
    """The model of what a classifier has solved."""
    first = problems[0]
    shared = [one.restated(features=first.features) if one.gates is first.gates else one for one in problems]
    constant, columns = bool(classifier.fit_intercept), columns_of(classifier)
    return MarginModel(shared, solutions, classes=classifier.classes_, constant=constant, columns=columns)


def columns_of(estimator: Any) -> Columns | None:
    """The names of an estimator's inputs, if it was fitted to a data frame."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else Columns(names.tolist(), [], "")


def expanded(model: MarginModel, kernels: Sequence[Any], samples: Array, coefficients: Array) -> MarginModel:
    """The model of kernels k_m with one feature for each: its part Σ_i a_mi k_m(x, x_i) of f, at norm 1.

    `samples` are the x_i (s, d) and `coefficients` a (problems, k, s).
    """
    problems, solutions = [], []
    for problem, solution, a in zip(model.problems, model.solutions, coefficients, strict=True):
        sizes = length(solution.weights, axis=1)[:, None]
        used = a.any(axis=0)
        # An expansion has a sample, if only to multiply it by zero.
        used[0] |= not used.any()
        units = np.divide(a, sizes, out=np.zeros_like(a), where=sizes > 0)[:, used]
        features = UnkeptFeatures((problem.features.n, len(kernels), 1), products=False)
        gates = KernelExpansions(kernels, samples[used], units)
        problems.append(problem.restated(features=features, gates=gates))
        solutions.append(replace(solution, weights=sizes))
    return replace(model, problems=problems, solutions=solutions)
