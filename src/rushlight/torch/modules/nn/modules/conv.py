"""`torch.nn.modules.conv`: the names of its base classes, which packages import."""

from rushlight.nn.modules.conv import Convolution as _ConvNd
from rushlight.nn.modules.conv import LazyConvolution as _LazyConvXdMixin
from rushlight.nn.modules.conv import TransposedConvolution as _ConvTransposeNd

__all__ = ["_ConvNd", "_ConvTransposeNd", "_LazyConvXdMixin"]
