"""The public names, listed by hand: what `from implicit_bias import …` gives."""

from implicit_bias import dynamics, kernels, theory
from implicit_bias.checks import InputError
from implicit_bias.comparison import (
    alignment,
    error,
    expected_inconsistency,
    inconsistency,
    normalised_margin,
    optimality_ratio,
    predictions,
    summarise,
)
from implicit_bias.datasets import BinaryTask, dataset_names, load_binary, read_samples
from implicit_bias.estimators import GatedReLUClassifier, GLNClassifier, HiddenLayerClassifier, NotSeparableError
from implicit_bias.expression_norm import ExpressionNorm
from implicit_bias.features import GatedFeatures
from implicit_bias.formulations import svm_gln, svm_hl, svm_l2, svm_lc, svm_rc, svm_shallow
from implicit_bias.function_gates import FunctionGates, HiddenActivations
from implicit_bias.gates import ConstantGate, Gates, HyperplaneGates, RandomHalfSpaces, ReLUGates
from implicit_bias.homogeneous import Stationarity, stationarity
from implicit_bias.kernel_features import KernelFeatures
from implicit_bias.limit import Descent, LossScaled, PlainDescent, descend_to_limit
from implicit_bias.networks import (
    FrozenReLUNetwork,
    GaLU0Network,
    GaLUNetwork,
    GatedLinearNetwork,
    GatedNetwork,
    LinearNetwork,
    ReadoutNetwork,
    ReLUNetwork,
    load_network,
    save_network,
)
from implicit_bias.norms import Frobenius, GroupForm, GroupLasso, Norm, PredictorL2
from implicit_bias.problem_files import load_problem, save_problem
from implicit_bias.problems import MarginProblem, MarginProgram
from implicit_bias.regions import OccupiedRegions
from implicit_bias.regression import (
    Alternation,
    FilterSearch,
    LeastSquares,
    alternate_convex_search,
    improve_filters,
    least_squares,
)
from implicit_bias.soft_gates import ProductGates, SoftGates
from implicit_bias.solvers import (
    Answer,
    Certificate,
    Progress,
    Solution,
    Status,
    certify,
    load_solution,
    margin_path,
    save_solution,
    solve,
    solver_names,
)
from implicit_bias.together import Adam, Training, train_together
from implicit_bias.training import SGD, History, train

__all__ = [
    "SGD",
    "Adam",
    "Alternation",
    "Answer",
    "BinaryTask",
    "Certificate",
    "ConstantGate",
    "Descent",
    "ExpressionNorm",
    "FilterSearch",
    "Frobenius",
    "FrozenReLUNetwork",
    "FunctionGates",
    "GLNClassifier",
    "GaLU0Network",
    "GaLUNetwork",
    "GatedFeatures",
    "GatedLinearNetwork",
    "GatedNetwork",
    "GatedReLUClassifier",
    "Gates",
    "GroupForm",
    "GroupLasso",
    "HiddenActivations",
    "HiddenLayerClassifier",
    "History",
    "HyperplaneGates",
    "InputError",
    "KernelFeatures",
    "LeastSquares",
    "LinearNetwork",
    "LossScaled",
    "MarginProblem",
    "MarginProgram",
    "Norm",
    "NotSeparableError",
    "OccupiedRegions",
    "PlainDescent",
    "PredictorL2",
    "ProductGates",
    "Progress",
    "RandomHalfSpaces",
    "ReLUGates",
    "ReLUNetwork",
    "ReadoutNetwork",
    "SoftGates",
    "Solution",
    "Stationarity",
    "Status",
    "Training",
    "alignment",
    "alternate_convex_search",
    "certify",
    "dataset_names",
    "descend_to_limit",
    "error",
    "expected_inconsistency",
    "improve_filters",
    "inconsistency",
    "least_squares",
    "load_binary",
    "load_network",
    "load_problem",
    "load_solution",
    "margin_path",
    "normalised_margin",
    "optimality_ratio",
    "predictions",
    "read_samples",
    "save_network",
    "save_problem",
    "save_solution",
    "solve",
    "solver_names",
    "stationarity",
    "summarise",
    "svm_gln",
    "svm_hl",
    "svm_l2",
    "svm_lc",
    "svm_rc",
    "svm_shallow",
    "train",
    "train_together",
]

#: Public names that are imported from a module of their own, by that module.
FURTHER = {
    "implicit_bias.datasets": [
        "Clusters",
        "RingProcess",
        "SinglePulse",
        "noisy_clusters",
        "nonlinear_gaussian_process",
        "parity",
        "separable",
    ],
    "implicit_bias.dynamics": dynamics.__all__,
    "implicit_bias.kernels": kernels.__all__,
    "implicit_bias.theory": theory.__all__,
}
