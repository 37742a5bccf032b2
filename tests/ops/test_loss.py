"""Losses."""

import numpy as np
import pytest

import rushlight as rl
from opcheck import World, check_all_gradients, check_rules, names_in, refused, smooth_in
from rushlight.ops import OPERATORS
from rushlight.ops.loss import classification, elementwise
from rushlight.support.errors import ShapeError

MODULES = (
    elementwise,
    classification,
)


@pytest.mark.parametrize("name", names_in(*MODULES))
def test_rules_agree(name):
    check_rules(name)


@pytest.mark.parametrize("name", smooth_in(*MODULES))
def test_gradients_match_differences_twice(name):
    # Class weights have no gradient, in PyTorch neither.
    check_all_gradients(name, fixed=("weight",))


@pytest.mark.parametrize("name", ["nll_loss", "cross_entropy"])
def test_a_mean_over_ignored_targets_alone_is_nan_and_a_sum_zero(name):
    for by in ("ref", "decompose"):
        world = World(by)
        x, target = world.lift(np.zeros((2, 3), np.float32)), world.lift(np.array([-100, -100]))
        assert np.isnan(OPERATORS[name](x, target).array)
        assert OPERATORS[name](x, target, reduction="sum").array == 0


def test_cross_entropy_reads_the_target_from_its_input():
    world = World("lower")
    OPERATORS["cross_entropy"](world.lift(np.zeros((2, 3), np.float32)), world.lift(np.array([0, 1])))
    assert "gather" in world.seen
    assert "log_softmax" not in world.seen


def test_cross_entropy_of_large_logits_does_not_overflow():
    world = World("lower")
    x = world.lift(np.array([[1e4, 0.0], [0.0, 1e4]], np.float32))
    np.testing.assert_array_equal(
        OPERATORS["cross_entropy"](x, world.lift(np.array([0, 0])), reduction="none").array, [0, 1e4]
    )


def test_gradient_of_cross_entropy_is_softmax_less_the_target():
    world = World(tape=True)
    x = world.lift(np.zeros((1, 4), np.float32))
    found = world.backward([OPERATORS["cross_entropy"](x, world.lift(np.array([2])))], [world.lift(np.float32(1))])
    np.testing.assert_array_equal(found[id(x)].array, [[0.25, 0.25, -0.75, 0.25]])
    assert "cross_entropy_backward" in world.seen


@pytest.mark.parametrize("by", ["ref", "decompose"])
def test_kl_div_of_a_target_of_zero_is_zero(by):
    world = World(by)
    x, y = world.lift(np.ones((1, 2), np.float32)), world.lift(np.array([[0.0, 1.0]], np.float32))
    np.testing.assert_array_equal(OPERATORS["kl_div"](x, y, "none").array, [[0, -1]])


@pytest.mark.parametrize(
    ("name", "args", "code"),
    [
        ("cross_entropy", (np.zeros((2, 3), np.float32), np.zeros(3, np.int64)), "S014"),
        ("cross_entropy", (np.zeros((2, 3), np.float32), np.zeros(2, np.int64), None, -100, "total"), "A002"),
        ("cross_entropy", (np.zeros((2, 3), np.float32), np.zeros(2, np.int64), np.zeros(2, np.float32)), "S014"),
        ("cross_entropy", (np.zeros((2, 3), np.float32), np.zeros(2, np.bool_)), "D001"),
        ("nll_loss", (np.float32(0), np.int64(0)), "S002"),
        ("binary_cross_entropy", (np.zeros(2, np.float32), np.zeros(3, np.float32)), "S014"),
        ("mse_loss", (np.zeros(2, np.float32), np.zeros(3, np.float32)), "S001"),
    ],
)
def test_bad_operands_are_refused(name, args, code):
    world = World("decompose")
    with refused(code):
        OPERATORS[name](*[world.lift(item) if isinstance(item, (np.ndarray, np.generic)) else item for item in args])


@pytest.mark.parametrize("shape", [(), (1,), (3,)])
def test_class_probabilities_take_one_weight_for_each_class(shape):
    x = rl.rand(3, 4)
    with pytest.raises(ShapeError, match="one weight for each class"):
        rl.nn.functional.cross_entropy(x, x.softmax(1), weight=rl.ones(*shape))
