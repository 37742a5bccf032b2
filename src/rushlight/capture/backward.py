"""The backward graph of a compiled forward: an autograd node that launches it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rushlight.autodiff.partition import Split
from rushlight.build.segments import is_segmented
from rushlight.capture.entry import RunPlan
from rushlight.capture.program import Program
from rushlight.capture.segmented import Ran, Runs, Segmented, Whole
from rushlight.capture.source import ArgumentSource, TensorSource
from rushlight.eager.autograd.accumulate import edge_of
from rushlight.eager.autograd.history import attach
from rushlight.eager.autograd.node import Node
from rushlight.eager.form import Form
from rushlight.eager.handle import Handle, share
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import fail
from rushlight.sym import SizeExpr

if TYPE_CHECKING:
    from rushlight.build import Executable
    from rushlight.ir.graph import Graph


class BackwardPart:
    """What a compiled forward needs to be differentiated. The executable is made at the first backward pass."""

    def __init__(self, program: Program, split: Split, compile_graph: Callable[[Graph], Executable]) -> None:
        self.split = split
        self.differentiable = program.differentiable
        self.wanted_places = [_place_of(program, item) for item in program.wanted]
        self.returned = len(program.outputs)
        self._runs = _runs(split, compile_graph)

    def attach(self, outputs: list[Any], inputs: Sequence[Any], plan: RunPlan | Ran) -> None:
        """Makes the outputs results of one node that keeps what is saved: inputs (tensors and numbers) and outputs."""
        # An output is kept without its history, which would be a cycle.
        kept = [share(outputs[place]) if place < self.returned else outputs[place] for place in self.split.saved]
        saved = [*[inputs[place] for place in self.split.inputs], *kept]
        edges = [edge_of(inputs[place]) for place in self.wanted_places]
        node = CompiledBackward(self, edges, saved, [outputs[place].form for place in self.differentiable], plan.values)
        for number, place in enumerate(self.differentiable):
            attach(outputs[place], node, number)

    def run(self, saved: Sequence[Any], gradients: Sequence[Any], values: dict[SizeExpr, int]) -> list[Any]:
        """The gradients of the wanted inputs."""
        inputs = [*saved, *gradients]
        return self._runs.bound(inputs, values)(inputs)


def _runs(split: Split, compile_graph: Callable[[Graph], Executable]) -> Runs:
    """What runs the backward graph, which needs no parameter for sizes that come beside the tensors."""
    parameters = split.backward.parameters
    graph = replace(split.backward, parameters=parameters[: len(parameters) - bool(split.sizes)])
    return Segmented(graph, compile_graph) if is_segmented(graph) else Whole(graph, compile_graph)


def _place_of(program: Program, tensor: Any) -> int:
    for place, source in enumerate(program.sources):
        if isinstance(source, TensorSource) and source.tensor is tensor:
            return place
    for place, lifted in enumerate(program.lifted):
        if lifted is tensor and isinstance(program.sources[place], ArgumentSource):
            return place
    return fail("X001", "a gradient is wanted for something that is no input")


class CompiledBackward(Node):
    """Launches a compiled backward graph."""

    __slots__ = ("_forms", "_part", "_saved", "_values", "_versions")

    def __init__(
        self,
        part: BackwardPart,
        edges: Sequence[Any],
        saved: Sequence[Any],
        forms: Sequence[Form],
        values: dict[SizeExpr, int],
    ) -> None:
        super().__init__(edges)
        self._part = part
        self._saved: Sequence[Any] | None = saved
        self._versions = [item.version.value if isinstance(item, Handle) else 0 for item in saved]
        self._forms = forms
        self._values = values

    def run(self, gradients: list[Any], create_graph: bool, owned: set[int]) -> Sequence[Any]:
        """The gradients of the forward's inputs."""
        if create_graph:
            fail("G009", "a compiled function cannot be differentiated twice yet", hint="run it without compile")
        if self._saved is None:
            fail("G001", "backward: the graph was freed by an earlier backward pass", frame=self.frame)
        for item, version in zip(self._saved, self._versions, strict=True):
            if isinstance(item, Handle) and item.version.value != version:
                fail("G003", "backward: a saved tensor was modified in place", frame=self.frame, tensor=item)
        filled = [self._filled(place, gradients) for place in range(len(self._forms))]
        results = self._part.run(self._saved, filled, self._values)
        owned.update([id(item) for item in results])
        return results

    def _filled(self, place: int, gradients: list[Any]) -> Any:
        found = gradients[place] if place < len(gradients) else None
        if found is None:
            return zeros(self._forms[place])
        return found if found.form.is_contiguous else contiguous(found)

    def release(self) -> None:
        """Lets go of what was saved."""
        self._saved = None

    def name(self) -> str:
        """As it is shown in errors."""
        return "CompiledFunctionBackward"


def zeros(form: Form) -> Any:
    """A tensor of zeros of a form."""
    return OPERATORS["full"](tuple(form.shape), 0, dtype=form.dtype, device=form.device)


def contiguous(tensor: Any) -> Any:
    """The same values, row-major."""
    return OPERATORS["contiguous"](tensor)
