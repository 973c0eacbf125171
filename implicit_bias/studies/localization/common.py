"""Processes, training, measures of locality, verdicts on trainings that may still drift, and style, for all figures.

A module whose SHARED is this one has its REVISION, CLAIMS, `rows` and `cost`.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from implicit_bias._utils.checks import Array
from implicit_bias.extensions.gated_flow import RingProcess, ipr, nonlinear_gaussian_process, peak_frequency
from implicit_bias.extensions.gated_flow.online import OnlineTraining, train_online
from implicit_bias.studies.runner import COLOURS, Rows, Settings, Verdict, claims, decide
from implicit_bias.studies.runner.drawing import trend

REVISION = 2
RULE = claims("localization", "drift")["local"]
CLAIMS = {"local": RULE}
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
#: An IPR from which on a field counts as localized: twice 3/n, about that of white noise.
LOCAL = 6 / N
STYLES: dict[str, dict[str, Any]] = {
    "NLGP": {"color": COLOURS["blue"], "marker": "o", "label": "NLGP"},
    "Gaussian": {"color": COLOURS["orange"], "marker": "s", "label": "Gaussian clone"},
}
NAMES = {"relu": "ReLU", "sigmoid": "sigmoid", "erf": "erf"}


def process_of(settings: Settings) -> RingProcess:
    """Return the nonlinear Gaussian process of the settings, with labels 1 and `label`, or its Gaussian clone."""
    lengths, labels = (settings["xi0"], settings["xi1"]), (1.0, settings["label"])
    process = nonlinear_gaussian_process(settings["n"], lengths, settings["gain"], labels)
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


def rows(settings: Settings, data: Any = None) -> Rows:
    """Return one row with `spread` over all units and repeats, loss (median of ½⟨(y − ŷ)²⟩), and those of `end`."""
    training = trained(settings, data)
    return [spread(training.fields) | {"loss": float(np.median(training.losses[-1])) / 2} | end(training)]


def cost(settings: Settings) -> float:
    """Return the approximate seconds of training on one core, if the training ends after half of `steps`."""
    units = settings["units"] * settings["repeats"]
    return float(settings["steps"] / 2 * settings["batch"] * (2e-6 + 2e-8 * units))


def stayed(table: pd.DataFrame) -> Verdict:
    """Return the verdict that IPRs change by at most `STAY` in the second half of every training."""
    ends = table[["made", "change"]].dropna().drop_duplicates()
    stay = f"in {(ends.change <= STAY).sum()} of {len(ends)} trainings of {ends.made.min()} to {ends.made.max()} steps"
    text = f"{stay}; IPRs change by up to {ends.change.max():.3f} in the second half"
    return decide("fields stay", text, ends.change.max(), "at most", STAY)


def sides(part: pd.DataFrame) -> Array:
    """Return 1 for every row of `part` whose ipr is above `LOCAL`, −1 if it is below, and 0 if it may yet cross it.

    An IPR may cross it if its distance from `LOCAL` is less than `RULE`'s multiple of `change`, or if the
    column `near` is given and true (see `approaches`).
    """
    away = part.ipr - LOCAL
    near = (away.abs() < RULE.limits["times"] * part.change) | part.get("near", False)
    return np.where(near, 0, np.sign(away)).astype(int)


def approaches(steps: pd.Series, iprs: pd.Series) -> bool:
    """True if an IPR came nearer to `LOCAL` in each of the last doublings of steps, and no more slowly in the last."""
    ends = steps.iloc[-1] / 2.0 ** np.arange(RULE.limits["doublings"], -1, -1)
    nearer = -np.diff(np.abs(np.interp(ends, steps, iprs) - LOCAL))
    return bool((nearer > 0).all() and nearer[-1] >= nearer[-2])


def decide_local(claim: str, found: str, part: pd.DataFrame, relation: str = "above", *, some: bool = False) -> Verdict:
    """Return the verdict that all IPRs, or one if `some`, are 'above' or 'below' `LOCAL`; undecided without `sides`."""
    threshold = f"{relation} {LOCAL:g} {RULE.verdict('', None).threshold}"
    part = part.dropna(subset="ipr")
    if part.empty:
        return Verdict(claim, "too few cells", threshold, None)
    hits = sides(part) * (1 if relation == "above" else -1)
    best, worst = (hits.max(), hits.min())
    side = best if some else worst
    found = f"{found}; drift up to {part.change.max():.3f}"
    return Verdict(claim, found, threshold, None if side == 0 else bool(side > 0))


def scales(one: float, two: float) -> str:
    """Return a pair of length-scales as text: 'ξ = (3, 1)'."""
    return f"ξ = ({one:g}, {two:g})"


def slashed(values: Iterable[float], form: str = "g") -> str:
    """Return numbers as text, each in the format `form`, separated by slashes: '0.01/3'."""
    return "/".join(f"{value:{form}}" for value in values)


def curve(ax: Axes, part: pd.DataFrame, x: str, **style: Any) -> None:
    """Plot the median IPR against the column `x`, with a band between the quartiles: medians over seeds."""
    trend(ax, part.set_index(x).ipr, **style)
    ends = part.groupby(x)[["ipr_low", "ipr_high"]].median()
    ax.fill_between(ends.index, ends.ipr_low, ends.ipr_high, color=style["color"], alpha=0.2, linewidth=0)


def sinusoid(ax: Axes, *, upright: bool = False) -> None:
    """Draw the IPR of a sinusoid as a horizontal line, or as a vertical one if `upright`."""
    line = ax.axvline if upright else ax.axhline
    line(1.5 / N, color=COLOURS["theory"], linewidth=0.8, linestyle=":", label="a sinusoid, 1.5/n")


def whiskers(ax: Axes, part: pd.DataFrame, places: list[float], **style: Any) -> None:
    """Plot the median IPR of each row of `part` as a dot at height `places[i]`, with a line between the quartiles."""
    look: dict[str, Any] = {"fmt": style.pop("marker", "o"), "markersize": 4, "elinewidth": 1.2} | style
    ax.errorbar(part.ipr, places, xerr=[part.ipr - part.ipr_low, part.ipr_high - part.ipr], **look)
