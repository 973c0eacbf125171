"""The public names of `implicit_bias.training`."""

from .iterations import LossScaled as LossScaled
from .iterations import PlainDescent as PlainDescent
from .limit import descend_to_limit as descend_to_limit
from .optimisers import SGD as SGD
from .optimisers import Adam as Adam
from .optimisers import Muon as Muon
from .optimisers import Signum as Signum
from .optimisers import TorchOptimiser as TorchOptimiser
from .result import TrainingResult as TrainingResult
from .sgd import train as train
from .stationarity import Stationarity as Stationarity
from .stationarity import stationarity as stationarity
from .steepest import ProjectedDescent as ProjectedDescent
from .steepest import SteepestDescent as SteepestDescent
