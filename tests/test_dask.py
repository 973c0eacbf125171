"""The same sweep on a Dask cluster of separate worker processes on this machine, one of them killed on the way."""

import os
import signal

import pandas as pd
import pytest

from implicit_bias import InputError
from implicit_bias.experiments.paper.gln import STUDY
from implicit_bias.experiments.paper.study import Config
from implicit_bias.experiments.runner import engines, jobs
from implicit_bias.experiments.runner.run import run
from implicit_bias.experiments.runner.store import Store

distributed = pytest.importorskip("distributed")
SMALL = Config(train_size=(60,), units=(3, 4, 5), seeds=(1, 2), steps=40)


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None) as made:
        yield made


def test_a_killed_worker_costs_nothing(cluster, tmp_path):
    killed = []

    def kill_one(job, stored):
        if not killed:
            with distributed.Client(cluster.scheduler_address, set_as_default=False) as client:
                killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    done = run([(STUDY, SMALL)], engines.dask(cluster.scheduler_address), Store(tmp_path), kill_one)
    assert killed
    assert done.missing == 0
    assert len(list(tmp_path.glob("*.json"))) == 6
    here = run([(STUDY, SMALL)])
    columns = ["units", "seed", "model", "status", "error", "inconsistency", "iterations"]
    pd.testing.assert_frame_equal(done.table[columns], here.table[columns])


def test_workers_with_other_code_are_refused(cluster, monkeypatch, tmp_path):
    monkeypatch.setattr(jobs, "code_version", lambda *functions: "other")
    with pytest.raises(InputError, match="runs other code"):
        run([(STUDY, SMALL)], engines.dask(cluster.scheduler_address), Store(tmp_path))


def test_a_cluster_that_loses_its_last_worker_is_given_up(monkeypatch, tmp_path):
    monkeypatch.setattr(engines, "PATIENCE", 2.0)
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None) as lone:

        def retire(job, stored):
            lone.scale(0)

        with pytest.raises(InputError, match="no Dask worker is left"):
            run([(STUDY, SMALL)], engines.dask(lone.scheduler_address), Store(tmp_path), retire)
    assert list(tmp_path.glob("*.json"))


def test_a_cluster_without_workers_is_refused():
    with (
        distributed.LocalCluster(n_workers=0, processes=True, dashboard_address=None) as empty,
        pytest.raises(InputError, match="has no workers"),
    ):
        run([(STUDY, SMALL)], engines.dask(empty.scheduler_address))
