"""Cells on a Dask cluster of separate worker processes on this machine, one of them killed on the way."""

import os
import signal
from dataclasses import replace

import pandas as pd
import pytest

from implicit_bias import InputError
from implicit_bias.studies.runner import engines
from implicit_bias.studies.runner.cells import cells_of
from implicit_bias.studies.runner.run import run
from implicit_bias.studies.runner.store import Store
from implicit_bias.studies.settings import product
from tests.studies import toys
from tests.studies.toys import TOY

distributed = pytest.importorskip("distributed")


def work(marker):
    """Return six cells, five of which end only once the file `marker` exists."""
    grid = product(width=(6, 5, 4, 3, 2, 1), seed=(1,), marker=(str(marker),))
    return cells_of(replace(TOY, rows=toys.awaited), grid)


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None) as made:
        yield made


def test_a_killed_worker_costs_nothing(cluster, tmp_path):
    killed = []

    def kill_one(cell, stored):
        if not killed:
            with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
                killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)
            (tmp_path / "marker").touch()

    cells = work(tmp_path / "marker")
    done = run(cells, engines.dask(cluster.scheduler_address), Store(tmp_path / "cells"), kill_one)
    assert killed
    assert done.missing == 0
    assert len(list((tmp_path / "cells").glob("*.json"))) == 6
    pd.testing.assert_frame_equal(done.table(), run(cells).table())


def test_workers_with_other_code_are_refused(cluster, tmp_path):
    with pytest.raises(InputError, match="runs other code"):
        run(work(tmp_path), engines.dask(cluster.scheduler_address, version="other"))


def test_a_cluster_that_loses_its_last_worker_is_given_up(tmp_path):
    """InputError is raised after `patience` checks without a worker, at once if there is none; cells are stored."""
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as lone:

        def retire(cell, stored):
            lone.scale(0)

        with pytest.raises(InputError, match="no Dask worker is left"):
            run(work(tmp_path / "never"), engines.dask(lone.scheduler_address, patience=1), Store(tmp_path), retire)
        with pytest.raises(InputError, match="has no workers"):
            run(work(tmp_path), engines.dask(lone.scheduler_address))
    assert list(tmp_path.glob("*.json"))
