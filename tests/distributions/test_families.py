"""Distributions against recorded numbers of PyTorch 2.13; samples against their own mean and variance."""

import math

import pytest
from tests.distributions.recorded_families import CASES

import rushlight as rl
import rushlight.distributions as distributions
from rushlight.distributions import constraints

IDS = [constructor for constructor, _, _ in CASES]


def made(text):
    """The value of an expression in the names of `rushlight.distributions`; T makes a float64 tensor."""
    names = {name: getattr(distributions, name) for name in distributions.__all__}

    def float64_tensor(*values):
        values = values[0] if isinstance(values[0], list) else list(values)
        return rl.tensor(values, dtype=rl.float64)

    return eval(text, {**names, "T": float64_tensor, "constraints": constraints, "rl": rl})


@pytest.mark.parametrize(("constructor", "value", "recorded"), CASES, ids=IDS)
def test_densities_and_moments_equal_pytorchs(constructor, value, recorded):
    distribution, value = made(constructor), made(value)
    for name, expected in recorded.items():
        result = getattr(distribution, name)
        if name in ("log_prob", "cdf"):
            result = result(value)
        elif name == "icdf":
            result = result(made("T(0.2, 0.7)"))
        elif name == "entropy":
            result = result()
        found = result.to(rl.float64).reshape(-1).tolist()
        assert found == pytest.approx(expected, rel=2e-9, abs=1e-9, nan_ok=True), name


@pytest.mark.generated
@pytest.mark.parametrize(("constructor", "value", "recorded"), CASES, ids=IDS)
def test_samples_have_the_moments_and_shapes_of_their_distribution(constructor, value, recorded):
    rl.manual_seed(3)
    distribution = made(constructor)
    count = 4000
    drawn = distribution.sample((count,))
    assert tuple(drawn.shape) == (count, *distribution.batch_shape, *distribution.event_shape)
    assert bool(distribution.support.check(drawn).all())
    assert tuple(distribution.expand((2, *distribution.batch_shape)).sample().shape) == (
        2,
        *distribution.batch_shape,
        *distribution.event_shape,
    )
    pairs = zip(recorded.get("mean", ()), recorded.get("variance", ()), strict=True)
    means = drawn.to(rl.float64).reshape(count, -1).mean(0).tolist()
    for mean, (expected, variance) in zip(means, pairs, strict=False):
        if math.isfinite(expected) and math.isfinite(variance):
            assert abs(mean - expected) < 5 * math.sqrt(variance / count) + 1e-12
