"""Pooling layers."""

from __future__ import annotations

from typing import Any

from rushlight.eager.tensor import Tensor
from rushlight.nn import functional
from rushlight.nn.modules.module import Module
from rushlight.nn.spatial import PerDim, per_dim
from rushlight.support.errors import require

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "FractionalMaxPool2d",
    "FractionalMaxPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "MaxUnpool1d",
    "MaxUnpool2d",
    "MaxUnpool3d",
]


class MaxPooling(Module):
    """Base of the max pools."""

    _dims = 0

    def __init__(
        self,
        kernel_size: PerDim[int],
        stride: PerDim[int] | None = None,
        padding: PerDim[int] = 0,
        dilation: PerDim[int] = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """Return the largest element of each window."""
        pool = getattr(functional, f"max_pool{self._dims}d")
        return pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        """Return the windows."""
        window = f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"
        return f"{window}, dilation={self.dilation}, ceil_mode={self.ceil_mode}"


class MaxPool1d(MaxPooling):
    """The largest element of each window over one spatial dim."""

    _dims = 1


class MaxPool2d(MaxPooling):
    """The largest element of each window over two spatial dims."""

    _dims = 2


class MaxPool3d(MaxPooling):
    """The largest element of each window over three spatial dims."""

    _dims = 3


class AvgPool1d(Module):
    """The mean of each window over one spatial dim."""

    def __init__(
        self,
        kernel_size: PerDim[int],
        stride: PerDim[int] | None = None,
        padding: PerDim[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = (kernel_size,) if isinstance(kernel_size, int) else kernel_size
        stride = kernel_size if stride is None else stride
        self.stride = (stride,) if isinstance(stride, int) else stride
        self.padding = (padding,) if isinstance(padding, int) else padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        window = self.kernel_size, self.stride, self.padding
        return functional.avg_pool1d(input, *window, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        """Return the windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(Module):
    """The mean of each window over two spatial dims."""

    def __init__(
        self,
        kernel_size: PerDim[int],
        stride: PerDim[int] | None = None,
        padding: PerDim[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        window = self.kernel_size, self.stride, self.padding
        return functional.avg_pool2d(input, *window, self.ceil_mode, self.count_include_pad, self.divisor_override)

    def extra_repr(self) -> str:
        """Return the windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AdaptivePooling(Module):
    """Base of the adaptive pools."""

    def __init__(self, output_size: PerDim[int | None]) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        """Return the sizes asked for."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(AdaptivePooling):
    """Means over windows that cover one spatial dim in `output_size` steps."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return functional.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(AdaptivePooling):
    """Means over windows that cover two spatial dims in `output_size` steps; None keeps a size."""

    def forward(self, input: Tensor) -> Tensor:
        """Return the means."""
        return functional.adaptive_avg_pool2d(input, self.output_size)


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


class FractionalPooling(Module):
    """Base of the fractional max pools."""

    _dims = 0

    def __init__(
        self,
        kernel_size: PerDim[int],
        output_size: PerDim[int] | None = None,
        output_ratio: PerDim[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        one = (output_size is None) != (output_ratio is None)
        require(one, "A002", "FractionalMaxPool: give either output_size or output_ratio")
        self.kernel_size = per_dim(kernel_size, self._dims)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else per_dim(output_size, self._dims)
        self.output_ratio = None if output_ratio is None else per_dim(output_ratio, self._dims)
        ratios = self.output_ratio or ()
        fits = all(0 < ratio < 1 for ratio in ratios)
        require(fits, "A002", "FractionalMaxPool: output_ratio is between 0 and 1", output_ratio=output_ratio)

    def forward(self, input: Tensor) -> Any:
        """Return the largest elements, and their places if asked for."""
        pool = getattr(functional, f"fractional_max_pool{self._dims}d")
        rule = self.kernel_size, self.output_size, self.output_ratio, self.return_indices
        return pool(input, *rule, self._random_samples)


class FractionalMaxPool2d(FractionalPooling):
    """The largest elements of windows over two spatial dims, at random steps."""

    _dims = 2


class FractionalMaxPool3d(FractionalPooling):
    """The largest elements of windows over three spatial dims, at random steps."""

    _dims = 3
