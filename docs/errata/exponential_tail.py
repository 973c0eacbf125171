"""Erratum 9: Lemma B.11 on random separable samples, and two steps of its proof as printed.

Columns: ‖β‖, angle of the logistic and the exponential gradient in degrees, and the bound on its sine.
"""

import numpy as np

rng = np.random.default_rng(1)
X = rng.normal(size=(40, 5))
v = rng.normal(size=5)
signed = X * np.sign(X @ v)[:, None]
v /= np.abs(X @ v).min()

for scale in (1.0, 3.0, 10.0, 30.0):
    margins = signed @ (scale * v)
    tail = np.exp(-margins)
    logistic, exponential = (tail / (1 + tail)) @ signed, tail @ signed
    cosine = logistic @ exponential / np.linalg.norm(logistic) / np.linalg.norm(exponential)
    # −ℓ′(m) = e^(−m)(1 + δ), and ‖Σ a_n y_n x_n‖ ≥ Σ a_n/‖v‖ for all a ≥ 0, because all y_n⟨v, x_n⟩ ≥ 1.
    delta = np.abs(1 / (1 + tail) - 1).max()
    bound = delta * np.linalg.norm(v) * np.linalg.norm(signed, axis=1).max()
    angle = np.degrees(np.arccos(min(cosine, 1.0)))
    print(f"{scale * np.linalg.norm(v):.1f} {angle:.7f} {bound:.2e}")
# Eq. 83 has a minus sign before c exp: the opposite of the direction that eq. 88 needs.
printed = -exponential / np.linalg.norm(exponential)
print(f"cosine of eq. 83 as printed and ẑ: {printed @ logistic / np.linalg.norm(logistic):.1f}")
