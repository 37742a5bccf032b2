"""`torch.nn.modules.batchnorm`: the names of its base classes, which packages import."""

from rushlight.nn.modules.batchnorm import BatchNorm as _BatchNorm
from rushlight.nn.modules.batchnorm import ChannelNorm as _NormBase
from rushlight.nn.modules.batchnorm import LazyNorm as _LazyNormBase

__all__ = ["_BatchNorm", "_LazyNormBase", "_NormBase"]
