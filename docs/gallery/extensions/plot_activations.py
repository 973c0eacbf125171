"""
Inputs that an activation cannot distinguish
============================================

The smallest eigenvalue of the Gram matrix bounds how fast a wide two-layer network fits its samples:

.. math::

   G_{ij} = \\mathbb{E}\\,[\\sigma'(w^\\top x_i)\\,\\sigma'(w^\\top x_j)]\\,x_i^\\top x_j

The derivative of ReLU jumps, so some units separate even close points. A smooth derivative is nearly the same at both
points, and the smallest eigenvalue is tiny. The example uses 41 points on a circle.
"""

# %%
# ``gram_matrix`` uses closed forms, or series with a certified tail. Values below double precision are computed in
# multiple precision. ``smallest_eigenvalue`` returns a value with a proven error bound.

import numpy as np

from implicit_bias.extensions.infinite import circle_eigenvalue, gram_matrix, mean_square

names = ("relu", "selu", "elu", "gelu", "erf")
n = 41
angles = 2 * np.pi * np.arange(n) / n
circle = np.column_stack([np.cos(angles), np.sin(angles)])
least = {name: float(circle_eigenvalue(n, name, digits=6).value) / mean_square(name) for name in names}
for name, value in least.items():
    print(f"{name:8} λ_min / E[σ'²] = {value:.3e}")

# %%
# Left: the correlation of the derivatives at two points, against their angle. Right: the eigenvalues of G in descending
# order. Below about 10⁻¹⁴, the limit of double precision, only the smallest one is shown (cross), as printed above.

import matplotlib.pyplot as plt

COLOURS = dict(zip(names, ("#D55E00", "#E69F00", "#CC79A7", "#009E73", "#0072B2"), strict=True))
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
turns = np.linspace(0, np.pi, 180)
arc = np.column_stack([np.cos(turns), np.sin(turns)])
for name in names:
    alike = gram_matrix(arc, name).values[0] / np.cos(turns) / mean_square(name)
    left.plot(np.degrees(turns), alike, color=COLOURS[name], label=name)
    values = np.sort(np.linalg.eigvalsh(gram_matrix(circle, name).values))[::-1] / mean_square(name)
    seen = values > 1e-15 * n
    right.semilogy(np.flatnonzero(seen) + 1, values[seen], ".-", color=COLOURS[name], linewidth=0.8)
    if not seen.all() and least[name] > 0:
        right.semilogy(n, least[name], "x", color=COLOURS[name])
left.set(xlabel="angle between two points, degrees", ylabel="E[σ'(z)σ'(z')] / E[σ'²]", xticks=[0, 45, 90, 135, 180])
left.axhline(0, color="0.7", linewidth=0.6, zorder=0)
left.legend(frameon=False)
right.set(xlabel="rank", ylabel="eigenvalue of G / E[σ'²]", title=f"{n} points on a circle")
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
