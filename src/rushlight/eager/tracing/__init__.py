"""Tracing: operators on tensors are written down instead of run, and writes become values."""

from rushlight.eager.tracing.number import TracedNumber
from rushlight.eager.tracing.tracer import WRITTEN, Tracer

__all__ = ["WRITTEN", "TracedNumber", "Tracer"]
