"""Outcomes of verdicts, on any table and on that of a single cell."""

import pandas as pd


def outcomes(module, table):
    """Return the outcomes of a module's verdicts on a table, in order."""
    return [verdict.outcome for verdict in module.verdicts(table)]


def judged(module, table, words):
    """Assert that some finding has these words and the table can be drawn; return the outcomes."""
    assert words in " | ".join(verdict.found for verdict in module.verdicts(table))
    assert module.draw(table)
    return outcomes(module, table)


def told(module, settings, tmp_path):
    """Compute one cell, read its table from a file and draw it; return the outcomes."""
    loaded = [module.data(settings, None)] if getattr(module, "data", None) else []
    pd.DataFrame([settings | row for row in module.rows(settings, *loaded)]).to_csv(tmp_path / "table.csv", index=False)
    table = pd.read_csv(tmp_path / "table.csv")
    module.draw(table).savefig(tmp_path / "figure.png", dpi=30)
    return outcomes(module, table)
