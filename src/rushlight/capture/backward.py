"""The backward graph of a compiled forward: an autograd node that launches it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rushlight.autodiff.backward import Apart
from rushlight.autodiff.partition import Split
from rushlight.build.segments import is_segmented
from rushlight.capture.entry.entry import RunPlan
from rushlight.capture.joint import Derived, InputGradient, Joint, Span
from rushlight.capture.segmented import Ran, Runs, Segmented, Whole
from rushlight.eager.autograd.accumulate import edge_of
from rushlight.eager.autograd.history import attach
from rushlight.eager.autograd.node import Edge, Node
from rushlight.eager.autograd.saved import SavedTensor
from rushlight.eager.autograd.write import Rewriting
from rushlight.eager.dispatch import dispatch
from rushlight.eager.handle import Handle, allocate, share
from rushlight.eager.mutation import COPY
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import fail
from rushlight.support.frozen import frozen
from rushlight.sym import SizeExpr

if TYPE_CHECKING:
    from rushlight.build import Executable
    from rushlight.ir.graph import Call, Graph


class BackwardPart:
    """What a compiled forward needs to be differentiated.

    There is a graph for each set of results that have gradients, of inputs whose gradients are given in parts, and of
    segments that run as one; each is made at the first backward pass that asks for it.
    """

    def __init__(
        self, backward: Derived, returned: int, split: Split, compile_graph: Callable[[Graph], Executable]
    ) -> None:
        """`returned` is how many outputs of the forward graph are results; what is saved follows them."""
        joint = backward.joint
        self.split = split
        self.joint = joint
        self.differentiable = backward.differentiable
        self.returned = returned
        self.segments = [_SegmentPlan.of(joint, first) for first in range(len(joint.segments))]
        places = {
            number: (at, place) for at, one in enumerate(joint.segments) for place, number in enumerate(one.results)
        }
        self._places = [places[number] for number in range(len(self.differentiable))]
        self._calls = len(joint.calls)
        self._compile_graph = compile_graph
        self._all = Span((True,) * len(self.differentiable), 0, len(self.segments) - 1)
        self._variants: dict[Hashable, _Variant] = {}
        self._lock = threading.Lock()

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
        kept = [
            share(outputs[position]) if position < self.returned else outputs[position] for position in self.split.saved
        ]
        saved = [*[inputs[position] for position in self.split.inputs], *kept]
        nodes = self._nodes(wanted, _Saved(saved, plan.values))
        count, shown = self.returned, self.returned + len(views)
        rewriting = Rewriting()
        for index, (segment, number) in zip(self.differentiable, self._places, strict=True):
            if index < count:
                attach(outputs[index], nodes[segment], number)
            elif index < shown:
                attach(views[index - count], nodes[segment], number)
            else:
                rewriting.add(written[index - shown], nodes[segment], number)
        return Attached(nodes[-1], rewriting.attributes(views))

    def _nodes(self, wanted: Sequence[object], saved: _Saved) -> list[CompiledBackward]:
        """A node for each segment, made from the last to the first: the order in which steps are recorded."""
        edges = [edge_of(handle) for handle in wanted]
        if len(self.segments) == 1:
            return [CompiledBackward(self, self.segments[0], edges, saved, ())]
        nodes: list[CompiledBackward] = []
        for plan in reversed(self.segments):
            node = CompiledBackward(self, plan, [edges[at] for at in plan.inputs], saved, nodes)
            node.paths = [*[edges[at] for at in plan.leads], *[(nodes[at], 0) for at in plan.leads_after]]
            nodes = [node, *nodes]
        return nodes

    def run(
        self,
        saved: Sequence[object],
        gradients: Sequence[object],
        values: dict[SizeExpr, int],
        segments: tuple[int, int],
        apart: frozenset[int],
    ) -> list[Any]:
        """The gradients that some segments, from first to last, give: to the wanted inputs, and to the next results.

        One each, or None; those in `apart` as their summands, not the sum, and so those of results.
        """
        given = [gradient for gradient in gradients if gradient is not None]
        span = Span(tuple([gradient is not None for gradient in gradients]), *segments)
        variant = self._variants.get((span, apart))
        if variant is None:
            with self._lock:
                variant = self._variants.get((span, apart))
                if variant is None:
                    variant = self._variants[span, apart] = self._variant(span, apart)
        inputs = [*saved, *given]
        outputs = iter(() if variant.runs is None else variant.runs.bound(inputs, values)(inputs))
        results: list[Any] = []
        for position, (count, make) in enumerate(zip(variant.counts, variant.makes, strict=True)):
            parts = [next(outputs) for _ in range(count)]
            gradient = None if not parts else parts[0] if make is None else make(*parts)
            results.append(Apart(parts) if position in apart and make is None else gradient)
        return results

    def _variant(self, span: Span, apart: frozenset[int]) -> _Variant:
        split, joint = self.split, self.joint
        whole = span == self._all
        if whole and not apart:
            runs = self._runs(split.backward, split.sizes)
            return _Variant(runs, tuple([len(gradient.total) for gradient in joint.gradients]), _makes(joint.gradients))
        calls = joint.calls
        gradients = joint.gradients if whole else joint.again(span)
        wanted: list[Call] = []
        counts: list[int] = []
        for position, gradient in enumerate(gradients):
            summands = gradient.parts if position in apart and gradient.parts else gradient.total
            wanted.extend(summands)
            counts.append(len(summands))
        runs: Runs | None = None
        if wanted:
            graph, sizes = split.other_backward(calls, wanted, span.present)
            runs = self._runs(graph, sizes)
        del calls[self._calls :]
        return _Variant(runs, tuple(counts), _makes(gradients))

    def _runs(self, graph: Graph, sizes: Sequence[SizeExpr]) -> Runs:
        """What runs a backward graph, which needs no parameter for sizes that come beside the tensors."""
        graph = replace(graph, parameters=graph.parameters[: len(graph.parameters) - bool(sizes)])
        kind = Segmented if is_segmented(graph) else Whole
        return kind(graph, self._compile_graph)


class Attached(list[Any]):
    """Attributes to set, and the node that results have become outputs of."""

    def __init__(self, node: CompiledBackward, attributes: Sequence[object]) -> None:
        super().__init__(attributes)
        self.node = node


@frozen
class _Variant:
    """A backward graph, None of nothing. `counts` are of values, for each wanted input and each next result.

    `makes` has what makes a sparse gradient of several; None for a dense one.
    """

    runs: Runs | None
    counts: tuple[int, ...]
    makes: tuple[Callable[..., object] | None, ...]


def _makes(gradients: Sequence[InputGradient]) -> tuple[Callable[..., object] | None, ...]:
    return tuple([gradient.make for gradient in gradients])


@frozen
class _SegmentPlan:
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
    def of(joint: Joint, index: int) -> _SegmentPlan:
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
        return _SegmentPlan(
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


class _Saved:
    """What a call keeps for its backward pass, and the version of each tensor. None once it is freed."""

    __slots__ = ("sizes", "tensors", "versions")

    def __init__(self, values: Sequence[object], sizes: dict[SizeExpr, int]) -> None:
        self.tensors: Sequence[object] | None = values
        self.versions = [value.version.value if isinstance(value, Handle) else 0 for value in values]
        self.sizes = sizes

    def pack(self) -> None:
        """Gives what is saved to the hooks that are on, once it is computed."""
        if self.tensors is not None:
            self.tensors = [SavedTensor(value) if isinstance(value, Handle) else value for value in self.tensors]
            self.versions = [0] * len(self.tensors)

    def unpacked(self, node: Node) -> list[object]:
        """What is saved. Errors: G001, G003."""
        if self.tensors is None:
            fail("G001", "backward: the graph was freed by an earlier backward pass", frame=node.frame)
        for value, version in zip(self.tensors, self.versions, strict=True):
            if isinstance(value, Handle) and value.version.value != version:
                message = f"backward: a tensor saved by {node.name()} was changed in place"
                fail("G003", message, frame=node.frame, tensor=value)
        return [_unpacked(value, node) if isinstance(value, SavedTensor) else value for value in self.tensors]


def _unpacked(saved: SavedTensor, node: Node) -> object:
    """What a hook gives back, in the layout for which the backward graph was compiled."""
    tensor = saved.unpack(node, node.frame)
    if tensor.form is saved.form:
        return tensor
    return dispatch(COPY, (allocate(saved.form), tensor), {})


class CompiledBackward(Node):
    """Runs a segment of a compiled backward pass: from the gradients of some results of a call to the next ones.

    Where nobody asks for what arrives at the results of later segments, one graph runs all of them. Else each segment
    runs by itself, again from the gradients of all results so far, which it hands on to the node that follows.
    """

    __slots__ = ("_apart", "_freed", "_saved", "folds", "merges", "part", "paths", "plan", "rest")

    def __init__(
        self,
        part: BackwardPart,
        plan: _SegmentPlan,
        edges: list[Edge | None],
        saved: _Saved,
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
        self._freed = False
        self._apart: frozenset[int] = frozenset()

    def pack(self) -> None:
        """Gives what the call keeps to the hooks that are on, once it is computed."""
        self._saved.pack()

    def merged(self, wanted: Collection[int]) -> MergedBackward | None:
        """This node and those that follow as one, unless what arrives at one of these is seen or `wanted`."""
        if self._after or any(id(node) in wanted or any(node.watched()) for node in self.rest):
            return None
        return MergedBackward((self, *self.rest))

    def keep_apart(self, places: Sequence[int]) -> None:
        """Before a run: gradients at these positions come as their summands, to be added to an existing sum."""
        if not self._after:
            inputs, count = self.plan.inputs, len(self.part.joint.wanted) - len(self.plan.inputs)
            self._apart = frozenset([inputs[at] if at < len(inputs) else count + at for at in places])

    def prepare(self, gradients: list[object], owned: set[int]) -> None:
        """Runs the hooks on the gradients of results."""
        count = len(self.plan.results)
        handed, gradients[count:] = gradients[count:], []
        super().prepare(gradients, owned)
        if handed:
            gradients += [*[None] * (count - len(gradients)), *handed]

    def run(self, gradients: list[Any], create_graph: bool, owned: set[int]) -> Sequence[Any]:
        """The gradients of inputs, those of the next results, and what the following node has to know."""
        given = self.handed(gradients)
        apart, self._apart = self._apart, frozenset[int]()
        results = self.results([self], given, apart, create_graph, owned)
        count = len(self.part.joint.wanted)
        gradients = [results[at] for at in self.plan.inputs]
        return [*gradients, *results[count:], given] if self.rest else gradients

    def handed(self, gradients: Sequence[Any]) -> list[object]:
        """The gradients of all results as far as they are known: those of the nodes before, and its own."""
        results = self.plan.results
        before = gradients[len(results)] if len(gradients) > len(results) else None
        given: list[object] = [None] * len(self.part.differentiable) if before is None else list(before)
        for number, gradient in zip(results, gradients, strict=False):
            given[number] = gradient
        return given

    def results(
        self,
        nodes: Sequence[CompiledBackward],
        given: Sequence[Any],
        apart: frozenset[int],
        create_graph: bool,
        owned: set[int],
    ) -> list[Any]:
        """What consecutive nodes give, of which this is the first: to all wanted inputs, and to the next results."""
        if create_graph:
            fail("G009", "a compiled function cannot be differentiated twice yet", hint="run it without compile")
        if any(node._freed for node in nodes):
            fail("G001", "backward: the graph was freed by an earlier backward pass", frame=self.frame)
        saved = self._saved.unpacked(self)
        given = [
            gradient if gradient is None or gradient.form.is_contiguous else contiguous(gradient) for gradient in given
        ]
        segments = self.plan.index, nodes[-1].plan.index
        results = self.part.run(saved, given, self._saved.sizes, segments, apart)
        for result in results:
            owned.update([id(part) for part in result] if isinstance(result, Apart) else [id(result)])
        return results

    def release(self) -> None:
        """Lets go of what was saved, which all nodes of a call share: the last one does."""
        self._freed = True
        if not self.rest:
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
        self.frame = first.frame
        self.steps = steps
        self.folds = first.plan.merged_folds
        self._apart: frozenset[int] = frozenset()

    def joined(self, gradients: Sequence[list[object]]) -> list[object]:
        """The gradients of the outputs of all steps in one list, for those that have arrived at each."""
        return [
            gradient
            for step, given in zip(self.steps, gradients, strict=True)
            for gradient in (*given, *[None] * (step.plan.outputs - len(given)))
        ]

    def keep_apart(self, places: Sequence[int]) -> None:
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
        results = first.results(self.steps, given, self._apart, create_graph, owned)
        return [None if at is None else results[at] for at in first.plan.merged_results]

    def release(self) -> None:
        """Lets go of what was saved."""
        for step in self.steps:
            step.release()

    def name(self) -> str:
        """As it is shown in errors."""
        return self.steps[0].name()


def contiguous(tensor: object) -> Any:
    """The same values, row-major."""
    return OPERATORS["contiguous"](tensor)
