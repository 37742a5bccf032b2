"""`torch.utils._pytree` beyond `rushlight.utils._pytree`: names that only packages ask for."""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.utils._pytree import _get_node_type, _register_pytree_node

__all__ = ["_dict_flatten", "_dict_flatten_with_keys", "_dict_unflatten", "_get_node_type", "_register_pytree_node"]


def _dict_flatten(d: dict[object, object]) -> tuple[list[object], list[object]]:
    """Return the values of a dict, and its keys; what `register_pytree_node` takes."""
    return list(d.values()), list(d)


def _dict_unflatten(values: Iterable[object], context: list[object]) -> dict[object, object]:
    """Return the dict of values and keys."""
    return dict(zip(context, values, strict=True))


def _dict_flatten_with_keys(d: dict[object, object]) -> tuple[list[tuple[object, object]], list[object]]:
    """Return the pairs of a dict, and its keys; what `register_pytree_node` takes."""
    return list(d.items()), list(d)
