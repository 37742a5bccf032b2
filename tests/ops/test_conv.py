"""Convolutions and pooling."""

import numpy as np
import pytest

import rushlight as rl
from opcheck import World, check_all_gradients, check_rules, names_in, refused, smooth_in
from rushlight.ir.dtype import float32
from rushlight.ir.interpret import BufferOperand
from rushlight.ir.loops import axes_of
from rushlight.ir.scalar import Buffer
from rushlight.ir.type import TensorType
from rushlight.ops import OPERATORS
from rushlight.ops.conv import conv_nd, convolution
from rushlight.ops.pool import pool_nd, window
from rushlight.sym import axis_size

MODULES = (
    convolution,
    conv_nd,
    window,
    pool_nd,
)


@pytest.mark.parametrize("name", names_in(*MODULES))
def test_rules_agree(name):
    check_rules(name)


@pytest.mark.parametrize("name", smooth_in(*MODULES))
def test_gradients_match_differences_twice(name):
    check_all_gradients(name)


@pytest.mark.parametrize(
    ("name", "args", "code"),
    [
        ("conv2d", (np.zeros((1, 3, 2, 2)), np.zeros((4, 3, 3, 3))), "S011"),
        ("conv2d", (np.zeros((1, 3, 5, 5)), np.zeros((4, 2, 3, 3))), "S014"),
        ("conv2d", (np.zeros((3, 5)), np.zeros((4, 3, 3, 3))), "S002"),
        ("conv2d", (np.zeros((1, 3, 5, 5)), np.zeros((4, 3, 3, 3)), np.zeros(3)), "S014"),
        ("conv2d", (np.zeros((1, 3, 5, 5)), np.zeros((4, 3, 3, 3)), None, 2, "same"), "A004"),
        ("conv2d", (np.zeros((1, 3, 5, 5)), np.zeros((4, 3, 3, 3)), None, (1, 2, 3)), "A002"),
        ("max_pool2d", (np.zeros((1, 3, 2, 2)), 3), "S011"),
        ("max_pool2d", (np.zeros((1, 3, 5, 5)), 2, 2, 2), "A002"),
    ],
)
def test_bad_arguments_are_refused(name, args, code):
    world = World("decompose")
    with refused(code):
        OPERATORS[name](*[world.lift(item) if isinstance(item, np.ndarray) else item for item in args])


@pytest.mark.parametrize("by", ["ref", "lower", "decompose"])
def test_padding_never_wins_a_maximum(by):
    x = np.full((1, 1, 2, 2), -5, np.float32)
    found = OPERATORS["max_pool2d"](World(by).lift(x), 2, 1, 1)
    np.testing.assert_array_equal(found.array, np.full((1, 1, 3, 3), -5))


@pytest.mark.parametrize("by", ["ref", "lower"])
def test_the_first_of_equals_gets_the_gradient_of_a_maximum(by):
    world = World(by, tape=True)
    x = world.lift(np.zeros((1, 1, 2, 2), np.float32))
    out = OPERATORS["max_pool2d"](x, 2)
    found = world.backward([out], [world.lift(np.ones((1, 1, 1, 1), np.float32))])
    np.testing.assert_array_equal(found[id(x)].array, [[[[1, 0], [0, 0]]]])


def test_convolution_is_one_contraction_over_channels_and_kernel():
    op = OPERATORS["convolution"]
    types = (TensorType((2, 3, 5, 5), float32), TensorType((4, 3, 3, 3), float32), None)
    rule = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
    operands = [BufferOperand(Buffer("x", type_)) if type_ else None for type_ in types]
    body = op.lower_rule(axes_of(op.infer(types, rule).shape), *operands, **rule)
    assert body.op.name == "contract"
    assert [axis_size(axis) for axis in body.attr("axes")] == [3, 3, 3]
    assert [item.op.name for item in body.operands] == ["load", "load"], "no guard where there is no padding"


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize(("rule", "dtype"), [((1, 0, 1, 1), rl.float64), ((3, 2, 2, 2), rl.complex128)])
def test_gradients_of_convolutions_are_functions(dims: int, rule: tuple[int, ...], dtype: rl.dtype):
    x = rl.randn(2, 4, *(9, 8, 7)[:dims], dtype=dtype, requires_grad=True)
    w = rl.randn(6, 4 // rule[3], *(3, 2, 3)[:dims], dtype=dtype, requires_grad=True)
    y = getattr(rl.nn.functional, f"conv{dims}d")(x, w, None, *rule)
    g = rl.randn(*y.shape, dtype=dtype)
    by_input, by_weight = rl.autograd.grad(y, (x, w), g)
    assert rl.equal(getattr(rl.nn.grad, f"conv{dims}d_input")(x.shape, w, g, *rule), by_input)
    assert rl.equal(getattr(rl.nn.grad, f"conv{dims}d_weight")(x, w.shape, g, *rule), by_weight)


def test_gradients_of_convolutions_have_the_sizes_that_were_asked_for():
    w, g = rl.ones(6, 2, 3, 3), rl.ones(2, 6, 4, 4)
    for sizes in ((2, 4, 6, 6), (2, 2, 100, 6), (2, 2, 6)):
        with pytest.raises(RuntimeError):
            rl.nn.grad.conv2d_input(sizes, w, g)
    with pytest.raises(RuntimeError):
        rl.nn.grad.conv2d_weight(rl.ones(2, 2, 6, 6), (5, 2, 3, 3), g)
