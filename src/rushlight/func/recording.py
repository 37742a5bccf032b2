"""A function run on the tape for one transform: its results, and gradients by fresh inputs that stand for its own.

Levels nest by the tape alone. An input that has a history outside is followed by a view of it, so that outer transforms
and `backward` see through; one without is a leaf of this recording, and what depends on no other leaf is handed
out without history. Levels of `vmap` around the transform become dims in front: the examples of a batch do not depend
on each other, so that one gradient of all is the gradient of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.autodiff.backward import SINK
from rushlight.eager.autograd import driver
from rushlight.eager.autograd.accumulate import edge_of
from rushlight.eager.autograd.history import requires
from rushlight.eager.batching.levels import Level, level_of, lower_to, raise_to
from rushlight.eager.dispatch import STATE, Scope, call_user
from rushlight.eager.handle import AUTOGRAD, Handle, mark_required
from rushlight.eager.pytree import Structure, count_of, flatten_tree, unflatten_tree
from rushlight.ir.dtype import Kind
from rushlight.ops import OPERATORS
from rushlight.support.errors import fail

_FORWARD = ("jacfwd", "jvp", "linearize")
"""Transforms that give tangents, which in PyTorch are computed under no_grad too."""

_MAPPING = ("jacfwd", "jacrev", "linearize")
"""Transforms of which derivatives are mapped; compiled functions run as they are in them."""


class StandIns:
    """Fresh inputs that stand for tensors on the tape: `inputs` has their leaves."""

    def __init__(self, name: str) -> None:
        self.levels: tuple[Level, ...] = STATE.maps
        self.outer = STATE.grad and not STATE.excluded & AUTOGRAD
        self.name = name
        self.inputs: list[Any] = []
        self._own: set[int] = set()
        self._kept: list[Any] = []

    def stand_in(self, value: Any) -> Any:
        """A fresh input that stands for a tensor."""
        if not isinstance(value, Handle):
            fail("A001", f"{self.name}: gradients are of tensors", argument=value)
        if value.form.dtype.kind < Kind.FLOAT:
            fail("D001", f"{self.name}: gradients are of floating-point tensors", argument=value)
        base = lower_to(value, self.levels)
        inner = base
        while level_of(inner) is not None:
            inner = inner.node.value
        if self.outer and requires(inner):
            with _on_tape():
                leaf = OPERATORS["view"](base, tuple(base.shape))
        else:
            leaf = OPERATORS["detach"](base)
            mark_required(leaf)
            self._owns(leaf)
        self.inputs.append(leaf)
        with _on_tape():
            return raise_to(leaf, self.levels)

    def _owns(self, leaf: Any) -> None:
        edge = edge_of(leaf)
        assert edge is not None
        self._own.add(id(edge[0]))
        self._kept.append(edge[0])

    def pushed(self, output: Any, tangents: Sequence[Any]) -> Any:
        """The tangent of what was computed from the inputs with tangents; None if it depends on none."""
        for leaf, tangent in zip(self.inputs, tangents, strict=True):
            if output is leaf:
                return tangent
        dual = zeros_like(output)
        dual.requires_grad_()
        self._owns(dual)  # a step of a graph leads to it, though nothing linear depends on it
        gradients = _differentiated((output,), self.inputs, (dual,), True)
        if all(one is None for one in gradients):
            return None
        pairs = [(one, t) for one, t in zip(gradients, tangents, strict=True) if one is not None and requires(one)]
        if not pairs:
            return zeros_like(output)
        roots, given = zip(*pairs, strict=True)
        (pushed,) = _differentiated(roots, (dual,), given, True)
        return zeros_like(output) if pushed is None else pushed

    def depends_outside(self, tensors: Sequence[Any]) -> bool:
        """Whether any of the tensors has a history beyond these leaves."""
        stack = [edge[0] for tensor in tensors if requires(tensor) and (edge := edge_of(tensor)) is not None]
        seen: set[int] = set()
        while stack:
            step = stack.pop()
            if id(step) in seen:
                continue
            seen.add(id(step))
            if step.sequence >= SINK and id(step) not in self._own:
                return True
            stack.extend([edge[0] for edge in step.edges if edge is not None])
        return False

    def released(self, tensors: Sequence[Any], tracked: bool = False) -> list[Any]:
        """Tensors without what these leaves alone gave them as history; `tracked`: others gave them some too."""
        return [self._released(tensor, tracked) if isinstance(tensor, Handle) else tensor for tensor in tensors]

    def _released(self, tensor: Any, tracked: bool) -> Any:
        whole = lower_to(tensor, self.levels)
        recorded = STATE.grad and (self.outer or tracked)
        if not requires(whole) or (recorded and self.depends_outside([whole])):
            return tensor
        return raise_to(OPERATORS["detach"](whole), self.levels)


class Recording(StandIns):
    """One run of a function on stand-ins for its inputs.

    `outputs` are the results' leaves as the function gave them, `structure` puts them together; `inputs` are the
    stand-ins' leaves as the tape knows them.
    """

    def __init__(
        self, name: str, func: Callable[..., Any], args: Sequence[Any], wanted: Sequence[int], aux: bool
    ) -> None:
        super().__init__(name)
        arguments = list(args)
        self.arguments: list[Structure] = []
        for at in wanted:
            leaves, structure = flatten_tree(args[at])
            self.arguments.append(structure)
            arguments[at] = unflatten_tree(structure, [self.stand_in(leaf) for leaf in leaves])
        forward = name if name in _FORWARD else STATE.forward
        with _on_tape(), Scope(silenced=False, forward=forward, jacobian=STATE.jacobian or name in _MAPPING):
            result = call_user(func, *arguments)
        self.aux: Any = None
        if aux:
            if not isinstance(result, tuple) or len(result) != 2:
                fail("A002", f"{name}: with has_aux the function returns a pair of its result and something else")
            result, self.aux = result
        self.outputs, self.structure = flatten_tree(result)
        for output in self.outputs:
            if not isinstance(output, Handle):
                fail("A001", f"{name}: the function must return tensors", result=output)
        self._lowered = [lower_to(element, self.levels) for element in self.outputs]

    def results(self) -> Any:
        """The function's result, as others may see it."""
        return unflatten_tree(self.structure, self.released(self.outputs))

    def extra(self) -> Any:
        """What the function returned beside its result."""
        leaves, structure = flatten_tree(self.aux)
        return unflatten_tree(structure, self.released(leaves))

    def gradients(self, cotangents: Sequence[Any], create_graph: bool | None = None) -> list[Any]:
        """Gradients at the inputs, lowered as they are; zeros where nothing leads there.

        A cotangent that is None leaves its result out.
        """
        pairs = [(out, g) for out, g in zip(self._lowered, cotangents, strict=True) if g is not None and requires(out)]
        if create_graph is None:
            tracked = is_tracked([g for _, g in pairs])
            create_graph = tracked or (STATE.grad and self.outer and self.depends_outside([out for out, _ in pairs]))
        gradients: Sequence[Any] = (None,) * len(self.inputs)
        if pairs:
            roots, given = zip(*pairs, strict=True)
            gradients = _differentiated(roots, self.inputs, given, create_graph)
        return [zeros_like(leaf) if one is None else one for leaf, one in zip(self.inputs, gradients, strict=True)]

    def unused_by(self, at: int) -> list[int] | None:
        """The inputs on which a result does not depend; None if it depends on nothing."""
        output = self._lowered[at]
        if not requires(output):
            return None
        gradient = _differentiated((output,), self.inputs, (zeros_like(output),), False)
        return [position for position, one in enumerate(gradient) if one is None]

    def connected(self) -> bool:
        """Whether every result has a history."""
        return all(requires(tensor) for tensor in self._lowered)

    def lowered(self, tensors: Sequence[Any]) -> list[Any]:
        """Tensors given from inside the levels, as the tape takes them."""
        return [lower_to(tensor, self.levels) for tensor in tensors]

    def cotangents(self, given: Any) -> list[Any]:
        """Cotangents in the result's structure as a list for `gradients`; errors where they do not fit."""
        leaves, structure = flatten_tree(given)
        if len(leaves) != len(self.outputs) or str(structure) != str(self.structure):
            fail("A002", f"{self.name}: the cotangents do not have the result's structure")
        for leaf, output in zip(leaves, self.outputs, strict=True):
            if not isinstance(leaf, Handle) or tuple(leaf.shape) != tuple(output.shape):
                fail(
                    "A002", f"{self.name}: a cotangent does not have its result's shape", cotangent=leaf, result=output
                )
        return [lower_to(leaf, self.levels) for leaf in leaves]

    def raised(self, tensors: Sequence[Any]) -> list[Any]:
        """Lowered tensors back inside the levels."""
        return [raise_to(tensor, self.levels) for tensor in tensors]

    def by_argument(self, leaves: Sequence[Any]) -> list[Any]:
        """Leaves for the inputs, in the structures of the arguments."""
        items = iter(leaves)
        return [
            unflatten_tree(structure, [next(items) for _ in range(count_of(structure))]) for structure in self.arguments
        ]

    def linear(self) -> Callable[[Sequence[Any]], list[Any]]:
        """The derivative as a function of tangents at the inputs (lowered): tangents of the results (lowered).

        A gradient is linear in the cotangent; its derivative by the cotangent is the transposed of what it applies,
        so that reverse mode twice is forward mode.
        """
        places = [at for at, out in enumerate(self._lowered) if requires(out)]
        create = self.outer and self.depends_outside([self._lowered[at] for at in places])
        duals: list[Any] = [None] * len(self._lowered)
        for at in places:
            duals[at] = zeros_like(self._lowered[at])
            duals[at].requires_grad_()
        with _on_tape():
            gradients = self.gradients(duals, True) if places else []

        def apply(tangents: Sequence[Any]) -> list[Any]:
            pairs = [(one, t) for one, t in zip(gradients, tangents, strict=False) if requires(one)]
            result: Sequence[Any] = [None] * len(places)
            if pairs:
                roots, given = zip(*pairs, strict=True)
                wanted = [duals[at] for at in places]
                result = _differentiated(roots, wanted, given, create or is_tracked(given))
            results = [None] * len(self._lowered)
            for at, one in zip(places, result, strict=True):
                results[at] = one
            return [zeros_like(out) if one is None else one for out, one in zip(self._lowered, results, strict=True)]

        return apply


def _on_tape() -> Scope:
    """While inside, calls are recorded: also where a trace that lies below autograd records none."""
    return Scope(grad=True, excluded=STATE.excluded & ~AUTOGRAD)


def is_tracked(tensors: Sequence[Any]) -> bool:
    """Whether any tensor, below its levels, requires gradients."""
    for tensor in tensors:
        while level_of(tensor) is not None:
            tensor = tensor.node.value
        if STATE.grad and requires(tensor):
            return True
    return False


def _differentiated(roots: Sequence[Any], leaves: Sequence[Any], given: Sequence[Any], create: bool) -> Sequence[Any]:
    """Gradients of whole batches; rules of random operators say their seeds, and draw nothing anew.

    Compiled autograd leaves them alone: `vmap` goes through their steps again, which a compiled pass has not.
    """
    with Scope(maps=(), backward_disabled=True, excluded=STATE.excluded & ~AUTOGRAD):
        return driver.grad(roots, leaves, given, True, create, allow_unused=True)


def zeros_like(tensor: Any) -> Any:
    """Zeros of a tensor's form, without history."""
    with Scope(grad=False):
        return OPERATORS["full_like"](tensor, 0)
