"""The native solver: interior-point methods for sums of group norms, and for norms with polyhedral unit balls."""

from implicit_bias._utils.checks import shown
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.solvers.base import Answer, Options, Solver
from implicit_bias.solvers.native.settings import Settings

#: Features, and linear constraints, up to which an iteration of PRECISE takes at most about a second.
PRECISE_FEATURES, PRECISE_CONSTRAINTS = 1000, 100


class NativeSolver(Solver):
    """The package's interior-point method, with NumPy, or with torch on an explicit device; by default `Settings()`."""

    name = "NATIVE"
    needs = "native"
    takes = frozenset({"max_seconds", "start", "callback", "device"})

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()

    def load(self) -> None:
        import implicit_bias.solvers.native.solver  # noqa: F401

    def __call__(self, problem: MarginProblem, options: Options) -> Answer:
        from implicit_bias.solvers.native.interpolation import interpolate
        from implicit_bias.solvers.native.solver import solve_native

        if problem.constraints is not None:
            return interpolate(problem, options)
        return solve_native(problem, options, self.settings)

    def refusal(self, problem: MarginProblem, options: Options) -> str | None:
        reason = super().refusal(problem, options)
        if reason:
            return reason
        k, norm = problem.features.k, problem.norm
        if "device" not in options.special:
            return None
        forms = problem.constraints, norm.polyhedral_form(k), norm.spectral_form(k)
        if norm.has_atoms or forms != (None, None, None):
            return f"for {problem!r} NATIVE computes on 'cpu' only; leave device out"
        name = options.device
        try:
            import torch

            device = torch.device(name)
        except ImportError as error:
            return f"a device other than 'cpu' needs torch ({error}); use 'cpu', or pip install torch"
        except (RuntimeError, TypeError, ValueError, OverflowError):
            return f"{shown(name)} is no device; use 'cpu' or 'cuda'"
        if device.type not in ("cpu", "cuda"):
            return f"NATIVE computes in float64 on 'cpu' or 'cuda', not on {name!r}"
        if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
            return f"torch sees no device {name!r} here; use 'cpu'"
        return None


class PreciseSolver(Solver):
    """An interior-point method in 60 digits, for problems that doubles cannot resolve; supports linear constraints.

    It solves working sets of at most some 200 samples, so that n may be large if few samples are support vectors below
    their upper bound. With constraints, and for norms without a group form, it solves for all samples at once.
    """

    name = "PRECISE"
    takes = frozenset({"max_seconds", "start"})

    def load(self) -> None:
        import implicit_bias.solvers.native.precise  # noqa: F401

    def __call__(self, problem: MarginProblem, options: Options) -> Answer:
        from implicit_bias.solvers.native.precise import solve_precisely

        return solve_precisely(problem, options)

    def refusal(self, problem: MarginProblem, options: Options) -> str | None:
        features, constraints = problem.features, problem.constraints
        if features.k * features.d > PRECISE_FEATURES:
            return f"the arithmetic of PRECISE is for at most {PRECISE_FEATURES} features; use NATIVE"
        if constraints is not None and len(constraints.equal) > PRECISE_CONSTRAINTS:
            return f"the arithmetic of PRECISE is for at most {PRECISE_CONSTRAINTS} linear constraints; use CLARABEL"
        # A nuclear norm as a semidefinite program has too many variables.
        reason = super().refusal(problem, options)
        return reason or (self.structure_refusal(problem, "groups") if problem.norm.has_atoms else None)
