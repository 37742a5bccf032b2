"""Causes of the errors between ranks."""

import rushlight as rl
from errorcases import triggers
from rushlight import distributed as dist


@triggers("W001")
def no_group():
    dist.all_reduce(rl.ones(2))


@triggers("W002")
def ranks_reduce_other_counts():
    dist.spawn(lambda: dist.all_reduce(rl.ones(2 + dist.get_rank())), 2)


@triggers("W003")
def ranks_receive_from_each_other():
    dist.spawn(lambda: dist.recv(rl.ones(2), 1 - dist.get_rank()), 2)


@triggers("W004")
def a_rank_returns_early():
    dist.spawn(lambda: dist.get_rank() or dist.barrier(), 2)


@triggers("W005")
def another_rank_has_failed():
    seen: list[BaseException] = []

    def step():
        if dist.get_rank():
            raise ValueError("no data")
        try:
            dist.barrier()
        except rl.DistError as failure:
            seen.append(failure)

    try:
        dist.spawn(step, 2)
    except ValueError:
        raise seen[0] from None


@triggers("W006")
def a_gradient_never_comes():
    class Net(rl.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.unused = rl.nn.Linear(2, 2), rl.nn.Linear(2, 2)

        def forward(self, x: rl.Tensor) -> rl.Tensor:
            return self.used(x)

    def step():
        model = rl.nn.parallel.DistributedDataParallel(Net())
        for _ in range(2):
            model(rl.ones(1, 2)).sum().backward()

    dist.spawn(step, 2)
