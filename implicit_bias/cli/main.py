"""The command `implicit-bias`: list of commands, and choice, parsing and execution of one of them."""

import codecs
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

from implicit_bias._utils.outlets import outlets
from implicit_bias._utils.version import __version__
from implicit_bias.cli.parsers import Parser, UsageError

#: Every command: its line of help, and the module of this package that declares its options and runs it.
COMMANDS = {
    "compare gln": ("GD-GLN against SVM-L2, SVM-GLN and SVM-Fro", "reproduce"),
    "compare relu": ("GD-ReLU against SVM-RC, SVM-LC and SVM-HL", "reproduce"),
    "compare shallow-gln": ("a shallow GLN against one linear SVM per region", "reproduce"),
    "solve": ("solve a margin problem on your own samples, and save the model", "solve"),
    "predict": ("classes, scores and margins of new samples by a saved model", "predict"),
    "reproduce paper": ("the paper's figures 2 to 5 and ours, with a verdict on each claim", "reproduce"),
    "reproduce galu": ("the figures of the GaLU paper, with a verdict on each claim", "reproduce"),
    "reproduce localization": ("where localized receptive fields come from, in networks and theory", "reproduce"),
    "reproduce gram": ("Gram matrices of activations, their smallest eigenvalues, and training speed", "reproduce"),
    "reproduce deeper": ("how far descent on deep chains ends from the best chains behind their gates", "reproduce"),
    "reproduce best": ("how far networks are from the best two-layer ReLU network, with proof", "reproduce"),
    "reproduce classes": ("ten classes in one margin problem: descent's limit, and classifiers", "reproduce"),
    "reproduce optimisers": ("which margin problem each optimiser solves: paths, searches and errors", "reproduce"),
    "reproduce scale": ("the paper's comparison on all of the data: error and inconsistency against n", "reproduce"),
    "reproduce limit": ("does descent end at the max-margin solution?", "reproduce"),
    "info": ("versions, machine, data files, and available choices of options", "info"),
    "completion": ("print a script that completes these commands in your shell", "completion"),
}
GROUPS = {
    "compare": "train a network, solve its margin problems, and measure how far they agree",
    "reproduce": "run the studies of the papers again",
}
DESCRIPTION = """\
Which max-margin problem does gradient descent on a gated network solve?
Train, solve, certify, compare."""
EPILOG = """\
examples:
  implicit-bias compare gln                      # on the embedded digits, half a minute
  implicit-bias solve samples.csv                # your own samples, into samples-model.npz
  implicit-bias predict samples-model.npz new.csv
  implicit-bias reproduce paper --quick          # a part of every figure
  implicit-bias COMMAND --help                   # options, examples and exit codes of a command

exit codes:
    0  done
    1  solve: the certified gap exceeds --tol
    2  invalid input, explained in one sentence
    3  solve: no weights separate the samples; no model is written
  130  interrupted; finished parts are kept
  141  done, but the reader of the output has closed it"""

#: Exit code if the reader of a pipe has closed it: the code that a shell reports for a process ended by SIGPIPE.
UNREAD = 128 + 13


def _replaced(error: Any) -> tuple[str, int]:
    """Return "-" for a minus, and "?" for another character that the encoding of a terminal lacks."""
    return "-" if error.object[error.start] == "−" else "?", error.start + 1


codecs.register_error("implicit_bias.shown", _replaced)


def main(arguments: Sequence[str] | None = None, command: str | None = None) -> int:
    """Run `implicit-bias` with `arguments`, by default those of the process, and return the exit code.

    If `command` is given, such as 'compare gln', the arguments are those of this command alone.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = any(argument.partition("=")[0] == "--json" for argument in given)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="implicit_bias.shown")
    with outlets() as (out, err):
        try:
            code = _parsed_and_run(given, command, as_json)
        except SystemExit as end:  # --help and --version
            code = int(end.code or 0)
        out.flush()
        if out.failure:
            print(f"error: the output cannot be written ({out.failure}); send it to another place", file=err)
            code = code or 2
    return code or (UNREAD if out.unread or err.unread else 0)


def _parsed_and_run(given: Sequence[str], command: str | None, as_json: bool) -> int:
    """Parse the arguments, import what the command needs, and run it; return its exit code, 2 if parsing fails."""
    with _ending_on_interrupt(as_json):
        parser = whole_parser() if command is None else Parser(declare=partial(declare, command))
        try:
            options = parser.parse_args(given)
        except UsageError as refusal:
            refusal.parser.print_usage(sys.stderr)
            print(f"{refusal.parser.prog}: error: {refusal}", file=sys.stderr)
            if as_json:
                print(json.dumps({"error": str(refusal)}))
            return 2
        from implicit_bias.cli.execution import execute

        try:
            for name in options.loads:
                import_module(f"implicit_bias.{name}")
        except ImportError:
            # It fails again where errors become sentences.
            options.run = lambda _: import_module(f"implicit_bias.{name}")
    return execute(options)


def whole_parser() -> Parser:
    """Return the parser of `implicit-bias` with all commands, whose options are declared when first needed."""
    parser = Parser(prog="implicit-bias", description=DESCRIPTION, epilog=EPILOG)
    parser.add_argument("--version", action="version", version=f"implicit-bias {__version__}")
    places = {"": parser.add_subparsers(metavar="COMMAND", title="commands", required=True)}
    for command, (summary, _) in COMMANDS.items():
        group, _, name = command.rpartition(" ")
        if group not in places:
            text = GROUPS[group]
            parent = places[""].add_parser(group, help=text, description=text)
            places[group] = parent.add_subparsers(metavar="WHICH", title="which", required=True)
        places[group].add_parser(name, help=summary, declare=partial(declare, command))
    return parser


def declare(command: str, parser: Parser) -> None:
    """Call `declare` of the command's module, which adds options and sets the default `run`, the function to run.

    The default `loads` lists modules that take seconds to import and that help does not need. They are imported before
    the run, while Ctrl-C ends the process. Every command has --json, unless it sets the default `json` to False.
    """
    parser.set_defaults(loads=())
    import_module(f"implicit_bias.cli.{COMMANDS[command][1]}").declare(parser, command)
    if parser.get_default("json") is None:
        parser.add_shared("--json")


@contextmanager
def _ending_on_interrupt(as_json: bool) -> Iterator[None]:
    """Let Ctrl-C end the process in the block, with code 130, because an interrupted import may raise any error."""

    def end(*_: Any) -> None:
        os.write(2, b"interrupted: nothing was begun\n")
        if as_json:
            os.write(1, b'{"error": "interrupted: nothing was begun"}\n')
        os._exit(130)

    before = signal.getsignal(signal.SIGINT)
    ours = before is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    if ours:
        signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, before)
