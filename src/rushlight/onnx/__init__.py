"""ONNX: `load` reads a model as a module, and `export` writes a program of `rushlight.export` as a model.

model = rl.onnx.load("model.onnx")
compiled = rl.compile(model)

The library `onnx` (extra `onnx`) is imported by the first call.
"""

from rushlight.onnx.loading import load
from rushlight.onnx.module import OnnxModule
from rushlight.onnx.registry import operators
from rushlight.onnx.writing import export

__all__ = ["OnnxModule", "export", "load", "operators"]
