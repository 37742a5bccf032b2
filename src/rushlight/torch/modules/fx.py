"""`torch.fx`: classes for `isinstance` alone. Rushlight's graphs are those of `rushlight.export`."""

from __future__ import annotations

from rushlight.torch.passing import Decorator, refuse
from rushlight.torch.submodule import Submodule

__all__ = [
    "Graph",
    "GraphModule",
    "Node",
    "Proxy",
    "Tracer",
    "experimental",
    "graph_module",
    "node",
    "proxy",
    "symbolic_trace",
    "wrap",
]

wrap = Decorator("torch.fx.wrap", "no function is traced by fx here")


class Graph:
    """A class for `isinstance`: nothing is an instance."""

    def __init__(self, *args: object, **options: object) -> None:
        refuse(f"torch.fx.{type(self).__name__}", "graphs are those of rushlight.export")


class GraphModule(Graph):
    """A class for `isinstance`: nothing is an instance."""


class Node(Graph):
    """A class for `isinstance`: nothing is an instance."""


class Proxy(Graph):
    """A class for `isinstance`: nothing is an instance."""


class Tracer(Graph):
    """A class for `isinstance`: nothing is an instance."""


def symbolic_trace(root: object, *args: object, **options: object) -> object:
    """Raise A006."""
    refuse("torch.fx.symbolic_trace", "use export.export")


graph_module = Submodule(
    "Names of modules that are graphs.",
    GraphModule=GraphModule,
    _CodeOnlyModule=GraphModule,
    _USER_PRESERVED_ATTRIBUTES_KEY="_user_preserved_attributes",
    _copy_attr=symbolic_trace,
)
node = Submodule("Names of nodes.", Argument=object, Node=Node, Target=object, map_arg=symbolic_trace)
proxy = Submodule("Names of proxies.", Proxy=Proxy)


def _get_proxy_mode() -> None:
    """Return None: no function is traced by proxies."""


experimental = Submodule(
    "Names of tracers.",
    proxy_tensor=Submodule("A tracer by proxies, which is never on.", get_proxy_mode=_get_proxy_mode),
)
