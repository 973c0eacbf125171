"""Parsers whose options are declared on first need, with help that explains; no module here may load torch."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NoReturn

#: What the exit codes of every command mean, unless a command says otherwise.
EXIT_CODES = {0: "done", 2: "bad input, told in one sentence", 130: "interrupted; what was finished is kept"}


class UsageError(Exception):
    """A command line that cannot be parsed."""

    def __init__(self, parser: argparse.ArgumentParser, sentence: str) -> None:
        super().__init__(sentence)
        self.parser = parser


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of examples, and shows the defaults that say something."""

    def _get_help_string(self, action: argparse.Action) -> str:
        default, text = action.default, action.help or ""
        if action.nargs == 0 or default is None or default == argparse.SUPPRESS:
            return text
        shown = " ".join(map(str, default)) if isinstance(default, list | tuple) else str(default)
        return f"{text} (default: {shown})"


class Parser(argparse.ArgumentParser):
    """A parser that lets `declare` add its options when it is first asked for them.

    >>> parser = Parser(declare=lambda parser: parser.add_argument("--units", type=int, default=10))
    >>> parser.parse_args(["--units", "3"]).units
    3
    """

    def __init__(self, *, declare: Callable[[Parser], Any] | None = None, **settings: Any) -> None:
        # Abbreviations would turn every new option into a change of what old command lines mean.
        super().__init__(formatter_class=HelpFormatter, allow_abbrev=False, **settings)
        self._declare = declare

    def declared(self) -> Parser:
        """This parser, with its options."""
        declare, self._declare = self._declare, None
        if declare is not None:
            declare(self)
        return self

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As any parser's, with the options declared first; what is unknown to a command is its own error."""
        options, unknown = super(Parser, self.declared()).parse_known_args(args, namespace)
        if unknown:
            near = get_close_matches(unknown[0].partition("=")[0], self._option_string_actions, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return options, unknown

    def error(self, message: str) -> NoReturn:
        """Raise a UsageError instead of ending the process, so that it can be told as JSON too."""
        raise UsageError(self, message)

    def explain(self, text: str, examples: Sequence[tuple[str, str]], codes: Mapping[int, str] = EXIT_CODES) -> None:
        """Set the help: what the command does, examples (arguments, comment), exit codes."""
        width = max(len(arguments) for arguments, _ in examples)
        lines = [f"  {self.prog} {arguments:{width}s}  # {comment}" for arguments, comment in examples]
        self.description = text
        self.epilog = "\n".join(["examples:", *lines, "", "exit codes:", *(f"  {n:3d}  {t}" for n, t in codes.items())])


def add_list(
    parser: argparse.ArgumentParser,
    name: str,
    kind: Callable[[str], Any],
    default: Sequence[Any],
    text: str,
    offered: Sequence[str] | None = None,
) -> None:
    """An option that takes several values, separated by spaces or commas, as a tuple.

    `offered` is what a shell completes; they are no declared choices, for the refusal is a sentence of our own.

    >>> parser = Parser()
    >>> add_list(parser, "--seeds", int, (1,), "seeds")
    >>> parser.parse_args(["--seeds", "1,2", "3"]).seeds
    (1, 2, 3)
    """
    metavar = "NAME" if kind is str else kind.__name__.upper()
    action = parser.add_argument(name, nargs="+", action=_listed(kind), default=default, help=text, metavar=metavar)
    if offered is not None:
        action.offered = offered  # type: ignore[attr-defined]


def _listed(kind: Callable[[str], Any]) -> type[argparse.Action]:
    """An action that reads a list of values."""

    class Listed(argparse.Action):
        def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
            try:
                parsed = tuple(kind(part) for text in values for part in text.split(",") if part)
            except ValueError:
                parser.error(f"argument {option}: {' '.join(values)!r} is not a list of {kind.__name__} values")
            setattr(namespace, self.dest, parsed)

    return Listed


def add_json(parser: argparse.ArgumentParser) -> None:
    """Option --json."""
    text = "print one JSON document on standard output, and all else on standard error; null stands for inf and nan"
    parser.add_argument("--json", action="store_true", help=text)


def add_data_root(parser: argparse.ArgumentParser) -> None:
    """Option --data-root."""
    parser.add_argument("--data-root", help="folder of the MNIST files; else IMPLICIT_BIAS_DATA, else data")


def add_dataset(parser: argparse.ArgumentParser, default: str) -> None:
    """Options --dataset and --data-root."""
    parser.add_argument("--dataset", default=default, help="one that `implicit-bias info` lists")
    add_data_root(parser)


def add_solver(parser: argparse.ArgumentParser) -> None:
    """Option --solver."""
    parser.add_argument("--solver", help="one that `implicit-bias info` lists; else the default of solve()")


def add_versions(parser: argparse.ArgumentParser, default: tuple[str, ...]) -> None:
    """Options --corrected, --as-published and --both."""
    from implicit_bias.studies.paper.studies import VERSIONS

    choice = parser.add_mutually_exclusive_group()
    kinds = (("--corrected", VERSIONS[:1], "without"), ("--as-published", VERSIONS[1:], "with"))
    for name, versions, with_out in kinds:
        text = f"{with_out} the published faults (docs/errata.md)" + " (default)" * (default == versions)
        choice.add_argument(name, dest="versions", action="store_const", const=versions, default=default, help=text)
    text = "both, side by side" + " (default)" * (default == VERSIONS)
    choice.add_argument("--both", dest="versions", action="store_const", const=VERSIONS, help=text)


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Options --engine, --jobs and --scheduler."""
    add = parser.add_argument
    add("--engine", default="local", help="where cells are computed, one that `implicit-bias info` lists")
    add("--jobs", type=int, default=os.cpu_count(), help="local processes that share the cells")
    add("--scheduler", help="address of a running Dask scheduler, for --engine dask")
