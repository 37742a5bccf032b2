"""Codes of models in ONNX's format."""

from rushlight.support.errors.classes import NotSupportedError
from rushlight.support.errors.registry import register_code

register_code(
    "O001",
    NotSupportedError,
    "A model uses operators that are missing",
    "Every operator of the model is looked for before anything runs. The message has all that are missing, and the "
    "nodes that use them.",
    "write the model with other operators, or with functions of those in rl.onnx.operators()",
)
register_code(
    "O002",
    NotSupportedError,
    "A model uses an operator in a way that is missing",
    "The operator is there, but not with this attribute, or not in this version.",
    "convert the model to a newer opset: onnx.version_converter",
)
register_code(
    "O003",
    NotSupportedError,
    "A model cannot hold this",
    "ONNX's models are functions of tensors: they write to nothing, draw no numbers from a generator of ours, and take "
    "no Python numbers.",
)
