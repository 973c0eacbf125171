"""
Does Adam still maximise the l_inf margin with its default ε?
=============================================================

Without ε, full-batch Adam with falling rates tends to the largest margin of weights bounded in their largest entry, as
sign descent does. With any ε > 0, steps become proportional to the mean gradient once gradients are below ε: in the
long run Adam is gradient descent with momentum, whose limit is the largest margin in the l2 norm.
"""

# %%
# Two inputs. The sample (3, 1) alone decides both margins: it lies on the margin of the l2 solution, (3, 1)/10, and of
# the l_inf solution, (1, 1)/4. All others are farther away.

import numpy as np
from torch import nn

rng = np.random.default_rng(1)
others = rng.normal(size=(40, 2)) * 1.5 + [6, 3]
others = others[(others @ [3, 1] >= 11) & (others @ [1, 1] >= 4.4)]
X = np.vstack([[3.0, 1.0], others])
y = np.where(np.arange(len(X)) % 2, -1.0, 1.0)
X *= y[:, None]
optimum = {"l2": 10**-0.5, "l_inf": 0.25}

# %%
# Full batches, rates 0.1/√t, β₂ = 0.95. Ratios are norm / (least margin × optimum): 1 at the solution of that norm.

from implicit_bias import Adam, train
from implicit_bias.networks import TorchNetwork

STEPS = 10_000
TIMES = sorted({int(step) for step in np.geomspace(10, STEPS, 40)})
paths = {}
for epsilon in (1e-30, 1e-8, 1e-4):
    network = TorchNetwork(nn.Linear(2, 1, bias=False).double(), 2)
    nn.init.zeros_(network.first_parameter())
    rows = paths[epsilon] = []

    def keep(step, _, rows=rows, network=network):
        w = network.first_parameter().detach().numpy().ravel()
        margin = (y * (X @ w)).min()
        if margin > 0:
            rows.append((step, abs(w).max() / margin / optimum["l_inf"], np.linalg.norm(w) / margin / optimum["l2"]))

    config = Adam(STEPS, len(X), lr=0.1, lr_decay=0.5, beta2=0.95, eps=epsilon)
    train(network, X, y, config, every=TIMES, progress=keep)
    print(f"ε = {epsilon:g}: l_inf ratio {rows[-1][1]:.3f}, l2 ratio {rows[-1][2]:.3f} after {rows[-1][0]} steps")

# %%
# The three paths are one until gradients are as small as ε. From there on the l_inf ratio rises and the l2 ratio falls.
# The direction of gradient descent changes like 1/log t, so that the last part takes very long.

import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for (epsilon, rows), colour in zip(paths.items(), ("#0072B2", "#D55E00", "#009E73"), strict=True):
    steps, l_inf, l2 = np.array(rows).T
    ax.plot(steps, l_inf, color=colour, label=f"ε = {epsilon:g}")
    ax.plot(steps, l2, "--", color=colour)
ax.plot([], [], color="0.4", label="l_inf ratio")
ax.plot([], [], "--", color="0.4", label="l2 ratio")
ax.axhline(1.0, color="black", linewidth=0.6)
ax.set(xscale="log", xlabel="steps", ylabel="norm / (margin × optimum)")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()
