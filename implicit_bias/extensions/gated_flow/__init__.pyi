"""The public names of `implicit_bias.extensions.gated_flow`."""

from .changing import ChangingFlow as ChangingFlow
from .changing import changing_flow as changing_flow
from .flow import GradientFlow as GradientFlow
from .flow import gradient_flow as gradient_flow
from .moments import Moments as Moments
from .moments import pixel_moments as pixel_moments
from .online import OnlineTraining as OnlineTraining
from .online import train_online as train_online
from .orbits import OrbitMoments as OrbitMoments
from .pathways import Pathways as Pathways
from .pathways import Race as Race
from .receptive_fields import ipr as ipr
from .receptive_fields import peak_frequency as peak_frequency
from .rings import RingProcess as RingProcess
from .rings import SinglePulse as SinglePulse
from .rings import nonlinear_gaussian_process as nonlinear_gaussian_process
