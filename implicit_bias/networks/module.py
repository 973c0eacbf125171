"""A torch module as a network."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from implicit_bias._utils.checks import Array, InputError, as_count, shown
from implicit_bias.gates import Gates
from implicit_bias.gates.modules import HiddenLayer, activations_of, copied, hidden_layer
from implicit_bias.networks.base import GatedNetwork, to_array

#: Number of random inputs on which a module is examined.
SAMPLES = 16
#: Factors by which the weights are scaled.
FACTORS = (0.5, 2.0, 4.0)
#: Largest relative deviation from f_{cw} = c^L f_w, and largest difference of degrees that count as equal.
DEVIATION = 1e-6


class TorchNetwork(GatedNetwork):
    """A torch module as a network, which can be trained and driven to its limit: f_{cw} = c^L f_w for c > 0.

    w are all trainable parameters. The limit of gradient descent is known for such homogeneous networks only (Lippl,
    Abbott & Chung, Theorem 3.1; Lyu & Li, 2020). Therefore biases count as follows, for relu, leaky relu and all other
    activations with σ(cp) = cσ(p):

        W₂ σ(W₁x + b₁):         c W₂ σ(c W₁x + c b₁) = c² f(x)             homogeneous: b₁ is part of w
        W₂ σ(W₁x + b₁) + b₂:    c² W₂ σ(W₁x + b₁) + c b₂ ≠ c² f(x)         not homogeneous: refused

    b₁ is the weight of the constant input. Build the layers after the first with `bias=False`. Parameters with
    `requires_grad_(False)` are not part of w.

    Parameters
    ----------
    module : torch.nn.Module
        Its outputs for n inputs have shape (n,), (n, 1) or (n, q). It is not copied: training changes it, and
        `descend_to_limit` converts it to float64.
    inputs : int or tuple of int
        d, or the shape of an input such as (1, 8, 8), into which each row x (d,) is reshaped.
    degree : int, optional
        L, at least 1; by default it is measured. If samples have different degrees, give the lowest.

    Raises
    ------
    InputError
        If the module is not homogeneous of this degree, tested for w and random weights near w, at several factors c
        and random inputs; if it fails on these inputs, or has other outputs; if it is random (dropout) or its output
        depends on the other samples (batch normalisation); if its parameters are in half precision, of several
        dtypes, or not on the CPU.

    Examples
    --------
    >>> from implicit_bias import load_binary, stationarity, train
    >>> from implicit_bias.networks import TorchNetwork
    >>> task = load_binary("digits", train_size=100)
    >>> layers = nn.Linear(65, 20, bias=False), nn.LeakyReLU(0.1), nn.Linear(20, 1, bias=False)
    >>> _ = torch.manual_seed(1)
    >>> network = TorchNetwork(nn.Sequential(*layers), inputs=65)
    >>> network.degree, network.outputs
    (2, 1)
    >>> history = train(network, task.X_train, task.y_train)
    >>> float(history.table.error.iloc[-1]), 0 < stationarity(network, task.X_train, task.y_train).residual < 1
    (0.0, True)
    """

    def __init__(self, module: nn.Module, inputs: int | Sequence[int], *, degree: int | None = None) -> None:
        if not isinstance(module, nn.Module):
            raise InputError(f"TorchNetwork takes a torch.nn.Module, not {shown(module)}")
        shape = tuple(as_count(size, "inputs") for size in (inputs if isinstance(inputs, list | tuple) else [inputs]))
        if not shape:
            raise InputError("inputs must be the number of inputs or the shape of an input, not empty")
        if degree is not None:
            as_count(degree, "degree")
        with _reasons(shape):
            # A lazy module has parameters without a shape.
            _check_parameters(module)
        measured, outputs = _degree(module, shape, degree)
        super().__init__(int(np.prod(shape)), outputs)
        self.module, self.shape, self._degree = module, shape, measured

    def forward(self, X: Tensor, contexts: Tensor | None = None) -> Tensor:
        return _values(self.module, X, self.shape)

    @property
    def degree(self) -> int:
        return self._degree

    @torch.no_grad()
    def slopes(self, X: ArrayLike) -> list[Array]:
        """Return the slopes (n, …) of all units of each call of relu or leaky_relu: the activation pattern.

        For a fixed pattern, a network of these activations and of linear layers is linear in x. A unit of relu has the
        slopes 1 and 0, a unit of leaky relu 1 and its negative slope.
        """
        X, _ = self.tensors(X)
        return [np.where(to_array(values) >= 0, 1.0, slope) for values, _, slope in activations_of(self, X)[1]]

    def gates(self) -> Gates:
        """Return the gates of the hidden layer, `ReLUGates` or `LeakyReLUGates`.

        InputError is raised unless f(x) = Σ_h a_h σ(⟨w_h, x⟩) with parameters a and w of every unit, σ relu or leaky
        relu. For biases, pass the module to `svm_lc` along with the constant input.
        """
        layer = self._hidden_layer()
        return layer.gates(layer.weights)

    def effective_weights(self) -> Array:
        layer = self._hidden_layer()
        weights: Array = layer.readout[:, :, None] * layer.weights
        return weights[0] if self.outputs == 1 else weights

    def _hidden_layer(self) -> HiddenLayer:
        layer = hidden_layer(self, self.inputs)
        if layer.biases.any():
            text = "the hidden layer has biases, which are weights of the constant input"
            raise InputError(f"{text}; pass the module to svm_lc, with a column of ones in X")
        return layer


def _values(module: nn.Module, X: Tensor, shape: tuple[int, ...]) -> Tensor:
    outputs = module(X.reshape(-1, *shape))
    if isinstance(outputs, Tensor) and outputs.ndim < 2 and len(X) == 1:
        # A module that ends in squeeze() drops the dimension of a single sample.
        outputs = outputs.reshape(1, -1)
    is_column = isinstance(outputs, Tensor) and outputs.ndim == 2 and outputs.shape[1] == 1
    return outputs[:, 0] if is_column else outputs


def _check_parameters(module: nn.Module) -> None:
    parameters = list(module.parameters())
    if not any(p.requires_grad and p.numel() for p in parameters):
        raise InputError("the module has no trainable parameters; give it some, with requires_grad=True")
    places = sorted({str(p.device) for p in parameters})
    if places != ["cpu"]:
        raise InputError(f"the module is on {', '.join(places)}; call module.cpu(), train(…, device=…) moves it itself")
    dtypes = sorted({str(p.dtype).removeprefix("torch.") for p in parameters})
    if dtypes not in (["float32"], ["float64"]):
        text = f"the module's parameters are in {', '.join(dtypes)}"
        raise InputError(f"{text}; call module.float() first, because small steps need single precision")
    if not all(bool(p.isfinite().all()) for p in parameters):
        raise InputError("the module's parameters contain NaN or infinity; initialise them again")


@torch.no_grad()
def _degree(module: nn.Module, shape: tuple[int, ...], given: int | None) -> tuple[int, int]:
    with _reasons(shape):
        twin = copied(module).double()
        rng = np.random.default_rng(0)
        X = torch.as_tensor(rng.normal(size=(SAMPLES, int(np.prod(shape)))))
        first = _checked_outputs(twin, X, shape)
        weights = [p for p in twin.parameters() if p.requires_grad]
        start = [p.clone() for p in weights]
        spreads = [float(p.square().mean().sqrt()) or 1.0 for p in weights]
        degrees = []
        # Parameters that are 0 at the start, such as biases, are not 0 in the second test.
        for share in (0.0, 0.1):
            normal = [torch.as_tensor(rng.normal(size=w.shape)) for w in start]
            measured = {}
            for factor in (1.0, *FACTORS):
                for weight, w, spread, draw in zip(weights, start, spreads, normal, strict=True):
                    weight.copy_(factor * (w + share * spread * draw))
                measured[factor] = to_array(_values(twin, X, shape)).ravel()
            degrees.append(_exponents(measured))
    every = np.concatenate(degrees)
    if not every.size:
        raise InputError("the module's outputs are all 0; initialise its weights")
    lowest = float(every.min())
    if given is None and np.ptp(every) > DEVIATION:
        text = f"the module's outputs have degrees from {lowest:.6g} to {every.max():.6g} in its trainable parameters"
        raise InputError(f"{text}; give the lowest as degree")
    degree = round(lowest) if given is None else given
    if degree < 1 or abs(lowest - degree) > DEVIATION:
        wanted = "not a whole number of at least 1" if given is None else f"not {given}"
        raise InputError(f"the module is homogeneous of degree {lowest:.6g} in its trainable parameters, {wanted}")
    return degree, first[0].numel()


@contextmanager
def _reasons(shape: tuple[int, ...]) -> Iterator[None]:
    """Convert any exception of a user's module in the block into InputError; its text names the inputs' shape."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        reason = (str(error) or type(error).__name__).strip().splitlines()[0]
        text = f"the module fails on float64 inputs of shape (n, {', '.join(map(str, shape))}): {reason}"
        raise InputError(f"{text}; change inputs, or the module") from None


def _checked_outputs(module: nn.Module, X: Tensor, shape: tuple[int, ...]) -> Tensor:
    outputs = _values(module, X, shape)
    if not isinstance(outputs, Tensor):
        raise InputError(f"the module returns {type(outputs).__name__}; return one tensor (n,) or (n, q)")
    if outputs.ndim not in (1, 2) or len(outputs) != SAMPLES or not outputs.numel():
        text = f"the module's outputs for {SAMPLES} inputs have shape {tuple(outputs.shape)}"
        raise InputError(f"{text}; return ({SAMPLES},) or ({SAMPLES}, q)")
    if not bool(outputs.isfinite().all()):
        raise InputError("the module's outputs contain NaN or infinity; use smaller weights")
    if not torch.equal(_values(module, X, shape), outputs):
        raise InputError("two calls on the same inputs give different outputs; remove dropout, or call module.eval()")
    half = SAMPLES // 2
    if not torch.allclose(_values(module, X[:half], shape), outputs[:half]):
        text = "the module's output depends on the other samples, as with batch normalisation"
        raise InputError(f"{text}; remove it, or call module.eval()")
    return outputs


def _exponents(measured: dict[float, Array]) -> Array:
    """Return L of each output not near 0, given all outputs at each factor c; raise InputError if L varies with c."""
    base = measured[1.0]
    clear = np.abs(base) > 1e-3 * np.abs(base).max()
    ratios = {c: values[clear] / base[clear] for c, values in measured.items()}
    with np.errstate(all="ignore"):
        degrees = np.log2(ratios[2.0])
        deviations = [np.abs(ratios[c] * c**-degrees - 1) for c in FACTORS]
    if not (np.max(deviations, axis=0) <= DEVIATION).all():
        worst = int(np.argmax(np.where(np.isfinite(degrees), np.max(deviations, axis=0), np.inf)))
        factors = ", ".join(f"{ratios[c][worst]:.8g} at c = {c:g}" for c in FACTORS)
        text = "the module is not homogeneous in its trainable parameters w: with c·w an output is multiplied by"
        remedy = "use relu or leaky relu, no biases after the first layer, and no normalisation"
        raise InputError(f"{text} {factors}, which is no power of c; {remedy}")
    return np.asarray(degrees)
