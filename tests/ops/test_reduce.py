"""Reductions: sums, extremes, moments, softmax."""

import ml_dtypes
import numpy as np
import pytest

import rushlight as rl
from opcheck import World, check_all_gradients, check_gradients, check_rules, names_in, refused, samples_of, smooth_in
from rushlight.ir.dtype import bfloat16, float32, float64
from rushlight.ir.interpret import BufferOperand, evaluate, interpret
from rushlight.ir.loops import axes_of
from rushlight.ir.scalar import COLUMNS, LANES, Buffer
from rushlight.ir.type import TensorType
from rushlight.ops import OPERATORS, Sample
from rushlight.ops.reduce import minmax, moment, reduction, scan, softmax
from rushlight.support.errors import RushlightError
from rushlight.sym import Scope

MODULES = (
    minmax,
    moment,
    reduction,
    softmax,
)


@pytest.mark.parametrize("name", names_in(*MODULES))
def test_rules_agree(name):
    check_rules(name)


@pytest.mark.parametrize("name", smooth_in(*MODULES))
def test_gradients_match_differences_twice(name):
    check_all_gradients(name)


def lowered(name, shape, dtype=float32, **kwargs):
    op = OPERATORS[name]
    type_ = TensorType(shape, dtype)
    _, attrs = op.bind((None,), kwargs)
    out = op.infer((type_,), attrs)
    return op.lower_rule(axes_of(out.shape), BufferOperand(Buffer("x", type_)), **attrs)


@pytest.mark.parametrize(
    ("dim", "order"), [(None, LANES), (-1, LANES), (0, COLUMNS), ((0, 2), LANES), ((0, 1), COLUMNS)]
)
def test_order_is_lanes_where_the_last_dim_is_reduced(dim, order):
    total = lowered("sum", (2, 3, 4), dim=dim).operands[0]
    assert total.attr("order") == order
    assert total.type is float64


def test_bfloat16_is_summed_in_float32_and_rounded_once():
    total = lowered("sum", (2, 3), bfloat16, dim=1)
    assert total.op.name == "cast"
    assert total.type is bfloat16
    assert total.operands[0].type is float32
    values = np.full((1, 1000), 1.0, ml_dtypes.bfloat16)
    world = World("lower")
    assert float(OPERATORS["sum"](world.lift(values), 1).array[0]) == 1000.0


def test_integers_are_summed_as_int64():
    world = World("lower")
    assert OPERATORS["sum"](world.lift(np.full(9, 100, np.uint8))).array == 900
    assert OPERATORS["sum"](world.lift(np.ones(9, np.bool_))).array.dtype == np.int64


@pytest.mark.parametrize("name", ["amax", "amin", "argmax", "argmin"])
def test_no_elements_have_no_extreme(name):
    with refused("I007"):
        OPERATORS[name].infer((TensorType((2, 0), float32),), {"dim": 1, "keepdim": False})


@pytest.mark.parametrize("by", ["ref", "lower"])
def test_nan_is_the_extreme_and_its_place(by):
    x = np.array([[1.0, np.nan, 3.0, np.nan], [2.0, 5.0, 5.0, 1.0]], np.float32)
    world = World(by)
    assert np.isnan(OPERATORS["amax"](world.lift(x), 1).array[0])
    np.testing.assert_array_equal(OPERATORS["argmax"](world.lift(x), 1).array, [1, 1])
    np.testing.assert_array_equal(OPERATORS["argmin"](world.lift(x), 1).array, [1, 3])


def test_ties_share_the_gradient_of_amax_and_the_first_gets_that_of_max_along_a_dim():
    x = np.array([1.0, 5.0, 5.0], np.float32)
    for name, expected in (("amax", [0, 0.5, 0.5]), ("max.dim", [0, 1, 0])):
        world = World(tape=True)
        leaf = world.lift(x)
        out = OPERATORS[name](leaf, 0)
        out = out[0] if isinstance(out, tuple) else out
        found = world.backward([out], [world.lift(np.array(1.0, np.float32))])
        np.testing.assert_array_equal(found[id(leaf)].array, expected)


@pytest.mark.parametrize(("x", "expected"), [([2.0, 0.0, 3.0], [0, 6, 0]), ([0.0, 0.0, 3.0], [0, 0, 0])])
def test_gradient_of_prod_with_zeros(x, expected):
    world = World(tape=True)
    leaf = world.lift(np.array(x, np.float32))
    found = world.backward([OPERATORS["prod"](leaf)], [world.lift(np.array(1.0, np.float32))])
    np.testing.assert_array_equal(found[id(leaf)].array, expected)


def test_mean_of_no_elements_is_nan():
    assert np.isnan(OPERATORS["mean"](World("lower").lift(np.zeros((2, 0), np.float32)), 1).array).all()


def test_mean_over_a_symbolic_size_divides_by_it():
    scope = Scope()
    n = scope.symbol("n", hint=4)
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    types = [TensorType((n, 3), float32)]
    attrs = {"dim": 0, "keepdim": False, "dtype": None}
    found = interpret(OPERATORS["mean"].lower_rule, types, [x], TensorType((3,), float32), attrs, {n: 4})
    np.testing.assert_array_equal(found, x.mean(0))


@pytest.mark.parametrize("name", [name for name in names_in(scan) if OPERATORS[name].lower_rule is not None])
def test_prefix_at_each_index_is_the_reference(name):
    for _, sample in samples_of(OPERATORS[name]):
        operands, attrs, meaning = World("ref").run(OPERATORS[name], sample)
        buffer = Buffer("x", operands[0].type)
        for at in np.ndindex(*meaning.shape):
            body = OPERATORS[name].lower_rule(at, BufferOperand(buffer), **attrs)
            found = evaluate(body, (), {buffer: operands[0].array})
            np.testing.assert_allclose(found, meaning.array[at], rtol=1e-5)


@pytest.mark.parametrize("name", smooth_in(scan))
def test_gradients_of_prefixes_match_differences(name):
    check_all_gradients(name)


def test_gradient_of_cumprod_with_zeros():
    op = OPERATORS["cumprod"]
    check_gradients(op, Sample(np.array([1.5, 2.0, 0.0, 3.0, 0.5, 0.0, 2.0], np.float32), 0))


def test_hashes_are_pytorchs():
    """Numbers that PyTorch 2.13 gave."""
    x = rl.tensor([[1.5, -2, 3], [0, -0.0, float("nan")]])
    assert rl.hash_tensor(x).item() == 4613937818241073152
    assert rl.hash_tensor(x, 0).tolist() == [4609434218613702656, 4611686018427387904, 4607182418800017408]
    assert x.hash_tensor((0, 1), keepdim=True).tolist() == [[4613937818241073152]]
    assert rl.hash_tensor(x.bfloat16()).item() == 4613937818241073152
    assert rl.hash_tensor(rl.tensor([-1, 2], dtype=rl.int8)).item() == 18446744073709551613
    assert rl.hash_tensor(rl.tensor([True, True, True])).item() == 1
    assert rl.compile(rl.hash_tensor, fullgraph=True)(x.double().flip(0)).item() == 4613937818241073152
    with pytest.raises(RushlightError, match="the only mode is 0"):
        rl.hash_tensor(x, mode=1)
    with pytest.raises(RushlightError, match="no element to choose from"):
        rl.hash_tensor(x[:0])


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_])
def test_logsumexp_of_integers_and_bools_is_a_float(dtype):
    x = np.array([[1, 0, 1], [0, 0, 1]], dtype)
    result = OPERATORS["logsumexp"](World("lower").lift(x), 1).array
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, np.log(np.exp(x.astype(np.float64)).sum(1)), rtol=1e-6)


@pytest.mark.parametrize("by", ["ref", "lower", "decompose"])
def test_logsumexp_of_infinities(by):
    x = np.array([[-np.inf, -np.inf], [np.inf, 0.0]], np.float32)
    np.testing.assert_array_equal(OPERATORS["logsumexp"](World(by).lift(x), 1).array, [-np.inf, np.inf])


def test_norm_of_zeros_has_gradient_zero():
    world = World(tape=True)
    leaf = world.lift(np.zeros(3, np.float32))
    found = world.backward([OPERATORS["norm"](leaf)], [world.lift(np.array(1.0, np.float32))])
    np.testing.assert_array_equal(found[id(leaf)].array, [0, 0, 0])


@pytest.mark.parametrize(
    ("name", "args", "code"),
    [("sum", ((0, 0),), "I006"), ("sum", (5,), "I002"), ("softmax", (2,), "I002")],
)
def test_bad_dims_are_refused(name, args, code):
    with refused(code):
        OPERATORS[name](World().lift(np.zeros((2, 3), np.float32)), *args)
