"""Least squares on gated linear features: in closed form, with better filters, and with vector outputs."""

from implicit_bias.regression.alternation import Alternation, alternate_convex_search
from implicit_bias.regression.closed_form import LeastSquares, least_squares
from implicit_bias.regression.filters import FilterSearch, improve_filters
from implicit_bias.regression.model import LeastSquaresModel

__all__ = [
    "Alternation",
    "FilterSearch",
    "LeastSquares",
    "LeastSquaresModel",
    "alternate_convex_search",
    "improve_filters",
    "least_squares",
]
