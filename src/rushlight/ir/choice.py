"""What a plan is made for, and what is chosen on the way: tiles, which change its speed and never its bits."""

from __future__ import annotations

from collections.abc import Callable

from rushlight.ir.gemm_tile import GemmTile
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
class ScheduleTarget:
    """What plans are made for: the width of vectors, the narrow dtypes that it multiplies, and who chooses tiles."""

    vector_bytes: int
    products: frozenset[str] = frozenset()
    choose: Choose = by_model
