"""From a margin problem to its certified solution: one door, several contestants, one judge."""

from implicit_bias.margin.solvers.answer import Answer
from implicit_bias.margin.solvers.door import SOLVERS, solve, solver_names
from implicit_bias.margin.solvers.judge import certify
from implicit_bias.margin.solvers.options import Options
from implicit_bias.margin.solvers.path import margin_path
from implicit_bias.margin.solvers.progress import Progress
from implicit_bias.margin.solvers.solution import Certificate, Solution, Status

__all__ = [
    "SOLVERS",
    "Answer",
    "Certificate",
    "Options",
    "Progress",
    "Solution",
    "Status",
    "certify",
    "margin_path",
    "solve",
    "solver_names",
]
