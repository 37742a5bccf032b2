"""Codes of kernels in the tile language."""

from rushlight.support.errors.classes import ArgumentError, CompileError, ShapeError
from rushlight.support.errors.registry import register_code

register_code(
    "L001",
    ShapeError,
    "A tile does not lie in what it indexes",
    "A tile selects the places of its range from a dim. It has to lie in the dim, so that no block of it can be read "
    "or written outside of the tensor.",
    "loop over the sizes of the tensor that the tile indexes",
)
register_code(
    "L002",
    CompileError,
    "A kernel needs what is not in it",
    "A kernel is one native call on its arguments. Tensors from outside, random numbers, and what the host computes, "
    "such as an order of elements, are passed in.",
    "pass it as an argument",
)
register_code(
    "L003",
    ArgumentError,
    "A loop over tiles is malformed",
    "A range is a size, a pair of sizes or a tile; a block is a positive integer, None, or what "
    "`register_block_size` gives.",
)
register_code(
    "L004",
    ArgumentError,
    "A kernel is called with what it cannot take",
    "A kernel takes tensors, and constants that can be hashed, such as numbers, texts and functions.",
)
