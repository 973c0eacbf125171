"""Declaration of an experiment: the grid of its cells, the rows of a cell, figures and verdicts of the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from inspect import signature
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.studies.runner.drawing import styled
from implicit_bias.studies.runner.verdicts import Claim, Verdict
from implicit_bias.studies.settings import Settings

#: Rows of a cell: tidy, without the settings, which the table puts first.
Rows = list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Experiment:
    """A table made of cells, with its figures and its verdicts.

    Every experiment is declared by a module that defines TITLE, CLAIM and the functions `grid`, `rows`, `cost`, `draw`
    and `verdicts`, and optionally SOURCE, NAME, REVISION, COLUMNS, LIMITS, COORDINATES, SIZES, CLAIMS, `data`, `shown`,
    `summary`, `page` and `tables`.
    `Experiment.of` reads the module; the comments on the fields below explain each name. Experiments of one kind may
    have a module SHARED, which defines the names that their own modules lack.

    `rows` must be a function at the top level of its module, and depend on nothing but its arguments: every random
    number comes from a seed in the settings. The stored rows of a cell are used again as long as its settings and the
    `revision` are the same. `draw` and `verdicts` must accept a table of any cells of the grid, even of one, because
    runs may be interrupted. The table is read from a file: values other than numbers and truth values are text, and
    missing values are NaN.
    """

    #: Value of --figure, and name of the files.
    name: str
    title: str
    #: Claim under test, in one sentence.
    claim: str
    #: Function from `quick`, and options of the command if it has any, to the settings of all cells.
    grid: Callable[..., list[Settings]]
    #: Function from settings, and the result of `data` if defined, to the rows of the cell.
    rows: Callable[..., Rows]
    #: Function from settings to the approximate seconds of the cell on one core.
    cost: Callable[[Settings], float]
    #: Function from the table to its figure, or to a dictionary from file names to figures.
    draw: Callable[[pd.DataFrame], Figure | dict[str, Figure]]
    #: Function from the table to a verdict on each part of the claim.
    verdicts: Callable[[pd.DataFrame], list[Verdict]]
    #: Place in the paper: 'second version, figure 1'; by default the experiment is of this project.
    source: str = "ours"
    #: Function from settings and the folder of image files to the data that `rows` needs. It is called for every cell
    #: before any work, so that missing files are reported at once; it should cache its last result.
    data: Callable[[Settings, str | None], Any] | None = None
    #: Increased by one whenever the rows of a cell change, so that results stored before are not used.
    revision: int = 1
    #: Columns of the table; empty: all settings, then all columns of the rows.
    columns: tuple[str, ...] = ()
    #: Settings that only cut cells off and are not in the key. A row whose `end` names one marks its cell as not
    #: finished: the table includes it, and the next run computes it again.
    limits: tuple[str, ...] = ()
    #: Function from the table and options of the command to the rows that --redraw keeps; without it, no options of a
    #: computation go with --redraw.
    shown: Callable[..., pd.DataFrame] | None = None
    #: Function from the results and the contents of their files to an HTML page, report.html.
    page: Callable[[Any, dict[str, bytes]], bytes] | None = None
    #: Settings by which --list groups the cells; empty: all cells of the experiment together.
    sizes: tuple[str, ...] = ()
    #: Function from the table to text that is printed before the verdicts.
    summary: Callable[[pd.DataFrame], str] | None = None
    #: Function from the table to Markdown that is added to the section of the experiment in the findings.
    tables: Callable[[pd.DataFrame], str] | None = None
    #: Settings that distinguish the cells; the others are options of the whole run. Empty: all settings.
    coordinates: tuple[str, ...] = ()
    #: Claims with dated thresholds, by key; their digests are in the record.
    claims: dict[str, Claim] = field(default_factory=dict)

    @classmethod
    def of(cls, module: str) -> Experiment:
        """Import a module by its dotted name and return the experiment that its constants and functions declare.

        NAME defaults to the last part of the dotted name, with "-" in place of "_".
        """
        declared = vars(import_module(module))
        declared = vars(declared["SHARED"]) | declared if "SHARED" in declared else declared
        required = ("TITLE", "CLAIM", "grid", "rows", "cost", "draw", "verdicts")
        optional: tuple[str, ...] = ("SOURCE", "REVISION", "COLUMNS", "LIMITS", "COORDINATES", "SIZES", "CLAIMS")
        optional += ("data", "shown", "summary", "page", "tables")
        names = (*required, *(name for name in optional if name in declared))
        default = module.rpartition(".")[2].replace("_", "-")
        return cls(declared.get("NAME", default), **{name.lower(): declared[name] for name in names})

    def given(self, options: Settings) -> Experiment:
        """Return the experiment with options of the command: `grid` takes all, `draw` those among its parameters."""
        chosen = {name: value for name, value in options.items() if name in signature(self.draw).parameters}
        return replace(self, grid=partial(self.grid, **options), draw=partial(self.draw, **chosen)) if options else self

    def figures(self, table: pd.DataFrame) -> dict[str, Figure]:
        """Return a dictionary from file names, without suffix, to the figures of a table."""
        with styled():
            drawn = self.draw(table)
        return {self.name: drawn} if isinstance(drawn, Figure) else drawn

    def place(self, settings: Settings) -> Settings:
        """Return the settings that distinguish a cell from others of the grid: those in `coordinates`, or all."""
        return {name: settings[name] for name in self.coordinates or settings}
