"""What users of other systems ran into with sizes that vary: one trace serves, and shapes come back right."""

import numpy as np
import pytest

import rushlight as rl
from rushlight.capture.api import explain_entries


def array(*shape):
    return rl.from_numpy(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))


def one_trace(function, *calls):
    """The compiled function on each call's arguments, equal to eager; one trace for all."""
    compiled = rl.compile(function)
    for args in calls:
        found, wanted = compiled(*args), function(*args)
        assert tuple(found.shape) == tuple(wanted.shape)
        np.testing.assert_array_equal(found.numpy(), wanted.numpy())
    assert len(explain_entries(compiled)) == 1


@pytest.mark.thread("tinygrad#5360")
def test_a_sum_with_a_number_has_the_shape_of_each_call():
    one_trace(lambda t: t + 1, *[(array(n),) for n in (3, 1, 0, 7)])


@pytest.mark.thread("tinygrad#11852")
def test_a_flattened_transpose_has_the_shape_of_each_call():
    one_trace(lambda a: (a + 1).T.flatten(), *[(array(*shape),) for shape in ((3, 4), (5, 2), (2, 7))])


@pytest.mark.thread("mlx#2596")
@pytest.mark.thread("mlx#2599")
@pytest.mark.parametrize("function", [rl.abs, rl.zeros_like], ids=["abs", "zeros_like"])
def test_a_function_compiled_for_a_scalar_serves_other_ranks_by_traces_of_their_own(function):
    compiled = rl.compile(lambda x: function(x))
    for shape in ((), (3,), (2, 5), (4, 1, 2), ()):
        x = array(*shape) - 2.0
        found = compiled(x)
        assert tuple(found.shape) == shape
        np.testing.assert_array_equal(found.numpy(), function(x).numpy())


@pytest.mark.thread("jax#2521")
@pytest.mark.thread("jax#38584")
@pytest.mark.thread("jax#5144")
def test_a_sweep_of_shapes_is_one_compilation():
    one_trace(lambda x: (x @ x.mT).softmax(-1).sum(0), *[(array(n, n + 2),) for n in range(2, 12)])
