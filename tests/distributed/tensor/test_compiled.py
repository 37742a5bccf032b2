"""Divided tensors in compiled functions: a program for each rank, with its collectives."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed.tensor import DTensor, Replicate, Shard, dispatch, distribute_tensor, init_device_mesh


def spawn(function, count):
    """Runs a function with a mesh on its ranks."""
    return dist.spawn(lambda: function(init_device_mesh("cpu", (count,))), count)


def layer(x, w):
    return (x @ w).relu().sum(0)


@pytest.mark.row("8.2")
def test_a_compiled_function_gives_what_it_gives_uncompiled_and_leaves_the_tables_alone():
    def run(mesh):
        rl.manual_seed(0)
        compiled = rl.compile(layer)
        for size in (6, 9):
            x = distribute_tensor(rl.randn(size, 4), mesh, [Shard(0)])
            w = distribute_tensor(rl.randn(4, 5), mesh, [Shard(0)])
            tables = dispatch.cache_sizes()
            dist.barrier()  # ranks that are threads share the tables
            found = compiled(x, w)
            dist.barrier()
            assert dispatch.cache_sizes() == tables
            dist.barrier()
            wanted = layer(x, w)
            assert isinstance(found, DTensor)
            assert found.placements == wanted.placements
            np.testing.assert_array_equal(found.to_local().numpy(), wanted.to_local().numpy())
            np.testing.assert_array_equal(compiled(x, w).to_local().numpy(), wanted.to_local().numpy())

    spawn(run, 2)


@pytest.mark.row("8.2")
def test_compiled_gradients_lie_as_uncompiled_ones():
    def run(mesh):
        rl.manual_seed(0)
        values = rl.randn(6, 4), rl.randn(4, 5)
        found = []
        for function in (layer, rl.compile(layer)):
            leaves = [distribute_tensor(value, mesh, [Shard(0)]).requires_grad_() for value in values]
            out = function(*leaves).redistribute(placements=[Replicate()])
            out.square().sum().backward()
            found.append([leaf.grad for leaf in leaves])
        for plain, compiled in zip(*found, strict=True):
            assert compiled.placements == plain.placements == (Shard(0),)
            np.testing.assert_allclose(compiled.to_local().numpy(), plain.to_local().numpy(), rtol=1e-5, atol=1e-6)

    spawn(run, 2)
