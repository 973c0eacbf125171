"""The authors' `gates_only`: a linear SVM on the trained network's gates alone, which their figures leave out."""

import sys

from implicit_bias import SGD, ReLUNetwork, load_binary, solve, train
from implicit_bias.gates import ConstantGate
from implicit_bias.margin.formulations import svm_shallow

task = load_binary(sys.argv[1] if len(sys.argv) > 1 else "digits", 500)
for units in (10, 20):
    network = ReLUNetwork(task.X_train.shape[1], units, seed=1)
    train(network, task.X_train, task.y_train, SGD(loader=True), seed=1)
    open_gates = (network.hidden(task.X_train) > 0).astype(float)
    print(f"{units} units: {solve(svm_shallow(open_gates, task.y_train, ConstantGate())).status.name}")
