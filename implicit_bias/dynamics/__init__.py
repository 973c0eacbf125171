"""Gated deep linear networks: moments, gradient flow in closed form, gates, training, and how local weights are."""

from implicit_bias.dynamics.fields import ipr, peak_frequency
from implicit_bias.dynamics.flow import GradientFlow, gradient_flow
from implicit_bias.dynamics.moments import Moments
from implicit_bias.dynamics.online import OnlineTraining, train_online
from implicit_bias.dynamics.pixels import pixel_moments
from implicit_bias.dynamics.search import GateSearch, search_gates

__all__ = [
    "GateSearch",
    "GradientFlow",
    "Moments",
    "OnlineTraining",
    "gradient_flow",
    "ipr",
    "peak_frequency",
    "pixel_moments",
    "search_gates",
    "train_online",
]
