"""What a plan is made for, and what is chosen on the way: tiles and blocks, which change its speed, never its bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace

from rushlight.ir.gemm_tile import GemmTile
from rushlight.ir.grid.matrix_unit import MatrixUnit
from rushlight.ir.target import Target
from rushlight.support.frozen import frozen
from rushlight.sym import Size


@frozen
class Product:
    """A batch of matrix products to choose a tile for: `tile` is what the cost model says.

    `sizes` are the batches, rows, columns and the length of the sums. With `epilogue` each finished tile is read again.
    """

    tile: GemmTile
    sizes: tuple[Size, Size, Size, Size]
    epilogue: bool


Choose = Callable[[Product], GemmTile]


def by_model(product: Product) -> GemmTile:
    """What the cost model says."""
    return product.tile


@frozen
class AxisBlock:
    """The places of a block of each axis that is as long as a dim of a parameter, or a multiple of them."""

    parameter: int
    dim: int
    width: int


@frozen
class AxisSpace:
    """The widths that a search may try for blocks of the axes of a parameter's dim; `high` 0 is no bound."""

    parameter: int
    dim: int
    low: int = 1
    high: int = 0

    def widths(self) -> Iterator[AxisBlock]:
        """The ends of the range, and powers of two within."""
        for width in (self.low, 8, 32, 128, 512, self.high):
            if self.low <= width <= (self.high or width) and width > 0:
                yield AxisBlock(self.parameter, self.dim, width)


@frozen
class Blocks:
    """In which blocks loops are walked, and what is kept between them.

    grain: the least work of a thread's share, in scalar steps. row_bytes: the scratch memory of a block of rows of a
    chain of kernels. chains: whether such chains are made. splits: whether long sums to few results are split. unroll:
    how many neighbours along the last outer axis share a loop. inverted: whether outer axes are walked in the opposite
    order. axes: blocks of single axes. grid: whether loops become the blocks and threads of a GPU. unit: what
    multiplies matrices of 16-bit numbers there; it has sums of its own, as another kind of device.
    """

    grain: int = Target.GRAIN_STEPS
    row_bytes: int = 512 << 10
    chains: bool = True
    splits: bool = True
    unroll: int = 1
    inverted: bool = False
    axes: tuple[AxisBlock, ...] = ()
    grid: bool = False
    unit: MatrixUnit | None = None

    def __str__(self) -> str:
        words = [f"{name}={int(getattr(self, name))}" for name in _WORDS]
        return " ".join([*words, *[f"block.{one.parameter}.{one.dim}={one.width}" for one in self.axes]])

    @staticmethod
    def parse(text: str) -> Blocks | None:
        """The blocks of a text; None where it says no such blocks."""
        values: dict[str, int] = {}
        axes: list[AxisBlock] = []
        for word in text.split():
            name, _, value = word.partition("=")
            kind, *places = name.split(".")
            if not all(number.isdecimal() for number in (value, *places)):
                return None
            if kind == "block" and len(places) == 2:
                axes.append(AxisBlock(int(places[0]), int(places[1]), int(value)))
            else:
                values[name] = int(value)
        counts = [values.get(name, 0) for name in ("grain", "row_bytes", "unroll")]
        if set(values) != set(_WORDS) or min([*counts, *[one.width for one in axes]]) < 1:
            return None
        chains, splits, inverted = (bool(values[name]) for name in ("chains", "splits", "inverted"))
        return Blocks(
            values["grain"], values["row_bytes"], chains, splits, values["unroll"], inverted, axes=tuple(axes)
        )

    def with_axis(self, axis: AxisBlock) -> Blocks:
        """These blocks, and another block of an axis."""
        others = [one for one in self.axes if (one.parameter, one.dim) != (axis.parameter, axis.dim)]
        return replace(self, axes=(*others, axis))

    def widths(self, shapes: Sequence[Sequence[Size]]) -> dict[Size, int]:
        """The width of blocks by the length of an axis, for parameters of these shapes."""
        return {
            shapes[one.parameter][one.dim]: one.width
            for one in self.axes
            if one.parameter < len(shapes) and one.dim < len(shapes[one.parameter])
        }


_WORDS = tuple([one.name for one in fields(Blocks) if one.name not in ("axes", "grid", "unit")])

BLOCKS = Blocks()
"""What the cost model says."""
GRID = Blocks(grain=1, chains=False, grid=True)
"""What a GPU gets."""


@frozen
class ScheduleTarget:
    """What plans are made for: the width of vectors, the narrow dtypes that it multiplies, and what was chosen.

    `without` names mechanisms that are left out.
    """

    vector_bytes: int
    products: frozenset[str] = frozenset()
    choose: Choose = by_model
    blocks: Blocks = BLOCKS
    without: frozenset[str] = frozenset()

    @property
    def splits(self) -> bool:
        """Whether threads share long sums to few results."""
        return self.blocks.splits and "splits" not in self.without

    @property
    def chains(self) -> bool:
        """Whether chains of kernels run by blocks of rows."""
        return self.blocks.chains and "chains" not in self.without
