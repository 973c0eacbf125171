"""What the benchmarks share: samples, problems on disk, measured processes, the machine, tables and figures."""

import argparse
import contextlib
import gc
import io
import json
import multiprocessing
import os
import platform
import resource
import signal
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from implicit_bias import Frobenius, GatedFeatures, GroupLasso, MarginProblem, load_binary, load_problem
from implicit_bias._utils.checks import Array, InputError
from implicit_bias._utils.files import write_atomically
from implicit_bias.datasets.images import load_digits, load_images
from implicit_bias.datasets.task import with_constant

#: All labelled images of each data set.
TOTAL = {"digits": 1797, "mnist": 60_000, "fashion-mnist": 60_000}
#: Variables that tell the BLAS of NumPy and SciPy, torch and Clarabel how many threads to use.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")
#: Seconds that a process may take to import the package and read its problem.
START_LIMIT = 600.0
PACKAGES = ("implicit-bias", "numpy", "scipy", "torch", "cvxpy", "clarabel", "ecos", "osqp", "scs")
#: Okabe and Ito's palette.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#000000")


@lru_cache(maxsize=1)
def load_samples(dataset: str, n: int, root: str | None) -> tuple[Array, Array, Array]:
    """Inputs (n, d), labels (n,) and the pool (N, d) of a data set's published split; of all N images for n = N."""
    if n == TOTAL.get(dataset):
        images, labels = load_digits() if dataset == "digits" else load_images(dataset, root)
        X = with_constant(images)
        return X, np.where(labels < 5, 1.0, -1.0), X
    task = load_binary(dataset, n, root=root)
    return task.X_train, task.y_train, task.X_pool


def small_problem(one_group: bool = False) -> MarginProblem:
    """A separable problem of 16 samples, to load libraries and start threads before the clock runs."""
    X = np.random.default_rng(0).standard_normal((16, 5))
    gates = np.eye(4)[np.arange(16) % 2 + 2 * (np.arange(16) % 4 > 1)]
    signs = np.where(X[:, 0] > 0, 1.0, -1.0)
    return MarginProblem(GatedFeatures(X, gates), signs, Frobenius() if one_group else GroupLasso([0, 0, 1, 1]))


def memory_baseline() -> float:
    """Forget the process's peak of memory where the system allows it; the memory in use, in MiB."""
    gc.collect()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return memory_peak()


def memory_peak() -> float:
    """The process's peak of resident memory, in MiB."""
    # Linux hands the parent's ru_maxrss down to a spawned process, so its own high-water mark is read instead.
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def timed_runs(run: Callable[[], Any], repeats: int = 1, begun: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """What the last run gave as `found`, the median, least and most seconds, and the memory beyond that before."""
    before = memory_baseline()
    begun()
    times, found = [], None
    for _ in range(repeats):
        begin = time.perf_counter()
        found = run()
        times.append(time.perf_counter() - begin)
    spread = {"seconds": statistics.median(times), "fastest": min(times), "slowest": max(times)}
    return {"found": found, "memory_mib": memory_peak() - before} | spread


class Child:
    """A process that works and sends what it finds over a connection, and can be killed."""

    def __init__(self, work: Callable[..., None], *args: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: Any = context.Process(target=work, args=(theirs, *args), daemon=True)
        self.process.start()
        theirs.close()

    def answer(self, limit: float) -> Any:
        """The next thing that it sends; `TimeoutError` says why there is none."""
        try:
            if self.connection.poll(limit):
                return self.connection.recv()
        except (EOFError, OSError):
            self.process.join(10)
            raise TimeoutError(f"died with exit code {self.process.exitcode}") from None
        raise TimeoutError(f"killed after {limit:g} s")

    def stop(self) -> None:
        """End it, whatever it does."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def in_process(
    work: Callable[..., dict[str, Any]], problem: Path, settings: dict[str, Any], limit: float, threads: int
) -> dict[str, Any]:
    """`work(problem, begun, **settings)` in a fresh process, which is killed `limit` seconds after it calls `begun()`.

    `problem` is a saved one. The result always holds `outcome`: "ok", or why there is nothing else.
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
    # Ctrl-C is for the parent, which then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        result = work(load_problem(problem), lambda: connection.send({}), **settings)
        connection.send({"outcome": "ok"} | result)
    except Exception as error:
        # Whatever a solver raises is its result.
        connection.send({"outcome": " ".join(f"failed: {type(error).__name__}: {error}".split())[:200]})


def gemm_rate(size: int = 2000) -> float:
    """Floating-point operations a second of NumPy's float64 matrix product: the fastest of some."""
    A = np.random.default_rng(0).random((size, size))
    return 2 * size**3 / float(timed_runs(lambda: A @ A, 4)["fastest"])


def load_average() -> float:
    """Processes that wanted a core in the last minute."""
    return round(os.getloadavg()[0], 2)


def surroundings() -> dict[str, Any]:
    """The versions of the packages, and the machine."""
    names = {"model name": platform.processor() or "unknown"}
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            names[name.strip()] = value.strip()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "versions": {"python": platform.python_version()} | {name: version(name) for name in PACKAGES},
        "machine": {
            "cpu": names["model name"],
            "cores": os.cpu_count(),
            "memory_gib": round(memory, 1),
            "system": f"{platform.system()} {platform.machine()}",
            "load": load_average(),
        },
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def alternately(
    ways: dict[str, Callable[[], Any]], repeats: int, clock: Callable[[], float] = time.perf_counter, untimed: int = 0
) -> tuple[dict[str, float], dict[str, Any]]:
    """Run the ways in turn; return the median seconds of each by a clock, without the first runs, and its result."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    found: dict[str, Any] = {}
    for _ in range(untimed + repeats):
        for name, way in ways.items():
            start = clock()
            found[name] = way()
            times[name].append(clock() - start)
    return {name: statistics.median(values[untimed:]) for name, values in times.items()}, found


def stored_rows(path: str) -> tuple[list[dict[str, Any]], Callable[[dict[str, Any]], None]]:
    """The finished rows of a file, a JSON object a line, and a function that adds one to them and to the file."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []

    def add(row: dict[str, Any]) -> None:
        rows.append(row)
        with file.open("a") as lines:
            lines.write(json.dumps(row) + "\n")

    return rows, add


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    pass


def command_line(description: str | None) -> argparse.ArgumentParser:
    """A parser of options, with the folder of the images among them."""
    parser = argparse.ArgumentParser(description=description, formatter_class=_Help)
    parser.add_argument("--data-root", help="folder of the MNIST files; else IMPLICIT_BIAS_DATA, else data")
    return parser


def repeats_of(description: str | None, default: int) -> int:
    """How often to run each way, from a command line that takes nothing else."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--repeats", type=int, default=default, help="runs of each, of which the median counts")
    repeats: int = parser.parse_args().repeats
    return repeats


def publish(
    out: Path, name: str, parts: list[str], record: dict[str, Any], runs: str, table: pd.DataFrame, figure: Figure
) -> int:
    """Print a report, and write it with its table, its record (the table as `runs`) and its figure; the exit code."""
    text = "\n\n".join(parts) + "\n"
    print(text)
    record = record | {runs: json.loads(table.to_json(orient="records", double_precision=15))}
    contents = {"md": text.encode(), "csv": table.to_csv(index=False).encode()}
    contents |= {"json": json.dumps(record, indent=2).encode(), "png": drawn(figure)}
    for kind, content in contents.items():
        print(f"wrote {write_atomically(out / f'{name}.{kind}', content)}")
    return 130 if record["interrupted"] else 0


def surroundings_line(about: dict[str, Any], threads: str) -> str:
    """`surroundings()` in a sentence."""
    machine = about["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']:g} GiB, {threads}; "
        f"load {machine['load']:g} before; {about['date']}. {versions}."
    )


def markdown(rows: Sequence[dict[str, str]]) -> str:
    """Rows of texts as a Markdown table; numbers to the right."""
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
    """Three significant digits from one second, else two."""
    return f"{seconds:.{0 if seconds >= 100 else 1 if seconds >= 10 else 2}f}" if seconds >= 1 else f"{seconds:#.2g}"


def plain_logarithmic(axis: Axis) -> None:
    """Label a logarithmic axis of few decades with plain numbers."""
    axis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0), numticks=10))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())


def drawn(figure: Figure) -> bytes:
    """A figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def require_samples(dataset: str, n: int) -> None:
    """Refuse, before any work, sizes that a data set does not have."""
    if dataset not in TOTAL:
        raise InputError(f"unknown data set {dataset!r}; known: {', '.join(TOTAL)}")
    most = TOTAL[dataset] - TOTAL[dataset] // 5
    if n > most and n != TOTAL[dataset]:
        raise InputError(f"{dataset} gives at most {most} samples beside its validation set, or all {TOTAL[dataset]}")
