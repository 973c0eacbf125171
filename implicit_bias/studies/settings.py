"""Settings of cells and names of figures, without slow imports."""

import itertools
from collections.abc import Iterable
from typing import Any

from implicit_bias._utils.checks import one_of

#: Settings of a cell: names and plain JSON values (numbers, texts, true, false or null), including the seed. A list is
#: a loop within one cell, which costs less than a cell for each value; every row then contains its value.
Settings = dict[str, Any]
#: Seeds of data and starts. They lie apart, because cells add small numbers to them for further samples.
SEEDS = (1, 21, 41, 61, 81)


def product(**lists: Iterable[Any]) -> list[Settings]:
    """Return the settings of every combination of the values; the values of the last list change fastest.

    >>> product(units=(4, 8), seed=(1,))
    [{'units': 4, 'seed': 1}, {'units': 8, 'seed': 1}]
    """
    return [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]


def seeded(cells: Iterable[Settings], quick: bool) -> list[Settings]:
    """Return every cell with each of `SEEDS`, or with the first one alone if `quick`.

    >>> [cell["seed"] for cell in seeded([{"units": 4}], quick=False)]
    [1, 21, 41, 61, 81]
    """
    return [cell | {"seed": seed} for cell in cells for seed in SEEDS[: 1 if quick else None]]


def chosen(figures: Iterable[str], wanted: Iterable[str]) -> tuple[str, ...]:
    """Return the wanted figures, or all for 'all', in the order of `figures`; InputError if a name is unknown.

    >>> chosen(("2", "3", "4"), ["4", "2"])
    ('2', '4')
    """
    every = tuple(figures)
    names = [one_of(figure, [*every, "all"], "figure") for figure in wanted]
    return every if "all" in names else tuple(figure for figure in every if figure in names)
