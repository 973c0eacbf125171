"""The best network on images, where patterns are too many to list, and how near descent comes to it

The embedded digits and MNIST, 0 to 4 against 5 to 9, 65 and 785 inputs with the constant. Column generation, with pulls
bounded by the tree of subsets. A ReLU network of 64 units descends from Kaiming's start towards its limit, for some
steps only.
"""

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.datasets import BinaryTask
from implicit_bias.experiments.best.methods import NEAR, TOLERANCE, certified, network_error, norm_of
from implicit_bias.experiments.runner import Rows, Settings, Verdict, decide, finished, panels, product, span
from implicit_bias.experiments.runner.cells import binary_task
from implicit_bias.experiments.runner.drawing import DATASETS, style, trend
from implicit_bias.margin.relu import best_network
from implicit_bias.networks import ReLUNetwork
from implicit_bias.training.iterations import LossScaled
from implicit_bias.training.limit import descend_to_limit

TITLE = "The best network on images"
SOURCE = "ours"
CLAIM = "The best network can be certified on images, too, and descent comes near it."
REVISION = 3
data = binary_task


def grid(quick: bool) -> list[Settings]:
    """20 and 40 digits of either kind, three splits, and one split of 60; quick: 20 of the embedded ones, one split."""
    fixed = {"split": ("own",), "units": (64,), "max_steps": (1000,)}
    if quick:
        return product(dataset=("digits",), **fixed, train_size=(20,), seed=(1,))
    both = ("digits", "mnist")
    return [
        *product(dataset=both, **fixed, train_size=(20, 40), seed=(1, 2, 3)),
        *product(dataset=both, **fixed, train_size=(60,), seed=(1,)),
    ]


def rows(settings: Settings, task: BinaryTask) -> Rows:
    """objective, lower_bound, gap, complete, ended, rounds, patterns, best_units, error; limit, limit_error, end."""
    X, y = task.X_train, task.y_train
    best = best_network(X, y, tol=TOLERANCE, max_rounds=40)
    assert best.network is not None
    network = ReLUNetwork(X.shape[1], settings["units"], seed=settings["seed"])
    descent = descend_to_limit(network, X, y, LossScaled(tolerance=0.01, max_steps=settings["max_steps"]))
    found = {
        **{"objective": best.objective, "lower_bound": best.lower_bound, "gap": best.gap, "complete": best.complete},
        **{"ended": best.end, "rounds": len(best.table), "patterns": int(best.table.patterns.iloc[-1])},
        **{"best_units": best.network.units[0], "error": network_error(best.network, (task.X_val, task.y_val))},
        **{"limit": norm_of(network, X, y), "end": descent.end},
        "limit_error": network_error(network, (task.X_val, task.y_val)),
    }
    return [found]


def cost(settings: Settings) -> float:
    """Columns, and a descent; the tree does not end for 60 images of MNIST."""
    wide = 60.0 if settings["dataset"] == "mnist" and settings["train_size"] > 40 else 0.0
    return 1.0 + (settings["train_size"] / 50) ** 3 + settings["max_steps"] * 2e-3 + wide


def draw(table: pd.DataFrame) -> Figure:
    """Against the samples: the ratio of descent's norm to the best, the units of the best network, and both errors."""
    found = table.assign(ratio=table.limit / table.objective)
    there = [name for name in DATASETS if name in set(table.dataset)]
    axes = panels(TITLE, columns=3, rows=len(there), size=(2.9, 2.5))
    descent, best = style("limit", "descent, cut off"), style("best network")
    shown = (
        ("norm / best network's", {"ratio": descent}),
        ("units of the best network", {"best_units": best}),
        ("error (%)", {"limit_error": descent, "error": best}),
    )
    for row, name in zip(axes, there, strict=True):
        part = found[found.dataset == name].set_index("train_size")
        for ax, (label, lines) in zip(row, shown, strict=True):
            for column, look in lines.items():
                trend(ax, part[column] * (100 if "error" in column else 1), **look)
            ax.set(xlabel="samples $n$", ylabel=label, ylim=(1.0 if column == "ratio" else 0.0, None))
            ax.set_title(DATASETS[name])
    return finished(axes, below=2)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Whether all are certified, and how near descent comes."""
    ratio = table.limit / table.objective
    ends = f"ratios from {span(ratio, '.3f')}"
    return [
        certified(table),
        decide(
            f"descent of {table.max_steps.max()} steps comes within 2 % of it in every cell",
            ends,
            ratio.max(skipna=False),
            "at most",
            NEAR,
        ),
    ]
