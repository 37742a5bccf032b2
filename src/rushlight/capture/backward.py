"""The backward graphs of a compiled forward: autograd nodes that launch them."""

from __future__ import annotations

import functools
import itertools
import operator
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from rushlight.autodiff.backward import Apart
from rushlight.autodiff.partition import Split
from rushlight.capture.entry.entry import RunPlan
from rushlight.capture.entry.kept import Saved, Unsaved
from rushlight.capture.gradients.joint import BackwardLayout, Derived, Joint, SegmentPlan, fail_freed
from rushlight.capture.gradients.orders import Common, Goal, Gradients, Order, Request, Variant, as_hints, without_sizes
from rushlight.capture.segmented import Ran
from rushlight.eager.autograd.accumulate import edge_of
from rushlight.eager.autograd.history import attach, requires
from rushlight.eager.autograd.node import Edge, Node
from rushlight.eager.autograd.saved import SavedTensor
from rushlight.eager.autograd.write import Rewriting
from rushlight.eager.dispatch import STATE, Scope
from rushlight.eager.handle import Handle, share
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen
from rushlight.sym import Size, SizeExpr

if TYPE_CHECKING:
    from rushlight.build import Executable
    from rushlight.ir.graph import Graph


_part_numbers = itertools.count()


class BackwardPart:
    """What a compiled forward needs to be differentiated, any number of times.

    There is a graph for each set of results that have gradients, of inputs whose gradients are given in parts, and of
    segments that run as one; `order` has each at the first backward pass that asks for it.
    """

    def __init__(self, layout: BackwardLayout, order: Gradients) -> None:
        self.layout = layout
        self.order = order
        self.number = next(_part_numbers)  # which tells it from others, also when it is gone

    @staticmethod
    def of(
        backward: Derived, returned: int, split: Split, compile_graph: Callable[[Graph], Executable]
    ) -> BackwardPart:
        """The part of a traced backward pass."""
        return BackwardPart(
            BackwardLayout.of(backward, returned, split), first_order(backward.joint, split, compile_graph)
        )

    def attach(
        self,
        outputs: list[Any],
        views: Sequence[object],
        written: Sequence[Handle],
        inputs: Sequence[object],
        wanted: Sequence[object],
        plan: RunPlan | Ran,
    ) -> Attached:
        """Makes results those of one node that keeps what is saved: inputs (tensors and numbers) and outputs.

        `views` are results that are views of inputs; gradients go to the `wanted` inputs. Also gives the attributes to
        set, in threes (target, name, value), when the `written` inputs are overwritten: their new histories.
        """
        # An output is kept without its history, which would be a cycle.
        layout, count = self.layout, self.layout.returned
        kept = [share(outputs[position]) if position < count else outputs[position] for position in layout.saved]
        saved = [*[inputs[position] for position in layout.inputs], *kept]
        edges = [edge_of(handle) for handle in wanted]
        more = {position: Unsaved(inputs[position]) for position in layout.more}
        nodes = self._nodes(Saved(saved, plan.values, edges, more))
        shown = count + len(views)
        rewriting = Rewriting()
        for index, (segment, number) in zip(layout.differentiable, layout.places, strict=True):
            if index < count:
                attach(outputs[index], nodes[segment], number)
            elif index < shown:
                attach(views[index - count], nodes[segment], number)
            else:
                rewriting.add(written[index - shown], nodes[segment], number)
        return Attached(nodes[-1], rewriting.attributes(views))

    def again(
        self, first: int, values: Sequence[object], sizes: Mapping[SizeExpr, Size], more: Mapping[int, object]
    ) -> list[CompiledBackward]:
        """Nodes for the segments from one on, which lead nowhere, around other values and sizes."""
        unsaved = {position: Unsaved(value) for position, value in more.items()}
        saved = Saved(values, sizes, [], unsaved)
        nodes: list[CompiledBackward] = []
        for plan in reversed(self.layout.segments[first:]):
            nodes = [CompiledBackward(self, plan, [], saved, nodes), *nodes]
        return nodes

    def _nodes(self, saved: Saved) -> list[CompiledBackward]:
        """A node for each segment, made from the last to the first: the order in which steps are recorded."""
        edges, segments = saved.edges, self.layout.segments
        if len(segments) == 1:
            return [CompiledBackward(self, segments[0], edges, saved, ())]
        nodes: list[CompiledBackward] = []
        for plan in reversed(segments):
            node = CompiledBackward(self, plan, [edges[at] for at in plan.inputs], saved, nodes)
            node.paths = [*[edges[at] for at in plan.leads], *[(nodes[at], 0) for at in plan.leads_after]]
            nodes = [node, *nodes]
        saved.first = weakref.ref(nodes[0])
        return nodes


def first_order(joint: Joint, split: Split, compile_graph: Callable[[Graph], Executable]) -> Order:
    """The gradients of a function's results, of which those of all are made already."""
    whole, gradients = joint.trace.whole, joint.gradients
    common = Common(joint, split, compile_graph)
    types = [tangent.form.type for tangent in joint.tangents]
    order = Order(common, whole, joint.tape, joint.since, types, segments=joint.segments)
    order.places = joint.places
    counts, makes = [len(gradient.total) for gradient in gradients], [gradient.make for gradient in gradients]
    everything = Request(tuple(range(len(types))), frozenset(), 0, len(joint.segments) - 1)
    graph = without_sizes(split.backward, split.sizes)
    order.prepare(everything, Variant(whole, graph, common.runs(graph, whole), counts, makes))
    return order


class Attached(list[Any]):
    """Attributes to set, and the node that results have become outputs of."""

    def __init__(self, node: CompiledBackward, attributes: Sequence[object]) -> None:
        super().__init__(attributes)
        self.node = node


@frozen
class Below:
    """What an order builds on: the nodes of the orders below, and where the gradients that they took came from."""

    nodes: tuple[CompiledBackward | HigherBackward, ...]
    given: tuple[Edge | None, ...]


def _given(gradients: Sequence[Any]) -> tuple[tuple[int, ...], list[Any]]:
    """The numbers of results that have gradients, and these row by row."""
    present = tuple([position for position, gradient in enumerate(gradients) if gradient is not None])
    return present, [_contiguous(gradients[position]) for position in present]


def _recorded(given: Sequence[Handle], create_graph: bool) -> tuple[bool, ...] | None:
    return tuple([requires(gradient) for gradient in given]) if create_graph else None


def _record(order: Order, outputs: Sequence[Any], given: Sequence[Handle], saved: Saved, below: Below) -> None:
    """Makes gradients the results of a node of the next order. `saved` and `below` are those of the order below."""
    edges_given = (*below.given, *[edge_of(gradient) if requires(gradient) else None for gradient in given])

    def edge(goal: Goal) -> Edge | None:
        if goal.kind == "input":
            return saved.edges[goal.number]
        return edges_given[goal.number] if goal.kind == "given" else below.nodes[goal.order].result(goal.number)

    kept = Saved([*(saved.tensors or ()), *given], saved.sizes, saved.edges, saved.more)
    node = HigherBackward(order, [edge(goal) for goal in order.goals], kept, Below(below.nodes, edges_given))
    if STATE.saving:
        node.pack()
    for number, position in enumerate(order.differentiable):
        attach(outputs[position], node, number)


class CompiledBackward(Node):
    """Runs a segment of a compiled backward pass: from the gradients of some results of a call to the next ones.

    Where nobody asks for what arrives at the results of later segments, one graph runs all of them. Else each segment
    runs by itself, again from the gradients of all results so far, which it hands on to the node that follows.
    """

    __slots__ = ("_apart", "_saved", "extended", "folds", "merges", "part", "paths", "plan", "rest")

    def __init__(
        self,
        part: BackwardPart,
        plan: SegmentPlan,
        edges: list[Edge | None],
        saved: Saved,
        rest: Sequence[CompiledBackward],
    ) -> None:
        if rest:
            edges += [(rest[0], number) for number in range(rest[0].plan.outputs)]
        super().__init__(edges, located=not rest)
        if rest:
            self.frame = rest[0].frame
        self.part = part
        self.paths: Sequence[Edge | None] | None = None
        self.plan = plan
        self.rest = rest
        self.merges = bool(rest)
        self.folds = plan.folds
        self._saved = saved
        self._apart: frozenset[int] = frozenset()
        self.extended = False  # whether higher orders give it gradients of what is no result

    def result(self, number: int) -> Edge:
        """Where the gradient of a result goes: of what the function does not return, to this node."""
        results = len(self.part.layout.differentiable)
        if number < results:
            segment, place = self.part.layout.places[number]
            assert segment >= self.plan.index, "a pass leads to a segment before the first that it depends on"
            return (self, *self.rest)[segment - self.plan.index], place
        self.extended, self.paths = True, None
        for node in (self, *self.rest):
            node.folds = tuple(range(len(node.plan.inputs) + len(node.plan.next_results)))
        return self, self.plan.outputs + number - results

    def pack(self) -> None:
        """Gives what the call keeps to the hooks that are on, once it is computed."""
        self._saved.pack()

    @property
    def is_packed(self) -> bool:
        """Whether hooks give what the call keeps, which run when the node does."""
        return any(isinstance(value, SavedTensor) for value in self._saved.tensors or ())

    @property
    def sizes(self) -> Mapping[SizeExpr, int]:
        """The sizes of the call, outside of traces."""
        return as_hints(self._saved.sizes)

    def kept(self) -> tuple[list[object], dict[int, object]]:
        """What the call keeps, and the inputs that it does not, by position, as long as they live. G001, G003."""
        if self._saved.freed:
            fail_freed(self)
        return self._saved.unpacked(self), {position: one.if_alive() for position, one in self._saved.more.items()}

    def merged(self, wanted: Collection[int]) -> MergedBackward | None:
        """This node and those that follow as one, unless what arrives at one of these is seen or `wanted`."""
        if self._after or any(id(node) in wanted or any(node.watched()) for node in self.rest):
            return None
        return MergedBackward((self, *self.rest))

    def keep_apart(self, places: Collection[int]) -> None:
        """Before a run: gradients at these positions come as their summands, to be added to an existing sum."""
        if not self._after:
            inputs, count = self.plan.inputs, self.part.layout.wanted - len(self.plan.inputs)
            self._apart = frozenset([inputs[at] if at < len(inputs) else count + at for at in places])

    def prepare(self, gradients: list[object], owned: set[int], runs: bool = True) -> None:
        """Runs the hooks on the gradients of results."""
        count = len(self.plan.results)
        handed, gradients[count:] = gradients[count:], []  # also those of what is no result
        super().prepare(gradients, owned, runs)
        if handed:
            gradients += [*[None] * (count - len(gradients)), *handed]

    def run(self, gradients: list[Any], create_graph: bool, owned: set[int]) -> Sequence[Any]:
        """The gradients of inputs, those of the next results, and what the following node has to know."""
        given = self.handed(gradients)
        apart, self._apart = self._apart, frozenset[int]()
        results = self.results([self], given, apart, create_graph, owned)
        count = self.part.layout.wanted
        gradients = [results[at] for at in self.plan.inputs]
        return [*gradients, *results[count:], given] if self.rest else gradients

    def handed(self, gradients: Sequence[Any]) -> list[object]:
        """The gradients of all results as far as they are known: those of the nodes before, and its own."""
        results, outputs = self.plan.results, self.plan.outputs
        before = gradients[len(results)] if self.plan.index and len(gradients) > len(results) else None
        given: list[object] = [None] * len(self.part.layout.differentiable) if before is None else list(before)
        for number, gradient in zip(results, gradients, strict=False):
            given[number] = gradient
        extra = gradients[outputs:]
        return (
            [*given, *extra]
            if before is None or not extra
            else _merged(given, len(self.part.layout.differentiable), extra)
        )

    def results(
        self,
        nodes: Sequence[CompiledBackward],
        given: Sequence[Any],
        apart: frozenset[int],
        create_graph: bool,
        owned: set[int],
    ) -> list[Any]:
        """What consecutive nodes give, of which this is the first: to all wanted inputs, and to the next results."""
        present, rows = _given(given)
        self._saved.begin(self._steps(nodes, present), self)
        recorded = _recorded(rows, create_graph)
        request = Request(present, apart, self.plan.index, nodes[-1].plan.index, recorded)
        variant = self.part.order.variant(request, self._saved.sizes)
        self._saved.sizes = self.part.order.sizes(self._saved.sizes)
        with Scope(grad=False):
            more = [self._saved.more[position].value(self) for position in variant.more]
            inputs = [*self._saved.read_by(variant, self), *rows, *more]
        outputs = variant.run(inputs, self._saved.sizes)
        if variant.next is not None:
            _record(variant.next, outputs, rows, self._saved, Below((self._start,), ()))
        results = _results(variant, outputs, apart, set() if create_graph else owned)
        if self.extended:
            self._refuse_unplaced(nodes, results)
        return results

    def _steps(self, nodes: Sequence[CompiledBackward], present: Sequence[int]) -> int:
        """The steps of eager code that nodes stand for, as bits: those that results of theirs have and a pass frees."""
        own = {number for node in nodes for number in node.plan.results}
        freeing, steps = self.part.layout.freeing, 0
        for number in present:
            if number in own:
                steps |= freeing[number]
            elif number >= len(freeing):  # higher orders give it: it may lead anywhere
                steps |= functools.reduce(operator.or_, freeing)
        return steps

    @property
    def _start(self) -> CompiledBackward:
        """The node that takes the gradients of what is no result: the call's first, or this one if that is gone."""
        first = None if self._saved.first is None else self._saved.first()
        return self if first is None else first

    def _refuse_unplaced(self, nodes: Sequence[CompiledBackward], results: Sequence[object]) -> None:
        """G015 for a gradient at an input to which the first order gives none from these segments."""
        placed = {at for node in nodes for at in node.plan.inputs}
        count = self.part.layout.wanted
        if any(result is not None and at not in placed for at, result in enumerate(results[:count])):
            fail("G015", "backward: a derivative leads to what the first one did not reach", frame=self.frame)

    def release(self) -> None:
        """Lets go of what was saved, which all nodes of a call share: the last one does."""
        if not self.rest:
            self._saved.end(self.part.layout.freeing)

    def name(self) -> str:
        """As it is shown in errors."""
        return "CompiledFunctionBackward"


class HigherBackward(Node):
    """Launches the graph of a higher order: gradients of gradients."""

    __slots__ = ("_apart", "_below", "_order", "_saved", "folds")

    def __init__(self, order: Order, edges: Sequence[Edge | None], saved: Saved, below: Below) -> None:
        super().__init__(edges)
        self._order = order
        self._saved = saved
        self._below = below
        self._apart: frozenset[int] = frozenset()
        self.folds = order.folds

    def pack(self) -> None:
        """Gives what it keeps to the hooks that are on."""
        self._saved.pack()

    def result(self, number: int) -> Edge:
        """Where the gradient of a result of its order goes."""
        self.folds = self._order.folds
        return self, number

    def keep_apart(self, places: Collection[int]) -> None:
        """Before a run: gradients at these positions come as their summands, to be added to an existing sum."""
        if not self._after:
            self._apart = frozenset(places)

    def run(self, gradients: list[Any], create_graph: bool, owned: set[int]) -> Sequence[Any]:
        """The gradients of inputs, of gradients that were given, and of results of lower orders."""
        present, rows = _given(gradients)
        recorded = _recorded(rows, create_graph)
        request, self._apart = Request(present, self._apart, recorded=recorded), frozenset[int]()
        variant = self._order.variant(request, self._saved.sizes)
        with Scope(grad=False):
            more = [self._saved.more[position].value(self) for position in variant.more]
            inputs = [*self._saved.unpacked(self), *rows, *more]
        outputs = variant.run(inputs, self._saved.sizes)
        if variant.next is not None:
            _record(variant.next, outputs, rows, self._saved, Below((*self._below.nodes, self), self._below.given))
        return _results(variant, outputs, request.apart, set() if create_graph else owned)

    def release(self) -> None:
        """Lets go of what was saved."""
        self._saved.tensors = None

    def name(self) -> str:
        """As it is shown in errors."""
        return "CompiledFunctionBackward"


class MergedBackward(Node):
    """The nodes of all segments from some one on, run as one graph."""

    __slots__ = ("_apart", "folds", "steps")

    def __init__(self, steps: Sequence[CompiledBackward]) -> None:
        first = steps[0]
        count = [len(step.plan.inputs) for step in steps]
        edges = [edge for step, own in zip(steps, count, strict=True) for edge in step.edges[:own]]
        super().__init__(edges, located=False)
        self.sequence = first.sequence
        self.frame = first.frame
        self.steps = steps
        self.folds = range(len(first.plan.merged_inputs)) if first.extended else first.plan.merged_folds
        self._apart: frozenset[int] = frozenset()

    def joined(self, gradients: Sequence[list[object]]) -> list[object]:
        """The gradients of the outputs of all steps in one list, for those that have arrived at each."""
        found: list[object] = []
        for step, given in zip(self.steps, gradients, strict=True):
            own = given[: step.plan.outputs]
            found += [*own, *[None] * (step.plan.outputs - len(own))]
        extra: list[object] = []  # of what is no result
        for step, given in zip(self.steps, gradients, strict=True):
            extra = _merged(extra, 0, given[step.plan.outputs :])
        return [*found, *extra]

    def keep_apart(self, places: Collection[int]) -> None:
        """Before a run: gradients at these positions come as their summands, to be added to an existing sum."""
        self._apart = frozenset([self.steps[0].plan.merged_inputs[at] for at in places])

    def run(self, gradients: list[Any], create_graph: bool, owned: set[int]) -> Sequence[Any]:
        """The gradients of inputs, each for the first of the steps that gives one."""
        first, at = self.steps[0], 0
        given = first.handed(gradients[: first.plan.outputs])
        for step in self.steps:
            for place, number in enumerate(step.plan.results):
                given[number] = gradients[at + place]
            at += step.plan.outputs
        given = _merged(given, len(first.part.layout.differentiable), gradients[at:])
        results = first.results(self.steps, given, self._apart, create_graph, owned)
        return [None if at is None else results[at] for at in first.plan.merged_results]

    def release(self) -> None:
        """Lets go of what was saved."""
        for step in self.steps:
            step.release()

    def name(self) -> str:
        """As it is shown in errors."""
        return self.steps[0].name()


def _merged(given: Sequence[object], count: int, extra: Sequence[object]) -> list[object]:
    """The gradients of `count` results, and of more, to which `extra` is added."""
    add = OPERATORS["add"]
    pairs = list(zip_longest(given[count:], extra))
    sums = [new if old is None else old if new is None else add(old, new) for old, new in pairs]
    return [*given[:count], *sums]


def _results(variant: Variant, values: Sequence[Any], apart: frozenset[int], owned: set[int]) -> list[Any]:
    """The gradients of the wanted inputs: one each, or None."""
    rest = iter(values)
    results: list[Any] = []
    for position, (count, make) in enumerate(zip(variant.counts, variant.makes, strict=True)):
        parts = [next(rest) for _ in range(count)]
        gradient = None if not parts else parts[0] if make is None else make(*parts)
        several = position in apart and make is None
        results.append(Apart(parts) if several else gradient)
        owned.update([id(part) for part in parts] if several else [id(gradient)])
    return results


def _contiguous(tensor: Any) -> Any:
    """The same values, row-major."""
    return tensor if tensor.form.is_contiguous else OPERATORS["contiguous"](tensor)
