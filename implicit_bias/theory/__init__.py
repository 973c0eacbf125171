"""The theory of GaLU layers as functions, after Fiat, Malach & Shalev-Shwartz; the docs have the proofs."""

from implicit_bias.theory.descent import DescentRate, a_priori_rate, descent_rate, descent_target
from implicit_bias.theory.generalisation import (
    GeneralisationBound,
    generalisation_bound,
    generalisation_bound_a_priori,
)
from implicit_bias.theory.kernel import SmallestEigenvalue, gate_kernel, smallest_eigenvalue
from implicit_bias.theory.memorisation import (
    ExpectedLoss,
    MemorisationWidth,
    expected_loss,
    expected_test_loss,
    memorisation_width,
)
from implicit_bias.theory.stability import GateStability, gate_stability

__all__ = [
    "DescentRate",
    "ExpectedLoss",
    "GateStability",
    "GeneralisationBound",
    "MemorisationWidth",
    "SmallestEigenvalue",
    "a_priori_rate",
    "descent_rate",
    "descent_target",
    "expected_loss",
    "expected_test_loss",
    "gate_kernel",
    "gate_stability",
    "generalisation_bound",
    "generalisation_bound_a_priori",
    "memorisation_width",
    "smallest_eigenvalue",
]
