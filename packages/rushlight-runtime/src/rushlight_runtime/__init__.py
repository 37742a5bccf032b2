"""Runs native packages that Rushlight made, with nothing but numpy."""

from rushlight_runtime.program import PackageError, Program, load

__all__ = ["PackageError", "Program", "load"]
__version__ = "0.1.0"
