"""Time limits and Ctrl-C of everything that can take long, with real signals."""

import functools
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import implicit_bias as ib
from implicit_bias._utils.limits import Deadline, Interruptible
from implicit_bias.extensions.best_networks import best_chains, best_network
from implicit_bias.solvers import Answer, dispatch
from tests.cases import MISSING_SOLVERS, assert_refused

posix = pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
#: Shares of the time of a call after which it gets Ctrl-C.
MOMENTS = [0.3, 0.8, *(pytest.param(share, marks=pytest.mark.long) for share in np.arange(0.05, 1.05, 0.05))]


@pytest.fixture(autouse=True)
def default_handler():
    # A shell that starts the tests in its background has them ignore the signal.
    before, threads = signal.signal(signal.SIGINT, signal.default_int_handler), threading.enumerate()
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)
    # Progress bars have a thread of their own.
    assert {thread.name for thread in threading.enumerate() if thread not in threads} <= {"tqdm_monitor"}
    assert not any(running())


def running():
    """Return the processes of calls, which are children of the servers."""
    servers = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [Path(f"/proc/{one}/task/{one}/children").read_text() for one in servers]


def noise(n, d):
    """Samples with random labels and a constant input."""
    rng = np.random.default_rng(0)
    return np.column_stack([rng.normal(size=(n, d - 1)), np.ones(n)]), np.where(rng.random(n) < 0.5, 1.0, -1.0)


@functools.cache
def gln(n, d, units, C):
    X, y = noise(n, d)
    return ib.svm_gln(X, y, ib.HyperplaneGates(units, 2, seed=1).fit(X), C)


@functools.cache
def dependent():
    """Samples within 1e-7 of a plane: NATIVE is inconclusive, and other solvers try."""
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(80, 10)), np.eye(10)[0]
    y = np.sign(X @ w)
    return ib.svm_shallow(X * (1 - w) + 1e-7 * np.outer(y * rng.uniform(0.5, 1, 80), w), y, ib.ConstantGate())


def descended(**limits):
    X, y = noise(200, 10)
    network = ib.GatedLinearNetwork(ib.HyperplaneGates(20, 2, seed=1).fit(X))
    return ib.descend_to_limit(network, X, y, ib.LossScaled(tolerance=1e-2, **limits))


def chains(**limits):
    X, y = noise(60, 8)
    return best_chains(X, y, ib.HyperplaneGates(10, 2).fit(X), 3, tol=1e-6, nodes=2, **limits)


CALLS = {
    "NATIVE": lambda: ib.solve(gln(800, 20, 20, 1.0), "NATIVE"),
    "CLARABEL": lambda: ib.solve(gln(200, 20, 10, 1.0), "CLARABEL"),
    "ECOS": lambda: ib.solve(gln(200, 20, 10, 1.0), "ECOS"),
    "SCS": lambda: ib.solve(gln(300, 20, 10, 1.0), "SCS", tol=1e-9),
    "PRECISE": lambda: ib.solve(gln(30, 5, 4, 1.0), "PRECISE", tol=1e-12),
    "fallback solvers": lambda: ib.solve(dependent()),
    "path": lambda: ib.margin_path(gln(400, 20, 20, 1.0), [1.0, 0.3, 0.1, 0.03]),
    "network": lambda: best_network(*noise(14, 6)),
    "chains": chains,
    "descent": descended,
}


@functools.cache
def timed(call):
    """Return what a call returns that nothing ends, and its seconds."""
    call()
    begin = time.perf_counter()
    return call(), time.perf_counter() - begin


def struck(call, after):
    """Return what a call returns that gets Ctrl-C after some seconds, or later."""
    found, timer = None, threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        found = call()
        timer.cancel()
        timer.join()
    except KeyboardInterrupt:
        # After the call, the signal is that of the test alone.
        assert found is not None
    return found


@posix
@pytest.mark.parametrize("share", MOMENTS)
@pytest.mark.parametrize("name", CALLS)
def test_ctrl_c_gives_the_best_answer_so_far(name, share):
    whole, seconds = timed(CALLS[name])
    found = struck(CALLS[name], share * seconds)
    if isinstance(found, ib.Solution):
        assert found.status in (ib.Status.INTERRUPTED, whole.status)
        assert found.lower_bound <= whole.objective * (1 + 1e-9)
    elif isinstance(found, list):
        # Between two solves, Ctrl-C interrupts none of them.
        assert [one.status for one in found][:-1] == [ib.Status.OPTIMAL] * (len(found) - 1)
        assert found[-1].status in (ib.Status.OPTIMAL, ib.Status.INTERRUPTED)
        assert len(found) <= len(whole)
    elif name == "descent":
        assert found.end in ("interrupted", whole.end)
        assert len(found.table) >= 2
    else:
        assert found.end in ("interrupted", whole.end)
        assert found.lower_bound <= whole.objective * (1 + 1e-9)
        assert whole.lower_bound <= found.objective * (1 + 1e-9)


@posix
def test_ctrl_c_while_the_answer_is_certified(monkeypatch):
    """The finished answer is kept, and the status ends a loop of solves."""
    case, certify = gln(60, 5, 5, 1.0), dispatch.certify

    def struck_before(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return certify(*arguments)

    monkeypatch.setattr(dispatch, "certify", struck_before)
    found = ib.solve(case)
    assert found.gap < 1e-6
    assert found.status is ib.Status.INTERRUPTED
    assert len(ib.margin_path(case, [1.0, 0.1])) == 1


@posix
def test_ctrl_c_in_a_solver_of_the_user():
    def endless(problem, options):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(100)

    def careful(problem, options):
        try:
            endless(problem, options)
        except KeyboardInterrupt:
            return Answer(np.ones((1, 1)), np.ones(2), 1, ib.Status.INTERRUPTED)

    problem = ib.svm_gln([[2.0], [-1.0]], [1, -1], ib.ConstantGate())
    assert ib.solve(problem, endless).status is ib.Status.INTERRUPTED
    found = ib.solve(problem, careful)
    assert (found.status, found.objective) == (ib.Status.INTERRUPTED, pytest.approx(1.0))


@posix
def test_a_second_ctrl_c_leaves_all_blocks():
    reached = []

    def struck_twice():
        with Deadline() as outer, Interruptible(), Deadline() as inner:
            os.kill(os.getpid(), signal.SIGINT)
            reached.append((outer.reason, inner.reason))
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("beyond")

    with pytest.raises(KeyboardInterrupt):
        struck_twice()
    assert reached == [("interrupted", "interrupted")]


@posix
def test_ctrl_c_in_a_callback_ends_the_callback():
    def callback():
        os.kill(os.getpid(), signal.SIGINT)
        reached.append("beyond")

    reached = []
    with Deadline() as deadline:
        assert deadline.part(0.5).call(callback) is None
        assert deadline.reason == "interrupted"
    assert not reached
    assert Deadline().call(max, 1, 2) == 2


@posix
def test_other_handlers_and_threads_keep_theirs():
    heard = []
    signal.signal(signal.SIGINT, lambda *_: heard.append(1))
    with Deadline() as deadline:
        os.kill(os.getpid(), signal.SIGINT)
        assert (heard, deadline.passed()) == ([1], False)
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def inside():
        with Deadline():
            heard.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert heard[1:] == [signal.default_int_handler]


@posix
def test_a_forked_process_ends_at_ctrl_c():
    with Deadline():
        child = os.fork()
        if not child:
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(10)
            except KeyboardInterrupt:
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_the_time_left_and_its_parts():
    deadline = Deadline(100.0)
    assert 99 < deadline.left() <= 100
    assert 49 < deadline.part(0.5).left() <= 50
    assert not deadline.passed()
    assert deadline.passed(ahead=101.0)
    over = Deadline(1e-9)
    assert (over.reason, over.left()) == ("max_seconds", 1e-9)
    assert Deadline().left() is None
    assert Deadline(np.inf).left() is None
    assert_refused(lambda: Deadline(-1.0), "max_seconds must be a positive number")


#: Calls that take many seconds without a limit, for a limit of some seconds.
LIMITED = {
    "NATIVE": lambda seconds: ib.solve(gln(3000, 40, 40, 1.0), max_seconds=seconds),
    "CLARABEL": lambda seconds: ib.solve(gln(1000, 30, 30, 1.0), "CLARABEL", max_seconds=seconds),
    "ECOS": lambda seconds: ib.solve(gln(600, 30, 30, 1.0), "ECOS", max_seconds=seconds),
    "PRECISE": lambda seconds: ib.solve(gln(40, 10, 10, 1.0), "PRECISE", tol=1e-12, max_seconds=seconds),
    "path": lambda seconds: ib.margin_path(gln(1500, 30, 30, 1.0), np.geomspace(1e-3, 10, 10), max_seconds=seconds),
    "network": lambda seconds: best_network(*noise(150, 8), max_seconds=seconds),
    "wide network": lambda seconds: best_network(*noise(100, 30), C=1.0, max_seconds=seconds),
    "chains": lambda seconds: chains(max_seconds=seconds),
    "descent": lambda seconds: descended(max_seconds=seconds),
    "classes": lambda seconds: ib.GLNClassifier(20, max_seconds=seconds, random_state=1).fit(
        noise(1000, 20)[0], np.arange(1000) % 8
    ),
    "search": lambda seconds: ib.MarginClassifierCV(
        ib.GLNClassifier(20, random_state=1), Cs=3, cv=3, max_seconds=seconds
    ).fit(*noise(1000, 20)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", LIMITED)
def test_time_limits_hold(name):
    """Generously, for machines that are slow or busy: in processor time, which a set-up of the problem adds to."""
    LIMITED[name](1e-9)
    begin = time.process_time()
    LIMITED[name](0.25)
    assert time.process_time() - begin < 3.0


#: CLARABEL is the last solver, because threads of it would abort the exit.
ENDED = """
import os, signal, sys, threading
import numpy as np
from implicit_bias import HyperplaneGates, solve, svm_shallow

signal.signal(signal.SIGINT, signal.default_int_handler)
X = np.random.default_rng(0).normal(size=(2500, 40))
case = svm_shallow(X, np.sign(X[:, 0] + 1e-3), HyperplaneGates(10, 2, seed=1).fit(X))
for name in sorted(sys.argv[1:], key="CLARABEL".__eq__):
    # The first solver that CVXPY calls is still loading then.
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    struck = solve(case, name, tol=1e-15)
    timer.join()
    limited = solve(case, name, tol=1e-15, max_seconds=0.1)
    print(limited.status.name, struck.status.name, threading.active_count())
"""


@posix
def test_a_process_exits_after_limits_of_every_solver():
    names = [name for name in ib.solver_names() if name not in MISSING_SOLVERS]
    done = subprocess.run([sys.executable, "-c", ENDED, *names], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["TIME_LIMIT INTERRUPTED 1"] * len(names)
