"""The comparison scripts' common command line: parse a configuration, run a study, write table, record and figure."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from tqdm import tqdm

from implicit_bias.checks import InputError
from implicit_bias.comparison import summarise
from implicit_bias.datasets import dataset_names
from implicit_bias.experiments.study import Config, Run, Study, run
from implicit_bias.files import require_writable, write_atomically
from implicit_bias.plots import comparison_figure
from implicit_bias.solvers import Status, solver_names


def guarded(action: Callable[[], int]) -> int:
    """Run a script's work; bad input becomes one sentence on standard error and exit code 2."""
    try:
        return action()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except MemoryError:
        print("error: out of memory; ask for fewer samples, units or contexts, or fewer --jobs", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        return 130


def main(study: Study, arguments: Sequence[str] | None = None) -> int:
    """The whole of a comparison script; returns its exit code."""
    options = vars(_parser(study).parse_args(arguments))
    out, jobs = options.pop("out"), options.pop("jobs")
    return guarded(lambda: _compare(study, Config(**options), Path(out or f"results/{study.name}"), jobs))


def _compare(study: Study, config: Config, out: Path, jobs: int) -> int:
    require_writable(out)
    total = len(config.cells())
    with tqdm(total=total, unit="cell", desc=study.name) as bar:

        def show(cell: str) -> None:
            bar.set_postfix_str(cell)
            bar.update()

        result = run(study, config, jobs, show)
    if result.table.empty:
        raise KeyboardInterrupt
    print(readable(result.table))
    for path in write_results(study, result, out):
        print(f"wrote {path}")
    if result.interrupted:
        done = len(result.table.drop_duplicates(["train_size", "units", "contexts", "seed"]))
        print(f"interrupted: these are {done} of {total} cells", file=sys.stderr)
        return 130
    return 0


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
    """Write `comparison.csv`, `comparison.json` (how it was made) and `comparison.png` and `.pdf` into `out`."""
    width = "contexts" if result.table.contexts.nunique() > result.table.units.nunique() else "units"
    title = f"{study.title} ({result.record['config']['dataset']})"
    figure = comparison_figure(result.table, study.reference, title, width)
    contents = {
        "csv": result.table.to_csv(index=False).encode(),
        "json": json.dumps(result.record, indent=2).encode(),
        "png": _drawn(figure, "png"),
        "pdf": _drawn(figure, "pdf"),
    }
    return [write_atomically(out / f"comparison.{kind}", content) for kind, content in contents.items()]


def _drawn(figure: Figure, kind: str) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=200)
    return buffer.getvalue()


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
    if study.reference == "GD-ReLU":
        add("--always-on", action="store_true", help="SVM-RC: add the published always-on gate")
    add("--solver", help=f"one of {', '.join(solver_names())}; else the default of solve()")
    add("--tol", type=float, default=defaults.tol, help="relative gap asked of the solver")
    add("--steps", type=int, default=defaults.steps, help="steps of gradient descent")
    add("--jobs", type=int, default=os.cpu_count(), help="processes that share the cells")
    add("--out", help=f"folder for the table and the figure; else results/{study.name}")
    return parser
