"""The backward graph of a compiled forward: an autograd node that launches it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rushlight.autodiff.backward import Apart
from rushlight.autodiff.partition import Split
from rushlight.build.segments import is_segmented
from rushlight.capture.entry.entry import RunPlan
from rushlight.capture.joint import Derived, InputGradient
from rushlight.capture.segmented import Ran, Runs, Segmented, Whole
from rushlight.eager.autograd.accumulate import edge_of
from rushlight.eager.autograd.history import attach
from rushlight.eager.autograd.node import Node
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

    There is a graph for each set of results that have gradients, and of inputs whose gradients are given in parts; each
    is made at the first backward pass that asks for it.
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
        self.folds = tuple([position for position, gradient in enumerate(joint.gradients) if len(gradient.parts) > 1])
        self._calls = len(joint.calls)
        self._compile_graph = compile_graph
        self._all = (True,) * len(self.differentiable)
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
        node = CompiledBackward(self, [edge_of(handle) for handle in wanted], saved, plan.values)
        count, shown = self.returned, self.returned + len(views)
        rewriting = Rewriting()
        for number, index in enumerate(self.differentiable):
            if index < count:
                attach(outputs[index], node, number)
            elif index < shown:
                attach(views[index - count], node, number)
            else:
                rewriting.add(written[index - shown], node, number)
        return Attached(node, rewriting.attributes(views))

    def run(
        self, saved: Sequence[object], gradients: Sequence[object], values: dict[SizeExpr, int], apart: frozenset[int]
    ) -> list[Any]:
        """The gradients of the wanted inputs: one each, or None. Inputs in `apart` get their summands, not the sum."""
        given = [gradient for gradient in gradients if gradient is not None]
        key = tuple([gradient is not None for gradient in gradients]), apart
        variant = self._variants.get(key)
        if variant is None:
            with self._lock:
                variant = self._variants.get(key)
                if variant is None:
                    variant = self._variants[key] = self._variant(*key)
        inputs = [*saved, *given]
        outputs = iter(variant.runs.bound(inputs, values)(inputs))
        results: list[Any] = []
        for position, (count, make) in enumerate(zip(variant.counts, variant.makes, strict=True)):
            parts = [next(outputs) for _ in range(count)]
            gradient = None if not parts else parts[0] if make is None else make(*parts)
            results.append(Apart(parts) if position in apart else gradient)
        return results

    def _variant(self, present: tuple[bool, ...], apart: frozenset[int]) -> _Variant:
        split = self.split
        if present == self._all and not apart:
            gradients = self.joint.gradients
            runs = self._runs(split.backward, split.sizes)
            return _Variant(runs, tuple([len(gradient.total) for gradient in gradients]), _makes(gradients))
        calls = self.joint.calls
        gradients = self.joint.gradients
        if present != self._all:
            gradients = self.joint.again(present)
        wanted: list[Call] = []
        counts: list[int] = []
        for position, gradient in enumerate(gradients):
            summands = gradient.parts if position in apart else gradient.total
            wanted.extend(summands)
            counts.append(len(summands))
        graph, sizes = split.other_backward(calls, wanted, present)
        del calls[self._calls :]
        return _Variant(self._runs(graph, sizes), tuple(counts), _makes(gradients))

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
    """A backward graph, and for each wanted input how many values it gives.

    `makes` has what makes a sparse gradient of several; None for a dense one.
    """

    runs: Runs
    counts: tuple[int, ...]
    makes: tuple[Callable[..., object] | None, ...]


def _makes(gradients: Sequence[InputGradient]) -> tuple[Callable[..., object] | None, ...]:
    return tuple([gradient.make for gradient in gradients])


class CompiledBackward(Node):
    """Launches a compiled backward graph."""

    __slots__ = ("_apart", "_part", "_saved", "_values", "_versions", "folds")

    def __init__(
        self,
        part: BackwardPart,
        edges: Sequence[object],
        saved: Sequence[object],
        values: dict[SizeExpr, int],
    ) -> None:
        super().__init__(edges)
        self._part = part
        self._saved: Sequence[Any] | None = saved
        self._versions = [value.version.value if isinstance(value, Handle) else 0 for value in saved]
        self._values = values
        self._apart: frozenset[int] = frozenset()
        self.folds = part.folds

    def pack(self) -> None:
        """Gives what is saved to the hooks that are on, once it is computed."""
        if self._saved is not None:
            self._saved = [SavedTensor(value) if isinstance(value, Handle) else value for value in self._saved]
            self._versions = [0] * len(self._saved)

    def keep_apart(self, places: Sequence[int]) -> None:
        """Before a run: gradients at these positions come as their summands, to be added to an existing sum."""
        if not self._after:
            self._apart = frozenset(places)

    def run(self, gradients: list[Any], create_graph: bool, owned: set[int]) -> Sequence[Any]:
        """The gradients of the forward's inputs."""
        if create_graph:
            fail("G009", "a compiled function cannot be differentiated twice yet", hint="run it without compile")
        if self._saved is None:
            fail("G001", "backward: the graph was freed by an earlier backward pass", frame=self.frame)
        for result, version in zip(self._saved, self._versions, strict=True):
            if isinstance(result, Handle) and result.version.value != version:
                message = f"backward: a tensor saved by {self.name()} was changed in place"
                fail("G003", message, frame=self.frame, tensor=result)
        given = [*gradients, *[None] * (len(self._part.differentiable) - len(gradients))]
        given = [
            gradient if gradient is None or gradient.form.is_contiguous else contiguous(gradient) for gradient in given
        ]
        apart, self._apart = self._apart, frozenset[int]()
        saved = [self._unpacked(value) if isinstance(value, SavedTensor) else value for value in self._saved]
        results = self._part.run(saved, given, self._values, apart)
        for result in results:
            owned.update([id(part) for part in result] if isinstance(result, Apart) else [id(result)])
        return results

    def _unpacked(self, saved: SavedTensor) -> Any:
        """What a hook gives back, in the layout for which the backward graph was compiled."""
        tensor = saved.unpack(self, self.frame)
        if tensor.form is saved.form:
            return tensor
        return dispatch(COPY, (allocate(saved.form), tensor), {})

    def release(self) -> None:
        """Lets go of what was saved."""
        self._saved = None

    def name(self) -> str:
        """As it is shown in errors."""
        return "CompiledFunctionBackward"


def contiguous(tensor: object) -> Any:
    """The same values, row-major."""
    return OPERATORS["contiguous"](tensor)
