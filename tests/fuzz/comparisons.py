"""Cases about comparisons of weights and scores, and about tasks of samples."""

import math
from typing import Any

import numpy as np
import pandas as pd

import implicit_bias as ib
from implicit_bias import Frobenius, GatedFeatures, MarginProblem, metrics
from implicit_bias.studies.paper.summary import summarise
from tests.fuzz import problems
from tests.fuzz.draw import Draw, expect
from tests.fuzz.strategies import count, never, number, numbers
from tests.fuzz.table import entry, row

SIZES = [1.0, 1e-200, 1e200, 1e300, 1e-300]
SCORES, FRACTION = numbers("n", SIZES), number(0, 0.5, 1.0, np.float32(0.25), high=1.0, ends=True)
SHARE: dict[str, Any] = {"fine": lambda c, found: 0 <= found <= 1}
row(metrics.predictions, scores=SCORES, fine=lambda c, found: np.array_equal(found, np.where(c.scores > 0, 1.0, -1.0)))
row(metrics.error, scores=SCORES, y=numbers("n~", signs=True), **SHARE)
row(metrics.inconsistency, scores_a=SCORES, scores_b=numbers("n~"), **SHARE)
row(metrics.expected_inconsistency, error_a=FRACTION, error_b=FRACTION, **SHARE)


def _small_problem(draw: Draw) -> dict[str, Any]:
    X, y = problems.clean_task(draw)
    draw.sizes |= {"one": 1, "d": X.shape[1]}
    return {"problem": draw.scalar([MarginProblem(GatedFeatures(X), y, Frobenius())], never)}


WEIGHT = numbers("one d", [0.0, 1e-310, *SIZES], but=["one dimension more"])
WEIGHTS: dict[str, Any] = {"W": WEIGHT, "must": lambda c: not c.W.any()}
row(metrics.normalised_margin, _small_problem, **WEIGHTS)
row(
    metrics.optimality_ratio, _small_problem, **WEIGHTS, optimum=number(1.0, 2.5), finite=False, fine=lambda c, r: r > 0
)
row(ib.least_loss, _small_problem, bound=number(1.0, 2.5), finite=False, fine=lambda c, r: r.lower_bound <= r.loss)
row(metrics.alignment, W_a=numbers("k d", SIZES), W_b=numbers("k d~", SIZES), may=True, fine=lambda c, r: -1 <= r <= 1)


def _rows(draw: Draw) -> dict[str, Any]:
    rows = draw.whole(1, 6)
    columns = {"model": draw.rng.choice(["a", "b"], rows), "error": draw.normal(rows), "seed": range(rows)}
    table = pd.DataFrame(columns).assign(status="OPTIMAL")
    gap = table.assign(error=[np.nan, *table["error"][1:]])
    bad = [table.drop(columns="status"), table.assign(error="much"), table[:0].drop(columns="model")]
    by = draw.either(draw.pick([None, ["model"], ("model",)]), [["nowhere"], "model", [None], [["model"]]])
    return {"table": draw.either(draw.pick([table, gap]), bad), "by": by}


row(summarise, _rows, finite=False, fine=lambda c, found: set(found["model"]) == set(c.table["model"]))

# --------------------------------------------------------------------------------------------------------------- tasks


def _task(draw: Draw) -> dict[str, Any]:
    X, y = problems.clean_task(draw)
    parts = {"X_train": X, "y_train": y, "X_val": X[:3], "y_val": y[:3], "X_pool": X}
    return {"name": "own"} | {name: draw.array(part) for name, part in parts.items()}


def _not_signs(c: Any) -> bool:
    labels = set(c.y_train.tolist())
    return not labels | set(c.y_val.tolist()) <= {-1.0, 1.0} or len(labels) < 2


row(ib.BinaryTask, _task, may=_not_signs, same=0.0)
PAIRS: list[tuple[Any, Any]] = [(-1, 1), (0, 1), ("cat", "dog"), (2.0, 7.0), (False, True), (10**30, 2**200)]


@entry("BinaryTask.from_arrays", share=3)
def _from_arrays(draw: Draw) -> None:
    """Any two classes become −1 and +1, in sorting order."""
    X, y = problems.clean_task(draw)
    low, high = draw.pick(PAIRS)
    values = [high if sign > 0 else low for sign in y]
    series = pd.Series(values, index=range(len(y), 0, -1))
    form = draw.pick([values, tuple(values), np.array(values), np.array(values, dtype=object), series])
    bad: list[Any] = [[*values[:-1], end] for end in (None, math.nan, [1])]
    bad += [y[:-1], y[:, None], [object() for _ in y], [value / 4 for value in y], "ab" * 5, {1, 2}]
    bad += [np.array(["NaT"] * len(y), "M8"), pd.array([None] * len(y), "Float64"), [[v] for v in values]]
    given = draw.array(X)
    task = draw.call(ib.BinaryTask.from_arrays, given, draw.either(form, bad), constant=False)
    expect(np.array_equal(task.y_train, y) and np.array_equal(task.X_train, given.plain), "other samples")


@entry("BinaryTask.from_dataset")
def _from_dataset(draw: Draw) -> None:
    """All inputs of pairs become rows, in any order, and a share of them is for validation."""
    X, y = problems.clean_task(draw)
    shape = draw.pick([(1, -1), (-1,), (-1, 1)])
    pairs = [(row.reshape(shape), int(sign)) for row, sign in zip(X, y, strict=True)]
    bad: list[Any] = [pairs[:0], pairs[0], X, y, [*pairs, (X[0][:-1], 1)], [*pairs, ("a", 1)], {0: pairs[0]}]
    share = draw.either(draw.pick([0, 0.2, np.float32(0.5)]), [-0.1, 1.5, "x", 1.0])
    positive = draw.either(draw.pick([None, 1, [1], range(1, 3)]), [5, [7]])
    # The samples left for training may be of one class.
    options: dict[str, Any] = {"constant": False, "positive": positive, "may": True}
    task = draw.call(ib.BinaryTask.from_dataset, draw.either(pairs, bad), share, **options)
    expect(np.array_equal(task.X_pool, X), "other inputs")
    expect(np.isclose(len(task.X_val), len(X) * (float(share.plain) or 1.0), atol=0.51), "another share")


def _digits(draw: Draw) -> dict[str, Any]:
    positive = draw.either(draw.pick([(0, 1), {7}, range(5), np.array([1, 2])]), [(), "0", [0.5], None])
    return {"name": draw.scalar(["digits"], never)} | draw.pick([{}, {"positive": positive}])


# One sample, or a few, may be of one class.
SIZE: dict[str, Any] = {"train_size": count(1, 50, 500, np.int16(9), most=1438), "may": lambda c: c.train_size <= 20}
row(ib.load_binary, _digits, **SIZE)


row(ib.dataset_names, share=1, fine=lambda c, found: "digits" in found)
row(ib.solver_names, share=1, fine=lambda c, found: found[0] == "NATIVE")
row(lambda text: str(ib.InputError(text)), name="InputError", share=1, text="a sentence")
