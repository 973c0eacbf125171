"""Parsers whose options are declared when first needed, and whose help has examples; no import of torch."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from implicit_bias.studies.collection import Option

#: Exit codes of most commands, with their meaning.
EXIT_CODES = {0: "done", 2: "invalid input, explained in one sentence", 130: "interrupted; finished parts are kept"}
#: Exit codes of commands without results to keep after an interruption.
SHORT_CODES = {code: EXIT_CODES[code] for code in (0, 2)}

#: Options that several commands have.
SHARED: dict[str, dict[str, Any]] = {
    "--dataset": {"help": "one that `implicit-bias info` lists"},
    "--data-root": {"help": "folder of the MNIST files; else IMPLICIT_BIAS_DATA, else data"},
    "--solver": {"help": "one that `implicit-bias info` lists; else the default of solve()"},
    "--engine": {"default": "local", "help": "where cells are computed, one that `implicit-bias info` lists"},
    "--jobs": {"type": int, "default": os.cpu_count(), "help": "local processes that share the cells"},
    "--scheduler": {"help": "address of a running Dask scheduler, for --engine dask"},
    "--redraw": {"metavar": "FOLDER", "help": "compute nothing: figures and findings from an earlier run's folder"},
    "--header": {"action": argparse.BooleanOptionalAction, "help": "whether row 1 has names; by default, cells decide"},
    "--separator": {"help": "separator of the columns (tab for tabs); by default the one that the first rows share"},
    "--decimal": {"help": "decimal point or comma; by default as the first rows have it"},
    "--encoding": {"help": "encoding of the text, such as latin-1; by default UTF-8, or UTF-16 by its mark"},
    "--json": {
        "action": "store_true",
        "help": "print one JSON document, with null for inf and nan, and all else on standard error",
    },
}
ENGINE = ("--engine", "--jobs", "--scheduler")


class UsageError(Exception):
    """Error of a command line that cannot be parsed; `parser` is the parser that failed."""

    def __init__(self, parser: argparse.ArgumentParser, sentence: str) -> None:
        super().__init__(sentence)
        self.parser = parser


class HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Formatter that keeps the line breaks of examples, and appends defaults except None to the help of options."""

    def _get_help_string(self, action: argparse.Action) -> str:
        default, text = action.default, action.help or ""
        if action.nargs == 0 or default is None or default == argparse.SUPPRESS:
            return text
        shown = " ".join(map(str, default)) if isinstance(default, list | tuple) else str(default)
        return f"{text} (default: {shown})"


class Parser(argparse.ArgumentParser):
    """Argument parser whose options are added by the function `declare` when first needed."""

    def __init__(self, *, declare: Callable[[Parser], Any] | None = None, **settings: Any) -> None:
        # With abbreviations, every new option could change the meaning of old command lines.
        super().__init__(formatter_class=HelpFormatter, allow_abbrev=False, **settings)
        self._declare = declare

    def declared(self) -> Parser:
        """Return this parser, after calling `declare` if it has not been called yet."""
        declare, self._declare = self._declare, None
        if declare is not None:
            declare(self)
        return self

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Declare the options, then parse; raise UsageError for unknown arguments, with a similar option as hint."""
        options, unknown = super(Parser, self.declared()).parse_known_args(args, namespace)
        if unknown:
            near = get_close_matches(unknown[0].partition("=")[0], self._option_string_actions, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return options, unknown

    def error(self, message: str) -> NoReturn:
        """Raise a UsageError instead of ending the process, so that --json can print it."""
        raise UsageError(self, message)

    def explain(self, text: str, examples: Sequence[tuple[str, str]], codes: Mapping[int, str] = EXIT_CODES) -> None:
        """Set the help of the command: `text`, then examples (arguments, comment), then exit codes."""
        width = max(len(arguments) for arguments, _ in examples)
        lines = [f"  {self.prog} {arguments:{width}s}  # {comment}" for arguments, comment in examples]
        self.description = text
        self.epilog = "\n".join(["examples:", *lines, "", "exit codes:", *(f"  {n:3d}  {t}" for n, t in codes.items())])

    def add_shared(self, *options: str) -> None:
        """Add these options of `SHARED`."""
        for option in options:
            self.add_argument(option, **SHARED[option])

    def add_settings(self, options: Mapping[str, Option]) -> None:
        """Add an option for each of `options` by the name of its setting.

        If its default is a tuple, its value is a tuple of several values, separated by spaces or commas. A shell
        completes the values that are offered. They are not declared as choices of argparse, because the error message
        for other values is our own.

        >>> from implicit_bias.studies.collection import Option
        >>> parser = Parser()
        >>> parser.add_settings({"train_size": Option((100,), "samples"), "lr": Option(0.1, "learning rate")})
        >>> parser.parse_args(["--train-size", "20,30", "40", "--lr", "1"])
        Namespace(train_size=(20, 30, 40), lr=1.0)
        """
        for name, (value, text, offered, kind) in options.items():
            if not text:
                continue
            parsed: dict[str, Any] = {"type": kind or type(value)}
            if isinstance(value, tuple):
                each = type(value[0])
                metavar = "NAME" if each is str else each.__name__.upper()
                parsed = {"nargs": "+", "action": _listed(each), "metavar": metavar}
            action = self.add_argument(f"--{name.replace('_', '-')}", default=value, help=text, **parsed)
            if offered is not None:
                action.offered = offered  # type: ignore[attr-defined]


def _listed(kind: Callable[[str], Any]) -> type[argparse.Action]:
    """Return an action of argparse that reads a list of values as a tuple, separated by spaces or commas."""

    class Listed(argparse.Action):
        def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
            try:
                parsed = tuple(kind(part) for text in values for part in text.split(",") if part)
            except ValueError:
                parser.error(f"argument {option}: {' '.join(values)!r} is not a list of {kind.__name__} values")
            setattr(namespace, self.dest, parsed)

    return Listed
