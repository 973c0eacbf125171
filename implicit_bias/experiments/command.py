"""The comparison scripts' common command line: parse a configuration, run a study, write table, record and figure."""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from implicit_bias.checks import InputError, one_of
from implicit_bias.comparison import summarise
from implicit_bias.datasets import dataset_names
from implicit_bias.experiments.engines import ENGINES
from implicit_bias.experiments.store import Job, Store, jobs_of
from implicit_bias.experiments.study import VERSIONS, Config, Study
from implicit_bias.experiments.sweep import Run, run
from implicit_bias.files import require_writable, write_atomically
from implicit_bias.plots import comparison_figure, drawn
from implicit_bias.solvers import Status, solver_names


def guarded(action: Callable[[], int]) -> int:
    """Run a script's work; bad input becomes one sentence on standard error and exit code 2, a warning one sentence."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: tqdm.write(f"warning: {message}", sys.stderr)
            return action()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except MemoryError:
        print("error: out of memory; ask for fewer samples, units or contexts, or fewer --jobs", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: nothing was finished", file=sys.stderr)
        return 130


def main(study: Study, arguments: Sequence[str] | None = None) -> int:
    """The whole of a comparison script; returns its exit code."""
    options = vars(_parser(study).parse_args(arguments))
    out = Path(options.pop("out") or f"results/{study.name}")
    where = (options.pop("engine"), options.pop("jobs"), options.pop("scheduler"))
    return guarded(lambda: _compare(study, Config(**options), out, *where))


def _compare(study: Study, config: Config, out: Path, engine: str, jobs: int, scheduler: str | None) -> int:
    result = watched([(study, config)], out, engine, jobs, scheduler)
    if result.table.empty:
        raise KeyboardInterrupt
    print(readable(result.table))
    for path in write_results(study, result, out):
        print(f"wrote {path}")
    return 130 if result.missing else 0


def watched(
    plan: Sequence[tuple[Study, Config]], out: Path, engine: str = "local", jobs: int = 1, scheduler: str | None = None
) -> Run:
    """Run a plan with its cells stored in `out`/cells, and a bar with the time left.

    Raises InputError for an unknown engine, an unreachable scheduler and an unwritable folder, before any work.
    """
    chosen = ENGINES[one_of(engine, ENGINES, "engine")](jobs, scheduler)
    require_writable(out)
    work = [job for study, config in plan for job in jobs_of(study, config)]
    with tqdm(
        total=(1 + 1e-9) * sum(job.cost for job in work),
        bar_format="{desc} {percentage:3.0f}% |{bar}| {elapsed} passed, {remaining} left{postfix}",
    ) as bar:
        done = stored = 0

        def show(job: Job, was_stored: bool) -> None:
            nonlocal done, stored
            done, stored = done + 1, stored + was_stored
            bar.set_description_str(f"{done} of {len(work)} cells", refresh=False)
            if was_stored:
                # Counted as done, but not towards the speed from which the time left follows.
                bar.initial += job.cost
                bar.n += job.cost
                bar.set_postfix_str(f"{stored} stored earlier")
            else:
                bar.set_postfix_str(str(job), refresh=False)
                bar.update(job.cost)

        result = run(plan, chosen, Store(out / "cells"), show)
    if result.missing:
        print(f"interrupted: {done} of {len(work)} cells are stored in {out / 'cells'}; run again to go on",
              file=sys.stderr)  # fmt: skip
    return result


def readable(table: pd.DataFrame) -> str:
    """The table's means and standard deviations over seeds, and what did not come out OPTIMAL, as text."""
    rows = []
    for row in summarise(table).to_dict("records"):
        solved = row["certified"] if not str(row["model"]).startswith("GD-") else "–"
        rows.append(
            {
                "n": row["train_size"],
                "units": row["units"],
                "contexts": row["contexts"],
                "momentum": row["momentum"],
                **({"version": row["version"]} if table.version.nunique() > 1 else {}),
                "model": row["model"],
                "seeds": row["seeds"],
                "certified": solved,
                "error %": _percent(row, "error"),
                "inconsistency %": _percent(row, "inconsistency"),
                "by chance %": _percent(row, "expected_inconsistency"),
                "seconds": f"{row['seconds_mean']:.2f}",
            }
        )
    text = pd.DataFrame(rows).to_string(index=False)
    failed = table[~table.status.isin(["OPTIMAL", "TRAINED"])]
    counts = failed[["model", "status"]].value_counts(sort=False)
    notes = [f"{n} × {model}: {Status[status].value}" for (model, status), n in zip(counts.index, counts, strict=True)]
    return "\n".join([text, "mean ± standard deviation over seeds", *notes])


def _percent(row: dict[Any, Any], name: str) -> str:
    mean, spread = row[f"{name}_mean"], row[f"{name}_std"]
    if pd.isna(mean):
        return "–"
    return f"{100 * mean:.2f}" + ("" if pd.isna(spread) else f" ± {100 * spread:.2f}")


def write_results(study: Study, result: Run, out: Path) -> list[Path]:
    """Write `comparison.csv`, `comparison.json` (how it was made) and `comparison.png` and `.pdf` into `out`.

    The figure of the published version, if there are both, is `comparison_published.png` and `.pdf`.
    """
    width = "contexts" if result.table.contexts.nunique() > result.table.units.nunique() else "units"
    contents = {
        "comparison.csv": result.table.to_csv(index=False).encode(),
        "comparison.json": json.dumps(result.record, indent=2).encode(),
    }
    for number, version in enumerate(result.table.version.unique()):
        title = f"{study.title} ({result.table.dataset[0]}{', as published' if version == 'published' else ''})"
        figure = comparison_figure(result.table[result.table.version == version], study.reference, title, width)
        name = "comparison" if number == 0 else f"comparison_{version}"
        contents |= {f"{name}.{kind}": drawn(figure, kind) for kind in ("png", "pdf")}
    return [write_atomically(out / name, content) for name, content in contents.items()]


def _cutoff(text: str) -> Any:
    if text in ("median", "random"):
        return text
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError("give median, random, a number, or two quantile levels as 0.25,0.75") from None
    return values[0] if len(values) == 1 else values


def _listed(kind: Callable[[str], Any]) -> type[argparse.Action]:
    """An action that reads a list of values separated by spaces or commas into a tuple."""

    class Listed(argparse.Action):
        def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
            try:
                parsed = tuple(kind(part) for text in values for part in text.split(",") if part)
            except ValueError:
                parser.error(f"argument {option}: {' '.join(values)!r} is not a list of {kind.__name__} values")
            setattr(namespace, self.dest, parsed)

    return Listed


def _parser(study: Study) -> argparse.ArgumentParser:
    defaults = study.defaults
    parser = argparse.ArgumentParser(
        description=f"{study.title}. Lists take several values: --seeds 1 2 3.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument

    def add_list(name: str, kind: Callable[[str], Any], text: str) -> None:
        default = getattr(defaults, name.strip("-").replace("-", "_"))
        add(name, nargs="+", action=_listed(kind), default=default, help=text, metavar=kind.__name__.upper())

    add("--dataset", default=defaults.dataset, help=f"one of {', '.join(dataset_names())}")
    add("--data-root", help="folder of the MNIST files; else IMPLICIT_BIAS_DATA, else data")
    add_list("--train-size", int, "training samples n")
    add_list("--units", int, "hidden units H")
    add_list("--contexts", int, "contexts a unit, powers of two")
    add_list("--seeds", int, "seeds of gates, weights and batches")
    add_list("--momentum", float, "momentum of gradient descent")
    add("--cutoff", type=_cutoff, default=defaults.cutoff, help="median, random, a number, or two quantile levels")
    add_versions(parser, ("corrected",))
    add("--solver", help=f"one of {', '.join(solver_names())}; else the default of solve()")
    add("--tol", type=float, default=defaults.tol, help="relative gap asked of the solver")
    add("--steps", type=int, default=defaults.steps, help="steps of gradient descent")
    add_engine(parser)
    add("--out", help=f"folder for the table and the figure; else results/{study.name}")
    return parser


def add_versions(parser: argparse.ArgumentParser, default: tuple[str, ...]) -> None:
    """Options --corrected, --as-published and --both."""
    choice = parser.add_mutually_exclusive_group()
    kinds = (("--corrected", VERSIONS[:1], "without"), ("--as-published", VERSIONS[1:], "with"))
    for name, versions, with_out in kinds:
        text = f"{with_out} the published faults (docs/errata.md)"
        choice.add_argument(name, dest="versions", action="store_const", const=versions, default=default, help=text)
    choice.add_argument("--both", dest="versions", action="store_const", const=VERSIONS, help="both, side by side")


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Options --engine, --jobs and --scheduler."""
    add = parser.add_argument
    add("--engine", default="local", help=f"where cells are computed: {' or '.join(ENGINES)}")
    add("--jobs", type=int, default=os.cpu_count(), help="local processes that share the cells")
    add("--scheduler", help="address of a running Dask scheduler, for --engine dask")
