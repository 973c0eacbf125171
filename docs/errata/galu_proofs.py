"""Steps of the GaLU papers that are misprinted or do not hold, each beside its correction."""

import math

import numpy as np

from implicit_bias import GatedFeatures
from implicit_bias.extensions.galu import neumann_inverse, slab_probability


def loss_range(M, label):
    """The largest difference of ½(f − y)² over |f| ≤ √2 M at one label, over labels up to this one."""
    f, y = np.meshgrid(np.linspace(-1, 1, 401) * math.sqrt(2) * M, np.linspace(-label, label, 401))
    return np.ptp((f - y) ** 2 / 2, axis=1).max()


rng = np.random.default_rng(0)
X, U, y = rng.normal(size=(6, 4)), rng.normal(size=(5, 4)), rng.normal(size=6)
dense = GatedFeatures(X, (X @ U.T > 0).astype(float)).dense()
first, rest = dense[:, :4], y - dense[:, :4] @ np.linalg.lstsq(dense[:, :4], y, rcond=None)[0]
size = np.linalg.norm(first.T @ rest)
print(f"Theorem 2: b = y − a is in the null space of X̄ᵀ, ‖X̄ᵀb‖ {size:.0e}; b has m entries, X̄ kd columns")

losses = [float((1 - (u >= 0)) ** 2) for u in (1.0, -1.0, -3.0)]
print(f"section 3.1, x = y = w = 1: losses at u = 1, −1, −3: {losses}; the second exceeds the mean of the others")

for m, d in ((400, 100), (1600, 100)):
    Z = rng.normal(size=(m, d))
    largest = [np.linalg.norm(A, 2) for A in (Z, Z / np.linalg.norm(Z, axis=1)[:, None])]
    print(
        f"section 3.1, m={m}, d={d}: √m + √d {m**0.5 + d**0.5:.1f}, √(m/d) {(m / d) ** 0.5:.1f}; "
        f"‖X‖ {largest[0]:.1f} for N(0, I), {largest[1]:.1f} for unit vectors"
    )

w = dense.T @ np.linalg.solve(dense @ dense.T, y)
print(f"Theorem 3: w* = X̄ᵀ(X̄X̄ᵀ)⁻¹y fits up to {np.abs(dense @ w - y).max():.0e}; X̄(X̄X̄ᵀ)⁻¹y is no product of matrices")

gram, k = dense @ dense.T, len(U)
norms = [float(y @ np.linalg.solve(H, y)) for H in (gram, gram / k)]
scaled = np.linalg.lstsq(dense / k**0.5, y, rcond=None)[0]
print(
    f"Theorem 3: ‖w*‖² {w @ w:.4f} is yᵀH⁻¹y {norms[0]:.4f} for H = X̄X̄ᵀ; with H = X̄X̄ᵀ/k, {norms[1]:.4f}, it is that of "
    f"the features X̄/√k, {scaled @ scaled:.4f}"
)

A, B = np.diag([2.0, 3.0]), np.array([[2.2, 0.3], [0.3, 2.8]])
change, exact = (B - A) @ np.linalg.inv(A), np.linalg.inv(B)
turned = np.linalg.inv(A) @ sum(np.linalg.matrix_power(change, i) for i in range(60))
errors = [np.abs(found - exact).max() for found in (neumann_inverse(A, B, 60).inverse, turned)]
print(f"Theorem 3: A⁻¹Σ((A − B)A⁻¹)ⁿ is B⁻¹ up to {errors[0]:.0e}; with B − A, as printed, up to {errors[1]:.2f}")

m, k, r, share = 50, 9 * 10**6, 2.0, 0.01
tails = [many * m * math.exp(-k * share**2 / (c * r**2)) for many, c in ((1, 32), (2, 32), (2, 8))]
print(
    f"Theorem 3, matrix Hoeffding at m={m}, k={k}, λ/R={share}, r={r:g}: one tail, as printed, {tails[0]:.3f}; both "
    f"{tails[1]:.3f}; both with ‖Y‖ ≤ R/k {tails[2]:.0e}"
)

for M in (0.5, 1.0):
    wide, narrow, printed = loss_range(M, 1.0), loss_range(M, M / math.sqrt(2)), 2 * M**2 + math.sqrt(2) * M
    print(
        f"Theorem 3, M={M}: the loss has the range {wide:.3f} for |y| ≤ 1, {narrow:.3f} for |y| ≤ M/√2; "
        f"printed {printed:.3f}"
    )

x, n = np.eye(4)[0], 4
along = np.full(n, x.mean())
shrunk = ((along - along.sum() / (n + 1)) / along)[0]
print(
    f"Lemma 10, n=4: ‖x'‖ + ‖x_∥‖ = {np.linalg.norm(x - along) + np.linalg.norm(along):.3f} where ‖x‖ = 1; "
    f"(I − 11ᵀ/(n + 1))x_∥ is {shrunk:.3f} x_∥, printed as {-n / (n + 1):.3f} x_∥"
)

gates = (rng.normal(size=(3, 6)) @ rng.normal(size=(6, 8)) >= 0).astype(float)
least = [abs(np.linalg.eigvalsh(square)[0]) for square in (gates @ gates.T, gates.T @ gates)]
print(f"Lemma 4, n=3, k=8: λ_min(AAᵀ) {least[0]:.3f}, λ_min(AᵀA), as printed, {least[1]:.3f}")

print(
    f"Lemma 5, d=2, r=0.9: P {slab_probability(2, 0.9):.3f} ≤ r√d {0.9 * math.sqrt(2):.3f}; r times the density at 0, "
    f"a bound in its proof, {0.9 * 2 / math.pi:.3f}"
)
