"""PyTorch's `torch.distributed.tensor.experimental`: attention over sequences that are divided among ranks."""

from rushlight.distributed.tensor.experimental.attention import (
    context_parallel,
    context_parallel_unshard,
    ring_attention,
)
from rushlight.distributed.tensor.local_map import local_map
from rushlight.distributed.tensor.report import implicit_replication

__all__ = ["context_parallel", "context_parallel_unshard", "implicit_replication", "local_map", "ring_attention"]
