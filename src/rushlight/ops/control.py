"""Control flow as operators: calls that run graphs, which their attributes hold, as values say.

The graphs take tensors, and make tensors, that lie row by row where nothing else is said. What a call gives is said by
its attribute `types`; the sizes in these that only a run tells are `sizes`. Only traced programs hold such calls: in
eager code control flow is Python's.
"""

from __future__ import annotations

from typing import Any

from rushlight.ir.dtype import bool_
from rushlight.ir.graph import Inner
from rushlight.ir.type import TensorType
from rushlight.ops.record import Fact, define
from rushlight.support.errors import fail
from rushlight.sym import Size, SizeExpr

CONTROL = Fact.HOST | Fact.CONTROL | Fact.DATA_DEPENDENT | Fact.NONDIFFERENTIABLE
Types = tuple[TensorType, ...]

cond = define(
    "cond(Tensor predicate, Tensor[] operands, *, any branches, any types, unbacked[] sizes=()) -> Tensor[]",
    "What the first of two graphs makes of the operands where the predicate is true, else what the second makes.",
    facts=CONTROL,
    variants="",
)
while_loop = define(
    "while_loop(Tensor[] carries, Tensor[] others, *, any bodies, any types, unbacked[] sizes=()) -> Tensor[]",
    "Values that the second graph makes of themselves, and of others, for as long as the first one says so.",
    facts=CONTROL,
    variants="",
)
scan = define(
    "scan(Tensor[] carries, Tensor[] xs, Tensor[] others, *, any body, any types, Size length, bool reverse=False,"
    " unbacked[] sizes=()) -> Tensor[]",
    "What a graph makes of carried values, and of each slice of others in turn: the last ones carried, then the rest,"
    " stacked.",
    facts=CONTROL,
    variants="",
)

local_map = define(
    "local_map(Tensor[] operands, *, any body, any types, any placements) -> Tensor[]",
    "What a graph makes of parts of divided tensors, which lie as `placements` say: one call until placements are"
    " decided, and then its own calls stand in its place.",
    facts=Fact.CONTROL | Fact.NONDIFFERENTIABLE,
    variants="",
)


def _require(fits: bool, op: str, message: str) -> None:
    if not fits:
        fail("X001", f"{op}: {message}")


def _kinds(types: Any) -> list[Any]:
    """What graphs are told apart by: dtypes and numbers of dims. Sizes may have other names in them."""
    return [(type_.dtype, len(type_.shape), type_.device) for type_ in types]


def _takes(op: str, inner: Inner, types: list[TensorType]) -> list[TensorType]:
    """The types of what a graph makes of operands."""
    fits = _kinds(types) == _kinds([call.type for call in inner.graph.parameters])
    _require(fits, op, "the operands do not fit a graph")
    return [call.type for call in inner.graph.outputs]


@cond.meta
def cond_meta(
    predicate: TensorType,
    operands: Types,
    branches: tuple[Inner, Inner],
    types: Types,
    sizes: tuple[SizeExpr, ...],
) -> Types:
    _require(predicate.dtype is bool_ and not predicate.shape, "cond", "the predicate is no bool")
    for inner in branches:
        _require(_kinds(_takes("cond", inner, [*operands])) == _kinds(types), "cond", "a branch has other results")
    return types


@while_loop.meta
def while_loop_meta(
    carries: Types, others: Types, bodies: tuple[Inner, Inner], types: Types, sizes: tuple[SizeExpr, ...]
) -> Types:
    asks, body = [_takes("while_loop", inner, [*carries, *others]) for inner in bodies]
    _require(_kinds(asks) == [(bool_, 0, asks[0].device)], "while_loop", "the condition is no bool")
    _require(_kinds(body) == _kinds(types) == _kinds(carries), "while_loop", "the body has other results")
    return types


@scan.meta
def scan_meta(
    carries: Types,
    xs: Types,
    others: Types,
    body: Inner,
    types: Types,
    length: Size,
    reverse: bool,
    sizes: tuple[SizeExpr, ...],
) -> Types:
    slices = [TensorType(type_.shape[1:], type_.dtype, type_.device) for type_ in xs]
    made, count = _takes("scan", body, [*carries, *slices, *others]), len(carries)
    stacked = [TensorType((length, *type_.shape), type_.dtype, type_.device) for type_ in made[count:]]
    _require(_kinds([*made[:count], *stacked]) == _kinds(types), "scan", "the body has other results")
    return types


@local_map.meta
def local_map_meta(operands: Types, body: Inner, types: Types, placements: object) -> Types:
    _require(_kinds(_takes("local_map", body, [*operands])) == _kinds(types), "local_map", "it has other results")
    return types
