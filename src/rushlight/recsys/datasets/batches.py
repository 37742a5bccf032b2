"""What a model of clicks is trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rushlight import Tensor
from rushlight.recsys.sparse import KeyedJaggedTensor


@dataclass
class Batch:
    """Dense numbers, ids of sparse features, and labels of the same examples."""

    dense_features: Tensor
    sparse_features: KeyedJaggedTensor
    labels: Tensor

    def to(self, device: Any, non_blocking: bool = False) -> Batch:
        """Return the batch on a device."""
        moved = self.sparse_features.to(device, non_blocking)
        dense = self.dense_features.to(device, non_blocking=non_blocking)
        return Batch(dense, moved, self.labels.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Batch:
        """Return the batch in memory that devices read."""
        return Batch(self.dense_features.pin_memory(), self.sparse_features.pin_memory(), self.labels.pin_memory())

    def record_stream(self, stream: object) -> None:
        """Do nothing: memory lives as long as the batch does."""
        del stream
