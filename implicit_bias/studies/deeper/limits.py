"""Distance between the end of descent and the best chains, with two, three and four layers.

The embedded digits, 0 to 4 against 5 to 9, have 65 inputs with the constant. Chains of L layers have the contexts of a
GLN with 5 units of 2 contexts; all layers except the readout are gated. Weights start at the standard size, or at 0.3
times this size. Training is gradient descent (full batch, logistic loss, 1000 steps at 0.1), then descent to the limit.
The limit is compared with the best chains found by reweighting and by branch and bound, and with the lower bound for
all chains.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias._utils.checks import Array
from implicit_bias.datasets import BinaryTask
from implicit_bias.extensions.best_networks import ChainNetwork, best_chains
from implicit_bias.extensions.best_networks.chains.cost import ChainCost, without_inactive
from implicit_bias.gates import HyperplaneGates
from implicit_bias.metrics import error, optimality_ratio
from implicit_bias.solvers import solve
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, decide, finished, panels, product, span
from implicit_bias.studies.runner.cells import binary_task
from implicit_bias.training.iterations import LossScaled
from implicit_bias.training.limit import descend_to_limit
from implicit_bias.training.optimisers import SGD
from implicit_bias.training.sgd import train
from implicit_bias.training.stationarity import stationarity

TITLE = "How far from the best chains descent ends"
CLAIM = "Descent on chains of any depth ends at the best chains behind their gates."
#: Ratio up to which a network counts as the best.
NEAR = 1.02
#: Ratio up to which a network counts as left in its place.
STAYS = 1.01
#: Length of a gate's weights, relative to the largest, below which the gate is inactive.
INACTIVE = 1e-3
data = binary_task


def grid(quick: bool) -> list[Settings]:
    fixed = {"dataset": ("digits",), "train_size": (100,), "layers": (2, 3, 4), "units": (5,), "scale": ([1.0, 0.3],)}
    fixed |= {"steps": (1000,), "max_steps": (2500,), "split": ("own",)}
    return product(**fixed, nodes=(30,) if quick else (1000,), seed=(1,) if quick else (1, 2))


def rows(settings: Settings, task: BinaryTask) -> Rows:
    """Return a row for each scale: separated (after plain descent), limit, tangent, left, residual, active, error, end.

    `limit` is ‖w‖²/L at margin 1, infinite without separation. `tangent` is the ratio of the limit to the optimum of
    the group lasso whose weights are the tangent of the cost at the limit; it is 1 at a stationary point. `left` is the
    objective that reweighting reaches from the limit, `residual` the one of Theorem 3.1, and `active` the number of
    gates with weights.

    All rows repeat best, lower_bound, convex, search_end, solves, best_active and best_error of the best chains. There
    are no rows if no chains that separate are found.
    """
    seed, layers, nodes = settings["seed"], settings["layers"], settings["nodes"]
    X, y = task.X_train, task.y_train
    gates = HyperplaneGates(settings["units"], 2, seed=seed).fit(task.X_pool)
    descents = [_descended(scale, settings, gates, X, y) for scale in settings["scale"]]
    best = best_chains(X, y, gates, layers, nodes=nodes, seed=seed)
    if best.network is None:
        return []
    # If descent ended lower than the best chains found, the search starts again from its end.
    for row, network in descents:
        if row["limit"] < np.inf:
            again = best_chains(X, y, gates, layers, starts=1, nodes=0, start=network)
            row |= {"left": float(again.table.objective.iloc[-1]), "tangent": _tangent(network, X, y)}
            if again.objective < best.objective * (1 - 1e-3):
                best = best_chains(X, y, gates, layers, nodes=nodes, seed=seed, start=network)
        row |= {"active": _active(network), "error": error(network.decision_function(task.X_val), task.y_val)}
    assert best.network is not None
    held = {
        **{"best": best.objective, "lower_bound": best.lower_bound, "convex": best.convex_bound},
        **{"search_end": best.end, "solves": len(best.table), "best_active": _active(best.network)},
        "best_error": error(best.network.decision_function(task.X_val), task.y_val),
    }
    return [row | held for row, _ in descents]


def _descended(
    scale: float, settings: Settings, gates: HyperplaneGates, X: Array, y: Array
) -> tuple[dict[str, Any], ChainNetwork]:
    layers = settings["layers"]
    network = ChainNetwork(gates, layers, scale=scale, seed=settings["seed"]).double()
    plain = SGD(steps=settings["steps"], batch_size=len(X), lr=0.1)
    trained = train(network, X, y, plain, seed=settings["seed"], every=settings["steps"])
    descent = descend_to_limit(network, X, y, LossScaled(tolerance=0.01, max_steps=settings["max_steps"]))
    margin = float((y * network.decision_function(X)).min())
    row = {"scale": scale, "separated": bool(trained.table.margin.iloc[-1] > 0), "end": descent.end}
    row |= {"limit": np.inf, "left": np.nan, "tangent": np.nan, "residual": np.nan}
    if margin > 0:
        row["limit"] = network.norm() ** 2 / layers / margin ** (2 / layers)
        row["residual"] = stationarity(network, X, y).residual
    return row, network


def _tangent(network: ChainNetwork, X: Array, y: Array) -> float:
    cost, features = ChainCost(network.units, network.degree, network.gated), network.gates()(X)
    W = without_inactive(network.effective_weights(), cost)
    problem, finite = cost.problem(features, y, cost.tangent(cost.lengths(W)))
    return optimality_ratio(problem, W[finite], solve(problem, tol=1e-5).objective)


def _active(network: ChainNetwork) -> int:
    lengths = np.linalg.norm(network.effective_weights(), axis=1)
    return int((lengths > INACTIVE * lengths.max()).sum())


def cost(settings: Settings) -> float:
    size = settings["train_size"] / 100
    return 2.0 + settings["nodes"] * 0.015 * size + 2 * settings["max_steps"] * 5e-4 * size


def draw(table: pd.DataFrame) -> Figure:
    """Plot, against L, limits and lower bounds divided by the best objective found, active gates, and errors."""
    axes = panels(TITLE, columns=3, size=(3.0, 2.9))
    held = table.drop_duplicates(["layers", "seed"])
    for scale, colour, shift in ((1.0, "blue", -0.1), (0.3, "orange", 0.1)):
        part = table[(table.scale == scale) & np.isfinite(table.limit)]
        look: dict[str, Any] = {"color": COLOURS[colour], "label": f"limit of descent, start of scale {scale:g}"}
        for ax, values in zip(axes[0], (part.limit / part.best, part.active, 100 * part.error), strict=True):
            ax.plot(part.layers + shift, values, "o", markersize=4, **look)
    for values, colour, marker, label in (
        (held.lower_bound, "black", "_", "bound by boxes"),
        (held.convex, "green", "v", "convex bound"),
    ):
        axes[0, 0].plot(held.layers, values / held.best, marker, color=COLOURS[colour], label=label)
    for ax, values in zip(axes[0, 1:], (held.best_active, 100 * held.best_error), strict=True):
        ax.plot(held.layers, values, "_", color=COLOURS["red"], markersize=10, label="best found")
    axes[0, 0].axhline(1.0, color="black", linewidth=0.6)
    labels = (r"$\Vert w\Vert^2$ / best found", "gates with weights", "error (%)")
    for ax, label in zip(axes[0], labels, strict=True):
        ax.set(xlabel="layers $L$", ylabel=label)
        ax.set_xticks(sorted(set(table.layers)))
    return finished(axes, below=3)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    ratio, deep = table.limit / table.best, table.layers > 2
    held = table.drop_duplicates(["layers", "seed"])
    excess, ended = table.limit / table.left, np.isfinite(table.limit)
    gaps = 1 - held.lower_bound / held.best
    decided, runs = [], " % of the runs"
    for layers, ratios in ratio.groupby(table.layers):
        near = 100 * (ratios <= NEAR).mean()
        text = f"{near:.0f} %; median ratio {ratios.median():.3f}, {span(ratios, '.3f')}"
        claim = f"descent on {layers} layers ends within 2 % of the best found"
        decided.append(decide(claim, text, near, "at least", 100, runs))
    left = excess[deep & ended]
    stays, text = 100 * (left <= STAYS).mean(), f"ratios {span(left, '.3f')}"
    claim = "where descent on three and four layers separates, reweighting leaves it within 1 %"
    decided.append(decide(claim, text, stays, "at least", 100, runs))
    claim = "the best found of three and four layers is the global optimum, certified to 0.1 %"
    certified = 100 * (gaps <= 1e-3)[held.layers > 2].mean()
    text = f"{certified:.0f} %; gaps up to {gaps.max():.3f}"
    return [*decided, decide(claim, text, certified, "at least", 100, " % of the cells")]
