"""Proxies: values that write down what is done with them, as nodes of a graph."""

from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Callable, Iterator
from types import FrameType

from rushlight.eager.tensor import Tensor
from rushlight.fx.graph import Graph
from rushlight.fx.node import Argument, Node, Target, map_aggregate
from rushlight.support.errors import RushlightError, error

__all__ = ["Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "TraceError", "TracerBase"]

TraceError = RushlightError


class TracerBase:
    """Makes nodes of a graph, and proxies for them."""

    graph: Graph

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: object = None,
    ) -> Node:
        """Add a node."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        """Return what stands for a node's value."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: object = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Argument:
        """Add a node whose arguments may hold proxies; return its proxy."""
        node = self.create_node(kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr)
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Argument) -> Argument:
        """Return an argument of a node for a value: nodes in place of proxies."""
        return map_aggregate(a, self._leaf_argument)

    def _leaf_argument(self, value: object) -> object:
        return value.node if isinstance(value, Proxy) else value

    def to_bool(self, obj: Proxy) -> bool:
        """Fail: the truth of a value is not known."""
        raise _refusal(
            obj, "the truth of a value decides what happens next", "use torch.where, or trace with concrete_args"
        )

    def iter(self, obj: Proxy) -> Iterator[Argument]:
        """Return the elements of a value that is unpacked into variables; other loops are refused."""
        count = _unpacked(sys._getframe(2))
        if count is None:
            raise _refusal(obj, "a loop goes over a value", "loop over numbers: for i in range(...): x[i]")
        return iter([obj[position] for position in range(count)])

    def keys(self, obj: Proxy) -> Argument:
        """Return what stands for the keys of a value."""
        return Attribute(obj, "keys")()


def _refusal(proxy: Proxy, what: str, hint: str) -> RushlightError:
    return error("C002", f"fx: {what} while a function is traced by proxies", node=proxy.node.name, hint=hint)


def _unpacked(frame: FrameType) -> int | None:
    """How many variables the frame's current instruction unpacks a value into."""
    for instruction in dis.get_instructions(frame.f_code):
        if instruction.offset == frame.f_lasti:
            return instruction.argval if instruction.opname == "UNPACK_SEQUENCE" else None
    return None


class GraphAppendingTracer(TracerBase):
    """Adds nodes to a graph that is there already."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


def _binary(function: Callable[..., object]) -> Callable[[Proxy, object], Argument]:
    return lambda self, other: self._recorded(function, (self, other))


def _reflected(function: Callable[..., object]) -> Callable[[Proxy, object], Argument]:
    return lambda self, other: self._recorded(function, (other, self))


def _unary(function: Callable[..., object]) -> Callable[[Proxy], Argument]:
    return lambda self: self._recorded(function, (self,))


class Proxy:
    """Stands for the value of a node: what is done with it becomes nodes."""

    node: Node
    tracer: TracerBase

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        vars(self)["node"] = node
        vars(self)["tracer"] = GraphAppendingTracer(node.graph) if tracer is None else tracer

    def _recorded(self, function: Callable[..., object], args: tuple[object, ...]) -> Argument:
        return self.tracer.create_proxy("call_function", function, args, {})

    def __getattr__(self, name: str) -> Argument:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Attribute(self, name)

    def __call__(self, *args: object, **kwargs: object) -> Argument:
        """Write down a call of the value."""
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Argument]:
        return self.tracer.iter(self)

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __len__(self) -> int:
        raise _refusal(self, "the length of a value is asked", "call torch.fx.wrap('len') at the module's top level")

    def __index__(self) -> int:
        raise _refusal(self, "a value is used as an integer", "pass the number by concrete_args")

    def keys(self) -> Argument:
        """Return what stands for the keys of a dict."""
        return self.tracer.keys(self)

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Argument],
        types: object,
        args: tuple[Argument, ...] = (),
        kwargs: dict[str, Argument] | None = None,
    ) -> Argument:
        """Write down a call of a function on tensors."""
        options = kwargs or {}
        tracer = _tracer_of((args, options))
        owner = getattr(func, "__qualname__", "").rpartition(".")[0]
        if owner in ("Tensor", "TensorBase", "Handle", "TensorMethods") or _is_method(func):
            return tracer.create_proxy("call_method", func.__name__, args, options)
        return tracer.create_proxy("call_function", func, args, options)

    def __setitem__(self, index: object, value: object) -> None:
        self._recorded(operator.setitem, (self, index, value))

    def __contains__(self, value: object) -> bool:
        raise _refusal(self, "a value is looked for in another", "write it with functions on tensors")

    __add__, __radd__ = _binary(operator.add), _reflected(operator.add)
    __sub__, __rsub__ = _binary(operator.sub), _reflected(operator.sub)
    __mul__, __rmul__ = _binary(operator.mul), _reflected(operator.mul)
    __truediv__, __rtruediv__ = _binary(operator.truediv), _reflected(operator.truediv)
    __floordiv__, __rfloordiv__ = _binary(operator.floordiv), _reflected(operator.floordiv)
    __mod__, __rmod__ = _binary(operator.mod), _reflected(operator.mod)
    __pow__, __rpow__ = _binary(operator.pow), _reflected(operator.pow)
    __matmul__, __rmatmul__ = _binary(operator.matmul), _reflected(operator.matmul)
    __lshift__, __rlshift__ = _binary(operator.lshift), _reflected(operator.lshift)
    __rshift__, __rrshift__ = _binary(operator.rshift), _reflected(operator.rshift)
    __and__, __rand__ = _binary(operator.and_), _reflected(operator.and_)
    __or__, __ror__ = _binary(operator.or_), _reflected(operator.or_)
    __xor__, __rxor__ = _binary(operator.xor), _reflected(operator.xor)
    __iadd__, __isub__, __imul__ = _binary(operator.iadd), _binary(operator.isub), _binary(operator.imul)
    __itruediv__, __ipow__ = _binary(operator.itruediv), _binary(operator.ipow)
    __lt__, __le__, __gt__, __ge__ = map(_binary, (operator.lt, operator.le, operator.gt, operator.ge))
    __neg__, __pos__, __invert__, __abs__ = map(_unary, (operator.neg, operator.pos, operator.invert, operator.abs))
    __getitem__ = _binary(operator.getitem)

    def __eq__(self, other: object) -> Argument:
        return self._recorded(operator.eq, (self, other))

    def __ne__(self, other: object) -> Argument:
        return self._recorded(operator.ne, (self, other))

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"


class Attribute(Proxy):
    """An attribute of a value: a call of it is a call of a method, anything else reads it."""

    def __init__(self, root: Proxy, attr: str) -> None:
        vars(self).update(root=root, attr=attr, tracer=root.tracer, _node=None)

    @property
    def node(self) -> Node:  # pyright: ignore[reportIncompatibleVariableOverride] - made when it is first asked for
        """The node that reads the attribute."""
        if vars(self)["_node"] is None:
            state = vars(self)
            made = self.tracer.create_proxy("call_function", getattr, (state["root"], state["attr"]), {})
            state["_node"] = made.node
        return vars(self)["_node"]

    def __call__(self, *args: object, **kwargs: object) -> Argument:
        """Write down a call of the method."""
        state = vars(self)
        return self.tracer.create_proxy("call_method", state["attr"], (state["root"], *args), kwargs)


class ParameterProxy(Proxy):
    """Stands for a parameter, whose sizes are known."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Argument) -> None:
        super().__init__(node, tracer)
        vars(self).update(param=param, name=name)

    @property
    def shape(self) -> Argument:
        """The parameter's sizes."""
        return vars(self)["param"].shape

    def size(self, *args: int) -> Argument:
        """Return the parameter's sizes, or one of them."""
        return vars(self)["param"].size(*args)

    def dim(self) -> int:
        """Return how many dims the parameter has."""
        return len(self.shape)

    @property
    def ndim(self) -> int:
        """How many dims the parameter has."""
        return len(self.shape)

    def numel(self) -> int:
        """Return how many elements the parameter has."""
        return vars(self)["param"].numel()


def _is_method(function: Callable[..., object]) -> bool:
    """Whether a function is a method of tensors, as modes and proxies are given them."""
    name = getattr(function, "__name__", "")
    return getattr(Tensor, name, None) is function


def _tracer_of(value: object) -> TracerBase:
    found: list[TracerBase] = []

    def note(leaf: object) -> object:
        if isinstance(leaf, Proxy):
            found.append(leaf.tracer)
        return leaf

    map_aggregate(value, note)
    return found[0]
