"""Distance of descent, its limit and max-margin problems with given gates to the best network in the plane.

The data are 30 points in the plane, with a constant: two rings, two moons, or four clusters labelled like XOR. A ReLU
network is trained by full-batch descent (logistic loss, 1000 steps at 0.1, Kaiming's initialisation), then descends
towards its limit. SVM-LC has the gates of the limit, with and without the constraint that weights lie in the cones in
which the gates are those of ReLU units. SVM-RC has as many random half-spaces. All norms are compared with a certified
minimum over two-layer ReLU networks of any width.
"""

from functools import partial

import numpy as np
import pandas as pd
from sklearn.datasets import make_circles, make_moons

from implicit_bias._utils.checks import Array
from implicit_bias.datasets.task import with_constant
from implicit_bias.extensions.best_networks import activation_patterns, best_network
from implicit_bias.features import GatedFeatures
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.metrics import error
from implicit_bias.norms import GroupLasso
from implicit_bias.solvers import solve
from implicit_bias.studies.best import methods
from implicit_bias.studies.runner import Rows, Settings, Verdict, decide, named, product

TITLE = "How far from the best two-layer ReLU network"
CLAIM = "Descent on a ReLU network that is wide enough ends at the best network there is."
REVISION = 2
DATA = {"rings": "two rings", "moons": "two moons", "xor": "XOR"}
#: Test points.
FRESH = 2000


def grid(quick: bool) -> list[Settings]:
    if quick:
        return product(data=DATA, n=(20,), units=([16, 64],), steps=(500,), max_steps=(500,), seed=(1,))
    return product(data=DATA, n=(30,), units=([16, 64],), steps=(1000,), max_steps=(3000,), seed=(1, 2, 3))


def sample(data: str, n: int, seed: int) -> tuple[Array, Array]:
    """Return n points of `data` ('rings', 'moons', 'xor') with a constant, shape (n, 3), and labels ±1, shape (n,).

    >>> X, y = sample("xor", 8, 1)
    >>> X.shape, sorted(set(y.tolist()))
    ((8, 3), [-1.0, 1.0])
    """
    if data == "rings":
        points, labels = make_circles(n, noise=0.08, factor=0.5, random_state=seed)
    elif data == "moons":
        points, labels = make_moons(n, noise=0.15, random_state=seed)
    else:
        rng = np.random.default_rng(seed)
        corners = rng.permutation(np.arange(n) % 4)
        points = np.column_stack([corners // 2, corners % 2]) - 0.5 + 0.2 * rng.normal(size=(n, 2))
        labels = np.isin(corners, (0, 3))
    return with_constant(np.asarray(points, dtype=float)), np.where(labels, 1.0, -1.0)


def rows(settings: Settings) -> Rows:
    """Return a row for each width and method: units, method, objective, error on new points, and for 'limit' end.

    Methods are those of `methods.at_width` and, with `units` 0, 'best' and 'no cones' (all activation patterns, without
    cones). All rows repeat the norm of the best network, `best`, its certified gap, `gap`, and its number of units,
    `best_units`. There are no rows if no network separates.
    """
    X, y = sample(settings["data"], settings["n"], settings["seed"])
    fresh = sample(settings["data"], FRESH, settings["seed"] + 1000)
    best = best_network(X, y)
    network = best.network
    if network is None:
        return []
    held = {"best": best.objective, "gap": best.gap, "best_units": network.units[0]}
    patterns = activation_patterns(X).patterns
    free = solve(MarginProblem(GatedFeatures(X, patterns.T), y, GroupLasso(np.arange(len(patterns)))))
    wrong = error(network.decision_function(fresh[0]), fresh[1])
    table: Rows = [
        {"units": 0, "method": "best", "objective": best.objective, "error": wrong},
        {"units": 0, "method": "no cones", "objective": free.objective, "error": np.nan},
    ]
    for units in settings["units"]:
        table += [{"units": units} | row for row in methods.at_width(units, settings, X, y, fresh)]
    return [row | held for row in table]


def cost(settings: Settings) -> float:
    return 3.0 + len(settings["units"]) * (settings["steps"] * 2e-4 + settings["max_steps"] * 6e-4)


draw = partial(methods.draw, title=TITLE, names=DATA)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    compared = methods.ratios(table)
    free = compared[compared.method == "no cones"].groupby("data").ratio.max()
    relaxed = f"ratios up to {named(free, '.3f')}"
    below = "without cones, all patterns together are below it in all runs"
    return [*methods.verdicts(table), decide(below, relaxed, free.max(), "below", 1)]
