"""Images of other sizes, as PyTorch's `interpolate` makes them."""

from __future__ import annotations

import math

from rushlight.eager import functions as ops
from rushlight.eager.arguments import integers
from rushlight.eager.boundary import checked
from rushlight.eager.tensor import Tensor
from rushlight.nn.spatial import PerDim, T, per_dim
from rushlight.ops.record import OPERATORS
from rushlight.support.errors import require

MODES: dict[str, tuple[int, ...]] = {
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "trilinear": (3,),
    "bicubic": (2,),
    "area": (1, 2, 3),
}
"""How many spatial dims each mode is for."""
BY_CORNERS = ("linear", "bilinear", "trilinear", "bicubic")
MOST_EXACT = 1 << 20


@checked
def interpolate(
    input: Tensor,
    size: PerDim[int] | None = None,
    scale_factor: PerDim[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resize the spatial dims of (n, channels, *space) to `size`, or by `scale_factor`."""
    dims = input.ndim - 2
    _require_mode(input, mode, dims, align_corners, antialias)
    require((size is None) != (scale_factor is None), "A002", "interpolate: give either size or scale_factor")
    if scale_factor is None:
        require(not recompute_scale_factor, "A002", "interpolate: recompute_scale_factor is not for an explicit size")
        assert size is not None
        sizes, scales = integers(_for_each(size, dims, "size")) or (), None
    else:
        scales = tuple([float(factor) for factor in _for_each(scale_factor, dims, "scale_factor")])
        require(all(map(math.isfinite, scales)), "A002", "interpolate: factors are finite", scale_factor=scale_factor)
        sizes = tuple([_scaled(before, factor) for before, factor in zip(input.shape[2:], scales, strict=True)])
    scales = None if recompute_scale_factor else scales
    if mode == "area":
        pools = (ops.adaptive_avg_pool1d, ops.adaptive_avg_pool2d, ops.adaptive_avg_pool3d)
        return pools[dims - 1](input, sizes)
    if antialias:
        kernel = "cubic" if mode == "bicubic" else "linear"
        return OPERATORS["resize_antialias"](input, sizes, kernel, scales, bool(align_corners))
    if mode in BY_CORNERS:
        name = "resize_cubic" if mode == "bicubic" else "resize_linear"
        return OPERATORS[name](input, sizes, scales, bool(align_corners))
    return OPERATORS["resize_nearest"](input, sizes, scales, mode == "nearest-exact")


def _require_mode(input: Tensor, mode: str, dims: int, align_corners: bool | None, antialias: bool) -> None:
    require(mode in MODES, "A002", f"interpolate: mode is one of {', '.join(MODES)}", mode=mode)
    require(dims in MODES[mode], "S002", f"interpolate: {mode} is for {_listed(MODES[mode])} spatial dims", input=input)
    fits = align_corners is None or mode in BY_CORNERS
    require(fits, "A002", f"interpolate: align_corners is for {', '.join(BY_CORNERS)}", mode=mode)
    fits = not antialias or mode in ("bilinear", "bicubic")
    require(fits, "A002", "interpolate: antialias is for bilinear and bicubic", mode=mode)


def _listed(counts: tuple[int, ...]) -> str:
    return " or ".join([str(count) for count in counts])


def _for_each(value: PerDim[T], dims: int, name: str) -> tuple[T, ...]:
    """Return a number for each spatial dim; a single number is for all of them."""
    values = per_dim(value, dims)
    require(
        len(values) == dims, "A004", f"interpolate: {name} has a number for each of {dims} spatial dims", given=value
    )
    return values


def _scaled(size: int, factor: float) -> int:
    """`floor(size * factor)`. A short binary fraction, as 2 or 1.5, is exact for sizes that are not known, too."""
    top, bottom = factor.as_integer_ratio()
    if max(top, bottom) <= MOST_EXACT:
        return size * top // bottom
    return math.floor(float(size) * factor)
