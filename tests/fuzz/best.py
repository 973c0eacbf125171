"""Cases about all activation patterns, the ReLU network's problem, and the best network."""

from typing import Any

import numpy as np

import implicit_bias as ib
from tests.fuzz import problems
from tests.fuzz.draw import Draw, expect
from tests.fuzz.strategies import count, number
from tests.fuzz.table import arguments, entry, row


def _samples(draw: Draw) -> dict[str, Any]:
    """Some samples of two or three inputs, and labels."""
    X, y = problems.clean_task(draw)
    return {"X": draw.array(X[:6, :3], rounded=False), "y": draw.either(y[:6], [y[:5], 0 * y[:6], None, "y"])}


def _points(draw: Draw) -> dict[str, Any]:
    return {"X": problems.points(draw, most=2.0, scales=(1.0, 1e-200, 1e200))}


row(ib.activation_patterns, _points, finite=False, may=True, fine=lambda c, found: len(found) >= 1)


@entry(ib.Arrangement, share=1)
def _arrangement(draw: Draw) -> None:
    """A record, which is taken as it is."""
    found = ib.activation_patterns(draw.normal(4, 2))
    again = draw.call(ib.Arrangement, found.patterns, found.directions, found.walls)
    expect(len(again) == len(found), "another number of patterns")


@entry(ib.svm_relu)
def _relu(draw: Draw) -> None:
    """The problem over all patterns or some, and the network of its answer."""
    given = _samples(draw)
    patterns = draw.either(None, ["all", [[0.5]], [[1, 0]], np.ones((2, 2, 2)), 3])
    problem = draw.call(ib.svm_relu, **given, patterns=patterns, C=draw.either(1.0, [0.0, -1.0, "C", np.nan]))
    solution = ib.solve(problem, tol=1e-4)
    expect(solution.gap <= 1e-4 or solution.status is not ib.Status.OPTIMAL, "OPTIMAL with a gap")


@entry(ib.ReLUMarginProblem, share=1)
def _relu_problem(draw: Draw) -> None:
    """One made by hand: gates of both signs are refused."""
    X, y = problems.clean_task(draw)
    made = ib.svm_relu(X, y, np.ones((2, len(X))))
    mixed = ib.GatedFeatures(X, np.where(np.arange(len(X)) % 2, 1.0, -1.0)[:, None] * np.ones((1, 4)))
    features = draw.either(made.features, [mixed, ib.GatedFeatures(X, np.full((len(X), 4), 0.5)), X])
    again = draw.call(ib.ReLUMarginProblem, features, y, made.norm)
    network = draw.call(again.network, draw.either(np.ones((4, X.shape[1])), [np.ones(4), np.zeros((4, X.shape[1]))]))
    expect(network.units == [4], "another number of units")


@entry(ib.best_network, share=1)
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
    given |= arguments(ib.best_network, draw, but=list(given))
    found = draw.call(ib.best_network, **given)
    expect(0 <= found.lower_bound <= found.objective, "bounds out of order")


@entry(ib.BestNetwork, share=1)
def _best_record(draw: Draw) -> None:
    """A record, which is taken as it is."""
    found = ib.best_network([[-1.0, 1.0], [1.0, 1.0]], [1, -1], max_rounds=3)
    again = draw.call(ib.BestNetwork, **vars(found))
    expect(repr(again) == repr(found), "another text")
