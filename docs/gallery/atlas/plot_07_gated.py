"""
Gated networks: fixed and learned half-spaces
=============================================

Behind fixed gates, limit directions of gradient descent are stationary for the least ‖w‖² (Lippl, Abbott & Chung 2022,
theorem 3.1, if they exist and the loss vanishes). For two layers without dead units they minimise Σ‖ζ_h‖: SVM-GLN, or
SVM-RC for random half-spaces. A ReLU network learns its half-spaces; SVM-LC has those of its end. The best ReLU network
has the least Σ‖ζ_h‖ of all, and no theorem says that descent finds it.
"""

# %%
# Points on two rings, with a constant input, and the certified optimum over all ReLU networks.

import numpy as np
from sklearn.datasets import make_circles

from implicit_bias import Frobenius, HyperplaneGates, LossScaled, MarginProblem, descend_to_limit, solve, svm_rc
from implicit_bias.extensions.best_networks import best_network
from implicit_bias.networks import FrozenReLUNetwork, GatedLinearNetwork, ReLUNetwork

points, labels = make_circles(40, noise=0.08, factor=0.5, random_state=1)
X, y = np.column_stack([points, np.ones(40)]), np.where(labels, 1.0, -1.0)
best = best_network(X, y)
print(f"best network: {best.objective:.4f}, gap {best.gap:.0e}, {best.table.seconds.iloc[-1]:.2f} s")

# %%
# Descend by steps that are scaled by 1/loss, and solve the problems of the gates at the end. ``svm_rc`` takes any
# gates: the contexts of the GLN, random half-spaces, or learned ones.

networks = {
    "GLN": GatedLinearNetwork(HyperplaneGates(8, 2, seed=1).fit(X)),
    "frozen half-spaces": FrozenReLUNetwork(3, 32, seed=1),
    "learned half-spaces": ReLUNetwork(3, 32, seed=1),
}
ratios = {}
for name, network in networks.items():
    weights = []

    def measure(network, weights=weights):
        weights.append(network.effective_weights() / max((y * network.decision_function(X)).min(), 1e-9))
        return {}

    table = descend_to_limit(network, X, y, LossScaled(), measure=measure).table
    own = svm_rc(X, y, network.gates())
    problems = {"own gates": own, "own gates, Frobenius": MarginProblem(own.features, y, Frobenius())}
    optima = {norm: solve(problem) for norm, problem in problems.items()}
    found = {norm: [problems[norm].norm.value(W) / optima[norm].objective for W in weights] for norm in problems}
    found["best network"] = [own.norm.value(W) / best.objective for W in weights]
    ratios[name] = (table.step, found)
    print(name, {norm: round(float(each[-1]), 3) for norm, each in found.items()})
    print(
        {norm: (round(one.objective, 4), f"gap {one.gap:.0e}", f"{one.seconds:.2f} s") for norm, one in optima.items()}
    )

# %%
# Norm over margin as a multiple of the certified optimum.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 3, figsize=(10, 2.8), sharey=True)
for ax, (name, (steps, found)) in zip(axes, ratios.items(), strict=True):
    for norm, each in found.items():
        ax.loglog(steps[1:], each[1:], label=norm)
    ax.set(title=name, xlabel="steps", ylim=(0.6, 4))
axes[0].set_ylabel("times the optimum")
axes[0].legend(fontsize=7)
plt.show()
