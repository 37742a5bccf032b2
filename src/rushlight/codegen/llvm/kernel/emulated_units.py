"""Matrix units where a processor runs a grid: registers are in memory, each thread computes its elements of products.

A thread finds the elements of operands where the layout of the unit says that they are: in the registers of the thread
that has them, or in shared memory. Products are exact and are added in ascending order of depth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rushlight.ir.dtype import float32
from rushlight.ir.kernel import Axis, AxisKind, Kernel, Loop, Multiply, Statement, Store, multiplies_in
from rushlight.ir.scalar import OPS, SEQUENTIAL, Buffer, Scalar, cast, contract, index, load
from rushlight.ir.type import TensorType
from rushlight.sym import Size, SizeExpr, axis_size, axis_symbol, floordiv, mod
from rushlight.term import interned, postorder, substitute


def in_memory(kernel: Kernel) -> Kernel:
    """A kernel whose threads keep what they have in registers in memory, those of each thread in a row."""
    if not any(True for _ in multiplies_in(kernel.body)):
        return kernel
    return replace(kernel, body=_Registers(kernel.threads).body(kernel.body, 0))


class _Registers:
    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.memory: dict[Buffer, Buffer] = {}

    def body(self, statements: Sequence[Statement], thread: Size) -> tuple[Statement, ...]:
        """Statements that a thread executes, or all."""
        made: list[Statement] = []
        for statement in statements:
            if isinstance(statement, Loop):
                axis = statement.axis
                inner = self.body(statement.body, axis.symbol if axis.kind is AxisKind.THREAD else thread)
                kind = AxisKind.SERIAL if axis.kind is AxisKind.UNROLLED else axis.kind
                made.append(Loop(replace(axis, kind=kind), inner))
            elif isinstance(statement, Store):
                made.append(self.store(statement, thread))
            else:
                made.append(self.product(statement, thread) if isinstance(statement, Multiply) else statement)
        return tuple(made)

    def place(self, buffer: Buffer, thread: Size, offset: Size) -> tuple[Buffer, Size]:
        """Where an element of a thread's registers lies; other buffers are where they are."""
        if buffer.scope != "register":
            return buffer, offset
        (elements,) = buffer.type.shape
        assert isinstance(elements, int), "registers are counted"
        if buffer not in self.memory:
            type_ = TensorType((self.threads * elements,), buffer.type.dtype)
            self.memory[buffer] = Buffer(buffer.name, type_, "local")
        return self.memory[buffer], thread * elements + offset

    def load(self, buffer: Buffer, thread: Size, offset: Size) -> Scalar:
        """The element of a thread's registers, or of shared memory."""
        memory, place = self.place(buffer, thread, offset)
        return load(memory, index(place))

    def store(self, store: Store, thread: Size) -> Store:
        """A store whose registers are in memory."""
        offset = store.offset
        if not isinstance(offset, Scalar):
            buffer, offset = self.place(store.buffer, thread, offset)
            store = replace(store, buffer=buffer, offset=offset)
        parts = [part for part in (store.value, store.where) if part is not None]
        images = {
            term: self.load(term.attr("buffer"), thread, _as_size(term.operands[0]))
            for term in postorder(parts)
            if term.op is OPS["load"] and term.attr("buffer").scope == "register"
        }
        value, *where = substitute(parts, images, _rebuilt) if images else parts
        return replace(store, value=value, where=where[0] if where else None)

    def product(self, multiply: Multiply, thread: Size) -> Loop:
        """What the instruction gives a thread."""
        unit = multiply.unit
        group, lane = floordiv(thread, unit.group) * unit.group, mod(thread, unit.group)
        element = axis_symbol(unit.result_elements, "element")
        depth = axis_symbol(unit.depth, "depth")
        row, column = unit.result_place(lane, element)
        a = self.element(multiply, multiply.a, multiply.a_offset, multiply.a_step, (unit.rows, row, depth), group)
        b = self.element(multiply, multiply.b, multiply.b_offset, multiply.b_step, (unit.columns, column, depth), group)
        memory, place = self.place(multiply.result, thread, multiply.result_offset + element)
        total = load(memory, index(place)) + contract((depth,), cast(a, float32), cast(b, float32), SEQUENTIAL)
        return Loop(Axis(element, axis_size(element)), (Store(memory, place, total),))

    def element(
        self, multiply: Multiply, buffer: Buffer, offset: Size, step: int, at: tuple[int, Size, SizeExpr], group: Size
    ) -> Scalar:
        """An element of an operand, at an index and a depth."""
        width, place, depth = at
        if multiply.unit.reads_shared:
            return self.load(buffer, 0, offset + multiply.unit.shared_place(place, depth, step))
        owner, number = multiply.unit.fragment_owner(width, place, depth)
        return self.load(buffer, group + owner, offset + number)


def _as_size(offset: Scalar) -> Size:
    size = offset.attr("expr") if offset.op is OPS["index"] else offset.attr("value")
    assert isinstance(size, int | SizeExpr), "registers have numbers"
    return size


def _rebuilt(term: Scalar, operands: tuple[Scalar, ...]) -> Scalar:
    return interned(Scalar, term.op, operands, term.attrs, term.type)
