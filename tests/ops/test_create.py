"""Tensors made from nothing."""

import ml_dtypes
import numpy as np
import pytest

from opcheck import World, check_all_gradients, check_rules, names_in, refused, smooth_in
from rushlight.ir.dtype import float64
from rushlight.ir.interpret import interpret
from rushlight.ir.type import TensorType
from rushlight.ops import OPERATORS, create
from rushlight.sym import Scope, evaluate

MODULES = (create,)
NUMBER = TensorType((), float64, weak=True)


@pytest.mark.parametrize("name", names_in(*MODULES))
def test_rules_agree(name):
    check_rules(name)


@pytest.mark.parametrize("name", smooth_in(*MODULES))
def test_gradients_match_differences_twice(name):
    check_all_gradients(name)


@pytest.mark.parametrize(
    ("value", "dtype"), [(True, np.bool_), (3, np.int64), (3.0, np.float32), (np.float64(3), np.float64)]
)
def test_full_takes_the_dtype_of_its_value(value, dtype):
    world = World("lower")
    value = world.lift(np.asarray(value)) if isinstance(value, np.generic) else value
    found = world.apply(OPERATORS["full"], (value,), {"size": (2,), "dtype": None, "device": None})
    assert found.array.dtype == dtype


def test_arange_with_symbolic_ends():
    scope = Scope()
    n = scope.symbol("n", hint=7)
    attrs = {"start": 1, "end": n, "step": 2, "dtype": None, "device": None}
    op = OPERATORS["arange"]
    type_ = op.infer((), attrs)
    assert [evaluate(type_.shape[0], {n: value}) for value in (0, 1, 2, 7)] == [0, 0, 1, 3]
    np.testing.assert_array_equal(interpret(op.lower_rule, [], [], type_, attrs, {n: 7}), [1, 3, 5])


def test_linspace_hits_both_ends():
    world = World("lower")
    attrs = {"steps": 8, "dtype": None, "device": None}
    found = world.apply(OPERATORS["linspace"], (0.1, 0.7), attrs).array
    assert found[0] == np.float32(0.1)
    assert found[-1] == np.float32(0.7)


def test_a_size_is_a_number_that_does_not_raise_dtypes():
    world = World("lower")
    size = world.apply(OPERATORS["from_size"], (), {"size": 3, "device": None})
    halves = world.lift(np.ones(2, ml_dtypes.bfloat16)) / size
    assert halves.array.dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize(
    ("name", "operands", "attrs", "code"),
    [
        ("zeros", (), {"size": (-1,), "dtype": None, "device": None}, "S007"),
        ("arange", (), {"start": 0, "end": 3, "step": 0, "dtype": None, "device": None}, "A002"),
        ("linspace", (NUMBER, NUMBER), {"steps": -1, "dtype": None, "device": None}, "A002"),
    ],
)
def test_bad_arguments_are_refused(name, operands, attrs, code):
    with refused(code):
        OPERATORS[name].infer(operands, attrs)
