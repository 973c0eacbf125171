import numpy as np
import pytest
import scipy.sparse as sp

from implicit_bias import Frobenius, GatedFeatures, MarginProblem
from implicit_bias.features.base import CHUNK_SIZE
from implicit_bias.features.patterns import share_patterns
from tests.cases import GATES, OwnFeatures, assert_refused, inputs, refusals


def test_sharing_patterns_saves_nonzeros():
    X = inputs(n=1500)
    features = GATES["contexts 2"](X)(X)
    shared = share_patterns(features.X, features.gate_values, 0)
    assert not shared.trivial
    assert shared.M.nnz <= np.count_nonzero(features.dense()) / 3


test_bad_input = refusals(
    ([[np.nan]], [[1]], "X holds NaN or infinity"),
    ([[1.0]], [[np.inf]], "gate_values holds NaN"),
    ([[1.0], [2.0]], [[1]], "2 rows"),
    (np.zeros((0, 3)), np.zeros((0, 2)), "empty"),
    ([1.0, 2.0], [[1]], "2 dimension"),
    ([["a"]], [[1]], "real numbers"),
    ([[1.0], [1.0, 2.0]], [[1]], "real numbers"),
    ([[1 + 2j]], [[1]], "real numbers"),
    call=GatedFeatures,
)


#: Ways in which features of one's own may be wrong, and a word of the refusal.
WRONG = {
    "a list": ({"dense": lambda self: OwnFeatures.dense(self).tolist()}, "finite float64 array"),
    "another type": ({"dense": lambda self: OwnFeatures.dense(self).astype(np.float16)}, "float16"),
    "long doubles": ({"dense": lambda self: OwnFeatures.dense(self).astype(np.longdouble)}, "finite float64"),
    "sparse": ({"dense": lambda self: sp.csr_array(OwnFeatures.dense(self))}, "finite float64 array"),
    "blocks": ({"dense": lambda self: self.blocks}, "finite float64 array"),
    "NaN": ({"dense": lambda self: OwnFeatures.dense(self) * np.nan}, "finite float64 array"),
    "half of ΦW": ({"apply": lambda self, W: OwnFeatures.apply(self, W) / 2}, "apply"),
    "twice Φᵀa": ({"adjoint": lambda self, a: 2 * OwnFeatures.adjoint(self, a)}, "adjoint"),
    "no lengths": ({"row_norms": lambda self, units=1.0: np.zeros(self.n)}, "row_norms"),
    "small sizes": ({"magnitudes": lambda self, W: np.abs(self.apply(W))}, "magnitudes"),
    "all closed": ({"closed": lambda self: np.ones(self.n, dtype=bool)}, "closed"),
    "two sizes": ({"shape": property(lambda self: self.blocks.shape[:2])}, "positive integers"),
}


@pytest.mark.parametrize(("seed", "name"), [*enumerate(WRONG)])
def test_contradictory_features_are_refused(name, seed):
    rng, (changes, words) = np.random.default_rng(seed), WRONG[name]
    blocks = rng.normal(size=(*rng.integers(2, 9, 2), 3))
    y = rng.choice([-1, 1], size=len(blocks))
    MarginProblem(OwnFeatures(blocks), y, Frobenius())
    features = type("Mistaken", (OwnFeatures,), changes)(blocks)
    assert_refused(lambda: MarginProblem(features, y, Frobenius()), words)


@pytest.mark.long
def test_gram_matrix_of_weights_is_summed_over_chunks_of_samples():
    n, rng = CHUNK_SIZE // 64 + 5, np.random.default_rng(0)
    features = GatedFeatures(rng.normal(size=(n, 8)), rng.integers(0, 2, (n, 8)))
    dense = features.dense()
    np.testing.assert_allclose(features.weight_gram(), dense.T @ dense, rtol=1e-9)
