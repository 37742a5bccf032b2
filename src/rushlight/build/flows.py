"""From a graph with branches and loops to a flow: native graphs, and the steps that run them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rushlight.build.index_asserts import with_index_asserts
from rushlight.build.inlining import inlined
from rushlight.build.segments import HostStep, NativeStep, cut_at_unbacked_outputs
from rushlight.ir.dtype import bool_, int64
from rushlight.ir.flow.frame import (
    MOVING,
    Branches,
    BufferCopy,
    Carry,
    Flow,
    FlowStep,
    Frame,
    NativeRun,
    ScanLoop,
    WhileLoop,
)
from rushlight.ir.graph import NUMBER, PARAMETER, Call, Graph, Inner, with_dense_outputs
from rushlight.ir.plan import Assertion, Launch
from rushlight.ir.scalar import Buffer
from rushlight.ir.type import TensorType, dense_order, row_major
from rushlight.ops import control
from rushlight.schedule.memory.arena import plan_memory
from rushlight.schedule.plan import assertion_of, known_assertions, symbol_sources
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen
from rushlight.sym import Branch, SizeExpr, is_symbol
from rushlight.term import Op


@frozen(eq=False)
class NativeGraph:
    """A graph that is compiled as a whole. If it lies in a branch, more is known of sizes there."""

    graph: Graph
    branch: Branch | None

    def within(self) -> AbstractContextManager[object]:
        """While inside, what the branch knows holds."""
        return nullcontext() if self.branch is None else self.branch.scope.within(self.branch)


def make_flow(graph: Graph) -> tuple[Flow, tuple[NativeGraph, ...]]:
    """The flow of a graph, and the graphs that it runs, by number.

    All sizes are those of parameters and results.
    """
    return _Maker(graph).made()


class _Maker:
    def __init__(self, graph: Graph) -> None:
        self.graph = with_dense_outputs(inlined(graph))
        self.natives: list[NativeGraph] = []
        self.equal: list[tuple[SizeExpr, Any]] = []
        self.numbers: list[tuple[Buffer, complex]] = []

    def made(self) -> tuple[Flow, tuple[NativeGraph, ...]]:
        """The flow."""
        graph = self.graph
        inputs = tuple([Buffer(f"in{at}", call.type) for at, call in enumerate(graph.parameters)])
        outputs = tuple([Buffer(f"out{at}", call.type) for at, call in enumerate(graph.outputs)])
        sources = symbol_sources([buffer.type for buffer in (*inputs, *outputs)])
        frame = _FrameMaker(self, graph, None, inputs, outputs).made(known_assertions(sources))
        return Flow(inputs, outputs, sources, tuple(self.equal), tuple(self.numbers), frame), tuple(self.natives)

    def inner(self, inner: Inner, parameters: Sequence[Buffer], targets: Sequence[Buffer]) -> Frame:
        """The frame of a graph inside, on buffers that lie as its parameters say."""
        graph = with_dense_outputs(with_index_asserts(inlined(inner.graph)))
        for call, buffer in zip(graph.parameters, parameters, strict=True):
            for size, given in zip(call.type.shape, buffer.type.shape, strict=True):
                if isinstance(size, SizeExpr) and is_symbol(size) and size is not given:
                    self.equal.append((size, given))
        with inner.branch.scope.within(inner.branch):
            asserts = list(map(assertion_of, inner.branch.asserts))
            return _FrameMaker(self, graph, inner.branch, parameters, targets).made(asserts)

    def native(self, graph: Graph, branch: Branch | None) -> int:
        """The number of a graph that is compiled."""
        self.natives.append(NativeGraph(graph, branch))
        return len(self.natives) - 1


class _FrameMaker:
    """Makes the frame of one graph. Results lie in `targets`, values that steps hand on in the arena."""

    def __init__(
        self,
        maker: _Maker,
        graph: Graph,
        branch: Branch | None,
        parameters: Sequence[Buffer],
        targets: Sequence[Buffer],
    ) -> None:
        self.maker = maker
        self.graph = graph
        self.branch = branch
        self.results = list(zip(graph.outputs, targets, strict=True))
        self.values = {id(call): buffer for call, buffer in zip(graph.parameters, parameters, strict=True)}
        self.targets: dict[int, Buffer] = {}
        for call, target in self.results:
            self.targets.setdefault(id(call), target)
        self.steps: list[FlowStep] = []
        self.uses: list[Launch] = []

    def made(self, asserts: Sequence[Assertion]) -> Frame:
        """The frame, which checks `asserts` first."""
        for step in cut_at_unbacked_outputs(self.graph):
            if isinstance(step, NativeStep):
                self.native(step)
            elif isinstance(step, HostStep):
                _CONTROL[step.call.op](self, step)
            else:
                fail("X001", "flow: a size is known only when the program runs")
        for call, target in self.results:
            source = self.targets[id(call)]
            if source is not target:
                self.add(BufferCopy(source, target), [source, target])
        slots = plan_memory(self.uses, ())
        return Frame(tuple(asserts), slots, tuple(self.steps))

    def add(self, step: FlowStep, buffers: Sequence[Buffer]) -> None:
        """Adds a step that uses some buffers."""
        self.steps.append(step)
        self.uses.append(Launch(0, tuple(dict.fromkeys(buffers)), 1, 1))

    def buffer(self, type_: TensorType, scope: str = "arena") -> Buffer:
        """A buffer that is used here alone."""
        return Buffer(f"v{len(self.uses)}", type_, scope)

    def made_by(self, call: Call) -> Buffer:
        """The buffer of a value that a step makes."""
        type_: TensorType = call.type
        buffer = self.targets.get(id(call))
        if buffer is None:
            dense = dense_order(type_.shape, type_.strides) is not None
            buffer = self.buffer(type_ if dense else row_major(type_))
        if call.op is not PARAMETER:
            self.values[id(call)] = buffer
        return buffer

    def operand(self, call: Call) -> Buffer:
        """The buffer of an operand of control flow."""
        if call.op is NUMBER:
            buffer = self.buffer(call.type, "number")
            self.maker.numbers.append((buffer, call.attr("value")))
            return buffer
        return self.values[id(call)]

    def native(self, step: NativeStep) -> None:
        """Adds native code."""
        reads = [self.values[id(call)] for call in step.reads]
        if step.sizes:
            reads.append(Buffer("sizes", TensorType(step.sizes, int64, strides=(0,) * len(step.sizes)), "sizes"))
        writes = [self.made_by(call) for call in step.makes]
        run = NativeRun(self.maker.native(step.graph, self.branch), (*reads, *writes))
        self.add(run, run.buffers)

    def results_of(self, step: HostStep) -> list[Buffer]:
        """The buffers of the results of control flow."""
        types: Sequence[TensorType] = step.call.type
        return [
            self.buffer(type_) if call is None else self.made_by(call)
            for call, type_ in zip(step.results, types, strict=True)
        ]

    def cond(self, step: HostStep) -> None:
        """Adds a branch."""
        predicate, operands = step.call.operands
        flag, given = self.operand(predicate), [self.operand(one) for one in operands]
        results = self.results_of(step)
        yes, no = [self.maker.inner(inner, given, results) for inner in step.call.attr("branches")]
        self.add(Branches(flag, (yes, no)), [flag, *given, *results])

    def carries(self, initial: Sequence[Buffer], results: Sequence[Buffer]) -> tuple[Carry, ...]:
        """What a loop carries."""
        carries: list[Carry] = []
        for buffer, last in zip(initial, results, strict=True):
            type_ = row_major(buffer.type)
            now, following = [self.buffer(type_, MOVING) for _ in range(2)]
            carries.append(Carry(buffer, now, following, (self.buffer(type_), self.buffer(type_)), last))
        return tuple(carries)

    def loop(self, step: FlowStep, carries: Sequence[Carry], others: Sequence[Buffer]) -> None:
        """Adds a loop."""
        own = [buffer for carry in carries for buffer in (carry.initial, *carry.spares, carry.last)]
        self.add(step, [*own, *others])

    def while_loop(self, step: HostStep) -> None:
        """Adds a loop that values end."""
        initial, others = [[self.operand(one) for one in part] for part in step.call.operands]
        carries = self.carries(initial, self.results_of(step))
        flag = self.buffer(TensorType((), bool_))
        condition, body = step.call.attr("bodies")
        given = [*[carry.now for carry in carries], *others]
        asks = self.maker.inner(condition, given, [flag])
        steps = self.maker.inner(body, given, [carry.following for carry in carries])
        self.loop(WhileLoop(carries, flag, asks, steps), carries, [*others, flag])

    def scan(self, step: HostStep) -> None:
        """Adds a loop over slices."""
        call = step.call
        initial, xs, others = [[self.operand(one) for one in part] for part in call.operands]
        results = self.results_of(step)
        carries = self.carries(initial, results[: len(initial)])
        stacked = results[len(initial) :]
        parts = [self.buffer(_slice(whole.type), MOVING) for whole in (*xs, *stacked)]
        given = [*[carry.now for carry in carries], *parts[: len(xs)], *others]
        made = [*[carry.following for carry in carries], *parts[len(xs) :]]
        body = self.maker.inner(call.attr("body"), given, made)
        slices = tuple(zip((*xs, *stacked), parts, strict=True))
        loop = ScanLoop(carries, slices, call.attr("length"), call.attr("reverse"), body)
        self.loop(loop, carries, [*xs, *stacked, *others])


_CONTROL: dict[Op, Callable[[_FrameMaker, HostStep], None]] = {
    control.cond: _FrameMaker.cond,
    control.while_loop: _FrameMaker.while_loop,
    control.scan: _FrameMaker.scan,
}


def is_flow_step(call: Call) -> bool:
    """Whether a flow can run a call of the host: control flow that makes no size known."""
    return call.op in _CONTROL and not call.unbacked_symbols()


def _slice(type_: TensorType) -> TensorType:
    return TensorType(type_.shape[1:], type_.dtype, type_.device)
