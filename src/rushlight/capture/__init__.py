"""Capture: Python functions over tensors become graphs with guards. `rl.compile` lives here.

An interpreter of bytecode runs the function once on tensors without data, and every operator is written down.
"""

from rushlight.capture.api import CompiledModule, compile, explain_entries
from rushlight.capture.function import CompiledFunction, graph_count, reset

__all__ = ["CompiledFunction", "CompiledModule", "compile", "explain_entries", "graph_count", "reset"]
