"""Gates of the ReLU units of a torch module, found by recording its calls of relu."""

import copy
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from implicit_bias._utils.checks import Array, InputError, as_floats
from implicit_bias.gates.base import Gates
from implicit_bias.gates.functions import LeakyReLUGates
from implicit_bias.gates.hyperplanes import ReLUGates

RELU = {functional.relu, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_}
LEAKY = {functional.leaky_relu, functional.leaky_relu_}


class ModuleActivation(NamedTuple):
    """One call of relu or leaky_relu: values p (n, …), results z with z = p where p ≥ 0, else slope · p."""

    values: Tensor
    results: Tensor
    slope: float


class _Recorder(TorchFunctionMode):
    """Context in which each call of relu and leaky_relu is appended to `calls`."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[ModuleActivation] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in RELU | LEAKY:
            return func(*args, **kwargs)
        before = (args[0] if args else kwargs["input"]).detach().clone()
        slope = kwargs.get("negative_slope", args[1] if len(args) > 1 else 0.01) if func in LEAKY else 0.0
        results = func(*args, **kwargs)
        self.calls.append(ModuleActivation(before, results, float(slope)))
        return results


def activations_of(module: nn.Module, X: Tensor) -> tuple[Tensor, list[ModuleActivation]]:
    """Return a module's outputs at X, and its calls of relu and leaky_relu in their order."""
    with _Recorder() as recorder:
        outputs = module(X)
    return outputs, recorder.calls


class HiddenLayer(NamedTuple):
    """f(x) = Σ_h a_h σ(⟨w_h, x⟩ + b_h) + c, σ(p) = p for p ≥ 0, else slope · p: w (H, d), b (H,) and a (q, H)."""

    weights: Array
    biases: Array
    readout: Array
    slope: float

    def gates(self, directions: Array) -> Gates:
        """Return the gates of units with these directions, shape (H, d) or, with the constant input, (H, d + 1)."""
        return LeakyReLUGates(directions, self.slope) if self.slope else ReLUGates(directions)


class _Detached(TorchFunctionMode):
    """Context in which results of operations, which torch refuses to copy, are copied without their gradients."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.__deepcopy__ and not args[0].is_leaf:
            args = (args[0].detach(), *args[1:])
        return func(*args, **(kwargs or {}))


def copied(module: Any) -> Any:
    """Return a deep copy of a module, which may keep its last outputs."""
    with _Detached():
        return copy.deepcopy(module)


def hidden_layer(module: nn.Module, inputs: int) -> HiddenLayer:
    """Return the single hidden layer of a module on `inputs` inputs; InputError for a form other than `HiddenLayer`."""
    module = copied(module).cpu().double().eval().requires_grad_(True)
    remedy = "use svm_of_optimiser with FunctionGates for frozen gates, stationarity for others"
    # Values at 0 and at the unit vectors determine affine functions; random inputs test that they are affine.
    rng = np.random.default_rng(0)
    X = torch.as_tensor(np.vstack([np.zeros(inputs), np.eye(inputs), rng.normal(size=(8, inputs))]))
    outputs, calls = activations_of(module, X)
    if not isinstance(outputs, Tensor):
        raise InputError(f"the module returns {type(outputs).__name__}; return one tensor (n,) or (n, 1)")
    if len(calls) != 1:
        text = f"the module calls relu or leaky_relu {len(calls)} times"
        raise InputError(f"{text}, but only a single hidden layer has a margin problem of its gates; {remedy}")
    values, results, slope = calls[0]
    outputs = outputs.reshape(len(X), -1)
    weights = (values[1 : inputs + 1] - values[0]).T if values.ndim == 2 else torch.empty(0, inputs)
    readout = torch.stack([_slopes(one, results) for one in outputs[-1]]).reshape(len(outputs[0]), -1)
    shared = not (_is_parameter(module, weights) and _is_parameter(module, readout))
    if shared or not torch.allclose(X @ weights.T + values[0], values):
        text = "the module's hidden layer is not W x + b with one row of W and one readout weight per unit"
        raise InputError(f"{text}, as in Linear, ReLU, Linear; its limit has another norm; {remedy}")
    linear = results.detach() @ readout.T
    if not torch.allclose(linear - linear[0], (outputs - outputs[0]).detach()):
        raise InputError("the module's outputs are not linear in its ReLU units; use a Linear layer after them")
    return HiddenLayer(weights.numpy(), values[0].numpy(), readout.numpy(), slope)


def learned_gates(module: nn.Module, X: Any) -> Gates:
    """Return the gates of a module's hidden layer for inputs X (n, d), one direction (d,) per unit.

    Biases b_h of the layer are weights of the constant input, the last column of X, which the module may take or not.
    """
    X = as_floats(X, "X", 2)
    d, constant = X.shape[1], bool((X[:, -1] == 1).all())
    for width in (d, d - 1) if constant and d > 1 else (d,):
        try:
            layer = hidden_layer(module, width)
            break
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
    else:
        raise InputError(f"the module does not take float64 inputs of shape (n, {d}) ({reason}); change it, or X")
    if len(layer.readout) != 1:
        raise InputError(f"the module has {len(layer.readout)} outputs; SVM-LC needs one")
    biased = bool(layer.biases.any())
    if biased and not constant:
        text = "the module's layer has biases, which are weights of the constant input"
        raise InputError(f"{text}; append a column of ones to X, as BinaryTask.from_arrays does")
    if width < d and not biased:
        raise InputError(f"the module takes {width} inputs and has no biases; leave out the last column of X, the ones")
    if width < d:
        return layer.gates(np.column_stack([layer.weights, layer.biases]))
    return layer.gates(layer.weights + np.outer(layer.biases, np.eye(d)[-1]))


def _slopes(output: Tensor, results: Tensor) -> Tensor:
    return torch.autograd.grad(output, results, retain_graph=True, materialize_grads=True)[0][-1].flatten()


def _is_parameter(module: nn.Module, values: Tensor) -> bool:
    same = [p.reshape(values.shape) for p in module.parameters() if p.numel() == values.numel()]
    return any(torch.allclose(p, values) for p in same)
