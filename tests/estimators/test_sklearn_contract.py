"""scikit-learn's own checks of its contract, on all estimators and gates."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from implicit_bias import (
    SGD,
    ConstantGate,
    GatedReLUClassifier,
    GLNClassifier,
    HiddenLayerClassifier,
    HyperplaneGates,
    MarginClassifierCV,
    MultipleKernelClassifier,
    OneClassMargin,
    RandomHalfSpaces,
)
from implicit_bias.extensions.galu import GaLUClassifier, GaLURegressor

SHORT = SGD(steps=60)


ESTIMATORS = [
    GLNClassifier(norm="frobenius", tol=1e-11),
    GLNClassifier(),
    GLNClassifier(multi_class="joint", tol=1e-9),
    GatedReLUClassifier(),
    GatedReLUClassifier(gates="learned", training=SHORT),
    HiddenLayerClassifier(training=SHORT),
    MultipleKernelClassifier(tol=1e-11),
    MarginClassifierCV(Cs=2, cv=2),
    OneClassMargin(),
    OneClassMargin(GLNClassifier(random_state=1), nu=0.5),
    GaLURegressor(),
    GaLURegressor(ridge=0.0),
    GaLURegressor(steps=5),
    GaLURegressor(20, sharpness=2.0, steps=2, fit_intercept=False),
    GaLURegressor(gates=HyperplaneGates(3, 2)),
    GaLUClassifier(),
    GaLUClassifier(steps=5, class_weight="balanced"),
    HyperplaneGates(),
    RandomHalfSpaces(),
    ConstantGate(),
]


def failing(estimator):
    """Checks that cannot hold, with the reason."""
    if getattr(estimator, "multi_class", "ovr") == "ovr":
        return {}
    return {"check_class_weight_classifiers": "without free intercepts weights cannot put all samples into one class"}


@pytest.mark.filterwarnings("ignore:.*slack at C:UserWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=failing)
def test_scikit_learns_contract(estimator, check):
    check(estimator)
