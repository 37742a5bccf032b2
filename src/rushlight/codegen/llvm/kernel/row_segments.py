"""Row segments: vector iterations that end at the end of a row, so that quotients are uniform in the lanes.

An index such as `x[v // n, v % n]` is contiguous within a row. A vector loop over v therefore takes masked iterations
that end at the row's end at the latest: quotients are scalars, strides are 1, and no load is a gather. Packing for a
convolution of 56 columns takes a fifth of the cycles per element that gathers take.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rushlight.codegen.llvm.builder import sizes
from rushlight.codegen.llvm.builder.analysis import INDEX, LOAD
from rushlight.codegen.llvm.builder.scope import Context, Lanes, Scope
from rushlight.codegen.llvm.kernel.loop_close import Carry
from rushlight.ir.kernel import Loop, Statement, Store
from rushlight.ir.scalar import Scalar
from rushlight.ir.target import Target
from rushlight.sym import Size, SizeExpr, parts
from rushlight.term import postorder

_MOST_QUOTIENTS = 6
# Segments per vector that cost about as much as a gather, and divisors that need no division.
_MOST_SEGMENTS = 4
_SHORT = (2, 4)


def find_quotients(ctx: Context, body: Iterable[Statement], scope: Scope, vector: Lanes) -> list[SizeExpr]:
    """Finds the floor divisions in a loop's body whose steps can end its iterations, inner ones first.

    The dividend grows by a constant along the loop's axis, and the divisor does not depend on that axis. Divisors with
    segments so short that a gather costs less are left out, and those whose multiples are vector boundaries anyway. All
    other axes of the quotient are bound in `scope`.
    """
    lanes, width = vector.axes, vector.width
    bound = _bound_axes(scope) | lanes
    quotients: dict[SizeExpr, None] = {}
    has_loops = any(isinstance(statement, Loop) for statement in body)
    for size in _sizes(body, addresses=has_loops):
        for atom in _quotients_in(size):
            axes = ctx.analysis.size_axes(atom)
            if not axes & lanes or axes & ~bound or atom in quotients:
                continue
            dividend, divisor = atom.operands
            if sizes.is_aligned(ctx, atom, vector):
                continue
            step = None if ctx.analysis.size_axes(divisor) & lanes else lane_step(ctx, dividend, lanes, quotients)
            if step is not None and not _is_short(divisor, step, width):
                quotients[atom] = None
    return list(quotients) if len(quotients) <= _MOST_QUOTIENTS else []


def _is_short(divisor: Size, step: int, width: int) -> bool:
    """Whether segments are so short that a gather costs less.

    With a step of 1 the quotient is carried, so that segments save the divisions of a gather as well. If the divisor is
    unknown, the step decides: lanes more than `WIDE_LOAD_STRIDE` elements apart gather within a segment as well.
    """
    if isinstance(divisor, SizeExpr):
        return step > Target.WIDE_LOAD_STRIDE
    if step == 1:
        return divisor in _SHORT and divisor * _MOST_SEGMENTS <= width
    return divisor * _MOST_SEGMENTS <= step * width


def _bound_axes(scope: Scope) -> int:
    axes = 0
    outer: Scope | None = scope
    while outer is not None:
        axes |= outer.axes
        outer = outer.parent
    return axes


def _sizes(body: Iterable[Statement], addresses: bool) -> Iterable[Size]:
    """The sizes in a body; with `addresses`, only those in addresses of loads and stores."""
    for statement in body:
        if isinstance(statement, Loop):
            yield from _sizes(statement.body, addresses)
        elif isinstance(statement, Store):
            scalars = (statement.value, statement.offset, statement.where)
            roots = [scalar for scalar in scalars if isinstance(scalar, Scalar)]
            if addresses:
                offsets = [offset for term in postorder(roots) if term.op is LOAD for offset in term.operands]
                roots = [*offsets, *[root for root in roots if root is statement.offset]]
            for term in postorder(roots):
                if term.op is INDEX:
                    yield term.attr("expr")
            if not isinstance(statement.offset, Scalar):
                yield statement.offset


def _quotients_in(size: Size) -> list[SizeExpr]:
    """The floor divisions in a size, inner ones first."""
    quotients: list[SizeExpr] = []
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
                    quotients.append(atom)
    return quotients[::-1]


def lane_step(ctx: Context, size: Size, lanes: int, uniform: Collection[SizeExpr]) -> int | None:
    """The constant stride of a size between lanes; None if it is not constant or is negative."""
    step = 0
    for coefficient, atoms in () if isinstance(size, int) else parts(size):
        moving = [atom for atom in atoms if ctx.analysis.size_axes(atom) & lanes and atom not in uniform]
        if moving:
            if len(atoms) > 1 or moving[0].op.name != "symbol":
                return None
            step += coefficient
    return step if step >= 0 else None


class RowSegments:
    """The iterations of a loop over `symbol` from `start`: their lengths and their quotients.

    A quotient whose dividend grows by 1, and does not contain another quotient, is divided out once before the loop and
    then carried; others are divided once an iteration. `scope.vector.uniform` names all of them already. `length` is
    the lanes of an iteration, not yet limited by the loop's end.
    """

    def __init__(
        self, ctx: Context, quotients: list[SizeExpr], outer: Scope, scope: Scope, symbol: SizeExpr, start: str
    ) -> None:
        assert scope.vector is not None
        self.scope = scope
        self.start, self.base = start, scope.vector.base
        self.carries: list[Carry] = []
        self._ends: list[tuple[Carry, Carry, str]] = []
        self.length = str(scope.vector.width)
        first = outer.inner(outer.label, scope.axes, vector=Lanes(scope.axes, 1, start, None))
        first.sizes[symbol] = start
        for atom in quotients:
            stride = sizes.affine(ctx, parts(atom.operands[0]), scope).stride
            if stride == 1 and not _jumps(atom.operands[0], quotients):
                self._carry(ctx, atom, first)
            elif stride != 0:
                self._shorten(_lanes_left(ctx, atom, scope, int(stride)))
        outer.lines.extend(first.lines)

    def _shorten(self, left: str) -> None:
        self.length = self.scope.let(f"call i64 @llvm.smin.i64(i64 {left}, i64 {self.length})")

    def _carry(self, ctx: Context, atom: SizeExpr, first: Scope) -> None:
        """Carries a quotient, and the index at which it increments."""
        scope, names = self.scope, self.scope.names
        quotient = Carry("i64", sizes.size_text(ctx, atom, first), names.value())
        left = _lanes_left(ctx, atom, first, 1)
        end = Carry("i64", first.let(f"add i64 {left}, {self.start}"), names.value())
        scope.sizes[atom] = quotient.name
        self.carries += [quotient, end]
        self._ends.append((quotient, end, sizes.divisor_text(ctx, atom.operands[1], scope)))
        self._shorten(scope.let(f"sub i64 {end.name}, {self.base}"))

    def close(self, length: str) -> list[Carry]:
        """The loop-carried values after an iteration of `length` elements."""
        scope = self.scope
        following = scope.let(f"add i64 {self.base}, {length}")
        for quotient, end, size in self._ends:
            ended = scope.let(f"icmp eq i64 {following}, {end.name}")
            quotient.result = scope.let(f"add i64 {quotient.name}, {scope.let(f'zext i1 {ended} to i64')}")
            later = scope.let(f"add i64 {end.name}, {size}")
            end.result = scope.let(f"select i1 {ended}, i64 {later}, i64 {end.name}")
        return self.carries


def _jumps(dividend: Size, quotients: Collection[SizeExpr]) -> bool:
    return not isinstance(dividend, int) and any(atom in quotients for _, atoms in parts(dividend) for atom in atoms)


def _lanes_left(ctx: Context, atom: SizeExpr, scope: Scope, stride: int) -> str:
    """The number of lanes, from lane 0 on, before a quotient changes."""
    quotient, low = sizes.size_text(ctx, atom, scope), sizes.size_text(ctx, atom.operands[0], scope)
    size = sizes.divisor_text(ctx, atom.operands[1], scope)
    following = scope.let(f"mul i64 {scope.let(f'add i64 {quotient}, 1')}, {size}")
    left = scope.let(f"sub i64 {following}, {low}")
    if stride == 1:
        return left
    return scope.let(f"udiv i64 {scope.let(f'add i64 {left}, {stride - 1}')}, {stride}")
