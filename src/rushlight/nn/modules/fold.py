"""Windows as columns, and back."""

from __future__ import annotations

from rushlight.eager.tensor import Tensor
from rushlight.nn import functional
from rushlight.nn.modules.module import Module
from rushlight.nn.spatial import PerDim

__all__ = ["Fold", "Unfold"]


class Unfold(Module):
    """The elements under each window of an image as columns."""

    def __init__(
        self,
        kernel_size: PerDim[int],
        dilation: PerDim[int] = 1,
        padding: PerDim[int] = 0,
        stride: PerDim[int] = 1,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Return the columns."""
        return functional.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Return the windows."""
        window = f"kernel_size={self.kernel_size}, dilation={self.dilation}"
        return f"{window}, padding={self.padding}, stride={self.stride}"


class Fold(Module):
    """Images in which each element is the sum of what columns have at its place."""

    def __init__(
        self,
        output_size: PerDim[int],
        kernel_size: PerDim[int],
        dilation: PerDim[int] = 1,
        padding: PerDim[int] = 0,
        stride: PerDim[int] = 1,
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: Tensor) -> Tensor:
        """Return the images."""
        return functional.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """Return the size and the windows."""
        window = f"kernel_size={self.kernel_size}, dilation={self.dilation}"
        return f"output_size={self.output_size}, {window}, padding={self.padding}, stride={self.stride}"
