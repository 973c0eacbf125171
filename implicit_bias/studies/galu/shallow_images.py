"""Are GaLU networks of one hidden layer close to ReLU's on images? (second version, figure 3)

MNIST and Fashion-MNIST, ten classes; one hidden layer of k units, hard gates and a trained readout. The text has Adam
at 1e-3 with batches of 128, 100 000 iterations and three repeats ("as described previously"), and names neither
widths, loss nor preparation. Here: the pixels in [−1, 1] and a constant 1, cross entropy, and k = 16, 32, 64, 128. All
60 000 training images are used, and nothing is chosen.
"""

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.datasets.images import ImageClasses
from implicit_bias.studies.galu.common import NETWORKS, at_every_size, class_errors, curves, means, repeats, train
from implicit_bias.studies.galu.images import CLASSES
from implicit_bias.studies.runner import Rows, Settings, Verdict, finished, named, panels, product
from implicit_bias.studies.runner.cells import image_classes
from implicit_bias.studies.runner.drawing import DATASETS

TITLE = "Networks of one hidden layer on images"
SOURCE = "second version, figure 3"
CLAIM = "On MNIST and Fashion-MNIST GaLU networks behave as ReLU networks do, which perform slightly better."
#: How many times ReLU's test error is slightly more.
SLIGHTLY = 1.5
data = image_classes


def grid(quick: bool) -> list[Settings]:
    """Both networks, four widths, three repeats; quick: digits, fewer widths and steps."""
    fixed: Settings = {"steps": 2000 if quick else 100_000, "batch_size": 128, "lr": 1e-3, "repeats": 3, "seed": 1}
    units, datasets = ((8, 16, 32), ("digits",)) if quick else ((16, 32, 64, 128), ("mnist", "fashion-mnist"))
    return [cell | fixed for cell in product(dataset=datasets, network=NETWORKS, units=units)]


def rows(settings: Settings, images: ImageClasses) -> Rows:
    """For each repeat: train_loss (cross entropy), train_error and test_error."""
    seeds, build = repeats(settings), NETWORKS[settings["network"]]
    inputs = images.X_train.shape[1]
    networks = [build(inputs, settings["units"], outputs=CLASSES, seed=seed) for seed in seeds]
    losses = train(settings, networks, images.X_train, images.y_train, "logistic")
    parts = {"train": (images.X_train, images.y_train), "test": (images.X_test, images.y_test)}
    return [
        {"repeat": seed, "train_loss": float(loss)} | class_errors(network, parts)
        for seed, network, loss in zip(seeds, networks, losses, strict=True)
    ]


def cost(settings: Settings) -> float:
    inputs = 65 if settings["dataset"] == "digits" else 785
    return settings["steps"] * (5e-4 + 1e-8 * inputs * settings["units"] * settings["repeats"])


def draw(table: pd.DataFrame) -> Figure:
    """Training (dashed) and test errors of both networks against the width, a panel for each data set."""
    names = list(table.dataset.unique())
    axes = panels(TITLE, columns=len(names))
    for ax, name in zip(axes[0], names, strict=True):
        curves(ax, table[table.dataset == name].set_index("units"), "error", times=100)
        ax.set(title=DATASETS[name], xlabel="units $k$", ylabel="error (%)")
        ax.set_xscale("log", base=2)
    return finished(axes, below=2 * len(names))


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    """On every data set: whether ReLU errs less, and how many times as often GaLU errs."""
    errors = means(table, ["dataset", "units"], "test_error")
    if errors.empty:
        return [Verdict.undecided(CLAIM, "both networks at one width")]
    found = []
    for name in table.dataset[table.dataset.isin(errors.index.unique("dataset"))].unique():
        of = errors.loc[name]
        ratio, better = of["GaLU"] / of["ReLU"], of["ReLU"] < of["GaLU"]
        told = "; ".join(f"k = {units}: {named(of.loc[units], '.1%')}" for units in of.index)
        most = f"{ratio.max():.2f} times ReLU's test error"
        found += [
            Verdict(f"on {DATASETS[name]}, ReLU errs less than GaLU", told, "at every width", at_every_size(better)),
            Verdict(
                f"on {DATASETS[name]}, it errs only slightly less",
                f"GaLU has at most {most}",
                f"at most {SLIGHTLY} times at every width",
                at_every_size(ratio <= SLIGHTLY),
            ),
        ]
    return found
