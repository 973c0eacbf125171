"""`implicit-bias compare`: train a network, solve its margin problems, and write table, record and figure."""

from __future__ import annotations

import argparse
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from implicit_bias.cli.execution import Outcome, settings_of
from implicit_bias.cli.parsers import ENGINE, Parser, add_versions
from implicit_bias.studies.paper.studies import STUDIES, Config

if TYPE_CHECKING:
    import pandas as pd

#: Note on rows without a solution, which are not counted as certified.
PROVED = " has no solution to certify, which is proved"
#: Note on rows of the published solver.
UNCERTIFIED = "the point where the published solver stops, which nothing certifies"


def declare(parser: Parser, command: str) -> None:
    study = STUDIES[command.replace(" ", "_").replace("-", "_")]
    parser.explain(
        f"{study.title}.\n\nOptions that list their values take several (--seeds 1 2 3), and every combination runs. "
        "Finished cells\nare stored: the same command resumes an interrupted run.",
        [("", "the embedded digits"), (study.example, "several settings"), ("--json", "rows and summary as JSON")],
    )
    parser.add_shared("--dataset", "--data-root")
    lists = {
        "train_size": "training samples n",
        "units": "hidden units H",
        "contexts": "contexts per unit, powers of two",
        "seeds": "seeds of gates, weights and batches",
        "momentum": "momentum of gradient descent",
    }
    parser.add_settings(study.default, lists)
    text = "median, random, a number, or two quantile levels"
    parser.add_argument("--cutoff", type=_cutoff, default=study.default("cutoff"), help=text)
    parser.add_settings(study.default, {"split": "published, or own: each seed splits the data as well"})
    add_versions(parser, study.default("versions"))
    parser.add_shared("--solver")
    parser.add_settings(
        study.default, {"tol": "relative gap at which the solver stops", "steps": "steps of gradient descent"}
    )
    parser.add_shared(*ENGINE)
    parser.add_argument("--out", default=f"results/{study.name}", help="folder for the cells, the table and the figure")
    loads = ("studies.paper.experiment", "cli.sweeps")
    parser.set_defaults(run=compare, loads=loads, study=study.name, quick=False, dataset=study.default("dataset"))


def _cutoff(text: str) -> Any:
    if text in ("median", "random"):
        return text
    try:
        values = tuple(float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError("give median, random, a number, or two quantile levels as 0.25,0.75") from None
    return values[0] if len(values) == 1 else values


def compare(options: Namespace) -> Outcome:
    """Compute the comparison, print its means, and write the results. Code 130: cells are missing."""
    from implicit_bias.cli.sweeps import computed, following
    from implicit_bias.studies.paper.experiment import comparison
    from implicit_bias.studies.paper.summary import summarise
    from implicit_bias.studies.runner.results import require_replaceable, write_alone

    out = Path(options.out)
    experiment = comparison(STUDIES[options.study], settings_of(options, Config))
    require_replaceable(out, experiment)
    (found,) = computed([experiment], options, out)
    table = found.table.astype({"momentum": float})  # In the CSV file, 0.0 looks like an integer.
    print(readable(table))
    paths, missing = write_alone(found, out), bool(found.record["missing"])
    document = {"summary": summarise(table), "rows": table, "record": found.record}
    document["findings"] = {found.experiment.name: found.findings()}
    return Outcome(130 if missing else 0, document, following(paths, missing), paths)


def readable(table: pd.DataFrame) -> str:
    """Return a text table of means and standard deviations over seeds, with a note on each status but OPTIMAL."""
    import pandas as pd

    from implicit_bias.margin.solution import Status
    from implicit_bias.studies.paper.summary import summarise

    means = summarise(table)
    columns = {"n": means.train_size, **{name: means[name] for name in ("units", "contexts", "momentum")}}
    columns |= {"version": means.version} if table.version.nunique() > 1 else {}
    columns |= {"model": means.model, "seeds": means.seeds}
    columns["certified"] = means.certified.astype(object).where(~means.model.str.startswith("GD-"), "–")
    shown = {"error %": "error", "inconsistency %": "inconsistency", "by chance %": "expected_inconsistency"}
    columns |= {title: _percent(means[f"{name}_mean"], means[f"{name}_std"]) for title, name in shown.items()}
    lines = [pd.DataFrame(columns | {"seconds": means.seconds_mean.map("{:.2f}".format)}).to_string(index=False)]
    lines.append("mean ± standard deviation over seeds")
    remarks = {one.name: one.value for one in Status} | {"UNCERTIFIED": UNCERTIFIED}
    failed = table[~table.status.isin(["OPTIMAL", "TRAINED"])]
    for (model, status), part in failed.groupby(["model", "status"], sort=True):
        proved = PROVED if str(status).startswith("NOT_SEPARABLE") else ""
        lines.append(f"{len(part)} × {model}{proved}: {remarks[str(status)]}")
    return "\n".join(lines)


def _percent(means: pd.Series, spreads: pd.Series) -> pd.Series:
    """Format shares as percentages, '12.34 ± 0.56', without ± if the deviation is NaN, and '–' if the mean is."""
    signs = (100 * spreads).map(" ± {:.2f}".format).where(spreads.notna(), "")
    return ((100 * means).map("{:.2f}".format) + signs).where(means.notna(), "–")
