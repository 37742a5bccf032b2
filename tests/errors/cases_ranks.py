"""Causes of the errors between ranks."""

import sys
from types import SimpleNamespace

import pytest

import rushlight as rl
from errorcases import triggers
from rushlight import distributed as dist
from rushlight.distributed.engine.board import Board, board_bytes
from rushlight.distributed.engine.mpi import Mpi, Process
from rushlight.distributed.engine.progress import Progress
from rushlight.distributed.launch import launch
from rushlight.distributed.pipelining import schedules


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


@triggers("W007")
def a_rank_does_not_come():
    """A library of MPI in which the other rank never comes."""
    silent = SimpleNamespace(Test=lambda status: False)
    process = object.__new__(Process)
    process.library = SimpleNamespace(Status=lambda: None, Exception=OSError)
    process.progress = Progress()
    process.rank, process.size, process.spins, process.places = 0, 2, 1, {0: 0, 1: 1}
    process.board = Board(bytearray(board_bytes(2)), 2, 0)
    engine = Mpi(process, SimpleNamespace(rank=0, Ibarrier=lambda: silent), (0, 1), "default")
    engine.barrier().wait(timeout=0.01)


@triggers("W008")
def there_is_no_launcher(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", "/nowhere")
    launch(["true"], 2)


@triggers("W040")
def a_schedule_backwards():
    schedules.check([list(reversed(row)) for row in schedules.gpipe(2, 2)], 2)
