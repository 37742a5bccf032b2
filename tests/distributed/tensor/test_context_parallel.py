"""Attention over sequences of which each rank holds pieces: results and gradients are those of whole sequences."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed.tensor import init_device_mesh
from rushlight.distributed.tensor.experimental import context_parallel, context_parallel_unshard, ring_attention
from rushlight.nn.functional import scaled_dot_product_attention
from rushlight.support.errors import DistError, RushlightError


def whole_attention(arrays, **options):
    leaves = [array.clone().requires_grad_() for array in arrays]
    out = scaled_dot_product_attention(*leaves, **options)
    (out * rl.arange(out.numel(), dtype=rl.float64).reshape(out.shape).cos()).sum().backward()
    return [out.detach(), *[leaf.grad for leaf in leaves]]


@pytest.mark.generated
@pytest.mark.row("8.7")
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("ranks", "is_causal", "heads"), [(1, True, 4), (2, True, 4), (4, True, 2), (3, False, 4)])
def test_ring_attention_and_its_gradients_are_those_of_the_whole_sequence(ranks, is_causal, heads, compiled):
    rl.manual_seed(0)
    length = 4 * ranks
    options = {"is_causal": is_causal, "enable_gqa": heads != 4}
    arrays = [rl.randn(2, count, length, 3, dtype=rl.float64) for count in (4, heads, heads)]
    wanted = whole_attention(arrays, **options)

    def run():
        mesh = init_device_mesh("cpu", (ranks,))
        given = [array.clone() for array in arrays]
        weights = rl.arange(arrays[0].numel(), dtype=rl.float64).reshape(arrays[0].shape).cos()

        def attend(q, k, v):
            return scaled_dot_product_attention(q, k, v, **options)

        def ring(q, k, v):
            return ring_attention(q, k, v, mesh.get_group(), **options)

        with context_parallel(mesh, buffers=[*given, weights], buffer_seq_dims=[2] * 4):
            leaves = [one.detach().clone().requires_grad_() for one in given]
            own = weights.clone()
            out = None if compiled else attend(*leaves)
        if out is None:
            out = rl.compile(ring, fullgraph=True)(*leaves)
        (out * own).sum().backward()
        assert given[0].shape == arrays[0].shape
        found = [out.detach(), *[leaf.grad for leaf in leaves]]
        return [one.numpy() for one in context_parallel_unshard(mesh, found, [2] * 4)]

    for found in dist.spawn(run, ranks):
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other.numpy(), rtol=1e-9, atol=1e-12)


def test_what_cannot_be_dealt_out_or_attended_is_an_error():
    def run():
        mesh = init_device_mesh("cpu", (2,))
        uneven = context_parallel(mesh, buffers=[rl.ones(1, 6)], buffer_seq_dims=[1])
        with pytest.raises(DistError, match="6 places of dim 1 are not 4 equal pieces") as caught, uneven:
            pass
        assert caught.value.code == "W024"
        x = rl.ones(1, 1, 8, 2)
        kept = rl.arange(8.0)
        parts = context_parallel(mesh, buffers=[x, kept], buffer_seq_dims=[2, 0], no_restore_buffers={kept})
        with parts, pytest.raises(RushlightError, match="no mask but is_causal"):
            scaled_dot_product_attention(x, x, x, rl.ones(4, 8))
        return tuple(x.shape), kept.tolist()

    assert dist.spawn(run, 2) == [((1, 1, 8, 2), [0.0, 1.0, 6.0, 7.0]), ((1, 1, 8, 2), [2.0, 3.0, 4.0, 5.0])]
