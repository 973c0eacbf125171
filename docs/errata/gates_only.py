"""The authors' `gates_only`: a linear SVM on the trained network's gates alone, which their figures leave out.

On MNIST, networks of 500 units follow, with momentum 0 and 0.9, for gates of 0 and 1, as in the authors' code, and of
−1 and 1, with which their tables agree: accuracy and agreement, and those of the authors.
"""

import sys

from implicit_bias import SGD, ReLUNetwork, load_binary, solve, train
from implicit_bias.gates import ConstantGate
from implicit_bias.margin.formulations import svm_shallow
from implicit_bias.studies.paper.published import published_predictions, published_training

#: The authors' accuracies and agreements by momentum, at n = 500, H = 500, seed 1.
PUBLISHED = {0.0: (0.68150, 0.70892), 0.9: (0.70825, 0.74900)}


def gates_of(network, X):
    """Return the gates of the network's units as numbers."""
    return (network.hidden(X) > 0).astype(float)


name = sys.argv[1] if len(sys.argv) > 1 else "digits"
task = load_binary(name, 500)
for units in (10, 20):
    network = ReLUNetwork(task.X_train.shape[1], units, seed=1)
    train(network, task.X_train, task.y_train, SGD(loader=True), seed=1)
    problem = svm_shallow(gates_of(network, task.X_train), task.y_train, ConstantGate())
    print(f"{units} units: {solve(problem).status.name}")
for momentum, published in PUBLISHED.items() if name == "mnist" else ():
    network = ReLUNetwork(task.X_train.shape[1], 500, seed=1)
    sgd, seed = published_training(3200, 1, momentum, autograd=True)
    train(network, task.X_train, task.y_train, sgd, seed=seed, every=sgd.steps)
    own = published_predictions(network.decision_function(task.X_val))
    train_gates, gates = gates_of(network, task.X_train), gates_of(network, task.X_val)
    for least in (0, -1):
        problem = svm_shallow((1 - least) * train_gates + least, task.y_train, ConstantGate())
        solution = solve(problem)
        labels = published_predictions(problem.decision_function(solution.weights, (1 - least) * gates + least))
        found = f"{(labels == task.y_val).mean():.5f}, {(labels == own).mean():.5f}"
        print(f"500 units, gates {least} and 1: {solution.status.name}, {found}; {published}", flush=True)
