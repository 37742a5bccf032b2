"""Asks ONNX's node tests, which the library `onnx` generates."""
