"""The whole grid of the paper (Lippl, Abbott & Chung), figure by figure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from implicit_bias.experiments.paper import gln, relu, shallow_gln
from implicit_bias.experiments.paper.study import VERSIONS, Config, Study
from implicit_bias.experiments.runner.experiment import Settings
from implicit_bias.ground.checks import one_of

#: The published grid; figures 2 and 3 show errors and inconsistencies of the same cells.
PAPER = Config(dataset="mnist", train_size=(500, 1000, 2000), seeds=(1, 2, 3), momentum=(0.0, 0.9), versions=VERSIONS)
#: What each figure shows: its study, and the figure's part of the grid.
FIGURES: dict[str, tuple[Study, dict[str, Any], tuple[str, ...]]] = {
    "2": (gln.STUDY, {"units": (10, 20, 50, 100), "contexts": (2, 4)}, ("median", "random")),
    "3": (gln.STUDY, {"units": (10, 20, 50, 100), "contexts": (2, 4)}, ("median", "random")),
    "4": (relu.STUDY, {"units": (10, 20, 50, 100, 500, 1000), "contexts": (2,)}, ("median",)),
    "5": (shallow_gln.STUDY, {"units": (1,), "contexts": tuple(2**b for b in range(16))}, ("median", "random")),
}
#: The quick run's part of it: minutes instead of an hour.
QUICK: dict[str, dict[str, Any]] = {
    "2": {"units": (10, 50), "contexts": (2,)},
    "3": {"units": (10, 50), "contexts": (2,)},
    "4": {"units": (10, 50), "contexts": (2,)},
    "5": {"units": (1,), "contexts": (1, 4, 16, 256)},
}


def chosen(figure: str) -> tuple[str, ...]:
    """The figures that 'all' or one figure's number stands for."""
    name = one_of(figure, [*FIGURES, "all"], "figure")
    return tuple(FIGURES) if name == "all" else (name,)


def grid(
    figures: Iterable[str], *, quick: bool = False, dataset: str = PAPER.dataset, versions: tuple[str, ...] = VERSIONS
) -> list[Settings]:
    """The settings of the cells behind some figures; figures 2 and 3 have the same.

    `quick` keeps n = 500, one seed, median cutoffs, no momentum and a few widths.

    >>> from implicit_bias.experiments.paper.plan import grid
    >>> len(grid(["2"])), len(grid(["4"]))
    (144, 54)
    """
    base = replace(PAPER, dataset=dataset, versions=versions)
    if quick:
        base = replace(base, train_size=(500,), seeds=(1,), momentum=(0.0,))
    cells = []
    for figure in figures:
        study, lists, cutoffs = FIGURES[figure]
        for cutoff in cutoffs[:1] if quick else cutoffs:
            cells += study.cells(replace(base, cutoff=cutoff, **(QUICK[figure] if quick else lists)))
    return cells
