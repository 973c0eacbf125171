"""Does descent end at the margin problem's solution? Networks driven to the limit, measured on the way."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from tqdm import tqdm

from implicit_bias.comparison import alignment, inconsistency, optimality_ratio
from implicit_bias.datasets import BinaryTask
from implicit_bias.experiments.limit.figure import limit_figure
from implicit_bias.experiments.runner.cells import binary_task
from implicit_bias.experiments.runner.experiment import Experiment, Rows, Settings
from implicit_bias.experiments.runner.verdicts import Verdict
from implicit_bias.gates import ConstantGate, HyperplaneGates
from implicit_bias.ground.checks import InputError, as_count, as_positive, one_of
from implicit_bias.margin.formulations import svm_gln, svm_lc, svm_shallow
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solvers import Solution, solve
from implicit_bias.networks import GatedLinearNetwork, GatedNetwork, ReLUNetwork
from implicit_bias.training.iterations import LossScaled, PlainDescent
from implicit_bias.training.limit import descend_to_limit
from implicit_bias.training.sgd import SGD, train
from implicit_bias.training.stationarity import stationarity

NETWORKS = ("gln", "relu", "linear", "deep-gln", "deep-relu")
STARTS = ("trained", "initial")
MEASURES = ("ratio", "inconsistency", "alignment", "stationarity")
COLUMNS = (
    *("network", "descent", "step", "seconds", "log_loss", "margin", "norm", "normalised_margin", "residual"),
    *(*MEASURES, "optimum", "gap", "end"),
)
#: A ratio up to which a descent counts as at the optimum.
REACHED = 1.01


@dataclass(frozen=True)
class LimitConfig:
    """What `implicit-bias reproduce limit` runs; the fields are its options.

    `start` is 'trained' (the published training) or 'initial'. Raises InputError for values out of range.

    >>> LimitConfig(network=("gln",)).train_size
    100
    """

    dataset: str = "digits"
    network: tuple[str, ...] = ("gln", "relu", "linear")
    units: int = 10
    contexts: int = 2
    seed: int = 1
    train_size: int = 100
    start: str = "trained"
    tolerance: float = 1e-3
    lr: float = 0.01
    max_seconds: float = 200.0

    def __post_init__(self) -> None:
        for name in self.network:
            one_of(name, NETWORKS, "network")
        if len(set(self.network)) < len(self.network) or not self.network:
            raise InputError("--network lists a network twice, or none; give each once")
        one_of(self.start, STARTS, "start")
        as_count(self.units, "units")
        as_positive(self.max_seconds, "max_seconds")
        LossScaled(self.tolerance)
        PlainDescent(self.lr)

    def cells(self) -> list[Settings]:
        """The settings of a cell for each network."""
        return [vars(self) | {"network": name} for name in self.network]


def build(settings: Settings, task: BinaryTask) -> tuple[GatedNetwork, MarginProblem | None]:
    """The network, trained unless it starts as drawn, and the margin problem of its bias, if one is known."""
    X, y, seed, name = task.X_train, task.y_train, settings["seed"], settings["network"]
    units, contexts = settings["units"], settings["contexts"]
    network: GatedNetwork
    if name == "linear":
        network = GatedLinearNetwork(HyperplaneGates(1, 1, seed).fit(task.X_pool), readout=False)
    elif name.endswith("gln"):
        seeds = (seed, seed + 1) if name == "deep-gln" else (seed,)
        network = GatedLinearNetwork([HyperplaneGates(units, contexts, s).fit(task.X_pool) for s in seeds])
    else:
        network = ReLUNetwork(X.shape[1], [2 * units] * (2 if name == "deep-relu" else 1), seed=seed)
    if settings["start"] == "trained" and train(network, X, y, SGD(), seed=seed).interrupted:
        raise KeyboardInterrupt
    if name == "relu":
        assert isinstance(network, ReLUNetwork)
        network = network.freeze()
        return network, svm_lc(X, y, network)
    if name == "linear":
        return network, svm_shallow(X, y, ConstantGate())
    return network, svm_gln(X, y, network.gates()) if name == "gln" else None


def measurer(
    task: BinaryTask, problem: MarginProblem | None, solution: Solution | None
) -> Callable[[GatedNetwork], dict[str, float]]:
    """What is measured for every row of the table."""
    scores = problem.decision_function(solution.weights, task.X_val) if problem and solution else None

    def measure(network: GatedNetwork) -> dict[str, float]:
        row = dict.fromkeys(MEASURES, float("nan"))
        if problem is not None and solution is not None:
            weights = network.effective_weights()
            row["ratio"] = optimality_ratio(problem, weights, solution.lower_bound)
            row["inconsistency"] = inconsistency(network.decision_function(task.X_val), scores)
            row["alignment"] = alignment(weights, solution.weights)
        if (task.y_train * network.decision_function(task.X_train)).min() > 0:
            row["stationarity"] = stationarity(network, task.X_train, task.y_train).residual
        return row

    return measure


def rows(settings: Settings, task: BinaryTask) -> Rows:
    """A row for each recorded step of the loss-scaled descent of a network, and of a plain one of as many steps.

    Both begin with the same weights. With every row: optimum and gap of the certified solution, if there is one; how
    the descent ended.
    """
    name = settings["network"]
    network, problem = build(settings, task)
    solution = None if problem is None else solve(problem)
    if solution is not None and solution.status.inseparable:
        raise InputError(f"the {name} network cannot separate the samples; use a smaller --train-size or more --units")
    optimum = {} if solution is None else {"optimum": solution.objective, "gap": solution.gap}
    twin, measure, limit = copy.deepcopy(network), measurer(task, problem, solution), settings["max_seconds"]
    found: Rows = []

    def descend(label: str, network: GatedNetwork, config: LossScaled | PlainDescent) -> int:
        with tqdm(total=round(limit), desc=f"{name}, {label}", unit="s", leave=False, disable=None) as bar:

            def show(step: int, seconds: float) -> None:
                bar.set_postfix_str(f"step {step}", refresh=False)
                bar.update(min(int(seconds), bar.total) - bar.n)

            descent = descend_to_limit(network, task.X_train, task.y_train, config, measure=measure, progress=show)
        about = {"descent": label, "end": descent.end} | optimum
        found.extend({str(name): float(row[name]) for name in row} | about for row in descent.table.to_dict("records"))
        if descent.end == "interrupted":
            raise KeyboardInterrupt(found)
        return int(descent.table.step.iloc[-1])

    steps = descend("loss-scaled", network, LossScaled(settings["tolerance"], max_seconds=limit))
    descend("plain", twin, PlainDescent(settings["lr"], max(1, steps), limit))
    return found


def cost(settings: Settings) -> float:
    """Two descents, and a network's training; few take all the time that they may."""
    return 0.3 * float(settings["max_seconds"])


def ends(table: pd.DataFrame) -> pd.DataFrame:
    """The last row of every descent.

    >>> ends(pd.DataFrame({"network": "gln", "descent": "plain", "step": [0, 9]})).step.tolist()
    [9]
    """
    return table.groupby(["network", "descent"], sort=False).tail(1)


def lines(table: pd.DataFrame) -> str:
    """How every descent ended, a line each."""
    texts = []
    for row in ends(table).to_dict("records"):
        known = f"ratio {row['ratio']:.5f}, inconsistency {100 * row['inconsistency']:.2f} %, "
        texts.append(
            f"{row['network']:9s} {row['descent']:11s} {'' if pd.isna(row['ratio']) else known}"
            f"residual {row['stationarity']:.4f}, margin/norm^L {row['normalised_margin']:.5g} "
            f"after {int(row['step'])} steps, {row['seconds']:.1f} s ({row['end'].replace('max_seconds', 'cut off')})"
        )
    return "\n".join(texts)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """For every network whether descent ended at the certified optimum, and a plain one farther from it.

    Networks without a known margin problem are compared by their normalised margins.
    """
    found = []
    for network, part in ends(table).groupby("network", sort=False):
        last = part.set_index("descent")
        if {"loss-scaled", "plain"} <= set(last.index):
            found += _judged(network, last.loc["loss-scaled"], last.loc["plain"], bool(part.ratio.notna().any()))
    return found


def _judged(network: Any, scaled: Any, plain: Any, known: bool) -> list[Verdict]:
    if not known:
        claim = f"loss-scaled descent of {network} ends at a larger margin than plain descent"
        margins = f"normalised margins {scaled.normalised_margin:.4g} and {plain.normalised_margin:.4g}"
        larger = bool(scaled.normalised_margin > plain.normalised_margin)
        return [Verdict(claim, margins, "the larger one", larger)]
    found = [f"ratio {end.ratio:.4f}, inconsistency {100 * end.inconsistency:.2f} %" for end in (scaled, plain)]
    reached = bool(scaled.ratio <= REACHED)
    farther = None if np.isnan(plain.ratio) else bool(plain.ratio > scaled.ratio)
    at = f"loss-scaled descent of {network} ends at the certified optimum"
    return [
        Verdict(at, found[0], f"ratio at most {REACHED}", reached),
        Verdict(f"plain descent of {network} ends farther from it", found[1], "a larger ratio", farther),
    ]


def quick_or_whole(quick: bool) -> list[Settings]:
    """The networks with a known margin problem on digits; quick: few samples, from scratch."""
    return (LimitConfig(train_size=40, units=3, start="initial", tolerance=0.05) if quick else LimitConfig()).cells()


EXPERIMENT = Experiment(
    name="limit",
    title="The limit of gradient descent",
    source="Theorem 3.1",
    claim="Gradient descent on the logistic loss ends in the direction of the max-margin solution.",
    grid=quick_or_whole,
    rows=rows,
    cost=cost,
    draw=limit_figure,
    verdicts=verdicts,
    data=binary_task,
    revision=2,
    columns=COLUMNS,
    coordinates=("network", "seed"),
    limits=("max_seconds",),
)


def titled(config: LimitConfig) -> Experiment:
    """The experiment with this configuration, and its samples named in the title.

    >>> titled(LimitConfig()).title
    'The limit of gradient descent (digits, n = 100)'
    """
    title = f"{EXPERIMENT.title} ({config.dataset}, n = {config.train_size})"
    return replace(EXPERIMENT, title=title, grid=lambda _: config.cells(), draw=partial(limit_figure, title=title))
