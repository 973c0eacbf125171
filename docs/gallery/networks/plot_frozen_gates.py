"""
When do gates become those of SVM-LC?
=====================================

SVM-LC of Lippl, Abbott & Chung (2022) has the gates of a ReLU network at the end of training, and disagrees with the
network on some samples. Their section 5.2 names two possible causes: training is finite, or weights and gates are
learned together. Section 5 also considers gates that are frozen after a period of training. We freeze them after t
steps, solve the margin problem of these gates, SVM-LC(t), and continue the training of the weights alone. Networks
whose gates never change disagree with their own limit as much (two seeds): finite training may suffice as a cause.
"""

# %%
# One training of 20 units on 500 digits, 3200 steps as published; ``keep`` copies the network at each of the times.

import copy

import numpy as np

from implicit_bias import SGD, ReLUNetwork, load_binary, solve, svm_lc, train
from implicit_bias.metrics import inconsistency

TIMES, SEEDS = [0, 50, 200, 800, 1600, 3200], (1, 2)
task = load_binary("digits", train_size=500)
X, y = task.X_train, task.y_train


def snapshots(seed):
    """Return copies of a network in training, by step."""
    network, copies = ReLUNetwork(X.shape[1], 20, seed=seed), {}

    def keep(step, _):
        copies[step] = copy.deepcopy(network)

    train(network, X, y, SGD(max(TIMES)), seed=seed, every=TIMES, progress=keep)
    return copies


# %%
# Four shares for each t: gates on validation samples that differ from the final ones, and samples on which SVM-LC(t)
# disagrees with SVM-LC, with the ReLU network, and with the network frozen at t. This is trained for the other 3200 − t
# steps. It has the gates of SVM-LC(t): for t = 0, only finite training remains.

rows = []
for seed in SEEDS:
    copies = snapshots(seed)
    final = copies[max(TIMES)]
    scores, opened = final.decision_function(task.X_val), final.hidden(task.X_val) > 0
    answers = {}
    for t, network in copies.items():
        problem = svm_lc(X, y, network)
        solution = solve(problem)
        print(f"seed {seed}, t = {t:4}: {solution.status.name}, gap {solution.gap:.0e}")
        answers[t] = problem.decision_function(solution.weights, task.X_val)
    for t, network in copies.items():
        frozen = network.freeze()
        if t < max(TIMES):
            train(frozen, X, y, SGD(max(TIMES) - t), seed=seed)
        moved = np.mean((network.hidden(task.X_val) > 0) != opened)
        others = (answers[max(TIMES)], scores, frozen.decision_function(task.X_val))
        rows.append((t, moved, *(inconsistency(answers[t], other) for other in others)))
means = np.array([np.mean([row[1:] for row in rows if row[0] == t], axis=0) for t in TIMES])
for t, values in zip(TIMES, 100 * means, strict=True):
    print(f"t = {t:4}: " + ", ".join(f"{value:5.2f} %" for value in values))

# %%
# At half time, 99 % of the gates are final. The disagreement with the network falls until t = 800.

import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
labels = ("gates that differ from the final ones", "SVM-LC(t) from SVM-LC", "SVM-LC(t) from the ReLU network")
labels += ("SVM-LC(t) from the network frozen at t",)
for values, label, colour in zip(means.T, labels, ("0.5", "#0072B2", "#D55E00", "#009E73"), strict=True):
    ax.plot(np.arange(len(TIMES)), 100 * values, "o-", color=colour, label=label)
ax.set_xticks(np.arange(len(TIMES)), TIMES)
ax.set(xlabel="step t at which gates are frozen", ylabel="validation samples or gates (%)", ylim=(0, None))
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
