"""Methods compared with the best network: descent, its limit, and max-margin problems with given gates."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias._utils.checks import Array
from implicit_bias.extensions.best_networks import BestNetwork
from implicit_bias.extensions.best_networks.relu.network import bound_of, network_of
from implicit_bias.gates import RandomHalfSpaces
from implicit_bias.margin.formulations import svm_lc, svm_rc
from implicit_bias.metrics import error
from implicit_bias.networks import ReLUNetwork
from implicit_bias.solvers import solve
from implicit_bias.solvers.native.cones import solve_in_cones
from implicit_bias.studies.runner import Rows, Settings, Verdict, decide, finished, named, panels, span
from implicit_bias.studies.runner.drawing import log_ticks, style, trend
from implicit_bias.training.iterations import LossScaled
from implicit_bias.training.limit import descend_to_limit
from implicit_bias.training.optimisers import SGD
from implicit_bias.training.sgd import train

#: Methods that are plotted, with their style: norms of networks, and objectives of problems with given gates.
METHODS = {
    "limit": style("limit", "limit of descent"),
    "LC in cones": style("SVM-LC in cones"),
    "LC": style("SVM-LC"),
    "RC": style("SVM-RC"),
}
#: Certified gap required of the best network on images and pairs of digits.
TOLERANCE = 1e-6
#: Largest ratio of norms at which a network counts as the best.
NEAR = 1.02


def beside(best: BestNetwork, settings: Settings, X: Array, y: Array, fresh: tuple[Array, Array]) -> Rows:
    """Return a row for the best network, with `units` 0, and the rows of `at_width` for each width.

    Columns: units, method, objective, error (on the samples and labels `fresh`) and end, then those of the best network
    in all rows: best (its norm), lower_bound, gap, complete, search_end, rounds, patterns and best_units.
    """
    assert best.network is not None
    held = {
        **{"best": best.objective, "lower_bound": best.lower_bound, "gap": best.gap, "complete": best.complete},
        **{"search_end": best.end, "rounds": len(best.table), "patterns": int(best.table.patterns.iloc[-1])},
        "best_units": best.network.units[0],
    }
    wrong = error(best.network.decision_function(fresh[0]), fresh[1])
    table: Rows = [{"units": 0, "method": "best", "objective": best.objective, "error": wrong}]
    for units in settings["units"]:
        table += [{"units": units} | row for row in at_width(units, settings, X, y, fresh)]
    return [row | held for row in table]


def at_width(units: int, settings: Settings, X: Array, y: Array, fresh: tuple[Array, Array]) -> Rows:
    """Return a row (method, objective, error) for GD, limit, LC in cones, LC and RC; NaN if no weights separate."""
    network = ReLUNetwork(X.shape[1], units, seed=settings["seed"])
    train(network, X, y, SGD(steps=settings["steps"], batch_size=len(X), lr=0.1), seed=settings["seed"])
    table = [_scored("GD", network, X, y, fresh)]
    descent = descend_to_limit(network, X, y, LossScaled(tolerance=0.01, max_steps=settings["max_steps"]))
    table.append(_scored("limit", network, X, y, fresh) | {"end": descent.end})
    nothing, inside = {"objective": np.nan, "error": np.nan}, in_cones(network, X, y, TOLERANCE)
    table.append({"method": "LC in cones"} | nothing if inside is None else _scored("LC in cones", inside, X, y, fresh))
    gates = RandomHalfSpaces(units, seed=settings["seed"])
    for name, problem in (("LC", svm_lc(X, y, network)), ("RC", svm_rc(X, y, gates))):
        solution = solve(problem)
        row = {"method": name} | nothing
        if not solution.status.inseparable:
            assert problem.gates is not None
            wrong = error(problem.gates(fresh[0]) @ solution.weights, fresh[1])
            row |= {"objective": solution.objective, "error": wrong}
        table.append(row)
    return table


def in_cones(network: ReLUNetwork, X: Array, y: Array, tol: float) -> ReLUNetwork | None:
    """Return the best network with the activation patterns of a network on X (n, d); None if none separates."""
    patterns = np.unique(network.gates()(X).gate_values.T, axis=0)
    signs = np.repeat([1.0, -1.0], len(patterns))
    W = solve_in_cones(X, y, np.vstack([patterns, patterns]), signs, np.inf, tol).weights
    return network_of(W, signs > 0) if W.any() else None


def _scored(method: str, network: ReLUNetwork, X: Array, y: Array, fresh: tuple[Array, Array]) -> dict[str, Any]:
    norm = bound_of(network, X, y)[0]
    row = {"method": method, "objective": norm if norm < np.inf else np.nan}
    return row | {"error": error(network.decision_function(fresh[0]), fresh[1])}


def ratios(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with `ratio`, the objective divided by `best`; infinite if no weights separate."""
    return table.assign(ratio=(table.objective / table.best).fillna(np.inf))


def draw(table: pd.DataFrame, title: str, names: dict[str, str]) -> Figure:
    """Plot ratios against the width, in a panel for each data set: points are seeds, lines medians; 1 is the best."""
    compared = ratios(table)
    there = [name for name in names if name in set(compared.data)]
    columns = min(len(there), 3 if len(there) % 2 else 2)
    axes = panels(title, columns, len(there) // columns, (3.0, 2.6))
    for ax, name in zip(axes.flat, there, strict=True):
        part = compared[compared.data == name]
        for method, look in METHODS.items():
            subset = part[(part.method == method) & np.isfinite(part.ratio)]
            trend(ax, subset.set_index("units").ratio, **look)
        ax.axhline(1.0, color="black", linewidth=0.8)
        free = part[part.method == "no cones"].ratio
        if len(free):
            ax.axhline(free.median(), color="black", linestyle=":", linewidth=0.8, label="all patterns, no cones")
        ax.set(yscale="log", xlabel="units", ylabel="norm / best network's", title=names[name])
        ax.set_yticks([0.2, 0.5, 1.0, 1.5], ["0.2", "0.5", "1", "1.5"])
        log_ticks(ax, set(part.units) - {0})
    return finished(axes, below=3)


def certified(table: pd.DataFrame) -> Verdict:
    """Return the verdict that the gap of the best network is at most `TOLERANCE` in every cell."""
    text = f"gaps up to {table.gap.max():.0e}, by {span(table.patterns, '.0f')} patterns"
    return decide("the optimum is certified in every cell", text, table.gap.max(), "at most", TOLERANCE)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Return verdicts: limits and networks in cones within 2 % at the largest width; SVM-LC below 1 in some runs."""
    compared = ratios(table)
    limits, inside, learned = (compared[compared.method == method] for method in ("limit", "LC in cones", "LC"))
    limits, inside = (part[part.units == part.units.max()] for part in (limits, inside))
    runs, medians = " % of the runs", [named(part.groupby("data").ratio.median(), ".3f") for part in (limits, inside)]
    near, below = 100 * (limits.ratio <= NEAR).mean(), 100 * (learned.ratio < 1 - learned.gap).mean()
    ends = f"{near:.0f} %; median ratios {medians[0]}"
    cones = f"median ratios {medians[1]}; at most {inside.ratio.max():.3f}"
    falls = f"{below:.0f} %; least ratios {named(learned.groupby('data').ratio.min(), '.3f')}"
    descent = f"descent at {limits.units.max()} units ends within 2 % of the best network"
    holds = f"its gates hold a network within 2 % of the best, at {inside.units.max()} units"
    return [
        decide(descent, ends, near, "at least", 100, runs),
        decide(holds, cones, inside.ratio.max(), "at most", NEAR),
        decide("SVM-LC, without cones, falls below the best network in some runs", falls, below, "above", 0, runs),
    ]
