"""The native solver's answers, limits and memory, on small problems."""

import dataclasses
import os
import signal
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import implicit_bias as ib
from implicit_bias._utils import limits
from implicit_bias.solvers import separability as farkas
from implicit_bias.solvers.native.interior_point import NewtonSystem
from tests.cases import interrupt, optimal, problem
from tests.solvers.native.shapes import in_our_coordinates


@pytest.mark.parametrize("e", [1e-3, 1e-4])
def test_near_conflicts_are_separated(e):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(10, 12))
        X[1] = X[0] + e * rng.normal(size=12)
        y = np.where(rng.random(10) > 0.5, 1.0, -1.0)
        y[:2] = 1.0, -1.0
        optimal(ib.MarginProblem(ib.GatedFeatures(X), y, ib.Frobenius()), "NATIVE")


def test_no_weights_are_best_when_slack_is_cheap(gln):
    found = optimal(dataclasses.replace(gln, C=1e-7), "NATIVE")
    assert found.objective == pytest.approx(300 * 1e-7)
    assert not found.weights.any()


def test_the_time_limit_gives_the_best_answer_so_far(gln):
    found = ib.solve(gln, "NATIVE", tol=1e-9, max_seconds=1e-9)
    assert found.status is ib.Status.TIME_LIMIT
    assert found.iterations == 0
    assert 0 < found.lower_bound <= ib.solve(gln).objective


def test_an_iteration_that_would_overrun_the_time_limit(gln, monkeypatch):
    """The solver ends before an iteration that would overrun the limit if it took as long as the last."""
    now, moved, seen = [1.0], NewtonSystem.moved, []

    def slowly(system, direction):
        now[0] *= 3
        return moved(system, direction)

    monkeypatch.setattr(NewtonSystem, "moved", slowly)
    monkeypatch.setattr(limits, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    found = ib.solve(gln, "NATIVE", tol=1e-9, max_seconds=40.0, callback=seen.append)
    assert found.status is ib.Status.TIME_LIMIT
    # At 26 s the next one would end at 44 s even if it took no longer than the last.
    assert [p.seconds for p in seen] == [0, 2, 8, 26]


def test_a_step_without_memory_is_refused_before_it_starts(gln, monkeypatch):
    need = in_our_coordinates(gln).bytes_needed(300)
    for free, refused in ((0.99 * need, True), (1.01 * need, False)):
        monkeypatch.setattr(limits, "free_memory", lambda free=free: free)
        with pytest.raises(ib.InputError, match=r"needs about 0.0 GiB .* use fewer") if refused else nullcontext():
            assert ib.solve(gln).status is ib.Status.OPTIMAL
    many = ib.svm_gln(gln.features.X, gln.y, ib.HyperplaneGates(1000, 2, seed=1))
    assert in_our_coordinates(many).bytes_needed(300) > 16 * 1000**2


def test_a_set_that_outgrows_the_memory_ends_the_rounds(tiny_sets, gln, monkeypatch):
    best, need = ib.solve(gln), in_our_coordinates(gln).bytes_needed(25)
    monkeypatch.setattr(limits, "free_memory", lambda: need)
    found = ib.solve(gln, tiny_sets)
    assert found.status is ib.Status.INACCURATE
    assert "GiB of memory" in found.reason
    assert found.iterations > 0
    assert 0 < found.lower_bound <= best.objective * (1 + 1e-9)


def test_a_proof_without_memory_is_not_sought(gln, monkeypatch):
    features = gln.features.select(np.arange(20))
    assert farkas._in_null_space(features, np.ones(20), 0.0) is not None
    monkeypatch.setattr(farkas, "free_memory", lambda: 0.0)
    assert farkas._in_null_space(features, np.ones(20), 0.0) is None


def test_a_system_that_breaks_down_ends_with_the_best_so_far(gln, monkeypatch):
    real, calls = NewtonSystem.solution, iter(range(100))

    def solution(*arguments):
        if next(calls) >= 9:
            raise ArithmeticError("the bordered system is singular")
        return real(*arguments)

    monkeypatch.setattr(NewtonSystem, "solution", solution)
    found = ib.solve(gln, "NATIVE")
    assert found.status is ib.Status.INACCURATE
    assert found.lower_bound > 0


def test_an_interruption_gives_a_certified_answer(gln):
    found = ib.solve(gln, "NATIVE", tol=1e-9, callback=interrupt(lambda progress: progress.gap < 0.1))
    assert found.status is ib.Status.INTERRUPTED
    assert 0 < found.gap < 0.1
    judged = ib.certify(gln, found.weights, found.dual)
    assert judged.gap == pytest.approx(found.gap, rel=1e-6)
    assert ib.solve(gln, "NATIVE", tol=1e-8, start=found).status is ib.Status.OPTIMAL


@pytest.mark.skipif(os.name != "posix", reason="sends a POSIX signal")
def test_ctrl_c_in_the_middle_of_the_work(tiny_sets, gln, request):
    # A shell that starts the tests in its background has them ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    found = ib.solve(
        gln, tiny_sets, tol=1e-8, callback=lambda p: os.kill(os.getpid(), signal.SIGINT) if p.iteration == 12 else None
    )
    assert found.status is ib.Status.INTERRUPTED
    assert found.iterations <= 12
    assert found.lower_bound > 0


def test_verbose_shows_lines(gln, capsys):
    ib.solve(gln, "NATIVE", verbose=True)
    text = capsys.readouterr().err.splitlines()
    assert "300 of 300 samples" in text[0]
    assert "gap" in text[-1]
    ib.solve(gln, "NATIVE")
    assert capsys.readouterr() == ("", "")


def test_rank_deficient_inputs_and_more_samples_than_inputs():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 40))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    for n in (2, 5, 60):
        rows = np.concatenate([np.flatnonzero(y > 0)[: n // 2], np.flatnonzero(y < 0)[: n - n // 2]])
        optimal(ib.svm_gln(X[rows], y[rows], ib.HyperplaneGates(3, 2, seed=1).fit(X)), "NATIVE", tol=1e-8)


@pytest.mark.mnist
def test_a_thousand_images_and_a_hundred_units(mnist_root):
    task = ib.load_binary("mnist", 1500, root=mnist_root)
    case = ib.svm_gln(task.X_train, task.y_train, ib.HyperplaneGates(100, 4, seed=1).fit(task.X_pool))
    found = optimal(case, tol=1e-8)
    assert found.iterations <= 40


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_read_only_arrays_give_no_warning(recwarn, device):
    """Read-only arrays, such as those of processes with `n_jobs`, are solved without a warning."""
    case = problem("contexts 2", "group lasso", 1.0)
    features = ib.GatedFeatures(case.features.X, case.features.gate_values)
    features.X.flags.writeable = features.gate_values.flags.writeable = False
    torch.set_warn_always(True)
    try:
        found = ib.solve(dataclasses.replace(case, features=features), "NATIVE", device=device)
    finally:
        torch.set_warn_always(False)
    assert found.objective == ib.solve(case, "NATIVE", device=device).objective
    assert [str(each.message) for each in recwarn] == []
