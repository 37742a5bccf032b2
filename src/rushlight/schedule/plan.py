"""The schedule: from a graph of primitives to a plan of launches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from rushlight.ir.graph import Call, Graph
from rushlight.ir.kernel import GemmKernel
from rushlight.ir.loops import Definition, axes_of
from rushlight.ir.plan import AnyKernel, Assertion, Launch, Plan, SymbolSource
from rushlight.ir.scalar import Buffer, load
from rushlight.ir.type import TensorType
from rushlight.schedule.bands import Chain, band_launch, find_chains, localise
from rushlight.schedule.complex_parts import split_complex
from rushlight.schedule.fuse import Group, Missed, fuse
from rushlight.schedule.gemm import widen_products
from rushlight.schedule.gemm_kernels import build_gemm
from rushlight.schedule.keep import keep_row_values
from rushlight.schedule.kernels import Step, build_kernel, collapse, open_group
from rushlight.schedule.lowering import Lowered, lower_graph
from rushlight.schedule.memory import plan_memory
from rushlight.schedule.nodes import Node, make_nodes
from rushlight.schedule.scatter import build_scatter
from rushlight.schedule.split import split_full_reductions
from rushlight.schedule.terms import as_size
from rushlight.sym import Size, SizeExpr, floordiv, free_symbols, is_axis, is_symbol, maximum, scope_of, substitute

# Scalar steps that are worth waking another thread for.
GRAIN_STEPS = 16384


@dataclass(slots=True)
class Scheduled:
    """A plan, and what was declined on the way to it."""

    plan: Plan
    missed: list[Missed] = field(default_factory=list)


def schedule(graph: Graph, vector_bytes: int, products: frozenset[str] = frozenset()) -> Scheduled:
    """Lowers, fuses and places a graph of primitives.

    `products` are the narrow dtypes that the machine multiplies without widening them first.
    """
    lowered = lower_graph(graph)
    for place, item in enumerate(lowered.definitions):
        if isinstance(item, Definition):
            lowered.definitions[place] = Definition(item.buffer, item.axes, widen_products(item.body, products))
    outputs = _place_results(graph, lowered)
    results = set(outputs)
    nodes = make_nodes(lowered.definitions, results)
    nodes = split_full_reductions(nodes)
    fused = fuse(nodes)
    parts = find_chains(fused.groups)
    groups = [group for part in parts for group in (part.groups if isinstance(part, Chain) else [part])]
    _mark_stored(groups)
    placed, commits = _place_mutations(graph, lowered, outputs[len(graph.outputs) :], groups)
    maker = _LaunchMaker(vector_bytes, placed)
    for part in parts:
        maker.add_chain(part) if isinstance(part, Chain) else maker.add(part)
    for buffer, place in commits:
        maker.copy(buffer, place)
    slots, arena_bytes = plan_memory(maker.launches)
    inputs = tuple([lowered.buffers[id(call)] for call in graph.parameters])
    symbols = _symbol_sources(graph, outputs)
    plan = Plan(
        inputs,
        tuple(outputs[: len(graph.outputs)]),
        tuple([call.type for call in graph.outputs]),
        symbols,
        _assertions(symbols),
        slots,
        arena_bytes,
        tuple(maker.kernels),
        tuple(maker.launches),
    )
    return Scheduled(plan, fused.missed)


def _place_results(graph: Graph, lowered: Lowered) -> list[Buffer]:
    """One global buffer for each output and each mutated parameter's new value.

    Shared or passed-through ones are copied.
    """
    taken: set[Buffer] = set()
    defined = {definition.buffer: place for place, definition in enumerate(lowered.definitions)}
    outputs: list[Buffer] = []
    for position, call in enumerate(graph.results()):
        buffer = lowered.buffers.get(id(call))
        if buffer is None or buffer in taken or buffer not in defined:
            buffer = _copy_definition(call, f"out{position}", lowered)
        buffer.scope = "global"
        taken.add(buffer)
        outputs.append(buffer)
    for definition in lowered.definitions:
        if definition.buffer not in taken:
            # Inside a graph the scheduler chooses layouts: dense, row-major.
            old = definition.buffer.type
            definition.buffer.type = TensorType(old.shape, old.dtype, old.device)
    return outputs


def _copy_definition(call: Call, name: str, lowered: Lowered) -> Buffer:
    axes = axes_of(call.type.shape)
    at = tuple([0 if size == 1 else axis for axis, size in zip(axes, call.type.shape, strict=True)])
    buffer = Buffer(name, call.type, "arena")
    lowered.definitions.append(Definition(buffer, axes, lowered.operands[id(call)][at]))
    return buffer


def _mark_stored(groups: list[Group]) -> None:
    """A value needs memory when a kernel other than its own reads it."""
    home = {node.buffer: group for group in groups for node in group.nodes}
    owner = {node.buffer: node for group in groups for node in group.nodes}
    for group in groups:
        for node in group.nodes:
            if node.scatter is not None:
                node.stored = True
            for buffer, _ in node.reads():
                if buffer in home and home[buffer] is not group:
                    owner[buffer].stored = True


def _place_mutations(
    graph: Graph, lowered: Lowered, values: list[Buffer], groups: list[Group]
) -> tuple[dict[Buffer, Buffer], list[tuple[Buffer, Buffer]]]:
    """Gives each mutated parameter's new value its place.

    That is the parameter's own storage where it is safe, else an arena buffer that is copied at the end. Returns the
    values with a new place, and the copies (from, to).
    """
    readers: dict[Buffer, list[int]] = {}
    made: dict[Buffer, tuple[int, Node]] = {}
    for position, group in enumerate(groups):
        for node in group.nodes:
            made[node.buffer] = (position, node)
            for buffer, _ in node.reads():
                readers.setdefault(buffer, []).append(position)
    placed: dict[Buffer, Buffer] = {}
    commits: list[tuple[Buffer, Buffer]] = []
    for (position, call), buffer in zip(graph.mutations, values, strict=True):
        parameter = lowered.buffers[id(graph.parameters[position])]
        place, node = made[buffer]
        later = any(reader > place for reader in readers.get(parameter, ()))
        if later or not _reads_in_place(groups[place], node, parameter) or groups[place].gemm is not None:
            buffer.scope = "arena"
            buffer.type = TensorType(call.type.shape, call.type.dtype, call.type.device)
            commits.append((buffer, parameter))
        else:
            placed[buffer] = parameter
    return placed, commits


def _reads_in_place(group: Group, node: Node, parameter: Buffer) -> bool:
    """Whether every read of a parameter in a group stands at the element that the node overwrites."""
    if node.scatter is not None or group.outer is not None:
        return False
    for member in group.nodes:
        for buffer, indices in member.reads():
            if buffer is parameter:
                found = [as_size(item) for item, size in zip(indices, parameter.type.shape, strict=True) if size != 1]
                if found != list(member.axes) or member.sizes != node.sizes:
                    return False
    return True


class _LaunchMaker:
    """Turns groups into kernels and launches; equal kernels are kept once by the code generator."""

    def __init__(self, vector_bytes: int, placed: dict[Buffer, Buffer]) -> None:
        self.vector_bytes = vector_bytes
        self.placed = placed
        self.kernels: list[AnyKernel] = []
        self.launches: list[Launch] = []

    def add(self, group: Group) -> None:
        """The launches of one group."""
        self.launches += self.make(group)

    def add_chain(self, chain: Chain) -> None:
        """One launch of bands; the groups' own where a mutated parameter is written in place."""
        if any(node.buffer in self.placed for group in chain.groups for node in group.nodes):
            for group in chain.groups:
                self.add(group)
            return
        local = localise(chain)
        launches = [launch for group in local.groups for launch in self.make(group)]
        outside = {
            buffer for group in chain.groups for buffer in (*group.reads, *[node.buffer for node in group.nodes])
        }
        kernel, arguments, shares = band_launch(f"k{len(self.kernels)}", local, launches, outside)
        self.launches.append(Launch(len(self.kernels), arguments, shares, 1))
        self.kernels.append(kernel)

    def make(self, group: Group) -> list[Launch]:
        """The launches of one group, their kernels noted."""
        return [self.launch(step) for step in self.steps(group)]

    def steps(self, group: Group) -> Iterator[Step]:
        """The kernels of one group."""
        name = f"k{len(self.kernels)}"
        if group.gemm is not None:
            yield from build_gemm(group, self.vector_bytes, self.placed, len(self.kernels))
        elif group.nodes[0].scatter is not None:
            yield from build_scatter(group.nodes[0], self.placed, len(self.kernels))
        else:
            nest = open_group(group, self.placed)
            collapse(nest)
            keep_row_values(nest)
            yield build_kernel(nest, name)

    def launch(self, step: Step) -> Launch:
        """The launch of a kernel, which is noted."""
        grain = 1 if isinstance(step.kernel, GemmKernel) else _grain(step.work)
        self.kernels.append(split_complex(step.kernel))
        return Launch(len(self.kernels) - 1, step.arguments, step.count, grain)

    def copy(self, source: Buffer, target: Buffer) -> None:
        """A plain copy."""
        axes = axes_of(source.type.shape)
        at = tuple([0 if size == 1 else axis for axis, size in zip(axes, source.type.shape, strict=True)])
        (node,) = make_nodes([Definition(target, axes, load(source, *at))], {target})
        self.add(Group(0, [node], None))


def _grain(work: Size) -> Size:
    """Iterations of some work each that are worth a share of their own."""
    # The work of an iteration may depend on which one it is: the first is as long as any.
    first = substitute(work, {symbol: 0 for symbol in free_symbols(work) if is_axis(symbol)})
    return maximum(1, floordiv(GRAIN_STEPS, maximum(1, first)))


def _symbol_sources(graph: Graph, outputs: list[Buffer]) -> tuple[SymbolSource, ...]:
    """Where each symbol's value stands at a call: in the inputs' sizes and strides, then in the outputs' strides."""
    sources: dict[SizeExpr, SymbolSource] = {}
    types = [call.type for call in graph.parameters] + [buffer.type for buffer in outputs[: len(graph.outputs)]]
    for descriptor, type_ in enumerate(types):
        for field_name, sizes in (("size", type_.shape), ("stride", type_.strides)):
            for dim, size in enumerate(sizes):
                if isinstance(size, SizeExpr) and is_symbol(size) and size not in sources:
                    sources[size] = SymbolSource(size, descriptor, field_name, dim)
    return tuple(sources.values())


def _assertions(sources: tuple[SymbolSource, ...]) -> tuple[Assertion, ...]:
    """The run-time asserts of the symbols' scopes, as far as the entry knows their symbols."""
    known = {source.symbol for source in sources}
    scopes = {id(scope): scope for scope in [scope_of(symbol) for symbol in known] if scope is not None}
    found: dict[Assertion, None] = {}
    for scope in scopes.values():
        for item in scope.asserts:
            condition = item.condition
            if known.issuperset(free_symbols(condition.expr)):
                where = "" if item.frame is None else f" ({item.frame})"
                message = f"{item.message or condition}{where}"
                found[Assertion(condition.relation, condition.expr, 0, message)] = None
    return tuple(found)
