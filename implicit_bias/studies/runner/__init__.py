"""One runner for all experiments.

A cell is one run of an experiment: one combination of its settings (plain JSON), computed as a whole, kept in one file.
It gives some rows of the experiment's table. An `Experiment` declares the grid of its cells, the function that computes
the rows of a cell, and the figures and verdicts of the table. All other work is shared:

    experiment.py   declaration of an experiment
    cells.py        cells: settings, and the key under which their rows are stored
    run.py          from cells to rows: stored rows are read, all others computed by an engine and stored at once
    engines.py      computation in this process, in local processes, or on a Dask cluster
    store.py        rows on disk, one file a cell
    results.py      from rows to files: table, figures, record, and the page of findings
    verdicts.py     claims and thresholds of a study's claims.toml, with dates; verdicts on claims, and their table
    mean_test.py    Student's test of a mean over draws
    drawing.py      palette and style of all figures

The modules of most figures need only what this package exports.
"""

from implicit_bias.studies.runner.drawing import COLOURS, band, beside, finished, log_ticks, panels, ribbon
from implicit_bias.studies.runner.experiment import Rows
from implicit_bias.studies.runner.verdicts import Verdict, claims, decide, named, over_seeds, span, where
from implicit_bias.studies.settings import Settings, product, seeded

__all__ = ["COLOURS", "Rows", "Settings", "Verdict", "band", "beside", "claims", "decide"]
__all__ += ["finished", "log_ticks", "named", "over_seeds", "panels", "product", "ribbon", "seeded", "span", "where"]
