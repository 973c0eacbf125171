"""
One sample a step: Adam changes its norm, Signum does not
=========================================================

With full batches, Adam without ε converges to the largest ℓ∞ margin. With one sample a step it may converge to another:
on some data to that of ℓ2, while Signum with enough momentum stays at ℓ∞ (Baek, Song & Yun, arXiv 2510.26303; we read
the abstract). If all entries of a row have one size, so have second moments: Adam is momentum with a varying rate.
"""

# %%
# Rows c_i(±1, …, ±1), and the certified optima of both norms.

import numpy as np
from torch import nn

from implicit_bias import Adam, Frobenius, GatedFeatures, MarginProblem, TwoLayerNorm, solve, train
from implicit_bias.networks import TorchNetwork
from implicit_bias.training import Signum

rng, n, d = np.random.default_rng(3), 10, 20
X = rng.choice([-1.0, 1.0], (n, d)) * rng.uniform(0.5, 2, (n, 1))
y = np.where(np.arange(n) % 2, 1.0, -1.0)
norms = {"ℓ2": Frobenius(), "ℓ∞": TwoLayerNorm([0], "entries", "l_inf")}
optima = {name: solve(MarginProblem(GatedFeatures(X), y, norm)) for name, norm in norms.items()}
print({name: (round(one.objective, 4), f"gap {one.gap:.0e}", f"{one.seconds:.2f} s") for name, one in optima.items()})

# %%
# Train. The rate of epoch t is lr/√t.

adam = {"beta2": 0.99, "eps": 1e-30, "lr_decay": 0.5}
configs = {
    "Adam, full batches": Adam(20_000, n, lr=0.1, **adam),
    "Adam, one sample": Adam(30_000, 1, lr=0.1, **adam),
    "Signum, one sample": Signum(30_000, 1, lr=0.02, lr_decay=0.5, momentum=0.99),
}
paths = {}
for name, config in configs.items():
    module, rows = nn.Linear(d, 1, bias=False).double(), []
    nn.init.zeros_(module.weight)

    def record(step, _, module=module, rows=rows):
        w = module.weight.detach().numpy()
        least = max((y * (X @ w[0])).min(), 1e-9)
        rows.append([step, *(norm.value(w) / least / optima[one].objective for one, norm in norms.items())])

    marks = np.unique(np.geomspace(10, config.steps, 40).astype(int)).tolist()
    train(TorchNetwork(module, d), X, y, config, seed=1, every=marks, progress=record)
    paths[name] = np.array(rows)
    print(name, dict(zip(norms, paths[name][-1, 1:].round(3).tolist(), strict=True)))

# %%
# Norm over margin as a multiple of the certified optimum.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 3, figsize=(10, 2.8), sharey=True)
for ax, (name, rows) in zip(axes, paths.items(), strict=True):
    ax.loglog(rows[:, 0], rows[:, 1:], label=[*norms])
    ax.set(title=name, xlabel="steps", ylim=(0.97, 3))
axes[0].set_ylabel("times the optimum")
axes[0].legend()
plt.show()
