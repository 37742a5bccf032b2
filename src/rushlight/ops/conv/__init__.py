"""Convolutions."""

from rushlight.ops.conv import conv_nd, convolution

__all__ = [
    "conv_nd",
    "convolution",
]
