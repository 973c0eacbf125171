"""Commands in this process, because a new one loads torch for seconds, or in one of their own: what they print."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

import pytest

from implicit_bias.cli.main import main

posix = pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal, or runs a POSIX shell")


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run(*arguments, command=None):
    """Run `implicit-bias` with these arguments in this process, or one `command` of it as its script does."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main([*map(str, arguments)], command)
        except SystemExit as end:  # --help and --version
            code = int(end.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


def interrupted(after, *arguments, terminal=False):
    """Run `implicit-bias`, with Ctrl-C at the first progress of a solve after the text `after` was written."""
    out = io.StringIO()

    class Interrupting(io.StringIO):
        def isatty(self):
            return terminal

        def write(self, text):
            super().write(text)
            if " samples " in text and after in out.getvalue() + self.getvalue():
                signal.raise_signal(signal.SIGINT)
            return len(text)

    err = Interrupting()
    # A shell that starts the tests in its background has them ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = main([*map(str, arguments)])
    finally:
        signal.signal(signal.SIGINT, before)
    return Done(code, out.getvalue(), err.getvalue())


COMMAND = [sys.executable, "-m", "implicit_bias"]


def process(*arguments, command=COMMAND, **settings):
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | settings
    return subprocess.run([*command, *map(str, arguments)], text=True, **settings)


def answer(*arguments):
    """Run a command with --json; return its exit code and document, the only text on standard output."""
    done = run(*arguments, "--json")
    return done.returncode, json.loads(done.stdout)
