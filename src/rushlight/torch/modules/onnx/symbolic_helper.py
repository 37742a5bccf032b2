"""`torch.onnx.symbolic_helper`: decorators of functions that an exporter would call."""

from __future__ import annotations

from rushlight.torch.passing import Decorator

__all__ = ["parse_args"]

parse_args = Decorator("torch.onnx.symbolic_helper.parse_args", "there is no exporter that would call the function")
