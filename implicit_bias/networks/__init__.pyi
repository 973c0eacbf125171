"""The public names of `implicit_bias.networks`."""

from .base import GatedNetwork as GatedNetwork
from .gln import GatedLinearNetwork as GatedLinearNetwork
from .layers import FrozenReLUNetwork as FrozenReLUNetwork
from .layers import LinearNetwork as LinearNetwork
from .layers import ReadoutNetwork as ReadoutNetwork
from .layers import ReLUNetwork as ReLUNetwork
from .module import TorchNetwork as TorchNetwork
from .parallel import ParallelNetwork as ParallelNetwork
