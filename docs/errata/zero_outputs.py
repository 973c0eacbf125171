"""Outputs of exactly 0 on MNIST, which the published code counts as wrong for both labels.

Each line: model, n, contexts or units, seed, images with output 0 of 12 000, accuracy if 0 is −1, with the rule of the
published code, and as published. All are without momentum or, with 10 units, with momentum 0.9.
"""

from implicit_bias import HyperplaneGates, ReLUNetwork, load_binary, solve, train
from implicit_bias.gates import OccupiedRegions
from implicit_bias.margin.formulations import svm_shallow
from implicit_bias.studies.paper.published import published_predictions, published_training

#: Published accuracies by n, contexts or units, and seed.
SHALLOW = {(500, 64, 1): 0.71108, (500, 256, 1): 0.54225, (2000, 256, 2): 0.77400}
RELU = {(500, 10, 2): 0.80617, (1000, 10, 2): 0.84950, (1000, 10, 3): 0.88525}


def shallow(task, contexts, seed):
    """Return the outputs of SVM-shallow on the validation images, 0 in regions without training samples."""
    gates = HyperplaneGates(1, contexts, seed=seed).fit(task.X_pool)
    problem = svm_shallow(task.X_train, task.y_train, OccupiedRegions(gates).fit(task.X_train))
    return problem.decision_function(solve(problem).weights, task.X_val)


def relu(task, units, seed):
    """Return the outputs of GD-ReLU on the validation images, 0 where all gates are closed."""
    network = ReLUNetwork(task.X_train.shape[1], units, seed=seed)
    sgd, batches = published_training(3200, seed, 0.9, autograd=True)
    train(network, task.X_train, task.y_train, sgd, seed=batches, every=sgd.steps)
    return network.decision_function(task.X_val)


if __name__ == "__main__":
    for name, outputs, cells in (("SVM-shallow", shallow, SHALLOW), ("GD-ReLU", relu, RELU)):
        for (n, size, seed), published in cells.items():
            task = load_binary("mnist", n)
            scores = outputs(task, size, seed)
            found = [(published_predictions(scores, faults) == task.y_val).mean() for faults in ((), ("zero outputs",))]
            values = ", ".join(f"{value:.5f}" for value in [*found, published])
            print(f"{name} {n} {size} {seed}: {(scores == 0).sum()}; {values}", flush=True)
