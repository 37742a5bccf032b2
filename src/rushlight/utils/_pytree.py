"""Nested lists, tuples and dicts: the names that PyTorch keeps under `torch.utils._pytree`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rushlight.eager.pytree import Structure, flatten_tree, map_tree, unflatten_tree

__all__ = [
    "TreeSpec",
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
