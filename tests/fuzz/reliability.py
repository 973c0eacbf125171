"""Thousands of bad and unusual inputs over the whole public surface: each must end in a correct answer or a refusal.

Every case is made from (seed, number) alone: what it is about, its inputs, and what the right answer is. It runs in a
worker process with a time limit and ends in one of these ways, of which only the first two are well:

    correct      an answer that independent code has checked
    refused      one of the toolkit's own errors, where the input deserves it
    wrong        a wrong answer, a changed input, a warning, bad input accepted or good input refused
    raised       any other exception
    hung, died   no answer within the time limit; the process ended

    python tests/fuzz/reliability.py --cases 12000 --audit 12000 --seed 1 --jobs 2 --out docs/reliability.md
    python tests/fuzz/reliability.py --seed 1 --audit-case 7    # a problem of the audit as Python, and its answer
    python tests/fuzz/reliability.py --seed 1 --case 1234       # what that case does, and its traceback
"""

import argparse
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from common import START_LIMIT, Child, markdown, surroundings  # noqa: E402

from tests.fuzz import audit  # noqa: E402
from tests.fuzz.draw import MARKER, Draw, Refused, Wrong  # noqa: E402
from tests.fuzz.table import AREAS, ENTRIES, Entry, load_entries, uncovered, wheel  # noqa: E402

load_entries()

#: Seconds that a case may take.
LIMIT = 60.0
#: Bytes that a case may add to its process.
MEMORY = 6 * 2**30
WELL = ("correct", "refused")
#: What the report says after its first sentences.
INTRODUCTION = """\
**How sure.** Independent code checked every *correct* answer: solvers' in rational arithmetic, others by what must
hold. *Refused*: bad input raised one of our own errors. A case is *wrong* if its answer is wrong,
an input was changed, Python warned, bad input was accepted or good input refused. *Raised*: any other exception. Not
covered: whole image files, downloads, GPUs, the command line."""
CASES = """\
Inputs: numbers in many types (float16, pandas, tensors …), damaged (NaN, masks, ragged lists …), from 1e-300 to
1e300, or degenerate. Files have flipped bits or code inside. `--case NUMBER` runs one case."""
ANSWERS = "Statuses of solvers' answers. INACCURATE ones have true bounds, but a gap above the tolerance."
ENDINGS = (*WELL, "wrong", "raised", "hung", "died")


@dataclass
class Result:
    """Result of a case: its entry, one of `ENDINGS`, how its answer is counted, and its story."""

    number: int
    entry: str
    ending: str
    answer: str = ""
    story: list[str] = field(default_factory=list)
    trace: str = ""
    seconds: float = 0.0


def run_case(seed: int, number: int) -> Result:
    entries = wheel()
    result = run_entry(entries[number % len(entries)], Random(f"{seed}/{number}"))
    result.number = number
    return result


def run_entry(entry: Entry, random: Random) -> Result:
    begin = time.perf_counter()
    # Estimators without a random_state draw from NumPy's global generator.
    np.random.seed(0)  # noqa: NPY002
    with tempfile.TemporaryDirectory(prefix="reliability-") as folder:
        draw = Draw(random, Path(folder))
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
        if (Path(folder) / MARKER).exists():
            ending, trace = "wrong", "CODE INSIDE A FILE WAS EXECUTED\n" + trace
    return Result(0, entry.name, ending, answer, draw.story, trace, time.perf_counter() - begin)


# ------------------------------------------------------------------------------------------------------------- workers


def _work(connection: Connection, seed: int, run: Callable[[int, int], Any] = run_case) -> None:
    """Run the cases whose numbers arrive, with limited memory and no output except results."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    threadpool_limits(1, user_api="blas")
    # Solvers print from C.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    if Path("/proc/self/statm").exists():
        # Without it a case that asks for too much memory makes the machine slow instead of failing.
        used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    connection.send(None)
    while True:
        connection.send(run(seed, connection.recv()))


def run_cases(
    seed: int, numbers: Iterable[int], jobs: int, work: Callable[[Connection, int], None] = _work, limit: float = LIMIT
) -> Iterator[Any]:
    """Return the results of cases in `jobs` processes, in order; a process whose case does not end is replaced."""
    idle: SimpleQueue[Child | None] = SimpleQueue()

    def run(number: int) -> Any:
        child = idle.get()
        try:
            if child is None:
                child = Child(work, seed)
                child.answer(START_LIMIT)
            child.connection.send(number)
            return child.answer(limit)
        except (TimeoutError, OSError) as error:
            stop(child)
            child, ending = None, "hung" if "killed" in str(error) else "died"
            return Result(number, wheel()[number % len(wheel())].name, ending, trace=str(error), seconds=limit)
        finally:
            idle.put(child)

    for _ in range(jobs):
        idle.put(None)
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(run, numbers)
    for _ in range(jobs):
        stop(idle.get())


def stop(child: Child | None) -> None:
    if child is not None:
        child.stop()


# -------------------------------------------------------------------------------------------------------------- report


def report(results: list[Result], command: str, about: str) -> str:
    """Return the text of `docs/reliability.md`."""
    bad, slowest = [r for r in results if r.ending not in WELL], max(results, key=lambda r: r.seconds)
    rows = []
    for area, names in [*AREAS.items(), ("all", list(ENTRIES))]:
        counts = Counter(r.ending for r in results if r.entry in names)
        rows.append({"cases about": area, "number": str(counts.total())} | {e: str(counts[e]) for e in ENDINGS})
    judged = Counter(r.answer for r in results if r.ending == "correct" and r.answer != "correct")
    answers = [{"status": name, "answers": str(count)} for name, count in judged.most_common()]
    question = "**Does bad or unusual input over the whole public surface end in a correct answer or a refusal?**"
    found = (
        f"**{'Yes' if not bad else 'Not always'}.** Of {len(results)} cases about all {len(ENTRIES)} kinds of calls, "
        f"{len(results) - len(bad)} end well and {len(bad)} do not. The slowest took {slowest.seconds:.1f} s "
        f"({slowest.entry}); the limit is {LIMIT:g} s."
    )
    page = ["# Reliability", question, found, INTRODUCTION, markdown(rows), CASES, f"    {command}"]
    page += [about, ANSWERS, markdown(answers)]
    if bad:
        lines = [f"- {r.number} ({r.entry}, {r.ending}): {_last_line(r)}" for r in bad[:50]]
        page += ["Cases that did not end well:", "\n".join(lines)]
    return "\n\n".join(page) + "\n"


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
    parser.add_argument("--audit", type=int, default=12_000, help="margin problems to audit (default: %(default)s)")
    parser.add_argument("--audit-case", type=int, help="solve this one alone and print it as Python")
    parser.add_argument("--out", type=Path, help="write the report to this file")
    options = parser.parse_args(arguments)
    if missing := uncovered():
        print(f"no case is about {', '.join(missing)}", file=sys.stderr)
    if options.case is not None:
        result = run_case(options.seed, options.case)
        print("\n    ".join([f"case {options.case} of seed {options.seed}: {result.entry}", *result.story]))
        print(f"{result.ending}: {result.answer}\n{result.trace}")
        return int(result.ending not in WELL)
    if options.audit_case is not None:
        return audit.told(options.seed, options.audit_case)
    entries = wheel()
    numbers = [i for i in range(options.cases) if entries[i % len(entries)].name.startswith(options.entry or "")]
    about, begin = surroundings("1 thread per process"), time.perf_counter()
    results = []
    for result in run_cases(options.seed, numbers, options.jobs):
        results.append(result)
        if result.ending not in WELL:
            print(f"{result.number} {result.entry}: {result.ending}: {_last_line(result)}", flush=True)
        if len(results) % 1000 == 0:
            print(f"{len(results)} of {len(numbers)}, {time.perf_counter() - begin:.0f} s", flush=True)
    answers = run_cases(options.seed, range(options.audit), options.jobs, partial(_work, run=audit.run_case))
    audited = [audit.ended(options.seed, answer) for answer in answers]
    command = f"python tests/fuzz/reliability.py --cases {options.cases} --audit {options.audit} --seed {options.seed}"
    text = report(results, f"{command} --jobs {options.jobs}", about)
    text += "\n\n".join(["", *(p if isinstance(p, str) else markdown(p) for p in audit.report(audited))]) + "\n"
    if options.out is None:
        print(text)
    else:
        options.out.write_text(text)
    return int(any(r.ending not in WELL for r in results) or any(r.faults for r in audited) or bool(missing))


if __name__ == "__main__":
    sys.exit(main())
