"""Normalisation layers."""

import numpy as np
import pytest

from opcheck import World, check_all_gradients, check_rules, names_in, refused, smooth_in
from rushlight.ops import OPERATORS, norm

MODULES = (norm,)


@pytest.mark.parametrize("name", names_in(*MODULES))
def test_rules_agree(name):
    check_rules(name)


@pytest.mark.parametrize("name", smooth_in(*MODULES))
def test_gradients_match_differences_twice(name):
    check_all_gradients(name)


def test_running_statistics_are_results_and_have_no_gradient():
    world = World(tape=True)
    x = world.lift(np.array([[1.0], [3.0]], np.float32))
    zeros, ones = world.lift(np.zeros(1, np.float32)), world.lift(np.ones(1, np.float32))
    _, mean, var = OPERATORS["batch_norm"](x, zeros, ones, training=True, momentum=0.5)
    np.testing.assert_array_equal(mean.array, [1.0])
    np.testing.assert_array_equal(var.array, [1.5])
    assert not world.is_differentiable(mean)
    assert not world.is_differentiable(var)
    np.testing.assert_array_equal(zeros.array, [0])


@pytest.mark.parametrize(
    ("name", "args", "code"),
    [
        ("layer_norm", ((3, 5), (4,)), "S014"),
        ("rms_norm", ((3, 5), (3, 5, 1)), "S014"),
        ("group_norm", ((3, 5), 2), "A002"),
        ("batch_norm", ((3,), None, None), "S002"),
        ("batch_norm", ((3, 5), None, None), "A004"),
        ("instance_norm", ((3, 5),), "S002"),
    ],
)
def test_bad_arguments_are_refused(name, args, code):
    shape, *rest = args
    with refused(code):
        OPERATORS[name](World("decompose").lift(np.zeros(shape, np.float32)), *rest)


def test_layer_norm_of_many_equal_numbers_is_exact():
    x = np.full((1, 512), 1000.1, np.float32)
    found = OPERATORS["layer_norm"](World("decompose").lift(x), (512,))
    assert np.max(np.abs(found.array)) < 0.05
