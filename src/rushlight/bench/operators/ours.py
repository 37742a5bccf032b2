"""What Rushlight says of itself beside results: what its tuner chose, and how idle memory is given back."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight import tune
from rushlight.runtime import allocator


class Ours:
    """Rushlight, as `serving.Inside` asks it."""

    def configurations(self) -> Sequence[str]:
        """What the tuner has recorded for this machine."""
        return [f"{record.product}: {record.tile}" for record in tune.shared_records().all()]

    def release(self) -> None:
        """Gives idle memory back to the system."""
        allocator.CPU.empty_cache()
