"""The best network on images, with too many activation patterns to list, and the distance of other methods to it.

The embedded digits and MNIST, 0 to 4 against 5 to 9, have 65 and 785 inputs with the constant. Column generation
bounds dual norms by branch and bound. A ReLU network of 64 units starts from Kaiming's initialisation and is trained
for 1000 steps at 0.1, then descends towards its limit.
"""

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.datasets import BinaryTask
from implicit_bias.extensions.best_networks import best_network
from implicit_bias.studies.best import methods
from implicit_bias.studies.runner import Rows, Settings, Verdict, finished, panels, product
from implicit_bias.studies.runner.cells import binary_task
from implicit_bias.studies.runner.drawing import DATASETS, log_ticks, style, trend

TITLE = "The best network on images"
CLAIM = "The best network can be certified on images, too, and descent comes near it."
REVISION = 4
data = binary_task


def grid(quick: bool) -> list[Settings]:
    fixed = {"split": ("own",), "units": ([64],), "steps": (1000,), "max_steps": (10_000,)}
    if quick:
        few = fixed | {"max_steps": (1000,), "rounds": (60,), "nodes": (100,), "train_size": (20,)}
        return product(dataset=("digits",), **few, seed=(1,))
    fixed |= {"rounds": (60,), "nodes": (2000,)}
    return product(dataset=("digits", "mnist"), **fixed, train_size=(20, 40, 60, 100), seed=(1, 2, 3))


def rows(settings: Settings, task: BinaryTask) -> Rows:
    """Return the rows of `methods.beside`."""
    X, y = task.X_train, task.y_train
    best = best_network(X, y, tol=methods.TOLERANCE, max_rounds=settings["rounds"], nodes=settings["nodes"])
    return methods.beside(best, settings, X, y, (task.X_val, task.y_val))


def cost(settings: Settings) -> float:
    return 5.0 + settings["train_size"] ** 2 / 100 + settings["max_steps"] * settings["train_size"] * 2e-5


def draw(table: pd.DataFrame) -> Figure:
    compared = methods.ratios(table)
    there = [name for name in DATASETS if name in set(table.dataset)]
    axes = panels(TITLE, columns=3, rows=len(there), size=(2.9, 2.6))
    for row, name in zip(axes, there, strict=True):
        part = compared[compared.dataset == name]
        best = part[part.method == "best"].set_index("train_size")
        for method, look in methods.METHODS.items():
            subset = part[part.method == method].set_index("train_size")
            trend(row[0], subset.ratio, **look)
            trend(row[2], 100 * subset.error, **look)
        row[0].axhline(1.0, color="black", linewidth=0.8)
        trend(row[1], best.best_units, **style("best network"))
        trend(row[2], 100 * best.error, **style("best network"))
        shown = ("norm / best network's", "units of the best network", "error (%)")
        for ax, label in zip(row, shown, strict=True):
            ax.set(xlabel="samples $n$", ylabel=label, title=DATASETS[name])
            log_ticks(ax, part.train_size)
        row[1].set_ylim(bottom=0)
    return finished(axes, below=3)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    return [methods.certified(table), *methods.verdicts(table.assign(data=table.dataset))]
