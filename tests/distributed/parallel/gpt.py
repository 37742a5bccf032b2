"""The demo's GPT in training, on one process and under each parallelism: the losses of every step.

As a script it is one rank of a job: `gpt.py RESULTS KIND DTYPE STEPS [CHECKPOINT [STEP AT WHICH RANK 1 IS KILLED]]`.
`gpt.py compare DTYPE STEPS` prints for every kind how far its losses are from those of one process.
"""

import json
import os
import signal
import sys
from pathlib import Path

import numpy as np

import rushlight as rl
from rushlight import distributed as dist
from rushlight.demo.model import GPT, VOCABULARY, loss_of
from rushlight.distributed import checkpoint
from rushlight.distributed.device_mesh import init_device_mesh
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.pipelining import PipelineStage, Schedule1F1B
from rushlight.distributed.tensor import DTensor
from rushlight.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from rushlight.nn.parallel import DistributedDataParallel

LAYERS, HEADS, WIDTH, CONTEXT, BATCH = 2, 4, 32, 16, 8
PLAN = {
    "query_key_value": ColwiseParallel(),
    "project": RowwiseParallel(),
    "widen": ColwiseParallel(),
    "narrow": RowwiseParallel(),
}


def windows(step: int) -> rl.Tensor:
    """A batch that can be learned: bytes that rise by one."""
    starts = np.random.default_rng(step).integers(0, 60, (BATCH, 1))
    return rl.from_numpy((starts + np.arange(CONTEXT + 1)) % 64)


def model_of(dtype: str) -> GPT:
    rl.manual_seed(0)
    return GPT(LAYERS, HEADS, WIDTH, CONTEXT).to(getattr(rl, dtype))


def optimizer_of(model: rl.nn.Module) -> rl.optim.Optimizer:
    return rl.optim.AdamW(model.parameters(), lr=1e-2)


def alone(dtype: str, steps: int) -> list[float]:
    model = model_of(dtype)
    optimizer, losses = optimizer_of(model), []
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, windows(step))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def mean(loss: rl.Tensor, group: object = None) -> float:
    loss = loss.detach()
    dist.all_reduce(loss, dist.ReduceOp.AVG, group=group)
    return loss.item()


def on_parts(dtype: str, steps: int, wrap, folder: str = "", killed_at: int = -1) -> list[float]:
    """Data parallelism: each rank takes a part of a batch. With a folder, it goes on from there, and saves there."""
    model = model_of(dtype)
    call = wrap(model)
    optimizer, losses, first = optimizer_of(model), [], 0
    if folder and os.path.exists(folder):
        state = {"model": model, "optimizer": optimizer, "step": 0, "losses": []}
        for parameter in model.parameters():  # so that the optimizer has a state to load into
            parameter.grad = rl.zeros_like(parameter)
        optimizer.step()
        optimizer.zero_grad()
        checkpoint.load(state, folder)
        first, losses = state["step"], list(state["losses"])
    for step in range(first, steps):
        optimizer.zero_grad()
        loss = loss_of(call, windows(step).chunk(dist.get_world_size())[dist.get_rank()])
        loss.backward()
        optimizer.step()
        losses.append(mean(loss))
        if folder and (step + 1) % 5 == 0:
            checkpoint.save({"model": model, "optimizer": optimizer, "step": step + 1, "losses": losses}, folder)
        if step == killed_at and dist.get_rank() == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
    return losses


def ddp(dtype: str, steps: int, *more) -> list[float]:
    return on_parts(dtype, steps, DistributedDataParallel, *more)


def fsdp(dtype: str, steps: int, *more) -> list[float]:
    def wrap(model):
        for block in model.blocks:
            fully_shard(block)
        return fully_shard(model)

    return on_parts(dtype, steps, wrap, *more)


def by_heads(linear: rl.nn.Linear, parts: int) -> None:
    """Order the rows of queries, keys and values by the ranks that have their heads."""
    with rl.no_grad():
        for parameter in linear.parameters():
            rows = parameter.view(3, parts, -1, *parameter.shape[1:])
            parameter.copy_(rows.transpose(0, 1).reshape(parameter.shape).clone())


def average(parameters, group) -> None:
    for parameter in parameters:
        gradient = parameter.grad.to_local() if isinstance(parameter.grad, DTensor) else parameter.grad
        dist.all_reduce(gradient, dist.ReduceOp.AVG, group=group)


def tp(dtype: str, steps: int) -> list[float]:
    """Tensor parallelism of two ranks, and data parallelism of the pairs."""
    mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("dp", "tp"))
    model = model_of(dtype)
    for block in model.blocks:
        by_heads(block.query_key_value, 2)
        parallelize_module(block, mesh["tp"], PLAN)
    optimizer, losses, group = optimizer_of(model), [], mesh.get_group("dp")
    for step in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model, windows(step).chunk(mesh.size("dp"))[mesh.get_local_rank("dp")])
        loss.backward()
        average(model.parameters(), group)
        optimizer.step()
        losses.append(mean(loss, group))
    return losses


class Part(rl.nn.Module):
    """One of two stages. The embedding of bytes is in both: it is the last layer's weight as well."""

    def __init__(self, model: GPT, stage: int) -> None:
        super().__init__()
        half = LAYERS // 2
        self.token, self.stage = model.token, stage
        self.position = model.position if stage == 0 else None
        self.norm = model.norm if stage == 1 else None
        self.blocks = rl.nn.ModuleList(model.blocks[:half] if stage == 0 else model.blocks[half:])

    def forward(self, x):
        if self.position is not None:
            x = self.token(x) + self.position.weight[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return x if self.norm is None else rl.nn.functional.linear(self.norm(x), self.token.weight)


def pp(dtype: str, steps: int) -> list[float]:
    """A pipeline of two stages, and data parallelism of the pairs."""
    mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("dp", "pp"))
    stage, group = mesh.get_local_rank("pp"), mesh.get_group("pp")
    part = Part(model_of(dtype), stage)
    schedule = Schedule1F1B(
        PipelineStage(part, stage, 2, group=group),
        n_microbatches=2,
        loss_fn=lambda out, target: rl.nn.functional.cross_entropy(out.reshape(-1, VOCABULARY), target.reshape(-1)),
    )
    optimizer, losses = optimizer_of(part), []
    for step in range(steps):
        optimizer.zero_grad()
        batch = windows(step).chunk(mesh.size("dp"))[mesh.get_local_rank("dp")]
        found: list[rl.Tensor] = []
        schedule.step(*((batch[:, :-1],) if stage == 0 else ()), target=batch[:, 1:], losses=found)
        dist.all_reduce(part.token.weight.grad, group=group)
        average(part.parameters(), mesh.get_group("dp"))
        optimizer.step()
        loss = sum(found) / 2 if stage else rl.zeros((), dtype=getattr(rl, dtype))
        dist.all_reduce(loss, group=group)
        losses.append(mean(loss, mesh.get_group("dp")))
    return losses


KINDS = {"ddp": ddp, "fsdp": fsdp, "tp": tp, "pp": pp}
"""Each gives the losses of so many steps in a dtype."""


def main(results: str, kind: str, dtype: str, steps: str, folder: str = "", killed_at: str = "-1") -> None:
    dist.init_process_group()
    more = (folder, int(killed_at)) if folder else ()
    losses = KINDS[kind](dtype, int(steps), *more)
    if dist.get_rank() == 0:
        Path(results).write_text(json.dumps(losses))
    dist.destroy_process_group()


def compare(dtype: str, steps: str) -> None:
    """Print the largest relative difference between the losses under each parallelism and those of one process."""
    dist.init_process_group()
    wanted = np.array(alone(dtype, int(steps)))
    for kind, train in KINDS.items():
        losses = np.array(train(dtype, int(steps)))
        if dist.get_rank() == 0:
            print(f"{kind} {float((abs(losses - wanted) / wanted).max()):.2g}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    compare(*sys.argv[2:]) if sys.argv[1] == "compare" else main(*sys.argv[1:])
