"""Running a function of tiles on tensors without data, which records what it does in a graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from rushlight.eager.dispatch import STATE, Key, Scope, bit
from rushlight.eager.execution.operands import flatten
from rushlight.eager.handle import AUTOGRAD, Handle
from rushlight.eager.pytree import map_tree
from rushlight.eager.tracing import Tracer
from rushlight.ir.choice import AxisSpace
from rushlight.ir.graph import GraphBuilder, Node
from rushlight.ir.type import TensorType, symbols_in
from rushlight.ops.record import Operator, calls_host
from rushlight.support.errors import fail
from rushlight.sym import Scope as SizeScope
from rushlight.sym import Size, scopes_of
from rushlight.tile.describing import describe_tiles
from rushlight.tile.ranges import DeclaredLoop, LoopRecorder

_ANY = (1, 0)
Arguments = Callable[[Sequence[object]], tuple[tuple[object, ...], dict[str, object]]]


class KernelTracer(Tracer, LoopRecorder):
    """Records into the graph where the kernel is called. The kernel sees its arguments alone."""

    def __init__(
        self,
        builder: GraphBuilder,
        scope: SizeScope,
        lift: Callable[[Handle], TensorType],
        random_state: Callable[[object, int], tuple[object, object]],
    ) -> None:
        super().__init__(builder, scope, lift, random_state)
        self.loops = []

    def call(self, op: Any, operands: tuple[Any, ...], attrs: Mapping[str, object]) -> Any:
        """Records one call. Errors: L002 for one that the host runs between kernels."""
        if isinstance(op, Operator) and calls_host(op, flatten(operands), attrs):
            hint = "call it before the kernel, and pass what it gives"
            fail("L002", f"{op.name}: the host computes this, between native calls", hint=hint)
        return super().call(op, operands, attrs)

    def frames(self, ours: int = 1) -> tuple[Any, ...]:
        """The kernel's lines."""
        return super().frames(ours + 1)


class Traced(NamedTuple):
    """What a function returned, with nodes in it.

    Beside it the new values of operands that it wrote to, by their positions, and the spaces of blocks of the loops
    whose ranges are dims of operands.
    """

    results: Any
    written: dict[int, Node]
    spaces: tuple[AxisSpace, ...]


def traced(name: str, function: Callable[..., object], operands: Sequence[Node], arguments: Arguments) -> Traced:
    """What a function does on nodes."""
    builder = operands[0].builder
    before = builder.frames

    def lift(tensor: Handle) -> TensorType:
        hint = "pass it as an argument"
        fail("L002", f"{name}: a kernel reads a tensor that is not among its arguments", tensor=tensor, hint=hint)

    def random_state(generator: object, count: int) -> NoReturn:
        hint = "draw the numbers before, and pass them in"
        fail("L002", f"{name}: random numbers are drawn in a kernel", hint=hint)

    tracer = KernelTracer(builder, _scope_of(operands), lift, random_state)
    excluded = (STATE.excluded | AUTOGRAD | bit(Key.AUTOCAST) | bit(Key.BATCHED)) & ~bit(Key.TRACING)
    try:
        with tracer.active(), Scope(grad=False, excluded=excluded, modes=(), functions=(), interpreter=None, maps=()):
            tensors = [tracer.wrap(operand) for operand in operands]
            args, kwargs = arguments(tensors)
            with describe_tiles(function):
                results = function(*args, **kwargs)
            written = {
                at: tracer.node(tensor) for at, tensor in enumerate(tensors) if tracer.binding(tensor).cell.writes
            }
            results = map_tree(lambda leaf: tracer.node(leaf) if isinstance(leaf, Handle) else leaf, results)
            return Traced(results, written, _spaces(tracer.loops, operands))
    finally:
        tracer.close()
        builder.frames = before


def _spaces(loops: Sequence[DeclaredLoop], operands: Sequence[Node]) -> tuple[AxisSpace, ...]:
    """The spaces of blocks, one for each dim: that of the last loop that says how large blocks are, or any."""
    places: dict[Size, tuple[int, int]] = {}
    for position, operand in enumerate(operands):
        for dim, size in enumerate(operand.type.shape):
            places.setdefault(size, (position, dim))
    found: dict[tuple[int, int], AxisSpace] = {}
    for extent, low, high in loops:
        at = places.get(extent)
        if at is not None and ((low, high) != _ANY or at not in found):
            found[at] = AxisSpace(*at, low, high)
    return tuple(found.values())


def _scope_of(operands: Sequence[Node]) -> SizeScope:
    """The scope of the operands' sizes."""
    scopes = scopes_of(symbols_in([operand.type for operand in operands]))
    return scopes[0] if scopes else SizeScope()
