"""The best two-layer ReLU network and the best gated chains, with proof; bounds on the margins of deep networks."""

from implicit_bias._utils.lazy import attach

__getattr__, __dir__ = attach(__name__, __file__)
