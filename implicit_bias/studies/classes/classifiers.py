"""All classes at once, or each against the rest: which has the lower error, and which takes longer?

`GLNClassifier` of H units on digits and MNIST, for every value of C: 'ovr' (ten problems, with free intercepts),
'joint' (one problem without free intercepts, separate units for each output) and, on the digits, 'shared' (one problem,
all outputs share the units). C is chosen by the error on held-out images; the reported error is that on the test part.
Times are CPU seconds.
"""

import time
import warnings

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.datasets.images import ImageClasses
from implicit_bias.estimators import GLNClassifier
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, decide, finished, panels, product
from implicit_bias.studies.runner.cells import drawn_images, image_classes
from implicit_bias.studies.runner.drawing import DATASETS

TITLE = "Ten classes at once, or each against the rest"
CLAIM = "One problem of all classes errs no more than one problem for each, and takes no longer."
METHODS = {
    "ovr": {"color": COLOURS["orange"], "marker": "o", "label": "each against the rest"},
    "joint": {"color": COLOURS["blue"], "marker": "s", "label": "at once, units of their own"},
    "shared": {"color": COLOURS["green"], "marker": "^", "label": "at once, shared units (one seed)"},
}
#: Certified gap required. Since revision 2, with shared units, too; since 3, negligible weights are zero.
TOL = 1e-3
REVISION = 3
#: Percentage points by which errors may differ.
ALIKE = 0.5
data = image_classes


def grid(quick: bool) -> list[Settings]:
    if quick:
        fixed = {"dataset": ("digits",), "held_out": (200,), "units": (5,), "C": ([0.03, 0.3],), "seed": (1,)}
        return product(**fixed, train_size=(200,), method=(["ovr", "joint"],))
    both = {"units": (10,), "C": ([0.01, 0.03, 0.1, 0.3],)}
    mnist = both | {"dataset": ("mnist",), "held_out": (5000,), "train_size": (1000, 5000)}
    digits = both | {"dataset": ("digits",), "held_out": (300,), "train_size": (300,)}
    few = ["ovr", "joint"]
    return [
        *product(**digits, method=([*METHODS],), seed=(1,)),
        *product(**digits, method=(few,), seed=(2, 3)),
        *product(**mnist, method=(few,), seed=(1,)),
    ]


def rows(settings: Settings, images: ImageClasses) -> Rows:
    """Return rows of method and C: held-out and test error, largest `gap`, number of support vectors, CPU seconds."""
    X, y = drawn_images(settings, images)
    table: Rows = []
    for method in settings["method"]:
        for C in settings["C"]:
            options = {"tol": TOL, "multi_class": method}
            # The images have their constant input.
            fixed = {"cutoff": "median", "fit_intercept": False, "random_state": settings["seed"]}
            model = GLNClassifier(settings["units"], C=C, **fixed, **options)
            begin = time.process_time()
            with warnings.catch_warnings():
                # If C is small, some classes have no weights, which the error shows.
                warnings.simplefilter("ignore", UserWarning)
                model.fit(X, y)
            seconds = time.process_time() - begin
            certificates = model.certificate_ if isinstance(model.certificate_, list) else [model.certificate_]
            held_out = 1 - model.score(images.X_held_out, images.y_held_out)
            row = {"method": method, "C": C, "held_out_error": held_out}
            row |= {"error": 1 - model.score(images.X_test, images.y_test), "gap": max(c.gap for c in certificates)}
            table.append(row | {"support": len(model.support_), "cpu_seconds": seconds})
    return table


def cost(settings: Settings) -> float:
    each = {"ovr": 1.0, "joint": 1.0, "shared": 20.0}
    return len(settings["C"]) * sum(each[m] for m in settings["method"]) * (settings["train_size"] / 1000) ** 1.5 * 4


def chosen(table: pd.DataFrame) -> pd.DataFrame:
    """Return, for each cell and method, the row of the C with the least held-out error; `cpu_seconds` covers all C.

    >>> table = pd.DataFrame({"dataset": "digits", "train_size": 9, "seed": 1, "method": "ovr", "C": [1.0, 2.0],
    ...                       "held_out_error": [0.2, 0.1], "error": [0.3, 0.2], "cpu_seconds": [1.0, 2.0]})
    >>> chosen(table)[["C", "error", "cpu_seconds"]].values.tolist()
    [[2.0, 0.2, 3.0]]
    """
    keys = ["dataset", "train_size", "seed", "method"]
    best = table.sort_values(["held_out_error", "C"]).groupby(keys, as_index=False).first()
    seconds = table.groupby(keys, as_index=False).cpu_seconds.sum()
    return best.drop(columns="cpu_seconds").merge(seconds, on=keys)


def draw(table: pd.DataFrame) -> Figure:
    there = [(name, n) for name in DATASETS for n in sorted(set(table[table.dataset == name].train_size))]
    axes = panels(TITLE, columns=len(there), size=(2.9, 2.8))
    for ax, (name, n) in zip(axes[0], there, strict=True):
        part = table[(table.dataset == name) & (table.train_size == n)]
        for method, look in METHODS.items():
            ax.plot(100 * part[part.method == method].groupby("C").error.mean(), markersize=4, linewidth=1.2, **look)
        ax.set(xscale="log", xlabel="$C$", ylabel="test error (%)", title=f"{DATASETS[name]}, $n$ = {n}")
        ax.set_ylim(0, 1.1 * ax.get_ylim()[1])
    return finished(axes, below=2)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Decide on 'joint' against 'ovr': errors at the `chosen` C, CPU seconds over all C; and on all gaps."""
    best = chosen(table).pivot_table(index=["dataset", "train_size"], columns="method", values=["error", "cpu_seconds"])
    more, slower = 100 * (best.error.joint - best.error.ovr), best.cpu_seconds.joint / best.cpu_seconds.ovr
    places = [f"{DATASETS[name]} {n}" for name, n in best.index]
    errors = [
        f"{place}: {100 * a:.1f} % against {100 * b:.1f} %"
        for place, a, b in zip(places, best.error.joint, best.error.ovr, strict=True)
    ]
    ratios = [f"{place}: {ratio:.2f}" for place, ratio in zip(places, slower, strict=True)]
    gap = float(table.gap.max() / TOL)
    return [
        decide(
            "one problem has at most half a point more error", "; ".join(errors), float(more.max()), "at most", ALIKE
        ),
        decide(
            "one problem takes no more CPU time", "ratios " + "; ".join(ratios), float(slower.max()), "at most", 1.0
        ),
        decide("every answer is certified", f"gaps up to {gap:.2f} of what was asked", gap, "at most", 1.0),
    ]
