"""Descent to the limit of Theorem 3.1, which plain gradient descent approaches only like 1/log t."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd
from numpy.typing import ArrayLike

from implicit_bias._utils.checks import InputError, as_floats, check_callable, check_range
from implicit_bias._utils.floats import largest_entries
from implicit_bias._utils.limits import Deadline
from implicit_bias._utils.threads import one_thread
from implicit_bias.networks.base import GatedNetwork
from implicit_bias.training.homogeneous import MarginFunction
from implicit_bias.training.iterations import Descent, LossScaled
from implicit_bias.training.losses import as_aims
from implicit_bias.training.result import TrainingResult, drive

#: Steps between two rows of the table: one fifth of the steps so far.
SPACING = 1.2


def descend_to_limit(
    network: GatedNetwork,
    X: ArrayLike,
    y: ArrayLike,
    config: Descent | None = None,
    *,
    measure: Callable[[GatedNetwork], dict[str, float]] | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> TrainingResult:
    """Descend from a network's present weights towards the limit of gradient descent, in place and in float64.

    For one output the margins are q_i = y_i f_w(x_i). For several they are q_ic = f_{y_i}(x_i) − f_c(x_i) for all
    c ≠ y_i: for large margins the cross-entropy Σ_i log(1 + Σ_c e^{−q_ic}) of the softmax nears Σ_{i,c} e^{−q_ic}.
    Compare the normalised margin with `svm_classes` then; Theorem 3.1 is about one output. Training by a loss with a
    finite minimiser, such as the squared loss or label smoothing, has no such limit.

    The readout bias of a GLN is set to 0 and not trained, because f is not homogeneous in it and the theorem excludes
    it; the constant input gives each unit its own bias. The inputs are rotated into their span, which does not change
    the path of the descent and makes it faster.

    Contexts may have different degrees ν_i, f_{cw}(x_i) = c^{ν_i} f_w(x_i); then L is the lowest. In the limit only the
    samples of this degree determine the direction (erratum 7), and all other margins, which grow faster, need only be
    positive.

    Parameters
    ----------
    network : GatedNetwork
        A network of any depth, with fixed or learned gates; its `degree` is the lowest. At the end, also at a limit or
        Ctrl-C, it has the weights of the last step, in float64 on the CPU.
    X : array, shape (n, d)
    y : array, shape (n,)
        Labels −1 and +1; for a network of q > 1 outputs, classes 0 … q−1.
    config : LossScaled, the default, or PlainDescent for contrast
        For the limits of other optimisers, `ProjectedDescent` or `SteepestDescent` with the name of one. Inputs are
        rotated only if its norm allows it. In the table `norm` is then N(θ) and `residual` that of the KKT conditions.
        Three columns are added: `ratio`, an upper bound of N(θ)²/(margin × optimum), `smoothing`, and `dead` units.
    measure : callable(network) → dict of numbers, optional
        Called for every row of the table, to which its numbers are added.
    progress : callable(step, seconds), optional
        Called every 50 steps.

    Returns
    -------
    TrainingResult
        Its table has a row before the descent, then at steps a fifth apart, and at the end: step; seconds since the
        start; log_loss log (1/n) Σ exp(−q_i); margin min_i q_i; norm ‖w‖; normalised_margin = margin/‖w‖^L; residual,
        the sine of the angle between w and Σ_i p_i ∇q_i(w), p = softmax(−q), which is 0 where Theorem 3.1 holds with
        λ = p; and whatever `measure` returned.

    Raises
    ------
    InputError
        For bad arrays or labels, weights that are all zero, a network that is not homogeneous in them, or a plain
        descent that diverges.

    Examples
    --------
    >>> from implicit_bias import ConstantGate, GatedLinearNetwork, HyperplaneGates, LossScaled, descend_to_limit
    >>> from implicit_bias import load_binary, solve, svm_shallow
    >>> from implicit_bias.metrics import optimality_ratio
    >>> task = load_binary("digits", train_size=60)
    >>> network = GatedLinearNetwork(HyperplaneGates(1, 1).fit(task.X_pool), readout=False)
    >>> descent = descend_to_limit(network, task.X_train, task.y_train, LossScaled(tolerance=0.01))
    >>> problem = svm_shallow(task.X_train, task.y_train, ConstantGate())
    >>> ratio = optimality_ratio(problem, network.effective_weights(), solve(problem).objective)
    >>> descent.end, bool(1 <= ratio < 1.01)
    ('converged', True)
    """
    config = LossScaled() if config is None else config
    if not isinstance(network, GatedNetwork) or not isinstance(config, Descent):
        configs = "LossScaled(…), ProjectedDescent(…), SteepestDescent(…) or PlainDescent(…) as its config"
        raise InputError(f"descend_to_limit takes a GatedNetwork such as TorchNetwork(module, inputs), and {configs}")
    check_callable(measure, "measure")
    check_callable(progress, "progress")
    X = as_floats(X, "X", 2)
    aims = as_aims(y, len(X), network.outputs, "logistic")
    check_range(largest_entries(X).max(keepdims=True), "the inputs X", 1e-100, 1e100)
    deadline = Deadline(config.max_seconds)
    rows: list[dict[str, float]] = []
    with deadline, one_thread():
        function = MarginFunction(network, X, aims, rotated=config.rotation_invariant)
        stepper = config.stepper(function)

        def steps() -> Iterator[bool]:
            for step in range(1, config.max_steps + 1):
                yield stepper.step()
                if progress is not None and step % 50 == 0:
                    progress(step, deadline.seconds)

        def record(step: int) -> bool:
            row = {"step": step, "seconds": deadline.seconds} | function.state(stepper.weights) | stepper.state()
            function.write(stepper.weights)
            rows.append(row | (measure(network) if measure else {}))
            return stepper.converged

        end = drive(steps(), record, lambda step, recorded: step > SPACING * recorded, deadline)
        return TrainingResult(pd.DataFrame(rows), config, end, deadline.seconds, networks=(network,))
