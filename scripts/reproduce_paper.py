"""Reproduce the paper's figures 2 to 5, as published and corrected, every cell certified; see --help."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from implicit_bias.checks import InputError
from implicit_bias.experiments.command import add_engine, add_versions, guarded, watched
from implicit_bias.experiments.findings import findings
from implicit_bias.experiments.paper import chosen, plan
from implicit_bias.experiments.report import load_results, save_results, write_report
from implicit_bias.experiments.study import VERSIONS
from implicit_bias.files import require_writable


def run(options: argparse.Namespace) -> int:
    figures = chosen(options.figure)
    if options.redraw:
        if options.quick or options.scheduler:
            raise InputError("--redraw computes nothing, so --quick and --scheduler do not go with it")
        out = require_writable(options.out or "results/redrawn")
        table, record = load_results(options.redraw)
        return show(table[table.version.isin(options.versions)], record, out, figures)
    steps = plan(
        figures, quick=options.quick, dataset=options.dataset, data_root=options.data_root, versions=options.versions
    )
    out = Path(options.out or "results/paper")
    result = watched(steps, out, options.engine, options.jobs, options.scheduler)
    if result.table.empty:
        raise KeyboardInterrupt
    save_results(result.table, result.record, out)
    return show(*load_results(out), out, figures)


def show(table: pd.DataFrame, record: dict[str, Any], out: Path, figures: Sequence[str]) -> int:
    for finding in findings(table):
        print(f"{finding.question}\n    {finding.answer}")
    for path in write_report(table, record, out, figures):
        print(f"wrote {path}")
    return 130 if record["missing"] else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    add = parser.add_argument
    add("--figure", default="all", help="2, 3, 4, 5 or all")
    add("--quick", action="store_true", help="a part of every figure, in a few minutes")
    add("--dataset", default="mnist", help="mnist as published, or another data set")
    add("--data-root", help="folder of the MNIST files; else IMPLICIT_BIAS_DATA, else data")
    add(
        "--redraw", metavar="FOLDER", help="compute nothing: figures and report from an earlier run, such as data/paper"
    )
    add_versions(parser, VERSIONS)
    add_engine(parser)
    add("--out", help="folder for cells, table, figures and report; else results/paper, for --redraw results/redrawn")
    options = parser.parse_args()
    return guarded(lambda: run(options))


if __name__ == "__main__":
    raise SystemExit(main())
