"""Outcomes of verdicts, on any table and on that of a single cell."""

import pandas as pd


def outcomes(module, table):
    """The outcomes of a module's verdicts, in order."""
    return [verdict.outcome for verdict in module.verdicts(table)]


def judged(module, table, words):
    """The outcomes of a table that can be drawn, some of whose findings are in these words."""
    assert words in " | ".join(verdict.found for verdict in module.verdicts(table))
    assert module.draw(table)
    return outcomes(module, table)


def told(module, settings, tmp_path):
    """The outcomes of a single cell, whose table goes through a file and is drawn."""
    loaded = [module.data(settings, None)] if getattr(module, "data", None) else []
    pd.DataFrame([settings | row for row in module.rows(settings, *loaded)]).to_csv(tmp_path / "table.csv", index=False)
    table = pd.read_csv(tmp_path / "table.csv")
    module.draw(table).savefig(tmp_path / "figure.png", dpi=30)
    return outcomes(module, table)
