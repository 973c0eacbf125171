"""The random stream against torch's own, bit for bit."""

import numpy as np
import pytest
import torch

from implicit_bias._utils.stream import BLOCK, TorchStream

#: Seeds, among them some beyond 32 bits, of which torch takes the last.
SEEDS = (0, 1, 20, 2**32 + 5, 2**63 - 1)
#: Numbers of one call: pairs, whole blocks, and blocks whose end is drawn again.
COUNTS = (1, 2, 5, BLOCK - 1, BLOCK, BLOCK + 1, 31, 1003, 100_000)
#: Where the processor has no AVX2, torch itself computes logarithms and angles otherwise.
rounded_alike = pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"), reason="torch rounds otherwise here"
)


def both(seed):
    return TorchStream(seed), torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_uniform_numbers_and_permutations(seed):
    ours, theirs = both(seed)
    for count in COUNTS:
        np.testing.assert_array_equal(ours.uniform(count), torch.empty(count).uniform_(generator=theirs).numpy())
        shuffled = torch.randperm(min(count, 5000), generator=theirs).numpy()
        np.testing.assert_array_equal(ours.permutation(min(count, 5000)), shuffled)


@rounded_alike
@pytest.mark.parametrize("seed", SEEDS)
def test_normal_numbers_whatever_was_drawn_before(seed):
    """Normal numbers equal torch's after any counts, also if an odd count leaves one number for the next."""
    ours, theirs = both(seed)
    for count in (*COUNTS, 3, 100, 1):
        for deviation in (36, 9, 0.1):
            drawn = torch.empty(count).normal_(0, deviation, generator=theirs).numpy()
            np.testing.assert_array_equal(ours.normal(count, deviation), drawn)


def test_normal_numbers_are_near_whatever_torch_rounds():
    ours, theirs = both(3)
    drawn = torch.empty(1003).normal_(0, 1, generator=theirs).numpy()
    np.testing.assert_allclose(ours.normal(1003, 1.0), drawn, rtol=0, atol=1e-5)
