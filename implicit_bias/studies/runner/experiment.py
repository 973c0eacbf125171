"""Declaration of an experiment: the grid of its cells, the rows of a cell, figures and verdicts of the table."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.studies.runner.drawing import styled
from implicit_bias.studies.runner.verdicts import Verdict

#: A cell: names and plain JSON values (numbers, words, true, false or none), the seed included. A list is what one cell
#: goes through, because that costs less than a cell each; every row of it then says its own value.
Settings = dict[str, Any]
#: What a cell gives: tidy rows, without the settings, which are put before them.
Rows = list[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Experiment:
    """A table made of cells, with its figures and its verdicts.

    Every study declares its experiment in one way: a module that defines TITLE, SOURCE, CLAIM and the functions `grid`,
    `rows`, `cost`, `draw` and `verdicts`, and optionally NAME, REVISION, COLUMNS, LIMITS, COORDINATES, `data` and
    `tables`. `Experiment.of` reads them; the fields below say what each means.

    `rows` must be a plain function of its module, a pure one of its arguments: every random number comes from a seed
    among the settings. A stored cell is used again as long as settings and `revision` are the same. `draw` and
    `verdicts` take any part of the grid, down to one cell, because runs are interrupted; their
    table comes from a file, so what is not a number or a truth value is text, and a gap is NaN.

    >>> experiment = Experiment.of("implicit_bias.studies.galu.norms")
    >>> experiment.name, experiment.grid(True)[0]["sigma_y"]
    ('norms', 0.0)
    """

    #: The value of --figure, and the name of the files.
    name: str
    title: str
    #: Where it stands: 'second version, figure 1'.
    source: str
    #: The claim that it tests, in a sentence.
    claim: str
    #: From whether the run is a quick one to the settings of its cells.
    grid: Callable[[bool], list[Settings]]
    #: From settings, and what `data` gave if there is `data`, to the rows of the cell.
    rows: Callable[..., Rows]
    #: From settings to about how many seconds the cell takes on one core.
    cost: Callable[[Settings], float]
    #: From the table to its figure, or to several by the names of their files.
    draw: Callable[[pd.DataFrame], Figure | dict[str, Figure]]
    #: What the table says of each part of the claim.
    verdicts: Callable[[pd.DataFrame], list[Verdict]]
    #: From settings and the folder of image files to what `rows` needs of them; asked for every cell before any work,
    #: so that missing files are told at once: it should keep what it loaded last (`functools.lru_cache`).
    data: Callable[[Settings, str | None], Any] | None = None
    #: Raised by one whenever the rows of a cell would come out otherwise: stored cells of before are then not used.
    revision: int = 1
    #: The table's columns; none stands for all settings and then what the rows say.
    columns: tuple[str, ...] = ()
    #: Settings that only cut cells off, and are not in the key: a row whose `end` is the name of one says that its cell
    #: is not finished. Such cells are stored for their table, and computed again by the next run.
    limits: tuple[str, ...] = ()
    #: From the table to what its page of findings shows besides verdicts and figures, as Markdown.
    tables: Callable[[pd.DataFrame], str] | None = None
    #: The settings that name a cell, the others being options of the whole run; none stands for all of them.
    coordinates: tuple[str, ...] = ()

    @classmethod
    def of(cls, module: str) -> Experiment:
        """Experiment that the module of this dotted name declares; NAME defaults to the last part of that name."""
        declared = vars(import_module(module))
        required = ("TITLE", "SOURCE", "CLAIM", "grid", "rows", "cost", "draw", "verdicts")
        optional = ("REVISION", "COLUMNS", "LIMITS", "COORDINATES", "data", "tables")
        names = (*required, *(name for name in optional if name in declared))
        default = module.rpartition(".")[2].replace("_", "-")
        return cls(declared.get("NAME", default), **{name.lower(): declared[name] for name in names})

    def figures(self, table: pd.DataFrame) -> dict[str, Figure]:
        """The drawings of a table, by the names of their files."""
        with styled():
            drawn = self.draw(table)
        return {self.name: drawn} if isinstance(drawn, Figure) else drawn

    def place(self, settings: Settings) -> Settings:
        """Those of the settings that name the cell."""
        return {name: settings[name] for name in self.coordinates or settings}


def product(**lists: Iterable[Any]) -> list[Settings]:
    """The settings of every combination, the last list innermost.

    >>> product(units=(4, 8), seed=(1,))
    [{'units': 4, 'seed': 1}, {'units': 8, 'seed': 1}]
    """
    return [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]
