"""The demo's model on a mesh of three axes: data parallelism, stages of a pipeline, and tensor parallelism in each."""

import rushlight as rl
from rushlight import distributed as dist
from rushlight.demo.model import GPT, VOCABULARY
from rushlight.distributed.device_mesh import init_device_mesh
from rushlight.distributed.pipelining import PipelineStage, Schedule1F1B
from rushlight.distributed.tensor import DTensor
from rushlight.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

PLAN = {
    "query_key_value": ColwiseParallel(),
    "project": RowwiseParallel(),
    "widen": ColwiseParallel(),
    "narrow": RowwiseParallel(),
}


class Part(rl.nn.Module):
    """Some blocks, with the embedding before the first and the head after the last."""

    def __init__(self, model: GPT, stage: int, stages: int) -> None:
        super().__init__()
        count = len(model.blocks) // stages
        self.blocks = rl.nn.ModuleList(model.blocks[stage * count : (stage + 1) * count])
        self.before = rl.nn.ModuleList([model.token, model.position] if stage == 0 else [])
        width = model.norm.weight.shape[0]
        self.after = rl.nn.ModuleList([model.norm, rl.nn.Linear(width, VOCABULARY)] if stage == stages - 1 else [])

    def forward(self, x):
        if self.before:
            token, position = self.before
            x = token(x) + position.weight[: x.shape[1]]
        for module in (*self.blocks, *self.after):
            x = module(x)
        return x


def loss(out, target):
    return rl.nn.functional.cross_entropy(out.reshape(-1, VOCABULARY), target.reshape(-1))


def train(shape=(64, 8, 8), width=64, heads=8, layers=8, steps=3, batch=8, length=64):
    rl.manual_seed(0)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "pp", "tp"))
    stage, stages = mesh.get_local_rank("pp"), shape[1]
    part = Part(GPT(layers, heads, width, length), stage, stages)
    for block in part.blocks:
        parallelize_module(block, mesh["tp"], PLAN)
    optimizer = rl.optim.AdamW(part.parameters(), lr=1e-3)
    hidden = rl.zeros(batch // 4, length, width)
    lies = PipelineStage(part, stage, stages, group=mesh.get_group("pp"), input_args=hidden, output_args=hidden)
    schedule = Schedule1F1B(lies, 4, loss_fn=loss)
    tokens = rl.zeros(batch, length, dtype=rl.int64)
    for _ in range(steps):
        optimizer.zero_grad()
        schedule.step(*((tokens,) if stage == 0 else ()), target=tokens)
        for parameter in part.parameters():
            gradient = parameter.grad.to_local() if isinstance(parameter.grad, DTensor) else parameter.grad
            dist.all_reduce(gradient, dist.ReduceOp.AVG, group=mesh.get_group("dp"))
        optimizer.step()
        dist.mark()
