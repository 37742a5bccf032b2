"""Nodes of a graph: one step each, doubly linked in the order in which they run."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias

from rushlight.fx.immutable_collections import immutable_dict, immutable_list
from rushlight.support.errors import require

Argument: TypeAlias = Any  # what a graph computes with: tensors, numbers, nodes, containers of them
Target: TypeAlias = Callable[..., Argument] | str

OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")
_IMPURE: set[object] = {setattr, operator.setitem, builtins.print}


def has_side_effect(function: Callable[..., object]) -> Callable[..., object]:
    """Register a function whose calls are kept although nobody needs their results; also a decorator."""
    _IMPURE.add(function)
    return function


def map_aggregate(value: object, function: Callable[[Argument], object]) -> Argument:
    """Return a value with `function` applied to its leaves: within tuples, lists, dicts and slices.

    Lists and dicts of the result cannot be changed: a node that holds them would not notice.
    """
    if isinstance(value, tuple):
        elements = [map_aggregate(element, function) for element in value]
        return type(value)(*elements) if hasattr(value, "_fields") else _as_tuple(value, elements)
    if isinstance(value, list):
        return immutable_list([map_aggregate(element, function) for element in value])
    if isinstance(value, dict):
        return immutable_dict({key: map_aggregate(element, function) for key, element in value.items()})
    if isinstance(value, slice):
        return slice(*[map_aggregate(part, function) for part in (value.start, value.stop, value.step)])
    return function(value)


def _as_tuple(value: tuple[object, ...], elements: list[object]) -> tuple[object, ...]:
    return value if all(one is other for one, other in zip(value, elements, strict=True)) else tuple(elements)


def map_arg(value: object, function: Callable[[Node], object]) -> Argument:
    """Return a value with `function` applied to the nodes in it."""
    return map_aggregate(value, lambda leaf: function(leaf) if isinstance(leaf, Node) else leaf)


class Nodes(Protocol):
    """What nodes need of the graph that they are in."""

    owning_module: Argument

    @property
    def nodes(self) -> Iterable[Node]:
        """The nodes in order."""
        ...

    def fresh_name(self, candidate: str) -> str:
        """Return a name like the given one that no node has, and take it."""
        ...


class Node:
    """A step of a graph.

    `op` says what it does: "placeholder" (an input), "get_attr" (a tensor of the module), "call_function",
    "call_method", "call_module", or "output". `target` is the function, or the name of the input, method, module or
    attribute. `users` are the nodes that have it among their arguments, in order. `meta` is for whoever works on the
    graph; "val" in it is a tensor without data, of the result's dtype and sizes.
    """

    def __init__(
        self,
        graph: Nodes,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: object = None,
    ) -> None:
        require(op in OPS, "C038", f"fx: a node's op is one of {', '.join(OPS)}", op=op)
        self.graph: Argument = graph
        self.name = name
        self.op = op
        self.target: Argument = target
        self.type = return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Argument] = {}
        self._inputs: dict[Node, None] = {}
        self._args: tuple[Argument, ...] = ()
        self._kwargs: dict[str, Argument] = {}
        self._erased = False
        self._previous = self._following = self
        self._set(args, kwargs)

    def _set(self, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> None:
        for node in self._inputs:
            node.users.pop(self, None)
        inputs: dict[Node, None] = {}

        def noted(node: Node) -> Node:
            inputs[node] = None
            return node

        self._args, self._kwargs = map_arg(args, noted), map_arg(kwargs, noted)
        self._inputs = inputs
        for node in inputs:
            node.users[self] = None

    @property
    def args(self) -> tuple[Argument, ...]:
        """The positional arguments; assign a tuple to change them."""
        return self._args

    @args.setter
    def args(self, args: tuple[Argument, ...]) -> None:
        self._set(tuple(args), self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The keyword arguments; assign a dict to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: dict[str, Argument]) -> None:
        self._set(self._args, dict(kwargs))

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among its arguments, each once, in order."""
        return list(self._inputs)

    @property
    def next(self) -> Node:
        """The node that runs after it."""
        return self._following

    @property
    def prev(self) -> Node:
        """The node that runs before it."""
        return self._previous

    @property
    def stack_trace(self) -> str | None:
        """The user's lines that made it, innermost last, as text."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, text: str | None) -> None:
        self.meta["stack_trace"] = text

    def _unlink(self) -> None:
        self._previous._following, self._following._previous = self._following, self._previous

    def prepend(self, node: Node) -> None:
        """Put another node of the graph before this one."""
        require(self.graph is node.graph, "C038", "fx: the nodes belong to different graphs")
        if node is self:
            return
        node._unlink()
        before = self._previous
        before._following, node._previous = node, before
        node._following, self._previous = self, node

    def append(self, node: Node) -> None:
        """Put another node of the graph behind this one."""
        self._following.prepend(node)

    def update_arg(self, index: int, value: Argument) -> None:
        """Replace one positional argument."""
        args = list(self._args)
        args[index] = value
        self.args = tuple(args)

    def insert_arg(self, index: int, value: Argument) -> None:
        """Add a positional argument before another one."""
        self.args = (*self._args[:index], value, *self._args[index:])

    def update_kwarg(self, key: str, value: Argument) -> None:
        """Set one keyword argument."""
        self.kwargs = {**self._kwargs, key: value}

    def replace_input_with(self, old: Node, new: Node) -> None:
        """Replace a node among the arguments by another."""
        self._set(*map_arg((self._args, self._kwargs), lambda node: new if node is old else node))

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Let users, all or those that a callback accepts, read another node; return those."""
        if propagate_meta:
            require(not replace_with.meta, "C038", "fx: the replacement has meta of its own", node=replace_with.name)
            replace_with.meta.update(self.meta)
        users = [user for user in self.users if delete_user_cb(user)]
        for user in users:
            user.replace_input_with(self, replace_with)
        return users

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether it has to stay although nobody uses it: inputs, outputs, writes, and what says so."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return self.target in _IMPURE or _is_written_in_place(getattr(self.target, "__name__", ""))
        if self.op == "call_method":
            return _is_written_in_place(self.target)
        return self.op == "call_module" and bool(getattr(self._module(), "is_impure", False))

    def _module(self) -> object:
        owner = self.graph.owning_module
        return None if owner is None else owner.get_submodule(self.target)

    def format_node(self) -> str:
        """Return a line of text that shows it."""
        if self.op == "output":
            return f"return {_shown(self._args[0])}"
        kind = "" if self.type is None else f" : {getattr(self.type, '__name__', self.type)}"
        if self.op == "placeholder":
            return f"%{self.name}{kind} : [num_users={len(self.users)}] = placeholder[target={self.target}]"
        head = f"%{self.name}{kind} : [num_users={len(self.users)}] = {self.op}"
        name = self.target if isinstance(self.target, str) else qualified_name(self.target)
        if self.op == "get_attr":
            return f"{head}[target={name}]"
        return f"{head}[target={name}](args = {_shown(self._args)}, kwargs = {_shown(self._kwargs)})"

    def _rename(self, candidate: str) -> None:
        """Take a name like the given one that no other node has."""
        if candidate != self.name:
            self.name = self.graph.fresh_name(candidate)

    def __repr__(self) -> str:
        return self.name


def _is_written_in_place(name: str) -> bool:
    return name.endswith("_") and not name.endswith("__")


def _shown(value: object) -> str:
    if isinstance(value, Node):
        return f"%{value.name}"
    if isinstance(value, tuple):
        inner = ", ".join(map(_shown, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join([f"{key}: {_shown(entry)}" for key, entry in value.items()]) + "}"
    return str(value)


def qualified_name(function: Callable[..., object]) -> str:
    """Return a function's name with that of its module."""
    if getattr(builtins, getattr(function, "__name__", ""), None) is function:
        return function.__name__
    name = getattr(function, "__name__", type(function).__name__)
    module = getattr(function, "__module__", None) or "builtins"
    return f"{'operator' if module == '_operator' else module}.{name}"
