"""Cuts a graph at unbacked outputs and at calls that only the host can run.

The parts between two cuts are graphs of their own, compiled as any other. They come in waves: wave n needs no size that
becomes known after wave n - 1. A value is computed in the first wave that needs it, so that it fuses there; views are
made again in each wave. Each device has a wave of its own between two cuts: the CPU's comes first, since its numbers
may be operands elsewhere; that of the device whose tensors are overwritten is last.
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
from rushlight.ir.type import CPU, META, Device, TensorType, dense_order, row_major
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
        self.devices = _devices(graph)
        self.waves: list[_Wave] = []  # those between the same cuts follow each other
        self.asserts: list[list[ValueAssert]] = []  # by wave
        self.made: dict[int, int] = {}

    def run(self) -> list[Step]:
        """The steps."""
        earliest, cuts = _earliest(self.graph)
        count = cuts * len(self.devices)
        self.waves = [_Wave() for _ in range(count)]
        self.asserts = [[] for _ in range(count)]
        for check in self.graph.asserts:
            first = self._last(earliest[id(check.fails)] + is_host(check.fails))
            self.asserts[self._own(check.fails, first)].append(check)
        for call in self.graph.calls:
            if is_host(call) or call.op.unbacked_outputs:
                self.waves[self._last(earliest[id(call)])].between.append(call)
        for cut in range(cuts):
            self._assign(self._last(cut))
        natives = [self._native(number) for number in reversed(range(count))][::-1]
        steps: list[Step] = []
        for wave, native in zip(self.waves, natives, strict=True):
            steps += native
            for call in wave.between:
                host = is_host(call)
                steps += [HostStep(call, self._results_of(call), _sizes_shown(call))] if host else []
                steps += [UnbackedOutput(symbol, None if host else call) for symbol in call.unbacked_symbols()]
        return steps

    def _last(self, cut: int) -> int:
        """The number of the last wave before a cut."""
        return (cut + 1) * len(self.devices) - 1

    def _own(self, call: Call, number: int) -> int:
        """The number of the wave of a value's device, of those between the same cuts as another wave."""
        count = len(self.devices)
        return number if count == 1 else number - number % count + self.devices.index(_device_of(call))

    def _asked(self, number: int) -> list[Call]:
        """The calls that a wave must compute, or find computed by an earlier wave, for others to read."""
        needed: list[Call] = []
        last = number - number % len(self.devices) + len(self.devices) - 1
        for call in self.waves[last].between:
            needed += [operand for operand in call.inputs() if operand.op is not PARAMETER] if is_host(call) else [call]
        if last == len(self.waves) - 1:
            needed += self.graph.outputs
        return [call for call in needed if self._own(call, number) == number]

    def _mutations(self, number: int) -> tuple[tuple[int, Call], ...]:
        """What a wave writes to parameters: the last one, of values that need no memory beside these."""
        return tuple(self.graph.mutations) if number == len(self.waves) - 1 else ()

    def _assign(self, last: int) -> None:
        """Assigns to the waves between two cuts the values that they need and that no earlier wave computes."""
        stack = [value for _, value in self._mutations(last)]
        for number in range(last + 1 - len(self.devices), last + 1):
            stack += [*self._asked(number), *[check.fails for check in self.asserts[number]]]
        while stack:
            call = stack.pop()
            if call.op is RESULT:
                stack.append(call.operands[0])
                continue
            if id(call) in self.made or is_host(call) or call.op is PARAMETER:
                continue
            number = self._own(call, last)
            if id(call) in self.waves[number].calls:
                continue
            self.waves[number].calls.add(id(call))
            if not _is_free(call):
                self.made[id(call)] = number
            stack.extend(call.inputs())

    def _native(self, number: int) -> list[Step]:
        """The graph of a wave, if it has calls. Later waves have already registered what they read of it."""
        wave = self.waves[number]
        for call in self._asked(number):
            self._export(call, number)
        if number >= len(self.waves) - len(self.devices):
            for call in self.graph.outputs:
                if call.op is PARAMETER and self._own(call, number) == number:
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
        own = self.made.get(id(source), self._own(source, number))
        if own >= number:
            return False
        self._export(call, own)
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


def _devices(graph: Graph) -> tuple[Device, ...]:
    """The devices of a graph's values, in the order of their waves between two cuts. Errors: V002.

    Results are written to tensors of one device, all or none.
    """
    values = [call for call in (*graph.calls, *graph.outputs) if call.op is not RESULT and not is_host(call)]
    found = {_device_of(call) for call in values}
    written = {_device_of(value) for _, value in graph.mutations}
    if len(written) > 1:
        names = ", ".join(sorted(map(str, written)))
        fail("V002", f"{graph.name}: tensors of several devices are overwritten", devices=names)
    return tuple(sorted(found, key=lambda device: (device in written, device != CPU, str(device)))) or (CPU,)


def _device_of(call: Call) -> Device:
    """Where a value is computed: where its operands are, but for numbers of the CPU; on the CPU if it has no data."""
    types = [operand.type for operand in (*call.inputs(), call) if operand.op is not NUMBER]
    devices = [type_[0].device if isinstance(type_, tuple) else type_.device for type_ in types]
    return next((device for device in devices if device not in (CPU, META)), CPU)


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
