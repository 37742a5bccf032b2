"""`torch._higher_order_ops.cond`."""

from rushlight import cond

__all__ = ["cond"]
