"""
Weight decay: the least loss within a norm
==========================================

With decoupled weight decay λ, limits of AdamW, where it converges, are KKT points of the loss for entries of at most
1/λ (Xie & Li, arXiv 2404.04454), and those of Muon for singular values of at most 1/λ (Chen, Li & Liu, arXiv
2506.15054). For a linear model both problems are convex. Signum has AdamW's problem.
"""

# %%
# Four classes. Bounds 1/λ are multiples of the norm that margins of 1 need.

import numpy as np
import torch
from scipy.special import entr, log_softmax

from implicit_bias import Adam, ConstantGate, TwoLayerNorm, solve, svm_classes, train
from implicit_bias.networks import TorchNetwork
from implicit_bias.training import Muon, Signum

rng, n, d, Y = np.random.default_rng(0), 40, 10, np.tile(np.eye(4), (10, 1))
X = rng.normal(size=(n, d)) + Y @ rng.normal(size=(4, d))
norms = {name: TwoLayerNorm(range(4), name, "l_inf") for name in ("entries", "spectral")}
optima = {name: solve(svm_classes(X, Y.argmax(1), ConstantGate(), norm=name)) for name in norms}
print({name: (round(one.objective, 4), f"gap {one.gap:.0e}", f"{one.seconds:.2f} s") for name, one in optima.items()})

# %%
# Any weights certify a lower bound: with their probabilities P, the loss of ‖W‖ ≤ 1/λ is at least the mean entropy
# minus ‖(Y − P)ᵀX/n‖_*/λ.


def loss_and_bound(W, norm, bound):
    logs = log_softmax(X @ W.T, axis=1)
    lower = entr(np.exp(logs)).sum() - bound * norms[norm].dual((Y - np.exp(logs)).T @ X)
    return -(Y * logs).sum() / n, lower / n


# %%
# Train with full batches. Weights are scaled to the neighbour's bound for its problem.

methods = {f"AdamW, β₂ = {b}": (Adam, "entries", {"eps": 1e-30, "beta2": b}) for b in (0.999, 0.95)}
methods |= {"Signum": (Signum, "entries", {}), "Muon": (Muon, "spectral", {})}
multiples, ratios = (0.5, 1, 2), {name: [] for name in methods}
for multiple in multiples:
    bounds, weights = {norm: multiple * one.objective for norm, one in optima.items()}, {}
    torch.manual_seed(0)
    for name, (method, own, options) in methods.items():
        module, decay = torch.nn.Linear(d, 4, bias=False).double(), 1 / bounds[own]
        config = method(6000, n, lr=0.1 / decay, lr_decay=0.5, weight_decay=decay, **options)
        train(TorchNetwork(module, d), X, Y.argmax(1), config, every=6000)
        weights[name] = module.weight.detach().numpy()
    least = {norm: max(loss_and_bound(W, norm, bounds[norm])[1] for W in weights.values()) for norm in norms}
    print(f"bounds {multiple} times the optimum, least losses", {norm: round(float(least[norm]), 4) for norm in norms})
    for name, W in weights.items():
        sizes = {norm: norms[norm].value(W) / bounds[norm] for norm in norms} | {methods[name][1]: 1.0}
        ratios[name].append([loss_and_bound(W / sizes[norm], norm, 1)[0] / least[norm] for norm in norms])
        print(name, dict(zip(norms, np.round(ratios[name][-1], 4).tolist(), strict=True)))

# %%
# The loss as a multiple of the certified lower bound.

import matplotlib.pyplot as plt

_, axes = plt.subplots(1, 4, figsize=(11, 2.8), sharey=True)
for ax, (name, rows) in zip(axes, ratios.items(), strict=True):
    ax.loglog(multiples, rows, "o-", label=[*norms])
    ax.set(title=name, xlabel="bound / margin optimum")
axes[0].legend()
plt.show()
