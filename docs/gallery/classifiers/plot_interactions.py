"""
Which columns of a table interact?
==================================

The label of a table with ten columns depends on :math:`x_0 x_1`, on :math:`x_2` alone, and on :math:`x_3` where
:math:`x_4` is positive. :class:`~implicit_bias.InteractionClassifier` finds units of few columns, and the group lasso
selects those that it needs. The certificate says that no other weights of these units are better by more than the
tolerance.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.svm import SVC

from implicit_bias import InteractionClassifier

random = np.random.default_rng(0)
X = random.normal(size=(4000, 10))
signal = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.7 * X[:, 3] * (X[:, 4] > 0)
y = signal + 0.4 * random.normal(size=4000) > 0.5
X_fit, y_fit, X_test, y_test = X[:2000], y[:2000], X[2000:], y[2000:]

model = InteractionClassifier(columns=2, random_state=0, tol=1e-4).fit(X_fit, y_fit)
for columns, share in model.interactions_[:6]:
    print(f"{columns}: {share:.1%} of the norm")
print(f"certified gap {model.certificate_.gap:.0e}")

# %%
# Shares of the norm, for single columns on the diagonal. The planted pairs have the largest. Column 2, which acts
# alone, has units with all others, and columns 5 to 9, which are noise, have hardly any among themselves.

shares = np.zeros((10, 10))
for columns, share in model.interactions_:
    shares[columns[0], columns[-1]] = shares[columns[-1], columns[0]] = share

figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
image = axes.imshow(shares, cmap="magma_r")
figure.colorbar(image, label="share of the norm")
axes.set(xlabel="column", ylabel="column", xticks=range(10), yticks=range(10))

# %%
# The same samples in models that do not say what interacts:

for other in (HistGradientBoostingClassifier(random_state=0), SVC()):
    print(f"{type(other).__name__}: {other.fit(X_fit, y_fit).score(X_test, y_test):.1%}")
print(f"InteractionClassifier: {model.score(X_test, y_test):.1%}")

plt.show()
