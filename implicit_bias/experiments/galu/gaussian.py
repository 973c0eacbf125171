"""Gaussian samples with Gaussian targets, and networks fitted to them: what the figures of memorisation share.

X ~ N(0, I) of shape (m, d) and Y ~ N(0, I) of shape (m, q), new ones in every repeat. Networks have one hidden layer
and a trained readout, and are trained by Adam in float32: all widths and repeats of a cell in one stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from implicit_bias.experiments.runner.experiment import Rows, Settings
from implicit_bias.ground.checks import Array
from implicit_bias.networks import GaLUNetwork, LayeredNetwork, ReLUNetwork
from implicit_bias.regression import LeastSquares, least_squares
from implicit_bias.training.stacked import Adam, train_together

NETWORKS: dict[str, type[GaLUNetwork] | type[ReLUNetwork]] = {"GaLU": GaLUNetwork, "ReLU": ReLUNetwork}


def repeats(settings: Settings) -> range:
    """The seeds of a cell's repeats: of the samples, and of the weights and filters."""
    return range(settings["seed"], settings["seed"] + settings["repeats"])


def samples(settings: Settings, seed: int) -> tuple[Array, Array]:
    """X (m, d) and Y (m, q) of a repeat; NumPy's PCG64.

    >>> from implicit_bias.experiments.galu.gaussian import samples
    >>> X, Y = samples({"m": 6, "d": 3, "outputs": 2}, seed=1)
    >>> X.shape, Y.shape
    ((6, 3), (6, 2))
    """
    rng = np.random.default_rng(seed)
    return rng.normal(size=(settings["m"], settings["d"])), rng.normal(size=(settings["m"], settings.get("outputs", 1)))


def widths(settings: Settings, shares: Iterable[float]) -> list[int]:
    """The widths k with kd/m nearest to some shares.

    >>> from implicit_bias.experiments.galu.gaussian import widths
    >>> widths({"m": 100, "d": 8}, [0.1, 0.5, 1.0])
    [1, 6, 12]
    """
    return sorted({max(1, round(share * settings["m"] / settings["d"])) for share in shares})


def network(settings: Settings, kind: str, units: int, seed: int) -> LayeredNetwork:
    """The untrained network of a width and a repeat."""
    return NETWORKS[kind](settings["d"], units, outputs=settings.get("outputs", 1), seed=seed)


def trained(settings: Settings, kind: str, units: Iterable[int], target: float | None = None) -> Rows:
    """A row (units, repeat, loss) for each of some widths and every repeat.

    The loss is the mean square over samples and outputs at the end. With a target the training ends early once all of
    these networks are below it.

    >>> from implicit_bias.experiments.galu.gaussian import trained
    >>> tiny = {"m": 12, "d": 3, "steps": 500, "batch": 6, "lr": 0.01, "repeats": 1, "seed": 1}
    >>> few, many = trained(tiny, "ReLU", [1, 12])
    >>> few["units"], few["repeat"], few["loss"] > many["loss"]
    (1, 1, True)
    """
    runs = [(k, seed) for k in units for seed in repeats(settings)]
    data = {seed: samples(settings, seed) for seed in repeats(settings)}
    training = train_together(
        [network(settings, kind, k, seed) for k, seed in runs],
        np.stack([data[seed][0] for _, seed in runs]),
        np.stack([data[seed][1] for _, seed in runs]),
        Adam(steps=settings["steps"], batch_size=settings["batch"], lr=settings["lr"]),
        target=target,
        seed=settings["seed"],
    )
    return [
        {"units": k, "repeat": seed, "loss": float(loss)} for (k, seed), loss in zip(runs, training.losses, strict=True)
    ]


def closed_form(settings: Settings, units: int, seed: int) -> LeastSquares:
    """The best that a GaLU network can do with the gates that `trained` gives it, for one output."""
    X, Y = samples(settings, seed)
    return least_squares(network(settings, "GaLU", units, seed).gates()(X), Y[:, 0])


def mean_losses(rows: Rows) -> dict[int, float]:
    """The mean loss over the repeats, of each width.

    >>> from implicit_bias.experiments.galu.gaussian import mean_losses
    >>> mean_losses([{"units": 3, "loss": 1.0}, {"units": 3, "loss": 2.0}])
    {3: 1.5}
    """
    losses: dict[int, list[float]] = {}
    for row in rows:
        losses.setdefault(row["units"], []).append(row["loss"])
    return {units: float(np.mean(values)) for units, values in losses.items()}


def search(
    meets: Callable[[Sequence[int]], set[int]], start: int, most: int, *, at_once: int, step: int = 1, failing: int = 0
) -> int | None:
    """The least width that meets a level, up to `step` too large; None if none up to `most` does.

    Widths are asked for `at_once` together: first from `start` on, then ever further out until one meets the level
    and a smaller one does not, then between those two. What fails above a width that meets the level is left alone.

    Parameters
    ----------
    meets : callable(widths) -> those of them that meet the level
    start, most : int
    at_once, step : int
    failing : int
        A width that is known not to meet it, as none at all is.

    >>> from implicit_bias.experiments.galu.gaussian import search
    >>> search(lambda widths: {k for k in widths if k >= 23}, start=4, most=100, at_once=3)
    23
    """
    low, high, stride = failing, most + 1, step
    asked = [k for k in range(start, start + at_once * step, step) if low < k <= most]
    while asked:
        met = meets(asked)
        high = min([high, *met])
        low = max([low, *(k for k in asked if k not in met and k < high)])
        if high - low <= (step if high <= most else 1):
            break
        if high > most:
            asked = [k for k in range(low + stride, low + (at_once + 1) * stride, stride) if k < most]
            asked = asked if len(asked) == at_once else [*asked, most][-at_once:]
            stride *= 2
        elif low == failing and high - low > at_once * stride:
            asked = [high - turn * stride for turn in range(at_once, 0, -1)]
            stride *= 2
        else:
            between = np.linspace(low, high, min(at_once + 1, -(-(high - low) // step)) + 1)[1:-1]
            asked = sorted({round(k) for k in between})
    return high if high <= most else None
