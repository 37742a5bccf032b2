"""The TRACING key: each operator call becomes a call of a graph, and each write a new value of what is written to.

A storage is represented by a Cell: the value that its base tensor holds now. A tensor is a cell seen through view
steps. Reading a view of a cell that has changed replays its steps; writing to a view carries the new value back
through the steps' inverses. So the graph is functional, and what a cell holds at the end is what a traced tensor must
be overwritten with.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, NoReturn

from rushlight.eager.dispatch import STATE, Key, Scope, bit, register_fallback
from rushlight.eager.execution.decompose import run_decomposition
from rushlight.eager.execution.operands import flatten
from rushlight.eager.execution.plan import unfit
from rushlight.eager.execution.views import runs_in_parts, view_plan
from rushlight.eager.handle import Handle, Histories, Version, make
from rushlight.eager.mutation import Mutation, computed_value, written_value
from rushlight.eager.tensor_meta import form_of_type
from rushlight.eager.tracing.attributes import settled
from rushlight.eager.tracing.number import TracedNumber
from rushlight.eager.tracing.sharing import (
    MaybeAlias,
    direct_steps,
    in_doubt,
    overlaps_itself,
    resolve_alias,
    steps_by_strides,
)
from rushlight.ir.dtype import DType, Kind, int64
from rushlight.ir.graph import RELAYOUT, RESULT, GraphBuilder, Node
from rushlight.ir.type import Layout, TensorType, dense_order
from rushlight.ops.record import OPERATORS, UNBACKED, Fact
from rushlight.ops.schema import Parameter
from rushlight.runtime.generator import Generator
from rushlight.support.errors import fail, require
from rushlight.support.provenance import Frame, Stack, user_frames
from rushlight.sym import Origin, OriginKind, SizeExpr
from rushlight.sym import Scope as SizeScope

Step = tuple[Any, tuple[Any, ...], Mapping[str, Any]]
WRITTEN = object()  # see Tracer.gradients_read
_FRAMES = 3  # of the user's, that a call keeps
_OURS = 3  # frames of this package above the user's, at least: `call`, who answers at its key, and who asks for that


class Cell:
    """What a storage holds: the value of its base tensor, and how often it was written to.

    `source` is the lifted tensor; `doubts` are about copies that may share it.
    """

    __slots__ = ("doubts", "node", "source", "writes")

    def __init__(self, node: Node, source: Handle | None = None) -> None:
        self.node = node
        self.writes = 0
        self.source = source
        self.doubts: list[MaybeAlias] = []


class Binding:
    """A tensor as a cell seen through view steps; `node` is its value after `seen` writes."""

    __slots__ = ("cell", "node", "seen", "steps", "tracer")

    def __init__(self, tracer: Tracer, cell: Cell, steps: tuple[Step, ...], node: Node) -> None:
        self.tracer = tracer
        self.cell = cell
        self.steps = steps
        self.node = node
        self.seen = cell.writes


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


def _recorded() -> dict[str, Any]:
    """The state of a trace. Hooks for saved tensors from before it get what the compiled function saves."""
    saving = () if STATE.tracer is None else STATE.saving
    return {"included": STATE.included | bit(Key.TRACING), "grad": STATE.grad, "saving": saving}


class Tracer:
    """Records into a GraphBuilder. Sizes that values give are symbols of `scope` without hints.

    `lift(tensor)` is asked for the type of a tensor from outside that the program reads, `random_state(generator,
    count)` for what stands for the seed and the next ordinal of a random generator, `offset_of(tensor)` for an
    argument's place in its storage. One that `detaches` writes down what has no gradients because of no_grad.
    """

    detaches = refuses_python = False  # the latter: what it records would run without `__torch_dispatch__`

    def __init__(
        self,
        builder: GraphBuilder,
        scope: SizeScope,
        lift: Callable[[Handle], TensorType],
        random_state: Callable[[Generator, int], tuple[object, object]],
        offset_of: Callable[[Any], object] = lambda source: 0,
    ) -> None:
        self.builder, self.scope = builder, scope
        self.lifted: list[Handle] = []
        self.random_state = random_state
        self.memos: dict[Hashable, Any] = {}  # see dispatch.Memo
        self.hooked: dict[int, Handle] = {}  # leaves that gradients arrived at, whose hooks have run, by identity
        # By identity: what a tensor's `grad` was when the program first read it, WRITTEN if it wrote it before.
        self.gradients_read: dict[int, object] = {}
        self.names: dict[int, str] = {}  # what tensors from outside are for people, by identity
        self._lift, self._offset_of = lift, offset_of
        self.histories = Histories()
        self._ties = Ties()
        self._storages: dict[int, Cell] = {}
        self._stack: Stack | None = None

    def active(self) -> Scope:
        """While inside, every operator call of this thread is recorded here."""
        self._stack = Stack(_FRAMES, ours=1)
        return Scope(**_recorded(), tracer=self)

    def close(self) -> None:
        """Unties the tensors that were seen from this trace, and ties them to what they were tied to before."""
        self._ties.undo()
        self.histories.restore()
        self._stack = None
        self.seal()

    def seal(self) -> None:
        """Lets go of who made it, and holds it: from here on no tensor from outside nor random numbers can be read."""
        self._lift = self.random_state = self._offset_of = _refuse_more

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

    def frames(self, ours: int = 1) -> tuple[Frame, ...]:
        """The user's lines of a call; so many frames of who asks are known to be `ours`."""
        return user_frames(_FRAMES) if self._stack is None else self._stack.frames(ours + 1)

    def fake(self, type_: TensorType) -> Any:
        """A tensor without data that is an input of the graph."""
        tensor = make(None, form_of_type(type_))
        self.parameter(tensor, type_)
        return tensor

    def call(self, op: Any, operands: tuple[Any, ...], attrs: Mapping[str, object]) -> Any:
        """Records one operator call; the result is a tensor without data."""
        self.builder.frames = self.frames(_OURS)
        attrs = settled(op, attrs)
        if op.__class__ is Mutation:
            return self._write(op, operands, attrs)
        result = self._recorded(op, operands, attrs)
        return self._detached(result) if self.detaches and not STATE.grad else result

    def _recorded(self, op: Any, operands: tuple[Any, ...], attrs: Mapping[str, object]) -> Any:
        shares = op.shares_rule is not None
        plan = None if shares and self.in_doubt(operands[0]) else view_plan(op, operands, attrs)
        if plan is not None:
            base = self.binding(operands[0])
            result = plan.call(operands)
            steps = (*base.steps, (op, operands[1:], dict(attrs)))
            if Fact.STRIDED in op.facts:
                steps = steps_by_strides(base.cell.node.type, _layout_of(result, base.cell), base.steps)
                self._bind(result, base.cell, steps, self.replayed(steps, base.cell.node))
            else:
                self._bind(result, base.cell, steps, self._apply(op, (base.node, *operands[1:]), attrs))
            return result
        if runs_in_parts(op):
            return run_decomposition(op, Key.TRACING, operands, attrs)
        if op.unbacked_outputs:
            unbacked = [attribute for attribute in op.schema.attributes if attribute.type in UNBACKED]
            attrs = {**attrs, **{output.name: self._unbacked_output(op, operands[0], output) for output in unbacked}}
        result = self._apply(op, operands, attrs)
        if isinstance(result, tuple):
            return tuple([self.wrap(element) for element in result])
        made = self.wrap(result)
        if shares and operands[0].form.symbolic:
            doubt = MaybeAlias(operands[0], (op, operands[1:], dict(attrs)), made)
            for tensor in (operands[0], made):
                self.binding(tensor).cell.doubts.append(doubt)
        return made

    def record(self, op: object, operands: tuple[Any, ...], attrs: Mapping[str, Any]) -> tuple[Any, ...]:
        """Records a call on nodes and returns its results: tensors without data and without history."""
        self.builder.frames = self.frames()
        results = tuple([self.wrap(output) for output in self.builder.apply(op, operands, attrs)])
        return self._detached(results) if self.detaches and not STATE.grad else results

    def _detached(self, result: Any) -> Any:
        if isinstance(result, tuple):
            return tuple([self._detached(element) for element in result])
        return self._recorded(OPERATORS["detach"], (result,), {}) if result.form.dtype.kind >= Kind.FLOAT else result

    def _unbacked_output(self, op: Any, operand: Handle, parameter: Parameter) -> SizeExpr:
        """A size that a call of an operator will tell."""
        frames, lower = self.builder.frames, UNBACKED[parameter.type]
        truth = lower is None and operand.form.dtype.kind is Kind.BOOL
        description = f"{'' if lower is None else 'a size of '}{op.name}() of {self.origin(operand).what}"
        kind = OriginKind.TRUTH if truth else OriginKind.VALUE
        return self.scope.symbol(lower=lower, source=Origin(description, kind, frames[0] if frames else None))

    def origin(self, tensor: Handle) -> Origin:
        """Where a tensor's elements come from: an argument, or a call and its line."""
        cell = self.binding(tensor).cell
        if cell.source is not None and not cell.writes:
            return Origin(self.names.get(id(cell.source), "a tensor from outside"), OriginKind.VALUE)
        call = cell.node.call
        while call.op is RESULT or call.op is RELAYOUT:
            call = call.operands[0]
        return Origin(f"{call.op.name}()", OriginKind.VALUE, call.frames[0] if call.frames else None)

    def size(self, tensor: Handle) -> SizeExpr:
        """The one element of an integer tensor as a size."""
        size: SizeExpr = OPERATORS["item"](tensor).node.node.call.attr("value")
        return size

    def wrap(self, node: Node) -> Any:
        """A tensor that stands for a fresh value."""
        tensor = make(None, form_of_type(node.type))
        self._bind(tensor, Cell(node), (), node)
        return tensor

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
        return tensor.offset + _in_elements_of(tensor, self.binding(tensor).cell.source, self._offset_of)

    def node(self, tensor: Handle) -> Node:
        """The tensor's value now."""
        return self.binding(tensor).node

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
            steps = direct_steps(base.cell.node.type, tensor.view_of.steps, _layout_of(tensor, base.cell), Fact.STRIDED)
            return self._bind(tensor, base.cell, steps, self.replayed(steps, base.cell.node))
        storage = tensor.storage
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

    def resolve_alias(self, tensor: Handle) -> None:
        """Settles what shares memory with a tensor that is going to be written to."""
        resolve_alias(self, tensor)

    def in_doubt(self, tensor: Handle) -> bool:
        """Whether a tensor is a copy, or a view of one, that may be a view of something else."""
        binding = tensor.node
        return binding is not None and binding.tracer is self and in_doubt(binding.cell)

    def seen(self) -> Iterator[Handle]:
        """The tensors of the trace so far."""
        return iter(self._ties.tensors())

    def _write(self, op: Mutation, operands: tuple[Any, ...], attrs: Mapping[str, object]) -> Any:
        target: Handle = op.target_of(operands)
        self.resolve_alias(target)
        binding = self.binding(target)
        base = op.base_operands(operands)
        nodes = tuple([self._operand(node) for node in base])
        nodes = tuple([Node(self.builder, self.builder.operand(node)) if _is_number(node) else node for node in nodes])
        require(
            op.fills or not overlaps_itself(target, binding),
            "S013",
            f"{op.name}: the target's elements overlap",
            target=target.form.type,
        )
        type_ = binding.node.type
        _check_numbers(base, type_.dtype if op.base is None or Fact.FITTING in op.base.facts else None)
        value = computed_value(self.builder, op, nodes, attrs)
        op.check(type_, value.type)
        value = self.builder.laid_out(written_value(op, value, type_), type_)
        cell = binding.cell
        cell.node = _carried_back(self, binding, target, value)
        cell.writes += 1
        binding.node, binding.seen = value, cell.writes
        self._ties.count(target.version, 1)
        return target


def _carried_back(tracer: Tracer, binding: Binding, target: Handle, value: Node) -> Node:
    """The base's value once the view that `binding` is holds `value`.

    Step by step; but places that a step shows several times would keep what they held there: see `direct_steps`.
    """
    base = binding.cell.node
    steps = direct_steps(base.type, binding.steps, _layout_of(target, binding.cell))
    bases = [base]
    for step in steps[:-1]:
        bases.append(tracer.replayed((step,), bases[-1]))
    for whole, (op, _, attrs) in zip(reversed(bases), reversed(steps), strict=False):
        value = op.inverse_rule(whole, value, **attrs)
    dense = dense_order(base.type.shape, base.type.strides) is not None
    return tracer.builder.laid_out(value, base.type) if dense else value


def _layout_of(tensor: Handle, cell: Cell) -> Layout:
    """Where a tensor's elements lie in the memory of its cell's base."""
    form, source = tensor.form, cell.source
    start = _in_elements_of(tensor, source, lambda layout: 0 if layout is None else layout.offset)
    return Layout(tuple(form.shape), form.strides, tensor.offset - start, form.dtype)


def _in_elements_of(tensor: Handle, source: Handle | None, offset_of: Callable[[Any], Any]) -> Any:
    """The offset of `source` counted in elements of a view of it, which may have another width."""
    offset = offset_of(source)
    if source is None or source.form.dtype.itemsize == tensor.form.dtype.itemsize:
        return offset
    return offset * source.form.dtype.itemsize // tensor.form.dtype.itemsize


def _refuse_more(*message: object) -> NoReturn:
    fail("G015", "backward: a hook or a Function's backward reads what the function did not read")


def _fitting(op: Any, operands: tuple[object, ...], result: Any) -> Any:
    _check_numbers(operands, result.type.dtype if Fact.FITTING in op.facts else None)
    return result


def _check_numbers(operands: tuple[object, ...], fitting: DType | None) -> None:
    """Refuses numbers that `fitting`, or int64, cannot hold, as plans do; guards run-time ones."""
    for operand in flatten(operands):
        dtype = fitting or (int64 if operand.__class__ is int else None)
        if dtype is not None and operand.__class__ in (int, float, complex) and not dtype.holds(operand):
            unfit(operand, dtype.name)
        if fitting is None or not fitting.is_integer or operand.__class__ is not TracedNumber:
            continue
        if not (operand.is_integer and fitting.bits == 64) and not fitting.holds(operand):
            unfit(operand.value, fitting.name)


def _is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float, complex))


def _record(op: object, active: int, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Any:
    """The boxed kernel that answers every operator at the TRACING key."""
    return STATE.tracer.call(op, operands, attrs)


register_fallback(Key.TRACING, _record, leaf=True)
