"""One runner for all experiments.

An `Experiment` says what its cells are (plain JSON settings), how the rows of one are computed, how their table is
drawn, and what it says. All else is done for every experiment alike:

    experiment.py   what an experiment is
    cells.py        a cell of one: settings, and the key under which its rows are stored
    run.py          cells to rows: what is stored is read, the rest computed by an engine and stored at once
    engines.py      where cells are computed: this process, local processes, a Dask cluster
    store.py        rows on disk, a file per cell
    results.py      rows to files: table, figures, record, and the page of findings
    verdicts.py     whether a claim holds, as a table
    drawing.py      palette and style of all figures

The module of a figure needs what is imported here.
"""

from implicit_bias.studies.runner.drawing import COLOURS, band, finished, panels, ribbon
from implicit_bias.studies.runner.experiment import Rows, Settings, product
from implicit_bias.studies.runner.verdicts import Verdict, decide, named, span, where

__all__ = ["COLOURS", "Rows", "Settings", "Verdict", "band", "decide"]
__all__ += ["finished", "named", "panels", "product", "ribbon", "span", "where"]
