"""Jagged data: values in segments of any length."""

from rushlight.recsys.sparse.jagged_tensor import JaggedTensor, jt_is_equal
from rushlight.recsys.sparse.keyed_jagged_tensor import (
    ComputeJTDictToKJT,
    ComputeKJTToJTDict,
    KeyedJaggedTensor,
    kjt_is_equal,
)
from rushlight.recsys.sparse.keyed_tensor import KeyedTensor, regroup_kts

__all__ = [
    "ComputeJTDictToKJT",
    "ComputeKJTToJTDict",
    "JaggedTensor",
    "KeyedJaggedTensor",
    "KeyedTensor",
    "jt_is_equal",
    "kjt_is_equal",
    "regroup_kts",
]
