"""Batch norms whose statistics are those of all ranks."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.nn import SyncBatchNorm


def _input(shape: tuple[int, ...]) -> rl.Tensor:
    count = 7
    x = rl.arange(count * 3 * 4, dtype=rl.float64).view(count, 3, 4).sin() * 3 + 1
    return x if len(shape) == 3 else x[..., 0].contiguous()


def _norm(kind, momentum: float | None):
    norm = kind(3, momentum=momentum).double()
    with rl.no_grad():
        norm.weight.copy_(rl.tensor([0.5, 2.0, -1.0]))
        norm.bias.copy_(rl.tensor([0.1, 0.2, 0.3]))
    return norm


@pytest.mark.parametrize("momentum", [0.1, None])
@pytest.mark.parametrize("shape", [(0, 0), (0, 0, 0)])
@pytest.mark.parametrize("cut", [2, 1, 7])
def test_parts_of_a_batch_are_normalised_as_the_whole(cut: int, shape, momentum) -> None:
    x = _input(shape)

    def run():
        norm = _norm(SyncBatchNorm, momentum)
        part = (x[:cut] if dist.get_rank() == 0 else x[cut:]).clone().requires_grad_()
        for _ in range(2):
            out = norm(part)
        out.square().sin().sum().backward()
        sums = [norm.weight.grad.clone(), norm.bias.grad.clone()]
        for one in sums:
            dist.all_reduce(one)
        norm.eval()
        return out, part.grad, sums, norm.running_mean, norm.running_var, norm(part)

    plain = _norm(rl.nn.BatchNorm1d, momentum)
    whole = x.clone().requires_grad_()
    for _ in range(2):
        wanted = plain(whole)
    wanted.square().sin().sum().backward()
    parts = dist.spawn(run, 2)
    plain.eval()

    def close(found, expected):
        rl.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)

    close(rl.cat([one[0] for one in parts]), wanted)
    close(rl.cat([one[1] for one in parts]), whole.grad)
    close(rl.cat([one[5] for one in parts]), plain(whole))
    for _, _, sums, mean, variance, _ in parts:
        close(sums[0], plain.weight.grad)
        close(sums[1], plain.bias.grad)
        close(mean, plain.running_mean)
        close(variance, plain.running_var)


def test_it_is_a_batch_norm_without_a_group() -> None:
    model = SyncBatchNorm.convert_sync_batchnorm(rl.nn.Sequential(rl.nn.Linear(3, 3), rl.nn.BatchNorm1d(3)))
    assert isinstance(model[1], SyncBatchNorm)
    x = _input((0, 0)).float()
    rl.testing.assert_close(model(x), rl.nn.BatchNorm1d(3)(model[0](x)))
