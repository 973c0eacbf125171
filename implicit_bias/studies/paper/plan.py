"""The grid of the paper (Lippl, Abbott & Chung), and the cells of each figure: its own by number, ours by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from implicit_bias.studies.paper import REFERENCES, VERSIONS

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


@dataclass(frozen=True)
class Panels:
    """A panel of the paper's figures: its letter, kind, and conditions on its cells.

    `kind` is a column of the table, which is plotted against the reference's error; 'widths', error against units; or a
    key of `figures.BEST`, least errors.
    """

    letter: str
    kind: str
    where: dict[str, Any]


@dataclass(frozen=True)
class Layout:
    """Title of a figure, and the parts of the grid that it shows."""

    title: str
    parts: tuple[Part, ...]

    @property
    def study(self) -> str:
        """Study of the first part, which is the subject of a figure on one study."""
        return self.parts[0].study

    @property
    def reference(self) -> str:
        """Name of the trained model of `study`."""
        return REFERENCES[self.study]


@dataclass(frozen=True)
class PaperFigure(Layout):
    """A figure of the paper: models, columns of panels, and rows of panels (label, conditions on the cells)."""

    models: tuple[str, ...]
    columns: tuple[Panels, ...]
    rows: tuple[tuple[str, dict[str, Any]], ...]


@dataclass(frozen=True)
class OwnFigure(Layout):
    """A figure of ours that the paper lacks: quantities against widths, for each training-set size."""

    #: Rows of panels: a value of `contexts`, or None for all, and the quantity.
    rows: tuple[tuple[int | None, str], ...]
    #: Column of the x axis.
    width: str = "units"


@dataclass(frozen=True)
class ClaimsFigure(Layout):
    """A figure of ours: means and intervals of the claims, over draws of data, gates, weights and batches."""


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

_A, _B = Panels("a", "error", {}), Panels("b", "inconsistency", {})
_MEDIAN, _RANDOM = {"cutoff": "median"}, {"cutoff": "random"}
_BOTH = ((None, "error"), (None, "inconsistency"))
FIGURES: dict[str, PaperFigure | OwnFigure | ClaimsFigure] = {
    "2": PaperFigure(
        "Experiments on GLNs",
        (GLN, SHALLOW),
        ("SVM-L2", "SVM-GLN"),
        (_A, _B, Panels("c", "best GLNs", {}), Panels("d", "widths", {"contexts": 2})),
        (("", _MEDIAN | {"momentum": 0.0}),),
    ),
    "3": PaperFigure(
        "Experiments on ReLU networks",
        (RELU, GLN),
        ("SVM-RC", "SVM-LC", "SVM-HL"),
        (_A, _B, Panels("c", "best ReLU networks", {}), Panels("d", "widths", {})),
        (("", {"momentum": 0.9}),),
    ),
    "4": PaperFigure(
        "Full data on GLNs",
        (GLN,),
        ("SVM-L2", "SVM-GLN"),
        (_A, _B, Panels("c", "widths", {"contexts": 2}), Panels("c", "widths", {"contexts": 4})),
        (("with MI", _MEDIAN | {"momentum": 0.0}), ("without MI", _RANDOM | {"momentum": 0.0})),
    ),
    "5": PaperFigure(
        "Full data on ReLU networks",
        (RELU,),
        ("SVM-RC", "SVM-LC", "SVM-HL"),
        (_A, _B, Panels("c", "widths", {})),
        (("momentum 0", {"momentum": 0.0}), ("momentum 0.9", {"momentum": 0.9})),
    ),
    "gln-widths": OwnFigure(
        "GLNs of all widths", (GLN, WIDE_GLN), ((2, "error"), (4, "error"), (2, "inconsistency"), (4, "inconsistency"))
    ),
    "relu-widths": OwnFigure("ReLU networks of all widths", (RELU, WIDE_RELU), _BOTH),
    "shallow": OwnFigure("Shallow GLNs", (SHALLOW,), _BOTH, "contexts"),
    "spreads": ClaimsFigure("Claims over draws", SPREADS),
}
