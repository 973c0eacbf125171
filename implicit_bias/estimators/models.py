"""Fitted classifiers as models: the problems that they solved, without the samples, and the certified answers."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import pairwise_kernels

from implicit_bias.datasets.tables import Columns
from implicit_bias.features.unkept import UnkeptFeatures
from implicit_bias.gates import KernelExpansions
from implicit_bias.ground.checks import Array, InputError
from implicit_bias.ground.scaling import length
from implicit_bias.margin.model import MarginModel
from implicit_bias.margin.problem import MarginProblem


def model_of(problems: Sequence[MarginProblem], classifier: Any) -> MarginModel:
    """The model of a fitted classifier and the problems that it solved."""
    first = problems[0]
    shared = [one.restated(features=first.features) if one.gates is first.gates else one for one in problems]
    names = getattr(classifier, "feature_names_in_", None)
    columns = None if names is None else Columns(names.tolist(), [], "")
    found = classifier.certificate_
    solutions = found if isinstance(found, list) else [found]
    return MarginModel(shared, solutions, classifier.classes_, classifier._constant, columns)


def expanded(model: MarginModel, functions: Sequence[Any], samples: Array, coefficients: Array) -> MarginModel:
    """The model of kernels k_m with one feature for each: its part Σ_i a_mi k_m(x, x_i) of f, at norm 1.

    `samples` are the x_i (s, d) and `coefficients` a (problems, k, s).
    """
    kernels = [_named(function) for function in functions]
    problems, solutions = [], []
    for problem, solution, a in zip(model.problems, model.solutions, coefficients, strict=True):
        sizes = length(solution.weights, axis=1)[:, None]
        used = a.any(axis=0)
        units = np.divide(a, sizes, out=np.zeros_like(a), where=sizes > 0)[:, used]
        features = UnkeptFeatures((problem.features.n, len(kernels), 1), products=False)
        gates = KernelExpansions(kernels, samples[used], units)
        problems.append(problem.restated(features=features, gates=gates))
        solutions.append(replace(solution, weights=sizes))
    return replace(model, problems=problems, solutions=solutions)


def _named(function: Callable[..., Any]) -> tuple[str, dict[str, Any]]:
    """A kernel as the name and parameters that it was made of."""
    if not isinstance(function, partial) or function.func is not pairwise_kernels:
        raise InputError("a kernel that is a function or a matrix of your own cannot be saved; pickle the classifier")
    given = dict(function.keywords)
    return given.pop("metric"), given
