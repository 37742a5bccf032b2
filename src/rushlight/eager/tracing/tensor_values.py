"""What each tensor holds while a function is traced: a value of the graph.

A storage is represented by a Cell: the value that its base tensor holds now. A tensor is a cell seen through view
steps. Reading a view of a cell that has changed replays its steps; writing to a view carries the new value back
through the steps' inverses. So the graph is functional, and what a cell holds at the end is what a traced tensor must
be overwritten with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from rushlight.eager.execution.operands import flatten
from rushlight.eager.execution.plan import unfit
from rushlight.eager.handle import Handle, Version, make
from rushlight.eager.tensor_meta import form_of_type
from rushlight.eager.tracing.number import TracedNumber
from rushlight.eager.tracing.sharing import MaybeAlias, direct_steps, in_doubt, resolve_alias
from rushlight.ir.dtype import DType, int64
from rushlight.ir.graph import GraphBuilder, Node
from rushlight.ir.type import CPU, Layout, TensorType, dense_order, in_elements_of
from rushlight.ops.record import OPERATORS, Fact
from rushlight.support.errors import fail

Step = tuple[Any, tuple[Any, ...], Mapping[str, Any]]
_NUMBERS = frozenset((int, float, complex, TracedNumber, tuple))  # and tuples, which may hold some


class Cell:
    """What a storage holds: the value of its base tensor, and how often it was written to.

    `source` is the lifted tensor; `doubts` are about copies that may share it. `type` says how the memory lies: a value
    that was written into memory with gaps lies row-major itself.
    """

    __slots__ = ("doubts", "node", "source", "type", "writes")

    def __init__(self, node: Node, source: Handle | None = None) -> None:
        self.node = node
        self.type = node.type
        self.writes = 0
        self.source = source
        self.doubts: list[MaybeAlias] = []


class Binding:
    """A tensor as a cell seen through view steps; `node` is its value after `seen` writes.

    `moment` is when the trace first saw it.
    """

    __slots__ = ("cell", "moment", "node", "seen", "steps", "tracer")

    def __init__(self, tracer: TensorValues, cell: Cell, steps: tuple[Step, ...], node: Node) -> None:
        self.tracer = tracer
        self.cell = cell
        self.steps = steps
        self.node = node
        self.seen = cell.writes
        self.moment = tracer.moment


class Ties:
    """What a trace puts on tensors until it is closed: bindings, and counts of writes that have not happened."""

    __slots__ = ("_bound", "_counted")

    def __init__(self) -> None:
        self._bound: list[tuple[Handle, Any]] = []
        self._counted: list[tuple[Version, int]] = []

    def tie(self, tensor: Handle, binding: Binding) -> None:
        """Ties a tensor to a binding."""
        self._bound.append((tensor, tensor.node))
        tensor.node = binding

    def count(self, version: Version, writes: int) -> None:
        """Moves a counter on."""
        self._counted.append((version, writes))
        version.value += writes

    def tensors(self) -> list[Handle]:
        """All that were tied, in order."""
        return [tensor for tensor, _ in self._bound]

    def undo(self) -> None:
        """Makes tensors what they were; right also when it is begun again."""
        for tensor, before in reversed(self._bound):
            tensor.node = before
        self._bound.clear()
        while self._counted:
            version, writes = self._counted.pop()
            version.value -= writes


class TensorValues:
    """The tensors that a trace has seen, each bound to a value of `builder`'s graph.

    `lift(tensor)` is asked for the type of a tensor from outside when the program first reads it; `offset_of(tensor)`
    for an argument's place in its storage. `moment` is set by who runs the program, and counts its steps.
    `elsewhere(type)` may refuse a value that would be made on another device than the CPU.
    """

    moment = 0
    elsewhere: Callable[[TensorType], None] | None = None

    def __init__(
        self, builder: GraphBuilder, lift: Callable[[Handle], TensorType], offset_of: Callable[[Any], object]
    ) -> None:
        self.builder = builder
        self.lifted: list[Handle] = []
        self._lift, self._offset_of = lift, offset_of
        self._ties = Ties()
        self._storages: dict[int, Cell] = {}

    def bindings(self) -> list[tuple[Handle, Any, int]]:
        """What the tensors that were seen are tied to, and how often they were written to, for `reopen`."""
        return [(tensor, tensor.node, tensor.version.value) for tensor in self._ties.tensors()]

    def reopen(self, bindings: Iterable[tuple[Handle, Any, int]]) -> None:
        """Ties tensors of this trace again, until it is closed again, so that more can be recorded."""
        for tensor, binding, writes in bindings:
            self._ties.tie(tensor, binding)
            self._ties.count(tensor.version, writes - tensor.version.value)

    def parameter(self, tensor: Handle, type_: TensorType) -> Node:
        """Makes a tensor an input of the graph."""
        node = self.builder.parameter(f"in{len(self.lifted)}", type_)
        self.lifted.append(tensor)
        self._bind(tensor, Cell(node, tensor), (), node)
        return node

    def fake(self, type_: TensorType, cls: type[Handle] | None = None) -> Any:
        """A tensor without data that is an input of the graph."""
        tensor = make(None, form_of_type(type_), cls=cls)
        self.parameter(tensor, type_)
        return tensor

    def wrap(self, node: Node) -> Any:
        """A tensor that stands for a fresh value."""
        if self.elsewhere is not None and node.type.device is not CPU:
            self.elsewhere(node.type)
        tensor = make(None, form_of_type(node.type))
        self._bind(tensor, Cell(node), (), node)
        return tensor

    def share(self, tensor: Handle, other: Handle) -> None:
        """Makes another tensor show all of one, without its history."""
        binding = self.binding(tensor)
        self._bind(other, binding.cell, (*binding.steps, (OPERATORS["detach"], (), {})), binding.node)

    def is_result(self, tensor: Handle) -> bool:
        """Whether an operator of this trace gave the tensor: no input is one, nor a tensor that nothing has read."""
        binding = tensor.node
        if tensor.backing is not None or binding is None or binding.tracer is not self:
            return False
        return not any(tensor is lifted for lifted in self.lifted)

    def shows_the_same(self, tensor: Handle, other: Handle) -> bool:
        """Whether two tensors are all of one memory, in one form."""
        mine, others = self.binding(tensor), self.binding(other)
        if mine.cell is not others.cell or tensor.form.type != other.form.type:
            return False
        return all(op is OPERATORS["detach"] for op, _, _ in (*mine.steps, *others.steps))

    def binding(self, tensor: Handle) -> Binding:
        """The tensor's cell and steps, with its value brought up to date; tensors from outside become inputs."""
        binding = tensor.node
        if binding is None or binding.tracer is not self:
            binding = self._lifted(tensor)
        if binding.seen != binding.cell.writes:
            binding.node, binding.seen = self.replayed(binding.steps, binding.cell.node), binding.cell.writes
        return binding

    def replayed(self, steps: tuple[Step, ...], node: Node) -> Node:
        """The view that steps make of a value."""
        for op, others, attrs in steps:
            node = self._apply(op, (node, *others), attrs)
        return node

    def offset(self, tensor: Handle) -> Any:
        """The place of a tensor's first element in its storage. That of an argument is guarded."""
        source = self.binding(tensor).cell.source
        start: Any = self._offset_of(source)
        if source is not None:
            start = in_elements_of(tensor.form.dtype, start, source.form.dtype)
        return tensor.offset + start

    def node(self, tensor: Handle) -> Node:
        """The tensor's value now."""
        return self.binding(tensor).node

    def in_doubt(self, tensor: Handle) -> bool:
        """Whether a tensor is a copy, or a view of one, that may be a view of something else."""
        binding = tensor.node
        return binding is not None and binding.tracer is self and in_doubt(binding.cell)

    def resolve_alias(self, tensor: Handle) -> None:
        """Settles what shares memory with a tensor that is going to be written to."""
        resolve_alias(self, tensor)

    def seen(self) -> Iterator[Handle]:
        """The tensors of the trace so far."""
        return iter(self._ties.tensors())

    def _apply(self, op: object, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Any:
        nodes = [
            self.binding(operand).node if isinstance(operand, Handle) else self._operand(operand)
            for operand in operands
        ]
        return _fitting(op, operands, self.builder.apply(op, tuple(nodes), attrs))

    def _operand(self, operand: object) -> Any:
        if isinstance(operand, Handle):
            return self.binding(operand).node
        return tuple([self._operand(part) for part in operand]) if isinstance(operand, (tuple, list)) else operand

    def _bind(self, tensor: Handle, cell: Cell, steps: tuple[Step, ...], node: Node) -> Binding:
        binding = Binding(self, cell, steps, node)
        self._ties.tie(tensor, binding)
        return binding

    def _lifted(self, tensor: Handle) -> Binding:
        """A tensor from outside.

        A view is taken as a view of its base, a second tensor on a storage shares its cell.
        """
        if tensor.view_of is not None:
            base = self.binding(tensor.view_of.base)
            steps = direct_steps(base.cell.type, tensor.view_of.steps, layout_of(tensor, base.cell), Fact.STRIDED)
            return self._bind(tensor, base.cell, steps, self.replayed(steps, base.cell.node))
        storage = tensor.backing
        same = self._storages.get(id(storage)) if storage is not None else None
        if same is not None and same.source is not None:
            if same.source.form is not tensor.form or same.source.offset != tensor.offset:
                fail(
                    "C012",
                    "two tensors show different parts of one storage",
                    hint="make one of them a view of the other",
                )
            return self._bind(tensor, same, (), same.node)
        self.parameter(tensor, self._lift(tensor))
        if storage is not None:
            self._storages[id(storage)] = tensor.node.cell
        return tensor.node


def carried_back(values: TensorValues, binding: Binding, target: Handle, value: Node) -> Node:
    """The base's value once the view that `binding` is holds `value`.

    Step by step; but places that a step shows several times would keep what they held there: see `direct_steps`.
    """
    memory = binding.cell.type
    steps = direct_steps(memory, binding.steps, layout_of(target, binding.cell))
    bases = [binding.cell.node]
    for step in steps[:-1]:
        bases.append(values.replayed((step,), bases[-1]))
    for whole, (op, _, attrs) in zip(reversed(bases), reversed(steps), strict=False):
        value = op.inverse_rule(whole, value, **attrs)
    dense = dense_order(memory.shape, memory.strides) is not None
    return values.builder.laid_out(value, memory) if dense else value


def layout_of(tensor: Handle, cell: Cell) -> Layout:
    """Where a tensor's elements lie in the memory of its cell's base."""
    form, source = tensor.form, cell.source
    start = 0 if source is None else in_elements_of(form.dtype, source.offset, source.form.dtype)
    return Layout(tuple(form.shape), form.strides, tensor.offset - start, form.dtype)


def _fitting(op: Any, operands: tuple[object, ...], result: Any) -> Any:
    # Most calls have no number: asking the operator for its facts costs more than looking.
    if not _NUMBERS.isdisjoint(map(type, operands)):
        check_numbers(operands, result.type.dtype if Fact.FITTING in op.facts else None)
    return result


def check_numbers(operands: tuple[object, ...], fitting: DType | None) -> None:
    """Refuses numbers that `fitting`, or int64, cannot hold, as plans do; guards run-time ones."""
    for operand in flatten(operands):
        dtype = fitting or (int64 if operand.__class__ is int else None)
        if dtype is not None and operand.__class__ in (int, float, complex) and not dtype.holds(operand):
            unfit(operand, dtype.name)
        if fitting is None or not fitting.is_integer or operand.__class__ is not TracedNumber:
            continue
        if not (operand.is_integer and fitting.bits == 64) and not fitting.holds(operand):
            unfit(operand.value, fitting.name)
