"""Does the smallest eigenvalue predict how fast networks train?

Networks f(x) = (1/√k) Σ_r a_r σ(⟨w_r, x⟩) have fixed a_r = ±1. The w_r start Gaussian, each once with either sign of
a_r, so that f starts at 0. They are trained by full-batch gradient descent on ½‖f(X) − y‖². As long as the w_r are near
their start, the residual after t steps with the learning rate η is e^{−ηtG} y. This is the gradient flow of kernel
regression, which has a closed form; its slowest component decays at the rate ηλ_min.

There are two choices of the learning rate that do not depend on the scale of σ. "own": η = 1/λ_max(G), the best safe
rate of each activation, so that λ_min/λ_max determines the speed. "common": η = 1/(E[σ'²] λ_max(XXᵀ)), equal for all
activations if σ is scaled to E[σ'²] = 1, so that λ_min/E[σ'²] determines the speed. It is safe because
λ_max(G) ≤ E[σ'²] λ_max(XXᵀ) (Schur).
"""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from implicit_bias._utils.checks import Array
from implicit_bias.datasets import load_binary
from implicit_bias.extensions.gated_flow import gradient_flow
from implicit_bias.extensions.infinite import Activation, activation, gram_matrix, mean_square
from implicit_bias.features import GatedFeatures
from implicit_bias.studies.gram.sphere import JUMP, SMOOTH, ordered, style, unit_points
from implicit_bias.studies.runner import Rows, Settings, Verdict, decide, over_seeds, seeded, where
from implicit_bias.studies.runner.drawing import COLOURS, finished, panels

TITLE = "Training two-layer networks with different activations"
SOURCE = "abstract, on slow training"
CLAIM = (
    "The larger the smallest eigenvalue, the faster a wide network trains: on data of low dimension networks with "
    "smooth activations are slow, on data of high dimension all are fast."
)
ACTIVATIONS = ("relu", "selu", "elu", "gelu", "swish", "tanh", "square")
#: Data, dimension and labels.
TASKS = [
    (data, d, labels)
    for d in (3, 50)
    for data, labels in (("sphere", "random"), ("digits", "random"), ("digits", "real"))
]
#: Largest dimension that counts as low.
FEW = 10
#: Rank correlations above which an order counts as that of the eigenvalues.
RANKED = 0.7
#: Least ratio of speeds at which training counts as faster.
SLOWER = 2
#: Share of the first loss at which a network counts as trained; speeds are means up to this point.
TRAINED = 1e-6


def grid(quick: bool) -> list[Settings]:
    """Return seven activations on all tasks with the "own" rate, and on spheres with the "common" rate, too.

    There are 50 points and 2048 units, with 5000 steps in low dimension and 1000 in high. Quick: four activations, 20
    points, 256 units, 1000 steps.
    """
    size, names = ({"n": 20, "units": 256}, ACTIVATIONS[::2]) if quick else ({"n": 50, "units": 2048}, ACTIVATIONS)
    tasks = [(rate, *task) for rate in ("own", "common") for task in TASKS if rate == "own" or task[0] == "sphere"]
    cells = [
        {"data": data, "d": d, "labels": labels, "rate": rate, "steps": 1000 if quick or d > FEW else 5000}
        | {"activation": name, **size}
        for rate, data, d, labels in tasks
        for name in names
    ]
    return seeded(cells, quick)


def samples(settings: Settings) -> tuple[Array, Array]:
    """Return points X (n, d) of length 1 and labels y (n,), −1 and +1, of the task in the settings.

    The points are random, or the first d principal components of digits. Labels are random, or those of the digits.
    """
    n, d, seed = (settings[name] for name in ("n", "d", "seed"))
    y = np.random.default_rng([seed, 1]).choice([-1.0, 1.0], size=n)
    if settings["data"] == "sphere":
        return unit_points(n, d, seed, 0), y
    task = load_binary("digits", train_size=n, seed=seed)
    pixels = task.X_pool[:, :-1]
    _, _, directions = np.linalg.svd(pixels - pixels.mean(axis=0), full_matrices=False)
    X = (task.X_train[:, :-1] - pixels.mean(axis=0)) @ directions[:d].T
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, task.y_train if settings["labels"] == "real" else y


def start(settings: Settings) -> tuple[Array, Array]:
    """Return initial weights W (k, d) and readout a (k,), with entries ±1/√k, such that the network is 0."""
    rng = np.random.default_rng([settings["seed"], 2])
    half = settings["units"] // 2
    W = rng.normal(size=(half, settings["d"]))
    return np.vstack([W, W]), np.repeat([1.0, -1.0], half) / np.sqrt(2 * half)


def residual_and_gradient(X: Array, y: Array, W: Array, a: Array, sigma: Activation) -> tuple[Array, Array]:
    """Return the residual f(X) − y, shape (n,), and the gradient of ½‖f(X) − y‖² in W, shape (k, d)."""
    Z = X @ W.T
    r = sigma.function(Z) @ a - y
    return r, ((sigma.derivative(Z) * r[:, None]).T @ X) * a[:, None]


def _recorded(steps: int) -> list[int]:
    return sorted({0, *np.geomspace(1, steps, 1 + int(6 * np.log(steps))).round().astype(int).tolist()})


def rows(settings: Settings) -> Rows:
    """Return a row for each recorded step: step, loss and flow; lambda_min, lambda_max and eta are the same in all.

    `loss` is that of the network and `flow` that of the gradient flow, both divided by the first loss. `lambda_min` and
    `lambda_max` are λ_min and λ_max of G divided by E[σ'²], and `eta` is the learning rate times E[σ'²].
    """
    X, y = samples(settings)
    sigma, unit = activation(settings["activation"]), mean_square(settings["activation"])
    values, vectors = np.linalg.eigh(gram_matrix(X, sigma).values)
    largest = float(np.linalg.norm(X, 2)) ** 2 * unit if settings["rate"] == "common" else float(values[-1])
    recorded = _recorded(settings["steps"])
    losses = trained(settings, X, y, sigma, 1 / largest)
    # The features V√λ have the kernel G; the flow's loss is a mean over the samples.
    features = GatedFeatures(vectors * np.sqrt(np.maximum(values, 0.0)))
    flow = gradient_flow(features, np.zeros((1, len(y))), np.array(recorded) * len(y) / largest, y=y)
    about = {"lambda_min": float(values[0]) / unit, "lambda_max": float(values[-1]) / unit, "eta": unit / largest}
    return [
        {"step": step, "loss": loss, "flow": float(predicted / flow.losses[0])} | about
        for step, loss, predicted in zip(recorded, losses, flow.losses, strict=True)
    ]


def trained(settings: Settings, X: Array, y: Array, sigma: Activation, eta: float) -> list[float | None]:
    """Train the hidden weights with rate η; return ‖f(X) − y‖²/‖y‖² at the recorded steps, None if not finite."""
    (W, a), recorded, losses = start(settings), set(_recorded(settings["steps"])), []
    with np.errstate(over="ignore", invalid="ignore"):
        for step in range(settings["steps"] + 1):
            r, gradient = residual_and_gradient(X, y, W, a, sigma)
            if step in recorded:
                loss = float(r @ r / (y @ y))
                losses.append(loss if np.isfinite(loss) else None)
            W -= eta * gradient
    return losses


def cost(settings: Settings) -> float:
    slow = {"relu": 2e-8, "square": 1.5e-8, "tanh": 2e-8}.get(settings["activation"], 5e-8)
    return slow * settings["steps"] * settings["n"] * settings["units"]


def speeds(table: pd.DataFrame) -> pd.DataFrame:
    """Return by task the mean rates `measured` of the network and `flow` of the gradient flow, and `worst`, ηλ_min."""
    runs = table.sort_values("step").groupby(["data", "d", "labels", "rate", "activation"])
    decays = [[decay(run.step, run[loss]) for _, run in runs] for loss in ("loss", "flow")]
    worst = runs.eta.first() * runs["lambda_min"].first()
    return pd.DataFrame({"measured": decays[0], "flow": decays[1], "worst": worst})


def decay(step: pd.Series, loss: pd.Series) -> float:
    """Return −½ log(loss)/step, the mean rate of decay of the residual, at the first loss of at most `TRAINED`.

    If there is none, the last step counts; the rate is NaN if its loss is missing.
    """
    done = np.flatnonzero(loss <= TRAINED)
    at = int(done[0]) if len(done) else len(loss) - 1
    return float(-np.log(loss.iloc[at]) / (2 * step.iloc[at]))


def draw(table: pd.DataFrame) -> Figure:
    """Plot losses and speeds of the first seed."""
    table = where(table, seed=table.seed.min())
    chosen = table[table.rate == "own"]
    chosen = chosen if len(chosen) else table
    dimensions = sorted(chosen.d.unique())
    tasks = [(data, labels) for data, d, labels in TASKS if d == TASKS[0][1]]
    axes = panels(TITLE, columns=len(tasks) + 1, rows=len(dimensions), size=(3.1, 2.7))
    for line, d in zip(axes, dimensions, strict=True):
        for ax, (data, labels) in zip(line, tasks, strict=False):
            curves(ax, chosen[(chosen.d == d) & (chosen.data == data) & (chosen.labels == labels)])
            ax.set(title=f"{data}, $d' = {d}$, {labels} labels", xlabel="steps", ylabel="loss / first loss")
        _scatter(line[-1], speeds(chosen[chosen.d == d]))
    return finished(axes, below=6)


def curves(ax: Axes, part: pd.DataFrame) -> None:
    """Plot the losses of networks against steps, and those of the gradient flow as thin lines."""
    for name in ordered(part.activation):
        run = part[part.activation == name].sort_values("step")
        ax.plot(run.step, run.loss, linewidth=1.4, **style(name))
        ax.plot(run.step, run.flow, linewidth=0.6, **style(name) | {"label": "_"})
    ax.plot([], [], color=COLOURS["theory"], linewidth=0.6, label="kernel gradient flow")
    ax.set(xscale="symlog", yscale="log", ylim=(TRAINED / 3, 2), xlim=(0, None))


def _scatter(ax: Axes, measured: pd.DataFrame) -> None:
    measured = measured[measured.worst > 0]
    for name in ordered(measured.index.get_level_values("activation")):
        runs, colour = measured.xs(name, level="activation"), style(name)["color"]
        ax.loglog(runs.worst, runs.measured, "o", color=colour, markersize=4)
        ax.loglog(runs.worst, runs.flow, "D", color=colour, markerfacecolor="none", markersize=5)
    ax.plot([], [], "o", color=COLOURS["theory"], markersize=4, label="network")
    ax.plot([], [], "D", color=COLOURS["theory"], markerfacecolor="none", markersize=5, label="flow")
    # Whole decades, which have labels.
    ends = 10.0 ** np.array([np.floor(np.log10(measured.worst.min())), np.ceil(np.log10(measured.worst.max()))])
    ax.minorticks_off()
    ax.plot(ends, ends, ":", color=COLOURS["theory"], linewidth=0.8, label="$\\eta\\lambda_{\\min}$")
    ax.set(xlabel="worst rate $\\eta\\lambda_{\\min}$", ylabel="rate of decay a step", title="all three tasks")


@over_seeds
def verdicts(table: pd.DataFrame) -> list[Verdict]:
    measured = speeds(table).dropna()
    tasks = [task for _, task in measured.groupby(["data", "d", "labels", "rate"]) if len(task) > 2]
    ranks = pd.Series([task.measured.corr(task.worst, method="spearman") for task in tasks], dtype=float)
    order = f"rank correlations {ranks.min():.2f} to {ranks.max():.2f} in {len(ranks)} tasks"
    d = measured.index.get_level_values("d")
    (low, slower), (high, as_fast) = _jump(measured[d <= FEW]), _jump(measured[d > FEW])
    return [
        decide("the larger ηλ_min, the faster networks train", order, ranks.min(), "above", RANKED, " in every task"),
        decide("low dimension: slower where σ is smooth", low, slower, "above", SLOWER, " times"),
        decide("high dimension: all are fast", high, as_fast, "at most", SLOWER, " times"),
    ]


def _jump(measured: pd.DataFrame) -> tuple[str, float]:
    chosen = measured.query("rate == 'own' and worst > 0")
    names = chosen.index.get_level_values("activation")
    times = chosen[names.isin(JUMP)].median() / chosen[names.isin(SMOOTH)].median()
    wide = chosen.max() / chosen.min()
    dimensions = "/".join(f"{d}" for d in sorted(set(chosen.index.get_level_values("d"))))
    text = f"in {dimensions} dimensions training is {times.measured:.2g} times as fast where σ' jumps (flow: "
    text += f"{times.flow:.2g}, ηλ_min: {times.worst:.1e}); ηλ_min ranges over a factor of {wide.worst:.1e}, "
    return text + f"speed over {wide.measured:.2g}", times.measured
