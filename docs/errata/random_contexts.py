"""Erratum 4 on MNIST: SVM-RC with the half-spaces that the published tables had, n = 500, H = 20."""

from implicit_bias import load_binary, solve, svm_rc
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


def accuracies(task, units=20):
    """Validation accuracies of the certified SVM-RC as published, by momentum and seed."""
    found = {}
    for momentum, seed in PUBLISHED:
        gates = published_half_spaces(units, seed, "median", momentum=momentum).fit(task.X_pool)
        problem = svm_rc(task.X_train, task.y_train, gates)
        found[momentum, seed] = 1 - error(problem.decision_function(solve(problem).weights, task.X_val), task.y_val)
    return found


if __name__ == "__main__":
    for (momentum, seed), accuracy in accuracies(load_binary("mnist", 500)).items():
        published = PUBLISHED[momentum, seed]
        print(f"momentum {momentum}, seed {seed}: accuracy {accuracy:.5f}, published {published:.5f}")
