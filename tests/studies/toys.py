"""A toy experiment with rows of several kinds, apart from the tests, so that other processes load little."""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from implicit_bias.studies.runner.cells import cells_of
from implicit_bias.studies.runner.drawing import COLOURS, band, panels
from implicit_bias.studies.runner.experiment import Experiment
from implicit_bias.studies.runner.run import run
from implicit_bias.studies.runner.store import Store
from implicit_bias.studies.runner.verdicts import Verdict
from implicit_bias.studies.settings import product

__all__ = ["TOY", "Store", "cells", "hung_once", "printing", "replace", "run"]
#: The widths that were computed in this process, in order; an element "stop" before is a Ctrl-C at width 1.
COMPUTED: list[Any] = []


def rows(settings):
    if "stop" in COMPUTED and settings["width"] == 1:
        raise KeyboardInterrupt
    COMPUTED.append(settings["width"])
    return [{"model": model, "loss": settings["width"] / 3} for model in ("GaLU", "ReLU")]


def printing(settings):
    print("a line", flush=True)
    print("another", file=sys.stderr)
    return rows(settings)


def killed(settings):
    os.kill(os.getpid(), signal.SIGKILL)


def killed_after_another(settings):
    """Kill the process in the cell of width 2, once, after another cell was stored; else return its id."""
    folder, marker = Path(settings["folder"]), Path(f"{settings['folder']}-{settings['width']}")
    if settings["width"] == 2 and not marker.exists():
        while not list(folder.glob("*.json")):
            time.sleep(0.01)
        marker.touch()
        killed(settings)
    return [{"process": os.getpid()}]


def hung_once(settings):
    """Hang in the cell of width 1, once; else return the rows of the toy."""
    marker = Path(settings["marker"])
    if settings["width"] == 1 and not marker.exists():
        marker.touch()
        signal.pause()
    return rows(settings)


def awaited(settings):
    """Return a row once the file `marker` exists, at width 6 immediately."""
    while settings["width"] < 6 and not Path(settings["marker"]).exists():
        time.sleep(0.01)
    return [{"loss": settings["width"] / 3}]


def draw(table):
    axes = panels("Toy")
    band(axes[0, 0], table.set_index("width").loss, color=COLOURS["GaLU"])
    return axes[0, 0].figure


def verdicts(table):
    return [Verdict("loss grows", f"{table.loss.mean():.9f} over {len(table)} rows", "above 0", True)]


TOY = Experiment(
    name="toy",
    title="A toy",
    source="no version, figure 0",
    claim="Loss grows with width.",
    grid=lambda quick: product(width=(3, 2, 1)[: 2 if quick else 3], seed=(1,)),
    rows=rows,
    cost=lambda settings: settings["width"],
    draw=draw,
    verdicts=verdicts,
)


def cells(experiment=TOY, **more):
    return cells_of(experiment, [cell | more for cell in experiment.grid(False)])
