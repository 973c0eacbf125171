"""Public names of `implicit_bias.extensions.best_networks`."""

from .arrangement import Arrangement as Arrangement
from .arrangement import activation_patterns as activation_patterns
from .chains.network import ChainNetwork as ChainNetwork
from .chains.search import BestChains as BestChains
from .chains.search import best_chains as best_chains
from .depth import MarginBound as MarginBound
from .depth import margin_bound as margin_bound
from .relu.problem import ReLUMarginProblem as ReLUMarginProblem
from .relu.problem import svm_relu as svm_relu
from .relu.search import BestNetwork as BestNetwork
from .relu.search import best_network as best_network
