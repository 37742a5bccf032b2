"""Layers that change the size of images."""

from __future__ import annotations

from rushlight.eager.tensor import Tensor
from rushlight.nn import functional
from rushlight.nn.modules.module import Module
from rushlight.nn.spatial import PerDim

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class Upsample(Module):
    """`interpolate` as a layer: (n, channels, *space) with space of another size."""

    def __init__(
        self,
        size: PerDim[int] | None = None,
        scale_factor: PerDim[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size = size
        if isinstance(scale_factor, tuple | list):
            self.scale_factor = tuple([float(factor) for factor in scale_factor])
        else:
            self.scale_factor = None if scale_factor is None else float(scale_factor)
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Return the input in the other size."""
        return functional.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        """Return the size or the factor, and the mode."""
        given = f"size={self.size!r}" if self.scale_factor is None else f"scale_factor={self.scale_factor!r}"
        return f"{given}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Upsample of two spatial dims by the nearest element."""

    def __init__(self, size: PerDim[int] | None = None, scale_factor: PerDim[float] | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Upsample of two spatial dims by means of neighbours, with aligned corners."""

    def __init__(self, size: PerDim[int] | None = None, scale_factor: PerDim[float] | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
