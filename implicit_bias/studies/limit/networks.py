"""Networks of the limit study: their start, and their descent to the limit."""

from collections.abc import Callable

import torch
from numpy.typing import ArrayLike
from tqdm import tqdm

from implicit_bias.datasets import BinaryTask
from implicit_bias.gates import HyperplaneGates
from implicit_bias.networks import FrozenReLUNetwork, GatedLinearNetwork, GatedNetwork, ReLUNetwork
from implicit_bias.studies.settings import Settings
from implicit_bias.training.iterations import LossScaled, PlainDescent
from implicit_bias.training.limit import descend_to_limit
from implicit_bias.training.optimisers import SGD
from implicit_bias.training.result import TrainingResult
from implicit_bias.training.sgd import train

#: Networks whose gates are frozen between training and descent.
FROZEN_AFTERWARDS = ("relu", "deep-frozen-relu")


def begun(settings: Settings, task: BinaryTask, draw: int = 0) -> GatedNetwork:
    """Return the network before the descent, frozen gates trained; each `draw` has other weights and the same gates."""
    name, seed, units = settings["network"], settings["seed"], settings["units"]
    weight_seed = seed + 1000 * draw
    if name == "linear":
        return GatedLinearNetwork(HyperplaneGates(1, 1, seed).fit(task.X_pool), readout=False)
    if name.endswith("gln"):
        seeds = (seed, seed + 1) if name == "deep-gln" else (seed,)
        gates = [HyperplaneGates(units, settings["contexts"], s).fit(task.X_pool) for s in seeds]
        return GatedLinearNetwork(gates, seed=weight_seed if draw else None)
    widths = [2 * units] * (2 if name.startswith("deep") else 1)
    network = ReLUNetwork(task.X_train.shape[1], widths, seed=weight_seed)
    if name == "random-relu":
        return network.freeze()
    if name == "retrained-relu" or (name == "deep-frozen-relu" and draw):
        first, config = ReLUNetwork(task.X_train.shape[1], widths, seed=seed), SGD(momentum=settings["momentum"])
        if train(first, task.X_train, task.y_train, config, seed=seed, every=config.steps).interrupted:
            raise KeyboardInterrupt
        return _behind(first.freeze(), network)
    return network


@torch.no_grad()
def _behind(frozen: FrozenReLUNetwork, other: ReLUNetwork) -> FrozenReLUNetwork:
    """Copy the weights of `other` behind the gates of `frozen`, in place, and return `frozen`."""
    for target, source in zip(frozen.layers, other.layers, strict=True):
        target.copy_(source)
    return frozen


def driven(
    network: GatedNetwork,
    X: ArrayLike,
    y: ArrayLike,
    config: LossScaled | PlainDescent,
    label: str,
    measure: Callable[[GatedNetwork], dict[str, float]] | None = None,
) -> TrainingResult:
    """Descend to the limit in place, with a progress bar of seconds; return the result of `descend_to_limit`."""
    with tqdm(total=round(config.max_seconds), desc=label, unit="s", leave=False, disable=None) as bar:

        def show(step: int, seconds: float) -> None:
            bar.set_postfix_str(f"step {step}", refresh=False)
            bar.update(min(int(seconds), bar.total) - bar.n)

        return descend_to_limit(network, X, y, config, measure=measure, progress=show)
