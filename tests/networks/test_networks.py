import io
import zipfile

import numpy as np
import pytest
import torch

import implicit_bias as ib
from implicit_bias.extensions.best_networks import ChainNetwork
from implicit_bias.extensions.galu import GaLU0Network, GaLUNetwork, least_squares
from implicit_bias.gates import FunctionContexts
from implicit_bias.networks import GatedNetwork, LinearNetwork, ReadoutNetwork, TorchNetwork
from tests.cases import assert_refused, inputs, refusals

X = inputs(n=60)
Y = np.where(X[:, 0] + 0.3 * X[:, 1] > 0, 1.0, -1.0)
Y_REAL = np.random.default_rng(3).normal(size=60)
FEW = ib.SGD(steps=40, lr=0.05)


def gln(units=5, contexts=2, **options):
    return ib.GatedLinearNetwork(ib.HyperplaneGates(units, contexts, seed=3).fit(X), **options)


def chains(layers, **options):
    return ChainNetwork(ib.HyperplaneGates(5, 2, seed=3).fit(X), layers, seed=2, **options)


def deep():
    layers = [ib.HyperplaneGates(6, 4, seed=3).fit(X), ib.HyperplaneGates(4, 2, seed=4).fit(X)]
    return ib.GatedLinearNetwork(layers)


def thirds(layers=1):
    """Return a GLN with three contexts per unit."""
    gates = [
        FunctionContexts(lambda X, i=i: np.digitize(X[:, i : i + 5], [-0.5, 0.5]), 3).fit(X) for i in range(layers)
    ]
    return ib.GatedLinearNetwork(gates)


NETWORKS = {
    "gln": gln,
    "gln 4 contexts": lambda: gln(3, 4),
    "gln 32 contexts": lambda: gln(3, 32),
    "gln 1 context": lambda: gln(3, 1),
    "shallow": lambda: gln(1, 8, readout=False),
    "deep gln": deep,
    "gln 3 contexts": thirds,
    "deep gln 3 contexts": lambda: thirds(2),
    "relu": lambda: ib.ReLUNetwork(12, 7, seed=2),
    "deep relu": lambda: ib.ReLUNetwork(12, (7, 5), seed=2),
    "frozen": lambda: ib.ReLUNetwork(12, 7, seed=2).freeze(),
    "deep frozen": lambda: ib.ReLUNetwork(12, (7, 5), seed=2).freeze(),
    "galu": lambda: GaLUNetwork(12, 7, seed=2),
    "soft galu": lambda: GaLUNetwork(12, 7, sharpness=2.0, seed=2),
    "deep galu": lambda: GaLUNetwork(12, (7, 5), seed=2),
    "deep galu0": lambda: GaLU0Network(12, (7, 5), seed=2),
    "chains": lambda: chains(3),
    "chains of two": lambda: chains(2),
    "chains, one layer gated": lambda: chains(4, gated=1),
    "chains, all layers gated": lambda: chains(3, gated=3),
    "linear": lambda: LinearNetwork(12, (7, 3), seed=2),
    "readout": lambda: ReadoutNetwork(12, 7, seed=2),
}
ONE_LAYER = [name for name in NETWORKS if not name.startswith("deep")]


@pytest.mark.parametrize("name", ONE_LAYER)
def test_effective_weights(name):
    network = NETWORKS[name]().double()
    for _ in range(2):
        linear = network.gates()(X) @ network.effective_weights()
        np.testing.assert_allclose(network.decision_function(X), linear, atol=1e-10)
        ib.train(network, X, Y, FEW)


@pytest.mark.parametrize(("place", "name"), [*enumerate(name for name in NETWORKS if "3 contexts" not in name)])
def test_saved_and_loaded_networks_predict_the_same(place, name, tmp_path):
    network = NETWORKS[name]().to([torch.float32, torch.float64][place % 2])
    filters = [u.clone() for u in network.filters()] if hasattr(network, "filters") else []
    history = ib.train(network, X, Y, FEW)
    assert history.table.loss.iloc[-1] < history.table.loss.iloc[0]
    again = ib.load_network(ib.save_network(network, tmp_path / "network.pt"))
    assert (type(again), again.config()) == (type(network), network.config())
    assert all(map(torch.equal, filters, network.filters() if filters else []))
    np.testing.assert_array_equal(again.decision_function(X), network.decision_function(X))
    fresh = inputs(seed=77)
    np.testing.assert_array_equal(again.decision_function(fresh), network.decision_function(fresh))


def test_contexts_of_ones_own_are_not_saved(tmp_path):
    network, again = thirds(), thirds()
    assert_refused(lambda: ib.save_network(network, tmp_path / "network.pt"), "FunctionContexts cannot be saved")
    ib.train(network, X, Y, FEW)
    again.load_state_dict(network.state_dict())
    np.testing.assert_array_equal(again.decision_function(X), network.decision_function(X))


def test_cutoffs_are_part_of_the_state_dict():
    """Loading a state dict restores the cutoffs, which the published checkpoints lost."""
    source, target = gln(), ib.GatedLinearNetwork(ib.HyperplaneGates(5, 2, seed=9, cutoff="random").fit(X))
    target.load_state_dict(source.state_dict())
    np.testing.assert_array_equal(target.decision_function(X), source.decision_function(X))


def test_refitting_the_gates_leaves_the_network_alone():
    gates = ib.HyperplaneGates(5, 2, seed=3).fit(X)
    network = ib.GatedLinearNetwork(gates)
    before = network.decision_function(X)
    gates.fit(3 * X + 1)
    network.gates().fit(5 * X + 1)
    np.testing.assert_array_equal(network.decision_function(X), before)


def test_loaded_gates_remember_their_parameters(tmp_path):
    gates = ib.HyperplaneGates(5, 2, seed=3, cutoff=(0.25, 0.75)).fit(X)
    again = ib.load_network(ib.save_network(ib.GatedLinearNetwork(gates), tmp_path / "network.pt")).gates()
    assert again.get_params() == gates.get_params()
    np.testing.assert_array_equal(again.cutoffs_, gates.cutoffs_)


def test_initialisation_continues_the_published_stream():
    torch.manual_seed(3)
    contexts = torch.nn.Linear(12, 5, bias=False)
    torch.nn.init.normal_(contexts.weight, 0, 36)
    torch.empty(5, 1).normal_(0, 9)
    hidden, readout = torch.nn.Linear(12, 10, bias=False), torch.nn.Linear(5, 1)
    torch.nn.init.orthogonal_(hidden.weight)
    torch.nn.init.orthogonal_(readout.weight)
    network = gln()
    assert torch.equal(network.hidden_weights[0], hidden.weight)
    assert torch.equal(network.readout.weight, readout.weight)
    assert torch.equal(network.readout.bias, readout.bias)


def test_relu_initialisation():
    torch.manual_seed(6)
    first = torch.nn.init.kaiming_normal_(torch.empty(7, 12))
    second = torch.nn.init.kaiming_normal_(torch.empty(1, 7))
    network = ib.ReLUNetwork(12, 7, seed=6)
    assert torch.equal(network.layers[0], first)
    assert torch.equal(network.layers[1], second)


def test_deep_gln_by_hand():
    network = deep().double()
    first, second = network._gates[0].contexts_of(X), network._gates[1].contexts_of(X)
    w1 = network.hidden_weights[0].detach().numpy().reshape(6, 4, 12)
    w2 = network.hidden_weights[1].detach().numpy().reshape(4, 2, 6)
    a, b = network.readout.weight.detach().numpy()[0], network.readout.bias.item()
    for i in range(5):
        hidden = np.array([w1[h, first[i, h]] @ X[i] for h in range(6)])
        hidden = np.array([w2[h, second[i, h]] @ hidden for h in range(4)])
        assert network.decision_function(X[i : i + 1])[0] == pytest.approx(a @ hidden + b, rel=1e-10)


@pytest.mark.parametrize("units", [7, (7, 5)])
def test_frozen_network_keeps_function_and_gates(units):
    network = ib.ReLUNetwork(12, units, seed=2).double()
    ib.train(network, X, Y, FEW)
    frozen = network.freeze()
    np.testing.assert_allclose(frozen.decision_function(X), network.decision_function(X), atol=1e-12)
    before = frozen.contexts(X)
    ib.train(frozen, X, Y, FEW)
    assert torch.equal(before, frozen.contexts(X))
    assert not np.allclose(frozen.decision_function(X), network.decision_function(X), atol=1e-3)
    assert isinstance(frozen, ib.FrozenReLUNetwork)


def test_learned_contexts_and_hidden_layers_become_problems():
    network = ib.ReLUNetwork(12, 7, seed=2).double()
    ib.train(network, X, Y, FEW)
    lc, hl = ib.svm_lc(X, Y, network), ib.svm_hl(X, Y, network)
    np.testing.assert_allclose(lc.margins(network.effective_weights()), Y * network.decision_function(X), atol=1e-12)
    readout = network.layers[-1].detach().numpy()
    np.testing.assert_allclose(hl.margins(readout), Y * network.decision_function(X), atol=1e-12)
    np.testing.assert_allclose(hl.decision_function(readout, X), Y * hl.margins(readout), atol=1e-12)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("gln", (4, 7, 12)), ("deep relu", (12,)), ("galu", (4, 11)), ("chains", (0, 3, 12)), ("linear", ())],
)
def test_wrong_shapes_are_refused(name, shape):
    network = NETWORKS[name]()
    assert_refused(lambda: network(torch.zeros(shape)), r"takes a tensor of shape \(n, 12\)")
    assert network(torch.zeros(3, 12)).shape == (3,)


@pytest.mark.parametrize("name", ["gln", "deep gln", "frozen", "galu", "deep galu0"])
def test_contexts_of_other_samples_are_refused(name):
    network = NETWORKS[name]().double()
    assert_refused(lambda: network(torch.as_tensor(X), network.contexts(X[:1])), "a row for each of the 60 inputs")
    assert_refused(lambda: network(X), "torch tensor")


@pytest.mark.parametrize("sharpness", [None, 2.0])
@pytest.mark.parametrize("kind", [GaLUNetwork, GaLU0Network])
def test_closed_form_as_a_network(kind, sharpness, tmp_path):
    gates = kind(12, 9, sharpness=sharpness, seed=2).gates()
    Y = np.column_stack([X @ np.arange(12), Y_REAL])
    one, several = least_squares(gates(X), Y_REAL), least_squares(gates(X), Y)
    network = kind.from_weights(gates, one.weights)
    np.testing.assert_allclose(network.effective_weights(), one.weights, atol=1e-12)
    np.testing.assert_array_equal(network.gates().transform(X), gates.transform(X))
    np.testing.assert_allclose(network.decision_function(X), gates(X) @ one.weights, atol=1e-10)
    wide = kind.from_weights(gates, several.weights)
    expected = np.stack([gates(X) @ W for W in several.weights], axis=1)
    np.testing.assert_allclose(wide.decision_function(X), expected, atol=1e-9)
    assert wide.units == [18]
    again = ib.load_network(ib.save_network(wide, tmp_path / "network.pt"))
    np.testing.assert_array_equal(again.decision_function(X), wide.decision_function(X))


def test_rank_one_stays_one_unit():
    gates = ib.ReLUGates(np.random.default_rng(0).normal(size=(4, 12)))
    W = np.einsum("qk,kd->qkd", np.random.default_rng(1).normal(size=(3, 4)), np.eye(4, 12))
    W[:, 2] = 0.0
    network = GaLUNetwork.from_weights(gates, W)
    assert network.units == [4]
    np.testing.assert_allclose(network.effective_weights(), W, atol=1e-14)


@pytest.mark.parametrize("name", ["deep gln", "deep relu", "deep frozen"])
def test_deep_networks_have_no_effective_weights(name):
    network = NETWORKS[name]()
    for ask in (network.gates, network.effective_weights):
        assert_refused(ask, "2 gated layers")


test_bad_input = refusals(
    (lambda: ib.GatedLinearNetwork(ib.HyperplaneGates(3, 2)), "fitted"),
    (lambda: ib.GatedLinearNetwork([]), "fitted"),
    (lambda: ib.GatedLinearNetwork("gates"), "fitted"),
    (lambda: gln(5, 2, readout=False), "1 unit"),
    (lambda: gln(seed=-1), "seed"),
    (lambda: ib.ReLUNetwork(0, 3), "inputs"),
    (lambda: ib.ReLUNetwork(12, []), "hidden layer"),
    (lambda: ib.ReLUNetwork(12, [3, 0]), "units"),
    (lambda: GaLUNetwork.from_weights(ib.HyperplaneGates(3).fit(X), np.ones((6, 12))), "ReLUGates"),
    (lambda: GaLUNetwork.from_weights(ib.ReLUGates(np.eye(2)), np.ones((3, 2))), r"shape \(2, 2\)"),
    (lambda: GaLUNetwork.from_weights(ib.ReLUGates(np.eye(2)), np.ones(2)), "2 or 3 dimension"),
    (lambda: gln().decision_function(np.ones((2, 5))), "5 columns"),
    (lambda: gln().decision_function([[np.inf] * 12]), "infinity"),
    (lambda: ib.save_network(torch.nn.Linear(2, 1), "x.pt"), "cannot save"),
    (lambda: ib.save_network(gln(), "/proc/nowhere/x.pt"), "cannot be written"),
)


@pytest.mark.parametrize("seed", range(4))
def test_networks_without_finite_weights(tmp_path, seed):
    rng = np.random.default_rng(seed)
    network = [gln, lambda: ib.ReLUNetwork(12, [3, 2]).freeze()][seed % 2]()
    path = ib.save_network(network, tmp_path / "network.pt")
    content = torch.load(path, weights_only=True)
    name = rng.choice([name for name, value in content["state"].items() if isinstance(value, torch.Tensor)])
    content["state"][name].view(-1)[0] = rng.choice([np.nan, np.inf, -np.inf])
    torch.save(content, path)
    assert_refused(lambda: ib.load_network(path), "NaN or infinity")
    network.load_state_dict(content["state"])
    assert_refused(lambda: ib.save_network(network, path), "NaN or infinity")


@pytest.mark.parametrize("seed", range(6))
def test_announced_networks_are_not_built(tmp_path, monkeypatch, seed):
    rng = np.random.default_rng(seed)
    network = [gln, lambda: ib.ReLUNetwork(12, [3, 2])][seed % 2]()
    path = ib.save_network(network, tmp_path / "network.pt")
    content = torch.load(path, weights_only=True)
    size = int(2 ** rng.integers(10, 20))
    if seed % 2:
        content["config"][rng.choice(["inputs", "outputs"])] = size
    else:
        content["config"]["gates"][0][rng.choice(["units", "contexts"])] = size
    if seed > 2:
        # Tensors of any shape over one number.
        content["state"] |= {
            name: torch.ones(1).expand(2**12, 2**20)
            for name, value in content["state"].items()
            if isinstance(value, torch.Tensor)
        }
    torch.save(content, path)
    monkeypatch.setattr(type(network), "from_config", lambda config: pytest.fail("it builds"))
    assert_refused(lambda: ib.load_network(path), "more weights than the file contains")


def damaged(path):
    """Yield the bytes of a network's file cut short, with a flipped bit, compressed, and with other content."""
    whole, content = path.read_bytes(), torch.load(path, weights_only=True)
    yield from (whole[:size] for size in (0, 100, len(whole) // 2))
    weights = content["state"]["hidden_weights.0"]
    place = whole.index(weights.numpy().tobytes())
    yield whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
    compressed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as source, zipfile.ZipFile(compressed, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))
    yield compressed.getvalue()
    states = [
        {"hidden_weights.0": weights.to(torch.complex64)},
        {"_extra_state": {"directions": [torch.zeros(1, 12)], "cutoffs": [torch.zeros(1)]}},
        {"_extra_state": {"directions": [torch.full((5, 12), torch.nan)], "cutoffs": [torch.zeros(5)]}},
    ]
    for change in ({"config": torch.zeros(2)}, *({"state": content["state"] | state} for state in states)):
        changed = io.BytesIO()
        torch.save(content | change, changed)
        yield changed.getvalue()


def test_damaged_network_files_are_refused(tmp_path):
    path = ib.save_network(gln(), tmp_path / "network.pt")
    for content in damaged(path):
        path.write_bytes(content)
        assert_refused(lambda: ib.load_network(path), "damaged")
    torch.save({"other": 1}, path)
    assert_refused(lambda: ib.load_network(path), "not a saved network")
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", ["gln", "gln of many contexts", "parallel", "parallel of other widths"])
def test_several_outputs(kind, tmp_path):
    """Outputs are linear in the features behind the gates, are trained with the softmax loss, and load equal."""
    widths = [3, 5, 4] if "other" in kind else [3, 3, 3]
    gates = [ib.HyperplaneGates(width, 32 if "many" in kind else 2, seed=3).fit(X) for width in widths]
    parts = [ib.GatedLinearNetwork(each, seed=seed) for seed, each in enumerate(gates)]
    network = ib.ParallelNetwork(parts) if "parallel" in kind else ib.GatedLinearNetwork(gates[0], outputs=3)
    network.double()
    classes = X[:, :3].argmax(axis=1)
    history = ib.train(network, X, classes, ib.SGD(steps=400, lr=0.1)).table
    assert history.loss.iloc[-1] < 0.7 * history.loss.iloc[0]
    outputs = network.decision_function(X)
    if "other" in kind:
        assert_refused(network.effective_weights, "different gates")
        each = [part.gates()(X) @ part.effective_weights() for part in network.parts]
    else:
        each = [network.gates()(X) @ weights for weights in network.effective_weights()]
    np.testing.assert_allclose(outputs, np.column_stack(each), atol=1e-11)
    if "parallel" in kind:
        assert_refused(network.config, "one by one")
    else:
        again = ib.load_network(ib.save_network(network, tmp_path / "network.pt"))
        np.testing.assert_array_equal(again.decision_function(X), outputs)
    with pytest.raises(ib.InputError, match="needs its readout"):
        ib.GatedLinearNetwork(ib.HyperplaneGates(1, 2).fit(X), readout=False, outputs=2)


class Leaky(GatedNetwork):
    """A custom network with nothing but `forward` and `degree`."""

    degree = 3

    def __init__(self, seed=0):
        super().__init__(inputs=12)
        torch.manual_seed(seed)
        self.layers = torch.nn.ParameterList(torch.randn(shape).double() for shape in ((7, 12), (5, 7), (1, 5)))

    def forward(self, X, contexts=None):
        for weight in list(self.layers)[:-1]:
            X = torch.nn.functional.leaky_relu(X @ weight.T, 0.2)
        return (X @ self.layers[-1].T)[:, 0]


def test_a_custom_network_needs_forward_and_degree():
    """It is trained, driven to the limit and judged as the same torch module; it has no margin problem and no file."""
    network, layers = Leaky(), Leaky().layers
    parts = [torch.nn.Linear(w.shape[1], len(w), bias=False) for w in layers]
    leaky = torch.nn.LeakyReLU(0.2)
    module = torch.nn.Sequential(parts[0], leaky, parts[1], leaky, parts[2])
    for part, weight in zip(parts, layers, strict=True):
        part.weight.data = weight.detach()
    found = []
    for one in (network, TorchNetwork(module, 12)):
        tables = [ib.train(one, X, Y, ib.SGD(steps=30, lr=0.01)).table]
        tables.append(ib.descend_to_limit(one, X, Y, ib.LossScaled(max_steps=30)).table.drop(columns="seconds"))
        found.append([*tables, one.decision_function(X)])
    for ours, other in zip(*found, strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-7, atol=1e-12)
    for call, words in {
        network.gates: r"Leaky defines no gates\(\)",
        network.effective_weights: "add the method",
        network.config: "state_dict",
        lambda: ib.svm_lc(X, Y, network): r"Leaky defines no gates\(\)",
        lambda: network.hidden(X): "no hidden layer",
    }.items():
        assert_refused(call, words)


def test_invalid_custom_networks():
    class Forgotten(Leaky):
        def __init__(self):
            super(Leaky, self).__init__()

    class Plain(Leaky):
        def __init__(self):
            super(Leaky, self).__init__(12)
            self.layers = [torch.ones(1, 12)]

    class Column(Leaky):
        def forward(self, X, contexts=None):
            return super().forward(X)[:, None]

    class Flat(Leaky):
        degree = 2

    with pytest.raises(TypeError, match="inputs"):
        Forgotten()
    for step in (ib.train, ib.descend_to_limit, ib.stationarity):
        with pytest.raises(ib.InputError, match=r"no parameters; assign its weights as torch.nn.Parameter|norm 0"):
            step(Plain(), X, Y)
    for step in (ib.train, ib.descend_to_limit):
        with pytest.raises(ib.InputError, match=r"outputs of shape \(60,\), not \(60, 1\)"):
            step(Column(), X, Y)
    assert_refused(lambda: Column().decision_function(X), "outputs of shape")
    assert_refused(lambda: ib.descend_to_limit(Flat(), X, Y), r"homogeneous of degree 2 .*2\^3 .*correct its `degree`")


@pytest.mark.parametrize("layered", [False, True])
def test_gates_that_agree_near_the_origin_only(layered):
    """Effective weights are refused for networks whose gates differ only far from 0, and not for equal gates."""
    large = np.column_stack([1e9 * (X[:, :-1] + 5), np.ones(60)])
    gates = [ib.HyperplaneGates(3, 2, seed=1, cutoff=cutoff).fit(large) for cutoff in ("median", (0.2, 0.4))]
    if layered:
        filters = [[GaLU0Network(12, (3, 2), seed=seed)] * 2 for seed in (1, 2)]
        own, equal = filters[0] + filters[1], filters[0]
    else:
        own, equal = ([ib.GatedLinearNetwork(each, seed=0) for each in some] for some in (gates, gates[:1] * 2))
    assert_refused(lambda: ib.ParallelNetwork(own).effective_weights(), "different gates")
    network = ib.ParallelNetwork(equal).double()
    each = [network.gates()(large) @ weights for weights in network.effective_weights()]
    np.testing.assert_allclose(network.decision_function(large), np.column_stack(each), rtol=1e-9)
