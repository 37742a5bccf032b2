"""Views: other shapes and strides of the same memory."""

from rushlight.ops.view import part, reorder, reshape, strided

__all__ = [
    "part",
    "reorder",
    "reshape",
    "strided",
]
