"""Gradients of a compiled function, of any order: graphs for the gradients that a backward pass asks for.

The tape that was recorded while the function was traced is walked again where another combination of gradients is
given. Where a pass is recorded itself (`create_graph`), the walk leaves a tape of its own, which is the next order:
its results are the gradients, and its edges lead to inputs, to the gradients that were given, and to what the function
has computed on the way. Gradients that arrive there start in the order to which that belongs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rushlight.autodiff.backward import SINK
from rushlight.autodiff.partition import Split
from rushlight.build.inlining import inlined
from rushlight.build.segments import is_segmented
from rushlight.capture.gradients.joint import InputGradient, Joint, Segment, input_gradient
from rushlight.capture.gradients.reopened import TRACING, Extension, ReopenedTrace
from rushlight.capture.segmented import Runs, Segmented, Whole
from rushlight.capture.signals import held_signals
from rushlight.eager.autograd.accumulate import AccumulateGrad
from rushlight.eager.autograd.driver import Arrived, Tape
from rushlight.eager.autograd.history import requires
from rushlight.eager.autograd.node import mark
from rushlight.eager.composite.replaying import Interpreter
from rushlight.eager.dispatch import STATE
from rushlight.eager.handle import SPARSE, Handle, mark_required
from rushlight.ir.graph import Call, Graph
from rushlight.ir.type import TensorType, row_major
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen
from rushlight.sym import Size, SizeExpr, guard, optimization_hint
from rushlight.sym.condition import normalized

if TYPE_CHECKING:
    from rushlight.build import Executable

Compile = Callable[[Graph], "Executable"]
Keep = Callable[["Request", "Variant"], None]
_MOST_VARIANTS = 64  # of one order, beside its first: parts of many results, and sizes that a walk asks about


class Request(NamedTuple):
    """What a backward pass asks for.

    Gradients are given of the results at the positions `present`; inputs in `apart` get their summands, not the sum.
    The segments from `first` to `last` run as one; results of segments up to the first come with all that arrives at
    them. A pass that is `recorded` tells which of the given gradients require gradients.
    """

    present: tuple[int, ...]
    apart: frozenset[int]
    first: int = 0
    last: int = 0
    recorded: tuple[bool, ...] | None = None


@frozen
class Goal:
    """Where gradients of an order go, by `kind`: to an "input", to a "given" gradient, or to a "result" of `order`.

    Gradients that were given are counted over all orders.
    """

    kind: str
    number: int
    order: int = 0


def as_hints(sizes: Mapping[SizeExpr, Size]) -> Mapping[SizeExpr, int]:
    """Sizes as integers: those of the example where they are traced."""
    if STATE.tracer is None:
        return sizes  # pyright: ignore[reportReturnType] - all are integers outside of traces
    return {symbol: optimization_hint(size) for symbol, size in sizes.items()}


@dataclass(slots=True)
class Variant:
    """A graph for a request, and what runs it; and how many values it gives at each wanted place.

    `makes` has what makes a sparse gradient of several values; None for a dense one. `more` are positions of inputs
    that are needed beyond what is saved. If the pass is recorded, `next` are the gradients of its results. `keep` takes
    it, once it has run, to where other processes find it.
    """

    extension: Extension
    graph: Graph | None
    runs: Runs | None
    counts: Sequence[int]
    makes: Sequence[Callable[..., object] | None]
    more: Sequence[int] = ()
    next: Order | None = None
    keep: Callable[[Variant], None] | None = None

    def run(self, inputs: Sequence[object], sizes: Mapping[SizeExpr, Size]) -> list[Handle]:
        """The values that the graph gives; in a trace, by its calls, which become part of that."""
        if self.runs is None:
            return []
        if STATE.tracer is None:
            outputs = self.runs.bound(inputs, as_hints(sizes))(inputs)
            if self.keep is not None:
                keep, self.keep = self.keep, None
                keep(self)
            return outputs
        assert self.graph is not None, "a graph that another process has traced is no part of a trace"
        run = Interpreter(dict(sizes), self.extension.asserts)
        for condition in self.extension.conditions:
            guard(normalized(condition.relation, run.size(condition.expr)))
        values = run.run(self.graph, inputs)
        return [values[id(call)] for call in self.graph.outputs]


@dataclass(slots=True)
class _Walk:
    """What a walk of the tape gave: for each place a gradient, and all values in the order of a graph's outputs.

    `given` stand for the gradients that are given, and `since` is when the walk began.
    """

    since: int
    given: list[Any]
    arrived: list[Arrived]
    gradients: list[InputGradient]

    def values(self, apart: frozenset[int]) -> tuple[list[Any], list[Call], list[int]]:
        """The dense gradients, the calls of all, and how many each place has."""
        handles: list[Any] = []
        calls: list[Call] = []
        counts: list[int] = []
        for position, (arrived, gradient) in enumerate(zip(self.arrived, self.gradients, strict=True)):
            several = position in apart and bool(gradient.parts)
            summands = gradient.parts if several else gradient.total
            calls.extend(summands)
            counts.append(len(summands))
            handles.extend(arrived.parts if several else [arrived.total] if summands else [])
        return handles, calls, counts


class Gradients(Protocol):
    """The gradients of a function's results: those of a trace, or those that another process has kept."""

    def sizes(self, sizes: Mapping[SizeExpr, Size]) -> Mapping[SizeExpr, Size]:
        """The sizes of a call, by the symbols of the graphs."""
        ...

    def variant(self, request: Request, sizes: Mapping[SizeExpr, Size]) -> Variant:
        """The graph for a request, in a call with these sizes."""
        ...


class Common:
    """What the orders of one compiled function share."""

    def __init__(self, joint: Joint, split: Split, compile_graph: Compile) -> None:
        self.trace: ReopenedTrace = joint.trace
        self.split = split
        self.compile_graph = compile_graph
        edges = [(id(edge[0]), edge[1]) for edge in joint.tape.edges]
        self.inputs = {edges[position]: number for number, position in enumerate(joint.places)}
        self.unreached = {edges[position] for position in joint.known} - self.inputs.keys()
        self.constant = set(edges) - self.inputs.keys() - self.unreached

    def runs(self, graph: Graph, extension: Extension) -> Runs:
        """What runs a backward graph."""

        def compiled(graph: Graph) -> Executable:
            with extension.known():
                return self.compile_graph(graph)

        graph = inlined(graph)
        with extension.known():
            if is_segmented(graph):
                return Segmented(graph, compiled)
            return Whole.of(graph, compiled, extension.asserts)


class Order:
    """A part of the tape, and graphs of the gradients at its edges. The first order is the function's own part.

    `places` are the edges at which gradients are wanted, `types` those of gradients of its results; None for one that
    no gradient has reached yet. `lower` are the orders below, and `given` stand for the gradients given to these.
    """

    def __init__(
        self,
        common: Common,
        base: Extension,
        tape: Tape,
        since: int,
        types: Sequence[TensorType],
        lower: Sequence[Order] = (),
        given: Sequence[Any] = (),
        segments: Sequence[Segment] = (),
    ) -> None:
        self.common = common
        self.base = base
        self.tape = tape
        self.since = since
        self.types: list[TensorType | None] = list(types)
        self.lower = tuple(lower)
        self.given = tuple(given)
        self.segments = tuple(segments)
        self.places: list[int] = []
        self.folds: Sequence[int] = ()
        self.goals: list[Goal] = []
        self.differentiable: Sequence[int] = ()
        self._variants: dict[Request, list[Variant]] = {}
        self._later: deque[Request] = deque()  # in the order in which graphs were made, without the first
        self._keep: Keep | None = None

    def keep_in(self, keep: Keep) -> None:
        """Gives graphs to who keeps them for other processes, each once it has run."""
        self._keep = keep
        for request, variants in self._variants.items():
            for variant in variants:
                variant.keep = partial(keep, request)

    def sizes(self, sizes: Mapping[SizeExpr, Size]) -> Mapping[SizeExpr, Size]:
        """The sizes of a call, by the symbols of the graphs."""
        return sizes

    def prepare(self, request: Request, variant: Variant) -> None:
        """Adds a graph for a request. Of too many the oldest goes; it is made again when it is asked for."""
        if self._variants:
            self._later.append(request)
        self._variants.setdefault(request, []).append(variant)
        if self._keep is not None:
            variant.keep = partial(self._keep, request)
        if len(self._later) > _MOST_VARIANTS:
            oldest = self._later.popleft()
            first = next(iter(self._variants))
            del self._variants[oldest][oldest == first]
            if not self._variants[oldest]:
                del self._variants[oldest]

    def variant(self, request: Request, sizes: Mapping[SizeExpr, Size]) -> Variant:
        """The graph for a request, in a call with these sizes; it is made when it is first asked for."""
        values = as_hints(sizes)
        found = self._prepared(request, values)
        if found is None:
            with held_signals(), TRACING:
                found = self._prepared(request, values)
                if found is None:
                    found = self._made(request, values)
                    self.prepare(request, found)
        return found

    def _prepared(self, request: Request, values: Mapping[SizeExpr, int]) -> Variant | None:
        variants = self._variants.get(request, ())
        return next((variant for variant in variants if variant.extension.holds(values)), None)

    def _made(self, request: Request, values: Mapping[SizeExpr, int]) -> Variant:
        trace = self.common.trace
        walk, extension = trace.record(self.base, values, partial(self._walked, request))
        variant = self._variant(walk, extension, request.apart)
        if request.recorded is not None:
            variant.next = self._following(walk, extension, request.apart, values)
        return variant

    def _variant(self, walk: _Walk, extension: Extension, apart: frozenset[int]) -> Variant:
        tracer = self.common.trace.tracer
        _, wanted, counts = walk.values(apart)
        makes = [gradient.make for gradient in walk.gradients]
        if not wanted:
            return Variant(extension, None, None, counts, makes)
        tangents = [_parameter(tracer.builder.parameters, tracer.lifted, fake) for fake in (*self.given, *walk.given)]
        calls = [*tracer.builder.calls, *extension.calls]
        with extension.known():
            graph, sizes, more = self.common.split.other_backward(calls, wanted, tangents)
        graph = without_sizes(graph, sizes)
        return Variant(extension, graph, self.common.runs(graph, extension), counts, makes, more)

    def _walked(self, request: Request) -> _Walk:
        """Walks the tape from the gradients that are given."""
        tracer = self.common.trace.tracer
        recorded = request.recorded
        given: dict[int, Any] = {}
        for index, position in enumerate(request.present):
            type_ = self.types[position]
            assert type_ is not None, "a gradient is given where none has been made"
            given[position] = tracer.fake(type_)
            if recorded is not None and recorded[index]:
                mark_required(given[position])
        since = mark()
        arrived = self._arrived([given.get(position) for position in range(len(self.types))], request)
        gradients = [input_gradient(tracer, one) for one in arrived]
        for goal, gradient in zip(self.goals, gradients, strict=False):
            if goal.kind == "result" and gradient.total:
                self.lower[goal.order].types[goal.number] = row_major(gradient.total[0].type)
        if recorded is not None and any(part.keys & SPARSE for one in arrived for part in one.parts):
            hint = "let the layer be dense"
            fail("A006", "backward: a sparse gradient of a compiled function has no gradient", hint=hint)
        return _Walk(since, list(given.values()), arrived, gradients)

    def _arrived(self, given: Sequence[Any], request: Request) -> list[Arrived]:
        """What arrives at the wanted places, and at the results of the segment that follows those that run."""
        segments, recorded = self.segments, request.recorded is not None
        after = segments[request.last + 1] if request.last + 1 < len(segments) else None
        until, watched = (-1, ()) if after is None else (after.sequence, after.results)
        whole = {number for one in segments[: request.first + 1] for number in one.results if number in request.present}
        everywhere = self.tape.arrived(given, id, whole, until, watched, recorded)
        if not (recorded or self.places) and self.lower:
            self._place(everywhere)
        last = segments[request.first].sequence if request.first else SINK
        inputs = [everywhere[place].between(last, until, recorded) for place in self.places]
        return [*inputs, *everywhere[len(everywhere) - len(watched) :]]

    def _place(self, arrived: Sequence[Arrived]) -> None:
        """Decides which edges are wanted: those that a pass from all results reaches, in the order of leaves' hooks."""
        reached = [place for place, one in enumerate(arrived) if one.parts]
        for place in sorted(reached, key=lambda place: arrived[place].turn):
            goal = self._goal(self.tape.edges[place])
            if goal is not None:
                self.places.append(place)
                self.goals.append(goal)
        self.folds = tuple(range(len(self.places)))

    def _goal(self, edge: tuple[Any, int]) -> Goal | None:
        """Where an edge leads to; None where nobody wants the gradient."""
        step, key = edge[0], (id(edge[0]), edge[1])
        if isinstance(step, AccumulateGrad):
            for number, fake in enumerate(self.given):
                if fake is step.variable:
                    return Goal("given", number)
        if key in self.common.inputs:
            return Goal("input", self.common.inputs[key])
        if key in self.common.constant:
            return None
        owners = [number for number, order in enumerate(self.lower) if order.since <= step.sequence]
        if key in self.common.unreached or not owners:
            fail("G015", "backward: a derivative leads to what the first one did not reach", frame=step.frame)
        return Goal("result", self.lower[owners[-1]].result(edge), owners[-1])

    def result(self, edge: tuple[Any, int]) -> int:
        """The number of the result that is a place in its part of the tape: a further one at first."""
        number = self.tape.root(edge)
        if number == len(self.types):
            self.types.append(None)
            self.folds = tuple(range(len(self.places)))
        return number

    def _following(
        self, walk: _Walk, extension: Extension, apart: frozenset[int], values: Mapping[SizeExpr, int]
    ) -> Order | None:
        """The gradients of what a recorded pass gave; None if nothing in that requires gradients."""
        handles = walk.values(apart)[0]
        places = [position for position, handle in enumerate(handles) if requires(handle)]
        if not places:
            return None
        results: list[Handle] = [handles[position] for position in places]
        types = [row_major(result.form.type) for result in results]
        tape, lower, given = Tape(results, walk.since), (*self.lower, self), (*self.given, *walk.given)
        following = Order(self.common, extension, tape, walk.since, types, lower, given)
        following.differentiable = places
        request = Request(tuple(range(len(places))), frozenset())
        following.prepare(request, following._made(request, values))
        return following


def without_sizes(graph: Graph, sizes: Sequence[SizeExpr]) -> Graph:
    """A backward graph without the parameter for sizes, which come beside the tensors."""
    return replace(graph, parameters=graph.parameters[: len(graph.parameters) - bool(sizes)])


def _parameter(parameters: Sequence[Call], lifted: Sequence[Handle], fake: Handle) -> Call:
    """The parameter that a stand-in is."""
    return next(call for call, handle in zip(parameters, lifted, strict=True) if handle is fake)
