"""What the figures of localization share: processes and networks by their settings, and how local these become."""

from typing import Any

import numpy as np

from implicit_bias.datasets import RingProcess, nonlinear_gaussian_process
from implicit_bias.dynamics import ipr, peak_frequency
from implicit_bias.experiments.runner import Rows, Settings
from implicit_bias.ground.checks import Array
from implicit_bias.training.online import OnlineTraining, train_online

N = 40
COMMON: Settings = {"n": N, "batch": 500, "biases": False, "label": 0.0}
#: One ReLU unit, and forty: length-scales, and the rate and the steps until IPRs stay.
ONE = COMMON | {"activation": "relu", "units": 1, "xi0": 3.0, "xi1": 1.0, "scale": 0.1, "lr": 0.1, "steps": 1000}
MANY = ONE | {"units": 40, "xi0": 2.0, "lr": 0.2, "steps": 4000}
#: Rates and starts for units that saturate, whose slopes are smaller.
SATURATING: dict[str, Settings] = {"sigmoid": {"scale": 1.0, "lr": 4.0}, "erf": {"scale": 1.0, "lr": 1.0}}
PROCESSES = ("NLGP", "Gaussian")


def process_of(settings: Settings) -> RingProcess:
    """The nonlinear Gaussian process of the settings, labels 1 and `label`, or its clone.

    >>> from implicit_bias.experiments.localization.networks import ONE, process_of
    >>> process_of(ONE | {"gain": 3.0, "process": "Gaussian"}).gain is None
    True
    """
    scales, labels = (settings["xi0"], settings["xi1"]), (1.0, settings["label"])
    process = nonlinear_gaussian_process(settings["n"], scales, settings["gain"], labels)
    return process.clone() if settings["process"] == "Gaussian" else process


def trained(settings: Settings, data: Any = None, **options: Any) -> OnlineTraining:
    """The networks of the settings, on their process unless there are other data."""
    given = {name: settings[name] for name in ("steps", "lr", "scale", "biases", "repeats", "seed")}
    given |= {"batch_size": settings["batch"], "record": []} | options
    data = process_of(settings) if data is None else data
    training = train_online(data, settings["units"], settings["activation"], **given)
    if training.interrupted:
        raise KeyboardInterrupt  # Networks that are half trained are no result.
    return training


def spread(fields: Array) -> dict[str, float]:
    """The quartiles of the IPR of all fields (…, n), and the medians of peak frequency and length.

    >>> spread([[0.0, 2.0, 0.0, 0.0]])
    {'ipr_low': 1.0, 'ipr': 1.0, 'ipr_high': 1.0, 'frequency': 0.0, 'length': 2.0}
    """
    low, middle, high = np.quantile(ipr(fields), (0.25, 0.5, 0.75))
    return {
        **{"ipr_low": float(low), "ipr": float(middle), "ipr_high": float(high)},
        "frequency": float(np.median(peak_frequency(fields))),
        "length": float(np.median(np.linalg.norm(fields, axis=-1))),
    }


def one_row(settings: Settings, data: Any = None) -> Rows:
    """The spread over all units of all starts, and the median of half the loss ⟨(y − ŷ)²⟩."""
    training = trained(settings, data)
    return [spread(training.fields) | {"loss": float(np.median(training.losses[-1])) / 2}]


def seconds(settings: Settings) -> float:
    """About how long the training takes on one core."""
    units = settings["units"] * settings["repeats"]
    return float(settings["steps"] * settings["batch"] * (4e-6 + 6e-8 * units))
