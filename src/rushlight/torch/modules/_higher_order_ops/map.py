"""`torch._higher_order_ops.map`."""

from rushlight import map

__all__ = ["map"]
