"""Functions on the parts of divided tensors."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    comm_report,
    distribute_tensor,
    init_device_mesh,
    local_map,
)
from rushlight.support.errors import DistError


def spawn(function, *shape):
    """Runs a function with a mesh on its ranks."""
    return dist.spawn(lambda: function(init_device_mesh("cpu", shape)), int(np.prod(shape)))


@pytest.mark.row("8.7")
def test_attention_over_heads_and_its_gradients_are_those_of_whole_tensors():
    rl.manual_seed(0)
    arrays = [rl.randn(2, 4, 5, 3) for _ in range(3)]
    leaves = [array.clone().requires_grad_() for array in arrays]
    wanted = rl.nn.functional.scaled_dot_product_attention(*leaves, is_causal=True)
    (wanted**2).sum().backward()

    def run(mesh):
        heads = [Shard(1)]

        def attend(q, k, v):
            assert type(q) is rl.Tensor
            return rl.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

        mapped = local_map(attend, heads, (heads, heads, heads), redistribute_inputs=True)
        given = [distribute_tensor(array, mesh, [Shard(0)]).requires_grad_() for array in arrays]
        out = mapped(*given)
        assert isinstance(out, DTensor)
        assert out.placements == (Shard(1),)
        (out**2).sum().backward()
        np.testing.assert_allclose(out.full_tensor().detach().numpy(), wanted.detach().numpy(), rtol=1e-5)
        for one, leaf in zip(given, leaves, strict=True):
            assert one.grad.placements == one.placements
            np.testing.assert_allclose(one.grad.full_tensor().numpy(), leaf.grad.numpy(), rtol=1e-4, atol=1e-5)

    spawn(run, 2)


@pytest.mark.row("8.7")
def test_parts_that_lie_otherwise_or_differ_in_shape_are_errors():
    def run(mesh):
        mapped = local_map(lambda x: x * 2, [Shard(0)], ([Shard(0)],))
        with pytest.raises(DistError, match=r"lies \[S\(1\)\], not \[S\(0\)\]"):
            mapped(distribute_tensor(rl.ones(4, 4), mesh, [Shard(1)]))
        with pytest.raises(DistError, match="different shapes") as caught:
            mapped(distribute_tensor(rl.ones(5, 4), mesh, [Shard(0)]))
        assert caught.value.code == "W024"
        with pytest.raises(DistError, match="is a plain tensor"):
            mapped(rl.ones(4, 4))
        return mapped(distribute_tensor(rl.ones(4, 4), mesh, [Shard(0)])).full_tensor().sum().item()

    assert spawn(run, 2) == [32.0] * 2


@pytest.mark.row("8.8")
def test_another_number_of_inputs_or_results_is_an_error_that_counts():
    def run(mesh):
        x = distribute_tensor(rl.ones(4), mesh, [Shard(0)])
        with pytest.raises(DistError, match="Expecting 2 inputs to local_map function based on placements, but"):
            local_map(lambda x: x, [Shard(0)], ([Shard(0)], [Shard(0)]))(x)
        with pytest.raises(DistError, match="Expecting 2 results to local_map function") as caught:
            local_map(lambda x: x, ([Shard(0)], [Shard(0)]), ([Shard(0)],))(x)
        assert caught.value.code == "W027"

    spawn(run, 2)


@pytest.mark.row("8.7")
def test_results_may_be_partial_and_gradients_lie_as_they_are_said_to():
    def run(mesh):
        x = distribute_tensor(rl.arange(4.0), mesh, [Replicate()]).requires_grad_()

        def share(x):
            return x * (mesh.get_local_rank() + 1), 7

        mapped = local_map(share, ([Partial()], None), ([Replicate()],), ([Partial()],))
        with comm_report() as report:
            total, number = mapped(x)
            total.redistribute(placements=[Replicate()]).sum().backward()
        assert number == 7
        assert x.grad.placements == (Replicate(),)
        return total.full_tensor().tolist(), x.grad.to_local().tolist(), report.counts()

    assert spawn(run, 2)[0] == ([0.0, 3.0, 6.0, 9.0], [3.0] * 4, {"all_reduce": 2})
