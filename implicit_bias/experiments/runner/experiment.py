"""What a figure of a paper is: a grid of cells, how one is computed, how they are drawn, and what they say."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from implicit_bias.experiments.runner.verdicts import Verdict

#: A cell: names and plain JSON values (numbers, words, true, false or none), the seed included. A list is what one cell
#: goes through, because that costs less than a cell each; every row of it then says its own value.
Settings = dict[str, Any]
#: What a cell gives: tidy rows, without the settings, which are put before them.
Rows = list[dict[str, Any]]
#: Colours of networks and lines, the same in every figure (Okabe and Ito's palette).
COLOURS = {
    **{"black": "#000000", "orange": "#E69F00", "sky": "#56B4E9", "green": "#009E73", "yellow": "#F0E442"},
    **{"blue": "#0072B2", "red": "#D55E00", "purple": "#CC79A7"},
    **{"GaLU": "#0072B2", "ReLU": "#E69F00", "linear": "#009E73", "theory": "#000000"},
}


@dataclass(frozen=True)
class Experiment:
    """A figure of the paper, done again.

    `rows` must be a plain function of its module, a pure one of its arguments: every random number comes from a seed
    among the settings. A stored cell is used again as long as settings and `revision` are the same. `draw` and
    `verdicts` take any part of the grid, down to one cell, because runs are interrupted; their
    table comes from a file, so what is not a number or a truth value is text, and a gap is NaN.

    >>> from implicit_bias.experiments.galu.norms import EXPERIMENT
    >>> EXPERIMENT.name, EXPERIMENT.grid(True)[0]["sigma_y"]
    ('norms', 0.0)
    """

    #: The value of --figure, and the name of the files.
    name: str
    title: str
    #: Where it stands: 'second version, figure 1'.
    source: str
    #: The paper's claim, in a sentence.
    claim: str
    #: From whether the run is a quick one to the settings of its cells.
    grid: Callable[[bool], list[Settings]]
    #: From settings, and what `data` gave if there is `data`, to the rows of the cell.
    rows: Callable[..., Rows]
    #: From settings to about how many seconds the cell takes on one core.
    cost: Callable[[Settings], float]
    draw: Callable[[pd.DataFrame], Figure]
    #: What the table says of each part of the claim.
    verdicts: Callable[[pd.DataFrame], list[Verdict]]
    #: From settings and the folder of image files to what `rows` needs of them; asked for every cell before any work,
    #: so that missing files are told at once: it should keep what it loaded last (`functools.lru_cache`).
    data: Callable[[Settings, str | None], Any] | None = None
    #: Raised by one whenever the rows of a cell would come out otherwise: stored cells of before are then not used.
    revision: int = 1


def product(**lists: Iterable[Any]) -> list[Settings]:
    """The settings of every combination, the last list innermost.

    >>> from implicit_bias.experiments.runner.experiment import product
    >>> product(units=(4, 8), seed=(1,))
    [{'units': 4, 'seed': 1}, {'units': 8, 'seed': 1}]
    """
    return [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]


@contextmanager
def panels(title: str, columns: int = 1, rows: int = 1, size: tuple[float, float] = (3.6, 2.9)) -> Iterator[Any]:
    """A figure's axes, shape (rows, columns), each of this size in inches, in the style of all figures here.

    >>> from implicit_bias.experiments.runner.experiment import panels
    >>> with panels("Two", columns=2) as axes:
    ...     line, = axes[0, 1].plot([1, 2])
    >>> axes[0, 0].figure.get_suptitle()
    'Two'
    """
    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(size[0] * columns, size[1] * rows + 0.4), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False)
        figure.suptitle(title)
        yield axes


def band(ax: Axes, values: pd.Series, **style: Any) -> None:
    """A line through the means of `values` over its index, and a band of one standard deviation about it.

    >>> import pandas as pd
    >>> from implicit_bias.experiments.runner.experiment import band, panels
    >>> with panels("Loss") as axes:
    ...     band(axes[0, 0], pd.Series([1.0, 3.0, 4.0], index=[5, 5, 6]), label="GaLU")
    >>> axes[0, 0].get_lines()[0].get_ydata().tolist()
    [2.0, 4.0]
    """
    stats = values.groupby(level=0).agg(["mean", "std"]).dropna(subset=["mean"])
    spread = stats["std"].fillna(0.0)
    look: dict[str, Any] = {"markersize": 3, "linewidth": 1.2, "marker": "o"} | style
    (line,) = ax.plot(stats.index, stats["mean"], **look)
    ax.fill_between(
        stats.index, stats["mean"] - spread, stats["mean"] + spread, color=line.get_color(), alpha=0.2, linewidth=0
    )
