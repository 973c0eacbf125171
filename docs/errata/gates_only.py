"""The authors' `gates_only`: a linear SVM on the trained network's gates alone, which their figures leave out.

On MNIST, the 36 cells of 500 and 1000 units follow, of which the authors filled 25: their accuracy and agreement with
the network, then ours for gates of 0 and 1, as in their code, and of −1 and 1. A cell is reproduced if the accuracy is
within 0.001 and the agreement within 0.005, as for all published numbers. Relative changes of 1e-7 in the initial
weights, those of `rounding` with the given number, show how much rounding moves some of the cells. `gates_only.csv` is
the output on MNIST.
"""

import itertools
import sys

import torch

from implicit_bias import SGD, ReLUNetwork, load_binary, solve, train
from implicit_bias.gates import ConstantGate
from implicit_bias.margin.formulations import svm_shallow
from implicit_bias.studies.paper.published import published_predictions, published_training

#: The authors' correct and agreeing images of 12 000, by units, n and momentum, for seeds 1 to 3; None: empty.
PUBLISHED = {
    (500, 500, 0.0): ((8178, 8507), (8023, 8319), (7937, 8393)),
    (500, 500, 0.9): ((8499, 8988), (8424, 8713), (8104, 8414)),
    (500, 1000, 0.0): ((8543, 8685), (8258, 8489), (8288, 8517)),
    (500, 1000, 0.9): (None, (8899, 9132), None),
    (500, 2000, 0.0): (None, None, None),
    (500, 2000, 0.9): (None, None, None),
    (1000, 500, 0.0): ((8628, 8798), (8292, 8656), (8356, 8727)),
    (1000, 500, 0.9): ((8829, 9053), (8411, 8774), (8875, 9223)),
    (1000, 1000, 0.0): ((8683, 8820), (8940, 9121), (8700, 9036)),
    (1000, 1000, 0.9): ((8750, 8890), (8980, 9180), (8811, 8977)),
    (1000, 2000, 0.0): ((8918, 9105), (8973, 9111), (9106, 9276)),
    (1000, 2000, 0.9): (None, None, None),
}
#: Cells by units, n, momentum and seed that are also computed from changed initial weights.
CHANGED = ((500, 500, 0.0, 1), (1000, 500, 0.0, 1), (1000, 2000, 0.0, 1))


def gates_of(network, X):
    """Return the gates of the network's units as numbers."""
    return (network.hidden(X) > 0).astype(float)


def changed(network, change):
    """Return the network after the `change`-th perturbation of its weights, in place; 0 is none."""
    generator = torch.Generator().manual_seed(change)
    with torch.no_grad():
        for weight in network.parameters() if change else ():
            weight.mul_(1 + 1e-7 * torch.randn(weight.shape, generator=generator))
    return network


name = sys.argv[1] if len(sys.argv) > 1 else "digits"
task = load_binary(name, 500)
for units in (10, 20):
    network = ReLUNetwork(task.X_train.shape[1], units, seed=1)
    train(network, task.X_train, task.y_train, SGD(loader=True), seed=1)
    problem = svm_shallow(gates_of(network, task.X_train), task.y_train, ConstantGate())
    print(f"{units} units: {solve(problem).status.name}")
cells = [(*key, seed, 0) for key, seed in itertools.product(PUBLISHED, (1, 2, 3))]
cells += [(*cell, change) for cell, change in itertools.product(CHANGED, (1, 2))]
if name == "mnist":
    print("units,train_size,momentum,seed,change,accuracy,agreement,least,status,own_accuracy,own_agreement")
for units, n, momentum, seed, change in cells if name == "mnist" else ():
    task = load_binary(name, n)
    network = changed(ReLUNetwork(task.X_train.shape[1], units, seed=seed), change)
    sgd, order = published_training(3200, seed, momentum, autograd=True)
    train(network, task.X_train, task.y_train, sgd, seed=order, every=sgd.steps)
    own = published_predictions(network.decision_function(task.X_val))
    train_gates, gates = gates_of(network, task.X_train), gates_of(network, task.X_val)
    published = PUBLISHED[units, n, momentum][seed - 1]
    theirs = ",".join(f"{count / len(own):.5f}" for count in published) if published else ","
    for least in (0, -1):
        problem = svm_shallow((1 - least) * train_gates + least, task.y_train, ConstantGate())
        solution = solve(problem)
        found = ","
        if not solution.status.inseparable:
            labels = published_predictions(problem.decision_function(solution.weights, (1 - least) * gates + least))
            found = f"{(labels == task.y_val).mean():.5f},{(labels == own).mean():.5f}"
        about = f"{units},{n},{momentum},{seed},{change},{theirs},{least},{solution.status.name}"
        print(f"{about},{found}", flush=True)
