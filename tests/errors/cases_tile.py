"""Errors of kernels in the tile language."""

import rushlight as rl
from errorcases import triggers
from rushlight.tile import kernel, tile

weights = rl.ones(3)


@kernel
def sum_of(x, y):
    out = rl.empty_like(x)
    for i in tile(x.shape[0]):
        out[i] = x[i] + y[i]
    return out


@kernel
def scaled(x):
    return x * weights


@triggers("L001")
def tile_beyond_a_dim():
    sum_of(rl.ones(4), rl.ones(3))


@triggers("L002")
def tensor_from_outside():
    scaled(rl.ones(3))


@triggers("L003")
def malformed_range():
    next(tile("rows"))


@triggers("L004")
def kernel_without_tensors():
    sum_of(3, y=4)
