"""Further pooling layers: adaptive ones, norms, and elements put back."""

from __future__ import annotations

from typing import Any

from rushlight.eager.tensor import Tensor
from rushlight.nn import functional
from rushlight.nn.module import Module
from rushlight.nn.pooling import AdaptivePooling, AvgPool2d
from rushlight.nn.spatial import PerDim, per_dim


class AvgPool3d(AvgPool2d):
    """The mean of each window over three spatial dims."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        window = self.kernel_size, self.stride, self.padding
        return functional.avg_pool3d(input, *window, self.ceil_mode, self.count_include_pad, self.divisor_override)


class AdaptiveAvgPool3d(AdaptivePooling):
    """Means over windows that cover three spatial dims in `output_size` steps; None keeps a size."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return functional.adaptive_avg_pool3d(input, self.output_size)


class AdaptiveMaxPooling(AdaptivePooling):
    """Base of the adaptive max pools."""

    _dims = 0

    def __init__(self, output_size: PerDim[int | None], return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """Return the largest elements, and their places if asked for."""
        pool = getattr(functional, f"adaptive_max_pool{self._dims}d")
        return pool(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(AdaptiveMaxPooling):
    """The largest elements of windows that cover one spatial dim in `output_size` steps."""

    _dims = 1


class AdaptiveMaxPool2d(AdaptiveMaxPooling):
    """The largest elements of windows that cover two spatial dims; None keeps a size."""

    _dims = 2


class AdaptiveMaxPool3d(AdaptiveMaxPooling):
    """The largest elements of windows that cover three spatial dims; None keeps a size."""

    _dims = 3


class NormPooling(Module):
    """Base of the pools by norms."""

    _dims = 0

    def __init__(
        self,
        norm_type: float,
        kernel_size: PerDim[int],
        stride: PerDim[int] | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """Return the norm of each window."""
        pool = getattr(functional, f"lp_pool{self._dims}d")
        return pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        """Return the norm and the windows."""
        window = f"kernel_size={self.kernel_size}, stride={self.stride}, ceil_mode={self.ceil_mode}"
        return f"norm_type={self.norm_type}, {window}"


class LPPool1d(NormPooling):
    """The norm of each window over one spatial dim."""

    _dims = 1


class LPPool2d(NormPooling):
    """The norm of each window over two spatial dims."""

    _dims = 2


class LPPool3d(NormPooling):
    """The norm of each window over three spatial dims."""

    _dims = 3


class Unpooling(Module):
    """Base of the inverses of max pools."""

    _dims = 0

    def __init__(self, kernel_size: PerDim[int], stride: PerDim[int] | None = None, padding: PerDim[int] = 0) -> None:
        super().__init__()
        self.kernel_size = per_dim(kernel_size, self._dims)
        self.stride = per_dim(kernel_size if stride is None else stride, self._dims)
        self.padding = per_dim(padding, self._dims)

    def forward(self, input: Tensor, indices: Tensor, output_size: PerDim[int] | None = None) -> Tensor:
        """Return zeros with the elements at the places of the indices."""
        unpool = getattr(functional, f"max_unpool{self._dims}d")
        return unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        """Return the windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(Unpooling):
    """Elements back in the places that MaxPool1d took them from."""

    _dims = 1


class MaxUnpool2d(Unpooling):
    """Elements back in the places that MaxPool2d took them from."""

    _dims = 2


class MaxUnpool3d(Unpooling):
    """Elements back in the places that MaxPool3d took them from."""

    _dims = 3
