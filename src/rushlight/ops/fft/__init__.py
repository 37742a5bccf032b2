"""Discrete Fourier transforms, short-time transforms and windows."""

from rushlight.ops.fft import transform

__all__ = ["transform"]
