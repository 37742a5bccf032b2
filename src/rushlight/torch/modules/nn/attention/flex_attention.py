"""`torch.nn.attention.flex_attention`: names that packages import; a mask as a tensor does the same."""

from __future__ import annotations

from rushlight.torch.passing import refuse

__all__ = [
    "_DEFAULT_SPARSE_BLOCK_SIZE",
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "create_block_mask",
    "create_mask",
    "flex_attention",
]

_DEFAULT_SPARSE_BLOCK_SIZE = 128
_USE = "use scaled_dot_product_attention with a mask"


class BlockMask:
    """A class for `isinstance`: nothing is an instance."""

    def __init__(self, *args: object, **options: object) -> None:
        refuse(f"torch.nn.attention.flex_attention.{type(self).__name__}", _USE)


class AuxOutput(BlockMask):
    """A class for `isinstance`: nothing is an instance."""


class AuxRequest(BlockMask):
    """A class for `isinstance`: nothing is an instance."""


def create_block_mask(*args: object, **options: object) -> BlockMask:
    """Raise A006."""
    refuse("torch.nn.attention.flex_attention.create_block_mask", _USE)


def create_mask(*args: object, **options: object) -> object:
    """Raise A006."""
    refuse("torch.nn.attention.flex_attention.create_mask", _USE)


def flex_attention(*args: object, **options: object) -> object:
    """Raise A006."""
    refuse("torch.nn.attention.flex_attention.flex_attention", _USE)
