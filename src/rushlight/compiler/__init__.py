"""Looking at and steering `rl.compile`: what was compiled, how often, and starting over."""

from rushlight.capture import compile, graph_count, reset
from rushlight.capture.marks import mark_dynamic, mark_static, mark_unbacked
from rushlight.compiler.proposals import propose_specs
from rushlight.compiler.report import Report, is_compiled, report
from rushlight.compiler.sizes import ShapeReport, shape_report
from rushlight.compiler.tracing import is_compiling
from rushlight.support.peer_names import absent_name

__all__ = [
    "Report",
    "ShapeReport",
    "compile",
    "graph_count",
    "is_compiled",
    "is_compiling",
    "mark_dynamic",
    "mark_static",
    "mark_unbacked",
    "propose_specs",
    "report",
    "reset",
    "shape_report",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
