"""
The price of fairness, certified
================================

A classifier may score one group of people higher than another. A linear constraint limits the difference of the mean
scores of groups A and B:

.. math::

   \\Big| \\tfrac{1}{|A|} \\sum_{i \\in A} f(x_i) - \\tfrac{1}{|B|} \\sum_{i \\in B} f(x_i) \\Big| \\le \\varepsilon

The optimum as a function of ε is the price of this demand. Every point of the curve comes with a proof: no weights that
satisfy the constraint have an objective below the lower bound.
"""

# %%
# Invented applicants, half of them for training. The label depends on two inputs in a nonlinear way. Members of group A
# have larger first inputs, so that an unconstrained classifier scores them higher.

import numpy as np

rng = np.random.default_rng(0)
group = rng.random(1200) < 0.4  # True for A
X = rng.normal(size=(1200, 4))
X[:, 0] += group
merit = X[:, 0] + np.abs(X[:, 1]) - 1.0 + 0.5 * rng.normal(size=1200)
y = np.where(merit > 0, "granted", "refused")
train = np.arange(1200) < 600

# %%
# ``constraints`` is a function of the predictor f. It returns constraints on the scores of any inputs, in CVXPY. The
# intercept cancels in a difference of scores.

import cvxpy as cp

from implicit_bias import GLNClassifier

A, B = X[train & group], X[train & ~group]


def fitted(epsilon):
    def similar(f):
        return cp.abs(cp.mean(f(A)) - cp.mean(f(B))) <= epsilon

    return GLNClassifier(units=10, C=0.1, constraints=similar, random_state=0).fit(X[train], y[train])


epsilons = [0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8]
models = [fitted(epsilon) for epsilon in epsilons]
free = GLNClassifier(units=10, C=0.1, random_state=0).fit(X[train], y[train])

# %%
# The bounds of the optimum agree to the tolerance, and the training samples satisfy the constraint to the last digits.


def difference(model, part):
    scores = model.decision_function(X)
    return abs(scores[part & group].mean() - scores[part & ~group].mean())


print(f"unconstrained: difference {difference(free, train):.3f}, objective {free.certificate_.objective:.4f}")
for epsilon, model in zip(epsilons, models, strict=True):
    bounds = model.certificate_
    print(
        f"ε = {epsilon:4.2f}  {model.status_.name}  difference {difference(model, train):.3f}  "
        f"optimum in [{bounds.lower_bound:.5f}, {bounds.objective:.5f}]"
    )

# %%
# Left: the optimum grows as ε shrinks. It equals the unconstrained one (dashed) if ε is at least the difference of the
# unconstrained classifier. Middle: accuracy on the other half of the applicants. Right: difference of the mean scores,
# which is at most ε (dotted) for the training samples. It is larger for the others.

import matplotlib.pyplot as plt

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "0.45"
test = ~train
panels = {
    "Certified optimum": [lambda model: model.certificate_.objective],
    "Accuracy, other applicants (%)": [lambda model: 100 * model.score(X[test], y[test])],
    "Difference of mean scores": [lambda model: difference(model, test), lambda model: difference(model, train)],
}
figure, axes = plt.subplots(1, 3, figsize=(10.5, 3.4))
for ax, (title, measures) in zip(axes, panels.items(), strict=True):
    for measure, look, label in zip(measures, ("o-", "s-"), ("other applicants", "training samples"), strict=False):
        ax.plot(
            epsilons, [measure(model) for model in models], look, color=BLUE if look == "o-" else ORANGE, label=label
        )
    ax.axhline(measures[0](free), color=GREY, linestyle="--", linewidth=1)
    ax.set(xlabel="ε", title=title)
axes[2].plot(epsilons, epsilons, color=GREY, linestyle=":", zorder=0)
axes[2].legend(loc="lower right")
plt.show()
