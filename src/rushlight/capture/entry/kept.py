"""What a call of a compiled function keeps for its backward pass, and what passes have freed of it."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rushlight.capture.gradients.joint import fail_freed
from rushlight.capture.gradients.orders import Variant
from rushlight.eager.autograd.node import Edge, Node
from rushlight.eager.autograd.saved import SavedTensor
from rushlight.eager.dispatch import STATE, dispatch
from rushlight.eager.handle import Handle, allocate
from rushlight.eager.mutation import COPY
from rushlight.eager.tensor_meta import TensorMeta
from rushlight.support.errors import fail
from rushlight.sym import Size, SizeExpr

if TYPE_CHECKING:
    from rushlight.ir.graph import Graph


class Unsaved:
    """An input of which the tape keeps no hold; gradients of gradients read it if it is there."""

    __slots__ = ("_reference", "_version")

    def __init__(self, value: object) -> None:
        self._reference = weakref.ref(value) if isinstance(value, Handle) else value
        self._version = value.version.value if isinstance(value, Handle) else 0

    def if_alive(self) -> object:
        """The input; None if nobody holds it any more."""
        return self._reference() if isinstance(self._reference, weakref.ref) else self._reference

    def value(self, node: Node) -> object:
        """The input. Errors: G015 where it is gone, G003 where it was written to."""
        if not isinstance(self._reference, weakref.ref):
            return self._reference
        value: object = self._reference()
        if not isinstance(value, Handle):
            hint = "hold on to what the function was given until the last backward pass"
            fail("G015", "backward: a gradient of a gradient reads an input that is gone", frame=node.frame, hint=hint)
        if value.version.value != self._version:
            fail("G003", f"backward: an input of {node.name()} was changed in place", frame=node.frame, tensor=value)
        return value


class Saved:
    """What a call keeps for its backward pass, and the version of each tensor. None once it is freed.

    `edges` are those of the wanted inputs, `more` the inputs that are not kept and that higher orders may read. `first`
    is the node of the first segment, where there are several. Eager code frees step by step: passes have freed the
    steps whose bits are in `freed`, and what is here lives as long as another result has a pass before it.
    """

    __slots__ = ("_pass", "_running", "edges", "first", "forms", "freed", "more", "sizes", "tensors", "versions")

    def __init__(
        self,
        values: Sequence[object],
        sizes: Mapping[SizeExpr, Size],
        edges: list[Edge | None],
        more: Mapping[int, Unsaved],
    ) -> None:
        self.tensors: Sequence[object] | None = values
        self.versions = [value.version.value if isinstance(value, Handle) else 0 for value in values]
        self.sizes = sizes
        self.edges = edges
        self.more = more
        self.first: weakref.ref[Any] | None = None
        self.forms: Sequence[object] = ()  # of what is freed
        self.freed = 0
        self._running = 0
        self._pass: weakref.ref[Any] | None = None

    def begin(self, steps: int, node: Node) -> None:
        """Is told of the steps that a node stands for in the pass that runs. Errors: G001 where one is freed."""
        if steps & self.freed:
            fail_freed(node)
        if self._pass is None or self._pass() is not STATE.engaged:
            self._pass, self._running = None if STATE.engaged is None else weakref.ref(STATE.engaged), 0
        self._running |= steps

    def end(self, results: Sequence[int]) -> None:
        """The pass keeps nothing of what it has run: all, if nobody was told. `results` have these steps."""
        self.freed |= self._running if self._pass is not None else -1
        self._pass = None
        if self.tensors is not None and self.freed and all(not steps or steps & self.freed for steps in results):
            self.forms = [value.form if isinstance(value, (Handle, SavedTensor)) else value for value in self.tensors]
            self.tensors = None

    def read_by(self, variant: Variant, node: Node) -> list[object]:
        """What is saved, for a graph. G001, G003. Of what is freed the graph of a step that saves nothing has forms."""
        if self.tensors is not None or variant.graph is None or _reads(variant.graph, len(self.forms)):
            return self.unpacked(node)
        return [allocate(value) if isinstance(value, TensorMeta) else value for value in self.forms]

    def pack(self) -> None:
        """Gives what is saved to the hooks that are on, once it is computed."""
        if self.tensors is not None:
            self.tensors = [SavedTensor(value) if isinstance(value, Handle) else value for value in self.tensors]
            self.versions = [0] * len(self.tensors)

    def unpacked(self, node: Node) -> list[object]:
        """What is saved. Errors: G001, G003."""
        if self.tensors is None:
            fail_freed(node)
        for value, version in zip(self.tensors, self.versions, strict=True):
            if isinstance(value, Handle) and value.version.value != version:
                message = f"backward: a tensor saved by {node.name()} was changed in place"
                fail("G003", message, frame=node.frame, tensor=value)
        return [_unpacked(value, node) if isinstance(value, SavedTensor) else value for value in self.tensors]


def _reads(graph: Graph, count: int) -> bool:
    """Whether a graph reads elements of its first parameters."""
    used = graph.used()
    return any(id(parameter) in used for parameter in graph.parameters[:count])


def _unpacked(saved: SavedTensor, node: Node) -> object:
    """What a hook gives back, in the layout for which the backward graph was compiled."""
    tensor = saved.unpack(node, node.frame)
    if tensor.form is saved.form:
        return tensor
    return dispatch(COPY, (allocate(saved.form), tensor), {})
