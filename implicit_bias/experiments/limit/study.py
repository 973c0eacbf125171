"""Does descent end at the margin problem's solution? Networks driven to the limit, measured on the way."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from implicit_bias.comparison import alignment, inconsistency, optimality_ratio
from implicit_bias.datasets import BinaryTask, load_binary
from implicit_bias.experiments.limit.figure import limit_figure
from implicit_bias.experiments.paper.plots import drawn
from implicit_bias.experiments.runner.collect import surroundings
from implicit_bias.gates import ConstantGate, HyperplaneGates
from implicit_bias.ground.checks import InputError, as_count, as_positive, one_of
from implicit_bias.ground.files import require_writable, write_atomically
from implicit_bias.margin.formulations import svm_gln, svm_lc, svm_shallow
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solvers import Solution, Status, solve
from implicit_bias.networks import GatedLinearNetwork, GatedNetwork, ReLUNetwork
from implicit_bias.training.iterations import LossScaled, PlainDescent
from implicit_bias.training.limit import Descent, descend_to_limit
from implicit_bias.training.sgd import SGD, train
from implicit_bias.training.stationarity import stationarity

NETWORKS = ("gln", "relu", "linear", "deep-gln", "deep-relu")
STARTS = ("trained", "initial")
MEASURES = ("ratio", "inconsistency", "alignment", "stationarity")


@dataclass(frozen=True)
class LimitConfig:
    """What `implicit-bias reproduce limit` runs; the fields are its options.

    `start` is 'trained' (the published training) or 'initial'. Raises InputError for values out of range.

    >>> from implicit_bias.experiments.limit.study import LimitConfig
    >>> LimitConfig(network=("gln",)).train_size
    100
    """

    dataset: str = "digits"
    data_root: str | None = None
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


def build(name: str, task: BinaryTask, options: LimitConfig) -> tuple[GatedNetwork, MarginProblem | None]:
    """The network, trained unless --start initial, and the margin problem that its bias predicts, if one is known."""
    X, y, seed, d = task.X_train, task.y_train, options.seed, task.X_train.shape[1]
    network: GatedNetwork
    if name == "linear":
        network = GatedLinearNetwork(HyperplaneGates(1, 1, seed).fit(task.X_pool), readout=False)
    elif name.endswith("gln"):
        seeds = (seed, seed + 1) if name == "deep-gln" else (seed,)
        network = GatedLinearNetwork(
            [HyperplaneGates(options.units, options.contexts, s).fit(task.X_pool) for s in seeds]
        )
    else:
        network = ReLUNetwork(d, [2 * options.units] * (2 if name == "deep-relu" else 1), seed=seed)
    if options.start == "trained" and train(network, X, y, SGD(), seed=seed).interrupted:
        raise KeyboardInterrupt
    if name == "relu":
        assert isinstance(network, ReLUNetwork)
        network = network.freeze()
        return network, svm_lc(X, y, network)
    if name == "linear":
        return network, svm_shallow(X, y, ConstantGate())
    return network, svm_gln(X, y, network.gates()) if name == "gln" else None


def solved(name: str, problem: MarginProblem) -> Solution:
    """The certified solution; refused if the network can separate nothing."""
    solution = solve(problem)
    if solution.status is Status.NOT_SEPARABLE:
        raise InputError(f"the {name} network cannot separate the samples; use a smaller --train-size or more --units")
    return solution


def measurer(task: BinaryTask, problem: MarginProblem | None, solution: Solution | None) -> Any:
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


def descend(name: str, task: BinaryTask, options: LimitConfig) -> Iterator[tuple[str, Descent, Solution | None]]:
    """The loss-scaled descent of a network, and a plain one from the same weights with as many steps."""
    network, problem = build(name, task, options)
    solution = solved(name, problem) if problem is not None else None
    twin, measure = copy.deepcopy(network), measurer(task, problem, solution)
    limit, steps = options.max_seconds, 0
    for label in ("loss-scaled", "plain"):
        config: LossScaled | PlainDescent = LossScaled(options.tolerance, max_seconds=limit)
        if label == "plain":
            network, config = twin, PlainDescent(options.lr, max(1, steps), limit)
        with tqdm(total=round(limit), desc=f"{name}, {label}", unit="s", leave=False) as bar:

            def show(step: int, seconds: float, bar: tqdm = bar) -> None:
                bar.set_postfix_str(f"step {step}", refresh=False)
                bar.update(min(int(seconds), bar.total) - bar.n)

            descent = descend_to_limit(network, task.X_train, task.y_train, config, measure=measure, progress=show)
        steps = int(descent.table.step.iloc[-1])
        print(line(name, label, descent), flush=True)
        yield label, descent, solution


def line(name: str, label: str, descent: Descent) -> str:
    """How a descent ended."""
    last = descent.table.iloc[-1]
    known = "" if pd.isna(last.ratio) else f"ratio {last.ratio:.5f}, inconsistency {100 * last.inconsistency:.2f} %, "
    return (
        f"{name:9s} {label:11s} {known}residual {last.stationarity:.4f}, margin/norm^L {last.normalised_margin:.5g} "
        f"after {int(last.step)} steps, {descent.seconds:.1f} s ({descent.end})"
    )


def run(options: LimitConfig, out: Path) -> tuple[dict[str, Any], list[Path]]:
    """Run and write `limit.csv`, `limit.json`, `limit.png` and `limit.pdf` into `out`: the record and the paths.

    What is finished when Ctrl-C or an error ends the run is written as well.
    """
    require_writable(out)
    task = load_binary(options.dataset, options.train_size, root=options.data_root)
    frames: list[pd.DataFrame] = []
    records: list[dict[str, Any]] = []
    end = "finished"
    try:
        for name in options.network:
            for label, descent, solution in descend(name, task, options):
                frames.append(descent.table.assign(network=name, descent=label))
                optimum = {} if solution is None else {"optimum": solution.objective, "gap": solution.gap}
                last = {key: float(value) for key, value in descent.table.iloc[-1].items()}
                records.append({"network": name, "descent": label, "end": descent.end, **optimum, "last": last})
                if descent.end == "interrupted":
                    raise KeyboardInterrupt
    except (InputError, KeyboardInterrupt) as error:
        if not frames:
            raise
        end = f"ended by {type(error).__name__} {error}".strip()
        print(f"{end}: what was finished is written", file=sys.stderr)
    record = recorded(records, end, options)
    return record, write(pd.concat(frames), record, options, out)


def recorded(results: list[dict[str, Any]], end: str, options: LimitConfig) -> dict[str, Any]:
    """How the results came about, and the results."""
    return {
        "study": "limit",
        "config": asdict(replace(options, data_root=None)),
        **surroundings(),
        "threads": 1,
        "seconds": round(sum(result["last"]["seconds"] for result in results), 2),
        "end": end,
        "results": results,
    }


def write(table: pd.DataFrame, record: dict[str, Any], options: LimitConfig, out: Path) -> list[Path]:
    """Write table, record and figure."""
    first = ["network", "descent", "step", "seconds"]
    table = table[[*first, *(name for name in table if name not in first)]]
    title = f"The limit of gradient descent ({options.dataset}, n = {options.train_size})"
    figure = limit_figure(table, title)
    contents = {"csv": table.to_csv(index=False).encode(), "json": json.dumps(record, indent=2).encode()}
    contents |= {kind: drawn(figure, kind) for kind in ("png", "pdf")}
    return [write_atomically(out / f"limit.{kind}", content) for kind, content in contents.items()]
