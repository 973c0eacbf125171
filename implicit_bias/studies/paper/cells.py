"""All cells of the paper as one experiment: three comparisons in one table, with common figures and verdicts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from implicit_bias.datasets import BinaryTask
from implicit_bias.studies.paper import COMPARISONS, FIGURES, VERSIONS, comparison
from implicit_bias.studies.paper.figures import paper_figures
from implicit_bias.studies.paper.report import report_page
from implicit_bias.studies.runner.experiment import Experiment, Rows
from implicit_bias.studies.settings import Settings, chosen

NAME = "cells"
TITLE = "The implicit bias of gated networks, certified"
SHARED = comparison
summary = None
draw = paper_figures
page = report_page
#: The published grid.
PUBLISHED: dict[str, Any] = {"train_size": (500, 1000, 2000), "seeds": (1, 2, 3), "momentum": (0.0, 0.9)}


@dataclass(frozen=True, eq=False)
class Part:
    """Cells of one study: lists of settings for the `full` grid, and for a `quick` run of minutes."""

    study: str
    full: dict[str, Any]
    quick: dict[str, Any]
    cutoffs: tuple[str, ...] = ("median", "random")
    #: Momenta of a quick run.
    momentum: tuple[float, ...] = (0.0,)
    versions: tuple[str, ...] = VERSIONS


_GLN, _RELU, _SHALLOW = COMPARISONS
_CONTEXTS: dict[str, Any] = {"contexts": (2,)}
_UNITS, _FEW = (_CONTEXTS | {"units": units} for units in ((10, 20, 50, 100), (10, 50)))
GLN = Part(_GLN, _UNITS | {"contexts": (2, 4)}, _FEW)
RELU = Part(_RELU, _UNITS, _FEW, ("median",), (0.0, 0.9))
SHALLOW = Part(
    _SHALLOW, {"units": (1,), "contexts": tuple(2**b for b in range(16))}, {"units": (1,), "contexts": (1, 4, 16, 256)}
)
#: Widths that the authors trained, but that no figure or sentence of the paper mentions.
WIDE_GLN = Part(_GLN, {"units": (500, 1000), "contexts": (2, 4)}, {"units": ()})
WIDE_RELU = Part(_RELU, {"units": (500, 1000)} | _CONTEXTS, {"units": ()}, ("median",))
#: Ten draws of everything at once: the split of the data, gates, initial weights and the order of the batches.
_DRAWS = {"split": "own", "seeds": tuple(range(11, 21))} | _CONTEXTS
_THREE = _DRAWS | {"seeds": (11, 12, 13), "units": (10,)}
_SPREAD: dict[str, Any] = {"momentum": (0.0, 0.9), "versions": VERSIONS[:1]}
_REGIONS = _DRAWS | {"units": (1,), "contexts": (4, 8, 16, 32, 64)}
SPREADS = (
    Part(_GLN, _DRAWS | {"units": (10, 50, 100)}, _THREE, **_SPREAD),
    Part(_RELU, _DRAWS | _UNITS, _THREE, ("median",), **_SPREAD),
    Part(_SHALLOW, _REGIONS, _THREE | {"units": (1,), "contexts": (16,)}, ("median",), **_SPREAD),
)
#: Parts of the grid that each figure shows: the paper's own figures by number, ours by name.
PARTS: dict[str, tuple[Part, ...]] = {
    **{"2": (GLN, SHALLOW), "3": (RELU, GLN), "4": (GLN,), "5": (RELU,)},
    **{"gln-widths": (GLN, WIDE_GLN), "relu-widths": (RELU, WIDE_RELU), "shallow": (SHALLOW,), "spreads": SPREADS},
}


def grid(
    quick: bool, figure: Sequence[str] = ("all",), dataset: str = "mnist", versions: tuple[str, ...] = VERSIONS
) -> list[Settings]:
    """Return the settings of the cells that the given figures show, each part of the grid once.

    The whole grid has n = 500, 1000 and 2000, seeds 1 to 3, momenta 0 and 0.9, and the cutoffs and widths in `PARTS`.
    Quick: n = 500, one seed, median cutoffs, no momentum for GLNs, and a few widths. The figure 'spreads' has ten other
    seeds (quick: three) and both momenta.

    >>> len(grid(False, ["4"])), len(grid(False, ["5"]))
    (144, 36)
    """
    cells: list[Settings] = []
    for part in dict.fromkeys(part for name in chosen(FIGURES, figure) for part in PARTS[name]):
        common = PUBLISHED | {"dataset": dataset, "versions": tuple(one for one in part.versions if one in versions)}
        if quick:
            common |= {"train_size": (500,), "seeds": (1,), "momentum": part.momentum}
        common |= part.quick if quick else part.full
        if common["units"] and common["versions"]:
            for cutoff in part.cutoffs[:1] if quick else part.cutoffs:
                cells += _comparison(part.study).grid(False, cutoff=cutoff, **common)
    return cells


def _comparison(study: str) -> Experiment:
    (experiment,) = COMPARISONS[study].chosen("all")
    return experiment


def rows(settings: Settings, task: BinaryTask) -> Rows:
    """Return a row for every model, momentum and version, with those of `COLUMNS` that apply to the model."""
    return _comparison(settings["study"]).rows(settings, task)


def cost(settings: Settings) -> float:
    return _comparison(settings["study"]).cost(settings)


def shown(table: pd.DataFrame, versions: tuple[str, ...] = VERSIONS, **_: object) -> pd.DataFrame:
    """Return the rows of these versions."""
    return table[table.version.isin(versions)]
