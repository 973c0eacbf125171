"""GaLU, section 3.2: κ(x, z) by sampling gates, with the angle of x and z, and with arccos⟨x, z⟩ as printed."""

import numpy as np

from implicit_bias.extensions.galu import gate_kernel

x, z = np.array([0.5, 0.0]), np.array([0.3, 0.4])
U = np.random.default_rng(0).normal(size=(10**6, 2))
sampled = np.mean((U @ x > 0) & (U @ z > 0)) * (x @ z)
print(f"a million gates:                     {sampled:.5f}")
print(f"½ − θ/2π times ⟨x, z⟩:               {gate_kernel([x, z])[0, 1]:.5f}")
print(f"the formula on the samples as given: {(0.5 - np.arccos(x @ z) / (2 * np.pi)) * (x @ z):.5f}")
