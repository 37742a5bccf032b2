"""Operators on the parts of numbers: divisors, bits of floats, steps, angles."""

from rushlight.ops.number import divisors, floats, parts, polar

__all__ = ["divisors", "floats", "parts", "polar"]
