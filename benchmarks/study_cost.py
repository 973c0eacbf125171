"""Study of the default C and number of units of GLNClassifier and GatedReLUClassifier on twelve tables; see --help.

n = 100 (ten splits), 1000 (three) and 3000 (one) samples train, up to 70 % of a table's; at most 5000 others test.
Inputs are standardised. C is κ/s, as for C="scale" (κ = 4.6), or κ/n, with seven κ each and two numbers of units. The
regret of a choice on a table is the best of all mean accuracies minus its own, averaged over n. --store keeps finished
cells.

Settled before it was run: a default has a regret of at most a point on nine of the twelve tables. "left out" is the κ
that has the least mean regret over the other eleven tables. Unlike κ/s, κ/n changes the model if inputs are rescaled.
"""

import argparse
import warnings
from collections.abc import Iterator
from functools import partial
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from common import Store, run, timed
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tables import TABLES, available, table
from tqdm import tqdm

from implicit_bias import GatedReLUClassifier, GLNClassifier
from implicit_bias.estimators import base

SPLITS = {100: 10, 1000: 3, 3000: 1}
KINDS: dict[str, Any] = {"GLN": (GLNClassifier, (30, 100)), "gated ReLU": (GatedReLUClassifier, (60, 200))}
KAPPAS = {"κ/s": [1.0, 2.2, 4.6, 10.0, 22.0, 46.0, 100.0], "κ/n": [10.0, 22.0, 46.0, 100.0, 220.0, 460.0, 1000.0]}


def measure(data: str, n: int, split: int, kind: str, units: int) -> dict[str, Any]:
    """Return accuracies (0 to 1) and CPU seconds of the fits for every κ, by the formula of C."""
    X, y = table(data)
    sizes = {"train_size": n, "test_size": min(5000, len(X) - n)}
    X_fit, X_test, y_fit, y_test = train_test_split(X, y, stratify=y, random_state=split, **sizes)
    cells: dict[str, Any] = {name: {formula: [] for formula in KAPPAS} for name in ("accuracy", "seconds")}
    for formula, kappas in KAPPAS.items():
        for kappa in kappas:
            C = "scale" if formula == "κ/s" else kappa / n
            model = KINDS[kind][0](units=units, C=C, tol=1e-4, max_seconds=10.0, random_state=split)
            pipeline = make_pipeline(StandardScaler(), model)
            with patch.object(base, "COST_SCALE", kappa), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seconds, _ = timed(partial(pipeline.fit, X_fit, y_fit))
            cells["seconds"][formula].append(seconds)
            cells["accuracy"][formula].append(float(pipeline.score(X_test, y_test)))
    return {"data": data, "n": n, "split": split, "kind": kind, "units": units} | cells


def regrets(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the regrets in points, a row for each formula, units and κ, a column for each table."""
    cells: Any = rows.to_dict("records")
    long = pd.concat(
        pd.DataFrame({"C": formula, "kappa": kappas, "score": 100 * np.array(cell["accuracy"][formula])}).assign(
            **{name: cell[name] for name in ("units", "data", "n")}
        )
        for cell in cells
        for formula, kappas in KAPPAS.items()
    )
    means = long.groupby(["C", "units", "kappa", "data", "n"]).score.mean().unstack(["data", "n"])
    return (means.max() - means).T.groupby("data").mean().T


def report(options: argparse.Namespace) -> Iterator[Any]:
    store = Store(options.store)
    keys = [
        {"data": name, "n": n, "split": split, "kind": kind, "units": units}
        for (n, splits), name in product(SPLITS.items(), [name for name in available() if name in options.data])
        for split, kind in product(range(splits if n <= 0.7 * len(table(name)[0]) else 0), KINDS)
        for units in KINDS[kind][1]
    ]
    frame = pd.DataFrame([store.find(key) or store.add(measure(**key)) for key in tqdm(keys)])
    for kind, rows in frame.groupby("kind"):
        found, lines = regrets(rows), []
        for (formula, units), some in found.groupby(["C", "units"]):
            others: Any = {name: some.drop(columns=name).mean(axis=1).fillna(0.0).idxmin() for name in some}
            left = pd.Series({name: some.loc[chosen, name] for name, chosen in others.items()})
            for kappa, regret in [*some.droplevel(["C", "units"]).iterrows(), ("left out", left)]:
                cells = {"C": formula, "units": str(units), "κ": str(kappa), "mean regret": f"{regret.mean():.2f}"}
                cells["tables within a point"] = f"{(regret <= 1).sum()} of {len(regret)}"
                lines.append(cells | {"worst": f"{regret.max():.1f} ({regret.idxmax()})"})
        yield f"## {kind}"
        yield lines
        times = rows[rows.n == 3000].seconds.map(lambda cell: cell["κ/s"][2]).groupby(rows.units).sum()
        yield f"CPU seconds of C = 4.6/s, all tables with n = 3000, by units: {times.round(1).to_dict()}"


if __name__ == "__main__":
    run(
        __doc__,
        report,
        data=(list(TABLES)[:12], "tables", list(TABLES)),
        store=("results/cost.jsonl", "finished cells"),
    )
