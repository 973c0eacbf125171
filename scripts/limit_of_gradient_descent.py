"""Drive networks to the limit of gradient descent and hold it against the certified max-margin solution; see --help."""

from __future__ import annotations

import argparse
import copy
import io
import json
import os
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from tqdm import tqdm

from implicit_bias import (
    SGD,
    BinaryTask,
    ConstantGate,
    GatedLinearNetwork,
    GatedNetwork,
    HyperplaneGates,
    InputError,
    MarginProblem,
    ReLUNetwork,
    Solution,
    Status,
    alignment,
    dataset_names,
    inconsistency,
    load_binary,
    optimality_ratio,
    solve,
    svm_gln,
    svm_lc,
    svm_shallow,
    train,
)
from implicit_bias.experiments.command import guarded
from implicit_bias.files import require_writable, write_atomically
from implicit_bias.homogeneous import stationarity
from implicit_bias.limit import Descent, LossScaled, PlainDescent, descend_to_limit
from implicit_bias.limit_figure import limit_figure

NETWORKS = ("gln", "relu", "linear", "deep-gln", "deep-relu")
MEASURES = ("ratio", "inconsistency", "alignment", "stationarity")


def build(name: str, task: BinaryTask, options: argparse.Namespace) -> tuple[GatedNetwork, MarginProblem | None]:
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
        network = ReLUNetwork(d, [2 * options.units] * (2 if name == "deep-relu" else 1), seed)
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


def descend(name: str, task: BinaryTask, options: argparse.Namespace) -> list[tuple[str, Descent, Solution | None]]:
    """The loss-scaled descent of a network, and a plain one from the same weights with as many steps."""
    network, problem = build(name, task, options)
    solution = solved(name, problem) if problem is not None else None
    twin, measure = copy.deepcopy(network), measurer(task, problem, solution)
    descents: list[tuple[str, Descent, Solution | None]] = []
    for label in ("loss-scaled", "plain"):
        limit = options.max_seconds
        config: LossScaled | PlainDescent = LossScaled(options.tolerance, max_seconds=limit)
        if descents:
            steps = int(descents[0][1].table.step.iloc[-1])
            network, config = twin, PlainDescent(options.lr, max(1, steps), limit)
        with tqdm(total=round(limit), desc=f"{name}, {label}", unit="s", leave=False) as bar:

            def show(step: int, seconds: float, bar: tqdm = bar) -> None:
                bar.set_postfix_str(f"step {step}", refresh=False)
                bar.update(min(int(seconds), bar.total) - bar.n)

            descent = descend_to_limit(network, task.X_train, task.y_train, config, measure=measure, progress=show)
        descents.append((label, descent, solution))
        print(line(name, label, descent), flush=True)
        if descent.end == "interrupted":
            break
    return descents


def line(name: str, label: str, descent: Descent) -> str:
    last = descent.table.iloc[-1]
    known = "" if pd.isna(last.ratio) else f"ratio {last.ratio:.5f}, inconsistency {100 * last.inconsistency:.2f} %, "
    return (
        f"{name:9s} {label:11s} {known}residual {last.stationarity:.4f}, margin/norm^L {last.normalised_margin:.5g} "
        f"after {int(last.step)} steps, {descent.seconds:.1f} s ({descent.end})"
    )


def run(options: argparse.Namespace) -> int:
    LossScaled(options.tolerance, max_seconds=options.max_seconds)
    PlainDescent(options.lr)
    out = require_writable(options.out)
    if len(set(options.network)) < len(options.network):
        raise InputError("--network lists a network twice; give each once")
    task = load_binary(options.dataset, options.train_size, root=options.data_root)
    frames, records, interrupted = [], [], False
    for name in options.network:
        for label, descent, solution in descend(name, task, options):
            frames.append(descent.table.assign(network=name, descent=label))
            interrupted |= descent.end == "interrupted"
            optimum = {} if solution is None else {"optimum": solution.objective, "gap": solution.gap}
            last = {key: float(value) for key, value in descent.table.iloc[-1].items()}
            records.append({"network": name, "descent": label, "end": descent.end, **optimum, "last": last})
        if interrupted:
            break
    for path in write(pd.concat(frames), records, interrupted, options, Path(out)):
        print(f"wrote {path}")
    return 130 if interrupted else 0


def write(
    table: pd.DataFrame, results: list[dict[str, Any]], interrupted: bool, options: argparse.Namespace, out: Path
) -> list[Path]:
    first = ["network", "descent", "step", "seconds"]
    table = table[[*first, *(name for name in table if name not in first)]]
    config = {key: value for key, value in vars(options).items() if key not in ("out", "data_root")}
    record = {
        "study": "limit",
        "config": config,
        "versions": {"python": platform.python_version()}
        | {name: version(name) for name in ("implicit-bias", "numpy", "scipy", "torch")},
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, 1 thread of torch used",
        "finished": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "seconds": round(sum(result["last"]["seconds"] for result in results), 2),
        "interrupted": interrupted,
        "results": results,
    }
    title = f"The limit of gradient descent ({options.dataset}, n = {options.train_size})"
    figure = limit_figure(table, title)
    contents = {"csv": table.to_csv(index=False).encode(), "json": json.dumps(record, indent=2).encode()}
    for kind in ("png", "pdf"):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=200)
        contents[kind] = buffer.getvalue()
    return [write_atomically(out / f"limit.{kind}", content) for kind, content in contents.items()]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        epilog="Ctrl-C ends the present descent and writes what there is.",
    )
    add = parser.add_argument
    add("--dataset", default="digits", help=f"one of {', '.join(dataset_names())}")
    add("--data-root", help="folder of the MNIST files; else IMPLICIT_BIAS_DATA, else data")
    add("--network", nargs="+", choices=NETWORKS, default=["gln", "relu", "linear"], help="one or several")
    add("--units", type=int, default=10, help="hidden units of a GLN's layer; a ReLU layer has twice as many")
    add("--contexts", type=int, default=2, help="contexts of a GLN's unit, a power of two")
    add("--seed", type=int, default=1, help="seed of gates, weights and batches")
    add("--train-size", type=int, default=100, help="training samples n")
    add("--start", choices=("trained", "initial"), default="trained", help="from published training, or from scratch")
    add("--tolerance", type=float, default=1e-3, help="smoothing of the minimum margin at which a descent ends")
    add("--lr", type=float, default=0.01, help="learning rate of the plain descent")
    add("--max-seconds", type=float, default=200.0, help="longest time of each descent")
    add("--out", default="results/limit", help="folder for limit.csv, .json, .png and .pdf")
    options = parser.parse_args()
    torch.set_num_threads(1)
    return guarded(lambda: run(options))


if __name__ == "__main__":
    raise SystemExit(main())
