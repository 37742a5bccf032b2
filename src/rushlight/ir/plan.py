"""Plans: what one native entry point does, in order."""

from __future__ import annotations

from collections.abc import Mapping

from rushlight.ir.gemm_tile import GemmTile
from rushlight.ir.kernel import GemmKernel, Kernel
from rushlight.ir.scalar import Buffer
from rushlight.ir.type import TensorType
from rushlight.support.frozen import frozen
from rushlight.sym import Scope, Size, SizeExpr, format_size, optimization_hint, size_of_code

# The functions that a module exports: its plan's, and that of what is made once.
ENTRY, ONCE = "entry", "once"
ALIGNMENT = 64
"""The alignment of every buffer in the arena, in bytes."""


@frozen
class SymbolSource:
    """Where a symbol's value stands at the call: dim `dim` of descriptor `descriptor`.

    `field` is "size" or "stride".
    """

    symbol: SizeExpr
    descriptor: int
    field: str
    dim: int


@frozen
class Assertion:
    """A run-time check: `left relation right` ("==", "<=", "<", "!="), with what to say when it fails."""

    relation: str
    left: Size
    right: Size
    message: str


@frozen
class ArenaSlot:
    """A buffer that lives in the arena, or in the memory of an output until this is written (`within`).

    It begins at the first multiple of 64 bytes where the slots at the positions `after`, all before its own and of the
    same memory, have ended; with none of these, at 0. Slots within an output that is too short for them all lie in the
    arena, behind its own.
    """

    buffer: Buffer
    size_bytes: Size
    after: tuple[int, ...] = ()
    within: Buffer | None = None


@frozen
class Address:
    """An argument word: the address of an element of a buffer, `offset` in elements."""

    buffer: Buffer
    offset: Size

    def __str__(self) -> str:
        return f"{self.buffer.name} + {format_size(self.offset)}"


@frozen
class Launch:
    """One run of a kernel: `arguments` are its argument words in order (a buffer stands for its address).

    `count` is the number of parallel iterations, `grain` the least that is worth a share of its own. For a GemmKernel
    `count` is the number of batches: the emitted code finds the tiles, their number and their sizes itself.
    """

    kernel: int
    arguments: tuple[Buffer | Address | Size, ...]
    count: Size
    grain: Size

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffers among the arguments."""
        buffers = [argument.buffer if isinstance(argument, Address) else argument for argument in self.arguments]
        return tuple([buffer for buffer in buffers if isinstance(buffer, Buffer)])

    def with_buffers(self, images: Mapping[Buffer, Buffer]) -> Launch:
        """The launch on other buffers, where `images` has them."""

        def image(word: Buffer | Address | Size) -> Buffer | Address | Size:
            if isinstance(word, Address):
                return Address(images.get(word.buffer, word.buffer), word.offset)
            return images.get(word, word) if isinstance(word, Buffer) else word

        return Launch(self.kernel, tuple([image(word) for word in self.arguments]), self.count, self.grain)


@frozen
class RowBlockLoop:
    """One loop over row blocks: `start` is a block's first index below `extent`, `length` the number of its indices.

    `length` is `step`, or less in the last block. Launches inside the block may use both symbols.
    """

    start: SizeExpr
    length: SizeExpr
    step: Size
    extent: Size


@frozen
class CausalBound:
    """A size that a row block looks up: `near` where the element `at` of `flags` is true, else `far`."""

    symbol: SizeExpr
    flags: Buffer
    at: Size
    near: Size
    far: Size


@frozen
class RowBlockKernel:
    """Launches that one thread runs in order for each row block, over scratch memory of its own.

    A row block is one value of each loop's `start`. Blocks are dealt out in turn to as many shares of the work as the
    scratch memory has slots. A slot has `slot_bytes`; the buffers of a block lie at `offsets` in it, in bytes.
    `launches` number the kernels of the plan. A launch of this kernel has as arguments the scratch memory, the
    addresses of `buffers`, the values of `sizes`, the number of shares, `slot_bytes`, and each loop's `step` and
    `extent`. The launches of a block may use its `causal_bound`.

    With `in_order`, one share runs the blocks of the last loop, first to last, and at least one, if an empty one.
    """

    name: str
    buffers: tuple[Buffer, ...]
    sizes: tuple[SizeExpr, ...]
    loops: tuple[RowBlockLoop, ...]
    in_order: bool
    causal_bound: CausalBound | None
    launches: tuple[Launch, ...]
    offsets: tuple[tuple[Buffer, Size], ...]
    slot_bytes: Size

    def operands_of(self, launch: Launch) -> dict[Buffer, Buffer]:
        """The buffer that a launch of this kernel passes for each of `buffers`."""
        return dict(zip(self.buffers, launch.buffers[1:], strict=True))


AnyKernel = Kernel | GemmKernel | RowBlockKernel

THREADS = size_of_code("threads", 2)
"""The number of threads that a call may use, for sizes of scratch memory: the entry knows it."""


@frozen
class Plan:
    """Everything that an entry point needs: inputs and outputs are the descriptors, in order, as buffers.

    `once` is a plan of its own that runs before, and again when a frozen input has changed: its inputs are frozen ones,
    its outputs are the last inputs of this one. `asserted` are bools that launches compute and that are False, or no
    launch writes to an input. A plan keeps the `scopes` of its symbols.
    """

    inputs: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    output_types: tuple[TensorType, ...]
    symbols: tuple[SymbolSource, ...]
    assertions: tuple[Assertion, ...]
    slots: tuple[ArenaSlot, ...]
    kernels: tuple[AnyKernel, ...]
    launches: tuple[Launch, ...]
    once: Plan | None = None
    asserted: tuple[Buffer, ...] = ()
    scopes: tuple[Scope, ...] = ()

    @property
    def tiles(self) -> tuple[GemmTile, ...]:
        """The tiles whose cores it calls."""
        before = () if self.once is None else self.once.tiles
        mine = [kernel.tile for kernel in self.kernels if isinstance(kernel, GemmKernel)]
        return tuple(dict.fromkeys([*before, *mine]))

    def arena_hints(self) -> tuple[list[int], int]:
        """The offsets of the slots and the length of the arena, in bytes, for hinted sizes."""
        starts: list[int] = []
        ends: list[int] = []
        for slot in self.slots:
            start = max([ends[position] for position in slot.after], default=0)
            starts.append(start)
            ends.append(start - -optimization_hint(slot.size_bytes) // ALIGNMENT * ALIGNMENT)
        own = [end for slot, end in zip(self.slots, ends, strict=True) if slot.within is None]
        return starts, max(own, default=0)
