"""Tier 5, bucketed gradients: gradients that are views of one memory, as data parallelism sends them."""

from __future__ import annotations

import rushlight as rl


def _model() -> rl.nn.Module:
    rl.manual_seed(0)
    return rl.nn.Sequential(rl.nn.Linear(4, 6), rl.nn.ReLU(), rl.nn.Linear(6, 2))


def _stepped(place: str, bucketed: bool) -> list[rl.Tensor]:
    model = _model().to(place)
    parameters = list(model.parameters())
    optimizer = rl.optim.SGD(parameters, lr=0.1, momentum=0.9)
    bucket = rl.zeros(sum([one.numel() for one in parameters]), device=place)
    for step in range(3):
        bucket.zero_()
        start = 0
        for one in parameters:
            one.grad = bucket[start : start + one.numel()].view(one.shape) if bucketed else None
            start += one.numel()
        for part in range(2):  # two replicas, one after the other
            x = rl.arange(8.0, device=place).view(2, 4) * (step + part + 1) / 8
            model(x).square().sum().backward()
        if bucketed:
            assert all(one.grad.untyped_storage() == bucket.untyped_storage() for one in parameters)
            bucket.div_(2)  # the mean, of all at once
        else:
            for one in parameters:
                one.grad.div_(2)
        optimizer.step()
    return [one.detach().cpu() for one in parameters]


def test_gradients_that_are_views_of_a_bucket_are_those_of_the_cpu(device: str, tolerance: float) -> None:
    """They are accumulated where they are, and the mean of all is taken at once."""
    for one, other in zip(_stepped(device, bucketed=True), _stepped("cpu", bucketed=False), strict=True):
        rl.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


def test_a_bucket_is_filled_from_gradients_and_copied_back(device: str) -> None:
    """By one concatenation, and by views of it."""
    parts = [rl.full((3, 2), 1.0, device=device), rl.full((4,), 2.0, device=device), rl.tensor(3.0).to(device)]
    bucket = rl.cat([part.reshape(-1) for part in parts])
    bucket.mul_(10)
    start = 0
    for part in parts:
        part.copy_(bucket[start : start + part.numel()].view(part.shape))
        start += part.numel()
    assert [part.reshape(-1)[0].item() for part in parts] == [10, 20, 30]
