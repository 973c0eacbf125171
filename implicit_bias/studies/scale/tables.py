"""Errors and inconsistencies at every size, as tables of a page."""

import pandas as pd

from implicit_bias.studies.runner.verdicts import markdown, percent, where
from implicit_bias.studies.scale.config import MODELS
from implicit_bias.studies.scale.verdicts import Quantity


def _columns(networks: tuple[str, ...], problem: str, others: tuple[str, ...]) -> dict[str, tuple[Quantity, ...]]:
    first = networks[0]
    errors: dict[str, tuple[Quantity, ...]] = {
        MODELS[one]: tuple((one, when, MODELS[one], "error") for when in ("sgd", "limit")) for one in networks
    }
    errors |= {model: ((first, "sgd", model, "error"),) for model in (problem, *others)}
    return errors | {
        f"{MODELS[one]}, {problem}": tuple((one, when, problem, "inconsistency") for when in ("sgd", "limit"))
        for one in networks
    }


#: The tables of a data set: their columns, by name.
TABLES = {
    "Gated linear networks": _columns(("gln",), "SVM-GLN", ("SVM-L2", "SVM-Fro")),
    "ReLU networks": _columns(("learned-relu", "retrained-relu"), "SVM-LC", ("SVM-RC", "SVM-HL")),
}


def tables(table: pd.DataFrame) -> str:
    """A table for the networks of each kind on each data set, a row for each n and H.

    >>> place = {"dataset": "digits", "train_size": 9, "units": 3, "network": "gln", "descent": "sgd", "seed": 1}
    >>> print(tables(pd.DataFrame([place | {"model": "SVM-GLN", "error": 0.1, "inconsistency": 0.2}])).splitlines()[-1])
    | 9, 3 | – | 10.00 | – | – | 20.00 |
    """
    parts = [
        "### At every size\n\nErrors of models, and how often two of them differ, in percent of the held-out samples: "
        "means over the splits, with their number where it is not that of all. A network's first number is that after "
        "training, its second that where descent from there ended, whatever its ratio."
    ]
    for dataset, part in table.groupby("dataset", sort=False):
        for name, columns in TABLES.items():
            rows = _rows(part, columns, part.seed.nunique())
            parts += [f"#### {name}, {dataset}\n\n" + markdown([["n, H", *columns], *rows])] if rows else []
    return "\n\n".join(parts)


def _rows(table: pd.DataFrame, columns: dict[str, tuple[Quantity, ...]], seeds: int) -> list[list[str]]:
    own = table[table.network.isin({network for terms in columns.values() for network, *_ in terms})]
    found = []
    for (n, units), part in own.groupby(["train_size", "units"]):
        means = ([_mean(part, one, seeds) for one in terms] for terms in columns.values())
        found.append([f"{n}, {units}", *(", ".join(filter(None, both)) or "–" for both in means)])
    return found


def _mean(table: pd.DataFrame, quantity: Quantity, seeds: int) -> str:
    network, descent, model, column = quantity
    values = where(table, network=network, descent=descent, model=model)[column].dropna()
    fewer = f" ({len(values)})" if len(values) < seeds else ""
    return percent(values) + fewer if len(values) else ""
