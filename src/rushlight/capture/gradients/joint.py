"""The backward pass of a trace: from gradients of its results to those of what it took from outside.

Which results have a gradient is known at each backward pass only. The pass from all of them is traced with the
function; others are traced from the same tape when they are first wanted, so that what no gradient reaches has none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from rushlight.autodiff.partition import Split
from rushlight.capture.gradients.reopened import ReopenedTrace
from rushlight.capture.hooks import share_hooks
from rushlight.capture.source import Source, ViewSource
from rushlight.capture.subclass.packing import gradient_maker
from rushlight.capture.values import traced_parts
from rushlight.eager.autograd.accumulate import edge_of
from rushlight.eager.autograd.driver import Arrived, Tape
from rushlight.eager.autograd.history import attach, rebases_of, requires
from rushlight.eager.autograd.node import Node
from rushlight.eager.autograd.write import Rewriting
from rushlight.eager.handle import SPARSE, Gradient, Handle, is_wrapper, mark_required
from rushlight.eager.subclass import held_by
from rushlight.eager.tracing import TracedNumber, Tracer
from rushlight.ir.graph import Call
from rushlight.ir.type import row_major
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen


@frozen
class InputGradient:
    """The gradient of an input: its value, and the parts that it is the sum of, in order; none of nothing.

    A sparse one is what `make` makes of several values; it has no parts, since its sum keeps all places.
    """

    total: tuple[Call, ...]
    parts: tuple[Call, ...]
    make: Callable[..., object] | None = None


@frozen
class Segment:
    """The part of a backward pass from the gradients of some `results` to the next ones on the way.

    Results are numbers. `inputs` are the wanted inputs to which its steps give gradients; `sequence` is the last of its
    steps. The gradients of its results lead to the wanted inputs and results in `leads`; steps of other results may
    belong to it too.
    """

    results: tuple[int, ...]
    inputs: tuple[int, ...]
    sequence: int
    leads: tuple[list[int], set[int]]


class ArgumentNode(Node):
    """Stands for the node of an argument that was computed before the call."""

    __slots__ = ()

    hidden = True

    def __init__(self) -> None:
        super().__init__((), located=False)
        self.sequence = 0  # before the trace, also where the trace has met the argument on its way

    def name(self) -> str:
        """As it is shown in errors."""
        return "ArgumentBackward"

    def run(self, gradients: list[Any], create_graph: bool, owned: set[int]) -> Sequence[Any]:
        """Fails: what computed the argument is not known in the trace."""
        fail(
            "G017",
            "backward: a compiled function differentiates what an argument was computed from",
            hint="compute the argument inside of the compiled function, or call backward() outside of it",
        )


def share_history(tensor: Handle, fake: Any) -> Gradient | None:
    """Gives an argument's stand-in the argument's place in autograd, and returns its record.

    A leaf's stand-in is a leaf with the leaf's hooks; another's has a node before it.
    """
    record = tensor.gradient if requires(tensor) else None
    if record is not None and record.node is not None:
        attach(fake, ArgumentNode(), 0)
    elif record is not None:
        mark_required(fake)
        share_hooks(record, fake.gradient)
    return record


class Joint:
    """The gradients of a trace's results and those of its inputs, as calls of its graph.

    `wanted` are the inputs that have gradients, as sources, and `gradients` these where all results have one.
    `segments` is the pass cut at the steps that give results, of which somebody may want the gradients. `tangents` are
    the parameters that stand for the results' gradients, `calls` those of the trace. `passed` are the calls whose
    values are gradients on the way, by identity: some, such as zeros, depend on no tangent. Of the tape's edges those
    at `places` lead to the wanted inputs; of more it is `known` to which inputs they lead. The calls in `derived` were
    made while the backward pass was traced, by identity.
    """

    trace: ReopenedTrace

    def __init__(
        self, tracer: Tracer, results: Sequence[Handle], since: int, source_of: Callable[[Handle], Source | None]
    ) -> None:
        """`source_of` gives the source of an input, None for one that gets no gradient."""
        self.calls = tracer.builder.calls
        self._tracer = tracer
        self.wanted: list[Source] = []
        self.gradients: list[InputGradient] = []
        self.tangents: list[Any] = []
        self.passed: set[int] = set()
        self.segments: list[Segment] = []
        self.derived: set[int] = set()
        self.places: list[int] = []
        self.since = since
        self.tape = Tape(results, since)
        sources = sources_of(tracer, self.tape, source_of)
        self.known = {position for position, _ in sources}
        if not sources:
            return
        self.tangents = [tracer.fake(row_major(tracer.node(result).type)) for result in results]
        start, passed = len(self.calls), set[int]()
        arrived = self.tape.arrived(self.tangents, lambda tensor: passed.update(map(id, _calls_of(tracer, tensor))))
        self._tangents_last()
        self.derived = set(map(id, self.calls[start:]))
        self.passed = passed & self.derived  # others are values of the forward pass
        for position, source in sorted(sources, key=lambda pair: arrived[pair[0]].turn):  # the order of leaves' hooks
            if arrived[position].parts:
                self.places.append(position)
                self.wanted.append(source)
                self.gradients.append(input_gradient(tracer, arrived[position]))
        self.segments = self._segments([arrived[position] for position in self.places])
        if not self.wanted:
            self.tangents = []

    def _tangents_last(self) -> None:
        """Puts the tangents behind the inputs that the backward pass alone has read, such as numbers."""
        tangents = set(map(id, self.tangents))
        lifted, parameters = self._tracer.lifted, self._tracer.builder.parameters
        pairs = sorted(zip(lifted, parameters, strict=True), key=lambda pair: id(pair[0]) in tangents)
        lifted[:] = [tensor for tensor, _ in pairs]
        parameters[:] = [call for _, call in pairs]

    def _segments(self, arrived: Sequence[Arrived]) -> list[Segment]:
        """The pass cut at each step that gives results, by what has arrived at the wanted inputs."""
        sequences = self.tape.sequences()
        steps = sorted(set(sequences), reverse=True)
        segments: list[Segment] = []
        for last, until in zip(steps, [*steps[1:], -1], strict=True):
            results = [number for number, sequence in enumerate(sequences) if sequence == last]
            inputs = [at for at, one in enumerate(arrived) if any(until < sender <= last for sender in one.senders)]
            edges, others = self.tape.reached_from(results[0])
            numbers = [(id(self.tape.edges[position][0]), self.tape.edges[position][1]) for position in self.places]
            leads = [at for at, edge in enumerate(numbers) if edge in edges], others
            segments.append(Segment(tuple(results), tuple(inputs), last, leads))
        return segments

    def close(self) -> None:
        """Called before the trace is closed."""
        self.trace = ReopenedTrace(self._tracer)


def sources_of(tracer: Tracer, tape: Tape, source_of: Callable[[Handle], Source | None]) -> list[tuple[int, Source]]:
    """The edges of the tape that lead to inputs, by number, in the order of the inputs' reading."""
    places = {(id(edge[0]), edge[1]): position for position, edge in enumerate(tape.edges)}
    sources: dict[int, Source] = {}
    outside = [tensor for tensor in tracer.seen() if tensor.backing is not None]
    for tensor in [*tracer.lifted, *outside]:
        if isinstance(tensor, TracedNumber) or not requires(tensor):
            continue
        edge = edge_before(tracer, tensor)
        index = None if edge is None else places.get((id(edge[0]), edge[1]))
        source = None if index is None or index in sources else source_of(tensor)
        if index is not None and source is not None:
            sources[index] = source
    return list(sources.items())


@frozen
class EndedResult:
    """A result through whose history no gradient goes, and the inputs that it leads to.

    It is an output, by its position, or an input that is overwritten. The function itself has `freed` the history, or
    its steps give no gradient.
    """

    place: int | Source
    inputs: Sequence[Source]
    freed: bool


def ended_results(
    tracer: Tracer,
    outputs: Sequence[Handle],
    since: int,
    sources: tuple[Callable[[Handle], Source], Callable[[Handle], Source | None]],
    backward: Derived | None,
) -> list[EndedResult]:
    """The results whose history was freed, and without a `backward` pass all others with a history."""
    written = [tensor for tensor in tracer.lifted if _is_rewritten(tensor, since)]
    recorded = [(position, output) for position, output in enumerate(outputs) if requires(output)]
    results = [*recorded, *[(sources[0](tensor), tensor) for tensor in written]]
    freed = Tape([result for _, result in results], since).freed()
    ended: list[EndedResult] = []
    for (place, result), gone in zip(results, freed, strict=True):
        if gone or (backward is None and has_history(result)):
            found = sources_of(tracer, Tape([result], since), sources[1])
            if gone or found:
                ended.append(EndedResult(place, [source for _, source in found], gone))
    return ended


def fail_freed(node: Node) -> NoReturn:
    """Raises the error of a step in a compiled call that has freed what it had saved."""
    fail("G001", "backward: the graph was freed by an earlier backward pass", frame=node.frame)


class FreedBackward(Node):
    """Stands for steps in a compiled call that have freed what they had saved."""

    __slots__ = ()

    def run(self, gradients: list[Any], create_graph: bool, owned: set[int]) -> Sequence[Any]:
        """Fails with G001, as the steps do in eager code."""
        fail_freed(self)

    @property
    def released(self) -> bool:
        """True: that is all that there is to it."""
        return True


class EndedBackward(Node):
    """Stands for steps in a compiled call that give no gradients."""

    __slots__ = ()

    def run(self, gradients: list[Any], create_graph: bool, owned: set[int]) -> Sequence[Any]:
        """None for each edge."""
        return [None] * len(self.edges)


def ended(inputs: Sequence[Handle], freed: bool) -> Node:
    """What is given as history where no gradient goes through it to the inputs."""
    kind = FreedBackward if freed else EndedBackward
    return kind([edge_of(tensor) for tensor in inputs if requires(tensor)])


def attach_ended(output: Handle, inputs: Sequence[Handle], freed: bool) -> None:
    """Gives an output such a history."""
    attach(output, ended(inputs, freed), 0)


def rewritten(written: Sequence[tuple[Handle, Sequence[Handle], bool]]) -> list[Any]:
    """The attributes to set, in threes, where inputs are overwritten that get such histories."""
    rewriting = Rewriting()
    for tensor, inputs, freed in written:
        rewriting.add(tensor, ended(inputs, freed), 0)
    return rewriting.attributes(())


def input_gradient(tracer: Tracer, arrived: Arrived) -> InputGradient:
    """The gradient that arrived somewhere, as calls."""
    if not arrived.parts:
        return InputGradient((), ())
    total = _calls_of(tracer, arrived.total)
    if any(part.keys & SPARSE for part in arrived.parts):
        apart = traced_parts(arrived.total)
        return InputGradient(total, (), None if apart is None else apart[0])
    if is_wrapper(arrived.total):
        return InputGradient(total, (), gradient_maker(arrived.total))
    return InputGradient(total, tuple([tracer.node(part).call for part in arrived.parts]))


def _calls_of(tracer: Tracer, gradient: Any) -> tuple[Call, ...]:
    """The call that computes a gradient, or those of the places and values of a sparse one."""
    parts = gradient.taken_apart()[1] if gradient.keys & SPARSE else held_by(gradient)
    return tuple([tracer.node(part).call for part in parts])


@frozen
class Derived:
    """A backward pass, and what it starts from.

    These are the results at the positions `differentiable` in a list of three parts: the outputs of the graph, `views`
    of inputs, and inputs that are `written` to with gradients. `intermediate` are those of the last that had a
    history before the call, and so were no leaves.
    """

    joint: Joint
    differentiable: Sequence[int]
    views: Sequence[ViewSource]
    written: Sequence[Source]
    intermediate: Sequence[Source]


def derived(
    tracer: Tracer,
    handles: Sequence[Handle],
    shown: Mapping[int, tuple[Any, ViewSource]],
    since: int,
    sources: tuple[Callable[[Handle], Source], Callable[[Handle], Source | None]],
) -> Derived | None:
    """Traces the backward pass from a graph's outputs and from its inputs.

    It starts from the outputs (`handles`), views of inputs (`shown`), and inputs that are written to. `sources` are two
    functions that give the source of an input; the second gives None for one that gets no gradient.
    """
    views = [pair for pair in shown.values() if _leads_on(pair[0])]
    written = [tensor for tensor in tracer.lifted if _is_rewritten(tensor, since)]
    results = [*handles, *[tensor for tensor, _ in views], *written]
    places = [position for position, handle in enumerate(results) if has_history(handle)]
    freed = Tape([results[position] for position in places], since).freed()
    places = [position for position, gone in zip(places, freed, strict=True) if not gone]
    if not places:
        return None
    source_of, source_of_wanted = sources
    joint = Joint(tracer, [results[position] for position in places], since, source_of_wanted)
    if not joint.wanted:
        return None
    origins = [source_of(tensor) for tensor in written]
    before = [tracer.histories.before(tensor).node for tensor in written]
    joint.close()
    intermediate = [source for source, node in zip(origins, before, strict=True) if node is not None]
    return Derived(joint, places, [source for _, source in views], origins, intermediate)


def _leads_on(view: Handle) -> bool:
    """Whether a view has a history. One of no_grad, which cannot follow a write to its base, has what it was given."""
    shown = view.view_of
    if shown is not None and not shown.recorded:
        given = view.gradient is not None and view.gradient.node is not None  # by a custom function
        if not given or shown.rebases != rebases_of(shown.base):
            return False
    return has_history(view)


def _is_rewritten(tensor: Handle, since: int) -> bool:
    """Whether the trace, which began at `since`, has written to an input and given it another history."""
    if not tensor.node.cell.writes:
        return False
    record = tensor.gradient if requires(tensor) else None
    return record is not None and record.node is not None and record.node.sequence >= since


def edge_before(tracer: Tracer, tensor: Handle) -> tuple[Any, int] | None:
    """Where a tensor's gradient goes, as it was before the trace replaced its history."""
    before = tracer.histories.before(tensor)
    return edge_of(tensor) if before.is_current else None if before.node is None else (before.node, before.output)


def has_history(handle: Handle) -> bool:
    """Whether a tensor was computed by what is recorded, and may be differentiated still."""
    record = handle.gradient if requires(handle) else None  # a view asks what its base has become
    return record is not None and record.node is not None and not record.node.released


@frozen
class SegmentPlan:
    """What the node of a segment takes and gives.

    `inputs` are the wanted inputs to which it gives gradients, and `merged_inputs` those to which it and all segments
    that follow give some, as they come; the first of these gives all of it (`merged_results`). Of their places those in
    `folds` and `merged_folds` may be sums. Besides the gradients of its `results` each node but the first takes what
    those before it leave to it. The gradients of its results lead to the inputs `leads`, and to the nodes `leads_after`
    among those that follow.
    """

    index: int
    results: tuple[int, ...]
    next_results: tuple[int, ...]
    inputs: tuple[int, ...]
    folds: tuple[int, ...]
    merged_inputs: tuple[int, ...]
    merged_results: tuple[int | None, ...]
    merged_folds: tuple[int, ...]
    leads: tuple[int, ...]
    leads_after: tuple[int, ...]

    @staticmethod
    def of(joint: Joint, index: int) -> SegmentPlan:
        """The plan of a segment."""
        segment, after = joint.segments[index], joint.segments[index + 1 :]
        merged = tuple([at for one in (segment, *after) for at in one.inputs])
        firsts = {at: place for place, at in reversed(list(enumerate(merged)))}
        several = {at for at, gradient in enumerate(joint.gradients) if len(gradient.parts) > 1}
        folds = [place for place, at in enumerate(merged) if at in several]
        next_results = after[0].results if after else ()
        count = len(segment.inputs)
        given = tuple([at if firsts[at] == place else None for place, at in enumerate(merged)])
        alone = [place for place in folds if place < count] + list(range(count, count + len(next_results)))
        leads_after = [at for at, one in enumerate(after) if not segment.leads[1].isdisjoint(one.results)]
        return SegmentPlan(
            index,
            segment.results,
            next_results,
            segment.inputs,
            tuple(alone),
            merged,
            given,
            tuple(folds),
            tuple(segment.leads[0]),
            tuple(leads_after),
        )

    @property
    def outputs(self) -> int:
        """How many gradients its node takes."""
        return len(self.results) + (self.index > 0)


@frozen
class BackwardLayout:
    """What the nodes of a compiled call take and give, by numbers.

    `returned` outputs of the forward graph are results; what is saved follows them. The nodes keep the inputs and
    outputs at the positions `inputs` and `saved`, and know those in `more`. Results at the positions `differentiable`
    have gradients, and so have `wanted` inputs. `places` are the segment of each result, and its place in that, and
    `freeing` the steps that a pass from it frees, as bits.
    """

    returned: int
    differentiable: tuple[int, ...]
    wanted: int
    inputs: tuple[int, ...]
    saved: tuple[int, ...]
    more: tuple[int, ...]
    segments: tuple[SegmentPlan, ...]
    places: tuple[tuple[int, int], ...]
    freeing: tuple[int, ...]

    @staticmethod
    def of(backward: Derived, returned: int, split: Split) -> BackwardLayout:
        """The layout of a traced backward pass."""
        joint = backward.joint
        places = {
            number: (at, place) for at, one in enumerate(joint.segments) for place, number in enumerate(one.results)
        }
        return BackwardLayout(
            returned,
            tuple(backward.differentiable),
            len(joint.wanted),
            split.inputs,
            split.saved,
            split.more,
            tuple([SegmentPlan.of(joint, first) for first in range(len(joint.segments))]),
            tuple([places[number] for number in range(len(backward.differentiable))]),
            tuple(joint.tape.freeing()),
        )
