"""`implicit-bias solve`: the options of a margin problem on a user's own samples; `solving` does the work."""

import math

from implicit_bias.cli.parsers import EXIT_CODES, Parser, add_json, add_solver

FORMULATIONS = ("svm-gln", "svm-l2", "svm-rc", "svm-shallow", "linear")
TEXT = """\
Solve a margin problem on your own samples and save the certified model, for `implicit-bias predict`.

CSV: the label column (the last, unless --label names it), columns named gate_… as gate values, all others inputs.
NPZ: arrays X (n, p) and y (n,), optionally gates (n, k), groups (k,), sample_weight (n,) and required_margin (n,).
Labels are numbers or texts. More than two classes are one problem per class, this class against the rest."""


def declare(parser: Parser, command: str) -> None:
    """Declare the options of `solve`."""
    parser.explain(
        TEXT,
        [
            ("samples.csv", "SVM-GLN with ten units of two contexts"),
            ("samples.csv --formulation linear --C 1", "the linear SVM with soft margin"),
            ("samples.csv --C 1 --weights importance", "slack of some samples costs more"),
            ("samples.npz --max-seconds 60 --json", "the best answer of a minute, as JSON"),
            ("samples.csv --C 2 --start samples-model.npz", "from the answer at another price"),
        ],
        {
            0: "OPTIMAL, or proved NOT_SEPARABLE (at all, or below a norm)",
            1: "an answer worse than asked, saved with its certified gap",
            2: EXIT_CODES[2],
            130: "interrupted; the best answer so far is saved",
        },
    )
    add = parser.add_argument
    add("file", metavar="FILE", help="the samples, .csv or .npz")
    add("--label", metavar="COLUMN", help="the label's column of a CSV file")
    add("--weights", metavar="COLUMN", help="a CSV file's column of sample weights: prices of slack in units of C")
    add("--margins", metavar="COLUMN", help="a CSV file's column of required margins; else 1 for all")
    add("--formulation", default="svm-gln", choices=FORMULATIONS, help="the margin problem")
    add("--units", type=int, default=10, help="hidden units H")
    add("--contexts", type=int, default=2, help="contexts per unit, a power of two")
    add("--seed", type=int, default=1, help="seed of the gates")
    add("--C", type=float, default=math.inf, help="price of slack; inf is the hard margin")
    add("--no-constant", action="store_true", help="do not append the constant input 1")
    add_solver(parser)
    add("--tol", type=float, default=1e-6, help="relative gap asked for")
    add("--max-seconds", type=float, help="end with the best answers so far after this time, shared by the classes")
    add("--max-iterations", type=int, help="end with the best answer so far after as many iterations for a class")
    add("--start", metavar="MODEL", help="begin from a saved model of the same samples in the same order")
    add("--keep-samples", action="store_true", help="keep the samples in the model's file, too")
    add("--verbose", action="store_true", help="show the solver's log")
    add("--out", metavar="FILE", help="where to save the model (npz); else NAME-model.npz in this folder")
    add_json(parser)
    parser.set_defaults(run="implicit_bias.cli.solving:solved")
