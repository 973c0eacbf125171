"""Thousands of bad and odd inputs over the whole public surface: each must end in a correct answer or a refusal.

Every case is made from (seed, number) alone: what it is about, its inputs, and what the right answer is. It runs in a
worker process with a time limit and ends in one of these ways, of which only the first two are well:

    correct      an answer that independent code has checked
    refused      one of the toolkit's own errors, where the input deserves it
    wrong        a wrong answer, a changed input, a warning, bad input accepted or good input refused
    raised       any other exception
    hung, died   no answer within the time limit; the process ended

    python benchmarks/reliability.py --cases 12000 --seed 1 --jobs 2 --out docs/reliability.md
    python benchmarks/reliability.py --seed 1 --case 1234       # what that case does, and its traceback
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import odd.arrays
import odd.classifiers
import odd.clusters
import odd.dynamics
import odd.eigenvalues
import odd.fields
import odd.files
import odd.galu
import odd.kernels
import odd.nets
import odd.regression
import odd.rings
import odd.solving
import odd.theory
import torch
from common import START_LIMIT, markdown, surroundings, surroundings_line
from odd.draw import Draw, Refused, Wrong
from odd.surface import ENTRIES, uncovered, wheel

#: Seconds that a case may take, and bytes that it may add to its process.
LIMIT, MEMORY = 60.0, 6 * 2**30
WELL = ("correct", "refused")
#: What the report says before its tables.
INTRODUCTION = """\
Bad and odd input over the whole public surface: numbers in every disguise (float16, big-endian, negative strides,
pandas, tensors with gradients …), damage (NaN, masks, ragged lists, complex numbers …), scales from 1e-300 to 1e300,
degenerate samples, odd options, files cut short, with flipped bits or code inside. Written by
`benchmarks/reliability.py`; `--case NUMBER` runs one case alone and tells what it does.

*Correct* is an answer that independent code has checked, *refused* one of our own errors where the input deserves it.
A case is *wrong* if an answer is, if an input was changed, if Python was made to warn, if bad input was accepted or
good input refused; it has *raised* if any other exception came out. Not among the cases: image files that are whole,
downloads, GPUs, the command line, and the CVXPY hooks of norms.""".splitlines()
ANSWERS = """\
Answers of solvers, each judged from the raw inputs in longdouble and, where Φ is small, rational arithmetic.
INACCURATE answers have true bounds with a wider gap than asked: at tolerances of 1e-12, at prices that exceed the
features by fifteen decimal places and more, and of solvers that stop early. NOT_SEPARABLE up to rounding: by less than
1e-13 of the samples' lengths, the documented limit of a proof.""".splitlines()
ENDINGS = (*WELL, "wrong", "raised", "hung", "died")


@dataclass
class Result:
    """How a case ended: what it was about, one of `ENDINGS`, how its answer is counted, and what happened."""

    number: int
    entry: str
    ending: str
    answer: str = ""
    story: list[str] = field(default_factory=list)
    trace: str = ""
    seconds: float = 0.0


def run_case(seed: int, number: int) -> Result:
    """Run one case in this process."""
    entries = wheel()
    entry = entries[number % len(entries)]
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="reliability-") as folder:
        draw = Draw(seed, number, Path(folder))
        ending, answer, trace = "correct", "", ""
        try:
            answer = entry.run(draw)
        except Refused as refusal:
            ending, answer = "refused", str(refusal)
        except Wrong:
            ending, trace = "wrong", traceback.format_exc()
        except Exception:
            # Whatever else a case raises is a finding.
            ending, trace = "raised", traceback.format_exc()
        if (Path(folder) / odd.files.MARKER).exists():
            ending, trace = "wrong", "CODE INSIDE A FILE WAS EXECUTED\n" + trace
    return Result(number, entry.name, ending, answer, draw.story, trace, time.perf_counter() - begin)


# ------------------------------------------------------------------------------------------------------------- workers


def _work(connection: Connection, seed: int) -> None:
    """Run the cases whose numbers come in, until None does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    # Solvers print from C; only the results count.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    _limit_memory()
    connection.send(None)
    while (number := connection.recv()) is not None:
        connection.send(run_case(seed, number))


def _limit_memory() -> None:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        used = pages * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    except (OSError, ValueError):
        # Without it a case that asks for too much memory makes the machine slow instead of failing.
        pass


class Worker:
    """A process that runs cases, and is replaced when one of them does not end."""

    def __init__(self, seed: int) -> None:
        self.seed, self.running = seed, False

    def start(self) -> None:
        """Start the process and wait until it has imported everything."""
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, self.seed), daemon=True)
        self.process.start()
        theirs.close()
        if not self.connection.poll(START_LIMIT):
            raise RuntimeError("a worker did not start")
        self.connection.recv()
        self.running = True

    def run(self, number: int) -> Result:
        """The result of a case, within the time limit."""
        entries = wheel()
        name = entries[number % len(entries)].name
        if not self.running:
            self.start()
        try:
            self.connection.send(number)
            if self.connection.poll(LIMIT):
                result: Result = self.connection.recv()
                return result
            ending, trace = "hung", f"no answer within {LIMIT:g} s"
        except (EOFError, OSError):
            self.process.join(10)
            ending, trace = "died", f"exit code {self.process.exitcode}"
        self.stop()
        return Result(number, name, ending, trace=trace, seconds=LIMIT)

    def stop(self) -> None:
        """End the process, whatever it does."""
        if self.running:
            self.process.kill()
            self.process.join()
            self.connection.close()
        self.running = False


def run_cases(seed: int, numbers: Iterable[int], jobs: int) -> Iterator[Result]:
    """The results of cases in `jobs` processes, as they come."""
    waiting: SimpleQueue[int] = SimpleQueue()
    done: SimpleQueue[Result | Exception] = SimpleQueue()
    count = 0
    for number in numbers:
        waiting.put(number)
        count += 1

    def serve() -> None:
        try:
            worker = Worker(seed)
            try:
                while True:
                    done.put(worker.run(waiting.get_nowait()))
            except Empty:
                worker.stop()
        except Exception as error:
            done.put(error)

    with ThreadPoolExecutor(jobs) as pool:
        for _ in range(jobs):
            pool.submit(serve)
        for _ in range(count):
            result = done.get()
            if isinstance(result, Exception):
                raise result
            yield result


# -------------------------------------------------------------------------------------------------------------- report


def table(results: list[Result]) -> str:
    """Counts of entry × ending, as Markdown."""
    rows = []
    for name in [*ENTRIES, "all"]:
        mine = [r for r in results if name in ("all", r.entry)]
        counts = Counter(r.ending for r in mine)
        rows.append({"case": name, "cases": str(len(mine))} | {e: str(counts[e]) for e in ENDINGS})
    return markdown(rows)


def answers(results: list[Result]) -> str:
    """How the judged answers of solvers ended."""
    counts = Counter(r.answer for r in results if r.ending == "correct" and r.answer != "correct")
    return markdown([{"status": name, "answers": str(count)} for name, count in counts.most_common()])


def report(results: list[Result], command: str, seconds: float, about: dict[str, Any]) -> str:
    """`docs/reliability.md`."""
    bad = [r for r in results if r.ending not in WELL]
    slowest = max(results, key=lambda r: r.seconds)
    lines = [
        "# Reliability",
        "",
        *INTRODUCTION,
        "",
        f"{len(results)} cases of bad and odd input over every public callable, {seconds:.0f} s: "
        f"{len(results) - len(bad)} end well, {len(bad)} do not. "
        f"The slowest took {slowest.seconds:.1f} s ({slowest.entry}); the limit is {LIMIT:g} s.",
        "",
        f"    {command}",
        "",
        surroundings_line(about, "1 thread a process"),
        "",
        table(results),
        "",
        *ANSWERS,
        "",
        answers(results),
    ]
    if bad:
        lines += ["", "Cases that did not end well:", ""]
        lines += [f"- {r.number} ({r.entry}, {r.ending}): {_last_line(r)}" for r in bad[:50]]
    return "\n".join(lines) + "\n"


def _last_line(result: Result) -> str:
    return (result.trace.strip().splitlines() or [""])[-1][:200]


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; the exit code is 1 if a case did not end well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=12_000, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of all cases (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes (default: %(default)s)")
    parser.add_argument("--case", type=int, help="run this one alone and say what it does")
    parser.add_argument("--entry", help="only cases whose entry's name starts so")
    parser.add_argument("--out", type=Path, help="write the report to this file")
    options = parser.parse_args(arguments)
    missing = uncovered()
    if missing:
        print(f"no case is about {', '.join(missing)}", file=sys.stderr)
    if options.case is not None:
        return _one(options.seed, options.case)
    entries = wheel()
    numbers = [i for i in range(options.cases) if entries[i % len(entries)].name.startswith(options.entry or "")]
    about, begin = surroundings(), time.perf_counter()
    results = []
    for result in run_cases(options.seed, numbers, options.jobs):
        results.append(result)
        if result.ending not in WELL:
            print(f"{result.number} {result.entry}: {result.ending}: {_last_line(result)}", flush=True)
        if len(results) % 1000 == 0:
            print(f"{len(results)} of {len(numbers)}, {time.perf_counter() - begin:.0f} s", flush=True)
    results.sort(key=lambda r: r.number)
    command = f"python benchmarks/reliability.py --cases {options.cases} --seed {options.seed} --jobs {options.jobs}"
    text = report(results, command, time.perf_counter() - begin, about)
    if options.out is None:
        print(text)
    else:
        options.out.write_text(text)
    return int(any(r.ending not in WELL for r in results) or bool(missing))


def _one(seed: int, number: int) -> int:
    result = run_case(seed, number)
    print(f"case {number} of seed {seed}: {result.entry}")
    for line in result.story:
        print(f"    {line}")
    print(f"{result.ending}: {result.answer}" if result.ending in WELL else f"{result.ending}\n{result.trace}")
    return int(result.ending not in WELL)


if __name__ == "__main__":
    sys.exit(main())
