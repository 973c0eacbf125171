"""
Kernels selected by the margin
==============================

If each unit is replaced by a kernel, the group lasso becomes multiple-kernel learning. It finds the largest margin in
the sum of the kernels' spaces, and most kernels get no weight. Here each kernel depends on one property of a cell, so
the weights show which properties distinguish benign from malignant tumours.
"""

# %%
# The breast cancer data have ten properties, each as mean, standard error and worst value: one Gaussian kernel for each
# property, of these three inputs.

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from implicit_bias import MultipleKernelClassifier

data = load_breast_cancer()
names = [name.removeprefix("mean ") for name in data.feature_names[:10]]
X_train, X_test, y_train, y_test = train_test_split(data.data, data.target, test_size=0.5, random_state=1)
scaler = StandardScaler().fit(X_train)
X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)


def property_kernel(j):
    """The Gaussian kernel of property j."""
    return lambda X, Z: rbf_kernel(X[:, j::10], Z[:, j::10], gamma=1 / 3)


kernels = [property_kernel(j) for j in range(10)]

# %%
# Fit with increasing C. Each fit is certified, and ``kernel_weights_`` are the kernels' shares of the norm.

Cs = np.geomspace(0.02, 2.0, 9)
models = [MultipleKernelClassifier(kernels, C=C).fit(X_train, y_train) for C in Cs]
shares = np.array([model.kernel_weights_ for model in models])
print("statuses:", {model.status_.name for model in models})
for C, model in zip(Cs, models, strict=True):
    print(f"C = {C:5.2f}: {np.sum(model.kernel_weights_ > 0)} kernels, accuracy {model.score(X_test, y_test):.3f}")
mean = SVC(kernel=lambda X, Z: np.mean([kernel(X, Z) for kernel in kernels], axis=0), C=1.0).fit(X_train, y_train)
print(f"SVC with the mean of the kernels: accuracy {mean.score(X_test, y_test):.3f}")

# %%
# The shares against C. Properties whose share is always zero are omitted.

import matplotlib.pyplot as plt

figure, ax = plt.subplots(figsize=(8, 4.2), layout="constrained")
used = np.flatnonzero(shares.max(axis=0) > 0.01)
order = used[np.argsort(-shares[:, used].mean(axis=0))]
colours = plt.get_cmap("tab10").colors
ax.stackplot(Cs, 100 * shares[:, order].T, labels=[names[j] for j in order], colors=colours)
ax.set(xscale="log", xlabel="$C$", ylabel="share of the norm, %", ylim=(0, 100))
ax.margins(x=0)
ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
plt.show()
