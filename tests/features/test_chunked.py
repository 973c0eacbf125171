"""Samples in chunks: in memory maps and Dask arrays, whose features, gates, solutions and certificates are the same."""

import numpy as np
import pytest

import implicit_bias as ib
from implicit_bias import datasets
from implicit_bias._utils import limits
from implicit_bias.datasets import distorted_images
from tests.cases import assert_refused, interrupt, refusals

SCALED = {"scale": 2 / 255, "offset": -1.0, "constant": True}
BUILDS = {
    "contexts": (ib.svm_gln, ib.HyperplaneGates(6, 2, seed=1)),
    "four contexts, L2": (ib.svm_l2, ib.HyperplaneGates(3, 4, seed=1)),
    "half-spaces": (ib.svm_gln, ib.RandomHalfSpaces(5, seed=1, always_on=True)),
    "real gates": (ib.svm_gln, ib.SoftGates(np.random.default_rng(2).normal(size=(4, 31)), sharpness=2.0)),
}
ENGINES = ["memory map", "dask"]


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, size=(240, 30), dtype=np.uint8)


@pytest.fixture(scope="module")
def y(images):
    return np.where(images[:, 0] + 0.5 * images[:, 1] > 180, 1.0, -1.0)


@pytest.fixture
def engine(request, images, tmp_path):
    """Return the images as ChunkedInputs: chunks of 50, from a memory map or a Dask array."""
    if request.param == "memory map":
        np.save(tmp_path / "images.npy", images)
        yield ib.ChunkedInputs(np.load(tmp_path / "images.npy", mmap_mode="r"), **SCALED, chunk=50)
    else:
        da = pytest.importorskip("dask.array")
        yield ib.ChunkedInputs(da.from_array(images, chunks=(50, 11)), **SCALED)


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_chunks_are_the_array(engine, images, y, tiny_sets):
    X = np.column_stack([images * (2 / 255) - 1.0, np.ones(len(images))])
    np.testing.assert_array_equal(np.asarray(engine), X)
    np.testing.assert_array_equal(engine[[7, 3, 200]], X[[7, 3, 200]])
    gates, chunked = ib.HyperplaneGates(6, 2, seed=1).fit(X), ib.HyperplaneGates(6, 2, seed=1).fit(engine)
    np.testing.assert_allclose(chunked.cutoffs_, gates.cutoffs_, rtol=1e-12)
    features = chunked(engine)
    assert features.gate_values.dtype == np.int8
    np.testing.assert_array_equal(features.gate_values, gates.transform(X))
    found, known = ib.solve(ib.svm_gln(engine, y, chunked), tiny_sets), ib.solve(ib.svm_gln(X, y, gates))
    assert found.status is ib.Status.OPTIMAL
    assert found.objective == pytest.approx(known.objective, rel=2e-6)
    # The judge of the array in memory says the same of the same answer.
    again = ib.certify(ib.svm_gln(X, y, gates), found.weights, found.dual)
    assert again.gap == pytest.approx(found.gap, abs=1e-9)


@pytest.mark.parametrize(
    ("name", "C"),
    [
        ("contexts", np.inf),
        ("contexts", 1e-3),
        ("four contexts, L2", 0.05),
        ("four contexts, L2", np.inf),
        ("half-spaces", 1e-3),
        ("real gates", 0.05),
    ],
)
def test_every_price_and_norm_in_working_sets(name, C, images, y, tiny_sets):
    build, gates = BUILDS[name]
    X = ib.ChunkedInputs(images, **SCALED, chunk=64)
    found, known = ib.solve(build(X, y, gates, C), tiny_sets), ib.solve(build(X[:], y, gates, C))
    assert 0 <= found.gap <= 1e-6
    assert found.objective == pytest.approx(known.objective, rel=2e-6)


def test_array_on_a_cluster(images, y):
    distributed, da = pytest.importorskip("distributed"), pytest.importorskip("dask.array")
    gates = ib.HyperplaneGates(6, 2, seed=1).fit(ib.ChunkedInputs(images, **SCALED))
    problem = ib.svm_gln(ib.ChunkedInputs(images, **SCALED), y, gates)
    known = ib.solve(problem)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster),
    ):
        X = ib.ChunkedInputs(da.from_array(images, chunks=(60, 30)).persist(), **SCALED)
        there = ib.svm_gln(X, y, gates)
        assert ib.certify(there, known.weights, known.dual).gap == pytest.approx(known.gap, abs=1e-9)
        np.testing.assert_array_equal(there.features.select([3, 200]).X, problem.features.select([3, 200]).X)


def test_limits_callbacks_and_interruptions(images, y, tiny_sets):
    problem = ib.svm_gln(ib.ChunkedInputs(images, **SCALED, chunk=64), y, ib.HyperplaneGates(6, 2, seed=1))
    seen = []
    early = ib.solve(problem, tiny_sets, max_iterations=6, callback=seen.append)
    assert early.status is ib.Status.ITERATION_LIMIT
    assert seen[-1].samples == len(images)
    assert ib.solve(problem, tiny_sets, max_seconds=1e-9).status is ib.Status.TIME_LIMIT
    stop = interrupt(lambda progress: progress.iteration == 6)
    assert ib.solve(problem, tiny_sets, callback=stop).status is ib.Status.INTERRUPTED


def test_what_does_not_fit_is_refused(images, y, monkeypatch):
    X = ib.ChunkedInputs(images, **SCALED, chunk=64)
    problem = ib.svm_gln(X, y, ib.HyperplaneGates(6, 2, seed=1))
    monkeypatch.setattr(limits, "free_memory", lambda: 8.0 * images.size - 1)
    assert (problem.margins(np.ones((12, 31))) != 0).all()
    features = problem.features
    for whole in (features.dense, features.gram, features.reduced, lambda: np.asarray(X), problem.cvxpy):
        assert_refused(whole, "GiB of memory")
    assert_refused(lambda: ib.RandomHalfSpaces(10_000, seed=1).fit(X)(X), "use fewer units")


def test_gates_that_need_all_inputs_get_them(images, y):
    gates = ib.FunctionGates(lambda X: X[:, :2] > 0, [0, 1])
    X = ib.ChunkedInputs(images, **SCALED, chunk=64)
    np.testing.assert_array_equal(gates.fit(X)(X).gate_values, gates.fit(X[:])(X[:]).gate_values)
    plain = ib.ChunkedFeatures(X)
    np.testing.assert_array_equal(plain.select(slice(None)).gate_values, ib.ConstantGate().fit(X[:])(X[:]).gate_values)


def test_model_of_given_gate_values(images, y):
    G = images[:, :3] > 100
    problem = ib.MarginProblem(
        ib.ChunkedFeatures(ib.ChunkedInputs(images, **SCALED, chunk=64), G), y, ib.Frobenius(), C=0.1
    )
    model = ib.MarginModel([problem], [ib.solve(problem)])
    X = ib.ChunkedInputs(images, **SCALED)[:9]
    np.testing.assert_allclose(model.decision_function(X, G[:9]), y[:9] * model.solutions[0].margins[:9])
    assert_refused(lambda: model.predict(X), "give those of the new inputs")


test_bad_sources_are_refused = refusals(
    ([[1, 2]], {}, "NumPy array"),
    (np.ma.masked_equal([[1, 2]], 2), {}, "NumPy array"),
    (np.array([["a"]]), {}, "real numbers"),
    (np.zeros(3), {}, r"shape \(n, p\)"),
    (np.zeros((0, 3)), {}, "empty"),
    (np.array([[1.0, np.nan]]), {}, "column 1 of the source contains NaN"),
    (np.ones((2, 2)), {"scale": [1.0, 2.0, 3.0]}, "one number or 2"),
    (np.ones((2, 2)), {"offset": np.inf}, "offset holds NaN or infinity"),
    (np.ones((2, 2)), {"chunk": 0}, "chunk"),
    call=lambda source, options: ib.ChunkedInputs(source, **options),
)


def test_bad_gate_values_and_uses_are_refused(images, y, tmp_path):
    X = ib.ChunkedInputs(images, **SCALED)
    assert_refused(lambda: ib.ChunkedFeatures(images), "must be ChunkedInputs")
    assert_refused(lambda: ib.ChunkedFeatures(X, np.ones((239, 2))), "239")
    assert_refused(lambda: ib.ChunkedFeatures(X, np.full((240, 2), np.nan)), "gate_values holds NaN")
    assert_refused(lambda: ib.HyperplaneGates(3, 2).fit(X, sample_weight=np.ones(240)), "without sample_weight")
    assert_refused(lambda: ib.save_problem(ib.svm_gln(X, y, ib.ConstantGate()), tmp_path / "p.npz"), "ChunkedFeatures")


@pytest.fixture
def few_images(monkeypatch):
    """Replace the training images of MNIST by twelve random ones, and return them."""
    pixels = np.random.default_rng(5).integers(0, 256, size=(12, 784), dtype=np.uint8)
    monkeypatch.setattr(datasets.images, "raw_images", lambda name, root: (pixels, np.arange(12) % 10))
    return pixels


def test_distorted_images_are_the_originals_and_then_copies(few_images, tmp_path):
    """The first images are the originals, all others distinct copies that depend on the seed, not on their number."""
    n = datasets.images.CHUNK + 9
    images, labels = distorted_images("mnist", n, tmp_path)
    assert isinstance(images, np.memmap)
    np.testing.assert_array_equal(images[:12], few_images)
    np.testing.assert_array_equal(labels, np.arange(n) % 12 % 10)
    assert all((images[i] != few_images[i % 12]).any() for i in [*range(12, 36), *range(n - 12, n)])
    # A copy is near its original, and no two are alike.
    assert (images[12] != images[24]).any()
    np.testing.assert_array_equal(distorted_images("mnist", 25, tmp_path)[0], images[:25])
    other = distorted_images("mnist", 25, tmp_path, seed=2)[0]
    assert (other[12:] != images[12:25]).any()
    np.testing.assert_array_equal(distorted_images("mnist", n, tmp_path)[0], images)


def test_a_picture_goes_where_it_is_sent():
    dot = np.zeros((3, 784), dtype=np.uint8)
    dot[:, 28 * 5 + 14] = 255
    moved = datasets.images._distorted(dot, np.array([0.0, 0.0, np.pi / 2]), np.array([[2.0, 0], [0, -1], [0, 0]]))
    assert [np.flatnonzero(image).tolist() for image in moved] == [[28 * 5 + 16], [28 * 4 + 14], [28 * 14 + 22]]


def test_images_are_written_whole_or_not_at_all(few_images, tmp_path, monkeypatch):
    moved = datasets.images._distorted
    monkeypatch.setattr(datasets.images, "_distorted", interrupt())
    with pytest.raises(KeyboardInterrupt):
        distorted_images("mnist", 40, tmp_path)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(datasets.images, "_distorted", moved)
    monkeypatch.setattr(datasets.images.shutil, "disk_usage", lambda folder: type("Usage", (), {"free": 5}))
    assert_refused(lambda: distorted_images("mnist", 40, tmp_path), "use fewer images")
    np.save(tmp_path / "mnist-40-1.npy", np.zeros(3))
    assert_refused(lambda: distorted_images("mnist", 40, tmp_path), "move it away")
