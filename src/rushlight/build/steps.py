"""The backends "eager" and "aot_eager": run a graph call by call, each as an executable of its own.

The executables are those of eager calls, so a wrong result here is a mistake of tracing, not of fusion.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rushlight.build.executable import (
    Commit,
    Executable,
    NativeExecutable,
    Summary,
    commit_on_host,
    fail_assert,
    types_of,
)
from rushlight.build.native import compile_native
from rushlight.build.reference import Array, elements
from rushlight.ir.graph import NUMBER, RELAYOUT, RESULT, Call, Graph, parameter
from rushlight.ir.sizes import bind_symbols, with_hidden_sizes
from rushlight.ir.type import Layout, TensorType, row_major
from rushlight.ir.value import map_operands
from rushlight.runtime import descriptor
from rushlight.runtime.allocator import allocate_many
from rushlight.support.frozen import frozen
from rushlight.sym import Size, SizeExpr, evaluate, simplify

Symbols = Mapping[SizeExpr, int]


@dataclass(slots=True)
class Value:
    """A tensor at run time: its first element's address, its layout, and the owner of its memory."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    owner: object


@frozen
class Step:
    """One executable: it reads the values of `operands` and makes the values of `results`.

    A copy writes to given memory and has no results.

    `symbols` are sizes that no operand shows: they travel as the shape of one more operand without elements.
    """

    executable: NativeExecutable
    operands: tuple[Call, ...]
    results: tuple[Call, ...]
    symbols: tuple[SizeExpr, ...]

    def run(self, values: dict[int, Value], symbols: Symbols) -> None:
        """Runs it."""
        made = [_allocated(call.type, symbols) for call in self.results]
        for call, value in zip(self.results, made, strict=True):
            values[id(call)] = value
        self.launch([values[id(call)] for call in self.operands], made, symbols)

    def launch(self, operands: Sequence[Value], results: Sequence[Value], symbols: Symbols) -> None:
        """Runs the executable on descriptors of these values."""
        values = [*operands, *results]
        if self.symbols:
            sizes = tuple([symbols[symbol] for symbol in self.symbols])
            values.insert(len(operands), Value(0, sizes, (0,) * len(sizes), None))
        types = (*self.executable.input_types, *self.executable.output_types)
        kept: list[array[int]] = []
        addresses: list[int] = []
        for value, type_ in zip(values, types, strict=True):
            words, address = descriptor.describe(value.address, type_.dtype.code, value.shape, value.strides)
            kept.append(words)
            addresses.append(address)
        self.executable.launch(addresses, 0)


@frozen
class ViewStep:
    """A call whose result lies in its operand's memory, from element `offset` on."""

    operand: Call
    result: Call
    offset: Size

    def run(self, values: dict[int, Value], symbols: Symbols) -> None:
        """Makes the view."""
        base = values[id(self.operand)]
        shape, strides = _layout(self.result.type, symbols)
        distance = evaluate(self.offset, symbols) * self.result.type.dtype.itemsize
        values[id(self.result)] = Value(base.address + distance, shape, strides, base.owner)


class StepExecutable(Executable):
    """A graph as a list of steps."""

    __slots__ = ("_asserts", "_copies", "_last", "_parameters", "_steps", "_written")

    def __init__(self, graph: Graph) -> None:
        maker = _StepMaker(graph)
        used = [step.executable for step in (*maker.steps, *maker.copies) if isinstance(step, Step)]
        summaries = [executable.summary for executable in used]
        summary = Summary(
            launches=sum([summary.launches for summary in summaries]),
            kernels=sum([summary.kernels for summary in summaries]),
            arena_hint_bytes=max([summary.arena_hint_bytes for summary in summaries], default=0),
            compile_ns=sum([summary.compile_ns for summary in summaries]),
        )
        super().__init__(*types_of(graph), summary, cached=all(executable.cached for executable in used))
        self._parameters = graph.parameters
        self._steps = tuple(maker.steps)
        self._copies = tuple(maker.copies)
        self._written = maker.written
        self._asserts = graph.asserts
        asserted = [check.fails for check in graph.asserts]
        copied = [step.operands[0] for step in maker.copies]
        self._last = _last_uses(self._steps, [*copied, *asserted, *self._written.values()])

    def run_step(self, step: Step | ViewStep, values: dict[int, Value], symbols: Symbols) -> None:
        """Runs one step."""
        step.run(values, symbols)

    def launch(self, addresses: Sequence[int], work: int, commit: tuple[Commit, ...] = ()) -> None:
        """Runs the steps, then writes the outputs, then the overwritten inputs."""
        symbols: dict[SizeExpr, int] = {}
        types = (*self.input_types, *self.output_types)
        given = [
            Value(*descriptor.read(address, len(type_.shape)), None)
            for address, type_ in zip(addresses, types, strict=True)
        ]
        values: dict[int, Value] = {}
        for call, value in zip(self._parameters, given, strict=False):
            bind_symbols(call.type, value.shape, value.strides, symbols)
            values[id(call)] = value
        for step, unused in zip(self._steps, self._last, strict=True):
            self.run_step(step, values, symbols)
            for key in unused:
                del values[key]
        for check in self._asserts:
            if _array(values[id(check.fails)], check.fails.type).item():
                fail_assert(check, symbols)
        for step, output in zip(self._copies, given[len(self._parameters) :], strict=True):
            step.launch([values[id(step.operands[0])]], [output], symbols)
        writes = [
            (_array(given[position], types[position]), _array(values[id(call)], call.type))
            for position, call in self._written.items()
        ]
        commit_on_host(writes, commit)


def compile_by_calls(graph: Graph) -> Executable:
    """The executable that runs a graph call by call; a graph of one call is that call's executable."""
    calls = [call for call in graph.calls if call.op not in (NUMBER, RESULT)]
    return compile_native(graph) if len(calls) <= 1 and not graph.mutations else StepExecutable(graph)


class _StepMaker:
    """Turns calls into steps: views by their layouts, everything else as a graph of one call."""

    def __init__(self, graph: Graph) -> None:
        self.steps: list[Step | ViewStep] = []
        self.given = {id(call) for call in graph.parameters}
        self.results: dict[int, list[Call]] = {}
        for call in graph.calls:
            if call.op is RESULT:
                self.results.setdefault(id(call.operands[0]), []).append(call)
        for call in graph.calls:
            if call.op is not NUMBER and call.op is not RESULT:
                self._add(call)
        self.copies = [self._copy(call, call) for call in graph.outputs]
        # A value that lies in an input's memory must not change while inputs are overwritten.
        self.written = {position: self._apart(call) for position, call in graph.mutations}

    def _add(self, call: Call) -> None:
        offset = _view_offset(call)
        if offset is not None:
            base = call.operands[0]
            if id(base) in self.given:
                self.given.add(id(call))
            self.steps.append(ViewStep(base, call, offset))
            return
        results = self.results.get(id(call), []) if isinstance(call.type, tuple) else [call]
        if results:
            self.steps.append(_step(call, tuple(results)))

    def _apart(self, call: Call) -> Call:
        if id(call) not in self.given:
            return call
        copied = Call(RELAYOUT, (call,), (), row_major(call.type))
        self.steps.append(_step(copied, (copied,)))
        return copied

    def _copy(self, call: Call, target: Call) -> Step:
        """A copy of a value to memory that is laid out as `target`."""
        return _step(Call(RELAYOUT, (call,), (), target.type), ())


def _array(value: Value, type_: TensorType) -> Array:
    return elements(value.address, value.shape, value.strides, type_.dtype)


def _view_offset(call: Call) -> Size | None:
    """The offset of a view in its operand; None if the call is not a view."""
    rule = getattr(call.op, "view_rule", None)
    base = call.operands[0] if call.operands else None
    if rule is None or not isinstance(base, Call) or base.op is NUMBER:
        return None
    others = [operand.type if isinstance(operand, Call) else operand for operand in call.operands[1:]]
    op: Any = call.op
    shown = Layout(base.type.shape, base.type.strides, 0, base.type.dtype)
    layout = rule(**op.named((shown, *others), dict(call.attrs)))
    return None if layout is None else layout.offset


def _step(call: Call, results: tuple[Call, ...]) -> Step:
    """The step of one call: its operands become parameters, numbers are written into it."""
    images: dict[int, Call] = {}
    numbers: dict[int, Call] = {}
    for operand in call.inputs():
        if operand.op is NUMBER:
            numbers[id(operand)] = operand
        elif id(operand) not in images:
            images[id(operand)] = parameter(f"in{len(images)}", operand.type)
    operands = tuple(
        [operand for operand in {id(operand): operand for operand in call.inputs()}.values() if id(operand) in images]
    )
    image = {**images, **numbers}
    new = Call(call.op, map_operands(call.operands, lambda operand: image[id(operand)]), call.attrs, call.type)
    outputs = (new,)
    calls = [*numbers.values(), new]
    if isinstance(call.type, tuple):
        outputs = tuple([Call(RESULT, (new,), result.attrs, result.type) for result in results])
        calls += outputs
    parameters = tuple([images[id(operand)] for operand in operands])
    graph, symbols = with_hidden_sizes(Graph(parameters, tuple(calls), outputs, name=call.op.name))
    return Step(compile_native(graph), operands, results, symbols)


def _last_uses(steps: Sequence[Step | ViewStep], kept: Sequence[Call]) -> tuple[tuple[int, ...], ...]:
    """For each step, the values that no later step reads."""
    seen = {id(call) for call in kept}
    over: list[tuple[int, ...]] = []
    for step in reversed(steps):
        operands = (step.operand,) if isinstance(step, ViewStep) else step.operands
        made = (step.result,) if isinstance(step, ViewStep) else step.results
        keys = dict.fromkeys([id(call) for call in (*operands, *made)])
        over.append(tuple([key for key in keys if key not in seen]))
        seen.update(keys)
    return tuple(reversed(over))


def _layout(type_: TensorType, symbols: Symbols) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape, strides = (
        tuple([evaluate(simplify(size), symbols) for size in part]) for part in (type_.shape, type_.strides)
    )
    return shape, strides


def _allocated(type_: TensorType, symbols: Symbols) -> Value:
    shape, strides = _layout(type_, symbols)
    (storage,) = allocate_many([descriptor.extent(shape, strides) * type_.dtype.itemsize])
    return Value(storage.address, shape, strides, storage)
