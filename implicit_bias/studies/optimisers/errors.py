"""Which optimiser's margin problem has the lowest error? Certified optima only, without training.

Gates are those of a gated linear network of ten units and two contexts. The five norms share draws and gates.
"""

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.datasets import BinaryTask
from implicit_bias.gates import HyperplaneGates
from implicit_bias.metrics import error
from implicit_bias.studies.optimisers import common
from implicit_bias.studies.optimisers.common import LABELS, NORMS
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, claims, finished, panels, product
from implicit_bias.studies.runner.mean_test import decided, difference, student_interval

TITLE = "Errors of the margin problems of optimisers"
CLAIM = "The margin problem of another optimiser has a lower error than that of gradient descent."
CLAIMS = claims("optimisers", "errors")
data = common.data


def grid(quick: bool) -> list[Settings]:
    """Return ten draws of digits with n = 500 and 1400, and of MNIST and Fashion-MNIST with 500; five with n = 2000.

    Quick: two draws of 200 digits.
    """
    if quick:
        return product(dataset=("digits",), train_size=(200,), units=(10,), seed=(1, 2))
    digits = product(dataset=("digits",), train_size=(500, 1400), units=(10,), seed=range(11, 21))
    images = {"dataset": ("mnist", "fashion-mnist"), "units": (10,)}
    few = product(**images, train_size=(500,), seed=range(11, 21))
    return [*digits, *few, *product(**images, train_size=(2000,), seed=range(11, 16))]


def rows(settings: Settings, task: BinaryTask) -> Rows:
    """Return a row for each norm: norm, error on the validation images, certified gap; none if no weights separate."""
    gates = HyperplaneGates(settings["units"], 2, seed=settings["seed"]).fit(task.X_pool)
    best, fresh = common.optima(task.X_train, task.y_train, gates), gates(task.X_val)
    return [
        {"norm": name, "error": error(fresh @ solution.weights, task.y_val), "gap": solution.gap}
        for name, (_, solution) in best.items()
    ]


def cost(settings: Settings) -> float:
    return 0.2 + 20 * (settings["train_size"] / 2000) ** 2 * (0.5 if settings["dataset"] == "digits" else 1.0)


def draw(table: pd.DataFrame) -> Figure:
    """Plot the mean difference of the error to that of GD, with 95 % intervals, a panel for each data set and size."""
    places = [*table.groupby(["dataset", "train_size"], sort=False)]
    axes = panels(TITLE, columns=len(places), size=(2.1, 2.6), sharey=True)
    others = [name for name in NORMS if name != "gd"]
    for ax, (where, part) in zip(axes[0], places, strict=True):
        errors = 100 * part.pivot(index="seed", columns="norm", values="error")
        for i, name in enumerate(others):
            values = errors[name] - errors.gd
            low, high = student_interval(values)
            ax.plot([low, high], [i, i], color=COLOURS["blue"], label="95 % interval" if i == 0 else None)
            ax.plot([values.mean()], [i], "o", markersize=4, color=COLOURS["blue"])
        ax.axvline(0.0, color="black", linewidth=0.6)
        ax.set_yticks(range(len(others)), [LABELS[name] for name in others])
        ax.set(xlabel="error − GD's (points)", title=f"{common.place(where)}: {errors.gd.mean():.1f} %")
    return finished(axes)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Decide for each data set, size and norm whether its error is below that of GD; Holm's method over all."""
    tests, names = [], []
    for where, part in table.groupby(["dataset", "train_size"], sort=False):
        errors = 100 * part.pivot(index="seed", columns="norm", values="error")
        for name in [name for name in NORMS if name != "gd"]:
            terms = pd.DataFrame({"gd": errors.gd, name: -errors[name]})
            tests.append(difference("", terms, split=True))
            names.append({"data": common.place(where), "norm": LABELS[name]})
    return [
        CLAIMS["lower"].verdict(verdict.found, verdict.holds, **places)
        for verdict, places in zip(decided(tests), names, strict=True)
    ]
