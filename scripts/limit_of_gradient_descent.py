"""Drive networks to the limit of gradient descent and hold it against the certified max-margin solution; see --help."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from implicit_bias.datasets import dataset_names
from implicit_bias.experiments.command import guarded
from implicit_bias.experiments.descent_to_limit import NETWORKS, LimitConfig, run


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        epilog="Ctrl-C ends the present descent and writes what there is.",
    )
    add = parser.add_argument
    add("--dataset", default=LimitConfig.dataset, help=f"one of {', '.join(dataset_names())}")
    add("--data-root", help="folder of the MNIST files; else IMPLICIT_BIAS_DATA, else data")
    add("--network", nargs="+", choices=NETWORKS, default=LimitConfig.network, help="one or several")
    add(
        "--units",
        type=int,
        default=LimitConfig.units,
        help="hidden units of a GLN's layer; a ReLU layer has twice as many",
    )
    add("--contexts", type=int, default=LimitConfig.contexts, help="contexts of a GLN's unit, a power of two")
    add("--seed", type=int, default=LimitConfig.seed, help="seed of gates, weights and batches")
    add("--train-size", type=int, default=LimitConfig.train_size, help="training samples n")
    add(
        "--start",
        choices=("trained", "initial"),
        default=LimitConfig.start,
        help="from published training, or from scratch",
    )
    add(
        "--tolerance",
        type=float,
        default=LimitConfig.tolerance,
        help="smoothing of the minimum margin at which a descent ends",
    )
    add("--lr", type=float, default=LimitConfig.lr, help="learning rate of the plain descent")
    add("--max-seconds", type=float, default=LimitConfig.max_seconds, help="longest time of each descent")
    add("--out", default="results/limit", help="folder for limit.csv, .json, .png and .pdf")
    options = parser.parse_args()
    torch.set_num_threads(1)
    values = vars(options) | {"network": tuple(options.network)}
    out = Path(values.pop("out"))
    return guarded(lambda: run(LimitConfig(**values), out))


if __name__ == "__main__":
    raise SystemExit(main())
