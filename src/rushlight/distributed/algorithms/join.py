"""Training with uneven inputs: PyTorch's `torch.distributed.algorithms.join`."""

from rushlight.nn.parallel.join import Join, Joinable, JoinHook

__all__ = ["Join", "JoinHook", "Joinable"]
