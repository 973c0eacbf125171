"""More images than memory: SVM-GLN over MNIST's images and distorted copies of them, bytes on disk; see --help.

Each size runs in a process of its own. Seconds are of the processor, which other work on the machine changes little,
and of the wall; memory is the process's peak, libraries and the pages of the file among it.
"""

import argparse
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from common import Child, memory_peak, run
from threadpoolctl import threadpool_limits

from implicit_bias import ChunkedInputs, HyperplaneGates, solve, svm_gln
from implicit_bias.datasets import distorted_images
from implicit_bias.solvers import Progress

#: Seconds after which a size is given up: ten days.
LONGEST = 864_000.0
#: What scales bytes to [−1, 1], with the constant input.
PIXELS: dict[str, Any] = {"scale": 2 / 255, "offset": -1.0, "constant": True}


def measure(connection: Connection, n: int, options: argparse.Namespace) -> None:
    """Build and solve the problem of n images; send the row of the table, a dictionary of texts."""
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
    connection.send(
        {
            "n": str(n),
            "status": found.status.name,
            "gap": f"{found.gap:.1e}",
            "objective": f"{found.objective:.7g}",
            "iterations": str(found.iterations),
            "support vectors": str(len(found.support)),
            "built, s": f"{built - begin:.1f}",
            "solved, s": f"{time.process_time() - built:.0f}",
            "of the wall": f"{time.perf_counter() - start:.0f}",
            "peak, GiB": f"{memory_peak() / 1024:.2f}",
        }
    )


def report(options: argparse.Namespace) -> Iterator[Any]:
    """Yield the table after each size, which is measured in its own process."""
    rows = []
    for n in options.sizes:
        # Missing files raise an error here, and not in the process that measures.
        distorted_images(options.dataset, n, options.folder, options.data_root)
        child = Child(measure, n, options)
        try:
            rows.append(child.answer(LONGEST))
        finally:
            child.stop()
        yield rows


if __name__ == "__main__":
    run(
        __doc__,
        report,
        "threads as asked for",
        sizes=([24_000, 60_000, 240_000], "of images"),
        units=(100, "H, of two contexts each"),
        tol=(1e-4, "the relative gap asked for"),
        threads=(1, "of a solve"),
        max_seconds={"type": float, "help": "after which a solve ends with its best answer so far"},
        dataset=("mnist", "mnist or fashion-mnist"),
        folder=("results/images", "where the bytes are written, 784 an image"),
    )
