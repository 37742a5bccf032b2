"""Looking at and steering `rl.compile`: what was compiled, how often, and starting over."""

from rushlight.capture import compile, graph_count, reset
from rushlight.capture.marks import mark_dynamic, mark_static, mark_unbacked
from rushlight.capture.stance import set_stance
from rushlight.capture.steering import (
    allow_in_graph,
    assume_constant_result,
    cudagraph_mark_step_begin,
    disable,
    graph_break,
    nonstrict_trace,
    substitute_in_graph,
)
from rushlight.compiler import callback, compiled_autograd, partition
from rushlight.compiler.backends import list_backends, lookup_backend, register_backend
from rushlight.compiler.code import run_and_get_code
from rushlight.compiler.explanation import Explanation, explain
from rushlight.compiler.proposals import propose_specs
from rushlight.compiler.regions import region
from rushlight.compiler.report import Report, is_compiled, report
from rushlight.compiler.sizes import ShapeReport, shape_report
from rushlight.compiler.tracing import is_compiling
from rushlight.support.peer_names import absent_name

__all__ = [
    "Explanation",
    "Report",
    "ShapeReport",
    "allow_in_graph",
    "assume_constant_result",
    "callback",
    "compile",
    "compiled_autograd",
    "cudagraph_mark_step_begin",
    "disable",
    "explain",
    "graph_break",
    "graph_count",
    "is_compiled",
    "is_compiling",
    "list_backends",
    "lookup_backend",
    "mark_dynamic",
    "mark_static",
    "mark_unbacked",
    "nonstrict_trace",
    "partition",
    "propose_specs",
    "region",
    "register_backend",
    "report",
    "reset",
    "run_and_get_code",
    "set_stance",
    "shape_report",
    "substitute_in_graph",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
