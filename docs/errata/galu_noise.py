"""First version, section 4.2: least squares on signal (D_{σ,β}) and on noise (D_{1,0}), and its Rademacher bounds.

With an argument, the figure is drawn into that file.
"""

import sys

import numpy as np

from implicit_bias import GatedFeatures
from implicit_bias.extensions.galu import (
    expected_test_loss,
    expected_train_loss,
    least_squares,
    noisy_clusters,
    rademacher_bound,
)

d, draws, beta = 20, 2000, np.ones(20)
rng, rows = np.random.default_rng(0), []
print("d=20, 2000 draws: training and test loss, measured and by Lemma 1")
for sigma, name in ((0.05, "signal, σ=0.05"), (1.0, "noise,  σ=1   ")):
    for m in (22, 25, 30, 40, 80, 160):
        losses = []
        for _ in range(draws):
            X, truth = rng.normal(size=(m, d)), beta * (sigma < 1)
            y = X @ truth + sigma * rng.normal(size=m)
            w = np.linalg.lstsq(X, y, rcond=None)[0]
            losses.append((np.mean((X @ w - y) ** 2), sigma**2 + np.sum((w - truth) ** 2)))
        exact = expected_train_loss(m, d, sigma), expected_test_loss(m, d, sigma)
        rows.append((sigma, m, *np.mean(losses, axis=0), *exact))
        print(f"{name} m={m:3d}: {rows[-1][2]:.5f} {exact[0]:.5f}   {rows[-1][3]:.5f} {exact[1]:.5f}")

print(
    "\nthe bounds on the norms of closed-form GaLU networks (m=1000, n=k=d=30), and the gap of test and training loss"
)
for noise in (0.0, 0.5, 1.0):
    data = noisy_clusters(10_000, 30, 30, 0.1, noise)
    U = np.random.default_rng(1).normal(size=(30, 30))
    features = GatedFeatures(data.X, data.X @ U.T > 0)
    train, test = features.select(slice(1000)), features.select(slice(1000, None))
    found = least_squares(train, data.y[:1000])
    gap = np.mean((test @ found.weights - data.y[1000:]) ** 2) - found.loss
    norms = [np.linalg.norm(found.weights.ravel(), p) for p in (1, 2)]
    bounds = [rademacher_bound(train, norm, p) for p, norm in zip((1, 2), norms, strict=True)]
    print(
        f"σ_y={noise}: ‖w‖₁ {norms[0]:6.1f}, ‖w‖₂ {norms[1]:5.2f}, gap {gap:5.2f}; Rademacher complexity at most "
        f"{bounds[0]:6.1f} (ℓ₁), {bounds[1]:5.1f} (ℓ₂)"
    )

if len(sys.argv) > 1:
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(figsize=(5.4, 3.6), layout="constrained")
    table, sizes = np.array(rows), np.arange(22, 161)
    for sigma, colour, name in ((0.05, "#0072B2", "signal, σ = 0.05"), (1.0, "#E69F00", "noise")):
        _, m, train_loss, test_loss, *_ = table[table[:, 0] == sigma].T
        for loss, exact, style, half in (
            (test_loss, expected_test_loss, "-", "test"),
            (train_loss, expected_train_loss, "--", "training"),
        ):
            ax.plot(sizes, [exact(int(size), d, sigma) for size in sizes], style, color=colour, linewidth=1)
            ax.plot(m, loss, "o", color=colour, fillstyle="full" if half == "test" else "none", label=f"{name}, {half}")
    ax.set(xscale="log", yscale="log", xlabel="samples m (d = 20)", ylabel="squared loss")
    ax.set_xticks([22, 30, 40, 80, 160], ["22", "30", "40", "80", "160"])
    ax.xaxis.set_minor_locator(plt.NullLocator())
    ax.legend(fontsize=7)
    fig.savefig(sys.argv[1], dpi=150)
