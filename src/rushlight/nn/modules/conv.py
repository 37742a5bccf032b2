"""Convolution layers."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.eager.creation import empty
from rushlight.eager.tensor import Parameter, Tensor
from rushlight.nn import functional
from rushlight.nn.modules.lazy import LazyModuleMixin
from rushlight.nn.modules.linear import init_like_linear
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import UninitializedParameter, UninitializedTensorMixin
from rushlight.nn.spatial import PerDim, per_dim
from rushlight.support.errors import require

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "LazyConv1d",
    "LazyConv2d",
    "LazyConv3d",
    "LazyConvTranspose1d",
    "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class Convolution(Module):
    """Base of the convolutions; `_dims` is the number of spatial dims."""

    _dims = 0
    _transposed = False
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: PerDim[int],
        stride: PerDim[int] = 1,
        padding: PerDim[int] | str = 0,
        dilation: PerDim[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        require(groups > 0, "A002", "groups must be a positive integer")
        require(in_channels % groups == 0, "A002", "in_channels must be divisible by groups")
        require(out_channels % groups == 0, "A002", "out_channels must be divisible by groups")
        require(
            padding_mode in PADDING_MODES,
            "A002",
            f"padding_mode must be one of {PADDING_MODES}, but got {padding_mode}",
        )
        valid = not isinstance(padding, str) or padding in ("same", "valid")
        require(valid, "A002", f"Invalid padding string {padding!r}, should be one of 'same', 'valid'")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = per_dim(kernel_size, self._dims)
        self.stride = per_dim(stride, self._dims)
        self.padding = padding if isinstance(padding, str) else per_dim(padding, self._dims)
        self.dilation = per_dim(dilation, self._dims)
        self.output_padding = (0,) * self._dims
        self.groups = groups
        self.padding_mode = padding_mode
        same = padding != "same" or all(step == 1 for step in self.stride)
        require(same, "A002", "padding='same' is not supported for strided convolutions")
        self.weight = Parameter(empty(self._weight_shape(), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _weight_shape(self) -> tuple[int, ...]:
        sizes = (self.in_channels, self.out_channels) if self._transposed else (self.out_channels, self.in_channels)
        return sizes[0], sizes[1] // self.groups, *self.kernel_size

    def reset_parameters(self) -> None:
        """Draw new values, evenly within one over the root of the number of inputs of an output."""
        init_like_linear(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution of the input."""
        convolve = getattr(functional, f"conv{self._dims}d")
        padding = self.padding
        if self.padding_mode != "zeros":
            input = functional.pad(input, self._padding_sides(), mode=self.padding_mode)
            padding = 0
        return convolve(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def _padding_sides(self) -> tuple[int, ...]:
        """Padding before and after each spatial dim, the last dim first."""
        sides: list[int] = []
        for dim in reversed(range(self._dims)):
            reach = self.dilation[dim] * (self.kernel_size[dim] - 1)
            if self.padding == "same":
                sides += [reach // 2, reach - reach // 2]
            else:
                width = 0 if isinstance(self.padding, str) else self.padding[dim]
                sides += [width, width]
        return tuple(sides)

    def extra_repr(self) -> str:
        """Return the sizes, and the arguments that differ from their defaults."""
        nothing, ones = (0,) * self._dims, (1,) * self._dims
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        text += f", padding={self.padding}" if self.padding != nothing else ""
        text += f", dilation={self.dilation}" if self.dilation != ones else ""
        text += f", output_padding={self.output_padding}" if self.output_padding != nothing else ""
        text += f", groups={self.groups}" if self.groups != 1 else ""
        text += ", bias=False" if self.bias is None else ""
        return text + (f", padding_mode={self.padding_mode}" if self.padding_mode != "zeros" else "")


class Conv1d(Convolution):
    """Cross-correlation over one spatial dim: (n, channels, length)."""

    _dims = 1


class Conv2d(Convolution):
    """Cross-correlation over two spatial dims: (n, channels, height, width)."""

    _dims = 2


class Conv3d(Convolution):
    """Cross-correlation over three spatial dims: (n, channels, depth, height, width)."""

    _dims = 3


class TransposedConvolution(Convolution):
    """Base of the transposed convolutions: the gradient of a convolution, as a layer."""

    _transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: PerDim[int],
        stride: PerDim[int] = 1,
        padding: PerDim[int] = 0,
        output_padding: PerDim[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: PerDim[int] = 1,
        padding_mode: str = "zeros",
        device: object = None,
        dtype: object = None,
    ) -> None:
        require(padding_mode == "zeros", "A002", 'Only "zeros" padding mode is supported for transposed convolutions')
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )
        self.output_padding = per_dim(output_padding, self._dims)

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Return the transposed convolution; `output_size` chooses among the sizes that a stride leaves open."""
        extra = self.output_padding if output_size is None else self._extra(input, tuple(output_size))
        convolve = getattr(functional, f"conv_transpose{self._dims}d")
        return convolve(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)

    def _extra(self, input: Tensor, output_size: tuple[int, ...]) -> tuple[int, ...]:
        wanted = output_size[-self._dims :]
        extra: list[int] = []
        for dim, size in enumerate(wanted):
            reach = self.dilation[dim] * (self.kernel_size[dim] - 1) + 1
            least = (input.shape[dim - self._dims] - 1) * self.stride[dim] - 2 * int(self.padding[dim]) + reach
            fits = least <= size < least + self.stride[dim]
            require(
                fits, "A002", f"requested an output size of {wanted}: dim {dim} can be {least} and more", input=input
            )
            extra.append(size - least)
        return tuple(extra)


class ConvTranspose1d(TransposedConvolution):
    """The gradient of Conv1d as a layer."""

    _dims = 1


class ConvTranspose2d(TransposedConvolution):
    """The gradient of Conv2d as a layer."""

    _dims = 2


class ConvTranspose3d(TransposedConvolution):
    """The gradient of Conv3d as a layer."""

    _dims = 3


class LazyConvolution(LazyModuleMixin, Convolution):
    """Base of convolutions whose `in_channels` the first input tells."""

    def _wait(self, out_channels: int, bias: bool, device: object, dtype: object) -> None:
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw new values, once there is a shape."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, output_size: Sequence[int] | None = None) -> None:
        """Take the number of input channels from the dim before the spatial ones."""
        waits = self.has_uninitialized_params()
        if waits or not self.in_channels:
            ranks = (self._dims + 1, self._dims + 2)
            name, text = type(self).__name__, f"Expected {ranks[0]}D (unbatched) or {ranks[1]}D (batched) input"
            require(input.ndim in ranks, "A004", f"{text} to {name}", input=input)
            self.in_channels = input.shape[-self._dims - 1]
        if waits:
            divides = self.in_channels % self.groups == 0
            require(divides, "A002", "in_channels must be divisible by groups", input=input, groups=self.groups)
            for one, shape in ((self.weight, self._weight_shape()), (self.bias, (self.out_channels,))):
                if isinstance(one, UninitializedTensorMixin):
                    one.materialize(shape)
            self.reset_parameters()


class LazyForwardConvolution(LazyConvolution):
    """Base of lazy convolutions that are not transposed."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: PerDim[int],
        stride: PerDim[int] = 1,
        padding: PerDim[int] | str = 0,
        dilation: PerDim[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode)
        self._wait(out_channels, bias, device, dtype)


class LazyConv1d(LazyForwardConvolution, Conv1d):
    """A Conv1d whose `in_channels` the first input tells."""

    cls_to_become = Conv1d


class LazyConv2d(LazyForwardConvolution, Conv2d):
    """A Conv2d whose `in_channels` the first input tells."""

    cls_to_become = Conv2d


class LazyConv3d(LazyForwardConvolution, Conv3d):
    """A Conv3d whose `in_channels` the first input tells."""

    cls_to_become = Conv3d


class LazyTransposedConvolution(LazyConvolution, TransposedConvolution):
    """Base of lazy transposed convolutions."""

    def __init__(
        self,
        out_channels: int,
        kernel_size: PerDim[int],
        stride: PerDim[int] = 1,
        padding: PerDim[int] = 0,
        output_padding: PerDim[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: PerDim[int] = 1,
        padding_mode: str = "zeros",
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode)
        self._wait(out_channels, bias, device, dtype)


class LazyConvTranspose1d(LazyTransposedConvolution, ConvTranspose1d):
    """A ConvTranspose1d whose `in_channels` the first input tells."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(LazyTransposedConvolution, ConvTranspose2d):
    """A ConvTranspose2d whose `in_channels` the first input tells."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(LazyTransposedConvolution, ConvTranspose3d):
    """A ConvTranspose3d whose `in_channels` the first input tells."""

    cls_to_become = ConvTranspose3d
