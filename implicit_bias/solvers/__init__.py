"""Solvers of margin problems, and `solve`, which certifies their answers."""

from implicit_bias.certificate import certify
from implicit_bias.margin.solution import Certificate, Solution, Status
from implicit_bias.solvers.base import Answer, Progress
from implicit_bias.solvers.base import Options as Options
from implicit_bias.solvers.dispatch import SOLVERS as SOLVERS
from implicit_bias.solvers.dispatch import solve, solver_names
from implicit_bias.solvers.path import margin_path

__all__ = ["Answer", "Certificate", "Progress", "Solution", "Status", "certify", "margin_path", "solve", "solver_names"]
