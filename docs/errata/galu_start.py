"""Theorem 4 in probability: first gradients of ReLU and GaLU networks over 1000 draws; and how often its premise holds.

Parities of bits of {−1, 1}^10, 300 samples divided by √10; N = 1/√k Σ_j, u_j ~ N(0, s² I), α_j = ±1.
"""

import math

import numpy as np

from implicit_bias.extensions.galu import first_gradient_norm, parity


def norm(X, y, outputs, opened, signs):
    """‖∂L_S/∂W‖ of the hinge loss, whatever the outputs are."""
    m, k = opened.shape
    slopes = np.where(y * outputs < 1, -y, 0.0) / m
    return float(np.linalg.norm((signs[:, None] / math.sqrt(k)) * ((opened * slopes[:, None]).T @ X)))


k, rng = 100, np.random.default_rng(0)
for scale in (0.1, 1.0):
    print(f"u_j ~ N(0, {scale}² I)")
    for bits in (1, 2, 9):
        X, y = parity(300, 10, bits)
        X, found, norms, bounded, supremum = X / math.sqrt(10), None, [], [], 0.0
        for _ in range(1000):
            U, W = scale * rng.normal(size=(2, k, 10))
            signs = rng.choice([-1.0, 1.0], size=k)
            opened = X @ U.T >= 0
            relu, galu = ((opened * (X @ V.T)) @ signs / math.sqrt(k) for V in (U, W))
            norms.append((norm(X, y, relu, opened, signs), norm(X, y, galu, opened, signs)))
            ways = U / np.linalg.norm(U, axis=1)[:, None]
            supremum = max(supremum, np.abs(np.maximum(ways @ U.T, 0) @ signs).max() / math.sqrt(k))
            bounded.append(max(np.abs(relu).max(), np.abs(galu).max()) <= 1)
        found = first_gradient_norm(X, y, k)
        epsilon = math.sqrt(found.mean_square) * 1.2
        shares = np.mean(np.array(norms) <= epsilon, axis=0)
        print(
            f"  parity of {bits}: root mean square {math.sqrt(np.mean(np.square(norms))):.4f}, by the kernel "
            f"{math.sqrt(found.mean_square):.4f}; P(‖∇‖ ≤ {epsilon:.3f}) ReLU {shares[0]:.3f}, GaLU {shares[1]:.3f}, "
            f"at least {found.at_most(epsilon):.3f}; same norm in {100 * np.mean([a == b for a, b in norms]):.1f} %, "
            f"|N| ≤ 1 on the samples in {100 * np.mean(bounded):.1f} %, sup |N| reaches {supremum:.2f}"
        )
