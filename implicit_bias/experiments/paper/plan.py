"""The whole grid of the paper (Lippl, Abbott & Chung), figure by figure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from implicit_bias.experiments.paper import gln, relu
from implicit_bias.experiments.paper.study import VERSIONS, Config, Study
from implicit_bias.experiments.runner.experiment import Settings
from implicit_bias.ground.checks import one_of

#: The published grid.
PAPER = Config(dataset="mnist", train_size=(500, 1000, 2000), seeds=(1, 2, 3), momentum=(0.0, 0.9), versions=VERSIONS)


@dataclass(frozen=True)
class PaperFigure:
    """A figure: the part of the grid that it shows, and how."""

    title: str
    study: Study
    #: The figure's part of the grid, and the quick run's part of that: minutes instead of an hour.
    whole: dict[str, Any]
    quick: dict[str, Any]
    #: The rows of panels: a value of `contexts`, or all, and the quantity.
    rows: tuple[tuple[int | None, str], ...]
    cutoffs: tuple[str, ...] = ("median", "random")
    #: The x axis.
    width: str = "units"
    #: Whether it ends with the inconsistency of every cell against its error.
    scatter: bool = True


_GLN = (gln.STUDY, {"units": (10, 20, 50, 100), "contexts": (2, 4)}, {"units": (10, 50), "contexts": (2,)})
_RELU = (relu.STUDY, {"units": (10, 20, 50, 100, 500, 1000), "contexts": (2,)}, {"units": (10, 50), "contexts": (2,)})
_SHALLOW = (
    gln.SHALLOW,
    {"units": (1,), "contexts": tuple(2**b for b in range(16))},
    {"units": (1,), "contexts": (1, 4, 16, 256)},
)
_BOTH = ((None, "error"), (None, "inconsistency"))
#: Figures 2 and 3 show errors and inconsistencies of the same cells.
FIGURES = {
    "2": PaperFigure("Errors of two-layer GLNs", *_GLN, ((2, "error"), (4, "error")), scatter=False),
    "3": PaperFigure("Inconsistency with GD-GLN", *_GLN, ((2, "inconsistency"), (4, "inconsistency"))),
    "4": PaperFigure("ReLU networks", *_RELU, _BOTH, ("median",)),
    "5": PaperFigure("Shallow GLNs", *_SHALLOW, _BOTH, width="contexts"),
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

    >>> len(grid(["2"])), len(grid(["4"]))
    (144, 54)
    """
    base = replace(PAPER, dataset=dataset, versions=versions)
    if quick:
        base = replace(base, train_size=(500,), seeds=(1,), momentum=(0.0,))
    cells = []
    for figure in (FIGURES[number] for number in figures):
        for cutoff in figure.cutoffs[:1] if quick else figure.cutoffs:
            part = figure.quick if quick else figure.whole
            cells += figure.study.cells(replace(base, cutoff=cutoff, **part))
    return cells
