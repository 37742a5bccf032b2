"""Promotion, broadcasting and strides, against tables frozen from torch 2.13 (`torch_promotion.json`)."""

import json
from pathlib import Path

import pytest

from rushlight.ir.dtype import BY_NAME, float32, float64
from rushlight.ir.graph import GraphBuilder, number_dtype
from rushlight.ir.type import CPU, TensorType
from rushlight.ops.promote import broadcast, pointwise_strides, promote, promote_dtypes, promote_float, unbroadcast
from rushlight.support.errors import DTypeError, ShapeError
from rushlight.sym import Scope, eq, guard, statically_known

TABLES = json.loads((Path(__file__).parent / "torch_promotion.json").read_text())


def type_of(entry):
    if isinstance(entry, list):
        name, rank = entry
        return TensorType((2,) * rank, BY_NAME[name])
    return TensorType((), number_dtype(entry), CPU, weak=True)


def test_promote_dtypes_is_torchs_table():
    assert len(TABLES["promote_types"]) == 225
    for pair, expected in TABLES["promote_types"].items():
        a, b = [BY_NAME[name] for name in pair.split()]
        if expected is None:
            with pytest.raises(DTypeError, match="no common dtype"):
                promote_dtypes(a, b)
        else:
            assert promote_dtypes(a, b).name == expected, pair


def test_promote_ranks_dims_above_scalars_above_numbers():
    for a, b, expected in TABLES["result_type"]:
        assert promote(type_of(a), type_of(b)).name == expected, (a, b)


def test_promote_float_raises_integers_to_the_default():
    assert promote_float(type_of(["int64", 1])) is float32
    assert promote_float(type_of(["int64", 1]), type_of(["float64", 0])) is float64


@pytest.mark.parametrize("case", TABLES["strides"], ids=str)
def test_pointwise_strides_are_torchs(case):
    operands, expected = case
    types = [TensorType(tuple(shape), float32, strides=tuple(strides)) for shape, strides in operands]
    shape = broadcast(*[type_.shape for type_ in types])
    assert pointwise_strides(types, shape) == tuple(expected)


def test_strides_of_a_symbolic_transpose_follow_it():
    scope = Scope()
    rows, columns = scope.symbol("rows", hint=3), scope.symbol("columns", hint=5)
    turned = TensorType((columns, rows), float32, strides=(1, columns))
    assert pointwise_strides([turned, turned], turned.shape) == (1, columns)
    plain = TensorType((columns, rows), float32)
    assert pointwise_strides([plain, plain], plain.shape) == plain.strides


def test_broadcast_guards_relations_only():
    scope = Scope()
    a, b, one = scope.symbol("a", hint=4), scope.symbol("b", hint=4), scope.symbol("one", hint=1)
    assert broadcast((a, 3), (3,)) == (a, 3)
    assert broadcast((a, 1), (1, 5)) == (a, 5)
    assert not scope.guards
    assert broadcast((a,), (b,)) in ((a,), (b,))
    assert statically_known(eq(a, b))
    assert broadcast((a,), (one,)) == (a,)
    assert statically_known(eq(one, 1))


def test_broadcast_refuses_other_sizes():
    with pytest.raises(ShapeError, match="do not broadcast"):
        broadcast((3, 4), (2, 4))


def test_unbroadcast_sums_stretched_dims_and_casts():
    builder = GraphBuilder()
    grad = builder.parameter("g", TensorType((2, 3, 5), float64))
    like = builder.parameter("x", TensorType((3, 1), float32))
    found = unbroadcast(grad, like)
    assert found.shape == (3, 1)
    assert found.dtype is float32
    assert [call.op.name for call in builder.calls] == ["sum_repeated", "reshape", "to_dtype"]
    assert unbroadcast(grad, 2.5) is None


def test_unbroadcast_sees_guarded_ones():
    scope = Scope()
    size, one = scope.symbol("n", hint=4), scope.symbol("one", hint=1)
    assert guard(eq(one, 1))
    builder = GraphBuilder()
    grad = builder.parameter("g", TensorType((size,), float32))
    like = builder.parameter("x", TensorType((one,), float32))
    assert statically_known(eq(unbroadcast(grad, like).shape[0], 1))
