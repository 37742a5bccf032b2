"""What torchvision's library says of how it was built."""

__all__ = ["_cuda_version"]


def _cuda_version() -> int:
    """Return -1: there is no CUDA."""
    return -1
