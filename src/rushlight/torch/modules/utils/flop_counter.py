"""`torch.utils.flop_counter`: a counter that is made and read, and that counts nothing."""

from __future__ import annotations

from rushlight.torch.passing import refuse

__all__ = ["FlopCounterMode"]


class FlopCounterMode:
    """A counter of operations that has counted none: error A006 where it should begin to count."""

    def __init__(
        self, mods: object = None, depth: int = 2, display: bool = True, custom_mapping: object = None
    ) -> None:
        self.depth, self.display = depth, display

    def get_total_flops(self) -> int:
        """Return 0."""
        return 0

    def get_flop_counts(self) -> dict[str, dict[object, int]]:
        """Return no counts."""
        return {}

    def __enter__(self) -> FlopCounterMode:
        refuse("torch.utils.flop_counter.FlopCounterMode", "operations are not counted")

    def __exit__(self, *error: object) -> None:
        """Do nothing."""
