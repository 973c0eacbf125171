"""
One layer: mirror descent, and Adam with and without ε
======================================================

On linear models and separable data, directions converge to largest margins: mirror descent with the potential ‖w‖_p^p
in the ℓp norm (Sun et al. 2022), full-batch Adam without ε in ℓ∞ (Zhang, Zou & Cao 2024), and Adam with ε > 0 in ℓ2
(Wang et al. 2022), once gradients are :doc:`below ε </auto_gallery/networks/plot_adam_epsilon>`, and very slowly.
"""

# %%
# Certified optima of the ℓp margins, for norms written in CVXPY with their dual norm.

import cvxpy as cp
import numpy as np
from scipy.special import softmax
from torch import nn

from implicit_bias import Adam, ExpressionNorm, GatedFeatures, MarginProblem, solve, train
from implicit_bias.networks import TorchNetwork

X = np.random.default_rng(7).normal(size=(20, 30))
n, d = X.shape
y = np.sign(X @ np.append([2.0, -1.5, 1.0], np.zeros(d - 3)))
pairs = ("ℓ1.5", 1.5, 3), ("ℓ2", 2, 2), ("ℓ3", 3, 1.5), ("ℓ∞", np.inf, 1)
norms = {k: ExpressionNorm(lambda W, p=p: cp.pnorm(W, p), lambda V, q=q: np.linalg.norm(V[0], q)) for k, p, q in pairs}
optima = {name: solve(MarginProblem(GatedFeatures(X), y, one)) for name, one in norms.items()}
print({name: (round(one.objective, 4), f"gap {one.gap:.0e}", f"{one.seconds:.2f} s") for name, one in optima.items()})

# %%
# Train: mirror descent by steps along the gradient of log Σ exp(−margins), Adam on the logistic loss.
marks = np.unique(np.geomspace(10, 10_000, 40).astype(int)).tolist()


def row(step, w):
    w = w[None] / max((y * (X @ w)).min(), 1e-9)
    return [step, *(one.value(w) / optima[name].objective for name, one in norms.items())]


def mirror(p):
    u, rows = np.zeros(d), []
    for t in range(1, marks[-1] + 1):
        w = np.sign(u) * abs(u) ** (1 / (p - 1))
        u += 0.05 * max(1.0, np.linalg.norm(w, p)) ** (p - 2) * ((y * softmax(-y * (X @ w))) @ X)
        rows += [row(t, w)] if t in marks else []
    return rows


def adam(epsilon):
    module, rows = nn.Linear(d, 1, bias=False).double(), []
    nn.init.zeros_(module.weight)
    config = Adam(marks[-1], n, lr=0.1, lr_decay=0.5, beta2=0.95, eps=epsilon)
    record = lambda t, _: rows.append(row(t, module.weight.detach().numpy()[0]))  # noqa: E731
    train(TorchNetwork(module, d), X, y, config, every=marks, progress=record)
    return rows


paths = {f"mirror, p = {p}": mirror(p) for p in (1.5, 3)} | {f"Adam, ε = {e:g}": adam(e) for e in (1e-30, 1e-8)}

# %%
# Norm over margin as a multiple of the certified optimum.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 4, figsize=(11, 2.8), sharey=True)
for ax, (name, rows) in zip(axes, paths.items(), strict=True):
    print(name, dict(zip(norms, np.round(rows[-1][1:], 3).tolist(), strict=True)))
    ax.loglog(np.array(rows)[:, 0], np.array(rows)[:, 1:], label=[*norms])
    ax.set(title=name, xlabel="steps", ylim=(0.97, 4))
axes[0].legend()
plt.show()
