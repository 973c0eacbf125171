"""Cases about all activation patterns, the ReLU network's problem, and the best network."""

from typing import Any

import numpy as np

import implicit_bias as ib
from implicit_bias._utils.checks import Array
from implicit_bias._utils.scaling import TINY
from implicit_bias.extensions.best_networks import BestNetwork, ReLUMarginProblem, best_network, svm_relu
from implicit_bias.gates import Arrangement, activation_patterns
from tests.fuzz import problems
from tests.fuzz.draw import Draw, expect
from tests.fuzz.strategies import count, number
from tests.fuzz.table import arguments, entry, row


def _samples(draw: Draw) -> dict[str, Any]:
    """Some samples of few inputs, of every kind and scale or ordinary ones, and labels of both classes."""
    X, y = problems.samples(draw, scaled=False) if draw.chance(0.5) else problems.clean_task(draw)
    if len(X) < 6 or len(set(y[:6].tolist())) < 2:
        X, y = problems.clean_task(draw)
    return {"X": draw.array(X[:6, :3], rounded=False), "y": draw.either(y[:6], [y[:5], 0 * y[:6], None, "y"])}


def _points(draw: Draw) -> dict[str, Any]:
    """Samples of every kind and scale, on which no pattern is to be missed."""
    return {"X": draw.array(problems.samples(draw)[0][:8, :4], rounded=False)}


def _all_there(X: Array, patterns: np.ndarray) -> bool:
    """Whether no pattern is there twice, and those of random directions are there."""
    X = X / np.maximum(np.abs(X).max(axis=1, keepdims=True), TINY)
    scores = np.random.default_rng(1).normal(size=(300, X.shape[1])) @ X.T
    clear = scores[(np.abs(scores) > 1e-9).all(axis=1, where=X.any(axis=1))] >= 0
    known = {row.tobytes() for row in patterns}
    return len(known) == len(patterns) and {row.tobytes() for row in clear} <= known


row(activation_patterns, _points, finite=False, fine=lambda c, found: _all_there(c.X, found.patterns))


@entry(Arrangement, share=1)
def _arrangement(draw: Draw) -> None:
    """A record, which is taken as it is."""
    found = activation_patterns(draw.normal(4, 2))
    again = draw.call(Arrangement, found.patterns, found.walls)
    expect(len(again) == len(found), "another number of patterns")


@entry(svm_relu)
def _relu(draw: Draw) -> None:
    """The problem over all patterns or some, and the network of its answer."""
    given = _samples(draw)
    patterns = draw.either(None, ["all", [[0.5]], [[1, 0]], np.ones((2, 2, 2)), 3])
    problem = draw.call(svm_relu, **given, patterns=patterns, C=draw.either(1.0, [0.0, -1.0, "C", np.nan]))
    solution = ib.solve(problem, tol=1e-4)
    expect(solution.gap <= 1e-4 or solution.status is not ib.Status.OPTIMAL, "OPTIMAL with a gap")


@entry(ReLUMarginProblem, share=1)
def _relu_problem(draw: Draw) -> None:
    """One made by hand: gates of both signs are refused."""
    X, y = problems.clean_task(draw)
    made = svm_relu(X, y, np.ones((2, len(X))))
    mixed = ib.GatedFeatures(X, np.where(np.arange(len(X)) % 2, 1.0, -1.0)[:, None] * np.ones((1, 4)))
    features = draw.either(made.features, [mixed, ib.GatedFeatures(X, np.full((len(X), 4), 0.5)), X])
    again = draw.call(ReLUMarginProblem, features, y, made.norm)
    network = draw.call(again.network, draw.either(np.ones((4, X.shape[1])), [np.ones(4), np.zeros((4, X.shape[1]))]))
    expect(network.units == [4], "another number of units")


@entry(best_network, share=1)
def _best(draw: Draw) -> None:
    """Bounds in order, whatever the samples are."""
    given = _samples(draw)
    more = {
        "tol": number(1e-4, 0.01, high=1.0),
        "max_rounds": count(1, 3, 10),
        "max_seconds": number(10.0, None),
        "nodes": count(1, 100),
    }
    options = {name: strategy(draw) for name, strategy in more.items()}
    options["start"] = draw.either(None, ["network", 3, ib.ReLUNetwork(40, 2)])
    options["progress"] = draw.either(None, [3, "print"])
    given |= options
    given |= arguments(best_network, draw, but=list(given))
    found = draw.call(best_network, **given)
    expect(0 <= found.lower_bound <= found.objective, "bounds out of order")
    given |= {"C": draw.pick([0.1, 1.0, np.float32(10)])}
    soft = draw.call(best_network, **given)
    expect(0 <= soft.lower_bound <= soft.objective < np.inf, "bounds out of order")


@entry(BestNetwork, share=1)
def _best_record(draw: Draw) -> None:
    """A record, which is taken as it is."""
    found = best_network([[-1.0, 1.0], [1.0, 1.0]], [1, -1], max_rounds=3)
    again = draw.call(BestNetwork, **vars(found))
    expect(repr(again) == repr(found), "another text")
