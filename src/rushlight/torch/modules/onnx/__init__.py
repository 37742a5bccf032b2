"""`torch.onnx`: nothing is exported to ONNX by PyTorch's exporter."""

from __future__ import annotations

from rushlight.torch.passing import refuse, say_passed

__all__ = ["export", "is_in_onnx_export", "register_custom_op_symbolic"]


def export(*args: object, **options: object) -> object:
    """Raise A006."""
    refuse("torch.onnx.export", "export.export makes a program, and onnx.export writes it as a model")


def is_in_onnx_export() -> bool:
    """Return False."""
    return False


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: object, opset_version: int) -> None:
    """Accept how an operator is written in ONNX; nothing asks for it."""
    say_passed("torch.onnx.register_custom_op_symbolic", "there is no exporter that would ask for it")
