"""Arithmetic, comparisons and bit operations as LLVM instructions, scalar or by vectors.

Each function takes the scope to write to, the shape of its operands and their texts, and returns the result's text. No
fast-math flags: LLVM may not reassociate or contract, so the bits are those of the term.
"""

from __future__ import annotations

from collections.abc import Callable

from rushlight.codegen.llvm.builder.scope import Scope
from rushlight.codegen.llvm.builder.vector_types import Shape
from rushlight.codegen.llvm.math import division

Emit = Callable[..., str]


def _plain(integer: str, floating: str, boolean: str) -> Emit:
    """An instruction per kind of element; an empty text where there is none."""

    def emit(out: Scope, shape: Shape, a: str, b: str) -> str:
        instruction = floating if shape.is_float else boolean if shape.is_bool else integer
        _require(bool(instruction), shape)
        return out.let(f"{instruction} {shape.type} {a}, {b}")

    return emit


def _require(is_defined: bool, shape: Shape) -> None:
    if not is_defined or shape.is_half:
        raise NotImplementedError(f"codegen: no such arithmetic on {shape.dtype.name}; cast to a wider type first")


def call(out: Scope, name: str, shape: Shape, *operands: str) -> str:
    """A call of an intrinsic whose operands and result have one shape."""
    arguments = ", ".join([f"{shape.type} {operand}" for operand in operands])
    return out.let(f"call {shape.type} @llvm.{name}.{shape.suffix}({arguments})")


def _float_call(name: str) -> Emit:
    def emit(out: Scope, shape: Shape, *operands: str) -> str:
        _require(shape.is_float, shape)
        return call(out, name, shape, *operands)

    return emit


def _rounding(name: str) -> Emit:
    """floor, ceil, trunc, round_even: the identity on integers."""

    def emit(out: Scope, shape: Shape, a: str) -> str:
        _require(True, shape)
        return call(out, name, shape, a) if shape.is_float else a

    return emit


def _minmax(floating: str, integer: str, boolean: str) -> Emit:
    def emit(out: Scope, shape: Shape, a: str, b: str) -> str:
        _require(True, shape)
        if shape.is_bool:
            return out.let(f"{boolean} {shape.type} {a}, {b}")
        if shape.is_float:
            return call(out, floating, shape, a, b)
        return call(out, ("s" if shape.signed else "u") + integer, shape, a, b)

    return emit


def _compare(floating: str, relation: str) -> Emit:
    def emit(out: Scope, shape: Shape, a: str, b: str) -> str:
        _require(True, shape)
        if shape.is_float:
            return out.let(f"fcmp {floating} {shape.type} {a}, {b}")
        sign = "" if relation in ("eq", "ne") else "s" if shape.signed else "u"
        return out.let(f"icmp {sign}{relation} {shape.type} {a}, {b}")

    return emit


def _negate(out: Scope, shape: Shape, a: str) -> str:
    _require(not shape.is_bool, shape)
    return (
        out.let(f"fneg {shape.type} {a}") if shape.is_float else out.let(f"sub {shape.type} {shape.constant(0)}, {a}")
    )


def _absolute(out: Scope, shape: Shape, a: str) -> str:
    _require(True, shape)
    if shape.is_float:
        return call(out, "fabs", shape, a)
    if not shape.signed or shape.is_bool:
        return a
    return out.let(f"call {shape.type} @llvm.abs.{shape.suffix}({shape.type} {a}, i1 false)")


def _invert(out: Scope, shape: Shape, a: str) -> str:
    _require(not shape.is_float, shape)
    return out.let(f"xor {shape.type} {a}, {shape.integer(-1) if not shape.is_bool else shape.splat('true')}")


def _is_small(count: str, shape: Shape) -> bool:
    """Whether a shift count is a constant below the width: then the result needs no select."""
    word = count.removesuffix(")").rpartition(" ")[2]
    return word.isdecimal() and int(word) < shape.bits


def _shift_left(out: Scope, shape: Shape, a: str, b: str) -> str:
    if _is_small(b, shape):
        return out.let(f"shl {shape.type} {a}, {b}")
    inside = out.let(f"icmp ult {shape.type} {b}, {shape.integer(shape.bits)}")
    shifted = out.let(f"shl {shape.type} {a}, {b}")
    return out.let(f"select {shape.mask_type} {inside}, {shape.type} {shifted}, {shape.type} {shape.integer(0)}")


def _shift_right(out: Scope, shape: Shape, a: str, b: str) -> str:
    if _is_small(b, shape):
        return out.let(f"{'ashr' if shape.signed else 'lshr'} {shape.type} {a}, {b}")
    if shape.signed:
        count = call(out, "umin", shape, b, shape.integer(shape.bits - 1))
        return out.let(f"ashr {shape.type} {a}, {count}")
    inside = out.let(f"icmp ult {shape.type} {b}, {shape.integer(shape.bits)}")
    shifted = out.let(f"lshr {shape.type} {a}, {b}")
    return out.let(f"select {shape.mask_type} {inside}, {shape.type} {shifted}, {shape.type} {shape.integer(0)}")


OPERATIONS: dict[str, Emit] = {
    "add": _plain("add", "fadd", "or"),
    "sub": _plain("sub", "fsub", ""),
    "mul": _plain("mul", "fmul", "and"),
    "div": _plain("", "fdiv", ""),
    "and": _plain("and", "", "and"),
    "or": _plain("or", "", "or"),
    "xor": _plain("xor", "", "xor"),
    "minimum": _minmax("minimum", "min", "and"),
    "maximum": _minmax("maximum", "max", "or"),
    "lt": _compare("olt", "lt"),
    "le": _compare("ole", "le"),
    "eq": _compare("oeq", "eq"),
    "ne": _compare("une", "ne"),
    "neg": _negate,
    "abs": _absolute,
    "not": _invert,
    "sqrt": _float_call("sqrt"),
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "trunc": _rounding("trunc"),
    "round_even": _rounding("roundeven"),
    "shl": _shift_left,
    "shr": _shift_right,
    "floordiv": division.floordiv,
    "remainder": division.remainder,
    "mulhi": division.multiply_high,
}


def fma(out: Scope, shape: Shape, a: str, b: str, c: str) -> str:
    """a*b + c: one rounding for floats, wrapping for integers."""
    if shape.is_float:
        return call(out, "fma", shape, a, b, c)
    return OPERATIONS["add"](out, shape, OPERATIONS["mul"](out, shape, a, b), c)


def fold(out: Scope, kind: str, shape: Shape, a: str, b: str) -> str:
    """One step of a reduction."""
    return OPERATIONS[_FOLDS[kind]](out, shape, a, b)


_FOLDS: dict[str, str] = {
    "sum": "add",
    "signed_sum": "add",
    "prod": "mul",
    "max": "maximum",
    "min": "minimum",
    "any": "or",
    "all": "and",
}
