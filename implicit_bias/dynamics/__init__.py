"""Gated deep linear networks: moments, gradient flow in closed form, gates, training, and how local weights are."""

from implicit_bias.dynamics.flow import GradientFlow, gradient_flow
from implicit_bias.dynamics.moments import Moments
from implicit_bias.dynamics.pixels import pixel_moments
from implicit_bias.dynamics.receptive_fields import ipr, peak_frequency

__all__ = ["GradientFlow", "Moments", "gradient_flow", "ipr", "peak_frequency", "pixel_moments"]
