"""The text of a graph: a Python function that does what its nodes say."""

from __future__ import annotations

import builtins
import inspect
import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rushlight.eager.tensor import Tensor
from rushlight.eager.tensor_meta import Size
from rushlight.eager.tracing.number import RELATIONS
from rushlight.fx.node import Argument, Node, Nodes, qualified_name
from rushlight.ir.dtype import DType
from rushlight.ir.type import Device

BINARY: Mapping[object, str] = {
    operator.add: "+",
    operator.sub: "-",
    operator.mul: "*",
    operator.truediv: "/",
    operator.floordiv: "//",
    operator.mod: "%",
    operator.pow: "**",
    operator.matmul: "@",
    operator.lshift: "<<",
    operator.rshift: ">>",
    operator.and_: "&",
    operator.or_: "|",
    operator.xor: "^",
    **RELATIONS,
}
_UNARY: Mapping[object, str] = {operator.neg: "-", operator.pos: "+", operator.invert: "~"}
_IN_PLACE: Mapping[object, str] = {
    operator.iadd: "+=",
    operator.isub: "-=",
    operator.imul: "*=",
    operator.itruediv: "/=",
    operator.ifloordiv: "//=",
    operator.imod: "%=",
    operator.ipow: "**=",
    operator.imatmul: "@=",
    operator.ilshift: "<<=",
    operator.irshift: ">>=",
    operator.iand: "&=",
    operator.ior: "|=",
    operator.ixor: "^=",
}
# Modules of the package in which a function is looked for under its own name, the first first.
_PUBLIC = ("", "nn.functional", "linalg", "fft", "special", "fx.ops")


@dataclass
class PythonCode:
    """The text of a graph's function, and the globals that it names."""

    src: str
    globals: dict[str, object]
    _lineno_map: dict[int, int | None] = field(default_factory=dict)


class CodeGen:
    """Writes a graph's code."""

    def write(self, graph: Nodes, root_module: str, verbose: bool) -> PythonCode:
        """Return the text of `forward`, and its globals; `verbose` adds the type of each value."""
        return _Writer(root_module, verbose).written(graph)


class _Writer:
    """The text of one graph in the making."""

    def __init__(self, root: str, verbose: bool) -> None:
        self.root = root
        self.verbose = verbose
        self.globals: dict[str, object] = {}

    def written(self, graph: Nodes) -> PythonCode:
        last = _last_users(graph)
        parameters: list[str] = []
        lines: list[str] = []
        returned, kind = "None", ""
        for node in graph.nodes:
            if node.op == "placeholder":
                parameters.append(self._parameter(node, lines))
            elif node.op == "output":
                kind = "" if node.type is None else f" -> {self._type(node.type)}"
                returned = self.text(node.args[0])
                lines.append(f"return {returned}")
            else:
                lines.append(f"{self._call(node)}{self._freed(node, last)}{self._comment(node)}")
        head = ", ".join([self.root, *parameters])
        body = "".join([f"\n    {line}" for line in lines or ["pass"]])
        return PythonCode(f"def forward({head}){kind}:{body}\n", self.globals)

    def _parameter(self, node: Node, lines: list[str]) -> str:
        default = f" = {self.text(node.args[0])}" if node.args else ""
        kind = "" if node.type is None else f" : {self._type(node.type)}"
        raw = node.target.replace("*", "")
        if node.name != raw:
            lines.append(f"{node.name} = {raw}")
        return f"{node.target}{kind}{default}"

    def _freed(self, node: Node, last: Mapping[Node, Sequence[Node]]) -> str:
        unused = [one.name for one in last.get(node, ())]
        if not node.users:
            unused.append(node.name)
        return f";  {' = '.join([*unused, 'None'])}" if unused else ""

    def _comment(self, node: Node) -> str:
        value = node.meta.get("val")
        if not self.verbose or value is None:
            return ""
        if not hasattr(value, "dtype"):
            return f"  # {type(value).__name__}"
        sizes = ", ".join(map(str, value.shape))
        return f"  # {str(value.dtype).rpartition('.')[2]}[{sizes}]"

    def _call(self, node: Node) -> str:
        kind = "" if node.type is None else f" : {self._type(node.type)}"
        if node.op == "get_attr":
            return f"{node.name}{kind} = {self._attribute(self.root, node.target)}"
        if node.op == "call_function":
            return self._function_call(node, kind)
        args = [self.text(arg) for arg in node.args]
        keywords = [f"{name}={self.text(value)}" for name, value in node.kwargs.items()]
        if node.op == "call_method":
            callee = f"{_owner(args[0])}.{node.target}"
            return f"{node.name}{kind} = {callee}({', '.join([*args[1:], *keywords])})"
        return f"{node.name}{kind} = {self._attribute(self.root, node.target)}({', '.join([*args, *keywords])})"

    def _function_call(self, node: Node, kind: str) -> str:
        target, args = node.target, [self.text(arg) for arg in node.args]
        if not node.kwargs:
            if target in _IN_PLACE and len(args) == 2:
                return f"{node.name} = {args[0]};  {node.name} {_IN_PLACE[target]} {args[1]}"
            infix = _infix(node, args)
            if infix is not None:
                return f"{node.name}{kind} = {infix}"
        keywords = [f"{name}={self.text(value)}" for name, value in node.kwargs.items()]
        return f"{node.name}{kind} = {self.named(target)}({', '.join([*args, *keywords])})"

    def _attribute(self, text: str, path: str) -> str:
        for name in path.split("."):
            text = f"{text}.{name}" if name.isidentifier() else f'getattr({text}, "{name}")'
        return text

    def named(self, function: Callable[..., object]) -> str:
        """The text of a function or class: the name under which it is public, or a global of its own."""
        if getattr(builtins, getattr(function, "__name__", ""), None) is function:
            return function.__name__
        path = public_path(function)
        if path is not None:
            root = path.partition(".")[0]
            self.globals[root] = sys.modules[root]
            return path
        full = qualified_name(function)
        module, _, name = full.rpartition(".")
        if inspect.ismodule(sys.modules.get(module)) and getattr(sys.modules[module], name, None) is function:
            root = module.partition(".")[0]
            if root not in ("__main__",) and "<" not in full:
                self.globals[root] = sys.modules[root]
                return full
        return self._global(full.replace(".", "_"), function)

    def _global(self, name: str, value: object) -> str:
        clean = "".join([letter if letter.isalnum() else "_" for letter in name]) or "_"
        number = 0
        text = clean
        while text in self.globals and self.globals[text] is not value:
            number += 1
            text = f"{clean}_{number}"
        self.globals[text] = value
        return text

    def _type(self, annotation: Argument) -> str:
        if isinstance(annotation, str):
            return repr(annotation)
        if isinstance(annotation, type) and not getattr(annotation, "__args__", None):
            return self.named(annotation)
        return self._global(f"type_{getattr(annotation, '__name__', 'annotation')}", annotation)

    def text(self, value: Argument) -> str:
        """The text of an argument."""
        if isinstance(value, Node):
            return value.name
        if isinstance(value, Size):
            return f"{self.named(Size)}({self._sequence(value)})"
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self.named(type(value))}({', '.join(map(self.text, value))})"
        if isinstance(value, (tuple, list)):
            return self._sequence(value)
        if isinstance(value, dict):
            return "{" + ", ".join([f"{key!r}: {self.text(entry)}" for key, entry in value.items()]) + "}"
        if isinstance(value, slice):
            return f"slice({self.text(value.start)}, {self.text(value.stop)}, {self.text(value.step)})"
        return self._leaf(value)

    def _sequence(self, value: Sequence[object]) -> str:
        inner = ", ".join(map(self.text, value))
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"

    def _leaf(self, value: Argument) -> str:
        if value is None or value is ... or type(value) in (bool, int, str, bytes):
            return "..." if value is ... else repr(value)
        if type(value) in (float, complex):
            return _number(value)
        if isinstance(value, DType):
            name = repr(value).rpartition(".")[2]
            root = _root()
            self.globals[root] = sys.modules[root]
            return f"{root}.{name}"
        if callable(value) and not isinstance(value, Device):
            return self.named(value)
        if isinstance(value, Device):
            return f"{self.named(Device)}({str(value)!r})"
        return self._global(f"constant_{type(value).__name__}", value)


def _infix(node: Node, args: list[str]) -> str | None:
    target = node.target
    if target in BINARY and len(args) == 2:
        return f"{_bracketed(args[0])} {BINARY[target]} {_bracketed(args[1])}"
    if target in _UNARY and len(args) == 1:
        return f"{_UNARY[target]}{_bracketed(args[0])}"
    if target is operator.getitem and len(args) == 2:
        return f"{_owner(args[0])}[{args[1]}]"
    if target is getattr and len(args) == 2 and isinstance(node.args[1], str) and node.args[1].isidentifier():
        return f"{_owner(args[0])}.{node.args[1]}"
    return None


def _owner(text: str) -> str:
    return text if text.isidentifier() else f"({text})"


def _bracketed(text: str) -> str:
    return text if text.isdecimal() or text.replace(".", "").isidentifier() else f"({text})"


def _number(value: complex) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if isinstance(value, complex) and not (math.isfinite(value.real) and math.isfinite(value.imag)):
        return f"complex({_number(value.real)}, {_number(value.imag)})"
    return repr(value)


def _last_users(graph: Nodes) -> dict[Node, list[Node]]:
    """For each node those that it is the last to read."""
    seen: set[Node] = set()
    last: dict[Node, list[Node]] = {}
    for node in reversed(list(graph.nodes)):
        for one in node.all_input_nodes:
            if one not in seen:
                seen.add(one)
                last.setdefault(node, []).append(one)
    return last


def _root() -> str:
    """What the package is called in a program: torch under the alias."""
    alias = getattr(sys.modules.get("torch"), "Tensor", None) is Tensor
    return "torch" if alias else "rushlight"


def public_path(function: Argument) -> str | None:
    """The name under which a function or class of the package is public, from its root."""
    name = getattr(function, "__name__", None)
    if not isinstance(name, str) or not name.isidentifier():
        return None
    for path in _PUBLIC:
        owner: Argument = sys.modules["rushlight"]
        for part in path.split(".") if path else ():
            owner = getattr(owner, part)
        if getattr(owner, name, None) is function:
            return ".".join([_root(), *([path] if path else []), name])
    return None
