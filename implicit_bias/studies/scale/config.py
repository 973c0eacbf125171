"""Grid of the study of all sizes, in a module without slow imports."""

from collections.abc import Mapping, Sequence
from typing import Any

from implicit_bias._utils.checks import InputError, as_positive
from implicit_bias.studies.settings import Settings, product

#: Networks that are trained, by their names in the limit study.
NETWORKS = {
    "gln": "GD-GLN, a GLN with one gated layer of H units, two contexts each",
    "learned-relu": "GD-ReLU, a ReLU network of 2H units",
    "retrained-relu": "GD-FReLU, initial weights behind the frozen gates of the trained ReLU network",
}
#: Names of the trained models in tables and figures.
MODELS = {name: text.partition(",")[0] for name, text in NETWORKS.items()}
#: Stages of a network: after the published training, and at the end of the descent that follows.
DESCENTS = ("sgd", "limit")
#: Coordinates of a cell, with all values.
GRID: dict[str, tuple[Any, ...]] = {
    "dataset": ("mnist", "fashion-mnist"),
    "train_size": (500, 2000, 8000, 24_000, 48_000),
    "seed": (1, 2, 3),
    "units": (10, 50, 100),
    "network": tuple(NETWORKS),
    "descent": DESCENTS,
}
#: Grid of a quick run, which takes minutes and needs no files.
QUICK = GRID | {"dataset": ("digits",), "train_size": (100, 200, 400), "units": (5,)}
#: Settings of all cells. The split depends on the seed; `tolerance` is the smoothing of the least margin at the end of
#: a descent, and `max_steps` its largest number of steps.
FIXED: dict[str, Any] = {
    **{"split": "own", "contexts": 2, "momentum": 0.0, "steps": 3200, "solver": None, "tol": 1e-6},
    **{"tolerance": 0.003, "max_steps": 12_000},
}
#: Seconds after which a descent is cut off.
MAX_SECONDS = 36_000.0


def grid(quick: bool = False, max_seconds: float = MAX_SECONDS) -> list[Settings]:
    """Return the settings of every cell: the combinations of `GRID` that take hours at most, or all of `QUICK`.

    Each descent ends after `max_seconds` at the latest.

    >>> len(grid()), len(grid(quick=True))
    (456, 54)
    """
    more = FIXED | {"max_seconds": as_positive(max_seconds, "max_seconds")}
    return [cell | more for cell in product(**QUICK if quick else GRID) if _is_feasible(**cell)]


def _is_feasible(dataset: str, train_size: int, units: int, network: str, descent: str, **_: Any) -> bool:
    """Return False for 48 000 samples with 10 units or descent to the limit, and for the longest descents of 24 000."""
    if train_size == 48_000:
        return units > 10 and descent == "sgd"
    if train_size < 24_000 or descent == "sgd" or network == "gln":
        return True
    # Gates that learn, and most gates on Fashion-MNIST, take all steps of a descent.
    widest = {("mnist", "learned-relu"): 50, ("fashion-mnist", "learned-relu"): 10, ("mnist", "retrained-relu"): 100}
    return units <= widest.get((dataset, network), 50)


def chosen(cells: Sequence[Settings], wanted: Mapping[str, Sequence[Any]]) -> list[Settings]:
    """Return the cells whose coordinates have one of the `wanted` values; other coordinates may have any value.

    Raises InputError for a value that no cell has.

    >>> len(chosen(grid(), {"train_size": (500, 2000), "units": (10,)}))
    72
    """
    for name, values in wanted.items():
        known = list(dict.fromkeys(cell[name] for cell in cells))
        for value in values:
            if value not in known:
                raise InputError(
                    f"no cell has {name.replace('_', ' ')} {value}; choose from {', '.join(map(str, known))}"
                )
    return [cell for cell in cells if all(cell[name] in values for name, values in wanted.items())]
