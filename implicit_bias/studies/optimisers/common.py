"""Optimisers, the margin problems of their norms, and distances of networks to the certified optima."""

import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from implicit_bias._utils.checks import Array
from implicit_bias.datasets import BinaryTask
from implicit_bias.gates import Gates
from implicit_bias.margin.formulations import svm_of_optimiser
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Solution
from implicit_bias.metrics import error, inconsistency, optimality_ratio
from implicit_bias.networks import GatedLinearNetwork, GatedNetwork
from implicit_bias.solvers import solve
from implicit_bias.studies.runner import COLOURS, Settings, claims, finished, panels
from implicit_bias.studies.runner.cells import binary_task
from implicit_bias.studies.runner.drawing import DATASETS
from implicit_bias.training.limit import descend_to_limit
from implicit_bias.training.steepest import LayeredDescent, ProjectedDescent, SteepestDescent

#: Norms of margin problems, with the `optimiser` of `svm_of_optimiser`.
NORMS: dict[str, Any] = {name: name for name in ("gd", "sign", "muon", "muon-sign")} | {"frobenius": ("rows", "l2")}
#: Names of norms in columns, figures and verdicts.
LABELS = {"gd": "GD", "sign": "sign", "muon": "Muon", "muon-sign": "Muon-sign", "frobenius": "Frobenius"}
#: Norms of searches: those of optimisers.
SEARCHES = tuple(NORMS)[:4]
#: Options of `SteepestDescent`. Longer steps than those of "muon" leave Muon further from its limit.
OPTIMISERS: dict[str, dict[str, Any]] = {
    "GD": {"optimiser": "gd", "step": 0.3, "momentum": 0.0},
    "sign": {"optimiser": "sign", "step": 0.3, "momentum": 0.0},
    "Signum": {"optimiser": "sign", "step": 0.3, "momentum": 0.9},
    "Adam": {"optimiser": "adam", "step": 0.3, "momentum": 0.9},
    "Muon": {"optimiser": "muon", "step": 0.1, "momentum": 0.9},
    "Muon-sign": {"optimiser": "muon-sign", "step": 0.1, "momentum": 0.9},
}
#: Norm of each optimiser, one of `NORMS`.
OWN = {name: {"adam": "sign"}.get(options["optimiser"], options["optimiser"]) for name, options in OPTIMISERS.items()}
#: Ratio up to which a path is at its limit.
REACHED = claims("optimisers", "ratios")["wins"].limits["reached"]
#: Label of the ratio of a network to an optimum.
RATIO = r"$N(\theta)^2$ / (margin × certified optimum)"
#: Ratio at which the colours of figures end.
DARK = 2.0
#: Certified gap required of the optima.
TOL = 1e-5
#: Tolerance of searches.
SEARCHED = 0.005
#: Length of a unit's weights, as a share of the longest, above which a unit is active.
ACTIVE = 1e-3
#: Inputs of random data with the constant, and number of new samples.
RANDOM_INPUTS, RANDOM_NEW = 40, 2000


def data(settings: Settings, root: str | None) -> BinaryTask:
    """Return the task of images, or for the data set 'random' Gaussian inputs with random labels."""
    if settings["dataset"] != "random":
        return binary_task(settings | {"split": "own"}, root)
    rng, n = np.random.default_rng(settings["seed"]), settings["train_size"]
    X = rng.normal(size=(n + RANDOM_NEW, RANDOM_INPUTS - 1))
    y = np.where(rng.random(len(X)) < 0.5, -1.0, 1.0)
    return BinaryTask.from_arrays(X[:n], y[:n], X[n:], y[n:], name="random")


def optima(X: Array, y: Array, gates: Gates, m: Any = 1) -> dict[str, tuple[MarginProblem, Solution]]:
    """Return the margin problem and its certified solution for each of `NORMS`; {} if no weights separate."""
    problems = {name: svm_of_optimiser(X, y, gates, optimiser, multiplicities=m) for name, optimiser in NORMS.items()}
    optima_by_norm: dict[str, tuple[MarginProblem, Solution]] = {}
    for name, problem in problems.items():
        solution = solve(problem, tol=TOL)
        if solution.status.inseparable:
            return {}
        optima_by_norm[name] = problem, solution
    return optima_by_norm


def descent(optimiser: str, max_steps: int) -> SteepestDescent:
    """Return the configuration of a descent by one of `OPTIMISERS`, without a time limit."""
    return SteepestDescent(**OPTIMISERS[optimiser], max_steps=max_steps, max_seconds=np.inf)


def tried(optimisers: Iterable[str], settings: Settings) -> list[tuple[str, str, str, LayeredDescent]]:
    """Return tuples (kind, method, norm, configuration): a 'path' for each optimiser, and a 'search' in each norm."""
    paths = [("path", name, OWN[name], descent(name, settings["steps"])) for name in optimisers]
    # KKT points in each norm, which are not the ends of an optimiser's path.
    config = {norm: ProjectedDescent(NORMS[norm], SEARCHED, settings["searches"], np.inf) for norm in SEARCHES}
    return [*paths, *(("search", LABELS[norm], norm, config[norm]) for norm in SEARCHES)]


def readout(network: GatedLinearNetwork) -> Array:
    """Return the weights v of the readout, shape (H,)."""
    assert network.readout is not None
    return np.asarray(network.readout.weight.detach()[0])


def descended(network: GatedNetwork, task: BinaryTask, config: LayeredDescent, optimum: float) -> dict[str, Any]:
    """Descend, in place; return made (steps), end, cpu_seconds, and ratio, N(θ)²/(margin × optimum) or infinity."""
    begin = time.process_time()
    result = descend_to_limit(network, task.X_train, task.y_train, config)
    last, seconds = result.table.iloc[-1], time.process_time() - begin
    reached = float(last.normalised_margin) * optimum
    ratio = 1 / reached if reached > 0 else np.inf
    return {"made": int(last.step), "end": result.end, "cpu_seconds": seconds, "ratio": ratio}


def distances(W: Array, solutions: dict[str, tuple[MarginProblem, Solution]]) -> dict[str, float]:
    """Return, for each norm, ‖W‖ divided by the least margin and the certified lower bound: columns 'to_gd', …"""
    bounds = {name: (problem, solution.lower_bound) for name, (problem, solution) in solutions.items()}
    return {f"to_{name}": optimality_ratio(problem, W, bound) for name, (problem, bound) in bounds.items()}


def disagreements(scores: Array, task: BinaryTask, others: dict[str, Array]) -> dict[str, float]:
    """Return the error on the validation samples, and the inconsistency with other scores: columns 'apart_gd', …"""
    apart = {f"apart_{name}": inconsistency(scores, other) for name, other in others.items()}
    return {"error": error(scores, task.y_val)} | apart


def active(W: Array, units: int) -> int:
    """Return the number of units with weights of W (units · gates per unit, d) above `ACTIVE` times the longest."""
    lengths = np.linalg.norm(W.reshape(units, -1), axis=1)
    return int((lengths > ACTIVE * lengths.max()).sum())


def nearest(table: pd.DataFrame) -> pd.Series:
    """Return, for each row, the norm whose column, 'to_' and norm, has the least value; '' if none is finite."""
    values = table.filter(regex="^to_").replace(np.inf, np.nan)
    finite = values.notna().any(axis=1)
    return values[finite].idxmin(axis=1).str.slice(len("to_")).reindex(table.index, fill_value="")


def place(where: Any) -> str:
    """Return the text that names a data set of a size: 'MNIST 200'."""
    dataset, n = where
    return f"{DATASETS.get(dataset, dataset)} {n}"


def counted(holds: pd.Series, table: pd.DataFrame) -> str:
    """Return how many rows of each data set and size are true, as text: 'random 60: 5 of 5, digits 200: 4 of 5'."""
    groups = holds.groupby([table.dataset, table.train_size], sort=False)
    return ", ".join(f"{place(key)}: {int(values.sum())} of {len(values)}" for key, values in groups)


def winners(path: pd.DataFrame, reached: float) -> tuple[str, bool | None]:
    """Return text and truth value of the claim that all paths with ratio ≤ `reached` have `wins`; None without any."""
    ended = path.ratio <= reached
    text = counted(path.wins[ended], path[ended]) if ended.any() else "no path is at its limit"
    if not ended.all():
        some = (~ended).groupby([path.dataset, path.train_size]).transform("any")
        text += f"; not at the limit: {counted(~ended[some], path[some])}"
    return text, bool(path.wins[ended].all()) if ended.any() else None


def matrices(table: pd.DataFrame, norms: dict[str, str], title: str) -> Figure:
    """Return a figure of the columns 'to_…': a panel for each data set, a row for each kind and method.

    Numbers are medians over draws, grey where the median of `ratio` exceeds that of a path at its limit. `norms` are
    the columns with their labels. The own norm is framed.
    """
    places = [*table.groupby(["dataset", "train_size"], sort=False)]
    lines = [*table[["kind", "method"]].drop_duplicates().itertuples(index=False, name=None)]
    shape = {"rows": -(-len(places) // 2), "columns": min(len(places), 2)}
    axes = panels(title, **shape, size=(0.5 * len(norms), 0.27 * len(lines) + 0.5), around=(1.2, 0.5), sharex=True)
    for ax in axes.flat[len(places) :]:
        ax.set_visible(False)
    for ax, (where, part) in zip(axes.flat, places, strict=False):
        groups = part.groupby(["kind", "method"])
        medians, ratio = (groups[columns].median().reindex(lines) for columns in ([f"to_{n}" for n in norms], "ratio"))
        names = groups.norm.first().reindex(lines)
        ax.imshow(medians.clip(upper=DARK), cmap="Blues", norm=LogNorm(1.0, 6 * DARK), aspect="auto")
        for i, line in enumerate(medians.to_numpy()):
            look = {"color": "black" if ratio.iloc[i] <= REACHED else "0.5", "fontsize": 7, "ha": "center"}
            for j, value in enumerate(line):
                ax.text(j, i, f"{value:.2f}" if value < 10 else "–", va="center", **look)
            frame = ([*norms].index(names.iloc[i]) - 0.5, i - 0.5)
            ax.add_patch(Rectangle(frame, 1, 1, fill=False, linewidth=1.2, edgecolor="black", clip_on=False))
        ax.set_xticks(range(len(norms)), norms.values(), rotation=40, ha="right", fontsize=7)
        ax.set_yticks(range(len(lines)), [], fontsize=8)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.set_title(place(where), fontsize=9)
    kinds = len(set(table.kind)) > 1
    for ax in axes[:, 0]:
        ax.set_yticklabels([f"{method}, {kind}" if kinds else method for kind, method in lines])
    return axes[0, 0].figure


def strips(table: pd.DataFrame, names: pd.Series, columns: dict[str, str], title: str, label: str) -> Figure:
    """Return a figure of `columns` (with labels) as points, a row for each different name in `names`; 1 is marked."""
    lines = [*dict.fromkeys(names)]
    axes = panels(title, size=(5.2, 0.22 * len(lines) + 0.8))
    for (column, text), colour in zip(columns.items(), ("blue", "orange"), strict=False):
        places = names.map(lines.index)
        axes[0, 0].plot(table[column], places, "o", markersize=3, color=COLOURS[colour], label=text)
    axes[0, 0].axvline(1.0, color="black", linewidth=0.6)
    axes[0, 0].set_yticks(range(len(lines)), lines)
    axes[0, 0].set(xlabel=label, ylim=(len(lines) - 0.5, -0.5))
    return finished(axes)
