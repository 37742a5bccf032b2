"""Vectors that end where a row ends: floor divisions whose quotient is the same in all active lanes.

An index such as `x[v // n, v % n]` walks memory contiguously but where a row ends. So a vector loop that divides takes
masked turns, each up to the end of a row at most: quotients are scalars in it, strides plain, and nothing is gathered.
(Packing for a convolution of 56 columns: 5x fewer cycles per element than gathers.)
"""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.codegen.llvm import sizes
from rushlight.codegen.llvm.analysis import INDEX
from rushlight.codegen.llvm.scope import Context, Scope
from rushlight.ir.kernel import Loop, Statement, Store
from rushlight.ir.scalar import Scalar
from rushlight.sym import Size, SizeExpr, parts
from rushlight.term import postorder

_MOST_QUOTIENTS = 6


def find_quotients(ctx: Context, body: Iterable[Statement], scope: Scope, lanes: int) -> list[SizeExpr]:
    """The floor divisions in a body of a loop of the axis `lanes` in `scope` that can end its turns, inner ones first.

    Their dividend grows linearly with the axis, by a constant; their divisor does not depend on it; and all their other
    axes are known in `scope`.
    """
    known = _bound(scope) | lanes
    found: dict[SizeExpr, None] = {}
    for size in _sizes(body):
        for atom in _quotients_in(size):
            axes = ctx.analysis.size_axes(atom)
            if not axes & lanes or axes & ~known or atom in found:
                continue
            dividend, divisor = atom.operands
            if not ctx.analysis.size_axes(divisor) & lanes and _is_linear(ctx, dividend, lanes, found):
                found[atom] = None
    return list(found) if len(found) <= _MOST_QUOTIENTS else []


def _bound(scope: Scope) -> int:
    axes = 0
    outer: Scope | None = scope
    while outer is not None:
        axes |= outer.axes
        outer = outer.parent
    return axes


def _sizes(body: Iterable[Statement]) -> Iterable[Size]:
    for statement in body:
        if isinstance(statement, Loop):
            yield from _sizes(statement.body)
        elif isinstance(statement, Store):
            roots = [item for item in (statement.value, statement.offset, statement.where) if isinstance(item, Scalar)]
            for term in postorder(roots):
                if term.op is INDEX:
                    yield term.attr("expr")
            if not isinstance(statement.offset, Scalar):
                yield statement.offset


def _quotients_in(size: Size) -> list[SizeExpr]:
    """The floor divisions in a size, inner ones first."""
    found: list[SizeExpr] = []
    stack: list[Size] = [size]
    while stack:
        top = stack.pop()
        if isinstance(top, int):
            continue
        for _, atoms in parts(top):
            for atom in atoms:
                if atom.op.name == "symbol":
                    continue
                stack.extend(atom.operands)
                if atom.op.name == "floordiv":
                    found.append(atom)
    return found[::-1]


def _is_linear(ctx: Context, size: Size, lanes: int, uniform: Iterable[SizeExpr]) -> bool:
    if isinstance(size, int):
        return True
    stride = 0
    for coefficient, atoms in parts(size):
        moving = [atom for atom in atoms if ctx.analysis.size_axes(atom) & lanes and atom not in uniform]
        if moving:
            if len(atoms) > 1 or moving[0].op.name != "symbol":
                return False
            stride += coefficient
    return stride >= 0


def emit_run_length(ctx: Context, quotients: list[SizeExpr], scope: Scope) -> str:
    """The number of lanes until one of the quotients changes. `scope.vector.uniform` names them already."""
    assert scope.vector is not None
    length = str(scope.vector.width)
    for atom in quotients:
        dividend, divisor = atom.operands
        stride = sizes.affine(ctx, parts(dividend), scope).stride
        if stride == 0:
            continue
        quotient, low = sizes.size_text(ctx, atom, scope), sizes.size_text(ctx, dividend, scope)
        size = sizes.divisor_text(ctx, divisor, scope)
        following = scope.let(f"mul i64 {scope.let(f'add i64 {quotient}, 1')}, {size}")
        left = scope.let(f"sub i64 {following}, {low}")
        if stride != 1:
            left = scope.let(f"udiv i64 {scope.let(f'add i64 {left}, {int(stride) - 1}')}, {stride}")
        length = scope.let(f"call i64 @llvm.smin.i64(i64 {left}, i64 {length})")
    return length
