"""Engines that compute cells: this process, local processes, or a Dask cluster."""

import hashlib
import os
import platform
import queue
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from functools import cache
from importlib.util import find_spec
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import joblib

import implicit_bias
from implicit_bias._utils.checks import InputError, as_count
from implicit_bias._utils.limits import Interruptible
from implicit_bias._utils.outlets import outlets
from implicit_bias._utils.threads import one_thread
from implicit_bias.studies.runner.cells import Cell, Result
from implicit_bias.studies.runner.experiment import Rows

#: Function from cells to their results, in any order.
Engine = Callable[[list[Cell]], Iterator[tuple[Cell, Result]]]
#: Losses of local processes in a row, without a finished cell between them, after which a run ends.
ATTEMPTS = 3
#: Seconds in which a Dask scheduler must answer.
ANSWER = 10.0
#: Checks in a row, one second apart, that find no workers of a cluster, after which a run ends.
PATIENCE = 60


def compute(cell: Cell, one_core: bool = True) -> Result:
    """Compute a cell in this process and return its result, with one thread of linear algebra if `one_core`.

    After Ctrl-C, raises KeyboardInterrupt. If the function `rows` of the experiment raised the exception with its rows
    so far as argument, the new exception has the pair (cell, partial result) as argument.
    """
    start = time.perf_counter()

    def result(rows: Rows) -> Result:
        return Result(rows, round(time.perf_counter() - start, 3), machine_kind())

    with Interruptible() as run, one_thread() if one_core else nullcontext():
        return result(cell.experiment.rows(cell.settings, *cell.data()))
    raise KeyboardInterrupt(*((cell, result(rows)) for rows in run.carried))


def machine_kind() -> str:
    """Return a description of this machine for records: system, architecture and number of cores."""
    return f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"


def local(jobs: int = 1, scheduler: str | None = None, *, attempts: int = ATTEMPTS) -> Engine:
    """Return an engine that computes in `jobs` local processes, one core each.

    With one job or one cell, the engine computes in this process, with all threads. A cell whose process is lost
    (killed, or out of memory) is computed again; after `attempts` losses in a row the engine raises InputError. Raises
    InputError if `scheduler` is given, because only the Dask engine has one.
    """
    if scheduler:
        raise InputError(f"--scheduler {scheduler} is for the dask engine; add --engine dask")
    as_count(jobs, "jobs")

    def engine(work: list[Cell]) -> Iterator[tuple[Cell, Result]]:
        if jobs == 1 or len(work) == 1:
            for cell in work:
                yield cell, compute(cell, False)
            return
        losses, remaining = 0, list(work)
        while remaining:
            # Unordered, so that an interruption keeps every finished cell.
            parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
            done = set()
            try:
                with _interrupts_are_ours():
                    results = parallel(joblib.delayed(_indexed)(i, cell) for i, cell in enumerate(remaining))
                for index, result in results:
                    done.add(index)
                    yield remaining[index], result
            except BrokenProcessPool:
                losses = 0 if done else losses + 1
                if losses == attempts:
                    raise InputError(
                        f"a worker process was lost {losses} times in a row (killed, or out of memory); "
                        "finished cells are stored: run again, with fewer --jobs"
                    ) from None
            remaining = [cell for i, cell in enumerate(remaining) if i not in done]

    return engine


@contextmanager
def _interrupts_are_ours() -> Iterator[None]:
    """Block SIGINT in processes started in this context: only this process handles Ctrl-C, without tracebacks."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Started in the block, Python's tracker of shared memory would unblock the signal.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _indexed(index: int, cell: Cell) -> tuple[int, Result]:
    """Return `index` and the result of a cell, because results arrive in any order; ignore closed output streams."""
    with outlets():
        return index, compute(cell)


def dask(
    scheduler: str | None, *, answer: float = ANSWER, patience: int = PATIENCE, version: str | None = None
) -> Engine:
    """Return an engine that computes on a running Dask cluster, one cell at a time on each thread of a worker.

    Workers need the image files (`IMPLICIT_BIAS_DATA`, or the same `data_root`) and this package with the same
    `version`, by default `installed()`. Results are sent to this process, which stores them; workers and this process
    share no files. A cell whose worker is lost is computed by another worker.

    Raises InputError if `scheduler` is not given or dask is not installed. The engine raises InputError if no scheduler
    answers within `answer` seconds, `patience` checks, one second apart, find no worker, or a worker runs other code.
    """
    if not scheduler:
        raise InputError("the dask engine needs the address of a running scheduler: --scheduler tcp://host:8786")
    try:
        import distributed
    except ImportError:
        raise InputError("the dask engine needs dask: pip install 'implicit-bias[dask]'") from None

    def engine(work: list[Cell]) -> Iterator[tuple[Cell, Result]]:
        client = _connect(distributed, scheduler, answer)
        # A queue, because only a wait that ends can notice that the last worker is gone.
        finished: queue.Queue[Any] = queue.Queue()
        futures: dict[Any, Cell] = {}
        try:
            for cell in work:
                future = client.submit(compute_there, cell, version or installed(), pure=False)
                futures[future] = cell
                future.add_done_callback(finished.put)
            for _ in work:
                future = _next(client, finished, patience)
                yield futures[future], _outcome(distributed, future, futures[future])
        finally:
            client.cancel(list(futures), force=True)
            client.close(timeout=5)

    return engine


@cache
def installed() -> str:
    """Return the package's version and a checksum of its Python files, to compare the code of two machines."""
    folder = Path(implicit_bias.__file__).parent
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        total.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return f"{implicit_bias.__version__}-{total.hexdigest()[:12]}"


def compute_there(cell: Cell, wanted: str) -> Result:
    """Compute a cell on a Dask worker; raise InputError if its `installed()` is not the wanted version."""
    if installed() != wanted:
        here = platform.node()
        raise InputError(f"the worker {here} runs other code ({installed()}, not {wanted}); install the same version")
    return compute(cell)


def _connect(distributed: Any, scheduler: str, answer: float) -> Any:
    try:
        distributed.comm.get_address_host_port(scheduler)
        client = distributed.Client(scheduler, timeout=answer, set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"no Dask scheduler answers at {scheduler} ({reason}); check the address") from None
    if not client.scheduler_info()["workers"]:
        client.close()
        raise InputError(f"the Dask scheduler at {scheduler} has no workers; start some with: dask worker {scheduler}")
    return client


def _next(client: Any, finished: queue.Queue[Any], patience: int) -> Any:
    deserted = 0
    while True:
        try:
            return finished.get(timeout=1.0)
        except queue.Empty:
            deserted = 0 if client.scheduler_info()["workers"] else deserted + 1
            if deserted >= patience:
                raise InputError(
                    "no Dask worker is left; finished cells are stored: start some and run again"
                ) from None


def _outcome(distributed: Any, future: Any, cell: Cell) -> Result:
    """Return the result of a future, or raise the exception of its cell; InputError if worker or scheduler is lost."""
    try:
        result: Result = future.result()
    except distributed.KilledWorker:
        raise InputError(
            f"{cell} lost its worker again and again (out of memory?); finished cells are stored"
        ) from None
    except ImportError as error:
        raise InputError(f"a Dask worker lacks what it needs ({error}); install this package there") from None
    except (distributed.comm.CommClosedError, distributed.client.FutureCancelledError):
        raise InputError("the Dask scheduler is gone; finished cells are stored: run again") from None
    return result


def installed_engines() -> list[str]:
    """Return the names of the engines whose packages are installed."""
    return [name for name in ENGINES if name != "dask" or find_spec("distributed") is not None]


#: Engines by name: functions from the number of local processes and the scheduler's address to the engine.
ENGINES: dict[str, Callable[[int, str | None], Engine]] = {
    "local": local,
    "dask": lambda jobs, scheduler: dask(scheduler),
}
