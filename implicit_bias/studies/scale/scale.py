"""The study of all sizes: networks, after training and at their limit, and their margin problems.

Findings are trends with n, effects of time, and lower errors at the largest size.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from implicit_bias._utils.checks import InputError, as_positive
from implicit_bias.datasets import BinaryTask
from implicit_bias.gates import RandomHalfSpaces
from implicit_bias.margin.formulations import svm_hl, svm_l2, svm_rc, svm_shallow
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.networks import GatedNetwork, ReLUNetwork
from implicit_bias.studies.limit.limit import REACHED
from implicit_bias.studies.limit.networks import begun, driven
from implicit_bias.studies.limit.references import margin_problem
from implicit_bias.studies.paper.comparison import Scored, Solved, comparison_rows, solved, trained
from implicit_bias.studies.runner.cells import binary_task
from implicit_bias.studies.runner.drawing import DATASETS, beside, log_ticks, panels, style, trend
from implicit_bias.studies.runner.experiment import Rows
from implicit_bias.studies.runner.mean_test import LEVEL, MeanTest, difference, holm
from implicit_bias.studies.runner.verdicts import Verdict, markdown, span, where
from implicit_bias.studies.scale import GRID, MODELS, OPTIONS
from implicit_bias.studies.settings import Settings, product
from implicit_bias.training.iterations import LossScaled

TITLE = "The comparison on all of the data"
CLAIM = "With more samples the bias of descent predicts what it learns."
#: Since revision 2, descents with fixed gates are preconditioned.
REVISION = 2
COLUMNS = (
    *(*GRID, "model", "status", "end", "train_error", "closed", "error", "inconsistency", "expected_inconsistency"),
    *("objective", "ratio", "gap", "farkas_residual", "iterations", "seconds"),
)
COORDINATES = tuple(GRID)
SIZES = ("train_size", "units", "descent")
LIMITS = ("max_seconds",)
data = binary_task
#: Grid of a quick run, which takes minutes and needs no files.
QUICK = GRID | {"dataset": ("digits",), "train_size": (100, 200, 400), "units": (5,)}
#: Settings of all cells. The split depends on the seed; `tolerance` is the smoothing of the least margin at the end of
#: a descent, and `max_steps` its largest number of steps.
FIXED: dict[str, Any] = {
    **{"split": "own", "contexts": 2, "momentum": 0.0, "steps": 3200, "solver": None, "tol": 1e-6},
    **{"tolerance": 0.003, "max_steps": 12_000},
}
#: Approximate number of steps of a preconditioned descent.
STEPS = 3000
Timed = TypeVar("Timed", bound=Scored)
#: Lines of a panel by label: network, descent, model, and the model whose style the line has.
Lines = dict[str, tuple[str, str, str, str]]
GLN, RELU, FROZEN = MODELS
#: Lines of trained networks.
GLN_ENDS: Lines = {
    "GD-GLN, SGD": (GLN, "sgd", "GD-GLN", "GD-GLN"),
    "GD-GLN, driven on": (GLN, "limit", "GD-GLN", "limit"),
}
RELU_ENDS: Lines = {
    "GD-ReLU, SGD": (RELU, "sgd", "GD-ReLU", "GD-ReLU"),
    "GD-ReLU, driven on": (RELU, "limit", "GD-ReLU", "limit"),
    "GD-FReLU, SGD": (FROZEN, "sgd", "GD-FReLU", "GD-FReLU"),
}
#: Rows of panels of each data set: a column of the table, and the label of its axis.
QUANTITIES = {"error": "error (%)", "inconsistency": "inconsistency (%)"}
#: Lines of each row of panels, in the figures for GLNs and for ReLU networks.
FIGURES: dict[str, dict[str, Lines]] = {
    "scale_gln": {
        "error": GLN_ENDS | {model: (GLN, "sgd", model, model) for model in ("SVM-GLN", "SVM-Fro", "SVM-L2")},
        "inconsistency": {
            "SGD and SVM-GLN": (GLN, "sgd", "SVM-GLN", "SVM-GLN"),
            "driven on and SVM-GLN": (GLN, "limit", "SVM-GLN", "limit"),
            **{f"SGD and {model}": (GLN, "sgd", model, model) for model in ("SVM-Fro", "SVM-L2")},
        },
    },
    "scale_relu": {
        "error": RELU_ENDS | {model: (RELU, "sgd", model, model) for model in ("SVM-LC", "SVM-RC", "SVM-HL")},
        "inconsistency": {
            "GD-ReLU and SVM-LC": (RELU, "sgd", "SVM-LC", "SVM-LC"),
            "driven on and SVM-LC": (RELU, "limit", "SVM-LC", "limit"),
            "GD-FReLU and SVM-LC": (FROZEN, "sgd", "SVM-LC", "GD-FReLU"),
            "driven on and SVM-LC, frozen": (FROZEN, "limit", "SVM-LC", "limit of GD-FReLU"),
            **{f"GD-ReLU and {model}": (RELU, "sgd", model, model) for model in ("SVM-RC", "SVM-HL")},
        },
    },
}
TITLES = {"scale_gln": "GLNs against n", "scale_relu": "ReLU networks against n"}
#: A quantity of the table: network, descent and model of its rows, and its column.
Quantity = tuple[str, str, str, str]
SVM_L2, SVM_GLN, GD_GLN = (("gln", "sgd", model, "error") for model in ("SVM-L2", "SVM-GLN", "GD-GLN"))
SVM_RC, SVM_LC, SVM_HL, GD_RELU = (
    ("learned-relu", "sgd", model, "error") for model in ("SVM-RC", "SVM-LC", "SVM-HL", "GD-ReLU")
)
GD_FRELU = ("retrained-relu", "sgd", "GD-FReLU", "error")
#: Inconsistency of every network with the margin problem of its bias, after training and after the further descent.
INCONSISTENCIES = {
    f"{MODELS[network]} and {model}": tuple((network, when, model, "inconsistency") for when in ("sgd", "limit"))
    for network, model in (("gln", "SVM-GLN"), ("learned-relu", "SVM-LC"), ("retrained-relu", "SVM-LC"))
}
#: Claims on a quantity, or on the first minus the second of two, by kind. 'trend': the slope per doubling of n is below
#: 0; 'mean': the average over all sizes is above 0; 'largest': the value at the largest size is above 0.
CONTRASTS: dict[str, dict[str, tuple[Quantity, ...]]] = {
    "trend": {
        "SVM-GLN's advantage over SVM-L2 shrinks with n": (SVM_L2, SVM_GLN),
        **{f"{pair} agree more with n": (trained,) for pair, (trained, _) in INCONSISTENCIES.items()},
    },
    "mean": {f"{pair} agree more with time": both for pair, both in INCONSISTENCIES.items()},
    "largest": {
        "SVM-GLN has a lower error than SVM-L2": (SVM_L2, SVM_GLN),
        "SVM-GLN has a lower error than GD-GLN": (GD_GLN, SVM_GLN),
        "GD-ReLU has a lower error than GD-GLN": (GD_GLN, GD_RELU),
        "GD-ReLU has a lower error than GD-FReLU with its gates": (GD_FRELU, GD_RELU),
        "GD-ReLU has a lower error than SVM-LC": (SVM_LC, GD_RELU),
        "SVM-HL has a lower error than GD-ReLU": (GD_RELU, SVM_HL),
        "SVM-LC has a lower error than SVM-RC": (SVM_RC, SVM_LC),
    },
}


def grid(
    quick: bool, *, max_seconds: float = OPTIONS["max_seconds"].default, **wanted: Sequence[Any]
) -> list[Settings]:
    """Return the settings of every cell: the combinations of `GRID` that take hours at most, or all of `QUICK`.

    Each descent ends after `max_seconds` at the latest. Coordinates have one of the `wanted` values, or any; InputError
    is raised for a value that no cell has.

    >>> len(grid(False)), len(grid(True)), len(grid(False, train_size=(500, 2000), units=(10,)))
    (456, 54, 72)
    """
    more = FIXED | {"max_seconds": as_positive(max_seconds, "max_seconds")}
    cells = [cell | more for cell in product(**QUICK if quick else GRID) if _is_feasible(**cell)]
    lists = {{"seeds": "seed", "descents": "descent"}.get(name, name): values for name, values in wanted.items()}
    for name, values in lists.items():
        offered = list(dict.fromkeys(cell[name] for cell in cells))
        for value in values:
            if value not in offered:
                raise InputError(
                    f"no cell has {name.replace('_', ' ')} {value}; choose from {', '.join(map(str, offered))}"
                )
    return [cell for cell in cells if all(cell[name] in values for name, values in lists.items())]


def _is_feasible(dataset: str, train_size: int, units: int, network: str, descent: str, **_: Any) -> bool:
    """Return False for 48 000 samples with 10 units or descent to the limit, and for the longest descents of 24 000."""
    if train_size == 48_000:
        return units > 10 and descent == "sgd"
    if train_size < 24_000 or descent == "sgd" or network == "gln":
        return True
    # Gates that learn, and most gates on Fashion-MNIST, take all steps of a descent.
    widest = {("mnist", "learned-relu"): 50, ("fashion-mnist", "learned-relu"): 10, ("mnist", "retrained-relu"): 100}
    return units <= widest.get((dataset, network), 50)


def rows(settings: Settings, task: BinaryTask) -> Rows:
    """Return the row of the network and those of its margin problems, with the columns `COLUMNS` after the settings.

    `ratio` is an objective divided by the certified lower bound of its problem; the problem of a network is the one
    that its bias predicts. `inconsistency` is that of a problem with the network, and `seconds` are CPU seconds. With
    `descent` 'limit', the network descends further after training. If fixed gates cannot separate the samples,
    there is no descent, and `end` is the status of the margin problem.
    """
    network = begun(settings, task)
    model = MODELS[settings["network"]]
    one = _timed(lambda: trained(model, network, task, settings, settings["momentum"]))
    one.row["end"] = "finished"

    def certified() -> Solved:
        return _timed(lambda: solved(margin_problem(network, task.X_train, task.y_train), task, settings))

    reference = None if isinstance(network, ReLUNetwork) else certified()
    if settings["descent"] == "limit" and reference is not None and reference.scores is None:
        one.row["end"] = reference.solution.status.name
    elif settings["descent"] == "limit":
        lower_bound = reference.solution.lower_bound if reference else np.inf
        one = _timed(lambda: _descended(network, task, settings, one.row, lower_bound))
    solutions = [reference or certified()]
    solutions += [_timed(partial(solved, problem, task, settings)) for problem in _others(network, task, settings)]
    bounds = [one.solution.lower_bound for one in (solutions[0], *solutions)]
    compared = comparison_rows(one, network.effective_weights(), solutions, solutions[0], task, settings)
    return [row | {"ratio": row["objective"] / bound} for row, bound in zip(compared, bounds, strict=True)]


def _timed(call: Callable[[], Timed]) -> Timed:
    """Return the result of `call`, with its CPU seconds added to its row as `seconds`."""
    start = time.process_time()
    result = call()
    result.row["seconds"] = time.process_time() - start
    return result


def _descended(
    network: GatedNetwork, task: BinaryTask, settings: Settings, row: Settings, lower_bound: float
) -> Scored:
    """Descend further, in place, to `REACHED` times the `lower_bound`; return the network's row and scores."""
    config = LossScaled(
        settings["tolerance"],
        max_steps=settings["max_steps"],
        max_seconds=settings["max_seconds"],
        preconditioned=not isinstance(network, ReLUNetwork),
        margin=1 / (2 * REACHED * lower_bound) if lower_bound else 0.0,
    )
    descent = driven(network, task.X_train, task.y_train, config, row["model"])
    if descent.end == "interrupted":
        raise KeyboardInterrupt
    last = descent.table.iloc[-1]
    train_error = float((task.y_train * network.decision_function(task.X_train) <= 0).mean())
    row = row | {"train_error": train_error, "end": descent.end, "iterations": row["iterations"] + int(last.step)}
    return Scored(network.decision_function(task.X_val), row)


def _others(network: GatedNetwork, task: BinaryTask, settings: Settings) -> Iterable[MarginProblem]:
    """Yield SVM-L2 and SVM-Fro of a GLN's gates, or SVM-RC and SVM-HL of a ReLU network; none for frozen gates."""
    X, y = task.X_train, task.y_train
    if settings["network"] == "gln":
        gates = network.gates()
        yield from (svm_l2(X, y, gates), replace(svm_shallow(X, y, gates), name="SVM-Fro"))
    elif isinstance(network, ReLUNetwork):
        random = RandomHalfSpaces(2 * settings["units"], seed=settings["seed"]).fit(task.X_pool)
        yield from (svm_rc(X, y, random), svm_hl(X, y, network))


def cost(settings: Settings) -> float:
    n, units, frozen = settings["train_size"], settings["units"], settings["network"] == "retrained-relu"
    steps = settings["max_steps"] if settings["network"] == "learned-relu" else min(STEPS, settings["max_steps"])
    training = (0.7 + 0.05 * units) * (2 if frozen else 1)
    problems = (0.1 + 0.5 * (n / 2000) ** 1.6 * (1 + units / 100)) * (1 if frozen else 3)
    descent = 1e-7 * steps * n * units if settings["descent"] == "limit" else 0.0
    return float(training + problems + descent)


def draw(table: pd.DataFrame) -> dict[str, Figure]:
    """Return figures for GLNs, 'scale_gln', and for ReLU networks, 'scale_relu'."""
    drawings = {}
    for name, rows in FIGURES.items():
        networks = {network for lines in rows.values() for network, *_ in lines.values()}
        shown = table[table.network.isin(networks)]
        if shown.empty:
            continue
        widths, places = list(shown.units.unique()), list(itertools.product(shown.dataset.unique(), rows))
        axes = panels(TITLES[name], len(widths), len(places), (2.15, 2.05), (2.5, 0.4))
        for row, (dataset, quantity) in zip(axes, places, strict=True):
            for ax, units in zip(row, widths, strict=True):
                _panel(ax, where(shown, dataset=dataset, units=units), quantity, rows[quantity])
                ax.set_title(f"{DATASETS[dataset]}, H = {units}", fontsize="medium")
            row[0].set_ylabel(QUANTITIES[quantity])
        for ax in axes[-1]:
            ax.set_xlabel("$n$, thousands")
        drawings[name] = beside(axes)
    return drawings


def _panel(ax: Axes, table: pd.DataFrame, quantity: str, lines: Lines) -> None:
    """Plot the means over seeds of the column `quantity` in percent against n, and a faint point for each seed."""
    for label, (network, descent, model, look) in lines.items():
        rows = where(table, network=network, descent=descent, model=model)
        trend(ax, 100 * rows.set_index("train_size")[quantity].dropna(), "mean", **style(look, label))
    if quantity == "inconsistency":
        ax.set_ylim(0.0, None)
    if len(table):
        ax.set_xlim(table.train_size.min() / 1.3, table.train_size.max() * 1.3)
        log_ticks(ax, table.train_size, form=lambda size: f"{size / 1000:g}")


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Return verdicts on every claim for each data set, then on the optimality of limits, then on certificates.

    A claim is decided by Student's 95 % interval over seeds, without adjustment for the number of claims. The value of
    a seed is the mean over H. Only sizes that all seeds have are used; for a trend only values of H with all n, and for
    a mean only values of n with all H. Limits with fixed gates count only if their ratio is at most `REACHED`.

    >>> place = {"dataset": "digits", "units": 5, "network": "gln", "descent": "sgd", "model": "SVM-GLN", "gap": 1e-8}
    >>> rows = [place | {"train_size": n, "seed": s, "inconsistency": 0.4 / n + s / 1e3, "error": 0.1, "ratio": 1.0}
    ...         for n in (4, 8) for s in (1, 2)]
    >>> found = verdicts(pd.DataFrame(rows).assign(status="OPTIMAL"))[0]
    >>> print(found.claim, found.found, sep="; ")
    GD-GLN and SVM-GLN agree more with n, digits, n=4 8, H=5; 10.15, 5.15; a doubling −5.00 [−5.00, −5.00] %; 2 draws
    """
    intervals = (
        replace(test.verdict(test.p, 1), threshold=f"95 % interval {test.relation} 0") for test in tests(table)
    )
    return [*intervals, *_reached(table), _certified(table)]


def tests(table: pd.DataFrame) -> list[MeanTest]:
    """Return the test of every claim on every data set for which the table has cells."""
    return [
        test
        for kind, claims in CONTRASTS.items()
        for claim, terms in claims.items()
        for name, part in table.groupby("dataset", sort=False)
        for test in _tests(part, kind, f"{claim}, {name}", terms)
    ]


def quantity(table: pd.DataFrame, rows: Quantity) -> pd.DataFrame:
    """Return percent by (units, train_size) and seed; NaN at limits of fixed gates whose ratio is above `REACHED`."""
    network, descent, model, column = rows
    part = where(table, network=network, descent=descent).set_index(["units", "train_size", "seed"])
    values = part[part.model == model][column]
    if descent == "limit" and network != "learned-relu":
        values = values[part[part.model == MODELS[network]].ratio.reindex(values.index) <= REACHED]
    return 100 * values.unstack("seed")


def _tests(table: pd.DataFrame, kind: str, claim: str, terms: tuple[Quantity, ...]) -> Iterator[MeanTest]:
    """Yield the test of a claim of `CONTRASTS` on one data set; none if the table lacks its cells."""
    first, *others = (quantity(table, rows) for rows in terms)
    values = (first - others[0] if others else first).dropna(axis=1, how="all").dropna()
    sizes = values.index.to_frame(index=False)
    if kind == "trend":
        complete = sizes.groupby("units").train_size.transform("size") == max(sizes.train_size.nunique(), 2)
    elif kind == "mean":
        complete = sizes.groupby("train_size").units.transform("size") == sizes.units.nunique()
    else:
        complete = sizes.train_size == sizes.train_size.max()
    values = values[complete.to_numpy()]
    if values.empty:
        return
    place = values.index.to_frame(index=False)
    claim += f", n={_listed(place.train_size)}, H={_listed(place.units)}"
    if kind == "trend":
        means = values.mean(axis=1).groupby("train_size").mean()
        listed = f"{', '.join(f'{mean:.2f}' for mean in means)}; a doubling "
        slopes = pd.Series(values.groupby("units").apply(_slopes).mean())
        yield MeanTest(claim, "below", 0.0, slopes, listed, split=True)
    else:
        above, below = (side.loc[values.index, values.columns].mean() for side in (first, *others))
        yield difference(claim, pd.DataFrame({"above": above, "below": -below}), split=True)


def _listed(values: pd.Series) -> str:
    return " ".join(map(str, sorted(set(values))))


def _slopes(part: pd.DataFrame) -> pd.Series:
    """Return the slope of each column (seed) per doubling of n, by least squares over the rows."""
    sizes = np.log2(part.index.get_level_values("train_size").to_numpy(float))
    return pd.Series(np.polyfit(sizes, part.to_numpy(), 1)[0], part.columns)


def _reached(table: pd.DataFrame) -> Iterator[Verdict]:
    """Yield a verdict for each trained model: ratios at the limit are at most `REACHED` in all cells with a ratio."""
    limits = table[(table.descent == "limit") & table.model.isin(MODELS.values()) & table.ratio.notna()]
    for model, part in limits.groupby("model", sort=False):
        reached, sizes = int((part.ratio <= REACHED).sum()), _listed(part.train_size)
        claim = f"descent of {model} ends at the certified optimum, n={sizes}"
        found = f"{reached} of {len(part)} cells, ratios {span(part.ratio, '.4f')}"
        yield Verdict(claim, found, f"ratio at most {REACHED} in all", reached == len(part))


def _certified(table: pd.DataFrame) -> Verdict:
    """Return the verdict that every margin problem is OPTIMAL or NOT_SEPARABLE."""
    problems = table[table.model.str.startswith("SVM")]
    counts = ", ".join(f"{count} {name}" for name, count in problems.status.value_counts().items())
    worst = problems.gap[problems.status == "OPTIMAL"].max()
    proved = bool(problems.status.isin(("OPTIMAL", "NOT_SEPARABLE")).all())
    claim = "every margin problem is certified, or proved not separable"
    return Verdict(claim, f"{counts}; gaps up to {worst:.0e}", "all", proved)


def tables(table: pd.DataFrame) -> str:
    """Return Markdown with a row for each claim and, for each data set, mean, interval and outcome."""
    every, rows = tests(table), dict[str, dict[str, str]]()
    for test, adjusted in zip(every, holm([test.p for test in every]), strict=True):
        claim, dataset, *_ = test.claim.split(", ")
        (low, high), mean = test.interval, test.values.mean()
        text = f"{mean:.2f} [{low:.2f}, {high:.2f}] {test.verdict(test.p, 1).outcome}".replace("-", "−")
        rows.setdefault(claim, {})[dataset] = f"**{text}**" if adjusted < 1 - LEVEL else text
    names = list(table.dataset.unique())
    head = ["claim", *(DATASETS[name] for name in names)]
    return markdown([head, *([claim, *(texts.get(name, "–") for name in names)] for claim, texts in rows.items())])
