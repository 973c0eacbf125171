"""
The cost of decoupling
======================

A ReLU unit uses one vector as both weight and gate. A gated linear unit (Fiat, Malach & Shalev-Shwartz, 2019) uses two,
and its gate is random and fixed. Whether that costs accuracy depends on the target. Both targets here are ours: one
bends along many directions, so random gates match it; the other bends along one direction in ten dimensions, and they
do not.
"""

# %%
# 400 samples of 10 Gaussian inputs for fitting and 200 for validation, with noise of a tenth of the target's variance.
# Errors are measured on 5000 new samples without noise, relative to that variance. The first target is a network of 100
# random ReLU units, the second the absolute value of one input.

import numpy as np

rng = np.random.default_rng(1)
teacher, readout = rng.normal(size=(100, 10)), rng.normal(size=100)
X, X_val, X_new = (rng.normal(size=(n, 10)) for n in (400, 200, 5000))
targets = {
    "bends along many directions": lambda X: np.maximum(X @ teacher.T, 0) @ readout,
    "bends along one direction": lambda X: abs(X[:, 0]),
}

# %%
# Four models of each width k: ridge regression without gates, GaLU in closed form, the same after 200 steps of
# Algorithm 1, and a ReLU network trained by Adam. The ridge parameter and the number of epochs
# minimise the validation error.

from sklearn.linear_model import Ridge

from implicit_bias import Adam, ReLUNetwork, train
from implicit_bias.extensions.galu import GaLURegressor

WIDTHS = (2, 4, 8, 16, 32)


def best_of(models, y_val, wanted):
    """The error on new samples of the model that errs least on those to choose by."""
    chosen = min(models, key=lambda predict: np.mean((predict(X_val) - y_val) ** 2))
    return np.mean((chosen(X_new) - wanted) ** 2)


def galu(y, units, steps):
    return [GaLURegressor(units, rho, steps=steps, random_state=1).fit(X, y).predict for rho in (0.01, 0.1, 1.0)]


def with_constant(X):
    return np.column_stack([X, np.ones(len(X))])


def relu(y, units):
    """The network, which gets the constant input that the others append, at the end of every tenth epoch."""
    network, models = ReLUNetwork(11, units, seed=1), []

    def keep(step, steps):
        if step:
            kept = network.freeze()  # with its gates as they are now, the network of this moment
            models.append(lambda X: kept.decision_function(with_constant(X)))

    train(network, with_constant(X), y, Adam(2000, 100, lr=5e-3, loss="squared"), every=40, progress=keep)
    return models


errors = {}
for name, target in targets.items():
    wanted = target(X_new)
    y, y_val, wanted = ((target(x) - wanted.mean()) / wanted.std() for x in (X, X_val, X_new))
    y, y_val = (values + 0.1**0.5 * rng.normal(size=len(values)) for values in (y, y_val))
    linear = best_of([Ridge(rho).fit(X, y).predict for rho in (1.0, 10.0, 100.0)], y_val, wanted)
    errors[name] = {
        "no gates": [linear] * len(WIDTHS),
        "GaLU": [best_of(galu(y, k, 0), y_val, wanted) for k in WIDTHS],
        "GaLU, better filters": [best_of(galu(y, k, 200), y_val, wanted) for k in WIDTHS],
        "ReLU, trained": [best_of(relu(y, k), y_val, wanted) for k in WIDTHS],
    }

# %%
# If the target bends along many directions, few fixed gates lose accuracy and 32 lose none. If it depends on one
# direction, the ReLU network aligns its units with it and needs 8 of them; the error of fixed gates is more than five
# times as large at every width from 8 on. Algorithm 1 about halves that error. Each curve is one draw.

import matplotlib.pyplot as plt

STYLES = {"no gates": ("0.5", ":"), "GaLU": ("#0072B2", "-"), "GaLU, better filters": ("#56B4E9", "--")}
STYLES["ReLU, trained"] = ("#D55E00", "-")
figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, sharex=True)
for ax, (name, found) in zip(axes, errors.items(), strict=True):
    for way, values in found.items():
        colour, line = STYLES[way]
        ax.plot(WIDTHS, values, line, color=colour, marker="o" if way != "no gates" else None, markersize=4, label=way)
    ax.set(xscale="log", yscale="log", title=name, xlabel="units k", xticks=WIDTHS, xticklabels=WIDTHS)
    ax.minorticks_off()
axes[0].set_ylabel("error / variance of the target")
axes[0].legend()
plt.show()
for name, found in errors.items():
    print(f"{name}, k = 32:", ", ".join(f"{way} {values[-1]:.2f}" for way, values in found.items()))
