"""Patterns on a ring: what is drawn has the exact moments, two classes in balance, and bad input is refused."""

from dataclasses import replace

import numpy as np
import pytest

from implicit_bias.extensions.gated_flow import RingProcess, SinglePulse, nonlinear_gaussian_process
from tests.cases import refusals

DRAWS = 60_000
FAMILIES = [
    nonlinear_gaussian_process(n=11, length_scales=(1.5, 0.5), gain=0.05),
    nonlinear_gaussian_process(n=12, length_scales=(1.5, 0.5), gain=3.0, labels=(1.0, 0.0)),
    nonlinear_gaussian_process(n=12, length_scales=(1.5, 0.5), gain=100.0).clone(),
    RingProcess([[4.0, 1.0, 0.0, 1.0], [0.0, 1.0, 2.0, 1.0]]),
    SinglePulse(n=12, lengths=((3, 5), (9, 12))),
    SinglePulse(n=12, lengths=(1, (9, 12)), signs=True),
    SinglePulse(n=7, lengths=(3, 2), flip=True),
    SinglePulse(n=7, lengths=(3, 2), signs=True, flip=True, labels=(0.0, 5.0)),
]


@pytest.mark.parametrize("family", FAMILIES, ids=range(len(FAMILIES)))
def test_classes_that_are_not_balanced_are_drawn_one_by_one(family):
    """The number of samples of a class is binomial (variance 12.5 in chunks of 50), and constant if balanced."""
    counts = {
        balanced: [np.sum(y == family.labels[0]) for _, y in replace(family, balanced=balanced).stream(200, 50)]
        for balanced in (True, False)
    }
    assert set(counts[True]) == {25}
    assert np.mean(counts[False]) == pytest.approx(25, abs=1)
    assert 8 < np.var(counts[False]) < 18


@pytest.mark.parametrize("family", FAMILIES, ids=range(len(FAMILIES)))
def test_samples_have_the_moments_that_are_stated(family):
    X, y = family.sample(DRAWS, seed=1)
    assert X.shape == (DRAWS, family.n)
    for which, label in enumerate(family.labels):
        part = X[y == label]
        assert len(part) == DRAWS // 2
        mean = family.mean(which) if isinstance(family, SinglePulse) else 0.0
        second = family.second_moment(which) if isinstance(family, SinglePulse) else family.covariance(which)
        spread = np.sqrt(len(part))
        np.testing.assert_allclose(part.mean(axis=0), mean, atol=5 * part.std() / spread)
        error = (part**2).T @ part**2 / len(part) - second**2
        np.testing.assert_allclose(part.T @ part / len(part), second, atol=5 * np.sqrt(error.max()) / spread)


def test_the_nonlinear_process_is_erf_of_a_gaussian_with_its_exact_normaliser():
    process = nonlinear_gaussian_process(n=40, length_scales=(5.0, 1.0), gain=3.0)
    distance = np.minimum(np.arange(40), 40 - np.arange(40))
    for which, scale in enumerate((5.0, 1.0)):
        np.testing.assert_allclose(process.latent(which)[0], np.exp(-((distance / scale) ** 2)), atol=1e-6)
        np.testing.assert_allclose(np.diag(process.covariance(which)), 1.0, rtol=1e-12)
    assert process.normaliser**2 == pytest.approx(2 / np.pi * np.arcsin(18 / 19), rel=1e-14)
    with_root_two = 2 / np.pi * np.arcsin(9 / 10)
    assert abs(process.normaliser**2 - with_root_two) > 0.05


@pytest.mark.parametrize("gain", [1e-6, 1e6])
def test_the_ends_of_the_gain_are_gaussian_and_signs(gain):
    process = nonlinear_gaussian_process(gain=gain)
    X, _ = process.sample(100)
    C = process.latent(0)
    if gain < 1:
        np.testing.assert_allclose(process.covariance(0), C, atol=1e-9)
    else:
        np.testing.assert_allclose(process.covariance(0), 2 / np.pi * np.arcsin(np.minimum(C, 1.0)), atol=1e-5)
        assert np.mean(abs(abs(X) - 1) < 1e-3) > 0.99


def test_the_clone_is_gaussian_of_equal_covariance():
    process = nonlinear_gaussian_process(gain=100.0)
    clone = process.clone()
    for which in (0, 1):
        np.testing.assert_allclose(clone.covariance(which), process.covariance(which), atol=1e-12)
    fourth = [np.mean(family.sample(5000)[0] ** 4) for family in (process, clone)]
    assert fourth[0] == pytest.approx(1.0, abs=0.02)
    assert fourth[1] == pytest.approx(3.0, abs=0.2)


@pytest.mark.parametrize("family", FAMILIES[1::3], ids=range(len(FAMILIES[1::3])))
def test_draws_repeat_and_streams_are_balanced(family):
    for first, second in zip(family.sample(50, seed=3), family.sample(50, seed=3), strict=True):
        np.testing.assert_array_equal(first, second)
    assert (family.sample(50, seed=3)[0] != family.sample(50, seed=4)[0]).any()
    chunks = [list(family.stream(chunks=3, size=11, seed=3)) for _ in range(2)]
    assert [X.shape for X, _ in chunks[0]] == [(11, family.n)] * 3
    for (X, y), (again, _) in zip(*chunks, strict=True):
        np.testing.assert_array_equal(X, again)
        assert abs(np.mean(y == family.labels[0]) - 0.5) < 0.05
    assert (chunks[0][0][0] != chunks[0][1][0]).any()


def test_small_integers_do_not_overflow():
    short, long = SinglePulse(n=np.int8(100), lengths=(np.int8(90), 2)), SinglePulse(n=100, lengths=(90, 2))
    assert short.mean(0) == long.mean(0) == 0.9
    np.testing.assert_array_equal(short.second_moment(0), long.second_moment(0))
    np.testing.assert_array_equal(short.sample(np.int8(127))[0], long.sample(127)[0])


test_what_is_no_pattern_is_refused = refusals(
    (lambda: nonlinear_gaussian_process(length_scales=(5.0, 0.0)), "two positive numbers"),
    (lambda: nonlinear_gaussian_process(length_scales=(5.0,)), "two positive numbers"),
    (lambda: nonlinear_gaussian_process(length_scales=5.0), "two positive numbers, one per class, not 5.0"),
    (lambda: nonlinear_gaussian_process(length_scales=(12.0, 1.0)), "of 12; take them at most n/7 = 5.71"),
    (lambda: nonlinear_gaussian_process(labels=1.0), "labels must be two different numbers"),
    (lambda: nonlinear_gaussian_process(gain=0.0), "gain must be a positive number"),
    (lambda: nonlinear_gaussian_process(gain=1e9), "gain must lie between"),
    (lambda: nonlinear_gaussian_process(gain=None), "gain must be a positive number"),
    (lambda: nonlinear_gaussian_process(n=1), "n must be a whole number of at least 2"),
    (lambda: nonlinear_gaussian_process(labels=(1.0, 1.0)), "two different numbers"),
    (lambda: RingProcess([[1.0, -1.0], [1.0, 1.0]]), "none negative"),
    (lambda: RingProcess([[1.0, 2.0, 3.0], [1.0, 1.0, 1.0]]), "must be symmetric"),
    (lambda: RingProcess([[1.0, 2.0, 2.0]]), "2 rows"),
    (lambda: RingProcess([[2.0, 2.0], [1.0, 1.0]], gain=1.0), "latent variance must be 1"),
    (lambda: RingProcess([[1.0, 1.0], [1.0, 1.0]]).covariance(2), "numbered 0 and 1"),
    (lambda: SinglePulse(lengths=(0, 3)), "a length must be a whole number"),
    (lambda: SinglePulse(lengths=((5, 3), 3)), "lengths must rise"),
    (lambda: SinglePulse(lengths=(41, 3)), "at most n = 40"),
    (lambda: SinglePulse(lengths=(3,)), "two ranges"),
    (lambda: SinglePulse(lengths=((1, 2, 3), 3)), "a pair of the least and the largest"),
    (lambda: SinglePulse(balanced=0.5), "balanced must be True or False, not 0.5"),
    (lambda: SinglePulse().sample(0), "m must be a whole number"),
    (lambda: SinglePulse().stream(1, 0), "size must be a whole number"),
    (lambda: nonlinear_gaussian_process(length_scales=(5.0, -1.0)), "two positive numbers"),
    (lambda: SinglePulse(labels=(1e300, 0.0)), "rescale them"),
    (lambda: RingProcess([[1e308] * 4] * 2), "rescale them"),
    (lambda: RingProcess([[5e-324] * 4] * 2), "rescale them"),
    (lambda: RingProcess([[1.0] * 10**5] * 2).covariance(0), "use fewer"),
    (lambda: SinglePulse(n=10**30), "use fewer"),
    (lambda: SinglePulse(n=10**6).second_moment(0), "use fewer"),
)
