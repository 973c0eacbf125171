"""GD-ReLU against SVM-RC, SVM-LC and SVM-HL: random, learned and no contexts (the paper's figure 4)."""

from implicit_bias.datasets import BinaryTask
from implicit_bias.experiments.paper.published import published_half_spaces
from implicit_bias.experiments.paper.study import Config, Study, comparison_rows, faults_of, solved, trained
from implicit_bias.experiments.runner.experiment import Rows, Settings
from implicit_bias.gates import RandomHalfSpaces
from implicit_bias.margin.formulations import svm_hl, svm_lc, svm_rc
from implicit_bias.networks import ReLUNetwork


def _half_spaces(settings: Settings, version: str = "corrected") -> RandomHalfSpaces:
    faults = faults_of(settings, version)
    return published_half_spaces(settings["units"], settings["seed"], settings["cutoff"], faults)


def _rows(settings: Settings, task: BinaryTask) -> Rows:
    X, y = task.X_train, task.y_train
    random = {}
    for version in settings["versions"]:
        random[version] = solved(svm_rc(X, y, _half_spaces(settings, version).fit(task.X_pool)), task, settings)
    rows: Rows = []
    for momentum in settings["momentum"]:
        network = ReLUNetwork(X.shape[1], settings["units"], seed=settings["seed"])
        one = trained(network, task, settings, momentum)
        learned, hidden = (solved(build(X, y, network), task, settings) for build in (svm_lc, svm_hl))
        for version in settings["versions"]:
            solutions = [random[version], learned, hidden]
            rows += comparison_rows(STUDY.reference, one, solutions, learned, version=version)
    return rows


def _cost(settings: Settings) -> float:
    descent = len(settings["momentum"]) * settings["steps"] / 3200 * (2 + 0.026 * settings["units"])
    problems = len(settings["versions"]) + 2 * len(settings["momentum"])
    return descent + problems * (settings["train_size"] / 2000) ** 2 * (1 + 0.012 * settings["units"])


STUDY = Study(
    name="compare_relu",
    title="ReLU networks: gradient descent and the margin problems",
    example="--units 10 20 --momentum 0 0.9",
    reference="GD-ReLU",
    defaults=Config(units=(10, 20)),
    rows=_rows,
    cost=_cost,
    gates=_half_spaces,
    fixed={"contexts": "a ReLU unit has two contexts, open and closed; leave contexts at 2"},
)
