"""More images than memory: SVM-GLN over MNIST's images and distorted copies of them, bytes on disk; see --help.

Each size runs in a process of its own. Seconds are of the processor, which other work on the machine changes little,
and of the wall; memory is the process's peak, libraries and the pages of the file among it.
"""

import argparse
import time
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from common import Child, command_line, markdown, memory_peak, surroundings, surroundings_line
from threadpoolctl import threadpool_limits

from implicit_bias import ChunkedInputs, HyperplaneGates, Solution, solve, svm_gln
from implicit_bias.cli.execution import guarded
from implicit_bias.datasets import distorted_images
from implicit_bias.solvers import Progress

COLUMNS = (
    *("n", "status", "gap", "objective", "iterations", "support vectors"),
    *("built, s", "solved, s", "of the wall", "peak, GiB"),
)
#: Seconds after which a size is given up: ten days.
LONGEST = 864_000.0
#: What scales bytes to [−1, 1], with the constant input.
PIXELS: dict[str, Any] = {"scale": 2 / 255, "offset": -1.0, "constant": True}


def measure(connection: Connection, n: int, options: argparse.Namespace) -> None:
    """Build and solve the problem of n images; send the row of the table."""
    with threadpool_limits(options.threads):
        images, labels = distorted_images(options.dataset, n, options.folder, options.data_root)
        begin = time.process_time()
        X = ChunkedInputs(images, **PIXELS)
        gates = HyperplaneGates(options.units, 2, seed=1).fit(X)
        problem = svm_gln(X, np.where(labels < 5, 1.0, -1.0), gates)
        built, start = time.process_time(), time.perf_counter()

        def told(progress: Progress) -> None:
            print(progress, f"{time.process_time() - built:.0f} s of the processor", flush=True)

        found = solve(problem, "NATIVE", tol=options.tol, max_seconds=options.max_seconds, callback=told)
    connection.send(row(n, found, built - begin, time.process_time() - built, time.perf_counter() - start))


def row(n: int, found: Solution, built: float, solved: float, wall: float) -> dict[str, str]:
    """A row of the table."""
    numbers = f"{found.gap:.1e}", f"{found.objective:.7g}", str(found.iterations), str(len(found.support))
    peak = f"{memory_peak() / 1024:.2f}"
    cells = (str(n), found.status.name, *numbers, f"{built:.1f}", f"{solved:.0f}", f"{wall:.0f}", peak)
    return dict(zip(COLUMNS, cells, strict=True))


def main() -> int:
    """Run the sizes one after the other and print their table."""
    parser = command_line(__doc__)
    add = parser.add_argument
    add("--sizes", nargs="+", type=int, default=[24_000, 60_000, 240_000], metavar="N", help="of images")
    add("--units", type=int, default=100, help="H, of two contexts each")
    add("--tol", type=float, default=1e-4, help="the relative gap asked for")
    add("--threads", type=int, default=1)
    add("--max-seconds", type=float, help="after which a solve ends with its best answer so far")
    add("--dataset", default="mnist", help="mnist or fashion-mnist")
    add("--folder", default="results/images", help="where the bytes are written, 784 an image")
    options = parser.parse_args()
    return guarded(lambda: run(options))


def run(options: argparse.Namespace) -> int:
    """Every size in a process of its own."""
    rows = []
    about = surroundings()
    for n in options.sizes:
        # Files that are missing are told of here, not by a process that dies.
        distorted_images(options.dataset, n, options.folder, options.data_root)
        child = Child(measure, n, options)
        try:
            rows.append(child.answer(LONGEST))
        finally:
            child.stop()
        print(markdown(rows), flush=True)
    print(surroundings_line(about, f"{options.threads} threads"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
