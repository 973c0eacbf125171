"""Networks, options and defaults of the limit study, in a module without slow imports."""

from dataclasses import dataclass

from implicit_bias._utils.checks import InputError, as_count, as_positive, as_probability, as_seed, context_bits, one_of
from implicit_bias.studies.settings import Settings, product

#: Networks by their value of --network.
NETWORKS = {
    "gln": "a GLN with one gated layer",
    "relu": "a ReLU network whose gates are frozen after training",
    "linear": "one linear model",
    "learned-relu": "a ReLU network whose gates go on learning",
    "random-relu": "a ReLU network whose gates are frozen as drawn",
    "retrained-relu": "initial weights behind the frozen gates of the trained ReLU network",
    "deep-gln": "a GLN with two gated layers",
    "deep-relu": "a ReLU network with two hidden layers, whose gates learn",
    "deep-frozen-relu": "the same, its gates frozen after training",
}
STARTS = ("trained", "initial")
#: "sgd" is the published training before the limit; the other descents begin at its end.
DESCENTS = ("sgd", "loss-scaled", "plain")
#: Settings that distinguish the cells.
PLACE = ("network", "train_size", "units", "seed", "momentum")


@dataclass(frozen=True)
class LimitConfig:
    """Configuration of `implicit-bias reproduce limit`: a cell for each network, n, H, seed and momentum.

    `start` is 'trained' (descents begin after the published training) or 'initial' (at the initial weights). `draws` is
    the number of initial weights of a deep network with the same gates. Raises InputError if a value is out of range.
    """

    dataset: str = "digits"
    network: tuple[str, ...] = ("gln", "relu", "linear")
    train_size: tuple[int, ...] = (100,)
    units: tuple[int, ...] = (10,)
    seeds: tuple[int, ...] = (1,)
    momentum: tuple[float, ...] = (0.0,)
    contexts: int = 2
    draws: int = 1
    descents: tuple[str, ...] = DESCENTS
    start: str = "trained"
    tolerance: float = 1e-3
    lr: float = 0.01
    max_steps: int = 100_000
    max_seconds: float = 200.0

    def __post_init__(self) -> None:
        # These imports take seconds, and help does not need them.
        from implicit_bias.training.iterations import LossScaled, PlainDescent
        from implicit_bias.training.optimisers import SGD

        for name in ("network", "train_size", "units", "seeds", "momentum", "descents"):
            values = getattr(self, name)
            if len(set(values)) < len(values) or not values:
                raise InputError(f"--{name.replace('_', '-')} lists a value twice, or none; give each once")
        for name in self.network:
            one_of(name, NETWORKS, "network")
        for name in self.descents:
            one_of(name, DESCENTS, "descent")
        if one_of(self.start, STARTS, "start") == "initial" and not {*self.descents} - {"sgd"}:
            raise InputError("--start initial leaves the training out; let --descents name loss-scaled or plain")
        for name in ("train_size", "units"):
            for value in getattr(self, name):
                as_count(value, name)
        for seed in self.seeds:
            as_seed(seed)
        context_bits(self.contexts)
        one_layer = [name for name in self.network if not name.startswith("deep")]
        if as_count(self.draws, "draws") > 1 and one_layer:
            raise InputError(f"--draws {self.draws} is for deep networks; leave out --network {' '.join(one_layer)}")
        as_probability(self.tolerance, "tolerance")
        for momentum in self.momentum:
            SGD(momentum=momentum)
        as_positive(self.max_seconds, "max_seconds")
        LossScaled(self.tolerance, max_steps=self.max_steps)
        PlainDescent(self.lr)

    def cells(self) -> list[Settings]:
        """Return the settings of every cell: one cell for each combination of values of the settings in `PLACE`."""
        shared = vars(self) | {"descents": list(self.descents), "seed": self.seeds}
        lists = {name: shared.pop(name) for name in PLACE}
        shared.pop("seeds")
        return [place | shared for place in product(**lists)]
