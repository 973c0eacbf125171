"""`implicit-bias compare`: train a network, solve its margin problems, and write table, record and figure."""

from __future__ import annotations

from argparse import Namespace

from implicit_bias.cli.execution import Output
from implicit_bias.cli.parsers import Parser
from implicit_bias.cli.reproduce import add_options, reproduce
from implicit_bias.studies.paper import COMPARISONS


def declare(parser: Parser, command: str) -> None:
    add_options(parser, COMPARISONS[command.replace(" ", "_").replace("-", "_")])
    parser.set_defaults(run=compare)


def compare(options: Namespace) -> Output:
    """Compute the comparison, print its means, and write the results. Code 130: cells are missing."""
    import pandas as pd

    from implicit_bias.studies.paper.summary import summarise

    outcome = reproduce(options)
    for path in outcome.files:
        if path.suffix == ".csv":
            table = pd.read_csv(path)
            outcome.document.update(summary=summarise(table), rows=table)
    return outcome
