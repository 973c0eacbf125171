"""The paper's claims on its experiments, by section and panel and in our words, as contrasts of the table's columns.

A claim states that a weighted sum of quantities, formed in each cell, is on average above 0 or another limit. GLNs are
those of the paper's Figure 2 (median cutoffs; no momentum, which the text does not mention for GLNs) and ReLU networks
those of its Figure 3 (momentum 0.9), unless a claim says otherwise. "By chance" refers to the inconsistency of two
independent models with the same errors.
"""

from dataclasses import dataclass, replace
from typing import Any

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
    """A column of the rows of `model` whose columns have the values `rows`; a tuple (low, high) is a range of values.

    If `best`, the quantity is the least value over all numbers of units and contexts.
    """

    rows: dict[str, Any]
    model: str
    column: str = "error"
    best: bool = False

    def at(self, **values: Any) -> "Quantity":
        """Return a copy restricted to rows with further values of columns."""
        return replace(self, rows=self.rows | values)


@dataclass(frozen=True)
class Claim:
    """Claim that Σ weight · quantity, in percentage points, is above `limit`.

    If `correlation` is 'above' or 'below', the claim is instead that the correlation of two quantities, over the cells
    of a draw, is above or below 0.5. If `within`, the mean over cells of the same training-set size is subtracted from
    each of the two quantities.
    """

    #: Section and panels of the paper, or "ours".
    place: str
    text: str
    terms: tuple[tuple[int, Quantity], ...]
    limit: float = 0.0
    #: Coordinate for whose values the claim is also tested separately.
    by: str | None = None
    correlation: str = ""
    within: bool = False


def less(place: str, text: str, below: Quantity, above: Quantity, by: str | None = None) -> Claim:
    """Return the claim that `below` is less than `above`; `by` is as in `Claim`."""
    return Claim(place, text, ((1, above), (-1, below)), by=by)


def grows(place: str, text: str, above: Quantity, below: Quantity, narrow: int, wide: int) -> Claim:
    """Return the claim that above − below is larger with `wide` units than with `narrow`."""
    terms = [(1, above.at(units=wide)), (-1, below.at(units=wide))]
    terms += [(-1, above.at(units=narrow)), (1, below.at(units=narrow))]
    return Claim(place, text, tuple(terms))


def correlate(place: str, text: str, one: Quantity, other: Quantity, relation: str, *, within: bool = False) -> Claim:
    """Return the claim that the correlation of two quantities is 'above' or 'below' (`relation`) 0.5."""
    return Claim(place, text, ((1, one), (1, other)), correlation=relation, within=within)


def apart(rows: dict[str, Any], model: str) -> Quantity:
    """Return the inconsistency of a model with the trained network, as a quantity."""
    return Quantity(rows, model, "inconsistency")


def by_chance(rows: dict[str, Any], model: str) -> Quantity:
    """Return p(1 − q) + q(1 − p) as a quantity, for the errors p of a model and q of the trained network."""
    return Quantity(rows, model, "expected_inconsistency")


def best(rows: dict[str, Any], model: str) -> Quantity:
    """Return a model's least error over units and contexts, for each training-set size and seed, as a quantity."""
    return Quantity(rows, model, best=True)


GD, SVM, L2, FRO = (Quantity(GLN, model) for model in ("GD-GLN", "SVM-GLN", "SVM-L2", "SVM-Fro"))
NET, RC, LC, HL = (Quantity(RELU, model) for model in ("GD-ReLU", "SVM-RC", "SVM-LC", "SVM-HL"))

GLN_CLAIMS: tuple[Claim, ...] = (
    less("4.1, 2a", "SVM-GLN errs less than GD-GLN", SVM, GD),
    less("4.1, 2a, 2d", "SVM-GLN errs less than SVM-L2", SVM, L2, "units"),
    less("4.1, 2a", "SVM-GLN errs less than SVM-L2, simulated with the published faults",
         Quantity(FAULTY, "SVM-GLN"), Quantity(FAULTY, "SVM-L2")),
    correlate("4.1, 2a", "errors of SVM-L2 and GD-GLN correlate only weakly", L2, GD, "below"),
    correlate("4.1, 2a", "errors of SVM-L2 and GD-GLN correlate only weakly within a training-set size", L2, GD,
              "below", within=True),
    correlate("4.1, 2a", "errors of SVM-L2 and GD-GLN correlate only weakly, simulated with the published faults",
              Quantity(FAULTY, "SVM-L2"), Quantity(FAULTY, "GD-GLN"), "below"),
    Claim("4.1, 2b", "GD-GLN disagrees with SVM-GLN on more than 10 %", ((1, apart(GLN, "SVM-GLN")),), 10.0),
    Claim("4.1, 2b", "GD-GLN disagrees with SVM-GLN on more than 10 %, simulated with the published faults",
          ((1, apart(FAULTY, "SVM-GLN")),), 10.0),
    less("4.1, 2b", "GD-GLN disagrees with SVM-GLN less than by chance",
         apart(GLN, "SVM-GLN"), by_chance(GLN, "SVM-GLN")),
    less("4.1, 2b", "GD-GLN disagrees with SVM-GLN less than with SVM-L2", apart(GLN, "SVM-GLN"), apart(GLN, "SVM-L2")),
    less("4.1, 2c", "the best SVM-L2 errs less than the best shallow SVM",
         best(GLN, "SVM-L2"), best(SHALLOW, "SVM-shallow")),
    less("4.1, 2c", "the best SVM-GLN errs less than the best SVM-L2", best(GLN, "SVM-GLN"), best(GLN, "SVM-L2")),
    grows("4.1, 2d", "SVM-L2 falls further behind SVM-GLN at 10 units than at 100", L2, SVM, 100, 10),
    less("C.1, 4a", "GD-GLN errs less with median cutoffs than without", GD, Quantity(RANDOM, "GD-GLN")),
    less("C.1, 4a", "SVM-GLN errs less with median cutoffs than without", SVM, Quantity(RANDOM, "SVM-GLN")),
    less("C.1, 4b", "without median cutoffs, GD-GLN disagrees with SVM-GLN less than with SVM-L2",
         apart(RANDOM, "SVM-GLN"), apart(RANDOM, "SVM-L2")),
    less("C.1, 4c", "with four contexts and 100 units, SVM-L2 errs less than SVM-GLN",
         L2.at(units=100, contexts=4), SVM.at(units=100, contexts=4)),
    less("C.1, 4c", "without median cutoffs, GD-GLN errs less than SVM-GLN",
         Quantity(RANDOM, "GD-GLN"), Quantity(RANDOM, "SVM-GLN")),
)  # fmt: skip
RELU_CLAIMS: tuple[Claim, ...] = (
    correlate("5.2, 3a", "errors of SVM-RC and GD-ReLU correlate reasonably", RC, NET, "above"),
    less("5.2, 3b", "GD-ReLU disagrees with SVM-RC less than by chance",
         apart(RELU, "SVM-RC"), by_chance(RELU, "SVM-RC")),
    less("5.2, 3a, 3d", "SVM-LC errs less than SVM-RC", LC, RC, "units"),
    less("5.2, 3b", "GD-ReLU disagrees with SVM-LC less than with SVM-RC",
         apart(RELU, "SVM-LC"), apart(RELU, "SVM-RC")),
    less("5.2, 3a", "SVM-HL errs less than SVM-LC", HL, LC),
    less("5.2, 3b", "GD-ReLU disagrees with SVM-HL less than with SVM-LC",
         apart(RELU, "SVM-HL"), apart(RELU, "SVM-LC")),
    less("5.2, 3c", "the best SVM-HL errs less than the best GD-ReLU", best(RELU, "SVM-HL"), best(RELU, "GD-ReLU")),
    less("5.2, 3c", "the best SVM-LC errs less than the best SVM-GLN of similar size",
         best(RELU, "SVM-LC"), best(SMALL, "SVM-GLN")),
    less("5.2, 3c", "the best SVM-RC errs more than the best SVM-GLN of similar size",
         best(SMALL, "SVM-GLN"), best(RELU, "SVM-RC")),
    grows("5.2, 3d", "SVM-LC falls further behind GD-ReLU at 100 units than at 50", LC, NET, 50, 100),
    grows("5.2, 3d", "SVM-LC falls further behind SVM-HL at 100 units than at 50", LC, HL, 50, 100),
    less("C.2, 5a", "GD-ReLU errs less with momentum 0.9 than without", NET, Quantity(SLOW, "GD-ReLU"), "units"),
    less("C.2, 5a", "without momentum, SVM-HL errs less than GD-ReLU",
         Quantity(SLOW, "SVM-HL"), Quantity(SLOW, "GD-ReLU")),
    less("C.2, 5a", "SVM-LC errs less with momentum 0.9 than without", LC, Quantity(SLOW, "SVM-LC")),
    less("C.2, 5a", "SVM-HL errs less with momentum 0.9 than without", HL, Quantity(SLOW, "SVM-HL")),
    *(less("C.2, 5b", f"GD-ReLU disagrees with {model} less with momentum 0.9 than without",
           apart(RELU, model), apart(SLOW, model)) for model in ("SVM-RC", "SVM-LC", "SVM-HL")),
)  # fmt: skip
#: Claims of ours: what the faults do, momentum for GLNs, and the Frobenius norm of ζ as a baseline.
OUR_CLAIMS: tuple[Claim, ...] = (
    correlate("ours", "errors of SVM-GLN and GD-GLN correlate strongly", SVM, GD, "above"),
    less("ours", "GD-GLN errs less with momentum 0.9, further on its way to the limit, than without",
         Quantity(FAST, "GD-GLN"), GD, "train_size"),
    less("ours", "SVM-HL errs less than GD-ReLU in the same cells", HL, NET),
    Claim("ours", "from the best shallow SVM to the best SVM-GLN, the architecture gains more than the norm",
          ((1, best(SHALLOW, "SVM-shallow")), (-2, best(GLN, "SVM-L2")), (1, best(GLN, "SVM-GLN")))),
    less("ours", "SVM-GLN errs less than SVM-Fro, the Frobenius norm of ζ", SVM, FRO, "units"),
    less("ours", "the best SVM-GLN errs less than the best SVM-Fro", best(GLN, "SVM-GLN"), best(GLN, "SVM-Fro")),
    less("ours", "SVM-Fro errs less than SVM-L2", FRO, L2),
    less("ours", "GD-GLN disagrees with SVM-GLN less than with SVM-Fro", apart(GLN, "SVM-GLN"), apart(GLN, "SVM-Fro")),
    less("ours", "GD-GLN disagrees with SVM-GLN less with momentum 0.9 than without",
         apart(FAST, "SVM-GLN"), apart(GLN, "SVM-GLN"), "train_size"),
    less("ours", "GD-GLN disagrees with SVM-GLN less than in the simulation with the published faults",
         apart(GLN, "SVM-GLN"), apart(FAULTY, "SVM-GLN")),
    less("ours", "without median cutoffs, SVM-GLN errs less than SVM-L2",
         Quantity(RANDOM, "SVM-GLN"), Quantity(RANDOM, "SVM-L2")),
    less("ours", "GD-shallow disagrees with SVM-shallow less than by chance",
         apart(SHALLOW, "SVM-shallow"), by_chance(SHALLOW, "SVM-shallow")),
)  # fmt: skip
CLAIMS = (*GLN_CLAIMS, *RELU_CLAIMS, *OUR_CLAIMS)
