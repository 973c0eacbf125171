"""Ends of softmax descent on several outputs, compared with the max-margin problem of all classes.

Ten classes of digits or MNIST, inputs with a constant. Networks of one hidden layer descend on the softmax loss from
the published start towards their limit. GLNs have H units that the ten outputs share, with one ('one') or ten ('ten')
copies of each unit behind the same gates, or separate units for each output ('own'). ReLU networks have 4H shared units
whose gates stay as they are at the start ('frozen') or are learned ('relu'). The limit is compared with the margin
problem of its norm and final gates: the ratio is ½‖w‖² at least margin 1 over all pairs of classes, divided by the
certified lower bound.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias._utils.checks import Array
from implicit_bias.datasets.images import ImageClasses
from implicit_bias.features import Features
from implicit_bias.gates import FunctionContexts, Gates, HyperplaneGates
from implicit_bias.margin.classes import ClassMarginProblem, svm_classes
from implicit_bias.margin.solution import Solution
from implicit_bias.networks import GatedLinearNetwork, GatedNetwork, ParallelNetwork, ReLUNetwork
from implicit_bias.solvers import solve
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, decide, finished, panels, product, span
from implicit_bias.studies.runner.cells import drawn_images, image_classes
from implicit_bias.studies.runner.drawing import DATASETS, log_ticks, trend
from implicit_bias.training.iterations import LossScaled
from implicit_bias.training.limit import descend_to_limit

TITLE = "Ten classes: where softmax descent ends"
CLAIM = "Softmax descent ends at the max-margin problem of all classes whose norm is that of its outputs."
CLASSES = 10
#: Networks, with their look.
NETWORKS = {
    "ten": {"color": COLOURS["green"], "marker": "s", "label": "shared units, ten behind each gate"},
    "one": {"color": COLOURS["red"], "marker": "v", "label": "shared units, one behind each gate"},
    "own": {"color": COLOURS["blue"], "marker": "o", "label": "units of their own"},
    "frozen": {"color": COLOURS["orange"], "marker": "^", "label": "frozen ReLU, shared units"},
    "relu": {"color": COLOURS["purple"], "marker": "x", "label": "ReLU, shared units"},
}
#: Networks with separate gates, so that each has a separate margin problem.
LAYERS = ("frozen", "relu")
#: Certified gap of the optima; since revision 2, with shared units, too.
TOL = 1e-4
REVISION = 2
#: Least singular value, relative to the largest, that counts towards the rank.
VISIBLE = 1e-3
#: Ratio up to which a limit counts as the optimum.
NEAR = 1.02
#: Steps of a descent at most.
STEPS = 20_000
data = image_classes


def grid(quick: bool) -> list[Settings]:
    fixed = {"held_out": (0,), "tolerance": (3e-3,)}
    if quick:
        return product(dataset=("digits",), train_size=(60,), units=(3,), network=(["ten", "own"],), seed=(1,), **fixed)
    fixed |= {"units": (5,)}
    few = ["ten", "one", "own"]
    return [
        *product(dataset=("digits",), train_size=(60,), network=([*NETWORKS],), seed=(1, 2, 3), **fixed),
        *product(dataset=("digits",), train_size=(150, 300), network=(few,), seed=(1, 2, 3), **fixed),
        *product(dataset=("mnist",), train_size=(500, 1000), network=(few,), seed=(1, 2), **fixed),
        *product(dataset=("mnist",), train_size=(2000, 5000), network=(few,), seed=(1,), **fixed),
    ]


def rows(settings: Settings, images: ImageClasses) -> Rows:
    """Return a row for each network: norm, steps and end of the descent, test error, rank, and two comparisons.

    `norm` is ½‖w‖² divided by the least margin. The network is compared with the problem of the same norm in the
    columns lower_bound, gap, ratio, problem_error and inconsistency. Columns with the prefix 'other_' compare the value
    of the other norm (shared or separate units) at the outputs' weights, also divided by the least margin, with the
    problem of that norm. `norm` and both ratios are NaN unless the least margin is positive. `rank` is the mean rank,
    over units, of the answer to the problem of shared units.
    """
    X, y = drawn_images(settings, images)
    table: Rows = []
    solved: dict[str, tuple[ClassMarginProblem, Solution]] = {}
    for kind in settings["network"]:
        network, gates = _network(kind, settings, X, images.X_train)
        descent = descend_to_limit(network, X, y, LossScaled(settings["tolerance"], max_steps=STEPS))
        gates = network.gates() if gates is None else gates
        # Units behind the same gates add up.
        W = network.effective_weights().reshape(CLASSES, -1, gates(X[:1]).k, X.shape[1]).sum(axis=1)
        W = W.reshape(-1, X.shape[1])
        if kind in LAYERS or not solved:
            problems = {norm: svm_classes(X, y, gates, shared=norm == "shared") for norm in ("own", "shared")}
            solved = {norm: (problem, solve(problem, tol=TOL)) for norm, problem in problems.items()}
        same, other = ("own", "shared") if kind == "own" else ("shared", "own")
        problem = solved[other][0]
        margin = float(problem.margins(W).min())
        norms = [0.5 * network.norm() ** 2 / margin, problem.norm.value(W) / margin] if margin > 0 else [np.nan] * 2
        scores, tests = network.decision_function(images.X_test), gates(images.X_test)
        row = {"network": kind, "norm": norms[0], "steps": int(descent.table.step.iloc[-1]), "end": descent.end}
        row |= {"error": float(np.mean(scores.argmax(axis=1) != images.y_test)), "rank": _rank(*solved["shared"])}
        row |= _held(solved[same], norms[0], scores, tests, images.y_test)
        against = _held(solved[other], norms[1], scores, tests, images.y_test)
        table.append(row | {f"other_{name}": value for name, value in against.items()})
    return table


def _network(kind: str, settings: Settings, X: Array, pool: Array) -> tuple[GatedNetwork, Gates | None]:
    units, seed = settings["units"], settings["seed"]
    if kind in LAYERS:
        network = ReLUNetwork(X.shape[1], 4 * units, outputs=CLASSES, seed=seed)
        return (network.freeze() if kind == "frozen" else network), None
    gates = HyperplaneGates(units, 2, seed=seed).fit(pool)
    if kind == "own":
        return ParallelNetwork([GatedLinearNetwork(gates, seed=100 * seed + c) for c in range(CLASSES)]), gates
    if kind == "one":
        return GatedLinearNetwork(gates, outputs=CLASSES, seed=seed), gates
    copies = FunctionContexts(lambda X: np.tile(gates.contexts_of(X), (1, CLASSES)), 2).fit(X)
    return GatedLinearNetwork(copies, outputs=CLASSES, seed=seed), gates


def _held(
    solved: tuple[ClassMarginProblem, Solution], norm: float, scores: Array, tests: Features, labels: np.ndarray
) -> dict[str, Any]:
    problem, solution = solved
    answers = np.column_stack([tests @ weights for weights in problem.outputs(solution.weights)]).argmax(axis=1)
    return {
        **{"lower_bound": solution.lower_bound, "gap": solution.gap, "ratio": norm / solution.lower_bound},
        "problem_error": float(np.mean(answers != labels)),
        "inconsistency": float(np.mean(answers != scores.argmax(axis=1))),
    }


def _rank(problem: ClassMarginProblem, solution: Solution) -> float:
    sizes = np.linalg.svd(problem.norm.matrices(solution.weights), compute_uv=False)
    return float((sizes > VISIBLE * sizes.max()).sum(axis=1).mean())


def cost(settings: Settings) -> float:
    return (3.0 + len(settings["network"])) * settings["train_size"] / (30 if settings["dataset"] == "mnist" else 60)


def draw(table: pd.DataFrame) -> Figure:
    there = [name for name in DATASETS if name in set(table.dataset)]
    axes = panels(TITLE, columns=len(there), size=(3.4, 3.0))
    for ax, name in zip(axes[0], there, strict=True):
        part = table[table.dataset == name]
        for kind, look in NETWORKS.items():
            trend(ax, part[part.network == kind].set_index("train_size").ratio, **look)
        ax.axhline(1.0, color="black", linewidth=0.8)
        ax.set(yscale="log", xlabel="samples $n$", ylabel="norm / certified optimum", title=DATASETS[name])
        ax.set_yticks([1, 1.2, 1.5, 2], ["1", "1.2", "1.5", "2"])
        log_ticks(ax, part.train_size)
        ax.set_xlim(part.train_size.min() / 1.3, 1.3 * part.train_size.max())
    return finished(axes, below=2)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    decided = []
    for kind, ratio in ((kind, table[table.network == kind].ratio) for kind in NETWORKS):
        if len(ratio):
            claim = f"{NETWORKS[kind]['label']}: the limit is within 2 % of its optimum in every run"
            decided.append(decide(claim, f"ratios from {span(ratio, '.4f')}", ratio.max(), "at most", NEAR))
    other, claim = table[table.network == "ten"].other_ratio.min(), "shared units do not end at the optimum of the "
    return [*decided, decide(f"{claim}other norm", f"least ratio {other:.3f}", other, "above", NEAR)]
