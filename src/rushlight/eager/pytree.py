"""Tuples, lists, dicts and registered classes: taken apart into leaves and put together again.

`NODES` says how a class is taken apart. A program adds its own by `register_node`; then everything that takes nested
values apart does so with objects of that class: `func`, control flow, checkpoints, `torch.utils._pytree`.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from rushlight.support.errors import require

Pieces = tuple[Iterable[Any], Any]
Takes = Callable[[Any], Pieces]
Makes = Callable[[Iterable[Any], Any], Any]
"""The children of a container, and what is needed beside them to make it again."""


class Node(NamedTuple):
    """A class of containers, `flatten_fn(container)` as `Pieces`, and `unflatten_fn(children, context)`."""

    type: object
    flatten_fn: Takes
    unflatten_fn: Makes
    flatten_with_keys_fn: Takes | None = None


class Structure:
    """A container: the key of its class in `NODES`, what it needs beside its children, and their structures."""

    __slots__ = ("children_specs", "context", "type")

    def __init__(self, type: Any, context: object, children_specs: Sequence[Structure]) -> None:
        self.type = type
        self.context = context
        self.children_specs = list(children_specs)

    def is_leaf(self) -> bool:
        """Whether this is the place of one value."""
        return self.type is None

    def children(self) -> list[Structure]:
        """The structures of the children."""
        return list(self.children_specs)

    def child(self, index: int) -> Structure:
        """The structure of one child."""
        return self.children_specs[index]

    @property
    def num_leaves(self) -> int:
        """The number of values."""
        return 1 if self.type is None else sum([child.num_leaves for child in self.children_specs])

    @property
    def num_nodes(self) -> int:
        """The number of values and containers."""
        return 1 + sum([child.num_nodes for child in self.children_specs])

    @property
    def num_children(self) -> int:
        """The number of children."""
        return len(self.children_specs)

    def unflatten(self, leaves: Iterable[object]) -> Any:
        """The value with these leaves."""
        return unflatten_tree(self, list(leaves))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Structure):
            return NotImplemented
        return self.type is other.type and self.context == other.context and self.children_specs == other.children_specs

    def __hash__(self) -> int:
        return hash((self.type, tuple(self.children_specs)))

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        return f"TreeSpec({self.type.__name__}, {self.context}, [{', '.join(map(repr, self.children_specs))}])"

    def __str__(self) -> str:
        return "*" if self.type is None else f"{self.type.__name__} of {len(self.children_specs)}"


class Leaf(Structure):
    """The place of one value."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, ())


_LEAF = Leaf()


def _children(value: Iterable[object]) -> Pieces:
    return list(value), None


def _named(value: Iterable[object]) -> Pieces:
    return list(value), type(value)


def _entries(value: dict[object, object]) -> Pieces:
    return list(value.values()), list(value)


def _default_entries(value: defaultdict[object, object]) -> Pieces:
    return list(value.values()), [value.default_factory, list(value)]


def _of_children(kind: Callable[..., object], children: Iterable[object], context: object) -> object:
    return kind(children)


def _of_entries(kind: Callable[..., object], children: Iterable[object], context: Iterable[object]) -> object:
    return kind(zip(context, children, strict=True))


def _sequence(kind: type) -> Node:
    return Node(kind, _children, partial(_of_children, kind))


def _mapping(kind: type) -> Node:
    return Node(kind, _entries, partial(_of_entries, kind))


def _queue(value: deque[object]) -> Pieces:
    return list(value), value.maxlen


NODES: dict[Any, Node] = {
    tuple: _sequence(tuple),
    list: _sequence(list),
    dict: _mapping(dict),
    namedtuple: Node(namedtuple, _named, lambda children, context: context(*children)),
    OrderedDict: _mapping(OrderedDict),
    defaultdict: Node(
        defaultdict,
        _default_entries,
        lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
    ),
    deque: Node(deque, _queue, lambda children, context: deque(children, context)),
}
"""How containers are taken apart, by class; named tuples by the function that makes their classes, as in PyTorch."""


def register_node(
    cls: type,
    flatten_fn: Takes,
    unflatten_fn: Makes,
    flatten_with_keys_fn: Takes | None = None,
) -> None:
    """Say how objects of a class are taken apart. Errors: A002 for a class that is registered."""
    require(cls not in NODES, "A002", f"{cls} is already registered as pytree node.", cls=cls)
    NODES[cls] = Node(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


def is_named_tuple(kind: type) -> bool:
    """Whether a class is made by `namedtuple`."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _node_of(kind: type) -> Node | None:
    """How a class is taken apart. One that is not registered is as the tuple, list or dict that it derives from."""
    found = NODES.get(kind)
    if found is not None or not issubclass(kind, (tuple, list, dict)):
        return found
    if is_named_tuple(kind):
        return NODES[namedtuple]
    return _mapping(kind) if issubclass(kind, dict) else _sequence(kind)


def flatten_tree(value: object, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Structure]:
    """The leaves of a value in order, and what says how to put them together; `is_leaf` ends it earlier."""
    leaves: list[Any] = []
    return leaves, _flatten(value, leaves, is_leaf)


def _flatten(value: object, leaves: list[object], is_leaf: Callable[[Any], bool] | None) -> Structure:
    node = _node_of(value.__class__)
    if node is None or (is_leaf is not None and is_leaf(value)):
        leaves.append(value)
        return _LEAF
    children, context = node.flatten_fn(value)
    return Structure(node.type, context, [_flatten(child, leaves, is_leaf) for child in children])


def count_of(structure: Structure) -> int:
    """The number of leaves of a structure."""
    return structure.num_leaves


def unflatten_tree(structure: Structure, leaves: Sequence[object]) -> Any:
    """The value of a structure with these leaves."""
    return _built(structure, iter(leaves))


def _built(structure: Structure, leaves: Iterator[object]) -> Any:
    if structure.type is None:
        return next(leaves)
    node = _node_of(structure.type) if isinstance(structure.type, type) else NODES[structure.type]
    assert node is not None  # it was there when the value was taken apart
    return node.unflatten_fn([_built(part, leaves) for part in structure.children_specs], structure.context)


def leaves_like(value: object, structure: Structure) -> list[Any] | None:
    """The leaves of a value, if it has this structure."""
    leaves: list[Any] = []
    return leaves if _gathered(value, structure, leaves) else None


def _gathered(value: Any, structure: Structure, leaves: list[object]) -> bool:
    node = _node_of(value.__class__)
    if node is None or structure.type is None:
        leaves.append(value)
        return node is None and structure.type is None
    if node.type is not structure.type:
        return False
    taken, context = node.flatten_fn(value)
    children = list(taken)
    alike = context == structure.context and len(children) == len(structure.children_specs)
    return alike and all(_gathered(*pair, leaves) for pair in zip(children, structure.children_specs, strict=True))


def map_tree(function: Callable[[Any], object], value: object) -> Any:
    """The value with `function` of each leaf."""
    leaves, structure = flatten_tree(value)
    return unflatten_tree(structure, [function(leaf) for leaf in leaves])
