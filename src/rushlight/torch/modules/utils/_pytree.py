"""`torch.utils._pytree` beyond `rushlight.utils._pytree`: classes that programs register."""

from __future__ import annotations

from rushlight.torch.passing import say_passed

__all__ = ["_dict_flatten_with_keys", "register_pytree_node"]


def register_pytree_node(cls: type, *args: object, **options: object) -> None:
    """Accept a class; its objects stay leaves, and an event says so."""
    say_passed("torch.utils._pytree.register_pytree_node", "objects of the class stay leaves")


def _dict_flatten_with_keys(d: dict[object, object]) -> tuple[list[tuple[object, object]], list[object]]:
    """Return the pairs of a dict, and its keys; what `register_pytree_node` takes."""
    return list(d.items()), list(d)
