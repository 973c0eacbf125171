"""The comparison of the paper on all of the data, from 500 to 48 000 samples."""

from typing import Any

from implicit_bias.studies.collection import Collection, Option

#: Networks that are trained, by their names in the limit study.
NETWORKS = {
    "gln": "GD-GLN, a GLN with one gated layer of H units, two contexts each",
    "learned-relu": "GD-ReLU, a ReLU network of 2H units",
    "retrained-relu": "GD-FReLU, initial weights behind the frozen gates of the trained ReLU network",
}
#: Names of the trained models in tables and figures.
MODELS = {name: text.partition(",")[0] for name, text in NETWORKS.items()}
#: Coordinates of a cell, with all values. A network is measured after the published training ("sgd"), and at the end
#: of the descent that follows ("limit").
GRID: dict[str, tuple[Any, ...]] = {
    "dataset": ("mnist", "fashion-mnist"),
    "train_size": (500, 2000, 8000, 24_000, 48_000),
    "seed": (1, 2, 3),
    "units": (10, 50, 100),
    "network": tuple(NETWORKS),
    "descent": ("sgd", "limit"),
}
TEXT = (
    "The paper's comparison on up to 48 000 images: networks after the published training, and driven on towards\n"
    "their limit, against their margin problems. The whole study takes days; --list prints the cost of each size.\n"
    "Options that list values choose the cells to compute; figures and findings are of all stored cells.\n\n"
    "networks:\n" + "\n".join(f"  {name:16s}{text}" for name, text in NETWORKS.items())
)
EXAMPLES = (
    ("--list", "compute nothing: cells, and hours of one core, for each size"),
    ("--train-size 500 2000 --units 10", "the cheapest cells, twenty minutes of one core"),
    ("--extend data/scale --train-size 48000", "cells of this size that the committed table lacks"),
    ("--redraw data/scale", "figures and findings of the committed table, in seconds"),
)
OPTIONS = {
    "dataset": Option(GRID["dataset"], "data sets", GRID["dataset"]),
    "train_size": Option(GRID["train_size"], "training samples n"),
    "seeds": Option(GRID["seed"], "seeds of the split, gates, weights and batches"),
    "units": Option(GRID["units"], "units H of a GLN's layer; a ReLU layer has twice as many"),
    "network": Option(GRID["network"], "one or several of those above", GRID["network"]),
    "descents": Option(
        GRID["descent"],
        "after the published training (sgd), and where descent from there ends (limit)",
        GRID["descent"],
    ),
    "max_seconds": Option(36_000.0, "time after which each descent is cut off"),
}
COLLECTION = Collection(
    "scale", "ours", ("scale",), images=True, text=TEXT, examples=EXAMPLES, options=OPTIONS, gathers=True
)
