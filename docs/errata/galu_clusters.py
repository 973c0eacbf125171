"""Theorems 6 and 7: layers of random gates on tight clusters whose labels are linear in each."""

import numpy as np

from implicit_bias import GatedFeatures
from implicit_bias.extensions.galu import cluster_samples, cluster_width, least_squares, linear_clusters

n, d, epsilon, delta, draws = 4, 8, 0.2, 0.05, 20
rng = np.random.default_rng(0)
centres = rng.choice([-1.0, 1.0], size=(n, d))
plan = cluster_width(centres, delta)
m = cluster_samples(n, d, epsilon, delta)
print(f"n={n}, d={d}: μ {plan.eigenvalue:.3f}, k {plan.width}, r {plan.radius:.1e}, m {m} for ε={epsilon}")
full, split, rank, train, test = 0, 0, [], [], []
for seed in range(draws):
    data = linear_clusters(m + 1000, centres, plan.radius, seed=seed)
    U = rng.normal(size=(plan.width, d))
    A = data.centres @ U.T >= 0
    features = GatedFeatures(data.X, data.X @ U.T >= 0)
    found = least_squares(features.select(slice(m)), data.y[:m])
    wrong = (features.select(slice(m, None)) @ found.weights - data.y[m:]) ** 2
    full += np.linalg.matrix_rank(A) == n
    split += bool((features.gate_values != A[data.cluster]).any())
    rank.append(found.rank)
    train.append(found.loss)
    test.append(wrong.max())
print(
    f"rank(A) = n in {full} of {draws} draws, a cluster split in {split}; rank of the features {min(rank)} to "
    f"{max(rank)}, nd = {n * d};\nlargest training loss {max(train):.0e}, largest squared error of a new sample "
    f"{max(test):.0e}"
)

print("\nTheorem 6's test loss: a cluster that one sample in a thousand is from, ε = 0.2, maps ℓ_i times s")
plan, m = cluster_width(centres[:2], delta), cluster_samples(2, d, epsilon, delta)
data = linear_clusters(10_000, centres[:2], plan.radius, shares=[0.999, 0.001], seed=1)
features = GatedFeatures(data.X, data.X @ rng.normal(size=(d, plan.width)) >= 0)
print(f"{m} samples, {np.sum(data.cluster[:m])} of them from the second cluster")
for scale in (1, 1000):
    found = least_squares(features.select(slice(m)), scale * data.y[:m])
    wrong = np.abs(features @ found.weights - scale * data.y)[m:]
    share = np.mean(wrong > 1e-6 * scale)
    print(f"s={scale:4d}: share of wrong predictions {share:.4f}, mean squared error {np.mean(wrong**2):.3g}")

print("\nLemma 6: a cluster of samples within r of its centre on all sides, split by a gate; n=2, k=10, d=50, δ=0.9")
n, k, d, delta = 2, 10, 50, 0.9
r = delta / (n * k * np.sqrt(d))
centre = np.eye(d)[0]
ways = np.random.default_rng(1).normal(size=(20_000, d))
ways /= np.linalg.norm(ways, axis=1)[:, None]
# The sample of the cap that is farthest across each gate decides.
across = np.abs(ways[:, 0]) <= r * np.sqrt(1 - r**2 / 4) * np.sqrt(1 - ways[:, 0] ** 2) + r**2 / 2 * np.abs(ways[:, 0])
print(
    f"share of gates that split it {np.mean(across):.4f}; δ/(kd), as printed, {delta / (k * d):.4f}, "
    f"δ/(kn) {delta / (k * n):.4f}"
)
