"""The best two-layer ReLU network: its convex problem, the bound that a dual proves, and the search for both."""

from implicit_bias.margin.relu.answer import BestNetwork
from implicit_bias.margin.relu.problem import ReLUMarginProblem, svm_relu
from implicit_bias.margin.relu.search import best_network

__all__ = ["BestNetwork", "ReLUMarginProblem", "best_network", "svm_relu"]
