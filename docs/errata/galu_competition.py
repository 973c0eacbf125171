"""Theorem 5 on trained ReLU networks; where its proof loses √k; and the tail that Lemma 11's proof takes for e^{−d}."""

import math

import numpy as np
from scipy.special import chdtrc

from implicit_bias.extensions.galu import galu_excess, moved_gates


def descend(X, y, start, signs, steps=60, lr=4.0):
    """The hidden weights of 1/√k Σ_j α_j [⟨u_j, x⟩]₊ after gradient descent on the logistic loss."""
    U, root = start.copy(), math.sqrt(len(start))
    for _ in range(steps):
        hidden = X @ U.T
        slopes = -y / (1 + np.exp(y * (np.maximum(hidden, 0) @ signs) / root)) / len(X)
        U -= lr / root * signs[:, None] * (((hidden >= 0) * slopes[:, None]).T @ X)
    return U


def loss(X, y, opened, U, signs):
    """The mean logistic loss of a network with these gates."""
    return float(np.mean(np.logaddexp(0, -y * ((opened * (X @ U.T)) @ signs) / math.sqrt(len(U)))))


rng = np.random.default_rng(0)
X = rng.normal(size=(100, 20))
X /= np.linalg.norm(X, axis=1)[:, None]
y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
print("100 samples in 20 dimensions, the sign of a product; logistic loss")
for k in (100, 10_000, 100_000):
    start, signs = rng.normal(size=(k, 20)), np.where(np.arange(k) % 2, 1.0, -1.0)
    trained = descend(X, y, start, signs)
    found = galu_excess(X, start, trained, signs)
    relu, galu = (loss(X, y, X @ gates.T >= 0, trained, signs) for gates in (trained, start))
    print(
        f"k={k:6d}: ε {found.epsilon:.3f}, gates flipped {100 * found.flips:.2f} %; loss ReLU {relu:.4f}, GaLU with "
        f"its weights {galu:.4f}, apart by at most {found.on_samples:.4f} here, {found.bound:.4f} a priori, "
        f"{found.printed:.3f} as printed (conditions {'hold' if found.conditions_hold else 'fail'})"
    )

print("\none sample, d=3, ε=0.5: u*_j = u_j − εx where 0 ≤ ⟨u_j, x⟩ < ε; the printed chain of inequalities and ours")
for k in (100, 10_000, 1_000_000):
    start, x = rng.normal(size=(k, 3)), np.array([1.0, 0.0, 0.0])
    near = (start @ x >= 0) & (start @ x < 0.5)
    trained = start - 0.5 * near[:, None] * x
    found = galu_excess(x[None], start, trained, np.ones(k))
    size, maps = np.linalg.norm(trained, axis=1).max(), math.sqrt(found.flips)
    print(
        f"k={k:8d}: |N^G − N^R| {found.on_samples:8.3f}, max ‖α_j u*_j‖ ‖Φ_U* − Φ_U‖ {size * maps:6.3f}, "
        f"times √k {math.sqrt(k) * size * maps:9.3f}, ours {found.bound:8.3f}"
    )

print("\nP(‖u‖² ≥ √6·d), and P(‖u‖² ≥ 6d), against e^{−d}")
for d in (5, 10, 20):
    print(f"d={d:2d}: {chdtrc(d, math.sqrt(6) * d):.1e} {chdtrc(d, 6 * d):.1e} {math.exp(-d):.1e}")

print("\nbounds of sup ‖Φ_U − Φ_W‖² at the printed width, δ=0.05: the printed one, and ours")
for d, epsilon in ((5, 0.01), (20, 0.003), (100, 0.001)):
    width = math.ceil(moved_gates(d, 1, epsilon).printed_width)
    found = moved_gates(d, width, epsilon)
    print(f"d={d:3d}, ε={epsilon}, k={width}: {found.printed:.4f} {found.uniform:.4f}")
