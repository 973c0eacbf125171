"""Public names of `implicit_bias.extensions.infinite`."""

from .activations import Activation as Activation
from .activations import activation as activation
from .activations import custom_activation as custom_activation
from .activations import elu as elu
from .activations import leaky_relu as leaky_relu
from .activations import polynomial as polynomial
from .eigenvalues import SmallestEigenvalue as SmallestEigenvalue
from .eigenvalues import circle_eigenvalue as circle_eigenvalue
from .eigenvalues import smallest_eigenvalue as smallest_eigenvalue
from .gram import Gram as Gram
from .gram import empirical_gram as empirical_gram
from .gram import gram_matrix as gram_matrix
from .gram import mean_square as mean_square
from .infinite import InfiniteNetwork as InfiniteNetwork
from .infinite import deep_gram as deep_gram
from .infinite import predict as predict
from .splines import spline as spline
