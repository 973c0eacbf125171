"""`implicit-bias compare`: train a network, solve its margin problems, and write table, record and figure."""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from implicit_bias.command_line.execution import Outcome
from implicit_bias.command_line.parsers import Parser, add_data_root, add_json
from implicit_bias.command_line.sweeps import add_engine, add_versions, computed, told
from implicit_bias.datasets import dataset_names
from implicit_bias.experiments.paper.experiment import STUDIES, comparison
from implicit_bias.experiments.paper.study import Config, Study
from implicit_bias.experiments.paper.summary import summarise
from implicit_bias.experiments.runner.results import write_alone
from implicit_bias.margin.solvers import Status, solver_names

#: What is said of rows that are not OPTIMAL.
REMARKS = {status.name: status.value for status in Status} | {
    "UNCERTIFIED": "the point where the published solver stops, which nothing certifies"
}


def declare(parser: Parser, command: str) -> None:
    """Declare the options of a comparison; their defaults are those of its study."""
    study = STUDIES[command.replace(" ", "_").replace("-", "_")]
    defaults = study.defaults
    parser.explain(
        f"{study.title}.\n\nOptions that list their values take several (--seeds 1 2 3), and every combination runs. "
        "Finished cells\nare stored: the same command goes on where an interrupted one ended.",
        [("", "the embedded digits"), (study.example, "several settings"), ("--json", "rows and summary as JSON")],
    )
    add = parser.add_argument

    def add_list(name: str, kind: Callable[[str], Any], text: str) -> None:
        default = getattr(defaults, name.strip("-").replace("-", "_"))
        add(name, nargs="+", action=_listed(kind), default=default, help=text, metavar=kind.__name__.upper())

    add("--dataset", default=defaults.dataset, help=f"one of {', '.join(dataset_names())}")
    add_data_root(parser)
    add_list("--train-size", int, "training samples n")
    add_list("--units", int, "hidden units H")
    add_list("--contexts", int, "contexts per unit, powers of two")
    add_list("--seeds", int, "seeds of gates, weights and batches")
    add_list("--momentum", float, "momentum of gradient descent")
    add("--cutoff", type=_cutoff, default=defaults.cutoff, help="median, random, a number, or two quantile levels")
    add("--split", default=defaults.split, help="published, or own: each seed splits the data as well")
    add_versions(parser, defaults.versions)
    add("--solver", help=f"one of {', '.join(solver_names())}; else the default of solve()")
    add("--tol", type=float, default=defaults.tol, help="relative gap asked of the solver")
    add("--steps", type=int, default=defaults.steps, help="steps of gradient descent")
    add_engine(parser)
    add("--out", default=f"results/{study.name}", help="folder for the cells, the table and the figure")
    add_json(parser)
    parser.set_defaults(run=partial(compare, study), quick=False)


def compare(study: Study, options: argparse.Namespace) -> Outcome:
    """Run the comparison and write its files."""
    values = {name: value for name, value in vars(options).items() if name in Config.__dataclass_fields__}
    out = Path(options.out)
    (found,) = computed([comparison(study, Config(**values))], options, out)
    table = found.table.astype({"momentum": float})  # Read back from the file's format, 0 is whole.
    print(readable(table))
    paths = told(write_alone(found, out, "comparison.json"))
    document = {"summary": summarise(table), "rows": table, "record": found.record, "files": paths}
    document["findings"] = {found.experiment.name: found.findings()}
    return Outcome(130 if found.record["missing"] else 0, document)


def readable(table: pd.DataFrame) -> str:
    """The table's means and standard deviations over seeds, and what did not come out OPTIMAL, as text."""
    means = summarise(table)
    columns = {"n": means.train_size, **{name: means[name] for name in ("units", "contexts", "momentum")}}
    columns |= {"version": means.version} if table.version.nunique() > 1 else {}
    columns |= {"model": means.model, "seeds": means.seeds}
    columns["certified"] = means.certified.astype(object).where(~means.model.str.startswith("GD-"), "–")
    shown = {"error %": "error", "inconsistency %": "inconsistency", "by chance %": "expected_inconsistency"}
    columns |= {title: _percent(means[f"{name}_mean"], means[f"{name}_std"]) for title, name in shown.items()}
    text = pd.DataFrame(columns | {"seconds": means.seconds_mean.map("{:.2f}".format)}).to_string(index=False)
    failed = table[~table.status.isin(["OPTIMAL", "TRAINED"])]
    groups = failed.groupby(["model", "status"], sort=True)
    notes = [f"{len(part)} × {model}: {REMARKS[str(status)]}" for (model, status), part in groups]
    return "\n".join([text, "mean ± standard deviation over seeds", *notes])


def _percent(means: pd.Series, spreads: pd.Series) -> pd.Series:
    signs = (100 * spreads).map(" ± {:.2f}".format).where(spreads.notna(), "")
    return ((100 * means).map("{:.2f}".format) + signs).where(means.notna(), "–")


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
