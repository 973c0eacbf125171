"""All cells of the paper as one experiment: three comparisons in one table, with common figures and verdicts."""

from collections.abc import Sequence

import pandas as pd

from implicit_bias.datasets import BinaryTask
from implicit_bias.studies.paper import comparison, gln, plan, relu, shallow_gln
from implicit_bias.studies.paper.figures import paper_figures
from implicit_bias.studies.paper.report import report_page
from implicit_bias.studies.runner.experiment import Rows
from implicit_bias.studies.settings import Settings, chosen

#: Modules of the comparisons, by the value of the setting `study`.
STUDIES = {"compare_gln": gln, "compare_relu": relu, "compare_shallow_gln": shallow_gln}
NAME = "cells"
TITLE = "The implicit bias of gated networks, certified"
SHARED = comparison
summary = None
draw = paper_figures
page = report_page


def rows(settings: Settings, task: BinaryTask) -> Rows:
    """Return a row for every model, momentum and version, with those of `COLUMNS` that apply to the model."""
    return STUDIES[settings["study"]].rows(settings, task)


def cost(settings: Settings) -> float:
    return STUDIES[settings["study"]].cost(settings)


def grid(
    quick: bool,
    figure: Sequence[str] = ("all",),
    dataset: str = plan.PAPER["dataset"],
    versions: tuple[str, ...] = plan.VERSIONS,
) -> list[Settings]:
    """Return the settings of the cells that the given figures show, each part of the grid once.

    The whole grid has n = 500, 1000 and 2000, seeds 1 to 3, momenta 0 and 0.9, and the cutoffs and widths in `plan`.
    Quick: n = 500, one seed, median cutoffs, no momentum for GLNs, and a few widths. The figure 'spreads' has ten other
    seeds (quick: three) and both momenta.

    >>> len(grid(False, ["4"])), len(grid(False, ["5"]))
    (144, 36)
    """
    found: list[Settings] = []
    for part in dict.fromkeys(part for name in chosen(plan.FIGURES, figure) for part in plan.FIGURES[name]):
        for cutoff in part.cutoffs[:1] if quick else part.cutoffs:
            wanted = tuple(version for version in part.versions if version in versions)
            options = plan.PAPER | {"dataset": dataset, "cutoff": cutoff, "versions": wanted}
            if quick:
                options |= {"train_size": (500,), "seeds": (1,), "momentum": part.momentum}
            options |= part.quick if quick else part.whole
            found += STUDIES[part.study].grid(False, **options) if options["units"] and wanted else []
    return found


def shown(table: pd.DataFrame, versions: tuple[str, ...] = plan.VERSIONS, **_: object) -> pd.DataFrame:
    """Return the rows of these versions."""
    return table[table.version.isin(versions)]
