"""GaLU erratum 1: κ(x, z) by sampling gates, by the formula for unit vectors, and by the formula for raw samples."""

import numpy as np

from implicit_bias.theory import gate_kernel

x, z = np.array([0.5, 0.0]), np.array([0.3, 0.4])
U = np.random.default_rng(0).normal(size=(10**6, 2))
sampled = np.mean((U @ x > 0) & (U @ z > 0)) * (x @ z)
lengths = np.linalg.norm(x) * np.linalg.norm(z)
print(f"a million gates:                     {sampled:.5f}")
print(f"lengths times κ of the directions:   {lengths * gate_kernel([x, z], normalise=True)[0, 1]:.5f}")
print(f"the formula on the samples as given: {(0.5 - np.arccos(x @ z) / (2 * np.pi)) * (x @ z):.5f}")
