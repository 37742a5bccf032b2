"""Tensor parallelism along one axis of a mesh and `fully_shard` along others train as one process does."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed import checkpoint
from rushlight.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_state_dict
from rushlight.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from rushlight.distributed.tensor import DTensor, Replicate, Shard, init_device_mesh
from rushlight.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

PLAN = {
    "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "block.norm": SequenceParallel(),
    "block.up": ColwiseParallel(input_layouts=Shard(1)),
    "block.down": RowwiseParallel(output_layouts=Shard(1)),
    "out": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
}


class Block(rl.nn.Module):
    """Sizes that the ranks do not divide evenly: ten columns on two and two ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = rl.nn.LayerNorm(6)
        self.up = rl.nn.Linear(6, 10)
        self.down = rl.nn.Linear(10, 6)

    def forward(self, x):
        return x + self.down(self.up(self.norm(x)).relu())


class Net(rl.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = rl.nn.Embedding(7, 6)
        self.block = Block()
        self.out = rl.nn.Linear(6, 3)
        self.scale = rl.nn.Linear(3, 3)  # of which no plan speaks: each row of ranks has all of it

    def forward(self, x):
        return self.scale(self.out(self.block(self.embed(x))))


def _net() -> Net:
    rl.manual_seed(0)
    return Net().double()


def _batch(step: int) -> rl.Tensor:
    return rl.arange(32).view(8, 4) * (step + 3) % 7


def _divided(mesh, **options) -> Net:
    model = parallelize_module(_net(), mesh["tp"], PLAN)
    data = mesh[tuple(name for name in mesh.mesh_dim_names if name != "tp")]
    fully_shard(model.block, mesh=data, **options)
    return fully_shard(model, mesh=data, **options)


def _step(model, optimizer, x) -> tuple[float, float]:
    """One step with clipped gradients: the loss and the norm."""
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    norm = rl.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    return loss.item(), norm.item()


def _alone(steps: int) -> tuple[list[float], list[list[float]]]:
    model = _net()
    optimizer = rl.optim.AdamW(model.parameters(), lr=0.05)
    norms = [_step(model, optimizer, _batch(step))[1] for step in range(steps)]
    return norms, [one.tolist() for one in model.parameters()]


def _close(found, wanted) -> None:
    assert found[0] == pytest.approx(wanted[0], rel=1e-10)
    for one, other in zip(found[1], wanted[1], strict=True):
        rl.testing.assert_close(rl.tensor(one), rl.tensor(other), rtol=1e-10, atol=1e-10)


def _part(mesh, step: int) -> rl.Tensor:
    ranks = mesh.size() // mesh["tp"].size()
    return _batch(step).chunk(ranks)[dist.get_rank() // mesh["tp"].size()]


@pytest.mark.generated
@pytest.mark.parametrize("reshard", [True, False])
@pytest.mark.parametrize("shape", [(2, 2), (1, 2), (2, 1), (3, 2), (2, 2, 2)])
def test_steps_are_those_of_one_process(shape: tuple[int, ...], reshard: bool) -> None:
    names = ("copies", "parts", "tp")[-len(shape) :]

    def train():
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=names)
        model = _divided(mesh, reshard_after_forward=reshard)
        optimizer = rl.optim.AdamW(model.parameters(), lr=0.05)
        norms = [_step(model, optimizer, _part(mesh, step) if shape[0] != 3 else _batch(step))[1] for step in range(2)]
        up, down = model.block.up.weight, model.block.down.weight
        assert up.placements[-2:] == (Shard(0), Shard(0)) and down.placements[-2:] == (Shard(0), Shard(1))
        assert model.scale.weight.placements == up.placements[:-1]
        return norms, [one.full_tensor().tolist() for one in model.parameters()]

    world = rl.tensor(shape).prod().item()
    wanted = _alone(2)
    for found in dist.spawn(train, world):
        _close(found, wanted)


def test_what_tensor_parallelism_divides_is_gathered_as_a_part_and_freed() -> None:
    def train():
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        model = _divided(mesh)
        unit = model.block._fsdp_unit
        sizes = []
        model.block.up.register_forward_hook(lambda *_: sizes.append([one.numel() for one in map(held, unit.whole)]))
        loss = model(_part(mesh, 0)).sum()
        between = [held(one).untyped_storage().nbytes() for one in unit.whole]
        loss.backward()
        after = [held(one).untyped_storage().nbytes() for one in unit.whole]
        return sizes[0], max(between + after)

    def held(one):
        return one._local_tensor if isinstance(one, DTensor) else one

    for sizes, freed in dist.spawn(train, 4):
        assert sizes == [6, 6, 30, 5, 30, 6] and freed <= 64


def test_a_checkpoint_of_two_axes_goes_on_with_others(tmp_path) -> None:
    def save():
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        model = _divided(mesh)
        optimizer = rl.optim.AdamW(model.parameters(), lr=0.05)
        for step in range(2):
            _step(model, optimizer, _part(mesh, step))
        state, moments = get_state_dict(model, optimizer)
        checkpoint.save({"model": state, "optimizer": moments}, checkpoint_id=tmp_path)
        whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
        return {name: value.tolist() for name, value in whole.items()}

    def load(shape):
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp"))
        model = _divided(mesh)
        optimizer = rl.optim.AdamW(model.parameters(), lr=0.05)
        checkpoint.state_dict._init_optim_state(optimizer)
        state, moments = get_state_dict(model, optimizer)
        checkpoint.load({"model": state, "optimizer": moments}, checkpoint_id=tmp_path)
        checkpoint.state_dict.set_state_dict(model, optimizer, model_state_dict=state, optim_state_dict=moments)
        norm = _step(model, optimizer, _part(mesh, 2))[1]
        return [norm], [one.full_tensor().tolist() for one in model.parameters()]

    norms, wanted = _alone(3)
    saved = dist.spawn(save, 4)[0]
    after_two = _alone(2)[1]
    for found, other in zip(saved.values(), after_two, strict=True):
        rl.testing.assert_close(rl.tensor(found), rl.tensor(other), rtol=1e-10, atol=1e-10)
    for shape in ((1, 2), (4, 1), (2, 2)):
        for found in dist.spawn(load, shape[0] * shape[1], args=(shape,)):
            _close(found, (norms[2:], wanted))


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_whole_states_are_divided_as_the_model_is(device: str) -> None:
    def load():
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        with rl.device(device):
            model = _divided(mesh)
        state = {name: value * 2 for name, value in _net().state_dict().items()}
        checkpoint.state_dict.set_model_state_dict(model, state, options=StateDictOptions(full_state_dict=True))
        return model(_batch(0)).tolist()

    model = _net()
    with rl.no_grad():
        for one in model.parameters():
            one.mul_(2)
    for found in dist.spawn(load, 4):
        rl.testing.assert_close(rl.tensor(found), rl.tensor(model(_batch(0)).tolist()), rtol=1e-12, atol=1e-12)


def test_gradients_are_added_up_and_parameters_gathered_in_a_narrow_dtype() -> None:
    def train(policy):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        model = _divided(mesh, mp_policy=policy)
        x = _part(mesh, 0)
        model.set_requires_gradient_sync(False)
        model(x[:2]).sum().backward()
        model.set_requires_gradient_sync(True)
        model(x[2:]).sum().backward()
        assert all(one.grad.dtype is rl.float64 for one in model.parameters())
        return [one.grad.full_tensor().tolist() for one in model.parameters()]

    model = _net()
    model(_batch(0)).sum().backward()
    wanted = [(one.grad / 2).tolist() for one in model.parameters()]
    narrow = MixedPrecisionPolicy(param_dtype=rl.float32, reduce_dtype=rl.float64)
    for policy, tolerance in ((None, 1e-12), (narrow, 1e-4)):
        for found in dist.spawn(train, 4, args=(policy,)):
            for one, other in zip(found, wanted, strict=True):
                rl.testing.assert_close(rl.tensor(one), rl.tensor(other), rtol=tolerance, atol=tolerance)


def test_a_compiled_model_of_two_axes() -> None:
    def train():
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        model = _divided(mesh)
        optimizer = rl.optim.AdamW(model.parameters(), lr=0.05)
        call = rl.compile(model)
        norms = []
        for step in range(2):
            optimizer.zero_grad()
            call(_part(mesh, step)).square().mean().backward()
            norms.append(rl.nn.utils.clip_grad_norm_(model.parameters(), 0.1).item())
            optimizer.step()
        return norms, [one.full_tensor().tolist() for one in model.parameters()]

    wanted = _alone(2)
    for found in dist.spawn(train, 4):
        _close(found, wanted)
