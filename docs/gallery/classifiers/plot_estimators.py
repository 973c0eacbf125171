"""
Comparison of the estimators
============================

The classifiers follow scikit-learn's interface. This script compares them on four data sets in the plane with a linear
model and an RBF support vector machine. The numbers are accuracies on the test samples.
"""

# %%
# Four data sets of 200 samples, half of them for training.

import numpy as np
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

rng = np.random.default_rng(0)
board = rng.uniform(-1, 1, (200, 2))
data = {
    "moons": make_moons(200, noise=0.25, random_state=0),
    "circles": make_circles(200, noise=0.12, factor=0.45, random_state=0),
    "checkerboard": (board, (board[:, 0] * board[:, 1] > 0).astype(int)),
    "three blobs": make_blobs(200, centers=3, cluster_std=2.0, random_state=3),
}

# %%
# Each has its default of C. ``GLNClassifier`` and ``GatedReLUClassifier`` append the constant input themselves.

from sklearn.svm import SVC, LinearSVC

from implicit_bias import SGD, GatedReLUClassifier, GLNClassifier, HiddenLayerClassifier

short = SGD(steps=1000, lr=0.1)  # for the two models that train a network first
models = {
    "LinearSVC": LinearSVC(C=1.0),
    "SVC (RBF)": SVC(C=1.0),
    "GLN, group lasso": GLNClassifier(units=20, random_state=1),
    "GLN, predictor L2": GLNClassifier(units=20, norm="predictor-l2", random_state=1),
    "gated ReLU, random": GatedReLUClassifier(units=20, gates="random", random_state=1),
    "gated ReLU, learned": GatedReLUClassifier(units=20, gates="learned", training=short, random_state=1),
    "hidden layer": HiddenLayerClassifier(units=20, training=short, random_state=1),
}

# %%
# Colours show the predicted class. The boundaries of the gated models are straight between the hyperplanes of their
# gates.

import matplotlib.pyplot as plt
from matplotlib.colors import ListedColormap

DARK, MARKERS = ["#D55E00", "#0072B2", "#007A5A"], "so^"
LIGHT = ListedColormap(["#F6D3BD", "#C2DDEE", "#BFE3D7"])

figure, axes = plt.subplots(len(data), len(models), figsize=(13, 7.6), sharex=True, sharey=True)
ticks = np.linspace(-2.8, 2.8, 120)
u, v = np.meshgrid(ticks, ticks)
for row, (name, (points, labels)) in zip(axes, data.items(), strict=True):
    X, X_test, y, y_test = train_test_split(
        StandardScaler().fit_transform(points), labels, test_size=0.5, stratify=labels, random_state=0
    )
    for ax, (title, model) in zip(row, models.items(), strict=True):
        model.fit(X, y)
        classes = model.predict(np.column_stack([u.ravel(), v.ravel()])).reshape(u.shape)
        ax.pcolormesh(u, v, classes, cmap=LIGHT, vmin=0, vmax=2, rasterized=True)
        for label in np.unique(y):
            ax.scatter(*X[y == label].T, s=9, c=DARK[label], marker=MARKERS[label], edgecolor="white", linewidth=0.3)
        ax.text(2.7, -2.65, f"{100 * model.score(X_test, y_test):.0f} %", ha="right", fontsize=10, weight="bold")
        ax.set(xticks=[], yticks=[], xlim=(-2.8, 2.8), ylim=(-2.8, 2.8))
        ax.spines[:].set_visible(False)
        if ax in axes[0]:
            ax.set_title(title, loc="center")
    row[0].set_ylabel(name)
plt.show()
