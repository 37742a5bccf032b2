"""Processes that share tensors: memory, what is sent of it, how long it lives. Facts are PyTorch's."""

import gc
import multiprocessing
import multiprocessing.connection
import os
import pickle
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest

import rushlight as rl
import rushlight.multiprocessing as mp
from rushlight.support.errors import RushlightError

PROGRAM = """
import sys
import torch
import torch.multiprocessing as mp
from torch import nn


def train(rank, model, queue, view):
    torch.manual_seed(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    for _ in range(20):
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), (x.sum(1) > 0).long()).backward()
        optimizer.step()
    view[rank] += rank + 1
    queue.put((rank, torch.full((2,), float(rank))))


def fail(rank):
    raise ValueError(f"no data for {rank}")


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).share_memory()
    assert all(parameter.is_shared() for parameter in model.parameters())
    before = [parameter.detach().clone() for parameter in model.parameters()]
    whole, queue = torch.zeros(2, 2).share_memory_(), mp.Queue()
    processes = [mp.Process(target=train, args=(rank, model, queue, whole[1])) for rank in range(2)]
    for process in processes:
        process.start()
    got = sorted((rank, value.tolist()) for rank, value in (queue.get(timeout=100) for _ in processes))
    for process in processes:
        process.join()
    moved = [not torch.equal(old, new) for old, new in zip(before, model.parameters())]
    x = torch.randn(256, 4)
    right = (model(x).argmax(1) == (x.sum(1) > 0)).float().mean().item()
    print(got, whole.tolist(), all(moved), right > 0.8)
    try:
        mp.spawn(fail, nprocs=1, join=False, start_method=sys.argv[1]).join()
    except mp.ProcessRaisedException as failure:
        print(failure.error_index, "ValueError: no data for 0" in str(failure))
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_train_one_model(tmp_path: Path, method: str):
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    before = set(os.listdir("/dev/shm"))
    command = [sys.executable, "-m", "rushlight", "run", str(script), method]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0 and not ran.stderr, ran.stderr
    received = "[(0, [0.0, 0.0]), (1, [1.0, 1.0])] [[0.0, 0.0], [1.0, 2.0]] True True"
    assert ran.stdout.splitlines() == [received, "0 True"]
    assert not [name for name in set(os.listdir("/dev/shm")) - before if "rushlight" in name]


def test_views_follow_memory_that_is_shared():
    x = rl.arange(6.0).reshape(2, 3)
    part, doubled = x[1], rl.compile(lambda: x[0] * 2)
    assert doubled().tolist() == [0.0, 2.0, 4.0]
    array = x.numpy()
    assert not x.is_shared() and part.share_memory_() is part and x.is_shared()
    address = x.data_ptr()
    x.share_memory_().add_(1)
    assert x.data_ptr() == address and part.tolist() == [4.0, 5.0, 6.0]
    assert doubled().tolist() == [2.0, 4.0, 6.0] and (x[0] * 2).tolist() == [2.0, 4.0, 6.0]
    assert array.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]  # what it was, still in memory


def test_a_compiled_step_goes_on_after_its_model_is_shared():
    def trained(shared: bool) -> list[float]:
        rl.manual_seed(0)
        model = rl.nn.Linear(3, 2)
        optimizer = rl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        @rl.compile
        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            return loss

        losses = []
        for number in range(4):
            losses.append(step(rl.ones(2, 3)).item())
            if shared and number == 1:
                model.share_memory()
        return [*losses, *model.weight.flatten().tolist()]

    assert trained(True) == trained(False)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0), (5, 2)])
@pytest.mark.parametrize("dtype", [rl.float32, rl.int8, rl.bool, rl.bfloat16, rl.complex64])
def test_what_is_sent_is_the_same_memory(shape, dtype):
    x = (rl.rand(shape) * 4).to(dtype)
    storage = ForkingPickler.loads(ForkingPickler.dumps(x.untyped_storage()))
    received = ForkingPickler.loads(ForkingPickler.dumps(x))
    assert received.dtype is dtype and received.shape == x.shape and x.is_shared() and received.is_shared()
    assert received.tolist() == x.tolist() and storage == received.untyped_storage() == x.untyped_storage()


def test_layout_and_class_are_sent():
    whole = rl.arange(12.0).reshape(3, 4)
    parameter = rl.nn.Parameter(rl.ones(2), requires_grad=False)
    view, same, frozen, leaf = ForkingPickler.loads(
        ForkingPickler.dumps((whole.t()[1:], whole, parameter, rl.ones(2, requires_grad=True)))
    )
    assert view.stride() == (1, 4) and view.storage_offset() == 1 and view.tolist() == whole.t()[1:].tolist()
    same[0, 1] = 9.0
    assert view[0, 0] == 9.0 and whole[0, 1] == 9.0
    assert type(frozen) is rl.nn.Parameter and not frozen.requires_grad and leaf.requires_grad and leaf.is_leaf
    typed = ForkingPickler.loads(ForkingPickler.dumps(whole.storage()))
    assert typed.dtype is rl.float32 and typed.data_ptr() == whole.data_ptr()


def test_memory_goes_when_nobody_has_it():
    def mapped() -> int:
        return Path("/proc/self/maps").read_text().count("memfd:rushlight")

    gc.collect()
    before, descriptors = mapped(), len(os.listdir("/proc/self/fd"))
    tensors = [rl.ones(100).share_memory_() for _ in range(5)]
    assert mapped() == before + 5
    del tensors
    gc.collect()
    assert mapped() == before and len(os.listdir("/proc/self/fd")) == descriptors


class Named(rl.Tensor):
    """A subclass of tensors."""


def test_a_shared_tensor_of_a_subclass_is_sent_by_its_memory():
    x = rl.ones(2).as_subclass(Named).share_memory_()
    x.name_of_it = "x"
    received = ForkingPickler.loads(ForkingPickler.dumps(x))
    assert type(received) is Named and received.name_of_it == "x" and received.data_ptr() == x.data_ptr()
    assert pickle.loads(pickle.dumps(x)).data_ptr() != x.data_ptr()


def failure(function, *args, **named):
    with pytest.raises(RushlightError) as error:
        function(*args, **named)
    return error.value.code


def test_what_cannot_be_shared():
    assert failure(rl.zeros(2, device="meta").share_memory_) == "V003"
    assert failure(ForkingPickler.dumps, rl.ones(2, requires_grad=True) * 2) == "G012"
    assert failure(mp.set_sharing_strategy, "fax") == "A002"
    shared = rl.ones(2).share_memory_()
    assert failure(shared.untyped_storage().resize_, 100) == "A002"


def test_strategies_are_names():
    assert mp.get_all_sharing_strategies() == {"file_descriptor", "file_system"}
    assert mp.get_sharing_strategy() == "file_descriptor"
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() == "file_system"
    mp.set_sharing_strategy("file_descriptor")
    assert mp.Queue.__func__ is multiprocessing.Queue.__func__ and mp.connection is multiprocessing.connection


def _square(x):
    return x * x


def test_a_pool_maps_tensors():
    with mp.get_context("fork").Pool(2) as pool:
        assert [one.tolist() for one in pool.map(_square, [rl.arange(3.0), rl.ones(0)])] == [[0.0, 1.0, 4.0], []]


def _exits(index):
    os._exit(3 + index)


def test_processes_that_end_badly_are_named():
    with pytest.raises(mp.ProcessExitedException, match="exit code 3") as error:
        mp.start_processes(_exits, nprocs=1, start_method="fork")
    assert (error.value.error_index, error.value.exit_code) == (0, 3)
    assert failure(mp.start_processes, _exits, nprocs=0) == "A002"
