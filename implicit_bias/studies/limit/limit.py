"""Descent of networks to the limit, measured on the way and compared with solutions of margin problems."""

import copy
import time
from typing import Any

import pandas as pd

from implicit_bias._utils.checks import InputError, as_count, as_positive, as_probability, as_seed, context_bits
from implicit_bias._utils.scaling import over_power
from implicit_bias.datasets import BinaryTask
from implicit_bias.networks import GatedNetwork, ReLUNetwork
from implicit_bias.studies.collection import settled
from implicit_bias.studies.limit import OPTIONS
from implicit_bias.studies.limit.figure import figures
from implicit_bias.studies.limit.findings import PLACE, ends, verdicts
from implicit_bias.studies.limit.networks import FROZEN_AFTERWARDS, begun, driven
from implicit_bias.studies.limit.references import FROBENIUS, MEASURES, Measurer
from implicit_bias.studies.runner.cells import binary_task
from implicit_bias.studies.runner.experiment import Rows
from implicit_bias.studies.settings import Settings, product
from implicit_bias.training.iterations import LossScaled, PlainDescent
from implicit_bias.training.optimisers import SGD
from implicit_bias.training.sgd import train
from implicit_bias.training.stationarity import stationarity

__all__ = ["cost", "data", "draw", "grid", "rows", "summary", "verdicts"]
TITLE = "The limit of gradient descent"
SOURCE = "Theorem 3.1"
CLAIM = "Gradient descent on the logistic loss ends in the direction of the max-margin solution."
REVISION = 4
COLUMNS = (
    *(
        "dataset",
        *PLACE,
        "draw",
        "descent",
        "step",
        "seconds",
        "log_loss",
        "margin",
        "norm",
        "normalised_margin",
        "residual",
    ),
    *(*MEASURES, *FROBENIUS, "stationarity", "end"),
)
COORDINATES = ("dataset", *PLACE)
LIMITS = ("max_seconds",)
data = binary_task
draw = figures
#: Options whose values are combined, each combination a cell.
LISTS = ("network", "train_size", "units", "seeds", "momentum")


def grid(quick: bool, **options: Any) -> list[Settings]:
    """Return a cell for each network, n, H, seed and momentum in `options`, whose defaults are those of the command.

    By default these are gln, relu and linear on 100 digits, H = 10, one seed; quick: 40 digits, H = 3, without
    training. InputError is raised if a value is out of range.
    """
    small = {"train_size": (40,), "units": (3,), "start": "initial", "tolerance": 0.05} if quick else {}
    chosen = settled(OPTIONS, small | options)
    _check(chosen)
    lists = {"seed" if name == "seeds" else name: chosen.pop(name) for name in LISTS}
    return [place | chosen | {"descents": list(chosen["descents"])} for place in product(**lists)]


def _check(options: Settings) -> None:
    if options["start"] == "initial" and not {*options["descents"]} - {"sgd"}:
        raise InputError("--start initial leaves the training out; let --descents name loss-scaled or plain")
    for name in ("train_size", "units"):
        for value in options[name]:
            as_count(value, name)
    for seed in options["seeds"]:
        as_seed(seed)
    for momentum in options["momentum"]:
        SGD(momentum=momentum)
    context_bits(options["contexts"])
    one_layer = [name for name in options["network"] if not name.startswith("deep")]
    if as_count(options["draws"], "draws") > 1 and one_layer:
        raise InputError(f"--draws {options['draws']} is for deep networks; leave out --network {' '.join(one_layer)}")
    as_probability(options["tolerance"], "tolerance")
    as_positive(options["max_seconds"], "max_seconds")
    LossScaled(options["tolerance"], max_steps=options["max_steps"])
    PlainDescent(options["lr"])


def rows(settings: Settings, task: BinaryTask) -> Rows:
    """Return the rows of every draw: those of training, at the start and after epochs 1, 2, 4, …, and of the descents.

    Columns are `COLUMNS` after the settings. The last row of each descent has the residual of Theorem 3.1 in
    `stationarity`, if it separates the samples. If the gates cannot separate the samples, the draw ends with a row
    whose `descent` is 'none' and whose `end` is 'not separable'.
    """
    found: Rows = []
    for draw in range(settings["draws"]):
        _descend(settings, task, draw, found)
    return [dict.fromkeys(("step", "seconds"), float("nan")) | row for row in found]


def _descend(settings: Settings, task: BinaryTask, draw: int, found: Rows) -> None:
    """Append the rows of a draw to `found`; after Ctrl-C, raise KeyboardInterrupt with all rows as argument."""
    network, X, y = begun(settings, task, draw), task.X_train, task.y_train
    measure, steps, limit = Measurer(task), settings["max_steps"], settings["max_seconds"]

    def keep(label: str, table: Rows, end: str, network: GatedNetwork) -> None:
        table[-1] |= measure(network, last=True)
        # A readout bias, which training leaves and descent sets to 0, has no part in the theorem.
        if label != "sgd" and (y * network.decision_function(X)).min() > 0:
            table[-1]["stationarity"] = stationarity(network, X, y).residual
        found.extend(row | {"draw": draw, "descent": label, "end": end} for row in table)
        if end == "interrupted":
            raise KeyboardInterrupt(found)

    if settings["start"] == "trained":
        table, end = _train(settings, task, network, measure if "sgd" in settings["descents"] else None)
        if table:
            keep("sgd", table, end, network)
        elif end == "interrupted":
            raise KeyboardInterrupt(*([found] if found else []))
        if settings["network"] in FROZEN_AFTERWARDS and isinstance(network, ReLUNetwork):
            network, measure = network.freeze(), Measurer(task)
    if measure.inseparable(network):
        found.append({"draw": draw, "descent": "none", "end": "not separable"})
        return
    for label in [name for name in ("loss-scaled", "plain") if name in settings["descents"]]:
        one, margin = copy.deepcopy(network), measure.margin(network, settings["tolerance"])
        config: LossScaled | PlainDescent = PlainDescent(settings["lr"], max(1, steps), limit)
        if label == "loss-scaled":
            config = LossScaled(settings["tolerance"], max_steps=steps, max_seconds=limit, margin=margin)
        descent = driven(one, X, y, config, f"{settings['network']}, {label}", measure)
        table = [{str(name): float(row[name]) for name in row} for row in descent.table.to_dict("records")]
        keep(label, table, descent.end, one)
        steps = int(descent.table.step.iloc[-1])


def _train(settings: Settings, task: BinaryTask, network: GatedNetwork, measure: Measurer | None) -> tuple[Rows, str]:
    config, table, start = SGD(momentum=settings["momentum"]), Rows(), time.perf_counter()
    each, epochs = config.batches_per_epoch(len(task.y_train)), config.epochs(len(task.y_train))
    # The path of learned gates is that of `learned-relu`.
    way = settings["network"] not in FROZEN_AFTERWARDS
    every = [each * 2**k for k in range(epochs.bit_length())] if way else []

    def record(step: int, steps: int) -> None:
        if measure is None or not (way or step == steps):
            return
        margin, norm = float((task.y_train * network.decision_function(task.X_train)).min()), network.norm()
        sizes = {"margin": margin, "norm": norm, "normalised_margin": over_power(margin, norm, network.degree)}
        passed = {"step": float(step), "seconds": time.perf_counter() - start}
        table.append(passed | sizes | measure(network))

    done = train(network, task.X_train, task.y_train, config, seed=settings["seed"], every=every, progress=record)
    return table, "interrupted" if done.interrupted else "finished"


def cost(settings: Settings) -> float:
    work = 1e-3 * settings["train_size"] * settings["units"] ** 0.7 * len(settings["descents"]) * settings["draws"]
    return float(min(5.0 + work, 3 * settings["max_seconds"]))


def summary(table: pd.DataFrame) -> str:
    """Return text with a line for each network, descent, and those of training size, units and momentum that vary."""
    texts = []
    last = ends(table)
    names = ["network", *(name for name in ("train_size", "units", "momentum") if last[name].nunique() > 1), "descent"]
    for place, part in last.groupby(names, sort=False):
        *where, descent = place
        name = " ".join([f"{where[0]:16s}", *(f"{one:g}" for one in where[1:]), f"{descent:11s}"])
        if descent == "none":
            texts.append(f"{name} cannot separate the samples; use a smaller --train-size or more --units")
            continue
        row = part.select_dtypes("number").mean()
        found = [f"error {100 * row.error:.2f} %"]
        found += [f"ratio {row.ratio:.5f}"] if pd.notna(row.ratio) else []
        found += [f"inconsistency {100 * row.inconsistency:.2f} %"] if pd.notna(row.inconsistency) else []
        found += [f"residual {row.stationarity:.4f}"] if pd.notna(row.stationarity) else []
        found.append(f"margin/norm^L {row.normalised_margin:.5g}")
        end = ", ".join(part.end.unique()).replace("max_seconds", "cut off")
        seeds = f", {len(part)} runs" if len(part) > 1 else ""
        texts.append(f"{name} {', '.join(found)} after {row.step:.0f} steps, {row.seconds:.1f} s ({end}{seeds})")
    return "\n".join(texts)
