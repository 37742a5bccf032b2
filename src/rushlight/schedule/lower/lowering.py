"""From calls to definitions: runs each call's lowering rule once, on the axes of its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight.ir.dtype import DType
from rushlight.ir.graph import NUMBER, PARAMETER, RELAYOUT, RESULT, Call, Graph
from rushlight.ir.loops import Definition, Index, Scatter, ScatterDefinition
from rushlight.ir.scalar import Buffer, Scalar, constant, load
from rushlight.ir.type import TensorType
from rushlight.ir.value import map_operands
from rushlight.schedule.lower.constants import is_constant
from rushlight.support.errors import fail
from rushlight.sym import Size, SizeExpr, axis_symbol


class BufferOperand:
    """An operand that is loaded from the buffer of an earlier value; `type` is the value's in the graph."""

    __slots__ = ("buffer", "type")

    def __init__(self, buffer: Buffer, type_: TensorType) -> None:
        self.buffer = buffer
        self.type = type_

    @property
    def shape(self) -> tuple[Size, ...]:
        """The sizes of its dims."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """Its element type."""
        return self.type.dtype

    def __getitem__(self, position: Index | tuple[Index, ...]) -> Scalar:
        indices = position if isinstance(position, tuple) else (position,)
        assert len(indices) == len(self.shape), f"{self.buffer}: {len(indices)} indices for {self.type}"
        # A dim of literal size 1 has one index, whatever the axis that runs over it.
        return load(self.buffer, *[0 if size == 1 else index for index, size in zip(indices, self.shape, strict=True)])


class NumberOperand:
    """A Python number in the graph: its loads are constants."""

    __slots__ = ("type", "value")

    def __init__(self, value: complex, type_: TensorType) -> None:
        self.value = value
        self.type = type_

    @property
    def shape(self) -> tuple[Size, ...]:
        """Always 0-d."""
        return ()

    @property
    def dtype(self) -> DType:
        """The number's dtype."""
        return self.type.dtype

    def __getitem__(self, position: Index | tuple[Index, ...]) -> Scalar:
        return constant(self.value, self.type.dtype)


@dataclass(slots=True)
class Lowered:
    """A graph as definitions. `buffers` and `operands` of values are keyed by the identity of their calls.

    `results` are the identities of the calls whose values leave the program. Those have buffers of the caller; for
    others the scheduler chooses the layout: dense, row-major. Where inputs are `frozen`, values that depend on these
    alone, and are not `needed` at each call, have constant buffers.
    """

    results: frozenset[int]
    needed: frozenset[int]
    frozen: bool
    definitions: list[Definition | ScatterDefinition]
    buffers: dict[int, Buffer]
    operands: dict[int, Any]


class SharedAxes:
    """One loop axis per dim and size for all values: reads at the reader's own index need no rewriting."""

    def __init__(self) -> None:
        self._axes: dict[tuple[int, Size], SizeExpr] = {}

    def __call__(self, shape: tuple[Size, ...]) -> tuple[SizeExpr, ...]:
        """The axes of a shape."""
        axes = self._axes
        for dim in enumerate(shape):
            if dim not in axes:
                axes[dim] = axis_symbol(dim[1], f"i{dim[0]}")
        return tuple([axes[dim] for dim in enumerate(shape)])


def lower_graph(graph: Graph) -> Lowered:
    """Runs the lowering rule of every call, in order."""
    results, needed = (frozenset([id(call) for call in calls]) for calls in (graph.results(), graph.needed()))
    lowered = Lowered(results, needed, bool(graph.frozen), [], {}, {})
    operands = lowered.operands
    for position, call in enumerate(graph.parameters):
        buffer = Buffer(call.attr("name"), call.type, constant=position in graph.frozen)
        lowered.buffers[id(call)] = buffer
        operands[id(call)] = BufferOperand(buffer, call.type)
    several: dict[int, tuple[Any, ...]] = {}
    axes_of = SharedAxes()
    for call in graph.calls:
        if call.op is NUMBER:
            operands[id(call)] = NumberOperand(call.attr("value"), call.type)
    # Numbered as in the graph's text: the buffer v4 holds the value %4.
    for position, call in enumerate([call for call in graph.calls if call.op is not NUMBER]):
        if call.op is RESULT:
            body, axes = several[id(call.operands[0])]
            operands[id(call)] = _define(lowered, call, position, axes, body[call.attr("index")])
        elif call.op is RELAYOUT:
            axes = axes_of(call.type.shape)
            body = operands[id(call.operands[0])][_index(axes, call.type.shape)]
            operands[id(call)] = _define(lowered, call, position, axes, body)
        elif call.op is not PARAMETER:
            types = call.type if isinstance(call.type, tuple) else (call.type,)
            axes = axes_of(types[0].shape)
            body = _run_rule(call, operands, axes)
            if isinstance(call.type, tuple):
                several[id(call)] = (body, axes)
            else:
                operands[id(call)] = _define(lowered, call, position, axes, body)
    return lowered


def _run_rule(call: Call, operands: dict[int, Any], axes: tuple[Any, ...]) -> Any:
    op: Any = call.op
    if op.lower_rule is None:
        fail("C003", f"{op.name} has no lowering", hint="give it a `lower` or a `decompose` rule")
    values = map_operands(call.operands, lambda operand: operands[id(operand)])
    return op.lower_rule(_index(axes, _shape(call)), **op.named(values, dict(call.attrs)))


def _index(axes: tuple[SizeExpr, ...], shape: tuple[Size, ...]) -> tuple[Size, ...]:
    """The axes as an index: 0 in dims of literal size 1."""
    return tuple([0 if size == 1 else axis for axis, size in zip(axes, shape, strict=True)])


def _shape(call: Call) -> tuple[Size, ...]:
    return call.type[0].shape if isinstance(call.type, tuple) else call.type.shape


def _define(lowered: Lowered, call: Call, position: int, axes: tuple[Any, ...], body: Any) -> BufferOperand:
    type_: TensorType = call.type
    if id(call) in lowered.results:
        buffer = Buffer(f"v{position}", type_)
    else:
        may_be_fixed = lowered.frozen and id(call) not in lowered.needed
        is_fixed = may_be_fixed and not isinstance(body, Scatter) and is_constant(body, axes)
        buffer = Buffer(f"v{position}", TensorType(type_.shape, type_.dtype, type_.device), "arena", is_fixed)
    lowered.buffers[id(call)] = buffer
    if isinstance(body, Scatter):
        lowered.definitions.append(ScatterDefinition(buffer, axes, body))
    else:
        assert body.type is call.type.dtype, f"{call.op.name}: lowers to {body.type.name}, typed {call.type}"
        lowered.definitions.append(Definition(buffer, axes, body))
    return BufferOperand(buffer, type_)
