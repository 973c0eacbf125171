"""Erratum 4 on MNIST: SVM-RC with the half-spaces that the published tables had, n = 500, H = 20.

The last lines are errors in percent with orthonormal and with Gaussian directions, seeds 1 to 6, and their means.
"""

import numpy as np

from implicit_bias import RandomHalfSpaces, load_binary, solve, svm_rc
from implicit_bias.metrics import error
from implicit_bias.studies.paper.published import published_half_spaces

#: Published accuracies by momentum and seed of the network beside it.
PUBLISHED = {
    (0.0, 1): 0.84633,
    (0.0, 2): 0.84633,
    (0.0, 3): 0.84633,
    (0.9, 1): 0.84633,
    (0.9, 2): 0.85725,
    (0.9, 3): 0.84242,
}


class GaussianHalfSpaces(RandomHalfSpaces):
    """Half-spaces with Gaussian directions and median cutoffs, as the text has them."""

    def _draw(self, inputs):
        stream = np.random.default_rng(self.seed)
        return stream.normal(size=(self.units, inputs)), np.zeros(self.units), 1.0


def accuracy_of(task, gates):
    """Return the validation accuracy of the certified SVM-RC behind some gates."""
    problem = svm_rc(task.X_train, task.y_train, gates.fit(task.X_pool))
    return 1 - error(problem.decision_function(solve(problem).weights, task.X_val), task.y_val)


def accuracies(task, units=20):
    """Validation accuracies of the certified SVM-RC as published, by momentum and seed."""
    draws = {
        (momentum, seed): published_half_spaces(units, seed, "median", momentum=momentum)
        for momentum, seed in PUBLISHED
    }
    return {place: accuracy_of(task, gates) for place, gates in draws.items()}


if __name__ == "__main__":
    task = load_binary("mnist", 500)
    for (momentum, seed), accuracy in accuracies(task).items():
        published = PUBLISHED[momentum, seed]
        print(f"momentum {momentum}, seed {seed}: accuracy {accuracy:.5f}, published {published:.5f}")
    for kind in (RandomHalfSpaces, GaussianHalfSpaces):
        errors = [100 - 100 * accuracy_of(task, kind(20, seed)) for seed in range(1, 7)]
        print(f"{kind.__name__}: " + ", ".join(f"{value:.2f}" for value in [*errors, np.mean(errors)]))
