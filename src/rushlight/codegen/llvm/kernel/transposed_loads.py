"""Strided loads: element by element, or as contiguous runs that are transposed in registers.

If a body reads `TRANSPOSED_SIDE` neighbours and lanes are far apart, the neighbours of each lane are one run in memory.
Runs and shuffles take a third of the instructions of single elements, so that more cache misses are in flight at once.
"""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.codegen.llvm.builder.analysis import INDEX, LOAD
from rushlight.codegen.llvm.builder.scope import Scope
from rushlight.codegen.llvm.builder.vector_types import Shape
from rushlight.ir.kernel import Loop, Statement, Store
from rushlight.ir.scalar import Buffer, Scalar
from rushlight.ir.target import Target
from rushlight.sym import Size, SizeExpr, coefficient, parts
from rushlight.term import postorder

_SIDE = Target.TRANSPOSED_SIDE


def find_transposed_loads(roots: Iterable[Scalar]) -> dict[Scalar, tuple[Scalar, ...]]:
    """Groups of `TRANSPOSED_SIDE` loads with consecutive offsets, by each of their loads."""
    rows: dict[tuple[Buffer, Size], dict[int, Scalar]] = {}
    for term in postorder(roots):
        if term.op is LOAD and term.operands and term.operands[0].op is INDEX:
            offset: Size = term.operands[0].attr("expr")
            constant = sum([coefficient for coefficient, atoms in parts(offset) if not atoms])
            rows.setdefault((term.attr("buffer"), offset - constant), {})[constant] = term
    groups: dict[Scalar, tuple[Scalar, ...]] = {}
    for row in rows.values():
        first = min(row)
        if len(row) == _SIDE and max(row) - first == _SIDE - 1:
            square = tuple([row[first + index] for index in range(_SIDE)])
            groups.update([(term, square) for term in square])
    return groups


def has_transposed_loads(body: Iterable[Statement], axis: SizeExpr) -> bool:
    """Whether stores in a loop of an axis have transposed loads if the axis is vectorised."""
    stores: list[Scalar] = []
    for statement in body:
        if isinstance(statement, Loop) and has_transposed_loads(statement.body, axis):
            return True
        if isinstance(statement, Store):
            stores.append(statement.value)
    if len(stores) < _SIDE:
        return False
    steps = [coefficient(square[0].operands[0].attr("expr"), axis) for square in find_transposed_loads(stores).values()]
    return any(isinstance(step, SizeExpr) or step not in (None, -1, 0, 1) for step in steps)


def lane_pointers(
    scope: Scope, home: Scope, shape: Shape, pointer: str, stride: int | str, active: str | None
) -> list[str]:
    """Returns the address of each lane's element. The inactive lanes, all at the end, get the last active address.

    `home` is the outermost scope of these lanes: what their addresses have in common is found there, once.
    """
    last = "" if active is None else _last_active(home, shape, active)
    where = home if isinstance(stride, int) else scope
    pointers: list[str] = []
    if last or not isinstance(stride, int):
        pointer = _as_one_address(scope, pointer)
    for lane in range(shape.lanes):
        number = str(lane)
        if last and lane:
            number = home.once((last, f"least {lane}"), f"call i64 @llvm.smin.i64(i64 {last}, i64 {lane})")
        if number.isdigit() and isinstance(stride, int):
            distance = str(int(number) * stride)
        else:
            distance = where.once((number, str(stride)), f"mul i64 {stride}, {number}")
        pointers.append(scope.let(f"getelementptr {shape.memory}, ptr {pointer}, i64 {distance}"))
    return pointers


def _as_one_address(scope: Scope, pointer: str) -> str:
    """The same address, in which LLVM sees no sum of others.

    Else it weighs, for each lane, which sums of loop counters and distances to keep in registers: more than half of the
    time of some kernels, and they have more distances than registers.
    """
    return scope.let(f"call ptr @llvm.launder.invariant.group.p0(ptr {pointer})")


def _last_active(home: Scope, shape: Shape, active: str) -> str:
    last = home.sizes.get((active, "last"))
    if last is None:
        bits = home.let(f"bitcast {shape.mask_type} {active} to i{shape.lanes}")
        count = home.let(f"call i{shape.lanes} @llvm.ctpop.i{shape.lanes}(i{shape.lanes} {bits})")
        wide = count if shape.lanes == 64 else home.let(f"zext i{shape.lanes} {count} to i64")
        last = home.sizes[active, "last"] = home.let(f"sub i64 {wide}, 1")
    return last


def load_strided(scope: Scope, shape: Shape, pointers: list[str]) -> str:
    """Loads one element for each lane and inserts it."""
    raw = "poison"
    for lane, pointer in enumerate(pointers):
        element = scope.let(f"load {shape.memory}, ptr {pointer}, align {shape.itemsize}")
        raw = scope.let(f"insertelement {shape.memory_type} {raw}, {shape.memory} {element}, i32 {lane}")
    return raw


def load_transposed(scope: Scope, shape: Shape, pointers: list[str]) -> list[str]:
    """Loads `TRANSPOSED_SIDE` elements for each lane: a vector of the first elements, one of the second, and so on.

    A vector starts as the runs of several lanes, one square beside the other. Each round exchanges one bit of the
    vector's number with the same bit of the lane's index in its square (Eklundh 1972).
    """
    run = f"<{_SIDE} x {shape.memory}>"
    runs = [scope.let(f"load {run}, ptr {pointer}, align {shape.itemsize}") for pointer in pointers]
    vectors: list[str] = []
    for row in range(_SIDE):
        whole, size = runs[row::_SIDE], _SIDE
        while len(whole) > 1:
            kind = f"<{size} x {shape.memory}>"
            pairs, size = zip(whole[::2], whole[1::2], strict=True), 2 * size
            whole = [_shuffled(scope, kind, left, right, range(size)) for left, right in pairs]
        vectors.append(whole[0])
    for bit in [b for b in (1, 2, 4) if b < _SIDE]:
        for row in [row for row in range(_SIDE) if not row & bit]:
            above, below = vectors[row], vectors[row | bit]
            lanes = range(shape.lanes)
            upper = [shape.lanes + (lane ^ bit) if lane & bit else lane for lane in lanes]
            lower = [shape.lanes + lane if lane & bit else lane | bit for lane in lanes]
            vectors[row] = _shuffled(scope, shape.memory_type, above, below, upper)
            vectors[row | bit] = _shuffled(scope, shape.memory_type, above, below, lower)
    return vectors


def _shuffled(scope: Scope, kind: str, left: str, right: str, lanes: Iterable[int]) -> str:
    order = [f"i32 {lane}" for lane in lanes]
    return scope.let(f"shufflevector {kind} {left}, {kind} {right}, <{len(order)} x i32> <{', '.join(order)}>")
