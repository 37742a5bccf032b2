"""Looking at and steering `rl.compile`: what was compiled, how often, and starting over."""

from rushlight.capture import compile, graph_count, reset
from rushlight.compiler.report import Report, is_compiled, report

__all__ = ["Report", "compile", "graph_count", "is_compiled", "report", "reset"]
