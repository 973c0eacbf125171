"""How far from the best network do descent, its limit and the max-margin problems with given gates end?

30 points in the plane, a constant appended: two rings, two moons, and four clusters labelled like XOR. A ReLU network
is trained by full-batch descent (logistic loss, 1000 steps at 0.1, from Kaiming's start), then driven on towards its
limit. SVM-LC has the gates found there, with and without the cones in which they are those of ReLU units; SVM-RC has as
many random half-spaces. What all are held against is certified: no two-layer ReLU network of any width has less.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.datasets import make_circles, make_moons

from implicit_bias.comparison import error
from implicit_bias.datasets.task import with_constant
from implicit_bias.experiments.runner import COLOURS, Rows, Settings, Verdict, decide, finished, named, panels, product
from implicit_bias.features import GatedFeatures
from implicit_bias.gates import RandomHalfSpaces, activation_patterns
from implicit_bias.ground.checks import Array
from implicit_bias.margin.formulations import svm_lc, svm_rc
from implicit_bias.margin.norms import GroupLasso
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.relu import best_network, svm_relu
from implicit_bias.margin.relu.network import bound_of
from implicit_bias.margin.solvers import solve
from implicit_bias.networks import ReLUNetwork
from implicit_bias.training.iterations import LossScaled
from implicit_bias.training.limit import descend_to_limit
from implicit_bias.training.optimisers import SGD
from implicit_bias.training.sgd import train

TITLE = "How far from the best two-layer ReLU network"
SOURCE = "ours"
CLAIM = "Descent on a ReLU network that is wide enough ends at the best network there is."
DATA = {"rings": "two rings", "moons": "two moons", "xor": "XOR"}
#: What is drawn, with its look: of networks the norm, of problems with given gates the objective.
METHODS = {
    "limit": {"color": COLOURS["blue"], "marker": "o", "label": "limit of descent"},
    "LC in cones": {"color": COLOURS["green"], "marker": "s", "label": "SVM-LC in cones"},
    "LC": {"color": COLOURS["orange"], "marker": "^", "label": "SVM-LC"},
    "RC": {"color": COLOURS["red"], "marker": "v", "label": "SVM-RC"},
}
#: Test points, and the ratio up to which a network counts as the best.
FRESH, NEAR = 2000, 1.02


def grid(quick: bool) -> list[Settings]:
    """Three data sets, three seeds, widths of 16 and 64; quick: one seed, 20 points, fewer steps."""
    if quick:
        return product(data=DATA, n=(20,), units=([16, 64],), steps=(500,), max_steps=(500,), seed=(1,))
    return product(data=DATA, n=(30,), units=([16, 64],), steps=(1000,), max_steps=(3000,), seed=(1, 2, 3))


def sample(data: str, n: int, seed: int) -> tuple[Array, Array]:
    """n points with a constant, shape (n, 3), and labels −1 and +1.

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
    """For each width and method: objective (NaN where nothing separates), error on fresh points, end (of the limit).

    And best, gap, best_units: the best network's norm, certified to this gap, and how many units it has.
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
    found: Rows = [
        {"units": 0, "method": "best", "objective": best.objective, "error": _error(network, fresh)},
        {"units": 0, "method": "no cones", "objective": free.objective, "error": np.nan},
    ]
    for units in settings["units"]:
        found += [{"units": units} | row for row in _at_width(units, settings, X, y, fresh)]
    return [row | held for row in found]


def _at_width(units: int, settings: Settings, X: Array, y: Array, fresh: tuple[Array, Array]) -> Rows:
    """Rows of all methods with so many units."""
    network = ReLUNetwork(3, units, seed=settings["seed"])
    train(network, X, y, SGD(steps=settings["steps"], batch_size=len(X), lr=0.1), seed=settings["seed"])
    found = [_scored("GD", network, X, y, fresh)]
    descent = descend_to_limit(network, X, y, LossScaled(tolerance=0.01, max_steps=settings["max_steps"]))
    found.append(_scored("limit", network, X, y, fresh) | {"end": descent.end})
    cones = svm_relu(X, y, network.gates()(X).gate_values.T)
    inside = solve(cones)
    if inside.status.inseparable or not np.isfinite(inside.objective):
        found.append({"method": "LC in cones", "objective": np.nan, "error": np.nan})
    else:
        wrong = _error(cones.network(inside.weights), fresh)
        found.append({"method": "LC in cones", "objective": inside.objective, "error": wrong})
    gates = RandomHalfSpaces(units, seed=settings["seed"])
    for name, problem in (("LC", svm_lc(X, y, network)), ("RC", svm_rc(X, y, gates))):
        solution = solve(problem)
        if solution.status.inseparable:
            found.append({"method": name, "objective": np.nan, "error": np.nan})
            continue
        assert problem.gates is not None
        wrong = error(problem.gates(fresh[0]) @ solution.weights, fresh[1])
        found.append({"method": name, "objective": solution.objective, "error": wrong})
    return found


def _scored(method: str, network: ReLUNetwork, X: Array, y: Array, fresh: tuple[Array, Array]) -> dict[str, Any]:
    """The row of a network."""
    norm = bound_of(network, X, y)[0]
    return {"method": method, "objective": norm if norm < np.inf else np.nan, "error": _error(network, fresh)}


def _error(network: ReLUNetwork, fresh: tuple[Array, Array]) -> float:
    return error(network.decision_function(fresh[0]), fresh[1])


def cost(settings: Settings) -> float:
    """The best network, and a training and a descent for each width."""
    return 3.0 + len(settings["units"]) * (settings["steps"] * 2e-4 + settings["max_steps"] * 6e-4)


def ratios(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of all methods with `ratio`, the objective over the best network's, infinity where nothing separates."""
    return table.assign(ratio=(table.objective / table.best).fillna(np.inf))


def draw(table: pd.DataFrame) -> Figure:
    """A panel for each data set: median ratios against the width, and every seed as a dot; the best network is 1.

    GD-ReLU itself, up to hundreds of times the best, or not yet separating, is in the table only.
    """
    found = ratios(table)
    there = [name for name in DATA if name in set(found.data)]
    axes = panels(TITLE, columns=len(there), size=(3.2, 3.0))
    for ax, name in zip(axes[0], there, strict=True):
        part = found[found.data == name]
        for method, look in METHODS.items():
            own = part[(part.method == method) & np.isfinite(part.ratio)]
            ax.plot(own.units, own.ratio, linestyle="", markersize=3, alpha=0.5, **look | {"label": None})
            ax.plot(own.groupby("units").ratio.median(), linewidth=1.2, markersize=4, **look)
        ax.axhline(1.0, color="black", linewidth=0.8)
        free = part[part.method == "no cones"].ratio.median()
        ax.axhline(free, color="black", linestyle=":", linewidth=0.8, label="all patterns, no cones")
        ax.set(xscale="log", yscale="log", xlabel="units", ylabel="norm / best network's", title=DATA[name])
        ax.set_xticks(sorted(set(part.units) - {0}), [str(units) for units in sorted(set(part.units) - {0})])
        ax.set_yticks([0.2, 0.5, 1.0, 1.5], ["0.2", "0.5", "1", "1.5"])
        ax.minorticks_off()
    return finished(axes, below=3)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Whether the widest networks' limits are the best network, whether SVM-LC bounds it, and what the cones cost."""
    found = ratios(table)
    widest = found[found.units == found.units.max()]
    limits, inside, learned, free = (
        part[part.method == method].groupby("data").ratio
        for part, method in ((widest, "limit"), (widest, "LC in cones"), (found, "LC"), (found, "no cones"))
    )
    width, runs = widest.units.max(), " % of the runs"
    near = 100 * (widest[widest.method == "limit"].ratio <= NEAR).mean()
    below = 100 * (found[found.method == "LC"].ratio < 1).mean()
    ends = f"{near:.0f} %; median ratios {named(limits.median(), '.3f')}"
    cones = f"median ratios {named(inside.median(), '.3f')}"
    falls = f"{below:.0f} %; least ratios {named(learned.min(), '.3f')}"
    relaxed = f"ratios up to {named(free.max(), '.3f')}"
    worst = inside.max().max()
    return [
        decide(f"descent at {width} units ends within 2 % of the best network", ends, near, "at least", 100, runs),
        decide(
            f"its gates hold a network within 2 % of the best, at {width} units",
            cones,
            worst,
            "at most",
            NEAR,
        ),
        decide("SVM-LC, without cones, falls below the best network in some runs", falls, below, "above", 0, runs),
        decide("without cones, all patterns together are below it in all runs", relaxed, free.max().max(), "below", 1),
    ]
