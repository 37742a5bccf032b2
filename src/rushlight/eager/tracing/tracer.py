"""The TRACING key: each operator call becomes a call of a graph, and each write a new value of what is written to.

Which value of the graph a tensor holds is in `tensor_values.py`.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NoReturn

from rushlight.eager.autograd.node import SEQUENCE
from rushlight.eager.dispatch import STATE, Key, Scope, bit, register_fallback, set_settling
from rushlight.eager.execution.decompose import run_decomposition
from rushlight.eager.execution.views import runs_in_parts, view_plan
from rushlight.eager.handle import Handle, Histories
from rushlight.eager.mutation import Mutation, computed_value, written_value
from rushlight.eager.tracing.attributes import settled
from rushlight.eager.tracing.sharing import (
    MaybeAlias,
    overlaps_itself,
    steps_by_strides,
)
from rushlight.eager.tracing.tensor_values import TensorValues, carried_back, check_numbers, layout_of
from rushlight.ir.dtype import Kind
from rushlight.ir.graph import RELAYOUT, RESULT, GraphBuilder, Node
from rushlight.ir.type import TensorType
from rushlight.ops.record import OPERATORS, UNBACKED, Fact
from rushlight.ops.schema import Parameter
from rushlight.runtime.generator import Generator
from rushlight.support.errors import fail, require
from rushlight.support.provenance import Frame, Stack, user_frames
from rushlight.sym import Origin, OriginKind, SizeExpr
from rushlight.sym import Scope as SizeScope

WRITTEN = object()  # see Tracer.gradients_read
_FRAMES = 3  # of the user's, that a call keeps
_OURS = 3  # frames of this package above the user's, at least: `call`, who answers at its key, and who asks for that


def _recorded() -> dict[str, Any]:
    """The state of a trace. Hooks for saved tensors from before it get what the compiled function saves."""
    saving = () if STATE.tracer is None else STATE.saving
    return {"included": STATE.included | bit(Key.TRACING), "grad": STATE.grad, "saving": saving}


def _call(function: Callable[[], Any]) -> Any:
    return function()


class Tracer(TensorValues):
    """Records into a GraphBuilder. Sizes that values give are symbols of `scope` without hints.

    `random_state(generator, count)` is asked for what stands for the seed and the next ordinal of a random generator,
    `lift` and `offset_of` are those of TensorValues. One that `detaches` writes down what has no gradients because of
    no_grad.
    """

    detaches = False
    refuses_python = False  # whether what it records would run without `__torch_dispatch__`
    most_elements = sys.maxsize  # of a tensor whose `tolist` is part of the graph
    derives = False  # whether what runs is a backward pass for calls to come, of which somebody may want a part
    first_step = 0  # by sequence number; backward passes of the trace refuse to run earlier steps of the tape
    takes_wrappers = False  # whether tensors of subclasses may be asked for it that the trace has made

    def __init__(
        self,
        builder: GraphBuilder,
        scope: SizeScope,
        lift: Callable[[Handle], TensorType],
        random_state: Callable[[Generator, int], tuple[object, object]],
        offset_of: Callable[[Any], object] = lambda source: 0,
    ) -> None:
        super().__init__(builder, lift, offset_of)
        self.scope = scope
        self.random_state = random_state
        self.memos: dict[Hashable, Any] = {}  # see dispatch.Memo
        self.behind: Callable[[Callable[[], Any]], Any] = _call  # calls what is traced behind the program, as gradients
        self.hooked: dict[int, Handle] = {}  # leaves that gradients arrived at, whose hooks have run, by identity
        # By identity: what a tensor's `grad` was when the program first read it, WRITTEN if it wrote it before.
        self.gradients_read: dict[int, object] = {}
        self.revised: dict[int, tuple[Any, int]] = {}  # custom operators that were called, and their revisions
        self.names: dict[int, str] = {}  # what tensors from outside are for people, by identity
        self.histories = Histories()
        # Tensors, by identity, of which the program has set more than elements, and tables of hooks; and when it did.
        self.changes: dict[int, tuple[object, int]] = {}
        # Tensors of subclasses that hold others, by identity: those of the trace, and which of them stand for inputs.
        self.wrappers: dict[int, Handle] = {}
        self.given: set[int] = set()
        self.goes_on = False  # whether the trace ends within the function, which goes on with what the graph gives
        self._stack: Stack | None = None
        self._within: list[int] = []  # the regions that have been entered and not left
        self._starts: list[int] = []  # sequence numbers of the tape from which on steps are of `_regions`
        self._regions: list[int | None] = []

    def note_wrapper(self, tensor: Handle) -> None:
        """Notes that the trace made a tensor of a subclass that holds others: it is no value of the graph."""
        self.wrappers[id(tensor)] = tensor

    def has_made(self, wrapper: Handle) -> bool:
        """Whether the program made such a tensor itself."""
        return id(wrapper) in self.wrappers and id(wrapper) not in self.given

    def refuse_given(self, tensor: Handle) -> None:
        """C036 where the gradient is read of what stands for a tensor of a subclass."""
        refused = id(tensor) in self.given
        require(not refused, "C036", "compile: the gradient of a tensor of a subclass is read", tensor=tensor)

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
        self.behind = _call

    def enter_region(self, number: int) -> int | None:
        """Calls belong to a region from here on; gives what `leave_region` takes."""
        outer = self.builder.region
        self.builder.region = number
        self._within.append(number)
        self._begin_region()
        return outer

    def leave_region(self, outer: int | None) -> None:
        """Ends a region. Steps of the tape that were made in it belong to it too."""
        self._within.pop()
        self._begin_region()
        self.builder.region = outer

    def _begin_region(self) -> None:
        self._starts.append(next(SEQUENCE))
        self._regions.append(self._within[-1] if self._within else None)

    def begin_step(self, sequence: int) -> None:
        """The calls from here on are of a step of a backward pass: they belong to the region that its forward did."""
        at = bisect_right(self._starts, sequence)
        self.builder.region = self._regions[at - 1] if at else None

    def frames(self, ours: int = 1) -> tuple[Frame, ...]:
        """The user's lines of a call; so many frames of who asks are known to be `ours`."""
        return user_frames(_FRAMES) if self._stack is None else self._stack.frames(ours + 1)

    def call(self, op: Any, operands: tuple[Any, ...], attrs: Mapping[str, object]) -> Any:
        """Records one operator call; the result is a tensor without data."""
        self.builder.frames = self.frames(_OURS)
        if op.__class__ is Mutation:
            return self._write(op, operands, attrs)
        result = self._recorded(op, operands, attrs)
        return self._detached(result) if self.detaches and not STATE.grad else result

    def _recorded(self, op: Any, operands: tuple[Any, ...], attrs: Mapping[str, object]) -> Any:
        shares = op.shares_rule is not None
        if Fact.PLACED in op.facts and self.in_doubt(operands[0]):
            self.resolve_alias(operands[0])
        doubted = shares and self.in_doubt(operands[0])
        plan = None if doubted else view_plan(op, operands, attrs)
        if plan is not None:
            base = self.binding(operands[0])
            result = plan.call(operands)
            steps = (*base.steps, (op, operands[1:], dict(attrs)))
            if Fact.STRIDED in op.facts:
                steps = steps_by_strides(base.cell.type, layout_of(result, base.cell), base.steps)
                self._bind(result, base.cell, steps, self.replayed(steps, base.cell.node))
            else:
                self._bind(result, base.cell, steps, self._apply(op, (base.node, *operands[1:]), attrs))
            return result
        if runs_in_parts(op, operands, attrs):
            return run_decomposition(op, Key.TRACING, operands, attrs)
        if op.unbacked_outputs:
            unnamed = [attribute for attribute in op.schema.attributes if not attrs.get(attribute.name)]
            unbacked = [attribute for attribute in unnamed if attribute.type in UNBACKED]
            attrs = {**attrs, **{output.name: self._unbacked_output(op, operands[0], output) for output in unbacked}}
        result = self._apply(op, operands, attrs)
        if isinstance(result, tuple):
            return tuple([self.wrap(element) for element in result])
        made = self.wrap(result)
        if doubted or (shares and operands[0].form.symbolic):
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

    def constant(self, tensor: Handle) -> Any:
        """What stands for a new tensor of Python's data: each run has the elements that it has now, in new memory."""
        return self.wrap(self.binding(tensor).node)

    def note_place(self, tensor: Handle, change: str) -> None:
        """Notes that a tensor's place in autograd is set. G016 for one from outside: the trace is not its only user."""
        if tensor.backing is not None or self.binding(tensor).cell.source is tensor:
            fail("G016", f"{change}: the tensor is an input of the function that is traced", tensor=tensor)
        self.note_change(tensor)

    def note_change(self, changed: object, cause: object = None) -> None:
        """Notes when what no graph has was set of a tensor, or of a table of hooks, or when its `cause` was."""
        moment = self.changes[id(cause)][1] if id(cause) in self.changes else self.moment
        self.changes.setdefault(id(changed), (changed, moment))

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

    def _over(self, target: Handle, op: Mutation, value: Node) -> Node:
        """What a tensor holds after a write of `value`."""
        return value

    def _write(self, op: Mutation, operands: tuple[Any, ...], attrs: Mapping[str, object]) -> Any:
        target: Handle = op.target_of(operands)
        self.resolve_alias(target)
        binding = self.binding(target)
        base = op.base_operands(operands)
        nodes = tuple([self._operand(node) for node in base])
        nodes = tuple([Node(self.builder, self.builder.operand(node)) if _is_number(node) else node for node in nodes])
        require(
            not overlaps_itself(target, binding, op.fills),
            "S013",
            f"{op.name}: the target's elements overlap",
            target=target.form.type,
        )
        type_ = binding.node.type
        check_numbers(base, type_.dtype if op.base is None or Fact.FITTING in op.base.facts else None)
        value = computed_value(self.builder, op, nodes, attrs)
        op.check(type_, value.type)
        value = self.builder.laid_out(self._over(target, op, written_value(op, value, type_)), type_)
        cell = binding.cell
        cell.node = carried_back(self, binding, target, value)
        cell.writes += 1
        binding.node, binding.seen = value, cell.writes
        self._ties.count(target.version, 1)
        return target


def _refuse_more(*message: object) -> NoReturn:
    fail("G015", "backward: a hook or a Function's backward reads what the function did not read")


def _is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float, complex))


def _record(op: object, active: int, operands: tuple[object, ...], attrs: Mapping[str, object]) -> Any:
    """The boxed kernel that answers every operator at the TRACING key."""
    return STATE.tracer.call(op, operands, attrs)


register_fallback(Key.TRACING, _record, leaf=True)
set_settling(settled)
