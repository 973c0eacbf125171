"""Every figure of the study of Gram matrices."""

from __future__ import annotations

from implicit_bias.experiments.gram import antipodal, circle, depth, dimension, rank, speed, width
from implicit_bias.experiments.runner.experiment import Collection

MODULES = (dimension, circle, rank, antipodal, depth, width, speed)
COLLECTION = Collection(
    name="gram",
    source=(
        'Panigrahi, Shetty & Goyal, "Effect of activation functions on the training of overparametrized neural nets"'
    ),
    figures={module.EXPERIMENT.name: module.EXPERIMENT for module in MODULES},
)
