"""Cuts a graph at unbacked outputs and at calls that only the host can run.

The parts between two cuts are graphs of their own, compiled as any other. They come in waves: wave n needs no size that
becomes known after wave n - 1. A value is computed in the first wave that needs it, so that it fuses there; views are
made again in each wave.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from rushlight.ir.graph import (
    NUMBER,
    PARAMETER,
    RELAYOUT,
    RESULT,
    Call,
    Graph,
    ValueAssert,
    has_effect,
    parameter,
    unbacked_outputs_of,
    with_dense_outputs,
)
from rushlight.ir.sizes import with_hidden_sizes
from rushlight.ir.type import TensorType, dense_order, row_major
from rushlight.ir.value import map_operands
from rushlight.ir.verify import broken
from rushlight.ops.record import Fact
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen
from rushlight.sym import SizeExpr


@frozen
class UnbackedOutput:
    """A symbol's value, read from the tensor `call`; if `call` is None, the step before has set it."""

    symbol: SizeExpr
    call: Call | None


@frozen
class HostStep:
    """A call that the host runs. `results` are the call itself, or the calls that take one of its results.

    `sizes` are the symbols that become known: each with the number of a result, and a dim of that result.
    """

    call: Call
    results: tuple[Call | None, ...]
    sizes: tuple[tuple[SizeExpr, int, int], ...]


@frozen
class NativeStep:
    """A graph that reads the values `reads` and then `sizes`, and computes the values `makes`."""

    graph: Graph
    reads: tuple[Call, ...]
    sizes: tuple[SizeExpr, ...]
    makes: tuple[Call, ...]


Step = HostStep | NativeStep | UnbackedOutput


def is_segmented(graph: Graph) -> bool:
    """Whether a graph is more than one native call."""
    examples = {call.op: call for call in graph.calls}
    return any(is_host(call) or op.unbacked_outputs for op, call in examples.items())


def is_host(call: Call) -> bool:
    """Whether only the host can run a call."""
    return Fact.HOST in getattr(call.op, "facts", Fact.NONE)


def cut_at_unbacked_outputs(graph: Graph) -> list[Step]:
    """The steps of a graph, in order, on the graph's own calls. The last step computes the results."""
    return _Cutter(graph).run()


def verify_steps(graph: Graph, steps: Sequence[Step]) -> None:
    """Checks that each step reads values and sizes of the caller or of earlier steps. Errors: C015.

    A native step computes all of its results, or its plan is not compiled, so no step reads unwritten memory.
    """
    made = {id(call) for call in graph.parameters}
    unbacked_outputs = unbacked_outputs_of(graph.calls)
    for number, step in enumerate(steps):
        reads: Sequence[Call] = ()
        sizes: Iterable[SizeExpr] = ()
        makes: Sequence[Call | None] = ()
        if isinstance(step, NativeStep):
            reads, makes, sizes = step.reads, step.makes, step.sizes
        elif isinstance(step, HostStep):
            reads, makes = [call for call in step.call.inputs() if call.op is not NUMBER], step.results
        elif step.call is not None:
            reads = (step.call,)
        for call in reads:
            if id(call) not in made:
                broken(f"step {number}", "a value is read that no earlier step makes", call=call.op.name)
        for symbol in sizes:
            if symbol in unbacked_outputs:
                broken(f"step {number}", "a size is needed that no earlier step tells", symbol=symbol)
        made.update([id(call) for call in makes if call is not None])
        if isinstance(step, UnbackedOutput):
            unbacked_outputs.pop(step.symbol, None)
    for call in graph.outputs:
        if id(call) not in made:
            broken(graph.name, "a result is made by no step", call=call.op.name)


@dataclass(slots=True)
class _Wave:
    """One wave: the host calls after it, the values that it computes, and those that other steps read."""

    between: list[Call] = field(default_factory=list)
    calls: set[int] = field(default_factory=set)
    makes: dict[int, Call] = field(default_factory=dict)


class _Cutter:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.results: dict[int, list[Call]] = {}
        for call in graph.calls:
            if call.op is RESULT:
                self.results.setdefault(id(call.operands[0]), []).append(call)
        self.waves: list[_Wave] = []
        self.asserts: list[list[ValueAssert]] = []  # by wave
        self.made: dict[int, int] = {}

    def run(self) -> list[Step]:
        """The steps."""
        earliest, count = _earliest(self.graph)
        self.waves = [_Wave() for _ in range(count)]
        self.asserts = [[] for _ in range(count)]
        for check in self.graph.asserts:
            self.asserts[earliest[id(check.fails)] + is_host(check.fails)].append(check)
        for call in self.graph.calls:
            if is_host(call) or call.op.unbacked_outputs:
                self.waves[earliest[id(call)]].between.append(call)
        for number in range(count):
            self._assign(number)
        natives = [self._native(number) for number in reversed(range(count))][::-1]
        steps: list[Step] = []
        for wave, native in zip(self.waves, natives, strict=True):
            steps += native
            for call in wave.between:
                host = is_host(call)
                steps += [HostStep(call, self._results_of(call), _sizes_shown(call))] if host else []
                steps += [UnbackedOutput(symbol, None if host else call) for symbol in call.unbacked_symbols()]
        return steps

    def _asked(self, number: int) -> list[Call]:
        """The calls that a wave must compute, or find computed by an earlier wave, for others to read."""
        needed: list[Call] = []
        for call in self.waves[number].between:
            needed += [operand for operand in call.inputs() if operand.op is not PARAMETER] if is_host(call) else [call]
        if number == len(self.waves) - 1:
            needed += self.graph.outputs
        return needed

    def _mutations(self, number: int) -> tuple[tuple[int, Call], ...]:
        """What a wave writes to parameters: the last one, of values that need no memory beside these."""
        return tuple(self.graph.mutations) if number == len(self.waves) - 1 else ()

    def _assign(self, number: int) -> None:
        """Assigns to a wave the values that it needs and that no earlier wave computes."""
        mine = self.waves[number].calls
        written = [value for _, value in self._mutations(number)]
        stack = [*self._asked(number), *written, *[check.fails for check in self.asserts[number]]]
        while stack:
            call = stack.pop()
            if call.op is RESULT:
                stack.append(call.operands[0])
                continue
            if id(call) in mine or id(call) in self.made or is_host(call) or call.op is PARAMETER:
                continue
            mine.add(id(call))
            if not _is_free(call):
                self.made[id(call)] = number
            stack.extend(call.inputs())

    def _native(self, number: int) -> list[Step]:
        """The graph of a wave, if it has calls. Later waves have already registered what they read of it."""
        wave, last = self.waves[number], number == len(self.waves) - 1
        for call in self._asked(number):
            self._export(call, number)
        if last:
            for call in self.graph.outputs:
                if call.op is PARAMETER:
                    wave.makes[id(call)] = call
        mutations = self._mutations(number)
        makes = list(wave.makes.values())
        if not makes and not mutations and not self.asserts[number]:
            return []
        maker = _SegmentMaker(self, number)
        asserts = [replace(check, fails=maker.image(check.fails)) for check in self.asserts[number]]
        outputs = [maker.image(call) for call in makes]
        values = [(self.graph.parameters[position], maker.image(value)) for position, value in mutations]
        return [maker.step(f"{self.graph.name}_{number}", makes, outputs, values, asserts)]

    def _export(self, call: Call, number: int) -> None:
        """Makes a value a result of the wave that computes it, or of this wave if the value is a free one."""
        source = call.operands[0] if call.op is RESULT else call
        if call.op is PARAMETER or is_host(source):
            return
        self.waves[self.made.get(id(source), number)].makes[id(call)] = call

    def read(self, call: Call, number: int) -> bool:
        """Whether a wave reads a value that an earlier wave, the host or the caller provides.

        A value of an earlier wave becomes one of that wave's results.
        """
        source = call.operands[0] if call.op is RESULT else call
        if source.op is PARAMETER or is_host(source):
            return True
        if self.made.get(id(source), number) == number:
            return False
        self._export(call, number)
        return True

    def _results_of(self, call: Call) -> tuple[Call | None, ...]:
        if not isinstance(call.type, tuple):
            return (call,)
        by_index = {result.attr("index"): result for result in self.results.get(id(call), [])}
        return tuple([by_index.get(index) for index in range(len(call.type))])


def _sizes_shown(call: Call) -> tuple[tuple[SizeExpr, int, int], ...]:
    """For each unbacked size of a call, the result and the dim that show it."""
    shown: list[tuple[SizeExpr, int, int]] = []
    types: tuple[TensorType, ...] = call.type if isinstance(call.type, tuple) else (call.type,)
    for symbol in call.unbacked_symbols():
        numbers = [number for number, type_ in enumerate(types) if symbol in type_.shape]
        if not numbers:
            fail("X001", f"{call.op.name}: no result shows the size that it makes known")
        shown.append((symbol, numbers[0], types[numbers[0]].shape.index(symbol)))
    return tuple(shown)


class _SegmentMaker:
    """Builds the graph of one wave: the calls that its results need, with parameters for values from elsewhere."""

    def __init__(self, cutter: _Cutter, number: int) -> None:
        self.cutter = cutter
        self.number = number
        self.reads: dict[int, Call] = {}
        self.calls: list[Call] = []
        self.parameters: list[Call] = []
        self.images: dict[int, Call] = {}

    def image(self, call: Call) -> Call:
        """The call that stands for a value in the wave's graph."""
        stack = [call]
        while stack:
            value = stack[-1]
            if id(value) in self.images:
                stack.pop()
            elif self.cutter.read(value, self.number):
                self.parameter(value)
            else:
                missing = [operand for operand in value.inputs() if id(operand) not in self.images]
                stack += missing
                if not missing:
                    self._build(value)
        return self.images[id(call)]

    def parameter(self, call: Call) -> Call:
        """The parameter for a value from elsewhere."""
        if id(call) in self.reads:
            return self.images[id(call)]
        self.reads[id(call)] = call
        type_ = call.type
        stand_in = parameter(f"in{len(self.parameters)}", type_)
        self.images[id(call)] = stand_in
        if call.op is not PARAMETER and dense_order(type_.shape, type_.strides) is None:
            # It was made row-major.
            stand_in = parameter(stand_in.attr("name"), row_major(type_))
            self.images[id(call)] = Call(RELAYOUT, (stand_in,), (), type_, call.frames, call.region)
            self.calls.append(self.images[id(call)])
        self.parameters.append(stand_in)
        return stand_in

    def _build(self, call: Call) -> None:
        operands = map_operands(call.operands, lambda operand: self.images[id(operand)])
        attrs = tuple([(name, None if name in call.op.unbacked_outputs else value) for name, value in call.attrs])
        new = Call(call.op, operands, attrs, call.type, call.frames, call.region)
        self.images[id(call)] = new
        self.calls.append(new)

    def step(
        self,
        name: str,
        makes: Sequence[Call],
        outputs: Sequence[Call],
        values: Iterable[tuple[Call, Call]],
        asserts: Sequence[ValueAssert],
    ) -> NativeStep:
        """The finished step."""
        for target, _ in (values := list(values)):
            self.parameter(target)
        positions = {key: position for position, key in enumerate(self.reads)}
        mutations = tuple([(positions[id(target)], value) for target, value in values])
        graph = Graph(
            tuple(self.parameters), tuple(self.calls), tuple(outputs), mutations, name=name, asserts=tuple(asserts)
        )
        graph, sizes = with_hidden_sizes(graph)
        return NativeStep(with_dense_outputs(graph), tuple(self.reads.values()), sizes, tuple(makes))


def _earliest(graph: Graph) -> tuple[dict[int, int], int]:
    """Finds the earliest wave of each call, and the number of waves. The host runs its calls after their wave."""
    unbacked_outputs = unbacked_outputs_of(graph.calls)
    earliest: dict[int, int] = {}
    count, last_effect = 1, 0
    for call in graph.calls:
        host, wave = is_host(call), 0
        for operand in call.inputs():
            source = operand.operands[0] if operand.op is RESULT else operand
            wave = max(wave, earliest.get(id(source), 0) + (is_host(source) and not host))
        if unbacked_outputs:
            own = call.unbacked_symbols()
            for symbol in call.symbols():
                if symbol in unbacked_outputs and symbol not in own:
                    wave = max(wave, earliest[id(unbacked_outputs[symbol])] + (not host))
        if has_effect(call):  # in the order of the graph, as the host's calls of one wave are
            wave = last_effect = max(wave, last_effect)
        earliest[id(call)] = wave
        count = max(count, wave + 1 + (host or bool(call.op.unbacked_outputs)))
    return earliest, count


def _is_free(call: Call) -> bool:
    """Whether a wave recomputes a value rather than reading it from an earlier wave."""
    return call.op is NUMBER or Fact.VIEW in getattr(call.op, "facts", Fact.NONE)
