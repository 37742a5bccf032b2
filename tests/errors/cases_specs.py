"""Causes of the errors of shape specifications."""

from errorcases import triggers
from rushlight.ir.dtype import float32
from rushlight.ir.spec.cover import require_coverage
from rushlight.ir.spec.leaf import TensorSpec
from rushlight.ir.spec.size import ShapeVar
from rushlight.ir.spec.specification import ParamsSpec
from rushlight.sym import Scope, eq
from rushlight.sym.coverage import satisfiable


@triggers("C017")
def text_is_malformed():
    ParamsSpec.parse("f32[B, T] where 1 <= B <= 64, T % 8")


@triggers("C017", "expression")
def expression_in_a_text_is_malformed():
    ParamsSpec.parse("f32[B, 2*(B + ]")


@triggers("C018")
def variable_occurs_in_no_argument():
    ParamsSpec.parse("f32[B, T] where S <= 64")


@triggers("C019")
def bounds_leave_no_value():
    batch = ShapeVar("B", min=1, max=64, multiple_of=8)
    ParamsSpec(TensorSpec(float32, (batch,)), assumptions=[batch < 8])


@triggers("C019", "relations")
def relations_leave_no_sizes():
    ParamsSpec.parse("f32[B, S] where S == 2*B, S == B + 3, B >= 4")


@triggers("C020")
def sum_hides_its_parts():
    ParamsSpec.parse("f32[B + T]")


@triggers("C021")
def specifications_have_a_hole():
    texts = ("f32[n, 8] where n < 1024", "f32[rows, 8] where rows > 1024")
    require_coverage(ParamsSpec.parse("f32[B, 8]"), [ParamsSpec.parse(text) for text in texts])


@triggers("C022")
def arguments_are_nested_otherwise():
    ParamsSpec.parse("(f32[B], f32[B])").arguments(([1, 2],), {})


@triggers("C023")
def factors_of_a_prime():
    scope = Scope()
    rows, columns = (scope.symbol(lower=2, upper=50) for _ in range(2))
    satisfiable([eq(rows * columns, 53)])


@triggers("C024")
def chain_of_comparisons():
    batch = ShapeVar("B")
    assert 1 <= batch <= 64
