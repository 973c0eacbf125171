"""What every solver hands to the judge."""

from dataclasses import dataclass

from implicit_bias._utils.checks import Array
from implicit_bias.margin.solution import Status


@dataclass(frozen=True, eq=False)
class Answer:
    """What a solver claims. None of it is taken on trust: `solve` has the judge compute it again.

    Attributes
    ----------
    weights : array, shape (k, d)
    dual : array, shape (n,)
        λ; zeros where the solver gave none.
    iterations : int
    stopped : Status, optional
        Why the solver stopped early.
    intercept : float
    multipliers : array, shape (m,), optional
        Of the problem's linear constraints.
    reason : str
        Why the solver gave up, if it knows: `Solution.reason` of an answer that is INACCURATE.

    Examples
    --------
    A solver of your own is a function of a problem and options, here a perceptron. Its answer is judged like any other:

    >>> import numpy as np
    >>> from implicit_bias.solvers import Answer
    >>> from implicit_bias import ConstantGate, solve, svm_gln
    >>> def perceptron(problem, options):
    ...     visits = np.zeros(problem.features.n)
    ...     for step in range(1000):
    ...         visits[problem.margins(problem.adjoint(visits)).argmin()] += 1
    ...     return Answer(problem.adjoint(visits), dual=visits, iterations=1000)
    >>> problem = svm_gln([[2.0, 1.0], [-1.0, 1.0]], [1, -1], ConstantGate())
    >>> print(solve(problem, perceptron, tol=0.01).status.name)
    OPTIMAL
    """

    weights: Array
    dual: Array
    iterations: int
    stopped: Status | None = None
    intercept: float = 0.0
    multipliers: Array | None = None
    reason: str = ""
