"""`torch.nn.modules.batchnorm`: the names of its base classes, and `SyncBatchNorm`."""

from rushlight.nn.modules.batchnorm import BatchNorm as _BatchNorm
from rushlight.nn.modules.batchnorm import ChannelNorm as _NormBase
from rushlight.nn.modules.batchnorm import LazyNorm as _LazyNormBase
from rushlight.nn.modules.sync_batchnorm import SyncBatchNorm

__all__ = ["SyncBatchNorm", "_BatchNorm", "_LazyNormBase", "_NormBase"]
