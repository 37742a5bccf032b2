"""Writing programs as ONNX's models."""

from rushlight.onnx.writing.program import export

__all__ = ["export"]
