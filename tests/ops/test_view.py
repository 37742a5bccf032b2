"""Views: layouts, index maps, gradients, writes."""

import numpy as np
import pytest

from opcheck import World, check_all_gradients, check_rules, names_in, refused, smooth_in
from rushlight.ir.dtype import float32
from rushlight.ir.interpret import BufferOperand
from rushlight.ir.loops import axes_of
from rushlight.ir.scalar import Buffer
from rushlight.ir.type import Layout, TensorType
from rushlight.ops import OPERATORS, split
from rushlight.ops.view import part, reorder, reshape, strided
from rushlight.sym import Scope, evaluate

MODULES = (
    reorder,
    part,
    reshape,
    split,
    strided,
)


@pytest.mark.parametrize("name", names_in(*MODULES))
def test_rules_agree(name):
    check_rules(name)


@pytest.mark.parametrize("name", smooth_in(*MODULES))
def test_gradients_match_differences_twice(name):
    check_all_gradients(name)


def layout_of(array):
    return Layout(array.shape, tuple(step // array.itemsize for step in array.strides))


@pytest.mark.parametrize(
    ("name", "attrs", "expected"),
    [
        ("transpose", {"dim0": 0, "dim1": -1}, lambda x: x.swapaxes(0, 2)),
        ("permute", {"dims": (1, 2, 0)}, lambda x: x.transpose(1, 2, 0)),
        ("unsqueeze", {"dim": 1}, lambda x: x[:, None]),
        ("squeeze", {"dim": None}, lambda x: x[:, :, :]),
        ("select", {"dim": 1, "index": -1}, lambda x: x[:, -1]),
        ("slice", {"dim": 2, "start": 1, "end": None, "step": 2}, lambda x: x[:, :, 1::2]),
        ("diagonal", {"offset": 1, "dim1": 1, "dim2": 2}, lambda x: x.diagonal(1, 1, 2)),
        ("view", {"size": (6, -1)}, lambda x: x.reshape(6, 4)),
        ("view", {"size": (2, 1, 3, 2, 2)}, lambda x: x.reshape(2, 1, 3, 2, 2)),
    ],
)
def test_layout_is_numpys(name, attrs, expected):
    base = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    layout = OPERATORS[name].view_rule(layout_of(base), **attrs)
    shown = expected(base)
    start = (shown.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // base.itemsize
    assert layout.shape == shown.shape
    assert layout.offset == start
    strides = layout_of(shown).strides
    assert [a for a, size in zip(layout.strides, shown.shape, strict=True) if size > 1] == [
        b for b, size in zip(strides, shown.shape, strict=True) if size > 1
    ]


@pytest.mark.parametrize(
    ("shape", "size", "strides"),
    [
        ((2, 3), (1, 2, 3), (6, 3, 1)),
        ((2, 3), (1, 2, 2, 3), (0, 0, 3, 1)),
        ((2, 3), (2, 1, 2, 3), (0, 6, 3, 1)),
        ((1, 3), (1, 4, 3), (0, 0, 1)),
        ((), (2, 1), (0, 0)),
        ((2, 0), (1, 1, 2, 0), (6, 6, 3, 1)),
    ],
)
def test_expand_has_the_strides_of_pytorch(shape, size, strides):
    """Those of new dims of size 1 decide how results that follow the view's layout are laid out (PyTorch 2.13)."""
    layout = Layout(shape, (3, 1)[: len(shape)])
    assert OPERATORS["expand"].view_rule(layout, size).strides == strides


def test_view_of_a_transposed_tensor_fails_and_reshape_copies():
    transposed = layout_of(np.zeros((4, 3), np.float32).T)
    with refused("S006"):
        OPERATORS["view"].view_rule(transposed, (12,))
    assert OPERATORS["reshape"].view_rule(transposed, (12,)) is None
    assert OPERATORS["view"].view_rule(transposed, (3, 2, 2)) == Layout((3, 2, 2), (1, 6, 3))


@pytest.mark.parametrize(
    ("name", "shape", "attrs", "code"),
    [
        ("transpose", (2, 3), {"dim0": 0, "dim1": 2}, "I002"),
        ("permute", (2, 3), {"dims": (0, 0)}, "I006"),
        ("permute", (2, 3), {"dims": (0,)}, "S002"),
        ("expand", (2, 3), {"size": (4, 3)}, "S008"),
        ("view", (2, 3), {"size": (4, 2)}, "S004"),
        ("reshape", (2, 3), {"shape": (-1, -1)}, "S004"),
        ("reshape", (2, 3), {"shape": (-1, 4)}, "S004"),
        ("reshape", (2, 3), {"shape": (-2, 3)}, "S007"),
        ("select", (2, 3), {"dim": 0, "index": 2}, "I001"),
        ("slice", (2, 3), {"dim": 0, "start": None, "end": None, "step": 0}, "I008"),
        ("unfold", (2, 3), {"dimension": 0, "size": 3, "step": 1}, "S011"),
        ("split", (5, 2), {"split_size_or_sections": (2, 2), "dim": 0}, "S010"),
        ("narrow", (5,), {"dim": 0, "start": 3, "length": 3}, "I001"),
    ],
)
def test_bad_arguments_are_refused(name, shape, attrs, code):
    with refused(code):
        OPERATORS[name].infer((TensorType(shape, float32),), attrs)


def lowered_index(name, sizes, **attrs):
    operand = BufferOperand(Buffer("x", TensorType(sizes, float32)))
    op = OPERATORS[name]
    at = axes_of(op.infer((operand.type,), attrs).shape)
    element = op.lower_rule(at, operand, **attrs)
    return at, [item.attr("expr") if item.op.name == "index" else item.attr("value") for item in element.operands]


def test_reshape_keeps_plain_indices_where_dims_are_untouched():
    scope = Scope()
    b, t = scope.symbol("b", hint=4), scope.symbol("t", hint=128)
    at, index = lowered_index("reshape", (b * t, 256), shape=(b, t, 4, 64))
    assert index == [t * at[0] + at[1], at[2] * 64 + at[3]]
    at, index = lowered_index("reshape", (b, t, 4, 64), shape=(b, t, 256))
    assert index == [at[0], at[1], at[2] // 64, at[2] % 64]
    at, index = lowered_index("reshape", (b, t, 256), shape=(-1, 256))
    assert index == [at[0] // t, at[0] % t, at[1]]
    assert not scope.guards


def test_slice_of_a_symbolic_size_needs_no_guard():
    scope = Scope()
    t = scope.symbol("t", hint=8)
    layout = OPERATORS["slice"].view_rule(Layout((t, 3), (3, 1)), 0, None, -1, 1)
    assert [evaluate(layout.shape[0], {t: value}) for value in (0, 1, 8)] == [0, 0, 7]
    assert not scope.guards


@pytest.mark.parametrize(
    ("name", "attrs"),
    [
        ("transpose", {"dim0": 0, "dim1": 2}),
        ("permute", {"dims": (1, 2, 0)}),
        ("unsqueeze", {"dim": 1}),
        ("select", {"dim": 1, "index": -1}),
        ("slice", {"dim": 2, "start": 1, "end": None, "step": 2}),
        ("diagonal", {"offset": 1, "dim1": 1, "dim2": 2}),
        ("view", {"size": (6, 4)}),
        ("as_strided", {"size": (2, 2), "stride": (12, 3), "storage_offset": 1}),
    ],
)
def test_inverse_writes_through_the_view(name, attrs):
    op, world = OPERATORS[name], World()
    base = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    shown = world.apply(op, (world.lift(base),), attrs)
    new = -1 - shown.array
    written = op.inverse_rule(world.lift(base), world.lift(new), **attrs)
    again = world.apply(op, (written,), attrs)
    np.testing.assert_array_equal(again.array, new)
    assert np.sum(written.array != base) == new.size


def test_split_gradient_is_one_cat():
    world = World(tape=True)
    x = world.lift(np.ones((2, 6), np.float32))
    parts = OPERATORS["split"](x, 2, 1)
    world.seen.clear()
    found = world.backward([parts[1]], [world.lift(np.full((2, 2), 3, np.float32))])
    np.testing.assert_array_equal(found[id(x)].array, [[0, 0, 3, 3, 0, 0]] * 2)
    assert "cat" in world.seen
    assert "add" not in world.seen
