"""Graphs that programs walk, edit, print as Python and call, with the names of `torch.fx`.

module = rl.fx.symbolic_trace(lambda x, y: rl.relu(x) + y)
for node in module.graph.nodes:
    if node.target is rl.relu:
        node.target = rl.tanh
module.recompile()
print(module.code)
"""

from rushlight.fx import experimental, graph, graph_module, immutable_collections, interpreter, node, passes, proxy
from rushlight.fx import ops as ops
from rushlight.fx import subgraph_rewriter as subgraph_rewriter
from rushlight.fx._symbolic_trace import ProxyableClassMeta, Tracer, symbolic_trace, wrap
from rushlight.fx.code import CodeGen
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Interpreter, Transformer
from rushlight.fx.node import Node, has_side_effect, map_arg
from rushlight.fx.proxy import Proxy
from rushlight.fx.subgraph_rewriter import replace_pattern
from rushlight.support.peer_names import absent_name

__all__ = [
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "experimental",
    "graph",
    "graph_module",
    "has_side_effect",
    "immutable_collections",
    "interpreter",
    "map_arg",
    "node",
    "ops",
    "passes",
    "proxy",
    "replace_pattern",
    "subgraph_rewriter",
    "symbolic_trace",
    "wrap",
]


def __getattr__(name: str) -> object:
    raise absent_name(__name__, name, __all__)
