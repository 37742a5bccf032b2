"""Plans of tensor parallelism, and new divided tensors."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight import nn
from rushlight.distributed import tensor as dt
from rushlight.distributed.tensor import Partial, Replicate, Shard, comm_report, distribute_tensor, init_device_mesh
from rushlight.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from rushlight.support.errors import RushlightError


class Block(nn.Module):
    def __init__(self, width=6, hidden=10):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return x


def trained(net, tokens):
    optimizer = rl.optim.SGD(net.parameters(), lr=0.05)
    losses = []
    for _ in range(2):
        optimizer.zero_grad()
        loss = (net(tokens) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_plan_trains_as_one_rank_does_whatever_the_sizes(ranks):
    tokens = rl.tensor([[1, 4, 7, 2], [9, 0, 3, 10]])
    rl.manual_seed(2)
    whole = Net()
    wanted = trained(whole, tokens)
    state = {name: value.detach().numpy() for name, value in whole.named_parameters()}

    def run():
        mesh = init_device_mesh("cpu", (ranks,))
        rl.manual_seed(2)
        plan = {"blocks.*.up": ColwiseParallel(), "blocks.*.down": RowwiseParallel()}
        net = parallelize_module(Net(), mesh, {"embedding": RowwiseParallel(), **plan})
        assert net.blocks[1].up.weight.placements == (Shard(0),)
        assert net.blocks[1].down.weight.placements == (Shard(1),)
        losses = trained(net, tokens)
        found = {
            name: (value.full_tensor() if isinstance(value, dt.DTensor) else value).detach().numpy()
            for name, value in net.named_parameters()
        }
        return losses, found

    for losses, found in dist.spawn(run, ranks):
        np.testing.assert_allclose(losses, wanted, rtol=1e-5)
        for name, value in state.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_a_block_of_columns_then_rows_reduces_once():
    def run():
        mesh = init_device_mesh("cpu", (2,))
        block = parallelize_module(Block(), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
        with comm_report(block) as report:
            block(rl.ones(3, 6))
        return [(message.verb, message.module) for message in report.messages]

    assert dist.spawn(run, 2) == [[("all_reduce", "down")]] * 2


def test_a_sequence_is_divided_through_a_norm():
    def run():
        mesh = init_device_mesh("cpu", (2,))
        rl.manual_seed(0)
        plain, x = nn.LayerNorm(6), rl.randn(2, 4, 6)
        norm = parallelize_module(nn.LayerNorm(6), mesh, SequenceParallel())
        out = norm(x[:, 2 * mesh.get_local_rank() :][:, :2])
        assert out.placements == (Shard(1),)
        np.testing.assert_allclose(out.full_tensor().detach().numpy(), plain(x).detach().numpy(), rtol=1e-5, atol=1e-6)

    dist.spawn(run, 2)


def test_inputs_and_outputs_are_prepared():
    def run():
        mesh = init_device_mesh("cpu", (2,))
        double = nn.Sequential(nn.Identity())
        ready = PrepareModuleInput(input_layouts=Shard(0), desired_input_layouts=Replicate(), use_local_output=True)
        parallelize_module(double, mesh, ready)
        parallelize_module(
            double, mesh, PrepareModuleOutput(output_layouts=Replicate(), desired_output_layouts=Shard(0))
        )
        return double(rl.full((1, 2), float(mesh.get_local_rank()))).tolist()

    assert dist.spawn(run, 2) == [[[0.0, 0.0]], [[1.0, 1.0]]]


def test_a_path_without_a_module_and_another_kind_of_module_are_errors():
    def run():
        mesh = init_device_mesh("cpu", (2,))
        with pytest.raises(RushlightError, match="no module is named 'side'"):
            parallelize_module(Block(), mesh, {"side": ColwiseParallel()})
        with pytest.raises(RushlightError, match="a Linear or an Embedding is expected"):
            parallelize_module(Block(), mesh, {"norm": ColwiseParallel()})

    dist.spawn(run, 2)


def test_new_tensors_are_those_of_one_rank():
    rl.manual_seed(4)
    wanted = [rl.rand(5, 3).tolist(), rl.randn(2, 2).tolist()]

    def run():
        mesh = init_device_mesh("cpu", (3,))
        rl.manual_seed(4)
        made = [
            dt.rand(5, 3, device_mesh=mesh, placements=[Shard(0)]),
            dt.randn(2, 2, device_mesh=mesh, placements=[Shard(1)]),
        ]
        eights = dt.full((4, 2), 8, device_mesh=mesh, placements=[Shard(0)], dtype=rl.int64)
        partial = dt.ones(2, device_mesh=mesh, placements=[Partial()])
        zeros = dt.zeros((2, 4), device_mesh=mesh, requires_grad=True)
        assert eights.to_local().shape == ((2, 2) if mesh.get_local_rank() < 2 else (0, 2))
        assert zeros.requires_grad
        assert zeros.placements == (Replicate(),)
        return [one.full_tensor().tolist() for one in (*made, eights, partial)]

    assert dist.spawn(run, 3) == [[*wanted, [[8, 8]] * 4, [1.0, 1.0]]] * 3


def test_a_loss_takes_logits_that_are_divided_along_their_classes():
    rl.manual_seed(0)
    values, weight = rl.randn(2, 3, 5, dtype=rl.float64), rl.randn(12, 5, dtype=rl.float64)
    labels = rl.randint(0, 12, (2, 3))

    def loss_of(x, w):
        loss = rl.nn.functional.cross_entropy((x @ w.T).flatten(0, 1), labels.flatten(0, 1))
        loss.backward()
        return loss

    def run():
        mesh = init_device_mesh("cpu", (4,))
        w = distribute_tensor(weight, mesh, [Shard(0)]).requires_grad_()
        with comm_report() as report, loss_parallel():
            loss = loss_of(distribute_tensor(values, mesh, [Replicate()]), w)
        assert 0 < max(message.sent for message in report.messages) < labels.numel() * 12 * 8, "less than all logits"
        return loss.full_tensor().item(), w.grad.full_tensor().numpy()

    own = weight.clone().requires_grad_()
    wanted = loss_of(values, own).item()
    for loss, gradient in dist.spawn(run, 4):
        assert loss == pytest.approx(wanted, rel=1e-12)
        np.testing.assert_allclose(gradient, own.grad.numpy(), rtol=1e-10, atol=1e-12)


class Pair(rl.nn.Module):
    def forward(self, x, scale, *, bias):
        assert tuple(x.to_local().shape) == (4, 3) and tuple(bias.to_local().shape) == (2, 3)
        return x * scale, bias + 1


def test_inputs_keywords_and_several_outputs_are_prepared():
    def run():
        mesh = init_device_mesh("cpu", (2,))
        style = PrepareModuleInputOutput(
            input_layouts=(Shard(0), None),
            desired_input_layouts=(Replicate(), None),
            input_kwarg_layouts={"bias": Replicate()},
            desired_input_kwarg_layouts={"bias": Shard(0)},
            output_layouts=(Replicate(), None),
            desired_output_layouts=(Shard(0), None),
        )
        module = parallelize_module(Pair(), mesh, style)
        part = rl.arange(12.0).view(4, 3).chunk(2)[mesh.get_local_rank()]
        first, second = module(part, 2, bias=rl.zeros(4, 3))
        return rl.equal(first, part * 2), type(first), tuple(second.placements)

    assert dist.spawn(run, 2) == [(True, rl.Tensor, (Shard(0),))] * 2


@pytest.mark.parametrize(
    "options",
    [
        {"input_layouts": (Shard(0),), "desired_input_layouts": (Shard(0), Shard(0))},
        {"input_kwarg_layouts": {"x": Shard(0)}, "desired_input_kwarg_layouts": {"y": Shard(0)}},
        {"input_layouts": Shard(0)},
    ],
)
def test_layouts_that_do_not_fit_are_said(options):
    with pytest.raises(rl.RushlightError, match="one wanted layout for each"):
        PrepareModuleInput(**options)
