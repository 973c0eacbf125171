"""Runs that survive: stored cells, resumed runs, lost workers, damaged files, full disks, other configurations."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from implicit_bias.experiments.paper.sweep import jobs_of

from implicit_bias import InputError
from implicit_bias.experiments.paper.gln import STUDY
from implicit_bias.experiments.paper.study import VERSIONS, Config
from implicit_bias.experiments.runner import engines, jobs
from implicit_bias.experiments.runner.cells import Result
from implicit_bias.experiments.runner.run import run
from implicit_bias.experiments.runner.store import Store
from implicit_bias.ground import files

SCRIPT = Path(__file__).parent.parent / "scripts" / "reproduce_paper.py"
SMALL = Config(train_size=(60,), units=(3,), contexts=(2,), seeds=(1, 2, 3), steps=40)
ROWS = [{"model": "SVM-GLN", "error": 0.1, "gap": float("inf")}]


def results(table):
    """What a table says, without the times."""
    return table.drop(columns="seconds")


def broken(job, *_):
    raise AssertionError(f"{job} was computed again")


def test_finished_cells_are_not_computed_again(tmp_path, monkeypatch):
    first = run([(STUDY, SMALL)], store=Store(tmp_path))
    monkeypatch.setattr(engines, "compute", broken)
    seen = []
    again = run([(STUDY, SMALL)], store=Store(tmp_path), progress=lambda job, stored: seen.append(stored))
    pd.testing.assert_frame_equal(first.table, again.table)
    assert seen == [True] * 3
    assert again.missing == 0
    with pytest.raises(AssertionError, match="seed 4"):
        run([(STUDY, replace(SMALL, seeds=(1, 4)))], store=Store(tmp_path))


def test_an_interrupted_run_goes_on(tmp_path):
    def stop_after_one(job, stored):
        raise KeyboardInterrupt

    partial = run([(STUDY, SMALL)], store=Store(tmp_path), progress=stop_after_one)
    assert partial.missing == 2
    assert partial.table.seed.nunique() == 1
    whole = run([(STUDY, SMALL)], store=Store(tmp_path))
    pd.testing.assert_frame_equal(results(whole.table), results(run([(STUDY, SMALL)]).table))


@pytest.mark.parametrize("damage", [lambda text: text[: len(text) // 2], lambda text: text.replace("0.1", "0.2"),
                                    lambda text: "[]", lambda text: "\0" * 100])  # fmt: skip
def test_a_damaged_cell_is_named_kept_aside_and_computed_anew(tmp_path, damage):
    cells, job = Store(tmp_path), jobs_of(STUDY, SMALL)[0]
    cells.put(job, Result(ROWS, 1.0, "here"))
    assert cells.get(job).rows == ROWS
    path = cells.path(job)
    text = damage(path.read_text())
    path.write_text(text)
    with pytest.warns(UserWarning, match=rf"{path.name} is damaged.*computed anew"):
        assert cells.get(job) is None
    assert path.with_suffix(".damaged").read_text() == text
    assert cells.get(job) is None


@pytest.mark.parametrize(("change", "word"), [({"tol": 1e-8}, "tol"), ({"steps": 41}, "steps"),
                                              ({"versions": VERSIONS}, "versions")])  # fmt: skip
def test_stored_results_of_another_configuration_are_told_and_left(tmp_path, change, word):
    cells, job = Store(tmp_path), jobs_of(STUDY, SMALL)[0]
    cells.put(job, Result(ROWS, 1.0, "here"))
    other = jobs_of(STUDY, replace(SMALL, **change))
    with pytest.warns(UserWarning, match=f"holds 1 cells that differ in {word}"):
        cells.warn_of_others(other)
    assert cells.get(other[0]) is None
    assert cells.get(job) is not None


def test_stored_results_of_other_code_are_told_and_left(tmp_path, monkeypatch):
    cells, job = Store(tmp_path), jobs_of(STUDY, SMALL)[0]
    cells.put(job, Result(ROWS, 1.0, "here"))
    monkeypatch.setattr(jobs, "code_version", lambda *functions: "other")
    with pytest.warns(UserWarning, match="differ in the code's version"):
        cells.warn_of_others([job])
    assert cells.get(job) is None


def test_configurations_take_lists_and_numpy_numbers(tmp_path):
    config = Config(train_size=[60], units=np.array([3]), seeds=[np.int64(1)], steps=40)
    assert config == replace(SMALL, seeds=(1,))
    assert run([(STUDY, config)], store=Store(tmp_path)).missing == 0
    with pytest.raises(InputError, match=r"units must list its values, as in units=\(3,\)"):
        Config(units=3)


def test_a_full_disk_ends_with_a_sentence_and_keeps_what_is_stored(tmp_path, monkeypatch):
    real, calls = os.fdopen, []

    def full_at_the_second(handle, mode):
        calls.append(handle)
        if len(calls) > 1:
            os.close(handle)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(handle, mode)

    monkeypatch.setattr(files.os, "fdopen", full_at_the_second)
    with pytest.raises(InputError, match="No space left on device"):
        run([(STUDY, SMALL)], store=Store(tmp_path))
    monkeypatch.undo()
    assert [path.suffix for path in tmp_path.iterdir()] == [".json"]
    assert sum(Store(tmp_path).get(job) is not None for job in jobs_of(STUDY, SMALL)) == 1


def lost_once(marker):
    """A check that kills its own process, the first time it runs."""

    def check(config, cell, task):
        if cell.seed == 2 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return [{"model": "none", "status": "TRAINED", "error": 0.0, "momentum": 0.0, "version": "corrected"}]

    return check


def test_a_lost_process_costs_its_cell_another_attempt(tmp_path):
    study = replace(STUDY, rows=lost_once(tmp_path / "lost"))
    done = run([(study, SMALL)], engines.local(2), Store(tmp_path / "cells"))
    assert (tmp_path / "lost").exists()
    assert done.missing == 0
    assert sorted(done.table.seed) == [1, 2, 3]


def test_a_process_that_is_always_lost_ends_the_run(tmp_path):
    def killed(config, cell, task):
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(InputError, match="lost 3 times in a row"):
        run([(replace(STUDY, rows=killed), SMALL)], engines.local(2), Store(tmp_path))


def reproduce(out, *options):
    quick = [] if "--redraw" in options else ["--quick"]
    command = [sys.executable, str(SCRIPT), "--dataset", "digits", *quick, "--figure", "2", "--jobs", "2"]
    return subprocess.Popen([*command, *options, "--out", str(out)], stderr=subprocess.PIPE, stdout=subprocess.PIPE,
                            text=True, start_new_session=True)  # fmt: skip


def test_a_run_killed_on_the_way_resumes(tmp_path):
    """kill −9 after one of two cells: the second run computes the other one only, ending like an undisturbed one."""
    process = reproduce(tmp_path / "a")
    cells = tmp_path / "a" / "cells"
    deadline = time.monotonic() + 120
    while not list(cells.glob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    first = {path: path.stat().st_mtime_ns for path in cells.glob("*.json")}
    assert len(first) >= 1
    resumed, undisturbed = reproduce(tmp_path / "a"), reproduce(tmp_path / "b")
    for process in (resumed, undisturbed):
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
    assert {path: path.stat().st_mtime_ns for path in first} == first
    assert not list(cells.glob(".*"))
    tables = [pd.read_csv(tmp_path / name / "cells.csv") for name in "ab"]
    pd.testing.assert_frame_equal(*map(results, tables), rtol=1e-5)
    assert json.loads((tmp_path / "a" / "record.json").read_text())["cells"] == 2


def test_the_report_stands_alone_and_redraws(tmp_path):
    process = reproduce(tmp_path / "a")
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    page = (tmp_path / "a" / "report.html").read_text()
    assert page.count("data:image/png;base64,") == 1
    assert "http" not in page
    for text in ("Does the GLN norm generalise better", "code", "torch", "seeds"):
        assert text in page
    again = reproduce(tmp_path / "b", "--redraw", str(tmp_path / "a"))
    _, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    assert (tmp_path / "b" / "report.html").read_text() == page


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--figure", "7"], "unknown figure '7'; known: 2, 3, 4, 5, all"),
        (["--engine", "slurm"], "unknown engine 'slurm'; known: local, dask"),
        (["--engine", "dask"], "needs the address"),
        (["--engine", "dask", "--scheduler", "tcp://127.0.0.1:9"], "no Dask scheduler answers at tcp://127.0.0.1:9"),
        (["--engine", "dask", "--scheduler", "nonsense"], "no Dask scheduler answers"),
        (["--jobs", "0"], "jobs"),
        (["--redraw", "/nowhere"], "not a readable file"),
        (["--redraw", "/nowhere", "--scheduler", "tcp://127.0.0.1:9"], "do not go with it"),
        (["--scheduler", "tcp://127.0.0.1:9"], "add --engine dask"),
        (["--dataset", "cifar"], "unknown data set"),
    ],
)
def test_bad_input_is_one_sentence(options, words, tmp_path):
    process = reproduce(tmp_path / "out", *options)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert words in err
    assert "Traceback" not in err


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs POSIX signal masks")
def test_worker_processes_leave_ctrl_c_to_the_asking_one():
    """Interrupted while they load torch, they would end in tracebacks."""
    ask = [sys.executable, "-c", "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with engines._interrupts_are_ours():
        assert subprocess.run(ask, capture_output=True, text=True, check=True).stdout == "True\n"
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
