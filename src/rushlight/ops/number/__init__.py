"""Operators on the parts of numbers: divisors, bits of floats, steps, angles."""

from rushlight.ops.number import divisors, floats, polar

__all__ = ["divisors", "floats", "polar"]
