"""
Receptive fields with a trained readout
=======================================

The notes on localization define ŷ = W₂ σ(W₁x + b₁) + b₂; in the work that they cite, W₂ is a mean, as in
``train_online``. Without b₁, here W₂, and b₂ as well, are trained with the fields. The fields of ReLU units remain
local, and those of the Gaussian clone of the data remain spread.
"""

# %%
# ŷ = (1/K) Σ a_k max(0, w_kᵀx) + b₂. With a_k = 1 and b₂ = 0 fixed, the steps are those of ``train_online``; a_k and b₂
# have steps of the same rate. All networks see the same samples.

import numpy as np

from implicit_bias.extensions.gated_flow import ipr, nonlinear_gaussian_process, train_online

UNITS, NETWORKS, STEPS, RATE, N = 10, 3, 4000, 0.1, 40


def trained(process, weights=False, bias=False):
    """Return the fields (R, K, n) at a few times, and W₂ (R, K) at the end."""
    W = 0.1 / np.sqrt(N) * np.random.default_rng([1, 1]).normal(size=(NETWORKS * UNITS, N))
    a, b, fields = np.ones((NETWORKS, UNITS)), np.zeros(NETWORKS), {}
    for step, (X, y) in enumerate(process.stream(STEPS, 500, seed=1), 1):
        active = np.maximum(X @ W.T, 0.0).reshape(len(X), NETWORKS, UNITS)
        errors = y[:, None] - (active * a).mean(axis=2) - b
        slopes = (active > 0) * a * errors[:, :, None]
        W = W + RATE / len(X) * slopes.reshape(len(X), -1).T @ X
        a = a + weights * RATE * (active * errors[:, :, None]).mean(axis=0)
        b = b + bias * RATE * errors.mean(axis=0)
        if step in TIMES:
            fields[step] = W.reshape(NETWORKS, UNITS, N)
    return fields, a


# %%
# A process whose saturated pixels are not Gaussian, and its Gaussian clone with the same covariances.

TIMES = sorted({int(step) for step in np.geomspace(50, STEPS, 14)})
process = nonlinear_gaussian_process(N, length_scales=(3.0, 1.0), gain=100.0, labels=(1.0, 0.0))
VARIANTS = {"mean": {}, "W₂ trained": {"weights": True}, "W₂ and b₂ trained": {"weights": True, "bias": True}}
found = {}
for name, data in (("process", process), ("Gaussian clone", process.clone())):
    for readout, options in VARIANTS.items():
        fields, a = found[name, readout] = trained(data, **options)
        print(
            f"{name:15}{readout:18} median IPR {np.median(ipr(fields[STEPS])):.3f}, W₂ {a.min():.2f} to {a.max():.2f}"
        )
same = train_online(process, UNITS, steps=STEPS, lr=RATE, repeats=NETWORKS).fields
print("largest difference from train_online:", np.abs(same - found["process", "mean"][0][STEPS]).max())

# %%
# Left: the inverse participation ratio, 1/n for flat fields and 1 for a single pixel, of the process (solid) and of its
# clone (dashed). Right: the first fields of each readout.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
for (readout, _), colour in zip(VARIANTS.items(), ("#0072B2", "#D55E00", "#009E73"), strict=True):
    for name, style in (("process", "-"), ("Gaussian clone", "--")):
        fields = found[name, readout][0]
        medians = [np.median(ipr(fields[step])) for step in TIMES]
        axes[0].semilogx(TIMES, medians, style, color=colour, label=readout if style == "-" else None)
    for row, field in enumerate(found["process", readout][0][STEPS][0, :3]):
        axes[1].plot(field / np.abs(field).max() - 2.5 * row, color=colour)
axes[0].set(xlabel="step", ylabel="median IPR", ylim=(0, None))
axes[0].legend(frameon=False)
axes[1].set(xlabel="pixel", yticks=[], title="three units of the first network")
for ax in axes:
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
