"""Modules whose parameters are divided among ranks train as those of one process."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed import checkpoint
from rushlight.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from rushlight.distributed.tensor import DTensor, init_device_mesh
from rushlight.distributed.tensor.parallel import RowwiseParallel, parallelize_module


class Net(rl.nn.Module):
    """Sizes that do not divide evenly, and a parameter in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.first = rl.nn.Linear(4, 7)
        self.middle = rl.nn.Sequential(rl.nn.Linear(7, 7), rl.nn.Tanh())
        self.last = rl.nn.Linear(7, 1)
        self.again = rl.nn.Linear(4, 7)
        self.again.weight = self.first.weight

    def forward(self, x):
        return self.last(self.middle(self.first(x).relu()) + self.again(x))


def _net(dtype=rl.float64) -> Net:
    rl.manual_seed(0)
    return Net().to(dtype)


def _batch(step: int, dtype=rl.float64) -> rl.Tensor:
    return (rl.arange(48, dtype=dtype).view(12, 4) * (step + 1)).sin()


def _alone(steps: int, make) -> list[list[float]]:
    model = _net()
    optimizer = make(model.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        model(_batch(step)).square().mean().backward()
        optimizer.step()
    return [one.detach().tolist() for one in model.parameters()]


def _divided(model: Net, **options) -> Net:
    fully_shard(model.middle, **options)
    return fully_shard(model, **options)


def _part(step: int, world: int, dtype=rl.float64) -> rl.Tensor:
    return _batch(step, dtype).chunk(world)[dist.get_rank()]


def _close(one: list, other: list, tolerance: float = 1e-12) -> None:
    for left, right in zip(one, other, strict=True):
        rl.testing.assert_close(rl.tensor(left), rl.tensor(right), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("reshard", [True, False])
@pytest.mark.parametrize("world", [1, 2, 4])
@pytest.mark.parametrize("kind", [rl.optim.SGD, rl.optim.AdamW])
def test_steps_are_those_of_one_process(world: int, reshard: bool, kind) -> None:
    def make(parameters):
        return kind(parameters, lr=0.05)

    def train():
        model = _divided(_net(), reshard_after_forward=reshard)
        optimizer = make(model.parameters())
        for step in range(3):
            optimizer.zero_grad()
            loss = model(_part(step, world)).square().mean()
            assert model._fsdp_unit.is_whole != reshard
            loss.backward()
            assert not model._fsdp_unit.is_whole and not model.middle._fsdp_unit.is_whole
            optimizer.step()
        assert all(isinstance(one, DTensor) for one in model.parameters())
        return [one.full_tensor().tolist() for one in model.parameters()]

    wanted = _alone(3, make)
    for found in dist.spawn(train, world):
        _close(found, wanted)


@pytest.mark.parametrize("how", [lambda model: model, rl.compile])
def test_a_part_that_is_called_twice_and_a_compiled_model(how) -> None:
    class Twice(Net):
        def forward(self, x):
            return self.last(self.middle(self.middle(self.first(x).relu())) + self.again(x))

    def train():
        rl.manual_seed(0)
        model = _divided(Twice().double())
        call = how(model)
        for _ in range(2):
            model.zero_grad()
            call(_part(0, 2)).square().mean().backward()
        return [one.grad.full_tensor().tolist() for one in model.parameters()]

    rl.manual_seed(0)
    model = Twice().double()
    model(_batch(0)).square().mean().backward()
    for found in dist.spawn(train, 2):
        _close(found, [one.grad.tolist() for one in model.parameters()])


def test_two_axes_replicate_and_shard() -> None:
    def train():
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        model = _divided(_net(), mesh=mesh)
        optimizer = rl.optim.SGD(model.parameters(), lr=0.05)
        for step in range(2):
            optimizer.zero_grad()
            model(_part(step, 4)).square().mean().backward()
            optimizer.step()
        return [one.full_tensor().tolist() for one in model.parameters()]

    wanted = _alone(2, lambda parameters: rl.optim.SGD(parameters, lr=0.05))
    for found in dist.spawn(train, 4):
        _close(found, wanted)


def test_whole_parameters_have_memory_only_while_they_are_used() -> None:
    def train():
        model = _divided(_net())
        loss = model(_part(0, 2)).sum()
        between = [one.untyped_storage().nbytes() for one in model._fsdp_unit.whole]
        loss.backward()
        after = [one.untyped_storage().nbytes() for one in model._fsdp_unit.whole]
        return max(between), max(after)

    for between, after in dist.spawn(train, 2):
        assert between <= 64 and after <= 64


def test_gradients_added_up_are_reduced_once() -> None:
    def train():
        model = _divided(_net())
        x = _part(0, 2)
        model.set_requires_gradient_sync(False)
        model(x[:2]).sum().backward()
        assert all(one.grad is None for one in model.parameters())
        model.set_requires_gradient_sync(True)
        model(x[2:]).sum().backward()
        return [one.grad.full_tensor().tolist() for one in model.parameters()]

    model = _net()
    model(_batch(0)).sum().backward()
    for found in dist.spawn(train, 2):
        _close(found, [(one.grad / 2).tolist() for one in model.parameters()])


def test_frozen_parts_are_freed_too() -> None:
    def train():
        model = _net()
        model.middle.requires_grad_(False)
        _divided(model)
        model(_part(0, 2)).sum().backward()
        assert not model.middle._fsdp_unit.is_whole and model.middle[0].weight.grad is None
        return model.first.weight.grad.full_tensor().tolist()

    model = _net()
    model(_batch(0)).sum().backward()
    for found in dist.spawn(train, 2):
        _close([found], [(model.first.weight.grad / 2).tolist()])


def test_parameters_are_gathered_in_a_narrow_dtype_and_kept_in_a_wide_one() -> None:
    policy = MixedPrecisionPolicy(param_dtype=rl.bfloat16, reduce_dtype=rl.float32, output_dtype=rl.float32)

    def train():
        model = fully_shard(_net(rl.float32), mp_policy=policy)
        seen = []
        model.first.register_forward_hook(lambda part, args, out: seen.append((args[0].dtype, part.weight.dtype)))
        out = model(_part(0, 2, rl.float32))
        out.sum().backward()
        assert seen == [(rl.bfloat16, rl.bfloat16)] and out.dtype is rl.float32
        gradient = model.first.weight.grad
        assert gradient.dtype is rl.float32 is model.first.weight.dtype
        return gradient.full_tensor().tolist()

    model = _net(rl.float32)
    model(_batch(0, rl.float32)).sum().backward()
    for found in dist.spawn(train, 2):
        _close([found], [(model.first.weight.grad / 2).tolist()], 0.05)


@pytest.mark.parametrize(("writers", "readers"), [(4, 2), (2, 1), (1, 3)])
def test_a_checkpoint_goes_on_with_other_numbers_of_ranks(tmp_path, writers: int, readers: int) -> None:
    def make(model):
        return rl.optim.AdamW(model.parameters(), lr=0.05)

    def step(model, optimizer, number: int, world: int) -> None:
        optimizer.zero_grad()
        model(_part(number, world)).square().mean().backward()
        optimizer.step()

    def begin():
        model = _divided(_net())
        optimizer = make(model)
        for number in range(2):
            step(model, optimizer, number, writers)
        checkpoint.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path)

    def go_on():
        model = _divided(_net())
        optimizer = make(model)
        step(model, optimizer, 5, readers)
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        checkpoint.load(state, tmp_path)
        optimizer.load_state_dict(state["optimizer"])
        step(model, optimizer, 2, readers)
        return [one.full_tensor().tolist() for one in model.parameters()]

    dist.spawn(begin, writers)
    wanted = _alone(3, lambda parameters: rl.optim.AdamW(parameters, lr=0.05))
    for found in dist.spawn(go_on, readers):
        _close(found, wanted)


def test_meshes_that_are_not_rows_of_one_are_refused() -> None:
    def on_one_axis():
        mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
        model = parallelize_module(_net(), mesh["tp"], {"last": RowwiseParallel()})
        fully_shard(model, mesh=mesh["tp"])

    def on_others():
        mesh = init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
        model = parallelize_module(_net(), mesh["tp"], {"last": RowwiseParallel()})
        fully_shard(model)

    for call, message in ((on_one_axis, "an axis is named twice"), (on_others, "two meshes are not rows of one")):
        with pytest.raises(rl.RushlightError, match=message) as found:
            dist.spawn(call, 2)
        assert found.value.code == "A002"


def test_what_cannot_be_divided_is_refused() -> None:
    def twice():
        fully_shard(fully_shard(_net()))

    def without_dims():
        model = _net()
        model.scale = rl.nn.Parameter(rl.ones(()))
        fully_shard(model)

    for call in (twice, without_dims):
        with pytest.raises(rl.RushlightError) as found:
            dist.spawn(call, 1)
        assert found.value.code == "A002"


def test_a_model_that_is_converted_or_given_other_parameters_goes_on_with_them() -> None:
    def train():
        model = _divided(_net(rl.float32))
        model.unshard()
        model.double()
        assert all(one.dtype is one.to_local().dtype is rl.float64 for one in model.parameters())
        state = {name: rl.nn.Parameter(one.detach() * 0.5) for name, one in model.state_dict().items()}
        model.load_state_dict(state, assign=True)
        loss = model(_part(0, 2)).square().mean()
        loss.backward()
        assert model.last.weight.grad.dtype is rl.float64
        model.last._parameters["weight"] = rl.nn.Parameter(rl.ones(1, 7))
        with pytest.raises(rl.RushlightError, match="'weight' was replaced by one that is not divided") as caught:
            model(_part(0, 2))
        return loss.item(), caught.value.code

    losses = []
    for found, code in dist.spawn(train, 2):
        assert code == "A002"
        losses.append(found)
    model = _net(rl.float32).double()
    with rl.no_grad():
        for one in dict.fromkeys(model.parameters()):
            one.mul_(0.5)
    assert sum(losses) / 2 == pytest.approx(model(_batch(0)).square().mean().item(), rel=1e-12)


def test_what_is_gathered_ahead_can_be_said() -> None:
    def forward():
        rl.manual_seed(0)
        model = rl.nn.Sequential(*[rl.nn.Linear(4, 4) for _ in range(4)])
        for part in model:
            fully_shard(part)
        model[0].set_modules_to_forward_prefetch([model[2], model[3]])
        begun = []
        model[0].register_forward_hook(
            lambda *_: begun.extend([part._fsdp_unit._gathering is not None for part in model])
        )
        model(rl.ones(1, 4))
        return begun

    assert dist.spawn(forward, 2)[0] == [False, False, True, True]
