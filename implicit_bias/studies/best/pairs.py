"""Distance of descent, its limit and given gates to the best network on pairs of digits.

The data are 100 of the embedded digits with two labels, 65 inputs with the constant. Methods are those of `planar`:
descent makes 1000 steps at 0.1 and then continues towards its limit. The best network is found by column generation,
with dual norms bounded by branch and bound.
"""

from functools import partial

import pandas as pd

from implicit_bias.datasets import load_binary
from implicit_bias.extensions.best_networks import best_network
from implicit_bias.studies.best import methods
from implicit_bias.studies.runner import Rows, Settings, Verdict, product

TITLE = "How far from the best network: pairs of digits"
CLAIM = "On pairs of digits the best network can be certified, and descent that is wide enough ends there."
PAIRS = {"0-1": "0 and 1", "1-7": "1 and 7", "3-5": "3 and 5", "4-9": "4 and 9"}
REVISION = 2


def grid(quick: bool) -> list[Settings]:
    fixed = {"steps": (1000,), "max_steps": (10000,)}
    if quick:
        return product(data=("3-5",), n=(30,), units=([16],), **fixed | {"max_steps": (1000,)}, seed=(1,))
    return product(data=PAIRS, n=(100,), units=([16, 64],), **fixed, seed=(1, 2, 3))


def rows(settings: Settings) -> Rows:
    """Return the rows of `methods.beside`."""
    negative, positive = map(int, settings["data"].split("-"))
    task = load_binary("digits", settings["n"], settings["seed"], positive=[positive], negative=[negative])
    X, y, fresh = task.X_train, task.y_train, (task.X_val, task.y_val)
    return methods.beside(best_network(X, y, tol=methods.TOLERANCE), settings, X, y, fresh)


def cost(settings: Settings) -> float:
    return 12.0 + len(settings["units"]) * (settings["steps"] + settings["max_steps"]) * 1e-4


draw = partial(methods.draw, title=TITLE, names=PAIRS)


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    return [methods.certified(table), *methods.verdicts(table)]
