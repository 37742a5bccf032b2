"""From groups to launches of kernels."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from rushlight.ir.choice import ScheduleTarget
from rushlight.ir.kernel import GemmKernel, Kernel
from rushlight.ir.kernel_text import kernel_text
from rushlight.ir.loops import Definition, axes_of
from rushlight.ir.plan import AnyKernel, Launch
from rushlight.ir.scalar import Buffer, load
from rushlight.schedule.fuse.dedupe import Again, StructuralKey
from rushlight.schedule.fuse.fusion import Group
from rushlight.schedule.loops.gemm_kernels import build_gemm
from rushlight.schedule.loops.kernels import Step, build_kernel, collapse, open_group
from rushlight.schedule.loops.row_blocks import FusedChain, localise, row_block_launch
from rushlight.schedule.loops.row_reuse import spill_row_values
from rushlight.schedule.loops.row_sums import sum_rows
from rushlight.schedule.loops.scan import build_scan
from rushlight.schedule.loops.scatter import build_scatter
from rushlight.schedule.lower.complex_parts import split_complex
from rushlight.schedule.lower.folding import Dissected
from rushlight.schedule.lower.nodes import make_nodes
from rushlight.sym import Size, floordiv, free_symbols, is_axis, maximum, substitute

# Scalar steps that are worth waking another thread for.
GRAIN_STEPS = 16384


class LaunchMaker:
    """Turns groups into kernels and launches; of groups that are alike, those of one serve all.

    Those that pack constant operands of products are `packs`, if there is a maker `first` of what runs once.
    """

    def __init__(
        self,
        machine: ScheduleTarget,
        placed: dict[Buffer, Buffer],
        groups: Sequence[Group],
        first: LaunchMaker | None = None,
    ) -> None:
        self.machine = machine
        self.placed = placed
        self.makers = {node.buffer: node for group in groups for node in group.nodes if node.scatter is None}
        self.first = first
        self.kernels: list[AnyKernel] = []
        self.launches: list[Launch] = []
        self.packs: list[Launch] = []
        self._known: dict[Hashable, tuple[StructuralKey, list[Launch], list[Launch]]] = {}

    def add(self, part: Group | FusedChain) -> None:
        """The launches of a group or a chain."""
        if isinstance(part, Group):
            structural_key = StructuralKey([part], self.placed)
        else:
            structural_key = self._structural_key_of_chain(part)
        known = self._known.get(structural_key.key)
        pack, place = len(self.packs), len(self.launches)
        if known is not None:
            again = Again(known[0], structural_key, f"_{place}")
            self.packs += [again(launch) for launch in known[1]]
            self.launches += [again(launch) for launch in known[2]]
            return
        if isinstance(part, Group):
            self.launches += self._make(part)
        else:
            self._add_chain(part)
        self._known[structural_key.key] = (structural_key, self.packs[pack:], self.launches[place:])

    def _structural_key_of_chain(self, chain: FusedChain) -> StructuralKey:
        """What a chain's bands are made from, the makers of what it reads among it."""
        read = dict.fromkeys([buffer for group in chain.groups for buffer in group.read_buffers()])
        makers = [self.makers[buffer] for buffer in read if buffer in self.makers]
        sums = tuple([group in chain.sums for group in chain.groups])
        return StructuralKey(chain.groups, self.placed, makers, chain.batch, chain.rows, tuple(chain.private), sums)

    def _add_chain(self, chain: FusedChain) -> None:
        """One launch of bands; the groups' own where a mutated parameter is written in place."""
        if any(node.buffer in self.placed for group in chain.groups for node in group.nodes):
            for group in chain.groups:
                self.add(group)
            return
        local = localise(chain, f"k{len(self.kernels)}", self.makers)
        self.placed.update(local.shared_places)
        if local.flags is not None:
            self.add(Group(chain.groups[0].number, [local.flags], len(local.flags.axes)))
        launches = [launch for group in local.groups for launch in self._make(group, shared=False)]
        named = [buffer for group in chain.groups for buffer in (*group.reads, *[node.buffer for node in group.nodes])]
        # Launches name what lies in another value's memory by that value.
        outside = {self.placed.get(buffer, buffer) for buffer in named}
        kernel, arguments, shares = row_block_launch(f"k{len(self.kernels)}", local, launches, outside)
        self.launches.append(Launch(len(self.kernels), arguments, shares, 1))
        self.kernels.append(kernel)

    def share_packs(self) -> None:
        """Gives the packs to the first maker, of those that are equal only one."""
        if self.first is None:
            return
        texts: dict[int, str] = {}
        packed: dict[Hashable, Buffer] = {}
        same: dict[Buffer, Buffer] = {}
        for launch in self.packs:
            kernel = self.first.kernels[launch.kernel]
            assert isinstance(kernel, Kernel)
            target = launch.buffers[len(kernel.buffers) - 1]
            text = texts.setdefault(launch.kernel, kernel_text(kernel))
            words = tuple([word for word in launch.arguments if word is not target])
            same[target] = packed.setdefault((text, words), target)
            if same[target] is target:
                self.first.launches.append(launch)
        self.launches = [launch.with_buffers(same) for launch in self.launches]

    def _make(self, group: Group, *, shared: bool = True) -> list[Launch]:
        """The launches of one group, their kernels noted; each is `shared` among threads, or one thread's."""
        made: list[Launch] = []
        for step in self._steps(group, shared):
            if step.once and self.first is not None:
                self.packs.append(self.first._launch(step))
            else:
                made.append(self._launch(step))
        return made

    def _steps(self, group: Group, shared: bool) -> Iterator[Step]:
        """The kernels of one group."""
        name = f"k{len(self.kernels)}"
        if group.gemm is not None:
            yield from build_gemm(group, self.machine, self.placed, len(self.kernels), shared=shared)
        elif group.nodes[0].scatter is not None:
            yield from build_scatter(group.nodes[0], self.placed, len(self.kernels))
        else:
            nest = open_group(group, self.placed)
            collapse(nest)
            running = build_scan(nest, name)
            if running is not None:
                yield running
                return
            spill_row_values(nest)
            yield sum_rows(nest, name) or build_kernel(nest, name)

    def _launch(self, step: Step) -> Launch:
        """The launch of a kernel, which is noted."""
        grain = 1 if isinstance(step.kernel, GemmKernel) else _grain(step.work)
        self.kernels.append(split_complex(step.kernel))
        return Launch(len(self.kernels) - 1, step.arguments, step.count, grain)

    def copy(self, source: Buffer, target: Buffer) -> None:
        """A plain copy."""
        axes = axes_of(source.type.shape)
        at = tuple([0 if size == 1 else axis for axis, size in zip(axes, source.type.shape, strict=True)])
        (node,) = make_nodes([Dissected.of(Definition(target, axes, load(source, *at)))], {target})
        self.add(Group(0, [node], None))


def _grain(work: Size) -> Size:
    """Iterations of some work each that are worth a share of their own."""
    # The work of an iteration may depend on which one it is: the first is as long as any.
    first = substitute(work, {symbol: 0 for symbol in free_symbols(work) if is_axis(symbol)})
    return maximum(1, floordiv(GRAIN_STEPS, maximum(1, first)))
