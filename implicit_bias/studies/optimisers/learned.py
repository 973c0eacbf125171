"""Learned gates: ReLU networks against the margin problems of their final gates.

ReLU networks descend by `SteepestDescent`. The margin problem of an optimiser with the gates that the network ends
with, SVM-LC in the case of GD, bounds N(θ)²/margin from below. It ignores that the weights of each unit must produce
these gates, so that the bound need not be reached. For GD the problem with these constraints is solved, too; for the
other norms it is not. No theorem says that a descent with learned gates converges to KKT points.
"""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.datasets import BinaryTask
from implicit_bias.extensions.best_networks.relu.network import bound_of
from implicit_bias.networks import ReLUNetwork
from implicit_bias.studies.best.methods import in_cones
from implicit_bias.studies.optimisers import common
from implicit_bias.studies.optimisers.common import OPTIMISERS, OWN
from implicit_bias.studies.runner import Rows, Settings, Verdict, claims, product, span
from implicit_bias.training.limit import descend_to_limit

TITLE = "ReLU networks against the margin problems of their final gates"
CLAIM = "With learned gates, each optimiser ends near the optimum of its final gates."
CLAIMS = claims("optimisers", "learned")
COORDINATES = ("dataset", "train_size", "seed")
#: Certified gap of the optimum in cones.
TOL = 1e-4
data = common.data


def grid(quick: bool) -> list[Settings]:
    """Return random data with n = 60 and digits with n = 100, three draws; quick: digits, one draw, fewer steps."""
    fixed: dict[str, Any] = {"units": (8,), "steps": (1000 if quick else 8000,)}
    if quick:
        return product(dataset=("digits",), train_size=(60,), seed=(1,), **fixed)
    sizes = (("random", 60), ("digits", 100))
    return [one for name, n in sizes for one in product(dataset=(name,), train_size=(n,), seed=(11, 12, 13), **fixed)]


def rows(settings: Settings, task: BinaryTask) -> Rows:
    """Return a row for each optimiser: method, norm, separated, and

    ratio: N(θ)² divided by margin and optimum of the final gates; NaN unless the network separates.
    to_gd … to_frobenius: ‖W‖ divided by margin and optimum of the final gates, in each norm; NaN likewise.
    cones: for GD, Σ‖ζ_h‖ divided by margin and optimum with the constraint that weights produce the gates.
    flips: gates of training samples that changed in the last half of the steps.
    error: on the validation samples.
    """
    X, y = task.X_train, task.y_train
    every: Rows = []
    for method in OPTIMISERS:
        network = ReLUNetwork(X.shape[1], settings["units"], seed=settings["seed"]).double()
        patterns: list[np.ndarray] = []

        def keep(current: Any, patterns: list[np.ndarray] = patterns) -> dict[str, float]:
            patterns.append(current.gates()(X).gate_values)
            return {}

        table = descend_to_limit(network, X, y, common.descent(method, settings["steps"]), measure=keep).table
        half = int(table.step.searchsorted(table.step.iloc[-1] / 2, side="right")) - 1
        margin = float(table.normalised_margin.iloc[-1])
        scores = network.decision_function(task.X_val)
        row = {"method": method, "norm": OWN[method], "separated": margin > 0}
        row |= {"flips": int((patterns[-1] != patterns[half]).sum())} | common.disagreements(scores, task, {})
        best = common.optima(X, y, network.gates()) if margin > 0 else {}
        row |= {"ratio": np.nan, "cones": np.nan} | {f"to_{norm}": np.nan for norm in common.NORMS}
        if best:
            row["ratio"] = 1 / (margin * best[OWN[method]][1].lower_bound)
            row |= common.distances(network.effective_weights(), best)
        if best and method == "GD" and (inside := in_cones(network, X, y, TOL)) is not None:
            row["cones"] = bound_of(network, X, y)[0] / bound_of(inside, X, y)[0]
        every.append(row)
    return every


def cost(settings: Settings) -> float:
    return len(OPTIMISERS) * (0.3 + settings["steps"] * 5e-4)


def draw(table: pd.DataFrame) -> Figure:
    """Plot `ratio` of each optimiser, and for GD the ratio in cones; points are draws that separate."""
    columns = {"ratio": "final gates", "cones": "with their constraints"}
    return common.strips(table, table.method, columns, TITLE, common.RATIO)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """Decide for each optimiser on the ratios, and for all together on the gates that change."""
    reached, decided = CLAIMS["near"].limits["reached"], []
    ended = table[table.separated & table.ratio.notna()]
    for name in OPTIMISERS:
        every, separated = (part[part.method == name] for part in (table, ended))
        text = f"{len(separated)} of {len(every)} separate"
        text += f"; ratios {span(separated.ratio, '.3f')}" if len(separated) else ""
        text += f"; in cones {span(separated.cones, '.3f')}" if separated.cones.notna().any() else ""
        holds = bool((separated.ratio <= reached).all()) if len(separated) else None
        decided.append(CLAIMS["near"].verdict(text, holds, optimiser=name))
    text = f"{int((ended.flips == 0).sum())} of {len(ended)} draws without changes; up to {ended.flips.max():.0f} gates"
    return [*decided, CLAIMS["settled"].verdict(text, bool((ended.flips == 0).all()) if len(ended) else None)]
