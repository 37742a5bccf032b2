"""nn.init: the distributions' moments and bounds, and what cannot be initialised."""

import math

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import init
from rushlight.support.errors import forget_warnings


def drawn(fill, *shape):
    rl.manual_seed(1)
    tensor = rl.empty(*shape)
    assert fill(tensor) is tensor
    return tensor.numpy()


@pytest.mark.parametrize(
    ("fill", "std", "bound"),
    [
        (lambda t: init.uniform_(t, -1, 3), 4 / math.sqrt(12), None),
        (lambda t: init.normal_(t, 1.0, 2.0), 2.0, None),
        (init.xavier_uniform_, math.sqrt(2 / 300), math.sqrt(6 / 300)),
        (lambda t: init.xavier_normal_(t, gain=2.0), 2 * math.sqrt(2 / 300), None),
        (lambda t: init.kaiming_uniform_(t, nonlinearity="relu"), math.sqrt(2 / 200), math.sqrt(6 / 200)),
        (lambda t: init.kaiming_normal_(t, mode="fan_out", nonlinearity="tanh"), 5 / 3 / math.sqrt(100), None),
        (lambda t: init.trunc_normal_(t, std=1.0, a=-1.0, b=1.0), 0.5396, 1.0),
    ],
)
def test_distribution_has_its_spread(fill, std, bound):
    array = drawn(fill, 100, 200)
    assert array.std() == pytest.approx(std, rel=0.03)
    if bound is not None:
        assert np.abs(array).max() <= bound * (1 + 1e-6)


def test_constant_values():
    assert (drawn(lambda t: init.constant_(t, 2.5), 3) == 2.5).all()
    assert (drawn(init.ones_, 3) == 1).all() and (drawn(init.zeros_, 3) == 0).all()
    np.testing.assert_array_equal(drawn(init.eye_, 3, 4), np.eye(3, 4))


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (4, 2, 3)])
def test_orthogonal_rows_or_columns(shape):
    array = drawn(lambda t: init.orthogonal_(t, gain=2.0), *shape).reshape(shape[0], -1)
    product = array @ array.T if array.shape[0] <= array.shape[1] else array.T @ array
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)


def test_same_seed_same_layer():
    rl.manual_seed(3)
    first = nn.Linear(4, 4).weight.detach().numpy().copy()
    second = nn.Linear(4, 4).weight.detach().numpy().copy()
    rl.manual_seed(3)
    np.testing.assert_array_equal(nn.Linear(4, 4).weight.detach().numpy(), first)
    assert not np.array_equal(first, second)
    generator = rl.Generator(5)
    a = init.normal_(rl.empty(4), generator=generator).numpy().copy()
    np.testing.assert_array_equal(init.normal_(rl.empty(4), generator=rl.Generator(5)).numpy(), a)


def test_parameters_are_initialised_outside_autograd():
    layer = nn.Linear(2, 2)
    init.normal_(layer.weight)
    assert layer.weight.is_leaf and layer.weight.grad_fn is None


def test_mistakes_are_named():
    with pytest.raises(ValueError, match="fewer than 2 dimensions"):
        init.xavier_uniform_(rl.empty(3))
    with pytest.raises(ValueError, match="Unsupported nonlinearity swish"):
        init.calculate_gain("swish")
    with pytest.raises(ValueError, match="Mode sideways not supported"):
        init.kaiming_uniform_(rl.empty(3, 3), mode="sideways")
    with pytest.raises(ValueError, match="almost no value"):
        init.trunc_normal_(rl.empty(3), a=10.0, b=11.0)
    assert init.calculate_gain("leaky_relu", 1.0) == 1.0 and init.calculate_gain("tanh") == 5 / 3


def test_dirac_passes_channels_on():
    weight = init.dirac_(rl.ones(4, 3, 3), groups=2)
    x = rl.randn(2, 6, 5)
    passed = nn.functional.conv1d(x, weight, padding=1, groups=2)
    assert bool((passed == x[:, [0, 1, 3, 4]]).all())
    with pytest.raises(ValueError, match="divisible by groups"):
        init.dirac_(rl.ones(3, 3, 3), groups=2)


def test_sparse_has_zeros_in_each_column():
    filled = drawn(lambda t: init.sparse_(t, 0.3, std=2.0), 50, 20)
    assert ((filled == 0).sum(0) == 15).all()
    assert 1.7 < filled[filled != 0].std() < 2.3


def test_old_names_do_the_same_and_warn():
    forget_warnings()
    with pytest.warns(FutureWarning, match=r"call nn.init.uniform_"):
        array = drawn(lambda tensor: init.uniform(tensor, 2, 3), 4)
    assert (array == drawn(lambda tensor: init.uniform_(tensor, 2, 3), 4)).all()
    assert init.uniform.__name__ == "uniform"
