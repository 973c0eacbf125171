"""Rounding in the published training of GD-ReLU: accuracies on MNIST after relative changes of 1e-7 in initial weights.

Columns: n, H, seed, published accuracy, accuracy without changes, then five with different changes. Momentum is 0.9.
"""

import torch

from implicit_bias import ReLUNetwork, load_binary, train
from implicit_bias.studies.paper.published import published_predictions, published_training

#: Published accuracies of the cells that the simulation misses, by n, H and seed.
MISSED = {(1000, 10, 1): 0.86842, (2000, 10, 1): 0.89758, (2000, 20, 3): 0.91158, (500, 50, 2): 0.86900}


def accuracy(task, units, seed, change):
    """Return the published accuracy of GD-ReLU after the `change`-th perturbation; 0 is none."""
    network = ReLUNetwork(task.X_train.shape[1], units, seed=seed)
    generator = torch.Generator().manual_seed(change)
    with torch.no_grad():
        for weight in network.parameters() if change else ():
            weight.mul_(1 + 1e-7 * torch.randn(weight.shape, generator=generator))
    sgd, batches = published_training(3200, seed, 0.9, autograd=True)
    train(network, task.X_train, task.y_train, sgd, seed=batches, every=sgd.steps)
    return (published_predictions(network.decision_function(task.X_val)) == task.y_val).mean()


if __name__ == "__main__":
    for (n, units, seed), published in MISSED.items():
        task = load_binary("mnist", n)
        found = [accuracy(task, units, seed, change) for change in range(6)]
        print(n, units, seed, *(f"{value:.5f}" for value in (published, *found)), flush=True)
