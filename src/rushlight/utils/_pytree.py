"""Nested values, and classes that programs register: the names that PyTorch keeps under `torch.utils._pytree`."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable
from typing import Any

from rushlight.eager.pytree import (
    NODES,
    Leaf,
    Makes,
    Node,
    Structure,
    Takes,
    flatten_tree,
    is_named_tuple,
    map_tree,
    register_node,
    unflatten_tree,
)
from rushlight.support.errors import require

__all__ = [
    "SUPPORTED_NODES",
    "Context",
    "LeafSpec",
    "NodeDef",
    "PyTree",
    "PyTreeSpec",
    "TreeSpec",
    "register_pytree_node",
    "tree_all",
    "tree_any",
    "tree_flatten",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
]

PyTree = Any
Context = Any
TreeSpec = PyTreeSpec = Structure
LeafSpec = Leaf
NodeDef = Node
SUPPORTED_NODES = NODES

Test = Callable[[Any], bool] | None


def register_pytree_node(
    cls: type,
    flatten_fn: Takes,
    unflatten_fn: Makes,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: Takes | None = None,
) -> None:
    """Say how objects of a class are taken apart, for everything that takes nested values.

    What is about saving a structure as text is taken and not used: that is not done here. Errors: A002 for a class that
    is registered.

    ```python
    class Pair:
        def __init__(self, first, second):
            self.first, self.second = first, second


    register_pytree_node(Pair, lambda pair: ([pair.first, pair.second], None), lambda parts, context: Pair(*parts))
    ```
    """
    del serialized_type_name, to_dumpable_context, from_dumpable_context
    register_node(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


_register_pytree_node = register_pytree_node


def _get_node_type(tree: object) -> object:
    """Return what `SUPPORTED_NODES` has a value's class under."""
    return namedtuple if is_named_tuple(type(tree)) else type(tree)


def tree_is_leaf(tree: object, is_leaf: Test = None) -> bool:
    """Return whether a value is not taken apart."""
    return flatten_tree(tree, is_leaf)[1].is_leaf()


def tree_flatten(tree: object, is_leaf: Test = None) -> tuple[list[Any], Structure]:
    """Return the leaves and the structure of a tree."""
    return flatten_tree(tree, is_leaf)


def tree_iter(tree: object, is_leaf: Test = None) -> Iterable[Any]:
    """Return an iterator over the leaves of a tree."""
    return iter(flatten_tree(tree, is_leaf)[0])


def tree_leaves(tree: object, is_leaf: Test = None) -> list[Any]:
    """Return the leaves of a tree."""
    return flatten_tree(tree, is_leaf)[0]


def tree_structure(tree: object, is_leaf: Test = None) -> Structure:
    """Return the structure of a tree."""
    return flatten_tree(tree, is_leaf)[1]


def tree_unflatten(leaves: Iterable[object], treespec: Structure) -> Any:
    """Return the tree of a structure and leaves. Errors: A002 for another number of leaves."""
    given, count = list(leaves), treespec.num_leaves
    require(len(given) == count, "A002", f"tree_unflatten: {len(given)} leaves for a structure of {count}")
    return unflatten_tree(treespec, given)


def tree_map(func: Callable[..., object], tree: object, *rests: object, is_leaf: Test = None) -> Any:
    """Return the tree with a function applied to each leaf, and to what further trees have in its place.

    Errors: A002 for a further tree of another structure.
    """
    leaves, structure = flatten_tree(tree, is_leaf)
    columns = [leaves]
    for rest in rests:
        others, shape = flatten_tree(rest, is_leaf)
        require(
            shape == structure, "A002", "tree_map: the trees have the same structure", given=shape, wanted=structure
        )
        columns.append(others)
    return unflatten_tree(structure, [func(*row) for row in zip(*columns, strict=True)])


def tree_map_(func: Callable[..., object], tree: Any, *rests: object, is_leaf: Test = None) -> Any:
    """Apply a function to each leaf for its effect, and return the tree."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(kind: type | tuple[type, ...], func: Callable[[Any], object], tree: object) -> Any:
    """Return the tree with a function applied to the leaves of a type."""
    return map_tree(lambda leaf: func(leaf) if isinstance(leaf, kind) else leaf, tree)


def tree_all(pred: Callable[[Any], bool], tree: object, is_leaf: Test = None) -> bool:
    """Return whether a condition holds for all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: object, is_leaf: Test = None) -> bool:
    """Return whether a condition holds for some leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))
