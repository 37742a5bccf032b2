"""From groups and chains to kernels and launches, each distinct kernel once."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

from rushlight.ir.choice import ScheduleTarget
from rushlight.ir.kernel import GemmKernel, Kernel
from rushlight.ir.kernel_text import kernel_text
from rushlight.ir.loops import Definition, axes_of
from rushlight.ir.plan import AnyKernel, Launch
from rushlight.ir.scalar import Buffer, load
from rushlight.schedule.fuse.dedupe import LaunchCopy, StructuralKey
from rushlight.schedule.fuse.fusion import Group
from rushlight.schedule.loops.blocks import STRAIGHT, Walk
from rushlight.schedule.loops.gemm_kernels import build_gemm
from rushlight.schedule.loops.kernels import Step, build_kernel, build_plain
from rushlight.schedule.loops.mixed_rows import MixedRows, is_row_by_row
from rushlight.schedule.loops.nest import LoopNest, collapse, open_group
from rushlight.schedule.loops.ranges import split_ranges
from rushlight.schedule.loops.row_blocks import FusedChain, localise, row_block_launch
from rushlight.schedule.loops.row_products import multiply_rows
from rushlight.schedule.loops.row_reuse import spill_row_values
from rushlight.schedule.loops.row_sums import sum_rows
from rushlight.schedule.loops.scan import build_scan
from rushlight.schedule.loops.scatter import build_scatter, start_overwrites
from rushlight.schedule.lower.complex_parts import split_complex
from rushlight.schedule.lower.folding import Dissected
from rushlight.schedule.lower.nodes import make_nodes
from rushlight.sym import Size, floordiv, free_symbols, is_axis, maximum, substitute


class LaunchMaker:
    """Turns groups into kernels and launches. Groups that differ only in their buffers share kernels.

    `walk` says how outer axes are walked. `once` is the maker of the plan that runs once, if there is one. Launches
    that pack constant operands of products are collected in `packs` and move to that plan.
    """

    def __init__(
        self,
        target: ScheduleTarget,
        aliases: dict[Buffer, Buffer],
        groups: Sequence[Group],
        once: LaunchMaker | None = None,
        walk: Walk = STRAIGHT,
    ) -> None:
        self.target = target
        self.walk = walk
        self.aliases = aliases
        self.makers = {node.buffer: node for group in groups for node in group.nodes if not node.writes_at_data}
        self.once = once
        self.kernels: list[AnyKernel] = []
        self.launches: list[Launch] = []
        self.packs: list[Launch] = []
        self._numbers: dict[Kernel | GemmKernel, int] = {}
        self._launches_by_key: dict[Hashable, tuple[StructuralKey, list[Launch], list[Launch]]] = {}

    def add(self, part: Group | FusedChain | MixedRows) -> None:
        """Appends the launches of a group, of rows with sums of their columns, or of a chain."""
        if isinstance(part, Group):
            structural_key = StructuralKey([part], self.aliases)
        elif isinstance(part, MixedRows):
            structural_key = StructuralKey([part.rows, part.sums], self.aliases)
        else:
            structural_key = self._structural_key_of_chain(part)
        equal = self._launches_by_key.get(structural_key.key)
        pack, position = len(self.packs), len(self.launches)
        if equal is not None:
            copy = LaunchCopy(equal[0], structural_key, f"_{position}")
            self.packs += [copy(launch) for launch in equal[1]]
            self.launches += [copy(launch) for launch in equal[2]]
            return
        if isinstance(part, Group):
            self.launches += self._make(part)
        elif isinstance(part, MixedRows):
            self._add_mixed(part)
        else:
            self._add_chain(part)
        self._launches_by_key[structural_key.key] = (structural_key, self.packs[pack:], self.launches[position:])

    def _structural_key_of_chain(self, chain: FusedChain) -> StructuralKey:
        """The key of a chain: its groups, and the nodes of the values that it reads."""
        read = dict.fromkeys([buffer for group in chain.groups for buffer in group.read_buffers()])
        makers = [self.makers[buffer] for buffer in read if buffer in self.makers]
        sums = tuple([group in chain.sums for group in chain.groups])
        return StructuralKey(chain.groups, self.aliases, makers, chain.batch, chain.rows, chain.private, sums)

    def _add_mixed(self, part: MixedRows) -> None:
        """Appends one launch of rows and sums; one of each where the rows are not one loop of a kernel."""
        name = f"k{len(self.kernels)}"
        steps = list(self._steps(part.rows, True))
        mixed = None
        if len(steps) == 1 and isinstance(steps[0].kernel, Kernel) and is_row_by_row(steps[0].kernel):
            nest = open_group(part.sums, self.aliases)
            collapse(nest)
            mixed = sum_rows(nest, name, steps[0].kernel)
        if mixed is not None:
            self.launches.append(self._launch(mixed))
            return
        self.launches += [self._launch(step) for step in steps]
        self.launches += self._make(part.sums)

    def _add_chain(self, chain: FusedChain) -> None:
        """Appends one launch of row blocks; the launches of each group if one writes a parameter in place."""
        if any(node.buffer in self.aliases for group in chain.groups for node in group.nodes):
            for group in chain.groups:
                self.add(group)
            return
        local = localise(chain, f"k{len(self.kernels)}", self.makers, self.target.blocks.row_bytes, self.walk)
        self.aliases.update(local.aliases)
        if local.flags is not None:
            self.add(Group(chain.groups[0].number, (local.flags,), len(local.flags.axes)))
        launches = [launch for group in local.groups for launch in self._make(group, shared=False)]
        named = [buffer for group in chain.groups for buffer in (*group.reads, *[node.buffer for node in group.nodes])]
        # A launch names a value by the buffer whose memory holds it.
        outside = {self.aliases.get(buffer, buffer) for buffer in named}
        kernel, arguments, shares = row_block_launch(f"k{len(self.kernels)}", local, launches, outside)
        self.launches.append(Launch(len(self.kernels), arguments, shares, 1))
        self.kernels.append(kernel)

    def share_packs(self) -> None:
        """Moves the packs to the plan that runs once. Equal packs are launched once."""
        if self.once is None:
            return
        texts: dict[int, str] = {}
        packed: dict[Hashable, Buffer] = {}
        same: dict[Buffer, Buffer] = {}
        for launch in self.packs:
            kernel = self.once.kernels[launch.kernel]
            assert isinstance(kernel, Kernel)
            target = launch.buffers[len(kernel.buffers) - 1]
            text = texts.setdefault(launch.kernel, kernel_text(kernel))
            arguments = tuple([argument for argument in launch.arguments if argument is not target])
            same[target] = packed.setdefault((text, arguments), target)
            if same[target] is target:
                self.once.launches.append(launch)
        self.replace_buffers(same)

    def replace_buffers(self, images: Mapping[Buffer, Buffer]) -> None:
        """Makes the launches use other buffers in place of some."""
        self.launches = [launch.with_buffers(images) for launch in self.launches]

    def _make(self, group: Group, *, shared: bool = True) -> list[Launch]:
        """The launches of one group. Threads share the work if `shared`; otherwise one thread does it."""
        made: list[Launch] = []
        for step in self._steps(group, shared):
            if step.once and self.once is not None:
                self.packs.append(self.once._launch(step))
            else:
                made.append(self._launch(step))
        return made

    def _steps(self, group: Group, shared: bool) -> Iterator[Step]:
        """The kernels of one group."""
        if group.gemm is not None and not self.target.blocks.grid:
            yield from build_gemm(group, self.target, self.aliases, len(self.kernels), walk=self.walk, shared=shared)
        elif group.nodes[0].scatter is not None:
            yield from build_scatter(group.nodes[0], self.aliases, len(self.kernels))
        else:
            yield from start_overwrites(group, self.aliases, len(self.kernels))
            parts = split_ranges(open_group(group, self.aliases))
            kernels: dict[str, Kernel | GemmKernel] = {}
            for part in parts:
                step = part.moved(self._step_of(part.nest, f"k{len(self.kernels)}"))
                if len(parts) > 1:  # A text costs 3 % of a kernel: for ranges of one nest alone, which may be equal.
                    step = replace(step, kernel=kernels.setdefault(kernel_text(step.kernel), step.kernel))
                yield step

    def _step_of(self, nest: LoopNest, name: str) -> Step:
        """The kernel of a nest."""
        if self.target.blocks.grid:
            return _plain_step(nest, name)
        return _step_of(nest, name, self.walk, self.target.without)

    def _launch(self, step: Step) -> Launch:
        """Adds a kernel, unless it is there, and returns its launch."""
        grain = 1 if isinstance(step.kernel, GemmKernel) else _grain(step.work, self.target.blocks.grain)
        number = self._numbers.get(step.kernel)
        if number is None:
            number = self._numbers[step.kernel] = len(self.kernels)
            self.kernels.append(split_complex(step.kernel))
        return Launch(number, step.arguments, step.count, grain)

    def copy(self, source: Buffer, target: Buffer) -> None:
        """A plain copy."""
        axes = axes_of(source.type.shape)
        at = tuple([0 if size == 1 else axis for axis, size in zip(axes, source.type.shape, strict=True)])
        (node,) = make_nodes([Dissected.of(Definition(target, axes, load(source, *at)))], {target})
        self.add(Group(0, (node,), None))


def _plain_step(nest: LoopNest, name: str) -> Step:
    """The kernel of a nest whose loops become blocks and threads: no lanes, tiles or values kept between loops."""
    collapse(nest)
    return build_scan(nest, name) or build_plain(nest, name)


def _step_of(nest: LoopNest, name: str, walk: Walk, without: Container[str]) -> Step:
    """The kernel of a nest."""
    collapse(nest)
    running = build_scan(nest, name)
    if running is not None:
        return running
    if "row_reuse" not in without:
        spill_row_values(nest)
    if "row_sums" in without:
        return build_kernel(nest, name, walk)
    return sum_rows(nest, name) or multiply_rows(nest, name) or build_kernel(nest, name, walk)


def _grain(work: Size, steps: int) -> Size:
    """The least number of iterations whose work is worth a share of its own."""
    # The work of an iteration may depend on its index. The first iteration stands for all.
    first = substitute(work, {symbol: 0 for symbol in free_symbols(work) if is_axis(symbol)})
    return maximum(1, floordiv(steps, maximum(1, first)))
