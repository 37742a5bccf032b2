"""The builder of LLVM functions: loops that carry values, loops that are skipped, branches."""

import ctypes

from tests.codegen.gemm_products import function, load

from rushlight.codegen.llvm.builder.function_builder import Carried, FunctionBuilder


def sum_of_squares() -> str:
    """`i64 @squares(count)`: the sum of i * i for i below count, and 100 if that is 0."""
    code = FunctionBuilder("define i64 @squares(i64 %count)")
    total = (Carried("total", "i64", "0"),)
    with code.loop("add", "i", "%count", carried=total, skip=code.is_zero("none", "%count"), after="added") as loop:
        square = code.let("square", f"mul i64 {loop.index}, {loop.index}")
        loop.next["total"] = code.let("total_next", f"add i64 {loop.values['total']}, {square}")
    (result,) = loop.results(total, "_all")
    with code.when(code.is_zero("is_zero", result), "zero", "done"):
        code.let("hundred", "add i64 0, 100")
    return code.finish(f"i64 {code.phi('sum', 'i64', (result, 'added'), ('%hundred', 'zero'))}")


def triangle() -> str:
    """`i64 @triangle(rows)`: the number of steps of a loop in a loop, the inner one counted down from 2 i."""
    code = FunctionBuilder("define i64 @triangle(i64 %rows)")
    with code.loop("row", "i", "%rows", step=1, carried=(Carried("all", "i64", "0"),), after="done") as row:
        end = row.advance()
        twice = code.let("twice", f"mul i64 {end}, 2")
        inner = (Carried("part", "i64", row.values["all"]),)
        with code.countdown("step", "left", twice, step=2, carried=inner, after="row_end") as step:
            step.next["part"] = code.let("part_next", f"add i64 {step.values['part']}, 1")
        row.next["all"] = step.next["part"]
    return code.finish(f"i64 {row.next['all']}")


def test_text_reads_well(golden):
    golden("sum-of-squares.ll", sum_of_squares())


def test_loops_carry_values_and_may_be_skipped():
    squares = function(load(sum_of_squares()), "squares", ctypes.c_int64, result=ctypes.c_int64)
    assert [squares(count) for count in (0, 1, 2, 5)] == [100, 100, 1, 30]


def test_nested_loops_name_their_own_predecessors():
    steps = function(load(triangle()), "triangle", ctypes.c_int64, result=ctypes.c_int64)
    assert [steps(rows) for rows in (1, 2, 4)] == [1, 3, 10]
