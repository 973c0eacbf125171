"""The comparisons of Lippl, Abbott & Chung, and their figures: one module a comparison, and `cells` for all of them."""

import argparse
from typing import Any

from implicit_bias.studies.collection import Collection, Option

SOURCE = 'Lippl, Abbott & Chung, "The Implicit Bias of Gradient Descent on Generalized Gated Linear Networks"'
#: The comparison without and with the published faults.
VERSIONS = ("corrected", "published")
#: Figures by their value of --figure: the paper's own by number, ours by name.
FIGURES = ("2", "3", "4", "5", "gln-widths", "relu-widths", "shallow", "spreads")
#: Every published fault, by the name that the setting `faults` and the functions of `published` take.
FAULTS = (
    *("column-major groups", "equation 23", "lost cutoffs", "always-on gate", "one draw", "training"),
    "zero outputs",
)
#: Title of each comparison, by the value of the setting `study`.
TITLES = {
    "compare_gln": "Gated linear networks: gradient descent and the margin problems",
    "compare_relu": "ReLU networks: gradient descent and the margin problems",
    "compare_shallow_gln": "Shallow gated linear networks: gradient descent and the margin problem",
}


def _cutoff(text: str) -> Any:
    if text in ("median", "random"):
        return text
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError("give median, random, a number, or two quantile levels as 0.25,0.75") from None
    return values[0] if len(values) == 1 else values


#: Options of a comparison. Every combination of `train_size`, `units`, `contexts` and `seeds` is a cell. The seed of a
#: cell determines gates, initial weights and batches. If `split` is 'own', the seed also determines the split of the
#: data; otherwise the split is the published one. The version 'published' has the `faults`, a part of `FAULTS`.
OPTIONS = {
    "dataset": Option("digits", "one that `implicit-bias info` lists"),
    "train_size": Option((500,), "training samples n"),
    "units": Option((10,), "hidden units H"),
    "contexts": Option((2,), "contexts per unit, powers of two"),
    "seeds": Option((1, 2, 3), "seeds of gates, weights and batches"),
    "momentum": Option((0.0,), "momentum of gradient descent"),
    "cutoff": Option("median", "median, random, a number, or two quantile levels", kind=_cutoff),
    "split": Option("published", "published, or own: each seed splits the data as well", ("published", "own")),
    "versions": Option(VERSIONS[:1], "", VERSIONS),
    "faults": Option(FAULTS, "", FAULTS),
    "solver": Option(None, "one that `implicit-bias info` lists; else the default of solve()", kind=str),
    "tol": Option(1e-6, "relative gap at which the solver stops"),
    "steps": Option(3200, "steps of gradient descent"),
}


def _comparison(study: str, example: str, **defaults: Any) -> Collection:
    options = OPTIONS | {name: OPTIONS[name]._replace(default=value) for name, value in defaults.items()}
    text = (
        f"{TITLES[study]}.\n\nOptions that list their values take several (--seeds 1 2 3), and every combination runs. "
        "Finished cells\nare stored: the same command resumes an interrupted run."
    )
    examples = (("", "the embedded digits"), (example, "several settings"), ("--json", "rows and summary as JSON"))
    name = study.removeprefix("compare_").replace("_", "-")
    return Collection("paper", SOURCE, (name,), True, text, examples, options, command=f"compare {name}")


#: Single comparisons, each a command.
COMPARISONS = {
    "compare_gln": _comparison("compare_gln", "--dataset mnist --units 10 20 --seeds 1", units=(5, 10)),
    "compare_relu": _comparison("compare_relu", "--units 10 20 --momentum 0 0.9", units=(10, 20)),
    "compare_shallow_gln": _comparison(
        "compare_shallow_gln", "--contexts 1 2 4 8 16", units=(1,), contexts=(1, 2, 4, 8, 16)
    ),
}
TEXT = """\
Reproduce the paper's figures 2 to 5, panel by panel, and figures of our own, without and with the published faults.
The results are figures, findings and a self-contained report; every cell without faults is certified.
Finished cells are stored: the same command resumes an interrupted run."""
EXAMPLES = (
    ("--figure 3 4 --corrected", "two figures, without the published faults"),
    ("--redraw data/paper", "figures and report of the committed table, in seconds"),
)
_GRID = {
    "figure": Option(("all",), f"{', '.join(FIGURES)} or all", (*FIGURES, "all")),
    "dataset": Option("mnist", "mnist as published, or another data set"),
    "versions": Option(VERSIONS, "", VERSIONS),
}
COLLECTION = Collection("paper", SOURCE, ("cells",), images=True, text=TEXT, examples=EXAMPLES, options=_GRID)
