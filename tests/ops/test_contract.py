"""Matrix products, einsum and attention."""

import ml_dtypes
import numpy as np
import pytest

import rushlight as rl
from opcheck import World, check_all_gradients, check_rules, names_in, refused, smooth_in
from rushlight.ir.dtype import float32
from rushlight.ir.interpret import BufferOperand
from rushlight.ir.loops import axes_of
from rushlight.ir.scalar import BLOCKED, LANES, Buffer
from rushlight.ir.type import TensorType
from rushlight.ops import OPERATORS
from rushlight.ops.contract import attention, einsum, matmul
from rushlight.support.errors import RushlightError

MODULES = (
    attention,
    matmul,
    einsum,
)


@pytest.mark.parametrize("name", names_in(*MODULES))
def test_rules_agree(name):
    check_rules(name)


@pytest.mark.parametrize("name", smooth_in(*MODULES))
def test_gradients_match_differences_twice(name):
    check_all_gradients(name)


def order_of(name, *shapes):
    op = OPERATORS[name]
    types = [TensorType(shape, float32) for shape in shapes]
    operands = [BufferOperand(Buffer("x", type_)) for type_ in types]
    named = op.named((*operands, *[None] * (len(op.schema.operands) - len(operands))), {})
    out = op.infer((*types, *[None] * (len(op.schema.operands) - len(types))), {})
    return op.lower_rule(axes_of(out.shape), **named)


@pytest.mark.parametrize(
    ("shapes", "order"),
    [
        (((5,), (5,)), LANES),
        (((3, 5), (5,)), LANES),
        (((2, 3, 5), (5,)), LANES),
        (((5,), (5, 4)), BLOCKED),
        (((3, 5), (5, 4)), BLOCKED),
    ],
)
def test_products_with_a_column_are_lanes_others_blocked(shapes, order):
    found = order_of("matmul", *shapes)
    assert found.op.name == "contract"
    assert found.attr("order") == order


def test_matmul_is_a_plain_contraction():
    found = order_of("matmul", (2, 3, 5), (5, 4))
    (k,) = found.attr("axes")
    left, right = found.operands
    assert [item.op.name for item in (left, right)] == ["load", "load"]
    assert left.operands[-1].attr("expr") is k
    assert right.operands[0].attr("expr") is k


def test_bfloat16_products_are_summed_in_float32():
    a = np.full((1, 1000), 1.0, ml_dtypes.bfloat16)
    world = World("lower")
    assert float(OPERATORS["linear"](world.lift(a), world.lift(a)).array[0, 0]) == 1000.0


def test_gradient_of_a_shared_weight_is_one_product():
    world = World(tape=True)
    x, weight = world.lift(np.ones((2, 3, 4), np.float32)), world.lift(np.ones((4, 5), np.float32))
    out = OPERATORS["matmul"](x, weight)
    world.seen.clear()
    found = world.backward([out], [world.lift(np.ones((2, 3, 5), np.float32))])
    np.testing.assert_array_equal(found[id(weight)].array, np.full((4, 5), 6))
    assert "sum" not in world.seen


@pytest.mark.parametrize(
    ("name", "shapes", "code"),
    [
        ("matmul", ((8, 16), (32, 4)), "S003"),
        ("matmul", ((), (3,)), "S002"),
        ("matmul", ((2, 3, 4), (3, 4, 5)), "S001"),
        ("linear", ((3, 5), (4, 6)), "S003"),
        ("linear", ((3, 5), (4, 5), (3,)), "S014"),
        ("bmm", ((2, 3, 4), (3, 4, 5)), "S014"),
        ("mm", ((2, 3, 4), (4, 5)), "S002"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(name, shapes, code):
    world = World("decompose")
    with refused(code):
        OPERATORS[name](*[world.lift(np.zeros(shape, np.float32)) for shape in shapes])


def test_dtypes_must_agree():
    world = World()
    with refused("D002"):
        OPERATORS["matmul"](world.lift(np.zeros((2, 2), np.float32)), world.lift(np.zeros((2, 2))))


@pytest.mark.parametrize("equation", ["ij,jk->iz", "ij,jk->ikk", "ijk,jk->i", "ij->ij"])
def test_einsum_refuses_what_it_cannot_read(equation):
    world = World("decompose")
    with pytest.raises(RushlightError, match="einsum"):
        OPERATORS["einsum"](
            equation, [world.lift(np.ones((2, 2), np.float32)), world.lift(np.ones((2, 2), np.float32))]
        )


def test_attention_refuses_a_mask_beside_is_causal():
    world = World("decompose")
    x = world.lift(np.ones((1, 2, 3), np.float32))
    with refused("A004"):
        OPERATORS["scaled_dot_product_attention"](x, x, x, x, 0.0, True)


@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float16])
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_of_16_bits_rounds_its_result_alone(dtype, is_causal):
    """Large scores: rounded to 16 bits they would be off by so much that weights are."""
    rl.manual_seed(0)
    q, k, v = ((rl.randn(4, 6, 8) * scale).to(dtype) for scale in (9, 9, 5))
    found = rl.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=is_causal)
    exact = rl.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=is_causal)
    assert found.dtype is dtype
    unit = 2.0**-8 if dtype is rl.bfloat16 else 2.0**-11
    assert ((found.double() - exact).abs() <= unit * exact.abs() + 1e-4).all()
