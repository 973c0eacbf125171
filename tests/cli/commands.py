"""Commands in this process, because a new one loads torch for seconds, or in one of their own: what they print."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from implicit_bias.cli.main import main


class Done(NamedTuple):
    """A command's exit code, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


def run(*arguments, command=None):
    """`implicit-bias` with these arguments, or one `command` of it as its script runs it."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main([*map(str, arguments)], command)
        except SystemExit as end:  # --help and --version
            code = int(end.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


COMMAND = [sys.executable, "-m", "implicit_bias"]


def process(*arguments, command=COMMAND, **settings):
    """The same in a process of its own, for what only a process can show."""
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | settings
    return subprocess.run([*command, *map(str, arguments)], text=True, **settings)
