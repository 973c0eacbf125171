"""Layers of gated linear units against networks, against ReLU layers at the moment of freezing, and written out."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from implicit_bias.extensions.galu import GaLU0Network, GaLUConv2d, GaLULinear, GaLUNetwork
from tests.cases import assert_refused, refusals

X = torch.as_tensor(np.random.default_rng(0).normal(size=(20, 6)))
IMAGES = torch.as_tensor(np.random.default_rng(1).normal(size=(3, 4, 9, 7)))


def generator(seed=1):
    return torch.Generator().manual_seed(seed)


LAYERS = {
    "linear": (lambda **options: GaLULinear(6, 5, dtype=torch.float64, **options), X),
    "conv": (lambda **options: GaLUConv2d(4, 6, 3, dtype=torch.float64, padding=1, **options), IMAGES),
    "strided": (lambda **options: GaLUConv2d(4, 6, (3, 2), 2, 1, 1, 2, dtype=torch.float64, **options), IMAGES),
}
every_layer = pytest.mark.parametrize("name", LAYERS)


def layer_of(name, **options):
    make, inputs = LAYERS[name]
    return make(**options), inputs


@pytest.mark.parametrize("sharpness", [None, 1.5])
def test_a_stack_of_layers_is_the_network(sharpness):
    network = GaLUNetwork(6, (7, 5), outputs=2, sharpness=sharpness, seed=3).double()
    widths = [6, 7, 5]
    layers = [
        GaLULinear(a, b, bias=False, dtype=torch.float64, sharpness=sharpness, filters=u)
        for a, b, u in zip(widths, widths[1:], network.filters(), strict=False)
    ]
    readout = nn.Linear(5, 2, bias=False, dtype=torch.float64)
    stack = nn.Sequential(*layers, readout)
    for layer, weight in zip(stack, network.layers, strict=True):
        layer.weight.data.copy_(weight)
    torch.testing.assert_close(stack(X), network(X), rtol=1e-13, atol=1e-13)


def test_gates_may_read_something_else_than_the_layer():
    network = GaLU0Network(6, (7, 5), seed=3).double()
    first, second = (
        GaLULinear(a, b, bias=False, dtype=torch.float64, filters=u)
        for a, b, u in zip([6, 7], [7, 5], network.filters(), strict=True)
    )
    for layer, weight in zip((first, second), network.layers, strict=False):
        layer.weight.data.copy_(weight)
    outputs = second(first(X), second.gates(X)) @ network.layers[-1][0]
    torch.testing.assert_close(outputs, network(X), rtol=1e-13, atol=1e-13)
    assert_refused(lambda: second(first(X)), r"shape \(…, 6\), not \(20, 7\)")


@pytest.mark.parametrize(
    ("layer", "inputs"),
    [
        (nn.Linear(6, 5, dtype=torch.float64), X),
        (nn.Conv2d(4, 6, (3, 2), (1, 2), "valid", 2, 2, False, "zeros", dtype=torch.float64), IMAGES),
        (nn.Conv2d(4, 3, 3, padding=1, padding_mode="circular", dtype=torch.float64), IMAGES),
    ],
    ids=str,
)
def test_a_frozen_layer_is_the_relu_layer_until_it_trains(layer, inputs):
    kind = GaLULinear if isinstance(layer, nn.Linear) else GaLUConv2d
    frozen = kind.frozen(layer)
    torch.testing.assert_close(frozen(inputs), torch.relu(layer(inputs)), rtol=0, atol=0)
    before = frozen.gates(inputs)
    torch.optim.SGD(frozen.parameters(), lr=1.0).step(lambda: (frozen(inputs) ** 2).mean().backward())
    assert torch.equal(frozen.gates(inputs), before)
    assert not torch.allclose(frozen(inputs), torch.relu(layer(inputs)))


def test_the_linear_layer_is_its_formula():
    layer = GaLULinear(6, 5, dtype=torch.float64, sharpness=0.7, generator=generator())
    A, b, U, c = (t.detach().numpy() for t in (layer.weight, layer.bias, layer.filters, layer.offsets))
    x = X.numpy()
    expected = (x @ A.T + b) / (1 + np.exp(-0.7 * (x @ U.T + c)))
    np.testing.assert_allclose(layer(X).detach().numpy(), expected, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(layer(X.view(4, 5, 6)), layer(X).view(4, 5, 5))
    torch.testing.assert_close(layer(X[0]), layer(X)[0])


def test_a_convolution_is_the_linear_layer_on_every_patch():
    conv = GaLUConv2d(4, 6, 3, padding=1, dtype=torch.float64, generator=generator())
    linear = GaLULinear(36, 6, dtype=torch.float64, filters=conv.filters.flatten(1), offsets=conv.offsets)
    linear.load_state_dict(
        {name: value.flatten(1) if value.ndim > 1 else value for name, value in conv.state_dict().items()}
    )
    patches = nn.functional.unfold(IMAGES, 3, padding=1).mT
    torch.testing.assert_close(conv(IMAGES).flatten(2).mT, linear(patches), rtol=1e-12, atol=1e-12)


@every_layer
def test_own_gates(name):
    own, inputs = layer_of(name, gate=lambda v: torch.tanh(v) ** 2, generator=generator())
    values = own._linear(inputs, own.filters, own.offsets)
    linear = own._linear(inputs, own.weight, own.bias)
    torch.testing.assert_close(own(inputs), torch.tanh(values) ** 2 * linear)
    given = torch.ones_like(values, dtype=torch.bool)
    assert torch.equal(own(inputs, given), linear)
    half = layer_of(name, sharpness=1e-12, generator=generator())[0]
    torch.testing.assert_close(half(inputs), linear / 2, rtol=1e-9, atol=1e-12)


@every_layer
def test_filters_are_kept_and_moved_but_never_trained(name):
    layer, inputs = layer_of(name, generator=generator())
    assert sorted(dict(layer.named_parameters())) == ["bias", "weight"]
    layer(inputs).sum().backward()
    assert layer.filters.grad is None
    again = layer_of(name, generator=generator(2))[0]
    assert not torch.equal(again(inputs), layer(inputs))
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again(inputs), layer(inputs))
    assert torch.equal(copy.deepcopy(layer)(inputs), layer(inputs))
    assert torch.equal(layer_of(name, generator=generator())[0](inputs), layer(inputs))
    single = copy.deepcopy(layer).float()
    assert single.filters.dtype == single.offsets.dtype == single(inputs.float()).dtype == torch.float32


def test_drawing_follows_torchs_seed_and_sizes():
    drawn = []
    for make in (GaLULinear, GaLULinear, nn.Linear):
        torch.manual_seed(5)
        drawn.append(make(6, 5, dtype=torch.float64))
    assert torch.equal(drawn[0](X), drawn[1](X))
    assert torch.equal(drawn[0].weight, drawn[2].weight)
    wide = GaLULinear(400, 300, generator=generator())
    assert float(wide.filters.std()) == pytest.approx(400**-0.5, rel=0.02)
    assert float(wide.weight.detach().std()) == pytest.approx((3 * 400) ** -0.5, rel=0.02)
    assert wide(torch.randn(50, 400, generator=generator())).eq(0).float().mean() == pytest.approx(0.5, abs=0.03)


def test_layers_without_storage():
    layer = GaLULinear.frozen(nn.Linear(6, 5, device="meta"))
    assert (layer.filters.device.type, layer.filters.shape) == ("meta", (5, 6))


test_bad_input = pytest.mark.filterwarnings("ignore:Initializing zero-element")(
    refusals(
        (lambda: GaLULinear(6, 5, sharpness=1.0, gate=torch.sigmoid), "either"),
        (lambda: GaLULinear(6, 5, filters=torch.ones(4, 6)), r"filters must have shape \(5, any\)"),
        (lambda: GaLULinear(6, 5, filters="none"), "filters must be a tensor"),
        (lambda: GaLULinear(6, 5, filters=1j * torch.ones(5, 6)), "array of real numbers"),
        (lambda: GaLULinear(6, 0), r"shape \(0, 6\)"),
        (lambda: GaLULinear(6, 5)(torch.ones(3, 6), np.ones((3, 5))), "gates must be a tensor, not ndarray"),
        (lambda: GaLULinear(6, 5, filters=torch.full((5, 6), torch.nan)), "NaN"),
        (lambda: GaLULinear(6, 5, offsets=torch.ones(4)), r"offsets must have shape \(5\)"),
        (lambda: GaLULinear(6, 5)(torch.ones(3, 7)), r"\(…, 6\), not \(3, 7\)"),
        (lambda: GaLULinear(6, 5)(torch.tensor(1.0)), r"not \(\)"),
        (lambda: GaLULinear(6, 5)(torch.ones(3, 6), torch.ones(3, 1)), "outputs' shape"),
        (lambda: GaLULinear(6, 5, gate=lambda v: v[:1])(torch.ones(3, 6)), "shape of its argument"),
        (lambda: GaLUConv2d(3, 5, 3)(torch.ones(2, 4, 9, 9)), r"\(n, 3, h, w\), not \(2, 4, 9, 9\)"),
        (lambda: GaLUConv2d(3, 5, 3, filters=torch.ones(5, 3, 3, 2)), r"shape \(5, any, 3, 3\)"),
        (lambda: GaLULinear.frozen(nn.Conv2d(1, 1, 1)), "nn.Linear"),
        (lambda: GaLUConv2d.frozen(nn.Linear(1, 1)), "nn.Conv2d"),
    )
)
