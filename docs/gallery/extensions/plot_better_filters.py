"""
Better filters by Algorithm 1
=============================

Algorithm 1 of the first version of *Decoupling Gating from Linearity* (Fiat, Malach & Shalev-Shwartz) improves the
filters of a GaLU layer without gradients: it draws a new filter for a random unit and keeps it if the minimal loss does
not increase. In two dimensions the result is visible. The target is ours: it is linear on both sides of a fold.
"""

# %%
# 200 samples in the plane with little noise, six units, and 300 steps. Without a bias every unit is open on one side of
# a line through the origin, so a filter is an angle.

import numpy as np

from implicit_bias.extensions.galu import GaLURegressor

rng = np.random.default_rng(0)
fold = np.array([np.cos(1.0), np.sin(1.0)])
X, X_new = rng.normal(size=(200, 2)), rng.normal(size=(4000, 2))
y = abs(X @ fold) + 0.1 * rng.normal(size=200)
options = {"units": 6, "ridge": 1e-3, "fit_intercept": False, "random_state": 2}
first = GaLURegressor(**options).fit(X, y)
better = GaLURegressor(**options, steps=300).fit(X, y)
print(f"loss {first.solution_.loss:.4f} with random filters, {better.solution_.loss:.4f} with better ones;", end=" ")
print(f"{better.search_.accepted} of 300 were kept")

# %%
# The same for 20 random layers. The angle is that between the fold and the nearest line of a unit.


def nearest(filters):
    cosines = abs(filters @ fold) / np.linalg.norm(filters, axis=1)
    return np.degrees(np.arccos(np.minimum(cosines, 1))).min()


searches = [GaLURegressor(**options | {"random_state": seed}, steps=300).fit(X, y) for seed in range(20)]
starts = [GaLURegressor(**options | {"random_state": seed}).fit(X, y) for seed in range(20)]
before, after = ([nearest(model.gates_.directions_) for model in models] for models in (starts, searches))
print(f"degrees from the fold, median of 20: {np.median(before):.1f} before, {np.median(after):.1f} after")

# %%
# Left and centre: the fit, with the lines of the units in white and the fold dashed. Right: the loss of the 20 layers.

import matplotlib.pyplot as plt

ticks = np.linspace(-2.5, 2.5, 201)
u, v = np.meshgrid(ticks, ticks)
grid = np.column_stack([u.ravel(), v.ravel()])
figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), layout="constrained")
for ax, model, title in zip(axes, (first, better), ("random filters", "after Algorithm 1"), strict=False):
    ax.pcolormesh(u, v, model.predict(grid).reshape(u.shape), cmap="viridis", vmin=0, vmax=3, rasterized=True)
    for a, b in model.gates_.directions_:
        ax.axline((0, 0), (-b, a), color="white", linewidth=1)
    ax.axline((0, 0), (-fold[1], fold[0]), color="black", linestyle=(0, (5, 4)), linewidth=1.4)
    wrong = np.mean((model.predict(X_new) - abs(X_new @ fold)) ** 2)
    ax.set(
        title=f"{title}: error {wrong:.4f}", xlim=(-2.5, 2.5), ylim=(-2.5, 2.5), xticks=[], yticks=[], aspect="equal"
    )
for model in searches:
    axes[2].plot(model.search_.history, color="#0072B2", linewidth=0.7, alpha=0.6)
axes[2].axhline(0.01, color="0.4", linestyle=":", linewidth=1)
axes[2].text(300, 0.0098, "variance of the noise", ha="right", va="top", color="0.4")
axes[2].set(yscale="log", xlabel="steps", title="loss + ridge · norm²", ylim=(0.008, 0.13))
plt.show()

# %%
# The algorithm finds the fold, and the loss decreases to about the variance of the noise. Without a fold the same steps
# fit the noise: for pure noise as a target the loss decreases too, and the error on new samples increases.

noise = rng.normal(size=200)
for steps in (0, 300):
    model = GaLURegressor(**options, steps=steps).fit(X, noise)
    print(
        f"{steps} steps: loss {model.solution_.loss:.3f}, error on new samples {np.mean(model.predict(X_new) ** 2):.3f}"
    )
