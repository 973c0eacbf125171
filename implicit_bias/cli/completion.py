"""`implicit-bias completion`: print a static script, so that completion in the shell does not import torch."""

from __future__ import annotations

from argparse import Action, Namespace, _SubParsersAction
from collections.abc import Iterator

from implicit_bias.cli.execution import Output
from implicit_bias.cli.parsers import SHORT_CODES, Parser
from implicit_bias.datasets import dataset_names

#: Options that take a file.
FILES = ("file", "model", "start")
#: Options that take a folder.
FOLDERS = ("data_root", "extend", "redraw", "out")


def declare(parser: Parser, command: str) -> None:
    parser.explain(
        "Print a script that completes commands, options and values in your shell. Write it again after an update.",
        [
            ("bash > ~/.local/share/bash-completion/completions/implicit-bias", "read by new shells"),
            ("zsh > ~/.zfunc/_implicit-bias", "with ~/.zfunc in fpath, before compinit"),
            ("fish > ~/.config/fish/completions/implicit-bias.fish", "read by new shells"),
        ],
        SHORT_CODES,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="your shell")
    parser.set_defaults(run=completion, loads=("solvers", "studies.runner.engines"), json=False)


def completion(options: Namespace) -> Output:
    import shtab

    from implicit_bias.cli.main import whole_parser
    from implicit_bias.solvers import solver_names
    from implicit_bias.studies.runner.engines import ENGINES

    # Values of options without declared choices, because their error messages are our own sentences.
    choices = {"dataset": dataset_names(), "engine": list(ENGINES), "solver": solver_names()}
    parser = whole_parser()
    for action in _actions(parser):
        if action.choices is None:
            action.choices = getattr(action, "offered", choices.get(action.dest))
        place = shtab.FILE if action.dest in FILES else shtab.DIRECTORY if action.dest in FOLDERS else None
        if place is not None:
            action.complete = place  # type: ignore[attr-defined]
    print(shtab.complete(parser, options.shell))
    # All three shells ignore comments.
    print(f"# next: save this where `implicit-bias completion --help` says, and open a new {options.shell}")
    return Output(0, {}, None)


def _actions(parser: Parser) -> Iterator[Action]:
    for action in parser.declared()._actions:
        yield action
        if isinstance(action, _SubParsersAction):
            for chosen in action.choices.values():
                yield from _actions(chosen)
