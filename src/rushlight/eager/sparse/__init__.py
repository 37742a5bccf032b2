"""Sparse tensors: their places and values, how they are made, and what operators do with them."""

from rushlight.eager.sparse import rules, writes

__all__ = ["rules", "writes"]
