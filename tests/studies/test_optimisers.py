"""The study of optimisers: undecided paths, certified minima of the loss, copies of units, and small real runs."""

import numpy as np
import pandas as pd
import pytest

from implicit_bias.gates import HyperplaneGates
from implicit_bias.studies.optimisers import batches, common, width

TASK = common.data({"dataset": "random", "train_size": 20, "seed": 3}, None)
GATES = HyperplaneGates(3, 2, seed=3).fit(TASK.X_pool)
BEST = common.optima(TASK.X_train, TASK.y_train, GATES)


@pytest.mark.parametrize(
    ("rows", "holds"),
    [
        # N(θ)²'s ratio, that of the weights to their own optimum, and that to GD's.
        ([(1.05, 1.04, 1.2)], True),
        ([(1.05, 1.04, 1.2), (1.05, 1.04, 1.03)], False),
        ([(1.24, 1.23, 1.16)], None),
        ([(1.05, 1.04, 1.2), (1.24, 1.23, 1.16)], True),
        ([(np.inf, np.inf, np.inf)], None),
    ],
)
def test_paths_that_are_not_at_their_limit_decide_nothing(rows, holds):
    table = pd.DataFrame(rows, columns=["ratio", "to_sign", "to_gd"]).assign(dataset="digits", train_size=9)
    path = table.assign(wins=common.nearest(table) == "sign")
    assert common.winners(path, common.REACHED)[1] is holds


def test_optima_are_certified_and_nearest_to_themselves():
    for name, (problem, solution) in BEST.items():
        found = common.distances(solution.weights, BEST)
        assert min(found, key=found.get) == f"to_{name}"
        assert 1 <= found[f"to_{name}"] <= 1 + 2 * common.TOL
        assert problem.norm.gates == 6


def test_rates_do_not_depend_on_the_batch():
    """At the end of an epoch, the rate is that of full batches after as many steps."""
    settings = {"steps": 1200, "train_size": 60}
    full, part = (batches._config("sign", batch, settings) for batch in (60, 6))
    assert [*part.rates(100)][-1] == pytest.approx([*full.rates(1000)][-1])


def test_copies_share_the_gates_and_their_weights_add_up():
    task = common.data({"dataset": "digits", "train_size": 20, "seed": 3}, None)
    settings = {"copies": "1 3", "steps": 20, "searches": 2000, "seed": 3}
    found = pd.DataFrame(width.rows(settings, task)).query("kind == 'search'").set_index("norm")
    assert found.ratio.max() <= 1.006
    # Four neurons halve the norm that two neurons need, or more.
    assert found.unweighted.loc[["sign", "muon-sign"]].max() < 0.95
    assert found.unweighted.loc[["gd", "muon"]].tolist() == pytest.approx(found.ratio.loc[["gd", "muon"]].tolist())
    assert found.optima_moved.loc[["gd", "muon"]].max() == 0
