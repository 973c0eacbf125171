"""Quantities of the paper's claims on its experiments, as contrasts of the table's columns.

Words, thresholds and dates of each claim are in `claims.toml`, under the same key. GLNs are those of the paper's Figure
2 (median cutoffs and, as in the published analysis, no momentum) and ReLU networks those of its Figure 3
(momentum 0.9), unless a claim says otherwise. "By chance" refers to the inconsistency of two independent models with
the errors p and q, p(1 − q) + q(1 − p). Footnote 6 and the published figures have 2p(1 − p), with the network's p.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from implicit_bias.studies.runner.verdicts import Claim, claims

#: The widths of the paper's figures.
WIDTHS = {"units": (1, 100)}
GLN: dict[str, Any] = {"study": "compare_gln", "version": "corrected", "cutoff": "median", "momentum": 0.0} | WIDTHS
RANDOM, FAST, FAULTY = GLN | {"cutoff": "random"}, GLN | {"momentum": 0.9}, GLN | {"version": "published"}
#: GLNs of no more parameters than the ReLU networks (Figure 3c).
SMALL = GLN | {"contexts": 2, "units": (1, 50)}
SHALLOW = GLN | {"study": "compare_shallow_gln"}
RELU: dict[str, Any] = {"study": "compare_relu", "version": "corrected", "momentum": 0.9} | WIDTHS
SLOW = RELU | {"momentum": 0.0}


@dataclass(frozen=True)
class Quantity:
    """`column` of `model` where columns equal `rows` ((low, high): a range); if `best`, its least per n and seed."""

    rows: dict[str, Any]
    model: str
    column: str = "error"
    best: bool = False

    def at(self, **values: Any) -> "Quantity":
        """Return a copy restricted to rows with further values of columns."""
        return replace(self, rows=self.rows | values)


#: Claims by part and key in `claims.toml`, joined by a point. Those of 'gln' and 'relu', the paper's, and 'ours' are
#: tested over draws. Those of 'published', the paper's, are counted in the simulation with the published faults.
CLAIMS: dict[str, Claim] = {
    f"{part}.{key}": claim
    for part in ("gln", "published", "relu", "ours")
    for key, claim in claims("paper", part).items()
}


@dataclass(frozen=True)
class Contrast:
    """Σ weight · quantity over `terms`, in percentage points; the claim is that its mean is above or below the `limit`.

    If the claim has a limit `r`, it is instead on the correlation of two quantities over the cells of a draw. If
    `within`, the mean over cells of the same training-set size is first subtracted from each of the two quantities.
    """

    #: Key of the claim in `CLAIMS`.
    key: str
    terms: tuple[tuple[float, Quantity], ...]
    #: Coordinate for whose values the claim is also tested separately.
    by: str | None = None
    within: bool = False
    #: Text of the names in braces in the claim.
    names: Mapping[str, str] = field(default_factory=dict)

    @property
    def part(self) -> str:
        """Part of `claims.toml`: 'gln', 'published', 'relu' or 'ours'."""
        return self.key.partition(".")[0]

    @property
    def claim(self) -> Claim:
        return CLAIMS[self.key]

    @property
    def correlated(self) -> bool:
        """True if the claim is on a correlation."""
        return "r" in self.claim.limits

    @property
    def relation(self) -> str:
        """Side of the limit on which the claim holds: 'above' or 'below'."""
        return "below" if "below" in self.claim.threshold else "above"

    @property
    def limit(self) -> float:
        """Limit of the claim: a correlation, or percentage points."""
        return float(next(self.claim.limits[name] for name in ("r", "least", "most") if name in self.claim.limits))


def less(key: str, below: Quantity, above: Quantity, by: str | None = None, **names: str) -> Contrast:
    """Return the contrast `above` − `below`, for claims that `below` has the smaller value."""
    return Contrast(key, ((1, above), (-1, below)), by, names=names)


def grows(key: str, above: Quantity, below: Quantity, narrow: int, wide: int, **names: str) -> Contrast:
    """Return the contrast by how much more `above` − `below` is at `wide` units than at `narrow` units."""
    terms = [(1, above.at(units=wide)), (-1, below.at(units=wide))]
    terms += [(-1, above.at(units=narrow)), (1, below.at(units=narrow))]
    return Contrast(key, tuple(terms), names=names)


def pair(key: str, one: Quantity, other: Quantity, *, within: bool = False) -> Contrast:
    """Return the contrast for a claim on the correlation of two quantities."""
    return Contrast(key, ((1, one), (1, other)), within=within)


def disagreement(rows: dict[str, Any], model: str) -> Quantity:
    """Return the quantity: inconsistency of a model with the trained network."""
    return Quantity(rows, model, "inconsistency")


def by_chance(rows: dict[str, Any], model: str) -> Quantity:
    """Return the quantity p(1 − q) + q(1 − p), for the errors p of a model and q of the trained network."""
    return Quantity(rows, model, "expected_inconsistency")


def best(rows: dict[str, Any], model: str) -> Quantity:
    """Return the quantity: least error of a model for each training-set size and seed."""
    return Quantity(rows, model, best=True)


GD, SVM, L2, FRO = (Quantity(GLN, model) for model in ("GD-GLN", "SVM-GLN", "SVM-L2", "SVM-Fro"))
NET, RC, LC, HL = (Quantity(RELU, model) for model in ("GD-ReLU", "SVM-RC", "SVM-LC", "SVM-HL"))
CONTRASTS: tuple[Contrast, ...] = (
    less("gln.better", SVM, GD),
    less("gln.matches", SVM, GD),
    less("gln.norm", SVM, L2),
    less("gln.much", SVM, L2),
    less("gln.few", SVM.at(units=10), L2.at(units=10)),
    grows("gln.narrow", L2, SVM, 100, 10),
    pair("gln.weak", L2, GD),
    pair("gln.weak-within", L2, GD, within=True),
    Contrast("gln.inconsistent", ((1, disagreement(GLN, "SVM-GLN")),)),
    less("gln.chance", disagreement(GLN, "SVM-GLN"), by_chance(GLN, "SVM-GLN")),
    less("gln.nearer", disagreement(GLN, "SVM-GLN"), disagreement(GLN, "SVM-L2")),
    less("gln.sparse", Quantity(GLN, "SVM-GLN", "kept"), Quantity(GLN, "SVM-L2", "kept")),
    less("gln.similar", Quantity(GLN, "SVM-GLN", "apart"), Quantity(GLN, "SVM-L2", "apart")),
    less("gln.shallow", best(GLN, "SVM-L2"), best(SHALLOW, "SVM-shallow")),
    less("gln.best", best(GLN, "SVM-GLN"), best(GLN, "SVM-L2")),
    less("gln.median", GD, Quantity(RANDOM, "GD-GLN")),
    less("gln.median-svm", SVM, Quantity(RANDOM, "SVM-GLN")),
    less("gln.random-nearer", disagreement(RANDOM, "SVM-GLN"), disagreement(RANDOM, "SVM-L2")),
    less("gln.four", L2.at(units=100, contexts=4), SVM.at(units=100, contexts=4)),
    less("gln.random", Quantity(RANDOM, "GD-GLN"), Quantity(RANDOM, "SVM-GLN")),
    less("published.much", Quantity(FAULTY, "SVM-GLN"), Quantity(FAULTY, "SVM-L2")),
    pair("published.weak", Quantity(FAULTY, "SVM-L2"), Quantity(FAULTY, "GD-GLN")),
    Contrast("published.inconsistent", ((1, disagreement(FAULTY, "SVM-GLN")),)),
    less("published.nearer", disagreement(FAULTY, "SVM-GLN"), disagreement(FAULTY, "SVM-L2")),
    pair("relu.correlated", RC, NET),
    Contrast("relu.random", ((1, disagreement(RELU, "SVM-RC")),)),
    less("relu.chance", disagreement(RELU, "SVM-RC"), by_chance(RELU, "SVM-RC")),
    Contrast("relu.sparse", ((1, Quantity(RELU, "SVM-LC", "kept")),)),
    less("relu.learned", LC, RC, "units"),
    less("relu.learned-nearer", disagreement(RELU, "SVM-LC"), disagreement(RELU, "SVM-RC")),
    less("relu.hidden", HL, LC),
    less("relu.hidden-nearer", disagreement(RELU, "SVM-HL"), disagreement(RELU, "SVM-LC")),
    less("relu.hidden-best", best(RELU, "SVM-HL"), best(RELU, "GD-ReLU")),
    *(less("relu.deep", best(RELU, "SVM-LC"), best(SMALL, deep), deep=deep) for deep in ("SVM-GLN", "GD-GLN")),
    *(less("relu.random-deep", best(SMALL, deep), best(RELU, "SVM-RC"), deep=deep) for deep in ("SVM-GLN", "GD-GLN")),
    *(grows("relu.wider", LC, other, 50, 100, model=other.model) for other in (NET, HL)),
    Contrast("relu.different", ((1, disagreement(RELU, "SVM-LC")),)),
    Contrast("relu.portion", ((0.5, by_chance(RELU, "SVM-LC")), (-1, disagreement(RELU, "SVM-LC")))),
    less("relu.momentum", NET, Quantity(SLOW, "GD-ReLU"), "units", model="GD-ReLU"),
    *(less("relu.momentum", fast, Quantity(SLOW, fast.model), model=fast.model) for fast in (LC, HL)),
    less("relu.slow", Quantity(SLOW, "SVM-HL"), Quantity(SLOW, "GD-ReLU")),
    *(
        less("relu.momentum-nearer", disagreement(RELU, model), disagreement(SLOW, model), model=model)
        for model in ("SVM-RC", "SVM-LC", "SVM-HL")
    ),
    pair("ours.correlated", SVM, GD),
    less("ours.momentum", Quantity(FAST, "GD-GLN"), GD),
    less("ours.hidden", HL, NET),
    Contrast(
        "ours.architecture", ((1, best(SHALLOW, "SVM-shallow")), (-2, best(GLN, "SVM-L2")), (1, best(GLN, "SVM-GLN")))
    ),
    less("ours.frobenius", SVM, FRO),
    less("ours.frobenius-best", best(GLN, "SVM-GLN"), best(GLN, "SVM-Fro")),
    less("ours.frobenius-l2", FRO, L2),
    less("ours.frobenius-nearer", disagreement(GLN, "SVM-GLN"), disagreement(GLN, "SVM-Fro")),
    less("ours.momentum-nearer", disagreement(FAST, "SVM-GLN"), disagreement(GLN, "SVM-GLN")),
    less("ours.random", Quantity(RANDOM, "SVM-GLN"), Quantity(RANDOM, "SVM-L2")),
    less("ours.shallow", disagreement(SHALLOW, "SVM-shallow"), by_chance(SHALLOW, "SVM-shallow")),
    Contrast("ours.portion", ((0.5, by_chance(RELU, "SVM-RC")), (-1, disagreement(RELU, "SVM-RC")))),
)
