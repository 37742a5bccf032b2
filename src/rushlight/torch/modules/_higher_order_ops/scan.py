"""`torch._higher_order_ops.scan`."""

from rushlight import scan

__all__ = ["scan"]
