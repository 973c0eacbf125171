"""The best two-layer ReLU network: its convex problem, the bound that a dual proves, and the search for both."""

from implicit_bias.extensions.best_networks.relu.problem import ReLUMarginProblem, svm_relu
from implicit_bias.extensions.best_networks.relu.search import BestNetwork, best_network

__all__ = ["BestNetwork", "ReLUMarginProblem", "best_network", "svm_relu"]
