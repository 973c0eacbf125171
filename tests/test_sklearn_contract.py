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
    RandomHalfSpaces,
)

SHORT = SGD(steps=60)
ESTIMATORS = [
    GLNClassifier(norm="frobenius", tol=1e-11),
    GLNClassifier(),
    GLNClassifier(norm="predictor-l2"),
    GLNClassifier(free_intercept=True),
    GatedReLUClassifier(),
    GatedReLUClassifier(gates="learned", training=SHORT),
    HiddenLayerClassifier(training=SHORT),
    HyperplaneGates(),
    RandomHalfSpaces(),
    ConstantGate(),
]


@pytest.mark.filterwarnings("ignore:.*slack at C:UserWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learns_contract(estimator, check):
    check(estimator)
