"""The backends "eager" and "aot_eager": run a graph call by call, each as an executable of its own.

The executables are those of eager calls, so a wrong result here is a mistake of tracing, not of fusion.
"""

from __future__ import annotations

from array import array
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rushlight.build.executable import (
    Commit,
    Executable,
    Summary,
    commit_on_host,
    fail_assert,
    types_of,
)
from rushlight.build.native import compile_native
from rushlight.build.parts import PARTS
from rushlight.build.reference import Array, elements
from rushlight.ir.graph import NUMBER, RELAYOUT, RESULT, Call, Graph, parameter
from rushlight.ir.sizes import bind_symbols, with_hidden_sizes
from rushlight.ir.type import Layout, TensorType, row_major
from rushlight.ir.value import map_operands
from rushlight.runtime import descriptor
from rushlight.runtime.allocator import allocate_many
from rushlight.support.frozen import frozen
from rushlight.sym import Size, SizeExpr, evaluate, free_symbols, simplify

if TYPE_CHECKING:
    from rushlight.build.parts import CompilePart

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

    executable: Executable
    operands: tuple[Call, ...]
    results: tuple[Call, ...]
    symbols: tuple[SizeExpr, ...]

    def run(self, values: dict[int, Value], symbols: Symbols, given: Mapping[int, Value]) -> None:
        """Runs it. Results that are `given` memory are written there."""
        made = [given.get(id(call)) or _allocated(call.type, symbols) for call in self.results]
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

    def run(self, values: dict[int, Value], symbols: Symbols, given: Mapping[int, Value]) -> None:
        """Makes the view."""
        base = values[id(self.operand)]
        shape, strides = _layout(self.result.type, symbols)
        distance = evaluate(self.offset, symbols) * self.result.type.dtype.itemsize
        values[id(self.result)] = Value(base.address + distance, shape, strides, base.owner)


class StepExecutable(Executable):
    """A graph as a list of steps."""

    __slots__ = ("_asserts", "_copies", "_known", "_last", "_made", "_parameters", "_steps", "_written")

    def __init__(self, graph: Graph, parts: Mapping[int, CompilePart] | None = None) -> None:
        """`parts` compile the calls of regions, each by itself; without any, each call is a step."""
        maker = _StepMaker(graph, {} if parts is None else parts)
        used = [
            step.executable for step in (*maker.steps, *[step for _, step in maker.copies]) if isinstance(step, Step)
        ]
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
        self._made = maker.direct
        self._written = maker.written
        self._known = _known_sizes(graph)
        self._asserts = graph.asserts
        asserted = [check.fails for check in graph.asserts]
        self._last = _last_uses(self._steps, [*graph.outputs, *asserted, *self._written.values()])

    def run_step(
        self, step: Step | ViewStep, values: dict[int, Value], symbols: Symbols, given: Mapping[int, Value]
    ) -> None:
        """Runs one step, whose results may be `given` memory."""
        step.run(values, symbols, given)

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
        for symbol, size in self._known:
            if symbol not in symbols and symbols.keys() >= set(free_symbols(size)):
                symbols[symbol] = evaluate(size, symbols)
        outputs = given[len(self._parameters) :]
        made = {key: outputs[position] for key, position in self._made.items()}
        for step, unused in zip(self._steps, self._last, strict=True):
            self.run_step(step, values, symbols, made)
            for key in unused:
                del values[key]
        for check in self._asserts:
            if _array(values[id(check.fails)], check.fails.type).item():
                fail_assert(check, symbols)
        for position, step in self._copies:
            step.launch([values[id(one)] for one in step.operands], [outputs[position]], symbols)
        writes = [
            (_array(given[position], types[position]), _array(values[id(call)], call.type))
            for position, call in self._written.items()
        ]
        commit_on_host(writes, commit)


def _known_sizes(graph: Graph) -> tuple[tuple[SizeExpr, Size], ...]:
    """The symbols that equal another size, as those do that a guard has fixed: no parameter shows them."""
    found = [(symbol, scope.resolve(symbol)) for scope in graph.scopes for symbol in scope.symbols.values()]
    return tuple([(symbol, size) for symbol, size in found if size is not symbol])


def has_regions(graph: Graph) -> bool:
    """Whether some calls are to be compiled by themselves."""
    return any(call.region in PARTS for call in graph.calls)


def compile_by_regions(graph: Graph) -> Executable:
    """The executable that compiles the calls of each region by itself, and runs others call by call."""
    return StepExecutable(graph, PARTS)


def compile_by_calls(graph: Graph) -> Executable:
    """The executable that runs a graph call by call; a graph of one call is that call's executable."""
    calls = [call for call in graph.calls if call.op not in (NUMBER, RESULT)]
    return compile_native(graph) if len(calls) <= 1 and not graph.mutations else StepExecutable(graph)


class _StepMaker:
    """Turns calls into steps: views by their layouts, runs of a region as one graph, all else as graphs of one call.

    `direct` has the places of outputs, by the identity of the call, to whose memory a step writes; others are `copies`.
    """

    def __init__(self, graph: Graph, parts: Mapping[int, CompilePart]) -> None:
        self.steps: list[Step | ViewStep] = []
        self.given = {id(call) for call in graph.parameters}
        self.results: dict[int, list[Call]] = {}
        for call in graph.calls:
            if call.op is RESULT:
                self.results.setdefault(id(call.operands[0]), []).append(call)
        offsets = [(id(call), _view_offset(call)) for call in graph.calls]
        self.views = {key: offset for key, offset in offsets if offset is not None}  # by identity
        groups = _grouped(graph, parts, self.views)
        read = _read_apart(graph, groups, parts, self.views)
        for group in groups:
            first = group[0]
            compile_part = None if first.region is None or id(first) in self.views else parts.get(first.region)
            if compile_part is None:
                self._add(first, read)
            else:
                self._add_part(group, read, compile_part)
        made = {id(call) for step in self.steps if isinstance(step, Step) for call in step.results}
        self.direct: dict[int, int] = {}
        self.copies: list[tuple[int, Step]] = []
        for position, call in enumerate(graph.outputs):
            if id(call) in made and id(call) not in self.direct:
                self.direct[id(call)] = position
            else:
                self.copies.append((position, self._step(Call(RELAYOUT, (call,), (), call.type))))
        # A value that lies in an input's memory must not change while inputs are overwritten.
        self.written = {position: self._apart(call) for position, call in graph.mutations}

    def _add(self, call: Call, read: Container[int]) -> None:
        offset = self.views.get(id(call))
        if offset is not None:
            base = call.operands[0]
            if id(base) in self.given:
                self.given.add(id(call))
            if id(call) in read:
                self.steps.append(ViewStep(base, call, offset))
        elif self._results_of(call):
            self.steps.append(self._step(call))

    def _results_of(self, call: Call) -> list[Call]:
        return self.results.get(id(call), []) if isinstance(call.type, tuple) else [call]

    def _add_part(self, calls: Sequence[Call], read: Container[int], compile_part: CompilePart) -> None:
        wanted = [result for call in calls for result in self._results_of(call) if id(result) in read]
        if wanted:
            maker = _GraphMaker(self.results, self.views)
            self.steps.append(maker.step(calls, wanted, compile_part, "region"))

    def _step(self, call: Call) -> Step:
        """The step of one call: numbers are written into it, views are made before it."""
        return _GraphMaker(self.results, ()).step([call], self._results_of(call), compile_native, call.op.name)

    def _apart(self, call: Call) -> Call:
        if id(call) not in self.given:
            return call
        copied = Call(RELAYOUT, (call,), (), row_major(call.type))
        self.steps.append(self._step(copied))
        return copied


def _array(value: Value, type_: TensorType) -> Array:
    return elements(value.address, value.shape, value.strides, type_.dtype)


class _GraphMaker:
    """Makes a graph of some calls: other values are parameters, but numbers and `views` are made again."""

    def __init__(self, results: Mapping[int, list[Call]], views: Container[int]) -> None:
        self.results = results
        self.views = views
        self.images: dict[int, Call] = {}
        self.operands: list[Call] = []
        self.parameters: list[Call] = []
        self.calls: list[Call] = []

    def step(self, calls: Sequence[Call], wanted: Sequence[Call], compile_part: CompilePart, name: str) -> Step:
        """The step of calls, which makes the values that are wanted."""
        for call in calls:
            self.images[id(call)] = self._built(call)
            for result in self.results.get(id(call), ()):
                self.images[id(result)] = self._built(result)
        outputs = tuple([self.images[id(result)] for result in wanted])
        graph = Graph(tuple(self.parameters), tuple(self.calls), outputs, name=name)
        graph, symbols = with_hidden_sizes(graph)
        return Step(compile_part(graph), tuple(self.operands), tuple(wanted), symbols)

    def _image(self, value: Call) -> Call:
        known = self.images.get(id(value))
        if known is None:
            if value.op is NUMBER or id(value) in self.views:
                known = self._built(value)
            else:
                known = parameter(f"in{len(self.parameters)}", value.type)
                self.operands.append(value)
                self.parameters.append(known)
            self.images[id(value)] = known
        return known

    def _built(self, call: Call) -> Call:
        """A call of the graph. It belongs to no region: regions that are alike are one graph."""
        new = Call(call.op, map_operands(call.operands, self._image), call.attrs, call.type, call.frames)
        self.calls.append(new)
        return new


def _grouped(graph: Graph, regions: Container[int | None], views: Container[int]) -> list[list[Call]]:
    """Runs of calls of one region, and all other calls alone. Views of a run come behind it."""
    groups: list[list[Call]] = []
    run: list[Call] = []
    for call in graph.calls:
        if call.op is NUMBER or call.op is RESULT:
            continue
        view = id(call) in views
        if not view and run and call.region == run[0].region:
            run.append(call)
            continue
        groups.append([call])
        if not view:
            run = groups[-1] if call.region in regions else []
    return groups


def _read_apart(
    graph: Graph, groups: Sequence[Sequence[Call]], regions: Container[int | None], views: Container[int]
) -> set[int]:
    """The values, by identity, that outputs need, or other groups than those that make them."""
    maker = {id(call): number for number, group in enumerate(groups) for call in group}
    read: set[int] = set()

    def note(value: Call) -> None:
        while id(value) not in read:
            read.add(id(value))
            value = value.operands[0] if id(value) in views else value

    for number, group in enumerate(groups):
        if id(group[0]) in views:
            continue
        for value in [operand for call in group for operand in call.inputs()]:
            while group[0].region in regions and id(value) in views:  # a part makes views again
                value = value.operands[0]
            source = value.operands[0] if value.op is RESULT else value
            if maker.get(id(source)) != number:
                note(value)
    for value in [*graph.outputs, *[value for _, value in graph.mutations], *[check.fails for check in graph.asserts]]:
        note(value)
    return read


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
    # It was a copy where it was recorded, if its strides are others: sizes may be known since then.
    return layout.offset if layout is not None and _are_those_of(layout, call.type) else None


def _are_those_of(layout: Layout, type_: TensorType) -> bool:
    """Whether a tensor of a type has the strides of a layout, in the dims of several elements."""
    strides = zip(layout.strides, type_.strides, type_.shape, strict=True)
    return all(simplify(one) == simplify(other) or simplify(size) == 1 for one, other, size in strides)


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
