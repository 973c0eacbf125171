"""Rounding in the published training: accuracies on MNIST after relative changes of 1e-7 in initial weights.

The first lines, n, H, seed, published accuracy of GD-ReLU with momentum 0.9, accuracy without changes, and with five
changes, are those of the cells that the simulation misses. The others, H, n, momentum and seed, are accuracies of
`gates_only` with two changes, which `gates_only.csv` has beside the authors' accuracies and agreements.
"""

from pathlib import Path

import pandas as pd
import torch

from implicit_bias import ConstantGate, ReLUNetwork, load_binary, solve, svm_shallow, train
from implicit_bias.studies.paper.published import published_predictions, published_training

#: Published accuracies of the cells that the simulation misses, by n, H and seed.
MISSED = {(1000, 10, 1): 0.86842, (2000, 10, 1): 0.89758, (2000, 20, 3): 0.91158, (500, 50, 2): 0.86900}


def trained(task, units, seed, change, momentum=0.9):
    """Return the published GD-ReLU after the `change`-th perturbation of its weights; 0 is none."""
    network = ReLUNetwork(task.X_train.shape[1], units, seed=seed)
    generator = torch.Generator().manual_seed(change)
    with torch.no_grad():
        for weight in network.parameters() if change else ():
            weight.mul_(1 + 1e-7 * torch.randn(weight.shape, generator=generator))
    sgd, batches = published_training(3200, seed, momentum, autograd=True)
    train(network, task.X_train, task.y_train, sgd, seed=batches, every=sgd.steps)
    return network


def accuracy(scores, task):
    """Return the published accuracy of scores on the validation images."""
    return (published_predictions(scores) == task.y_val).mean()


def gates_only(task, network):
    """Return the outputs of the linear SVM on the network's gates on the validation images."""
    gates, held_out = ((network.hidden(inputs) > 0).astype(float) for inputs in (task.X_train, task.X_val))
    problem = svm_shallow(gates, task.y_train, ConstantGate())
    return problem.decision_function(solve(problem).weights, held_out)


if __name__ == "__main__":
    for (n, units, seed), published in MISSED.items():
        task = load_binary("mnist", n)
        networks = [trained(task, units, seed, change) for change in range(6)]
        found = [accuracy(network.decision_function(task.X_val), task) for network in networks]
        print(n, units, seed, *(f"{value:.5f}" for value in (published, *found)), flush=True)
    table = pd.read_csv(Path(__file__).with_name("gates_only.csv"))
    for row in table.dropna().itertuples():
        task = load_binary("mnist", row.train_size)
        networks = [trained(task, row.units, row.seed, change, row.momentum) for change in (1, 2)]
        found = [f"{accuracy(gates_only(task, network), task):.5f}" for network in networks]
        print(row.units, row.train_size, row.momentum, row.seed, *found, flush=True)
