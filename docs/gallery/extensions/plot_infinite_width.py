"""
The margin at infinite width
============================

The gradients of a network at its random initialisation are features of the input. Their max-margin problem depends on
the initialisation, but less so for wider networks. At infinite width it is that of the neural tangent kernel, which
``InfiniteNetwork`` computes for any depth and activation with an error bound.
"""

# %%
# Two rings of points, which are not linearly separable. ``solve`` accepts any kernel and certifies the solution.

import numpy as np

from implicit_bias import Frobenius, KernelFeatures, MarginProblem, solve
from implicit_bias.extensions.infinite import InfiniteNetwork

rng = np.random.default_rng(1)
angles = rng.uniform(0, 2 * np.pi, size=60)
y = np.where(np.arange(60) < 30, 1.0, -1.0)
X = np.where(y > 0, 0.7, 1.2)[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
X += 0.06 * rng.normal(size=X.shape)


def norm(kernel):
    return solve(MarginProblem(KernelFeatures.from_kernels([kernel]), y, Frobenius())).objective


def of_width(k, seed):
    """⟨∂f/∂θ, ∂f'/∂θ⟩ of f(x) = k^{-1/2} Σ a_j z_j₊ + 0.3 b, z_j = ⟨w_j, x⟩/√2 + 0.3 b_j: readout, inputs, biases."""
    draw = np.random.default_rng(seed)
    W, a, b = draw.normal(size=(k, 2)), draw.normal(size=k), draw.normal(size=k)
    Z = X @ W.T / np.sqrt(2) + 0.3 * b
    opened = (Z > 0) * a
    return (np.maximum(Z, 0) @ np.maximum(Z, 0).T + opened @ opened.T * (X @ X.T / 2 + 0.09)) / k + 0.09


network = InfiniteNetwork("relu", layers=1, bias_variance=0.09)
limit = norm(network.kernels(X).ntk.values)
widths = (30, 100, 300, 1000, 3000)
norms = np.array([[norm(of_width(k, seed)) for seed in range(5)] for k in widths])
print(f"infinite width: ‖W‖ = {limit:.4f}")
for k, row in zip(widths, norms, strict=True):
    print(f"{k:5} units: {row.min():.4f} to {row.max():.4f}")

# %%
# Left: the norms for five draws approach the limit. Right: the decision boundaries for three depths.

import matplotlib.pyplot as plt

figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
for seed in range(5):
    left.semilogx(widths, norms[:, seed], ".-", color="#0072B2", linewidth=0.6)
left.axhline(limit, color="#D55E00", label="neural tangent kernel")
left.set(xlabel="units", ylabel="least norm ‖W‖ of margin 1")
left.legend(frameon=False)
side = np.linspace(-1.6, 1.6, 61)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
for layers, colour in ((1, "#D55E00"), (3, "#009E73"), (8, "#CC79A7")):
    deep = InfiniteNetwork("relu", layers, weight_variance=2.0, bias_variance=0.09)
    features = KernelFeatures.from_kernels([deep.kernels(X).ntk.values])
    solution = solve(MarginProblem(features, y, Frobenius()))
    scores = features.extended([deep.kernels(grid, X).ntk.values]) @ solution.weights
    right.contour(side, side, scores.reshape(61, 61), levels=[0.0], colors=[colour])
    right.plot([], [], color=colour, label=f"{layers} hidden layer{'s' if layers > 1 else ''}")
right.scatter(*X.T, c=np.where(y > 0, "#0072B2", "#E69F00"), s=12)
right.set(aspect="equal", xlabel="$x_1$", ylabel="$x_2$")
right.legend(frameon=False, loc="upper right", fontsize="small")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
