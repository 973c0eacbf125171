"""
Convolutional networks: ℓ1 of the spectrum, and Muon in frequency
=================================================================

A linear network of two full-width circular convolutions multiplies spectra. Gradient descent converges to the
max-margin weights of the ℓ1 norm of their spectrum (Gunasekar et al. 2018). If each frequency's step has length 1, as
Muon's has in the Fourier basis, it is the largest entry of the spectrum (this statement is ours).
"""

# %%
# In an orthonormal real Fourier basis, a frequency is a group of two entries, and of one if it is 0 or the largest.

import numpy as np

from implicit_bias import GroupLasso, KernelFeatures, MarginProblem, TwoLayerNorm, solve

rng = np.random.default_rng(2)
n, d = 24, 32
X = rng.normal(size=(n, d))
y = np.sign(X @ np.cos(2 * np.pi * 3 * np.arange(d) / d))
spectra = np.fft.rfft(X, norm="ortho")
pairs = np.append(1.0, np.append(np.full(d // 2 - 1, 2**0.5), 1.0))
parts = np.stack([spectra.real, spectra.imag], axis=2)
# For f and −f, |ŵ_f| is the length of a group over √2, and it counts twice.
groups, twice = range(d // 2 + 1), pairs[:, None] ** 2
problems = {
    "ℓ1 of the spectrum": MarginProblem(KernelFeatures(parts * pairs[:, None]), y, GroupLasso(groups, pairs)),
    "ℓ∞ of the spectrum": MarginProblem(KernelFeatures(parts * twice), y, TwoLayerNorm(groups, "rows", "l_inf")),
}
optima = {name: solve(problem) for name, problem in problems.items()}
print({name: (round(one.objective, 4), f"gap {one.gap:.0e}", f"{one.seconds:.2f} s") for name, one in optima.items()})


# %%
# Train both filters on the exponential loss, from small random weights.


def path(normalise, steps=60_000):
    u, v = 0.3 * rng.normal(size=(2, d))
    marks, found = np.unique(np.geomspace(10, steps, 60).astype(int)), []
    for t in range(1, steps + 1):
        U, V = np.fft.fft(u), np.fft.fft(v)
        w = np.fft.ifft(U * V).real
        margins = y * (X @ w)
        G = np.fft.fft((np.exp(margins.min() - margins) * y) @ X)
        changes = [G * np.conj(V), G * np.conj(U)]
        changes = [c / abs(c) if normalise else c / np.linalg.norm(c) * d**0.5 for c in changes]
        u, v = (one + 0.3 * t**-0.5 * np.fft.ifft(c).real for one, c in zip((u, v), changes, strict=True))
        if t in marks:
            sizes, least = abs(np.fft.fft(w, norm="ortho")), margins.min() if margins.min() > 0 else np.nan
            values = zip((sizes.sum(), sizes.max()), optima.values(), strict=True)
            found.append([t, *(value / least / one.objective for value, one in values)])
    return np.array(found)


paths = {"gradient descent": path(False), "Muon in frequency": path(True)}
print({name: f"{found[-1, 1]:.3f} times ℓ1, {found[-1, 2]:.3f} times ℓ∞" for name, found in paths.items()})

# %%
# Norm over margin as a multiple of the certified optimum.

import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 2, figsize=(8, 2.8), sharey=True)
for ax, (name, found) in zip(axes, paths.items(), strict=True):
    ax.loglog(found[:, 0], found[:, 1:], label=[*optima])
    ax.set(title=name, xlabel="steps", ylim=(0.97, 6))
axes[0].set_ylabel("times the optimum")
axes[0].legend()
plt.show()
