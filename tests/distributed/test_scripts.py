"""Programs as users of PyTorch have them, on two processes: `import torch`, and torchrun's variables."""

import importlib.util
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed")

DATA_PARALLEL = """
import os, sys
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

backend = dist.get_default_backend_for_device("cpu")
assert dist.is_backend_available(backend) and dist.get_node_local_rank() == int(os.environ["LOCAL_RANK"])
init_process_group(backend=backend)
rank, snapshot, epochs = int(os.environ["LOCAL_RANK"]), sys.argv[1], int(sys.argv[2])
torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 6), torch.randn(64, 1))
model = torch.nn.Linear(6, 1)
first = 0
if os.path.exists(snapshot):
    kept = torch.load(snapshot, map_location="cpu")
    model.load_state_dict(kept["MODEL"])
    first = kept["EPOCH"]
model = DDP(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(data, batch_size=8, pin_memory=True, shuffle=False, sampler=DistributedSampler(data))
for epoch in range(first, epochs):
    loader.sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
    dist.barrier()
    if rank == 0:
        torch.save({"MODEL": model.module.state_dict(), "EPOCH": epoch + 1}, snapshot)
losses = [torch.zeros(()) for _ in range(dist.get_world_size())]
dist.all_gather(losses, loss.detach())
if rank == 0:
    print("epochs", epochs - first, "loss", sum(losses).item() / 2)
destroy_process_group()
"""

FULLY_SHARDED = """
import os, sys
import torch
import torch.distributed
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions, _init_optim_state, get_model_state_dict, set_model_state_dict,
)
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Shard, distribute_tensor

torch.distributed.init_process_group(backend="gloo", device_id=torch.device("cpu"))
torch.manual_seed(0)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(8, 8) for _ in range(3)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x


with torch.device("meta"):
    model = Net()
for layer in model.layers:
    fully_shard(layer, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32))
fully_shard(model)
assert all(isinstance(layer, FSDPModule) for layer in model.layers)
assert all(one.placements == (Shard(0),) and one.is_meta for one in model.parameters())
model.layers[0].set_modules_to_forward_prefetch([model.layers[1], model.layers[2]])
model.layers[2].set_modules_to_backward_prefetch([model.layers[1]])
model.to_empty(device="cpu")
for layer in model.layers:
    layer.reset_parameters()
model.layers[0].unshard(async_op=True).wait()
assert model.layers[0].weight.dtype == torch.bfloat16
model.layers[0].reshard()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
_init_optim_state(optimizer)
assert len(optimizer.state) == 6 and all(one.grad is None for one in model.parameters())
for step in range(3):
    loss = model(torch.ones(4, 8)).float().sum()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    optimizer.step()
    optimizer.zero_grad()

whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
own = model.state_dict()
state = {name: torch.nn.Parameter(distribute_tensor(value * 2, own[name].device_mesh, own[name].placements))
         for name, value in whole.items()}
model.load_state_dict(state, assign=True)
assert model.layers[0].weight is state["layers.0.weight"]
twice = model.layers[0](torch.ones(1, 8)).float()
options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
set_model_state_dict(model, whole, options=options)
once = model.layers[0](torch.ones(1, 8)).float()
assert torch.allclose(twice, 2 * once, atol=0.05), (twice, once)
if torch.distributed.get_rank() == 0:
    print("trained", loss.item() != 0)
torch.distributed.destroy_process_group()
"""

TENSOR_PARALLEL = """
import os
import torch
import torch.nn as nn
from torch.distributed._tensor.device_mesh import init_device_mesh
from torch.distributed._tensor import Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

mesh = init_device_mesh(device_type="cpu", mesh_shape=(int(os.environ["WORLD_SIZE"]),))
torch.manual_seed(0)
plain = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 5))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 5))
model = parallelize_module(model, mesh, {"0": ColwiseParallel(input_layouts=Shard(0)), "2": RowwiseParallel()})
for one in (plain, model):
    optimizer = torch.optim.AdamW(one.parameters(), lr=0.25, foreach=True)
    for step in range(3):
        torch.manual_seed(step)
        x = torch.rand(20, 10)
        out = one(x if one is plain else x.chunk(mesh.size())[mesh.get_rank()])
        out.sum().backward()
        optimizer.step()
assert torch.allclose(model[0].weight.full_tensor(), plain[0].weight, atol=1e-5)
if mesh.get_rank() == 0:
    print("same", tuple(model[0].weight.to_local().shape))
torch.distributed.destroy_process_group()
"""


SPAWNING = """
import os
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.checkpoint.stateful import Stateful


def worker(rank, world_size, step):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "12355"
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    total = torch.full((2,), float(rank + step))
    dist.all_reduce(total)
    assert isinstance(torch.nn.Linear(1, 1), Stateful)
    assert total.tolist() == [5.0, 5.0] and dist.get_backend() == "gloo"
    if rank == 1 and len(sys.argv) > 1:
        raise ValueError("no data")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(worker, args=(2, 2), nprocs=2, join=True)
    print("joined", mp.current_process().name)
"""


def launched(folder: Path, program: str, *arguments: str) -> str:
    script = folder / "script.py"
    script.write_text(textwrap.dedent(program))
    command = [sys.executable, "-m", "rushlight", "launch", "-n", "2", str(script), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    assert "do not exist here" not in ran.stderr, "names that are missing"
    return ran.stdout.strip()


def test_data_parallelism_goes_on_from_a_snapshot(tmp_path: Path):
    once = launched(tmp_path, DATA_PARALLEL, str(tmp_path / "once.pt"), "3")
    twice = [launched(tmp_path, DATA_PARALLEL, str(tmp_path / "twice.pt"), epochs) for epochs in ("2", "3")]
    assert once.startswith("epochs 3 loss") and twice[1].startswith("epochs 1 loss")
    assert float(once.split()[-1]) == pytest.approx(float(twice[1].split()[-1]), rel=1e-6)


def test_a_model_without_data_is_sharded_filled_trained_and_loaded(tmp_path: Path):
    assert launched(tmp_path, FULLY_SHARDED) == "trained True"


def test_tensor_parallelism_trains_as_one_process(tmp_path: Path):
    assert launched(tmp_path, TENSOR_PARALLEL) == "same (16, 10)"


def test_a_program_that_spawns_its_ranks(tmp_path: Path):
    script = tmp_path / "script.py"
    script.write_text(SPAWNING)
    command = [sys.executable, "-m", "rushlight", "run", str(script)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0 and ran.stdout == "joined MainProcess\n" and not ran.stderr, ran.stderr
    failed = subprocess.run([*command, "fail"], capture_output=True, text=True, timeout=240)
    assert failed.returncode == 1 and "ValueError: no data" in failed.stderr
    assert failed.stderr.rstrip().endswith("raised in rank 1 of 2"), failed.stderr
