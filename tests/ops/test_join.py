"""Tensors put together and rearranged."""

import numpy as np
import pytest

import rushlight as rl
from opcheck import World, check_all_gradients, check_rules, names_in, refused, smooth_in
from rushlight.build.pipeline import run_passes
from rushlight.ir.dtype import float32
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.interpret import BufferOperand
from rushlight.ir.loops import axes_of
from rushlight.ir.scalar import Buffer
from rushlight.ir.type import TensorType
from rushlight.ops import OPERATORS, join
from rushlight.runtime.llvm import baseline_target
from rushlight.sym import Scope

MODULES = (join,)


@pytest.mark.parametrize("name", names_in(*MODULES))
def test_rules_agree(name):
    check_rules(name)


@pytest.mark.parametrize("name", smooth_in(*MODULES))
def test_gradients_match_differences_twice(name):
    check_all_gradients(name)


def test_cat_promotes_dtypes():
    world = World("lower")
    found = OPERATORS["cat"]([world.lift(np.ones(2, np.int32)), world.lift(np.ones(1, np.float32))])
    np.testing.assert_array_equal(found.array, np.ones(3, np.float32))
    assert found.array.dtype == np.float32


def test_cat_gives_gradients_to_what_takes_no_part():
    """PyTorch joins 1-d tensors of no elements to anything; their gradients have no elements either."""

    def joined(*tensors):
        return rl.cat(tensors, 1) * 2.0

    for run in (joined, rl.compile(joined)):
        tensors = [rl.ones(*shape, requires_grad=True) for shape in [(0,), (2, 3), (0,), (2, 1)]]
        run(*tensors).sum().backward()
        assert [tensor.grad.shape for tensor in tensors] == [tensor.shape for tensor in tensors]
        assert [tensor.grad.sum().item() for tensor in tensors] == [0.0, 12.0, 0.0, 4.0]


def test_repeat_reads_by_remainder():
    scope = Scope()
    n = scope.symbol("n", hint=3)
    x = BufferOperand(Buffer("x", TensorType((n,), float32)))
    at = axes_of((4, n))
    assert OPERATORS["expand"].lower_rule(at, x, (4, n)).operands[0].attr("expr") is at[1]
    flat = axes_of((4 * n,))
    wide = BufferOperand(Buffer("y", TensorType((4, n), float32)))
    loaded = OPERATORS["reshape"].lower_rule(flat, wide, (4 * n,))
    assert loaded.operands[1].attr("expr") == flat[0] % n


@pytest.mark.parametrize(
    ("name", "shapes", "args", "code"),
    [
        ("cat", ((2, 3), (2, 4)), (0,), "S005"),
        ("cat", ((), ()), (0,), "S002"),
        ("cat", ((2, 3),), (2,), "I002"),
        ("cat", (), (0,), "A002"),
        ("stack", ((2, 3), (2, 4)), (0,), "S005"),
    ],
)
def test_tensors_that_cannot_be_joined_are_refused(name, shapes, args, code):
    world = World("decompose")
    tensors = tuple(world.lift(np.zeros(shape, np.float32)) for shape in shapes)
    with refused(code):
        world.apply(OPERATORS[name], (tensors,), {"dim": args[0]})


@pytest.mark.parametrize(
    ("name", "args", "code"),
    [
        ("pad", ((1,),), "A002"),
        ("pad", ((-2, -2),), "S007"),
        ("pad", ((1, 1), "mirror"), "A002"),
        ("pad", ((1, 1), "constant", 1e39), "D007"),
        ("flip", ((0, 0),), "I006"),
        ("tril", (), "S002"),
        ("roll", ((1, 2), (0,)), "A004"),
        ("repeat", ((),), "A002"),
    ],
)
def test_bad_arguments_are_refused(name, args, code):
    with refused(code):
        OPERATORS[name](World("decompose").lift(np.zeros(3, np.float32)), *args)


@pytest.mark.parametrize("sides", [(0, 3), (3, 0), (3, 3), (-1, 2), (1, -2)], ids=str)
def test_wrapped_padding_goes_once_around(sides):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    left = x[:, max(-sides[0], 0) : 3 + min(sides[1], 0)]  # what is cut off is not there to wrap around to
    places = range(-max(sides[0], 0), left.shape[1] + max(sides[1], 0))
    wanted = np.take(left, places, 1, mode="wrap")
    for padded in (OPERATORS["pad"], rl.compile(rl.nn.functional.pad)):
        found = padded(rl.tensor(x), sides, "circular")
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_wrapped_padding_divides_nothing():
    text = (
        'step(%x: f32[s0]) {\n  size s0 = 9\n  %0 = pad(%x) {pad=[2, 1], mode="circular"} : f32[s0 + 3]\n  return %0\n}'
    )
    graph = run_passes(parse_graph(text, OPERATORS), baseline_target(), until="02-merged.ir")
    names = {call.op.name for call in graph.calls}
    assert "index_select" in names
    assert not names & {"remainder", "floor_divide", "div"}
