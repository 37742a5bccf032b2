"""Scheduled kernels: loops with kinds, stores, and buffers with linear addresses.

Here every `load` has one operand, an element offset from the buffer's base address, and every store likewise. Axes
that are parallel form the outermost loops; their iteration space, flattened row-major, is what is shared among
threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from rushlight.ir.gemm_tile import GemmTile
from rushlight.ir.grid.matrix_unit import MatrixUnit
from rushlight.ir.scalar import Buffer, Scalar
from rushlight.support.frozen import frozen
from rushlight.sym import Size, SizeExpr, bounds


class AxisKind(Enum):
    """How the iterations of a loop are run.

    VECTOR: in the lanes of vectors. PARALLEL: shared among threads. PARALLEL_VECTOR: shared among threads, each of
    which runs its iterations in lanes. At most one of the loops around a store runs in lanes. If none does, reductions
    run in lanes along their innermost axis, where their `Order` allows it. BLOCK: one iteration for each block of
    threads. THREAD: one iteration for each thread of a block; threads beyond the extent wait. UNROLLED: written out one
    after the other, so that registers are named by number.
    """

    SERIAL = "serial"
    VECTOR = "vector"
    PARALLEL = "parallel"
    PARALLEL_VECTOR = "parallel vector"
    BLOCK = "block"
    THREAD = "thread"
    UNROLLED = "unrolled"

    @property
    def is_parallel(self) -> bool:
        """Whether threads share the iterations."""
        return self in (AxisKind.PARALLEL, AxisKind.PARALLEL_VECTOR, AxisKind.BLOCK)

    @property
    def is_vector(self) -> bool:
        """Whether iterations run in lanes."""
        return self is AxisKind.VECTOR or self is AxisKind.PARALLEL_VECTOR


@frozen
class Axis:
    """A loop axis. `extent` is its number of iterations: a size, or an integer Scalar read from memory (ragged loops).

    `start` is its first value, itself possibly read from memory (`offsets[i]`).
    """

    symbol: SizeExpr
    extent: Size | Scalar
    kind: AxisKind = AxisKind.SERIAL
    start: Size | Scalar = 0


@frozen
class Store:
    """`buffer[offset] = value`, or combined with what is there ("sum", "prod", "max", "min"). `where` masks it.

    Stores that follow each other happen together: all their values are computed before the first of them is written.
    """

    buffer: Buffer
    offset: Scalar | Size
    value: Scalar
    combine: str | None = None
    where: Scalar | None = None

    @property
    def roots(self) -> list[Scalar]:
        """Its scalars: those that it computes for each place."""
        return [part for part in (self.value, self.offset, self.where) if isinstance(part, Scalar)]


@frozen
class Barrier:
    """All threads of a block meet."""


@frozen
class Multiply:
    """`result += a b` by a matrix unit, in a loop over all threads of a block.

    The threads of a group take part as one. Offsets are those of the first elements: of the thread's in registers, and
    of operands in shared memory, where `a_step` and `b_step` are what `MatrixUnit.shared_place` was given.
    """

    unit: MatrixUnit
    result: Buffer
    a: Buffer
    b: Buffer
    result_offset: Size
    a_offset: Size
    b_offset: Size
    a_step: int = 0
    b_step: int = 0


@frozen
class Loop:
    """Runs its body for each value of its axis."""

    axis: Axis
    body: tuple[Statement, ...]


Statement = Loop | Store | Barrier | Multiply


@frozen
class Kernel:
    """A loop nest as one native function `void(args*, begin, end)`.

    `args` holds the addresses of `buffers`, then the values of `sizes` (symbols that occur in it), in order.
    No other kernel of the plan reads the buffers `unread`; this one reads them only to reuse a row's values.
    """

    name: str
    buffers: tuple[Buffer, ...]
    sizes: tuple[SizeExpr, ...]
    body: tuple[Statement, ...]
    unread: tuple[Buffer, ...] = ()

    @property
    def parallel_axes(self) -> tuple[Axis, ...]:
        """The outermost parallel loops, outermost first."""
        axes: list[Axis] = []
        body = self.body
        while len(body) == 1 and isinstance(body[0], Loop) and body[0].axis.kind.is_parallel:
            axes.append(body[0].axis)
            body = body[0].body
        return tuple(axes)

    @property
    def threads(self) -> int:
        """The threads of a block: the most that any of its loops over threads has; 0 if there is none."""
        axes = [loop.axis for loop in loops_in(self.body)]
        return max([_most_threads(axis) for axis in axes if axis.kind is AxisKind.THREAD], default=0)

    def stores(self) -> Iterator[Store]:
        """All stores, in program order."""
        return stores_in(self.body)


def loops_in(body: Iterable[Statement]) -> Iterator[Loop]:
    """All loops of a body, each before those inside it."""
    return (statement for statement in _statements_in(body) if isinstance(statement, Loop))


def stores_in(body: Iterable[Statement]) -> Iterator[Store]:
    """All stores of a body, in program order."""
    return (statement for statement in _statements_in(body) if isinstance(statement, Store))


def multiplies_in(body: Iterable[Statement]) -> Iterator[Multiply]:
    """All products of matrix units in a body, in program order."""
    return (statement for statement in _statements_in(body) if isinstance(statement, Multiply))


def _statements_in(body: Iterable[Statement]) -> Iterator[Statement]:
    stack = [*body][::-1]
    while stack:
        statement = stack.pop()
        yield statement
        if isinstance(statement, Loop):
            stack.extend(reversed(statement.body))


def _most_threads(axis: Axis) -> int:
    """The bound of the threads of an axis, which has one."""
    assert not isinstance(axis.extent, Scalar), "threads are counted before the kernel runs"
    most = axis.extent if isinstance(axis.extent, int) else bounds(axis.extent)[1]
    assert isinstance(most, int), f"threads without a bound: {axis}"
    return most


# The arguments of a matrix product begin with these: three addresses, then sizes and strides in elements. `a_batch`,
# `b_batch` and `c_batch` are the strides of the outer batch axes, `a_inner` and its like those of the `inner_batches`
# below them. `sums` is scratch memory for split-K: counters first, then the partial sums of each block of k,
# `sums_step` elements apart. `sums_step` is 0 if k must not be split. The last four are chosen when the product runs.
TASK_ARGS = (
    *("a", "b", "c", "m", "n", "k", "a_ld", "b_ld", "ldc", "a_batch", "b_batch", "c_batch"),
    *("inner_batches", "a_inner", "b_inner", "c_inner", "sums", "sums_step"),
    *("tile_m", "tile_n", "parts", "part_steps"),
)
# The tile that an epilogue works on: the first sizes of its kernel.
TILE_ARGS = ("tile_ld", "batch", "row", "column", "rows", "columns")
# The panel of `b` that a prologue writes: the first sizes of its kernel.
PANEL_ARGS = ("batch", "step", "column", "steps", "columns")


@frozen
class Attached:
    """A kernel that a matrix product calls on a tile or panel in its own memory.

    That tile or panel is the kernel's first buffer. The product passes the kernel's first sizes, `args`. The other
    buffers and sizes are arguments of the product, from position `first_arg` on.
    """

    kernel: Kernel
    role: str
    args: tuple[str, ...]
    first_arg: int

    @property
    def buffers(self) -> int:
        """The number of addresses among the product's arguments."""
        return len(self.kernel.buffers) - 1

    @property
    def sizes(self) -> int:
        """The number of sizes among the product's arguments."""
        return len(self.kernel.sizes) - len(self.args)


@frozen
class GemmKernel:
    """The GEMM template: C[b, m, n] = sum over k of A[b, m, k] * B[b, k, n], operands laid out as `tile` says.

    Its arguments are TASK_ARGS, then the addresses and sizes that the epilogue needs, then those of the prologue.
    With an epilogue there is no C (its argument is 0): the epilogue is a kernel over the rows of one finished macro
    tile, whose first buffer is the tile and whose first sizes are TILE_ARGS. A prologue makes a B that is not in memory
    (its argument is 0): a kernel that writes one panel, its first buffer, and whose first sizes are PANEL_ARGS. Only
    with `split_k` is there memory for the partial `sums` of blocks of k.
    """

    name: str
    tile: GemmTile
    epilogue: Kernel | None = None
    prologue: Kernel | None = None
    split_k: bool = False

    @property
    def attached(self) -> tuple[Attached, ...]:
        """The epilogue and the prologue, where the product has them."""
        attached: list[Attached] = []
        first_arg = len(TASK_ARGS)
        for kernel, role, args in (
            (self.epilogue, "epilogue", TILE_ARGS),
            (self.prologue, "prologue", PANEL_ARGS),
        ):
            if kernel is not None:
                inner = Attached(kernel, role, args, first_arg)
                attached.append(inner)
                first_arg += inner.buffers + inner.sizes
        return tuple(attached)
