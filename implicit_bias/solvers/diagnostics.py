"""One-sentence diagnosis of INACCURATE solutions."""

import numpy as np

from implicit_bias._utils.checks import LARGEST
from implicit_bias._utils.floats import UNIT, length
from implicit_bias.margin.problem import MarginProblem
from implicit_bias.margin.solution import Solution

#: Ratio of the largest to the smallest size above which both are reported.
REPORTED_RATIO = 1e4
#: Largest power of ten that is printed as a float.
MAX_EXPONENT = 300
#: Relative accuracy of a dual norm without a formula.
COMPUTED_DUAL_ACCURACY = 1e-8


def diagnose(problem: MarginProblem, found: Solution) -> str:
    """Return a sentence on what keeps the gap above `tol`, for example margins lost in rounding or badly scaled inputs.

    >>> from implicit_bias import ConstantGate, solve, svm_gln
    >>> from implicit_bias.solvers import Answer
    >>> problem = svm_gln([[1e6, 1.0], [-1e6, 2e-6]], [1, -1], ConstantGate())
    >>> diagnose(problem, solve(problem, lambda *_: Answer([[1.0, 1.0]], [1.0, 1.0], 0)))
    'input 0 is 1e+06 times as large as input 1: bring the inputs to one scale'
    """
    features, norm, W = problem.features, problem.norm, found.weights
    constrained = problem.constraints is not None
    by_entries = constrained or (norm.has_formula and norm.dual_bound(np.zeros(features.k)) is None)
    if norm.needs_check and by_entries and np.isinf(norm.entries("value" if constrained else "dual", W.shape)).all():
        remedy = "use fewer gates or inputs" if constrained else "give it the method `dual_bound`"
        return f"{norm!r} has too many weights for a bound of its rounding error: {remedy}"
    errors = UNIT * (features.magnitudes(W) + abs(found.intercept)) / problem.required_margin
    if found.objective < np.inf and problem.hard and errors.max() > found.tol / 10:
        i = int(errors.argmax())
        text = f"the margin of sample {i} is {UNIT / errors[i]:.0e} times the sum of its terms' sizes"
        reason = "samples of both classes nearly coincide, or inputs need scaling"
        return f"{text}, so that double precision resolves it to {errors[i]:.0e}: {reason}"
    reasons = _ratios(problem)
    # Of equal ones, the first is the cause of the others.
    power, reason = max(reasons[1:] + reasons[:1], key=lambda one: one[0])
    if power >= np.log10(REPORTED_RATIO):
        return reason
    if constrained and not found.objective < np.inf:
        return "no weights that satisfy the constraints were found; loosen the tightest ones, or a hard margin"
    if not found.objective < np.inf:
        reach = found.lower_bound * float(length(features.row_norms())) / np.sqrt(features.n)
        least = f"; margins are at most {1 / reach:.0e} of the features' lengths" if reach > 1 / LARGEST else ""
        return f"no separating weights were found{least}"
    if not norm.has_formula and found.gap <= 10 * COMPUTED_DUAL_ACCURACY:
        text = f"the dual norm of {norm!r} is computed numerically, with a relative accuracy of only"
        return f"{text} {COMPUTED_DUAL_ACCURACY:.0e}: give its formula as dual="
    stuck = f"the solver made no progress below a gap of {found.gap:.0e}"
    if constrained:
        remedy = "remove near duplicates, write near equalities as equalities, or loosen tol"
        return f"the feasible set of the constraints is thin: {stuck}; {remedy}"
    return f"the samples' features are nearly dependent: {stuck}; bring the inputs to one scale, or loosen tol"


def _ratios(problem: MarginProblem) -> list[tuple[float, str]]:
    """Return logarithms of ratios of sizes, and sentences about them, that of C first."""
    features = problem.features
    scaled_C = 1.0 if problem.hard else float(problem.upper_bounds.max() * (features.row_norms().max() or 1.0))
    off = f"C is {_power(np.log10(scaled_C))} in units of the features: bring it nearer to 1 by scaling the inputs or C"
    reasons = [(abs(np.log10(scaled_C)), off)]
    for sizes, what, remedy in (
        (features.largest().max(axis=0), "input", "bring the inputs to one scale"),
        (features.row_norms(), "sample", "bring the samples to one scale"),
        (features.largest().max(axis=1), "gate", "bring the gate values to one scale"),
        (np.broadcast_to(problem.required_margin, features.n), "the required margin of sample", "rescale them"),
        (np.ones(1) if problem.hard else problem.upper_bounds, "the weight of sample", "rescale the sample weights"),
        (getattr(problem.norm, "weights", np.ones(1)), "the weight of group", "rescale the group weights"),
    ):
        used = np.flatnonzero(sizes)
        if len(used):
            large, small = used[sizes[used].argmax()], used[sizes[used].argmin()]
            power = np.log10(sizes[large]) - np.log10(sizes[small])
            reasons.append((power, f"{what} {large} is {_power(power)} times as large as {what} {small}: {remedy}"))
    return reasons


def _power(exponent: float) -> str:
    """Return 10^exponent as text with one digit, also if no double is as large."""
    return f"{10**exponent:.0e}" if abs(exponent) < MAX_EXPONENT else f"1e{exponent:+.0f}"
