"""Writes `peer/`, a checkpoint that two ranks of PyTorch wrote: `python tests/distributed/checkpoint/freeze_peer.py`.

Needs torch 2.13.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import tempfile

import torch
import torch.distributed as dist
from torch.distributed import checkpoint
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

FOLDER = pathlib.Path(__file__).parent / "peer"


def _write(rank: int, store: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    state = {
        "rows": distribute_tensor(torch.arange(15.0).view(5, 3), mesh, [Shard(0)]),
        "columns": distribute_tensor(torch.arange(6, dtype=torch.bfloat16).view(2, 3), mesh, [Shard(1)]),
        "plain": {"step": torch.tensor(7.0), "betas": (0.9, 0.95)},
        "epoch": 3,
    }
    checkpoint.save(state, checkpoint_id=FOLDER)
    dist.destroy_process_group()


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_write, (os.path.join(folder, "store"),), nprocs=2)
