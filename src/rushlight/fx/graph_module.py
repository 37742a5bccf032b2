"""Modules that run a graph, by code that is written from it."""

from __future__ import annotations

import copy
import linecache
import sys
from collections.abc import Mapping
from itertools import count
from types import FunctionType

from rushlight.eager.tensor import Tensor
from rushlight.fx.code import PythonCode
from rushlight.fx.graph import Graph
from rushlight.fx.node import Argument, Node, map_arg
from rushlight.nn import Module
from rushlight.support.errors import fail, require

__all__ = ["GraphModule"]

_numbers = count()


class GraphModule(Module):
    """A module whose `forward` is the code of a graph.

    `root` has what the graph reads by `get_attr` and `call_module`: a module, or a dict from names to values. After
    changes of the graph, `recompile()` writes the code anew.

    module = rl.fx.symbolic_trace(lambda x: rl.relu(x) + 1)
    print(module.code)
    """

    def __new__(cls, *args: Argument, **kwargs: Argument) -> GraphModule:
        """Make a class of its own for each instance: it has the instance's `forward`."""
        base = next(one for one in cls.__mro__ if "_is_of_one_graph" not in vars(one))
        made: Argument = type(base.__name__, (base,), {"_is_of_one_graph": True, "__module__": base.__module__})
        return super().__new__(made)

    def __init__(self, root: Module | Mapping[str, object], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        self.meta: dict[str, object] = {}
        self._graph: Graph
        if isinstance(root, Module):
            self.training = root.training
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                _take_over(root, self, node.target)
        self.graph = graph
        self._tracer_cls = graph._tracer_cls

    @property
    def graph(self) -> Graph:
        """The graph; to assign another one recompiles."""
        return self._graph

    @graph.setter
    def graph(self, graph: Graph) -> None:
        require(isinstance(graph, Graph), "A001", "fx: a graph is a Graph", given=type(graph).__name__)
        vars(self)["_graph"] = graph
        graph.owning_module = self
        self.recompile()

    def recompile(self) -> PythonCode:
        """Write `forward` anew from the graph."""
        code = self._graph.python_code()
        file = f"<rushlight.fx {next(_numbers)}>"
        linecache.cache[file] = (len(code.src), None, code.src.splitlines(True), file)
        namespace: dict[str, Argument] = dict(code.globals)
        exec(compile(code.src, file, "exec"), namespace)  # noqa: S102 - the code is ours, of the graph's nodes
        forward = namespace["forward"]
        assert isinstance(forward, FunctionType)
        _forget(vars(type(self)).get("forward"))
        type.__setattr__(type(self), "forward", forward)
        vars(self)["_code"] = code.src
        return code

    @property
    def code(self) -> str:
        """The text of `forward`."""
        return vars(self)["_code"]

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
    ) -> str:
        """Return the module as the text of a class, with the types of values; print it unless told not to.

        Types tell strides and devices that are not the usual ones; the last three arguments change nothing.
        """
        body = self._graph.python_code(verbose=True).src
        inner = "".join([f"    {line}\n" if line else "\n" for line in body.splitlines()])
        text = f"class {type(self).__name__}(Module):\n{inner}"
        if print_output:
            sys.stdout.write(f"{text}\n")
        return text

    def add_submodule(self, target: str, m: Module) -> bool:
        """Add a module at a dotted name; return whether that was possible."""
        owner: Module = self
        *path, name = target.split(".")
        for part in path:
            if not hasattr(owner, part):
                owner.add_module(part, Module())
            inner = getattr(owner, part)
            if not isinstance(inner, Module):
                return False
            owner = inner
        owner.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Remove the module at a dotted name; return whether there was one."""
        *path, name = target.split(".")
        owner: object = self
        for part in path:
            owner = getattr(owner, part, None)
        if not isinstance(owner, Module) or not isinstance(getattr(owner, name, None), Module):
            return False
        delattr(owner, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Remove the modules that the graph does not read."""
        used: set[str] = set()
        for node in self._graph.nodes:
            if node.op in ("get_attr", "call_module"):
                parts = node.target.split(".")
                used.update([".".join(parts[:end]) for end in range(1, len(parts) + 1)])
                if node.op == "call_module":
                    used.update(
                        [f"{node.target}.{name}" for name, _ in self.get_submodule(node.target).named_modules()]
                    )
        for name, _ in list(self.named_modules()):
            if name and name not in used:
                self.delete_submodule(name)

    def _copied(self, state: Mapping[str, Argument], graph: Graph) -> GraphModule:
        made = type(self).__new__(type(self))
        Module.__init__(made)
        type(made).__name__ = type(self).__name__
        vars(made).update(state)
        made.graph = graph
        return made

    def __copy__(self) -> GraphModule:
        state = {name: dict(value) if isinstance(value, dict) else value for name, value in vars(self).items()}
        return self._copied(
            {name: value for name, value in state.items() if name != "_graph"}, copy.deepcopy(self._graph)
        )

    def __deepcopy__(self, memo: dict[int, Argument]) -> GraphModule:
        state = {name: value for name, value in vars(self).items() if name != "_graph"}
        made = self._copied(copy.deepcopy(state, memo), copy.deepcopy(self._graph, memo))
        memo[id(self)] = made
        return made

    def __reduce__(self) -> tuple[object, ...]:
        state = {name: value for name, value in vars(self).items() if name not in ("_graph", "_code")}
        nodes = list(self._graph.nodes)
        places = {node: _Place(position) for position, node in enumerate(nodes)}
        rows = [
            (node.op, node.target, map_arg((node.args, node.kwargs), places.__getitem__), node.name, node.type)
            for node in nodes
        ]
        return _rebuilt, (type(self).__name__, state, rows)

    def __str__(self) -> str:
        return f"{super().__repr__()}\n\n{self.code}"


class _Place:
    """Stands for a node of a graph that is pickled."""

    def __init__(self, position: int) -> None:
        self.position = position


def _rebuilt(name: str, state: dict[str, Argument], rows: list[tuple[Argument, ...]]) -> GraphModule:
    graph, nodes = Graph(), list[Node]()

    def node_of(value: Argument) -> Argument:
        if isinstance(value, _Place):
            return nodes[value.position]
        if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
            return type(value)(map(node_of, value))
        return {key: node_of(entry) for key, entry in value.items()} if isinstance(value, dict) else value

    for op, target, (args, kwargs), label, kind in rows:
        nodes.append(graph.create_node(op, target, node_of(args), node_of(kwargs), label, kind))
    made = GraphModule(Module(), Graph(), name)
    vars(made).update(state)
    made.graph = graph
    return made


def _forget(forward: object) -> None:
    """Let go of the text of a function that is replaced."""
    if isinstance(forward, FunctionType):
        linecache.cache.pop(forward.__code__.co_filename, None)


def _take_over(root: Module | Mapping[str, object], module: GraphModule, target: str) -> None:
    """Give a module the attribute of another, or of a dict, at a dotted name."""
    if isinstance(root, Module):
        _copy_attr(root, module, target)
        return
    if target not in root:
        fail("A001", f"fx: the graph reads {target}, which the root does not have", known=", ".join(root))
    _assign(module, target, root[target])


def _assign(module: Module, target: str, value: object) -> None:
    *path, name = target.split(".")
    owner = module
    for part in path:
        inner = getattr(owner, part, None)
        if inner is None:
            inner = Module()
            owner.add_module(part, inner)
        owner = inner
    if type(value) is Tensor:
        owner.register_buffer(name, value)
    else:
        setattr(owner, name, value)


def _copy_attr(from_module: Module, to_module: Module, target: str) -> None:
    """Give one module another's attribute at a dotted name."""
    value: Argument = from_module
    for part in target.split("."):
        if not hasattr(value, part):
            fail("A001", f"fx: the graph reads {target}, which the root does not have")
        value = getattr(value, part)
    owner: Argument = to_module
    *path, name = target.split(".")
    source: Argument = from_module
    for part in path:
        source = getattr(source, part)
        if getattr(owner, part, None) is source:
            return  # with all that is within
        if not hasattr(owner, part):
            owner.add_module(part, Module())
        owner = getattr(owner, part)
    if not hasattr(owner, name):
        _assign(owner, name, value)
