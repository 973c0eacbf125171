"""What the tests of collections of experiments ask of a cell's table, of verdicts, and of a page of the docs."""

import pandas as pd

from implicit_bias.studies.runner.results import load
from implicit_bias.studies.runner.verdicts import as_markdown
from tests import ROOT


def outcomes(module, table):
    """The outcomes of a module's verdicts, in order."""
    return [verdict.outcome for verdict in module.verdicts(table)]


def told(module, settings, tmp_path):
    """The outcomes of a single cell, whose table goes through a file and is drawn."""
    loaded = [module.data(settings, None)] if getattr(module, "data", None) else []
    pd.DataFrame([settings | row for row in module.rows(settings, *loaded)]).to_csv(tmp_path / "table.csv", index=False)
    table = pd.read_csv(tmp_path / "table.csv")
    module.draw(table).savefig(tmp_path / "figure.png", dpi=30)
    return outcomes(module, table)


def page_of(collection):
    """The text of a collection's page, which shows all figures, the verdicts of the committed tables, and no others."""
    page, shown = (ROOT / "docs" / f"{collection.name}.md").read_text(), set()
    found = load(collection, ROOT / "data" / collection.name)
    assert [one.experiment for one in found] == [*collection.chosen("all")]
    for one in found:
        name, verdicts = one.experiment.name, as_markdown(one.experiment.verdicts(one.table))
        assert one.record["missing"] == 0
        picture = f"figures/{collection.name}/{name.replace('-', '_')}.png"
        assert f"]({picture})" in page
        assert (ROOT / "docs" / picture).is_file()
        assert verdicts in page
        shown.update(verdicts.splitlines())
    told = [line for line in page.splitlines() if line.endswith((" yes |", " no |", " undecided |"))]
    assert {line for line in told if line.count(" | ") == 3} <= shown
    return page
