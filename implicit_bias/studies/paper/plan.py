"""The grid of the paper (Lippl, Abbott & Chung), and the cells of each figure: its own by number, ours by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: The comparison without and with the published faults.
VERSIONS = ("corrected", "published")
#: Name of the trained model of each comparison, by the value of the setting `study`.
REFERENCES = {"compare_gln": "GD-GLN", "compare_relu": "GD-ReLU", "compare_shallow_gln": "GD-shallow"}
#: The published grid.
PAPER: dict[str, Any] = {
    "dataset": "mnist",
    "train_size": (500, 1000, 2000),
    "seeds": (1, 2, 3),
    "momentum": (0.0, 0.9),
    "versions": VERSIONS,
}


@dataclass(frozen=True, eq=False)
class Part:
    """Cells of one study: lists of settings for the `whole` grid, and for a `quick` run of minutes."""

    study: str
    whole: dict[str, Any]
    quick: dict[str, Any]
    cutoffs: tuple[str, ...] = ("median", "random")
    #: Momenta of a quick run.
    momentum: tuple[float, ...] = (0.0,)
    versions: tuple[str, ...] = VERSIONS


_GLN, _RELU, _SHALLOW = REFERENCES
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
    Part(_RELU, _DRAWS | {"units": (10, 50, 100)}, _THREE, ("median",), **_SPREAD),
    Part(_SHALLOW, _REGIONS, _THREE | {"units": (1,), "contexts": (16,)}, ("median",), **_SPREAD),
)
#: Parts of the grid that each figure shows. The first part is the subject of a figure on one study.
FIGURES: dict[str, tuple[Part, ...]] = {
    **{"2": (GLN, SHALLOW), "3": (RELU, GLN), "4": (GLN,), "5": (RELU,)},
    **{"gln-widths": (GLN, WIDE_GLN), "relu-widths": (RELU, WIDE_RELU), "shallow": (SHALLOW,), "spreads": SPREADS},
}
