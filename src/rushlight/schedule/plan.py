"""The schedule: from a graph of primitives to a plan of launches."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from rushlight.ir.graph import Graph
from rushlight.ir.kernel import GemmKernel
from rushlight.ir.loops import Definition, axes_of
from rushlight.ir.plan import AnyKernel, Assertion, Launch, Plan, SymbolSource
from rushlight.ir.scalar import Buffer, load
from rushlight.schedule.bands import Chain, band_launch, find_chains, localise, made_in_chains
from rushlight.schedule.complex_parts import split_complex
from rushlight.schedule.fuse import Group, Missed, fuse
from rushlight.schedule.gemm import widen_products
from rushlight.schedule.gemm_kernels import build_gemm
from rushlight.schedule.keep import keep_row_values
from rushlight.schedule.kernels import Step, build_kernel, collapse, open_group
from rushlight.schedule.likeness import Likeness, launches_again
from rushlight.schedule.lowering import lower_graph
from rushlight.schedule.memory import plan_memory
from rushlight.schedule.nodes import make_nodes
from rushlight.schedule.order import order_groups
from rushlight.schedule.places import (
    mark_stored,
    mutated_values,
    overwrites,
    place_mutations,
    place_results,
    share_places,
)
from rushlight.schedule.scatter import build_scatter
from rushlight.schedule.split import split_full_reductions
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
    widen_products(lowered.definitions, products)
    outputs = place_results(graph, lowered)
    nodes = split_full_reductions(make_nodes(lowered.definitions, set(outputs)))
    fused = fuse(nodes)
    mark_stored(fused.groups)
    mutations = mutated_values(graph, lowered, outputs[len(graph.outputs) :])
    written_over = overwrites(mutations, fused.groups)
    parts = find_chains(order_groups(fused.groups, written_over), written_over)
    groups = [group for part in parts for group in (part.groups if isinstance(part, Chain) else [part])]
    placed, commits = place_mutations(mutations, groups)
    share_places(groups, placed, commits, made_in_chains(parts))
    maker = _LaunchMaker(vector_bytes, placed)
    for part in parts:
        maker.add(part)
    for buffer, place in commits:
        maker.copy(buffer, place)
    inputs = tuple([lowered.buffers[id(call)] for call in graph.parameters])
    symbols = _symbol_sources(graph, outputs)
    plan = Plan(
        inputs,
        tuple(outputs[: len(graph.outputs)]),
        tuple([call.type for call in graph.outputs]),
        symbols,
        _assertions(symbols),
        plan_memory(maker.launches, outputs[: len(graph.outputs)]),
        tuple(maker.kernels),
        tuple(maker.launches),
    )
    return Scheduled(plan, fused.missed)


class _LaunchMaker:
    """Turns groups into kernels and launches; of groups that are alike, those of one serve all."""

    def __init__(self, vector_bytes: int, placed: dict[Buffer, Buffer]) -> None:
        self.vector_bytes = vector_bytes
        self.placed = placed
        self.kernels: list[AnyKernel] = []
        self.launches: list[Launch] = []
        self._known: dict[Hashable, tuple[Likeness, list[Launch]]] = {}

    def add(self, part: Group | Chain) -> None:
        """The launches of a group or a chain."""
        if isinstance(part, Group):
            likeness = Likeness([part], self.placed)
        else:
            sums = tuple([any(group is item for item in part.sums) for group in part.groups])
            likeness = Likeness(part.groups, self.placed, part.batch, part.rows, tuple(part.private), sums)
        known = self._known.get(likeness.key)
        first = len(self.launches)
        if known is not None:
            self.launches += launches_again(known[1], known[0], likeness, f"_{first}")
            return
        if isinstance(part, Group):
            self.launches += self.make(part)
        else:
            self._add_chain(part)
        self._known[likeness.key] = (likeness, self.launches[first:])

    def _add_chain(self, chain: Chain) -> None:
        """One launch of bands; the groups' own where a mutated parameter is written in place."""
        if any(node.buffer in self.placed for group in chain.groups for node in group.nodes):
            for group in chain.groups:
                self.add(group)
            return
        local = localise(chain, f"k{len(self.kernels)}")
        self.placed.update(local.shared_places)
        if local.flags is not None:
            self.add(Group(chain.groups[0].number, [local.flags], len(local.flags.axes)))
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
