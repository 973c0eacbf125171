"""Reproduce the paper's figures 2 to 5, as published and corrected, every cell certified; see --help."""

from __future__ import annotations

import argparse
from pathlib import Path

from implicit_bias.experiments.command import add_engine, add_versions, guarded, watched
from implicit_bias.experiments.paper import chosen, plan
from implicit_bias.experiments.study import VERSIONS


def run(options: argparse.Namespace) -> int:
    figures = chosen(options.figure)
    steps = plan(
        figures, quick=options.quick, dataset=options.dataset, data_root=options.data_root, versions=options.versions
    )
    out = Path(options.out)
    result = watched(steps, out, options.engine, options.jobs, options.scheduler)
    result.table.to_csv(out / "paper.csv", index=False)
    return 130 if result.missing else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--figure", default="all", help="2, 3, 4, 5 or all")
    add("--quick", action="store_true", help="a part of every figure, in a few minutes")
    add("--dataset", default="mnist", help="mnist as published, or another data set")
    add("--data-root", help="folder of the MNIST files; else IMPLICIT_BIAS_DATA, else data")
    add_versions(parser, VERSIONS)
    add_engine(parser)
    add("--out", default="results/paper", help="folder for cells, table, figures and report")
    options = parser.parse_args()
    return guarded(lambda: run(options))


if __name__ == "__main__":
    raise SystemExit(main())
