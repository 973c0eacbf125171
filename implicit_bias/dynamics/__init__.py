"""Gated deep linear networks: moments, gradient flow in closed form, gates, training, and how local weights are."""

from implicit_bias.dynamics.changing import ChangingFlow, changing_flow
from implicit_bias.dynamics.flow import GradientFlow, gradient_flow
from implicit_bias.dynamics.moments import Moments
from implicit_bias.dynamics.orbits import OrbitMoments
from implicit_bias.dynamics.pathways import Pathways, Race
from implicit_bias.dynamics.pixels import pixel_moments
from implicit_bias.dynamics.receptive_fields import ipr, peak_frequency

__all__ = [
    "ChangingFlow",
    "GradientFlow",
    "Moments",
    "OrbitMoments",
    "Pathways",
    "Race",
    "changing_flow",
    "gradient_flow",
    "ipr",
    "peak_frequency",
    "pixel_moments",
]
