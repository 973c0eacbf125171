"""GaLU, proof of Theorem 1: gradient descent from a random start keeps its part outside the span of the features."""

import numpy as np

from implicit_bias import GatedFeatures
from implicit_bias.extensions.galu import descent_rate, descent_target, least_squares

rng = np.random.default_rng(0)
X, U, y, w = rng.normal(size=(30, 5)), rng.normal(size=(20, 5)), rng.normal(size=30), rng.normal(size=(20, 5))
features = GatedFeatures(X, (X @ U.T > 0).astype(float))
least_norm, target = least_squares(features, y).weights, descent_target(features, y, w)
rate = descent_rate(features)
first = np.linalg.norm(w - least_norm), np.linalg.norm(w - target)
print("                       to w*: distance, bound       to w* + (I − P)w_0: distance, bound")
for step in range(3001):
    if step in (0, 300, 3000):
        distances = np.linalg.norm(w - least_norm), np.linalg.norm(w - target)
        bounds = [rate.rate**step * distance for distance in first]
        print(f"after {step:4d} steps       ", end="")
        print("            ".join(f"{d:11.6f} {b:11.6f}" for d, b in zip(distances, bounds, strict=True)))
    w = w - rate.step * 2 / features.n * features.adjoint(features @ w - y)
