"""Are GaLU networks of one hidden layer close to ReLU's on images? (second version, figure 3)

Networks have hard gates and a trained readout, and minimise cross entropy. Inputs are pixels in [−1, 1] and a
constant 1. No hyperparameter is selected.
"""

import pandas as pd
from matplotlib.figure import Figure

from implicit_bias.datasets.images import ImageClasses
from implicit_bias.studies.galu.common import NETWORKS, at_every_size, error_panels, image_rows, means, repeats
from implicit_bias.studies.galu.images import CLASSES
from implicit_bias.studies.runner import Rows, Settings, Verdict, claims, finished, named, product
from implicit_bias.studies.runner.cells import image_classes
from implicit_bias.studies.runner.drawing import DATASETS

TITLE = "Networks of one hidden layer on images"
SOURCE = "second version, figure 3"
CLAIM = "On MNIST and Fashion-MNIST GaLU networks behave as ReLU networks do, which perform slightly better."
CLAIMS = claims("galu", "shallow-images")
data = image_classes


def grid(quick: bool) -> list[Settings]:
    fixed: Settings = {"steps": 2000 if quick else 100_000, "batch_size": 128, "lr": 1e-3, "repeats": 3, "seed": 1}
    units, datasets = ((8, 16, 32), ("digits",)) if quick else ((16, 32, 64, 128), ("mnist", "fashion-mnist"))
    return [cell | fixed for cell in product(dataset=datasets, network=NETWORKS, units=units)]


def rows(settings: Settings, images: ImageClasses) -> Rows:
    """Return a row for each repeat: repeat, train_loss, train_error and test_error."""
    build, shape = NETWORKS[settings["network"]], (images.X_train.shape[1], settings["units"])
    networks = [({"repeat": seed}, build(*shape, outputs=CLASSES, seed=seed)) for seed in repeats(settings)]
    return image_rows(settings, images, networks, "train", "test")


def cost(settings: Settings) -> float:
    inputs = 65 if settings["dataset"] == "digits" else 785
    return settings["steps"] * (5e-4 + 1e-8 * inputs * settings["units"] * settings["repeats"])


def draw(table: pd.DataFrame) -> Figure:
    parts = {DATASETS[str(name)]: part for name, part in table.groupby("dataset", sort=False)}
    return finished(error_panels(TITLE, parts), below=2 * len(parts))


def verdicts(table: pd.DataFrame) -> list[Verdict]:
    errors, decided = means(table, ["dataset", "units"], "test_error"), []
    higher, slightly = CLAIMS["ahead"], CLAIMS["slightly"]
    for name in table.dataset[table.dataset.isin(errors.index.unique("dataset"))].unique():
        of, data = errors.loc[name], DATASETS[name]
        ratio = of["GaLU"] / of["ReLU"]
        text = "; ".join(f"k = {units}: {named(row, '.1%')}" for units, row in of.iterrows())
        worst = f"GaLU has at most {ratio.max():.2f} times ReLU's test error"
        decided.append(higher.verdict(text, at_every_size(of["ReLU"] < of["GaLU"]), data=data))
        decided.append(slightly.verdict(worst, at_every_size(ratio <= slightly.limits["most"]), data=data))
    return decided or [claim.undecided("both networks at one width", data="images") for claim in CLAIMS.values()]
