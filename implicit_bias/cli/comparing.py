"""The work of `implicit-bias compare`: train a network, solve its margin problems, write table, record and figure."""

from argparse import Namespace
from pathlib import Path

import pandas as pd

from implicit_bias.cli.execution import Outcome
from implicit_bias.cli.sweeps import computed, told
from implicit_bias.margin.solution import Status
from implicit_bias.studies.paper.experiment import comparison
from implicit_bias.studies.paper.studies import STUDIES, Config
from implicit_bias.studies.paper.summary import summarise
from implicit_bias.studies.runner.results import require_replaceable, write_alone

#: Said of rows without a solution, which are not counted as certified ones.
PROVED = " has no solution to certify, which is proved"
#: What is said of rows that are not OPTIMAL.
REMARKS = {status.name: status.value for status in Status} | {
    "UNCERTIFIED": "the point where the published solver stops, which nothing certifies"
}


def compare(options: Namespace) -> Outcome:
    """Run the comparison and write its files."""
    study = STUDIES[options.study]
    values = {name: value for name, value in vars(options).items() if name in Config.__dataclass_fields__}
    out = Path(options.out)
    experiment = comparison(study, Config(**values))
    require_replaceable(out, experiment)
    (found,) = computed([experiment], options, out)
    table = found.table.astype({"momentum": float})  # Read back from the file's format, 0 is whole.
    print(readable(table))
    paths = told(write_alone(found, out))
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
    notes = [_note(len(part), str(model), str(status)) for (model, status), part in groups]
    return "\n".join([text, "mean ± standard deviation over seeds", *notes])


def _note(count: int, model: str, status: str) -> str:
    proved = PROVED if status.startswith("NOT_SEPARABLE") else ""
    return f"{count} × {model}{proved}: {REMARKS[status]}"


def _percent(means: pd.Series, spreads: pd.Series) -> pd.Series:
    signs = (100 * spreads).map(" ± {:.2f}".format).where(spreads.notna(), "")
    return ((100 * means).map("{:.2f}".format) + signs).where(means.notna(), "–")
