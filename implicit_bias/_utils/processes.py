"""Function calls in another process, which is killed when a deadline passes.

A copy of this process would lack the threads of BLAS, torch and Rust, and might wait for them forever. Therefore a
server, an interpreter with a single thread, is started once and forks itself for each call, within milliseconds. It
ends when its socket is closed: with the process that started it, however that ends.
"""

import contextlib
import ctypes
import gc
import importlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import traceback
import weakref
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

import cloudpickle

from implicit_bias._utils.limits import Deadline

T = TypeVar("T")

#: Seconds between two tests of the deadline.
TICK = 0.005
#: Least number of seconds in which a server must kill the process of a call; otherwise it is killed itself.
PATIENCE = 0.2
#: Share of the time since the deadline began that replaces it if larger, because large processes end slowly.
SHARE = 0.05
#: Program of a server; its arguments are `sys.path`.
PROGRAM = "import sys; sys.path[:] = sys.argv[1:]; from implicit_bias._utils.processes import _serve; _serve()"


def call_apart(function: Callable[..., T], *arguments: Any, deadline: Deadline, grace: float = 0.0) -> T | None:
    """Return function(*arguments), called in another process, or None if that process is killed.

    It is killed after Ctrl-C, or `grace` seconds after the time limit. A deadline among the arguments has the same time
    left there, because the processes share a clock. Exceptions are raised here; ChildProcessError stands for a crash.

    Functions and classes of scripts and notebooks are sent by value. If an argument cannot be sent, such as an open
    file, or no process can be started, the function is called in this process, without a deadline.

    >>> call_apart(lambda x: x + 1, 2, deadline=Deadline())
    3
    >>> import time
    >>> call_apart(time.sleep, 100, deadline=Deadline(0.1)) is None
    True
    """
    if deadline.passed(-grace):
        return None
    try:
        # Both raise exceptions of many kinds.
        job, server = cloudpickle.dumps((function, arguments)), _taken()
    except Exception:
        return function(*arguments)
    try:
        server.connection.send_bytes(job)
        while not server.connection.poll(TICK):
            if deadline.passed(-grace):
                server.stop(max(PATIENCE, SHARE * deadline.seconds))
                return None
        known, value, failure = server.connection.recv()
    except BaseException as error:
        server.end()
        if isinstance(error, EOFError | OSError):
            raise ChildProcessError("its process was killed") from error
        raise
    _idle.append(server)
    if failure is not None:
        raise failure
    return value if known else function(*arguments)


def load(*modules: str) -> None:
    """Import modules; called by `call_apart`, import them for all its later calls."""
    for module in modules:
        importlib.import_module(module)


class _Server:
    """Interpreter that runs `_serve`, as long as the other end of `connection` is open."""

    def __init__(self) -> None:
        self.origin = _origin()
        self.connection, theirs = multiprocessing.Pipe()
        with theirs:
            # Ctrl-C in a terminal does not reach another process group.
            command = [sys.executable, "-uc", PROGRAM, *sys.path]
            self.popen = subprocess.Popen(command, stdin=theirs.fileno(), process_group=0)
        _servers.add(self)

    def stop(self, patience: float) -> None:
        """End the process of the call."""
        self.connection.send_bytes(b"")
        if self.connection.poll(patience):
            self.connection.recv_bytes()
            _idle.append(self)
        else:
            self.end()

    def end(self) -> None:
        """Kill the server and the process of its call."""
        if self.popen.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.popen.pid, signal.SIGKILL)
            self.popen.wait()
        self.connection.close()


#: The servers without a call, and all.
_idle: list[_Server] = []
_servers: weakref.WeakSet[_Server] = weakref.WeakSet()


def _origin() -> Any:
    """Return what a server inherits: the search path of modules, and the files of standard output and error."""
    return sys.path[:], [(file.st_dev, file.st_ino) for file in map(os.fstat, (1, 2))]


def _taken() -> _Server:
    # Another thread may take the last one.
    with contextlib.suppress(IndexError):
        while True:
            server = _idle.pop()
            if server.origin == _origin() and server.popen.poll() is None:
                return server
            server.end()
    return _Server()


def _serve() -> None:
    """Answer the calls that arrive on standard input, a socket, until it is closed; an empty one ends the last one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A process that inherits that it is ignored cannot wait for others.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    connection = Connection(0)
    with contextlib.suppress(EOFError, OSError):
        while True:
            job = connection.recv_bytes()
            if job:
                connection.send_bytes(_reply(job, connection))


def _reply(job: bytes, connection: Connection) -> bytes:
    """Return a pickled tuple: whether function and arguments are known here, the value and the exception."""
    try:
        function, arguments = pickle.loads(job)
    except Exception:
        return pickle.dumps((False, None, None))
    if function is load:
        return _outcome(function, arguments)
    ours, theirs = multiprocessing.Pipe(duplex=False)
    gc.freeze()
    process = os.fork()
    if not process:
        theirs.send_bytes(_outcome(function, arguments))
        os._exit(0)
    theirs.close()
    with ours:
        if connection in wait([connection, ours]):
            os.kill(process, signal.SIGKILL)
        try:
            reply = ours.recv_bytes()
        except EOFError:
            reply = b""
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return reply or pickle.dumps((True, None, ChildProcessError(f"its process ended with the exit code {code}")))


def _outcome(function: Callable[..., Any], arguments: Any) -> bytes:
    value = failure = None
    try:
        value = function(*arguments)
    except BaseException as error:
        # A panic of Rust is not an Exception.
        failure = error if isinstance(error, Exception) else ChildProcessError(str(error))
        failure.add_note("".join(traceback.format_tb(error.__traceback__)))
    with contextlib.suppress(OSError, AttributeError):
        # The output of C code may still be in its buffer.
        ctypes.CDLL(None).fflush(None)
    try:
        return pickle.dumps((True, value, failure))
    except Exception as error:
        return pickle.dumps((True, None, ValueError(str(failure or error))))


def _leave_all() -> None:
    """Close the connections in a forked process: they are those of its parent process."""
    for server in _servers:
        server.connection.close()
    _idle.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_all)
