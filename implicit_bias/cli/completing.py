"""What `implicit-bias completion` prints: a static script, so that pressing a key need not wait for torch."""

from argparse import Action, Namespace, _SubParsersAction
from collections.abc import Iterator

import shtab

from implicit_bias.cli.execution import Outcome
from implicit_bias.cli.main import whole_parser
from implicit_bias.cli.parsers import Parser
from implicit_bias.datasets import dataset_names
from implicit_bias.solvers import solver_names
from implicit_bias.studies.runner.engines import ENGINES

#: Values and places that options take but do not declare, because their refusals are sentences of our own.
CHOICES = {"dataset": dataset_names(), "engine": list(ENGINES), "solver": solver_names()}
FILES = ("file", "model", "start")
FOLDERS = ("data_root", "redraw", "out")


def completion(options: Namespace) -> Outcome:
    """Print the script for a shell."""
    parser = whole_parser()
    for action in _actions(parser):
        if action.choices is None:
            action.choices = getattr(action, "offered", CHOICES.get(action.dest))
        place = shtab.FILE if action.dest in FILES else shtab.DIRECTORY if action.dest in FOLDERS else None
        if place is not None:
            action.complete = place  # type: ignore[attr-defined]
    print(shtab.complete(parser, options.shell))
    return Outcome(0, {})


def _actions(parser: Parser) -> Iterator[Action]:
    for action in parser.declared()._actions:
        yield action
        if isinstance(action, _SubParsersAction):
            for chosen in action.choices.values():
                yield from _actions(chosen)
