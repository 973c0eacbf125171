"""Processes and trained networks of given settings, and measures of locality, for all figures."""

from typing import Any

import numpy as np
import pandas as pd

from implicit_bias._utils.checks import Array
from implicit_bias.extensions.gated_flow import RingProcess, ipr, nonlinear_gaussian_process, peak_frequency
from implicit_bias.extensions.gated_flow.online import OnlineTraining, train_online
from implicit_bias.studies.runner import Rows, Settings, Verdict, decide

N = 40
#: Largest mean change of a unit's IPR in the second half of training at which the fields count as settled.
STAY = 0.02
COMMON: Settings = {"n": N, "batch": 500, "biases": False, "output_bias": False, "label": 0.0}
#: One ReLU unit, and forty: length-scales, learning rate, and the limit of steps until the fields settle.
ONE = COMMON | {"activation": "relu", "units": 1, "xi0": 3.0, "xi1": 1.0, "scale": 0.1, "lr": 0.1, "steps": 8000}
MANY = ONE | {"units": 40, "xi0": 2.0, "lr": 0.2, "steps": 32_000, "batch": 300}
#: Rates, starts and steps for units that saturate, whose slopes are smaller.
SATURATING: dict[str, Settings] = {
    "sigmoid": {"scale": 1.0, "lr": 4.0, "steps": 16_000},
    "erf": {"scale": 1.0, "lr": 1.0, "steps": 16_000},
}
PROCESSES = ("NLGP", "Gaussian")


def process_of(settings: Settings) -> RingProcess:
    """Return the nonlinear Gaussian process of the settings, with labels 1 and `label`, or its Gaussian clone."""
    scales, labels = (settings["xi0"], settings["xi1"]), (1.0, settings["label"])
    process = nonlinear_gaussian_process(settings["n"], scales, settings["gain"], labels)
    return process.clone() if settings["process"] == "Gaussian" else process


def trained(settings: Settings, data: Any = None, **options: Any) -> OnlineTraining:
    """Train until fields settle or `steps` are made, by default on `process_of`; Ctrl-C raises KeyboardInterrupt."""
    given = {name: settings[name] for name in ("steps", "lr", "scale", "biases", "output_bias", "repeats", "seed")}
    given |= {"batch_size": settings["batch"], "record": [], "stay": STAY} | options
    data = process_of(settings) if data is None else data
    training = train_online(data, settings["units"], settings["activation"], **given)
    if training.interrupted:
        raise KeyboardInterrupt  # Networks that are half trained are no result.
    return training


def spread(fields: Array) -> dict[str, float]:
    """Return the quartiles of the IPR of all fields (…, n), and the medians of peak frequency and norm ‖w‖."""
    quartiles = np.quantile(ipr(fields), (0.25, 0.5, 0.75)).tolist()
    waves, length = np.median(peak_frequency(fields)), np.median(np.linalg.norm(fields, axis=-1))
    names = ("ipr_low", "ipr", "ipr_high")
    return dict(zip(names, quartiles, strict=True)) | {"frequency": float(waves), "length": float(length)}


def end(training: OnlineTraining) -> dict[str, float]:
    """Return `made`, the number of steps, and `change`, the mean |change| of IPRs in their second half (0: unknown)."""
    return {"made": int(training.steps[-1]), "change": float(training.change or 0.0)}


def one_row(settings: Settings, data: Any = None) -> Rows:
    """Return one row with `spread` over all units and repeats, loss (median of ½⟨(y − ŷ)²⟩), and those of `end`."""
    training = trained(settings, data)
    return [spread(training.fields) | {"loss": float(np.median(training.losses[-1])) / 2} | end(training)]


def seconds(settings: Settings) -> float:
    """Return the approximate seconds of training on one core, if the training ends after half of `steps`."""
    units = settings["units"] * settings["repeats"]
    return float(settings["steps"] / 2 * settings["batch"] * (2e-6 + 2e-8 * units))


def stayed(table: pd.DataFrame) -> Verdict:
    """Return the verdict that IPRs change by at most `STAY` in the second half of every training."""
    ends = table[["made", "change"]].dropna().drop_duplicates()
    stay = f"in {(ends.change <= STAY).sum()} of {len(ends)} trainings of {ends.made.min()} to {ends.made.max()} steps"
    text = f"{stay}; IPRs change by up to {ends.change.max():.3f} in the second half"
    return decide("fields stay", text, ends.change.max(), "at most", STAY)
