"""Processes forked after torch has used its threads, which children lack: Linux's default before Python 3.14."""

import multiprocessing
import threading

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

import implicit_bias as ib
from implicit_bias._utils.threads import in_threads, one_thread, thread_count
from implicit_bias.extensions.galu import least_squares
from tests.cases import optimal

if "fork" not in multiprocessing.get_all_start_methods():
    pytest.skip("this system does not fork", allow_module_level=True)
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
#: Seconds after which a child that has not answered hangs. Nothing waits for so long.
HANGS = 120


@pytest.fixture
def samples():
    """Return 1000 samples, which the native solver takes at once, with all threads; torch's two threads have run."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    assert torch.mm(torch.ones(1500, 1500), torch.ones(1500, 1500))[0, 0] == 1500
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 12))
    yield X, np.where(X[:, 0] + 0.1 > 0, 1.0, -1.0)
    torch.set_num_threads(before)


def solved(X, y, C):
    found = optimal(ib.svm_gln(X, y, ib.HyperplaneGates(3, 2, seed=1), C))
    return found.objective


def large(X, y):
    X = np.vstack([X, X + 1e-3, 1.1 * X, 1.2 * X])
    return solved(X, np.tile(y, 4), 1.0)


def trained(X, y):
    network = ib.ReLUNetwork(12, 300, seed=1)
    ib.train(network, X, y, ib.SGD(steps=3, batch_size=len(X)))
    return ib.descend_to_limit(network, X, y, ib.LossScaled(max_steps=5)).table.log_loss.iloc[-1]


#: What a child may be asked for: our solvers, training, torch alone.
WORK = {
    "hard": lambda X, y: solved(X, y, np.inf),
    "soft": lambda X, y: solved(X, y, 1.0),
    "many samples": large,
    "learned gates": lambda X, y: ib.solve(ib.svm_lc(X, y, ib.ReLUNetwork(12, 3, seed=1), 1.0)).objective,
    "least squares": lambda X, y: least_squares(ib.HyperplaneGates(3, 2).fit(X)(X), y).loss,
    "training": trained,
    "torch": lambda X, y: float((torch.as_tensor(np.tile(X, (5, 100))) @ torch.ones(1200, 900).double()).sum()),
}


def forked(work, *arguments):
    """Return the result of `work` in a forked child; fail if it does not return within `HANGS` seconds."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=lambda: theirs.send(work(*arguments)))
    child.start()
    theirs.close()
    try:
        assert ours.poll(HANGS), "the child hangs"
        return ours.recv()
    finally:
        child.kill()
        child.join()


@pytest.mark.parametrize("name", WORK)
def test_a_forked_child_answers_as_its_parent(samples, name):
    assert WORK[name](*samples) == pytest.approx(forked(WORK[name], *samples), rel=1e-5)
    assert torch.get_num_threads() == 2


def test_children_of_children_and_of_a_solve(samples):
    again = lambda: forked(WORK["soft"], *samples)  # noqa: E731
    assert forked(again) == pytest.approx(WORK["soft"](*samples), rel=1e-5)
    found = []

    def inside(progress):
        if not found:
            found.append(forked(lambda: (WORK["hard"](*samples), torch.get_num_threads())))

    ib.solve(ib.svm_gln(*samples, ib.HyperplaneGates(3, 2, seed=1)), callback=inside)
    assert found[0][1] == 1


def test_child_of_a_block_with_one_thread(samples):
    block = one_thread()
    block.__enter__()

    def leave():
        block.__exit__(None, None, None)
        return torch.get_num_threads(), WORK["torch"](*samples)

    assert forked(leave)[0] == 1
    block.__exit__(None, None, None)
    assert torch.get_num_threads() == 2


def test_as_many_threads_as_blas_has():
    """Two calls meet if they run at the same time, each with one thread of BLAS."""
    meeting, counts = threading.Barrier(2, timeout=HANGS), []

    def met(_):
        meeting.wait()
        counts.append(thread_count())

    with threadpool_limits(2, "blas"):
        in_threads(met, range(4))
        assert thread_count() == 2
    assert counts == [1] * 4


def test_fewer_threads():
    meeting = threading.Barrier(2, timeout=0.2)
    with threadpool_limits(2, "blas"), pytest.raises(threading.BrokenBarrierError):
        in_threads(lambda _: meeting.wait(), range(2), 1)
