"""Cells in local processes, which may be lost, and runs that are killed."""

import os
import signal
import subprocess
import sys
from dataclasses import replace

import pandas as pd
import pytest
import torch

from implicit_bias import InputError
from implicit_bias.studies.runner import engines
from implicit_bias.studies.runner.cells import cells_of
from implicit_bias.studies.runner.run import run
from implicit_bias.studies.runner.store import Store
from implicit_bias.studies.settings import product
from tests import ROOT
from tests.studies import toys
from tests.studies.toys import COMPUTED, TOY, cells


def test_a_lost_process_costs_its_cell_an_attempt(tmp_path):
    """A process lost after a finished cell is not a loss in a row, so that one attempt suffices."""
    store = Store(tmp_path / "cells")
    grid = product(width=(3, 2, 1), seed=(1,), folder=(str(store.folder),))
    work = cells_of(replace(TOY, rows=toys.killed_after_another), grid)
    seen = []
    done = run(work, engines.local(2, attempts=1), store, lambda cell, stored: seen.append(cell.settings["width"]))
    assert (tmp_path / "cells-2").exists()
    assert sorted(seen) == [1, 2, 3]
    assert (done.missing, done.table().width.tolist()) == (0, [3, 2, 1])
    assert os.getpid() not in set(done.table().process)


def test_a_process_that_is_always_lost_ends_the_run(tmp_path):
    with pytest.raises(InputError, match="lost 2 times in a row"):
        run(cells(replace(TOY, rows=toys.killed)), engines.local(2, attempts=2), Store(tmp_path))


def test_a_cell_that_shares_the_machine_has_one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        (cell, *_) = cells(replace(TOY, rows=lambda settings: [{"threads": torch.get_num_threads()}]))
        assert [engines.compute(cell, one_core).rows[0]["threads"] for one_core in (True, False)] == [1, 2]
    finally:
        torch.set_num_threads(before)


HUNG = """
import sys
from tests.studies.toys import *
run(cells(replace(TOY, rows=hung_once), marker=sys.argv[1]), store=Store(sys.argv[2]))
"""


def test_a_run_killed_on_the_way_resumes(tmp_path):
    """After kill −9 in the last of three cells, a second run computes this cell only."""
    COMPUTED.clear()
    marker, store = tmp_path / "begun", Store(tmp_path / "cells")
    process = subprocess.Popen([sys.executable, "-c", HUNG, str(marker), str(store.folder)], cwd=ROOT)
    while not marker.exists() and process.poll() is None:
        pass
    process.kill()
    assert process.wait() == -signal.SIGKILL
    first = {path: path.stat().st_mtime_ns for path in store.folder.glob("*.json")}
    assert len(first) == 2
    resumed = run(cells(replace(TOY, rows=toys.hung_once), marker=str(marker)), store=store)
    assert COMPUTED == [1]
    assert {path: path.stat().st_mtime_ns for path in first} == first
    assert not list(store.folder.glob(".*"))
    pd.testing.assert_frame_equal(resumed.table().drop(columns="marker"), run(cells()).table())


PRINTED = """
import sys
from implicit_bias.studies.runner.engines import local
from tests.studies.toys import *
if __name__ == "__main__":
    run(cells(replace(TOY, rows=printing)), local(2), Store(sys.argv[1]))
"""


@pytest.mark.skipif(os.name != "posix", reason="needs pipes that break")
def test_a_cell_that_prints_in_a_worker_process_does_not_need_a_reader(tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    ask = [sys.executable, "-c", PRINTED, str(tmp_path)]
    done = subprocess.run(ask, cwd=ROOT, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, len(list(tmp_path.glob("*.json")))) == (0, 3)
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs POSIX signal masks")
def test_worker_processes_leave_ctrl_c_to_the_asking_one():
    """SIGINT is blocked in processes started in the context, and restored afterwards."""
    ask = [sys.executable, "-c", "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    with engines._interrupts_are_ours():
        assert subprocess.run(ask, capture_output=True, text=True, check=True).stdout == "True\n"
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before
