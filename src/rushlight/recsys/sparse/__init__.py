"""Jagged data: values in segments of any length."""

from rushlight.recsys.sparse.jagged_tensor import JaggedTensor
from rushlight.recsys.sparse.keyed_jagged_tensor import KeyedJaggedTensor
from rushlight.recsys.sparse.keyed_tensor import KeyedTensor

__all__ = ["JaggedTensor", "KeyedJaggedTensor", "KeyedTensor"]
