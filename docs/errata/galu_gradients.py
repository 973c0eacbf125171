"""What the first gradient knows: exact ‖E[y 1(⟨u, x⟩ > 0) x]‖², and the samples at which noise and signal are equal."""

import numpy as np

from implicit_bias.extensions.galu import gaussian_gradient, parity_gradient

d = 16
exact = gaussian_gradient(np.ones(d))
print(f"x ~ N(0, I), y = sign⟨w*, x⟩: ‖mean‖² {np.sum(exact.mean**2):.3e}, {exact.samples:.3g} samples")
directions = np.random.default_rng(0).normal(size=(50, d))
for bits in (1, 2, 3, 4, 6, 8):
    found = [parity_gradient(u, bits) for u in directions]
    size, noise = np.mean([np.sum(f.mean**2) for f in found]), np.mean([f.noise for f in found])
    samples = f"{noise / size:.3g} samples" if size else "no number of samples is enough"
    print(f"parity of {bits} of {d} bits:       ‖mean‖² {size:.3e}, {samples}")
