"""Descent of networks to the limit, measured on the way and compared with solutions of margin problems.

Findings are on the ends of descents: the distance to the optimum, and the effects of finite time, gates and norm.
"""

import copy
import time
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from implicit_bias._utils.checks import InputError, as_count, as_positive, as_probability, as_seed, context_bits
from implicit_bias._utils.floats import over_power
from implicit_bias.datasets import BinaryTask
from implicit_bias.networks import GatedNetwork, ReLUNetwork
from implicit_bias.studies.collection import settled
from implicit_bias.studies.limit import OPTIONS
from implicit_bias.studies.limit.networks import FROZEN_AFTERWARDS, begun, driven
from implicit_bias.studies.limit.references import FROBENIUS, MEASURES, Measurer
from implicit_bias.studies.runner.cells import binary_task
from implicit_bias.studies.runner.drawing import finished, panels, style, styled
from implicit_bias.studies.runner.experiment import Rows
from implicit_bias.studies.runner.mean_test import MeanTest, decided, difference
from implicit_bias.studies.runner.verdicts import Verdict, where
from implicit_bias.studies.settings import Settings, product
from implicit_bias.training.iterations import LossScaled, PlainDescent
from implicit_bias.training.optimisers import SGD
from implicit_bias.training.sgd import train
from implicit_bias.training.stationarity import stationarity

TITLE = "The limit of gradient descent"
SOURCE = "Theorem 3.1"
CLAIM = "Gradient descent on the logistic loss ends in the direction of the max-margin solution."
REVISION = 4
#: Columns that identify a cell on one data set, and a cell of a network.
PLACE = ["network", "train_size", "units", "seed", "momentum"]
CELL = ["train_size", "units", "momentum"]
COLUMNS = (
    *("dataset", *PLACE, "draw", "descent", "step", "seconds", "log_loss", "margin", "norm", "normalised_margin"),
    *("residual", *MEASURES, *FROBENIUS, "stationarity", "end"),
)
COORDINATES = ("dataset", *PLACE)
LIMITS = ("max_seconds",)
data = binary_task
#: Options whose values are combined, each combination a cell.
LISTS = ("network", "train_size", "units", "seeds", "momentum")
#: Model whose colour each descent has, and its line style.
STYLES: dict[str, tuple[str, Literal["-", "--"]]] = {
    "sgd": ("GD", "-"),
    "plain": ("GD", "--"),
    "loss-scaled": ("limit", "-"),
}
#: Quantities plotted along the path of a network, with the titles of their panels.
PANELS = {
    "error": "error (%)",
    "excess": "ratio to optimum − 1",
    "inconsistency": "inconsistency (%)",
    "residual": "residual",
}
#: Panels with a linear axis.
LINEAR = ("error", "inconsistency")
#: Points of a network at each size by label: descent, column, and the model whose style the points have.
ENDS = {
    "SGD, 3200 steps": ("sgd", "error", "GD"),
    "limit": ("loss-scaled", "error", "limit"),
    "SVM": ("loss-scaled", "svm_error", "SVM"),
    "Frobenius norm": ("loss-scaled", "frobenius_error", "SVM-Fro"),
    "SGD and SVM": ("sgd", "inconsistency", "SVM"),
    "limit and SVM": ("loss-scaled", "inconsistency", "limit"),
    "SGD and Frobenius norm": ("sgd", "frobenius_inconsistency", "SVM-Fro"),
}
#: Horizontal offsets of the points of a size: errors, then inconsistencies.
OFFSETS = (-0.3, -0.1, 0.1, 0.3, -0.2, 0.0, 0.2)
#: Largest ratio at which the end of a descent counts as the optimum.
REACHED = 1.01
#: Largest ratio at which the claim on several gated layers holds.
HALF = 2.0
#: A side of a contrast: network and descent, whose last rows are compared, and column.
Side = tuple[str, str, str]
GD_GLN, GD_RELU, RANDOM_GATES, ITS_GATES = (
    (network, "sgd", "error") for network in ("gln", "learned-relu", "random-relu", "retrained-relu")
)
GLN_LIMIT, RELU_LIMIT, FROZEN_LIMIT = ((name, "loss-scaled", "error") for name in ("gln", "learned-relu", "relu"))
SVM_RC, SVM_LC = ((network, "sgd", "svm_error") for network in ("random-relu", "retrained-relu"))
RELU_INCONSISTENCY, GLN_INCONSISTENCY = ((network, "sgd", "inconsistency") for network in ("learned-relu", "gln"))
#: Claims that the first side is above the second in the same cells.
CONTRASTS: dict[str, tuple[Side, Side]] = {
    "GD-GLN has a higher error than its limit": (GD_GLN, GLN_LIMIT),
    "GD-ReLU has a higher error than the limit behind its frozen gates": (GD_RELU, FROZEN_LIMIT),
    "GD-ReLU has a higher error than the limit of learned gates": (GD_RELU, RELU_LIMIT),
    "the limit behind frozen gates has a higher error than that of learned gates": (FROZEN_LIMIT, RELU_LIMIT),
    "GD-FReLU with random gates has a higher error than its limit, SVM-RC": (RANDOM_GATES, SVM_RC),
    "GD-FReLU with learned gates has a higher error than its limit, SVM-LC": (ITS_GATES, SVM_LC),
    "GD-FReLU with random gates has a higher error than GD-FReLU with learned gates": (RANDOM_GATES, ITS_GATES),
    "SVM-RC has a higher error than SVM-LC": (SVM_RC, SVM_LC),
    "GD-ReLU has a higher error than GD-FReLU with its gates": (GD_RELU, ITS_GATES),
    "GD-ReLU disagrees with SVM-LC more than GD-FReLU with its gates":
        (RELU_INCONSISTENCY, ("retrained-relu", "sgd", "inconsistency")),
    "GD-ReLU disagrees with SVM-LC more than the limit of learned gates with that of its own":
        (RELU_INCONSISTENCY, ("learned-relu", "loss-scaled", "inconsistency")),
    "SVM-Fro has a higher error than SVM-GLN": (("gln", "sgd", "frobenius_error"), ("gln", "sgd", "svm_error")),
    "GD-GLN disagrees with SVM-Fro more than with SVM-GLN":
        (("gln", "sgd", "frobenius_inconsistency"), GLN_INCONSISTENCY),
    "the limit of GD-GLN disagrees with SVM-Fro more than with SVM-GLN":
        (("gln", "loss-scaled", "frobenius_inconsistency"), ("gln", "loss-scaled", "inconsistency")),
    "GD-ReLU disagrees with the Frobenius norm on its gates more than with SVM-LC":
        (("learned-relu", "sgd", "frobenius_inconsistency"), RELU_INCONSISTENCY),
}  # fmt: skip


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
    every: Rows = []
    for draw in range(settings["draws"]):
        _descend(settings, task, draw, every)
    return [dict.fromkeys(("step", "seconds"), float("nan")) | row for row in every]


def _descend(settings: Settings, task: BinaryTask, draw: int, every: Rows) -> None:
    """Append the rows of a draw to `every`; after Ctrl-C, raise KeyboardInterrupt with all rows as argument."""
    network, X, y = begun(settings, task, draw), task.X_train, task.y_train
    measure, steps, limit = Measurer(task), settings["max_steps"], settings["max_seconds"]

    def keep(label: str, table: Rows, end: str, network: GatedNetwork) -> None:
        table[-1] |= measure(network, last=True)
        # A readout bias, which training leaves and descent sets to 0, has no part in the theorem.
        if label != "sgd" and (y * network.decision_function(X)).min() > 0:
            table[-1]["stationarity"] = stationarity(network, X, y).residual
        every.extend(row | {"draw": draw, "descent": label, "end": end} for row in table)
        if end == "interrupted":
            raise KeyboardInterrupt(every)

    if settings["start"] == "trained":
        table, end = _train(settings, task, network, measure if "sgd" in settings["descents"] else None)
        if table:
            keep("sgd", table, end, network)
        elif end == "interrupted":
            raise KeyboardInterrupt(*([every] if every else []))
        if settings["network"] in FROZEN_AFTERWARDS and isinstance(network, ReLUNetwork):
            network, measure = network.freeze(), Measurer(task)
    if measure.inseparable(network):
        every.append({"draw": draw, "descent": "none", "end": "not separable"})
        return
    for label in [name for name in ("loss-scaled", "plain") if name in settings["descents"]]:
        descending, margin = copy.deepcopy(network), measure.margin(network, settings["tolerance"])
        config: LossScaled | PlainDescent = PlainDescent(settings["lr"], max(1, steps), limit)
        if label == "loss-scaled":
            config = LossScaled(settings["tolerance"], max_steps=steps, max_seconds=limit, margin=margin)
        descent = driven(descending, X, y, config, f"{settings['network']}, {label}", measure)
        table = [{str(name): float(row[name]) for name in row} for row in descent.table.to_dict("records")]
        keep(label, table, descent.end, descending)
        steps = int(descent.table.step.iloc[-1])


def _train(settings: Settings, task: BinaryTask, network: GatedNetwork, measure: Measurer | None) -> tuple[Rows, str]:
    config, table, start = SGD(momentum=settings["momentum"]), Rows(), time.perf_counter()
    batches, epochs = config.batches_per_epoch(len(task.y_train)), config.epochs(len(task.y_train))
    # The path of learned gates is that of `learned-relu`.
    with_path = settings["network"] not in FROZEN_AFTERWARDS
    every = [batches * 2**k for k in range(epochs.bit_length())] if with_path else []

    def record(step: int, steps: int) -> None:
        if measure is None or not (with_path or step == steps):
            return
        margin, norm = float((task.y_train * network.decision_function(task.X_train)).min()), network.norm()
        sizes = {"margin": margin, "norm": norm, "normalised_margin": over_power(margin, norm, network.degree)}
        progress = {"step": float(step), "seconds": time.perf_counter() - start}
        table.append(progress | sizes | measure(network))

    result = train(network, task.X_train, task.y_train, config, seed=settings["seed"], every=every, progress=record)
    return table, "interrupted" if result.interrupted else "finished"


def cost(settings: Settings) -> float:
    work = 1e-3 * settings["train_size"] * settings["units"] ** 0.7 * len(settings["descents"]) * settings["draws"]
    return float(min(5.0 + work, 3 * settings["max_seconds"]))


def summary(table: pd.DataFrame) -> str:
    """Return text with a line for each network, descent, and those of training size, units and momentum that vary."""
    texts = []
    last = ends(table)
    names = ["network", *(name for name in ("train_size", "units", "momentum") if last[name].nunique() > 1), "descent"]
    for place, part in last.groupby(names, sort=False):
        network, *sizes, descent = place
        name = " ".join([f"{network:16s}", *(f"{size:g}" for size in sizes), f"{descent:11s}"])
        if descent == "none":
            texts.append(f"{name} cannot separate the samples; use a smaller --train-size or more --units")
            continue
        row = part.select_dtypes("number").mean()
        means = [f"error {100 * row.error:.2f} %"]
        means += [f"ratio {row.ratio:.5f}"] if pd.notna(row.ratio) else []
        means += [f"inconsistency {100 * row.inconsistency:.2f} %"] if pd.notna(row.inconsistency) else []
        means += [f"residual {row.stationarity:.4f}"] if pd.notna(row.stationarity) else []
        means.append(f"margin/norm^L {row.normalised_margin:.5g}")
        end = ", ".join(part.end.unique()).replace("max_seconds", "cut off")
        seeds = f", {len(part)} runs" if len(part) > 1 else ""
        texts.append(f"{name} {', '.join(means)} after {row.step:.0f} steps, {row.seconds:.1f} s ({end}{seeds})")
    return "\n".join(texts)


def draw(table: pd.DataFrame) -> dict[str, Figure]:
    """Return the figures 'limit', the paths of all descents at the first size, and for several cells 'limit_ends'."""
    title, first = f"The limit of gradient descent ({table.dataset.iloc[0]})", table.iloc[0]
    cell = where(table, **first[CELL])
    size = f"n = {first.train_size}, H = {first.units}, momentum {first.momentum:g}"
    paths = {"limit": _path_figure(cell, f"{title}: {size}")}
    cells = table.groupby([*CELL, "seed"]).ngroups
    return paths | ({"limit_ends": _end_figure(table, title)} if cells > 1 else {})


def _path_figure(table: pd.DataFrame, title: str) -> Figure:
    table = table.assign(excess=table.ratio - 1, inconsistency=100 * table.inconsistency, error=100 * table.error)
    networks = list(table.network.unique())
    with styled(titles="medium"):
        grid = panels(title, len(PANELS), len(networks), (2.15, 1.8), (0.0, 0.7), sharex="row")
        figure: Figure = grid[0, 0].figure
        for name, row in zip(networks, grid, strict=True):
            for ax, quantity in zip(row, PANELS, strict=True):
                _panel(ax, table[table.network == name], quantity)
            row[0].set_ylabel(name, fontsize=10, fontweight="bold")
        shown = [name for name in STYLES if name in set(table.descent)]
        handles = [Line2D([], [], label=name, **_line(name)) for name in shown]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(STYLES))
    return figure


def _line(descent: str) -> dict[str, Any]:
    model, line = STYLES[descent]
    return {"color": style(model)["color"], "linestyle": line}


def _panel(ax: Axes, rows: pd.DataFrame, quantity: str) -> None:
    rows = rows[(rows.step > 0) & np.isfinite(rows[quantity])]
    linear = quantity in LINEAR
    if not linear:
        rows = rows[rows[quantity] > 0]
    ax.set(xlabel="steps", title=PANELS[quantity])
    if rows.empty:
        ax.text(0.5, 0.5, "none known", ha="center", transform=ax.transAxes)
        return
    for (descent, *_), points in rows.groupby(["descent", "seed", "draw"], sort=False):
        ax.plot(points.step, points[quantity], linewidth=1.1, marker=".", markersize=2, **_line(str(descent)))
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(numticks=6))
    if linear:
        bottom = 0.9 * float(rows[quantity].min()) if quantity == "error" else 0.0
        ax.set_ylim(bottom, 1.05 * float(rows[quantity].quantile(0.95)) or 1.0)
    else:
        logs = np.log10(rows[quantity])
        ax.set_ylim(10 ** np.floor(logs.min() - 1e-9), 10 ** np.ceil(logs.max() + 1e-9))
        ax.set_yscale("log")
        ax.yaxis.set_minor_formatter(NullFormatter())
    ax.grid(color="0.9", linewidth=0.6)


def _end_figure(table: pd.DataFrame, title: str) -> Figure:
    last = ends(table)
    last = last[last.descent.isin(STYLES)]
    networks = list(last.network.unique())
    sizes = sorted(set(zip(last.train_size, last.units, strict=True)))
    with styled():
        grid = panels(title, len(networks), 2, (1.65, 2.3), (0.4, 1.6), sharex="all", sharey="row")
        for name, column in zip(networks, grid.T, strict=True):
            for offset, (label, (descent, quantity, model)) in zip(OFFSETS, ENDS.items(), strict=True):
                part = where(last, network=name, descent=descent)
                groups = (100 * part.set_index(["train_size", "units"])[quantity]).groupby(level=[0, 1])
                means, spreads = groups.mean(), groups.sem()
                ax = column[int(quantity.endswith("inconsistency"))]
                places = [sizes.index(size) + offset for size in means.index]
                ax.errorbar(places, means, spreads, linestyle="none", markersize=3.5, **style(model, label))
            column[0].set_title(name, fontsize="medium")
            column[1].set_xticks(range(len(sizes)), [f"{n}, {units}" for n, units in sizes], rotation=90)
            column[1].set(xlabel="n, H", xlim=(-0.6, len(sizes) - 0.4))
        grid[0, 0].set_ylabel("error (%)")
        grid[1, 0].set_ylabel("inconsistency (%)")
        for ax in grid.flat:
            ax.grid(axis="y", color="0.9", linewidth=0.6)
        return finished(grid, below=4)


def ends(table: pd.DataFrame) -> pd.DataFrame:
    """Return the last row of every descent, and of every cell that is not separable."""
    return table.groupby([*PLACE, "draw", "descent"], sort=False, dropna=False).tail(1)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Return verdicts on the last rows of all descents.

    For every network, verdicts state whether loss-scaled descent ends at the certified optimum, and whether plain
    descent ends farther from it. If there are several seeds, contrasts of which the table has both sides follow. The
    value of a seed is the mean difference over all sizes and momenta that all seeds have. Student's t tests are
    adjusted for their number by Holm's method.
    """
    last = ends(table)
    groups = last.groupby("network", sort=False)
    reached = [verdict for network, part in groups for verdict in _reached(str(network), part)]
    return reached + decided([*_tests(last)])


def _reached(network: str, part: pd.DataFrame) -> list[Verdict]:
    scaled, plain = (part[part.descent == name] for name in ("loss-scaled", "plain"))
    compared = scaled[scaled.ratio.notna()]
    if compared.empty:
        return []
    if network.startswith("deep"):
        return [_bounded(network, compared)]
    reached, cells = int((compared.ratio <= REACHED).sum()), len(compared)
    claim = f"loss-scaled descent of {network} ends at the certified optimum"
    found = f"{reached} of {cells} cells, {_about(compared)}"
    verdicts = [Verdict(claim, found, f"ratio at most {REACHED} in all", reached == cells)]
    cell = [*CELL, "seed", "draw"]
    ratios = [rows.set_index(cell).ratio for rows in (plain, scaled)]
    pairs = pd.concat(ratios, axis=1, keys=["plain", "scaled"], join="inner")
    if len(pairs):
        farther = None if pairs.isna().any(axis=None) else bool((pairs.plain > pairs.scaled).all())
        claim = f"plain descent of {network} ends farther from it"
        verdicts.append(Verdict(claim, _about(plain), "a larger ratio", farther))
    return verdicts


def _bounded(network: str, compared: pd.DataFrame) -> Verdict:
    best = compared.groupby([*CELL, "seed"]).ratio.min()
    return Verdict(
        f"the best start of {network} has at least half of the largest margin that its gates allow",
        f"ratio to the certified bound {best.min():.3f} to {best.max():.3f} in {len(best)} cells; of all starts "
        f"{compared.ratio.min():.3f} to {compared.ratio.max():.3f}",
        f"at most {HALF:g} in all",
        True if best.max() <= HALF else None,
    )


def _about(part: pd.DataFrame) -> str:
    if part.ratio.isna().all():
        return "no ratio is known"
    largest = part.inconsistency.max()
    inconsistency = f", inconsistency up to {100 * largest:.2f} %" if pd.notna(largest) else ""
    return f"ratio up to {part.ratio.max():.4f}{inconsistency}"


def _tests(last: pd.DataFrame) -> Iterator[MeanTest]:
    """Yield the test of every claim over cells that all seeds have; cells that differ only in momentum count once."""
    seeds = last.seed.unique()
    columns = pd.MultiIndex.from_product([["above", "below"], seeds])
    for claim, sides in CONTRASTS.items():
        above, below = (_quantity(last, *side) for side in sides)
        terms = pd.concat([above, -below], axis=1, keys=["above", "below"], join="inner")
        cells = pd.DataFrame(terms.unstack("seed")).reindex(columns=columns).dropna()
        cells = cells[~cells.reset_index("momentum", drop=True).reset_index().duplicated().to_numpy()]
        if len(seeds) > 1 and len(cells):
            yield difference(claim, cells.mean().unstack(0), split=False)


def _quantity(last: pd.DataFrame, network: str, descent: str, column: str) -> pd.Series:
    part = where(last, network=network, descent=descent).set_index([*CELL, "seed"])
    return 100 * part.reindex(columns=[column])[column].dropna()
