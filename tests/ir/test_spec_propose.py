"""Specifications proposed from the guards of backed traces."""

from rushlight.ir.dtype import bool_, float32, int64
from rushlight.ir.spec.cover import coverage_hole
from rushlight.ir.spec.leaf import FloatSpec
from rushlight.ir.spec.propose import Observed, propose
from rushlight.ir.spec.specification import ParamsSpec
from rushlight.ir.type import TensorType
from rushlight.sym import Scope, eq, floordiv, guard, lt, ne


def traced(program, *hints, lower=0):
    """The guards of a program that asks about the sizes of one tensor, in a trace for an example."""
    scope = Scope()
    symbols = [scope.symbol(hint=hint, lower=lower) for hint in hints]
    program(*symbols)
    return Observed((TensorType(tuple(symbols), float32),), {}, tuple([item.condition for item in scope.guards]))


def texts(*traces):
    found = propose(traces)
    assert [str(ParamsSpec.parse(str(spec))) for spec in found] == [str(spec) for spec in found]
    return [str(spec) for spec in found]


def ask_short(rows, columns):
    guard(lt(rows, 1024))


def test_the_two_sides_of_a_branch_are_two_specifications_that_cover():
    found = propose([traced(ask_short, 4, 8), traced(ask_short, 2000, 8)])
    assert [str(spec) for spec in found] == [
        "f32[s0, s1] where s0 <= 1023, hint s0 = 4, hint s1 = 8",
        "f32[s0, s1] where s0 >= 1024, hint s0 = 2000, hint s1 = 8",
    ]
    assert coverage_hole(ParamsSpec.parse("f32[B, T]"), found) is None
    assert coverage_hole(ParamsSpec.parse("f32[B, T]"), found[:1]) == {"B": 1024, "T": 0}


def test_traces_with_the_same_guards_give_one():
    assert len(texts(traced(ask_short, 4, 8), traced(ask_short, 5, 9))) == 1


def test_a_trace_with_fewer_guards_takes_the_place_of_others():
    wide = traced(lambda rows, columns: None, 3, 3)
    assert texts(traced(ask_short, 4, 8), wide) == texts(wide) == texts(wide, traced(ask_short, 4, 8))


def test_equal_sizes_are_one_variable_and_fixed_sizes_are_numbers():
    def program(a, b, c, d):
        guard(eq(a, b))
        guard(eq(c, 64))
        guard(eq(d, 2 * a + 1))

    assert texts(traced(program, 5, 5, 64, 11)) == ["f32[s0, s0, 64, 2*s0 + 1] where hint s0 = 5"]


def test_what_sizes_are_not_becomes_a_bound_and_what_follows_is_left_out():
    def program(a, b):
        guard(ne(a, 0))
        guard(ne(a, 1))
        guard(lt(a, 100))
        guard(lt(a, 200))
        guard(ne(a, 150))
        guard(eq(b % 8, 0))
        guard(ne(b, 4))
        guard(ne(b, 16))

    (text,) = texts(traced(program, 7, 24))
    assert text == "f32[s0, s1] where 2 <= s0 <= 99, s1 % 8 == 0, s1 != 16, hint s0 = 7, hint s1 = 24"


def test_declared_ranges_are_kept():
    scope = Scope()
    rows = scope.symbol(hint=16, lower=8, upper=64, multiple_of=8)
    assert texts(Observed((TensorType((rows,), float32),), {}, ())) == [
        "f32[s0] where 8 <= s0 <= 64, s0 % 8 == 0, hint s0 = 16"
    ]


def test_arguments_keep_their_nesting_and_kinds():
    scope = Scope()
    rows, count = scope.symbol(hint=3), scope.symbol(hint=-2, lower=None)
    transposed = TensorType((rows, 4), bool_, strides=(1, rows))
    guard(lt(count, rows))
    trace = Observed(
        ([TensorType((rows,), int64), (count, 2)], None),
        {"mask": {"x": transposed}, "rate": FloatSpec(), "how": "sum"},
        tuple([item.condition for item in scope.guards]),
    )
    assert texts(trace) == [
        "[i64[s0], (int s1, 2)], None, mask={x: bool[s0, 4] strides any}, rate=float, how='sum' "
        "where s0 > s1, hint s0 = 3, hint s1 = -2"
    ]


def test_an_integer_that_depends_on_sizes_keeps_its_variable():
    scope = Scope()
    rows, count = scope.symbol(hint=3), scope.symbol(hint=7, lower=None)
    guard(eq(count, 2 * rows + 1))
    trace = Observed((TensorType((rows,), int64), count), {}, tuple([item.condition for item in scope.guards]))
    assert texts(trace) == ["i64[s0], int s1 where 2*s0 + 1 == s1, hint s0 = 3"]


def test_guards_that_cannot_be_said_are_left_out():
    scope = Scope()
    rows, columns, stride = scope.symbol(hint=6), scope.symbol(hint=2), scope.symbol(hint=9)
    conditions = (eq(floordiv(rows, columns), 3), eq(stride, 9), lt(columns, 5))
    shown = TensorType((rows, columns), float32, strides=(stride, 1))
    assert texts(Observed((shown,), {}, conditions)) == [
        "f32[s0, s1] strides any where s1 <= 4, hint s0 = 6, hint s1 = 2"
    ]


def test_guards_that_a_divisor_decides_are_left_out():
    def program(a, b):
        guard(eq(a % 8, 0))
        guard(eq((a % 8) * b, 0))

    traces = [traced(program, 16, 5)]
    assert texts(*traces) == ["f32[s0, s1] where s0 % 8 == 0, hint s0 = 16, hint s1 = 5"]


def test_products_of_sizes_can_be_said():
    def program(a, b):
        guard(lt(a * b, 100))

    assert texts(traced(program, 4, 5)) == ["f32[s0, s1] where s0*s1 < 100, hint s0 = 4, hint s1 = 5"]
