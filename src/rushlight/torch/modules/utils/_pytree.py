"""`torch.utils._pytree`: nested lists, tuples and dicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rushlight.eager.pytree import Structure, flatten_tree, map_tree, unflatten_tree
from rushlight.torch.passing import say_passed

__all__ = [
    "TreeSpec",
    "_dict_flatten_with_keys",
    "register_pytree_node",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_only",
    "tree_unflatten",
]

TreeSpec = Structure


def tree_flatten(tree: object) -> tuple[list[object], Structure]:
    """Return the leaves and the structure of a tree."""
    return flatten_tree(tree)


def tree_leaves(tree: object) -> list[object]:
    """Return the leaves of a tree."""
    return flatten_tree(tree)[0]


def tree_unflatten(leaves: Iterable[object], treespec: Structure) -> object:
    """Return the tree of a structure and leaves."""
    return unflatten_tree(treespec, list(leaves))


def tree_map(func: Callable[[object], object], tree: object) -> object:
    """Return the tree with a function applied to each leaf."""
    return map_tree(func, tree)


def tree_map_only(kind: type | tuple[type, ...], func: Callable[[object], object], tree: object) -> object:
    """Return the tree with a function applied to the leaves of a type."""
    return map_tree(lambda leaf: func(leaf) if isinstance(leaf, kind) else leaf, tree)


def register_pytree_node(cls: type, *args: object, **options: object) -> None:
    """Accept a class; its objects stay leaves, and an event says so."""
    say_passed("torch.utils._pytree.register_pytree_node", "objects of the class stay leaves")


def _dict_flatten_with_keys(d: dict[object, object]) -> tuple[list[tuple[object, object]], list[object]]:
    """Return the pairs of a dict, and its keys; what `register_pytree_node` takes."""
    return list(d.items()), list(d)
