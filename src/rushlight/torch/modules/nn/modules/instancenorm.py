"""`torch.nn.modules.instancenorm`: the names of its base classes, which packages import."""

from rushlight.nn.modules.instancenorm import InstanceNorm as _InstanceNorm

__all__ = ["_InstanceNorm"]
