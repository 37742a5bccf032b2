"""`torch.utils._pytree` beyond `rushlight.utils._pytree`: names that only packages ask for."""

from __future__ import annotations

from rushlight.utils._pytree import _get_node_type, _register_pytree_node

__all__ = ["_dict_flatten_with_keys", "_get_node_type", "_register_pytree_node"]


def _dict_flatten_with_keys(d: dict[object, object]) -> tuple[list[tuple[object, object]], list[object]]:
    """Return the pairs of a dict, and its keys; what `register_pytree_node` takes."""
    return list(d.items()), list(d)
