"""Limits of gradient descent, compared with the solutions of margin problems."""

from implicit_bias.studies.collection import Collection, Option

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
TEXT = (
    "Drive networks to the limit of gradient descent and compare it with the certified max-margin solution.\n"
    "Options that list their values take several (--seeds 1 2 3), and every combination runs. Finished ones are\n"
    "stored: the same command, and one with more --max-seconds, computes the others only.\n\nnetworks:\n"
    + "\n".join(f"  {name:18s}{text}" for name, text in NETWORKS.items())
)
EXAMPLES = (
    ("", "100 digits, a few minutes"),
    ("--dataset mnist --train-size 500 --network gln relu linear", "gated, ReLU and linear networks"),
    ("--network learned-relu relu --seeds 1 2 3 4 5 --descents sgd loss-scaled", "finite time, or gates?"),
    ("--redraw data/limit/one_layer", "figures and findings of a committed table, in seconds"),
)
OPTIONS = {
    "dataset": Option("digits", "one that `implicit-bias info` lists"),
    "network": Option(("gln", "relu", "linear"), "one or several of those above", [*NETWORKS]),
    "train_size": Option((100,), "training samples n"),
    "seeds": Option((1,), "seeds of gates, weights and batches"),
    "units": Option((10,), "units of a GLN's layer; a ReLU layer has twice as many"),
    "momentum": Option((0.0,), "momentum of the training"),
    "contexts": Option(2, "contexts of a GLN's unit, a power of two"),
    "draws": Option(1, "weights that a deep network begins with, behind the same gates"),
    "descents": Option(
        DESCENTS, f"the training before the limit, and what follows it: {', '.join(DESCENTS)}", DESCENTS
    ),
    "start": Option("trained", "descents begin after the published training (trained) or at initial weights", STARTS),
    "tolerance": Option(
        1e-3,
        "smoothing of the least margin at which a descent ends, and, for fixed gates, excess of the certified ratio "
        "over 1",
    ),
    "lr": Option(0.01, "learning rate of the plain descent"),
    "max_steps": Option(100_000, "largest number of steps of a descent"),
    "max_seconds": Option(200.0, "time after which each descent is cut off"),
}
COLLECTION = Collection("limit", "Theorem 3.1", ("limit",), images=True, text=TEXT, examples=EXAMPLES, options=OPTIONS)
