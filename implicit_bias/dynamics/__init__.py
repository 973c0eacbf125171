"""Gated deep linear networks in closed form: moments, gradient flow, gates, and how local their weights are."""

from implicit_bias.dynamics.fields import ipr, peak_frequency
from implicit_bias.dynamics.flow import GradientFlow, gradient_flow
from implicit_bias.dynamics.moments import Moments
from implicit_bias.dynamics.pixels import pixel_moments
from implicit_bias.dynamics.search import GateSearch, search_gates

__all__ = [
    "GateSearch",
    "GradientFlow",
    "Moments",
    "gradient_flow",
    "ipr",
    "peak_frequency",
    "pixel_moments",
    "search_gates",
]
