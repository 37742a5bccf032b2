"""Divided tensors: made, moved, differentiated, written to, reported."""

import copy
import io
import itertools

import numpy as np
import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight import nn
from rushlight.distributed.device_mesh import restored_mesh
from rushlight.distributed.tensor import (
    DeviceMesh,
    DTensor,
    Partial,
    Replicate,
    Shard,
    comm_report,
    dispatch,
    distribute_module,
    distribute_tensor,
    explicit_redistribution,
    implicit_replication,
    init_device_mesh,
    prepared,
)
from rushlight.distributed.tensor.spec import DTensorSpec
from rushlight.ops import record
from rushlight.support import events
from rushlight.support.errors import DistError, RushlightError

PLACEMENTS = [Replicate(), Shard(0), Shard(1), Partial(), Partial("max"), Partial("avg")]


def spawn(function, shape, *args):
    """Runs a function with a mesh on its ranks."""
    return dist.spawn(lambda: function(init_device_mesh("cpu", shape), *args), int(np.prod(shape)))


@pytest.mark.generated
@pytest.mark.row("8.1")
@pytest.mark.parametrize("shape", [(4,), (3,)])
@pytest.mark.parametrize("size", [(0, 3), (1, 1), (5, 7), (8, 4)])
def test_every_placement_leads_to_every_other(shape, size):
    whole = np.arange(np.prod(size), dtype=np.float32).reshape(size) + 1

    def move(mesh):
        for before, after in itertools.product(PLACEMENTS, PLACEMENTS):
            x = distribute_tensor(rl.tensor(whole), mesh, [before])
            moved = x.redistribute(placements=[after])
            assert moved.placements == (after,)
            np.testing.assert_array_equal(moved.full_tensor().numpy(), whole, f"{before} to {after}")
            assert x.placements == (before,)

    spawn(move, shape)


@pytest.mark.generated
@pytest.mark.row("8.1")
@pytest.mark.parametrize("shape", [(2, 2), (2, 3)])
def test_pairs_of_placements_lead_to_each_other_in_any_order_of_axes(shape):
    whole = np.arange(35.0).reshape(5, 7)
    kinds = [Replicate(), Shard(0), Shard(1), Partial()]

    def move(mesh):
        for before in itertools.product(kinds, kinds):
            x = distribute_tensor(rl.tensor(whole), mesh, before)
            for after in itertools.product(kinds, kinds):
                for order in (None, (1, 0)):
                    moved = x.redistribute(placements=after, axis_order=order)
                    back = moved.redistribute(placements=before)
                    np.testing.assert_array_equal(moved.full_tensor().numpy(), whole)
                    np.testing.assert_array_equal(back.full_tensor().numpy(), whole)

    spawn(move, shape)


@pytest.mark.row("8.1")
def test_shards_move_by_one_exchange_and_partial_values_are_scattered_at_once():
    def count(mesh):
        x = distribute_tensor(rl.ones(8, 8), mesh, [Shard(0)])
        p = distribute_tensor(rl.ones(8, 8), mesh, [Partial()])
        with comm_report() as report:
            x.redistribute(placements=[Shard(1)])
            p.redistribute(placements=[Shard(1)])
            x.redistribute(placements=[Replicate()]).redistribute(placements=[Shard(1)])
        return report.counts()

    assert spawn(count, (4,))[0] == {"all_to_all": 1, "reduce_scatter": 1, "all_gather": 1}


def test_a_report_names_the_line_the_call_and_both_placements():
    def product(mesh):
        x, y = (distribute_tensor(rl.ones(4, 4), mesh, [Shard(dim)]) for dim in (0, 1))
        with comm_report() as report:
            _ = x @ y
        return report

    report = spawn(product, (2,))[0]
    (message,) = report.messages
    assert (message.call, message.implicit) == ("matmul", True)
    assert "_ = x @ y" in message.line
    assert sum(report.by_line().values()) == report.bytes_sent > 0
    assert "-> [R]" in str(report)


@pytest.mark.row("8.1")
def test_parts_become_a_tensor_and_back_with_gradients():
    def run(mesh):
        local = rl.full((2, 3), float(mesh.get_local_rank() + 1), requires_grad=True)
        x = DTensor.from_local(local, mesh, [Shard(0)])
        y = (x * x).redistribute(placements=[Shard(1)])
        part = y.to_local()
        (part * 3).sum().backward()
        assert x.shape == (8, 3)
        assert part.shape == (8, 1 if mesh.get_local_rank() < 3 else 0)
        return local.grad.tolist()

    assert spawn(run, (4,)) == [[[6.0 * (rank + 1)] * 3] * 2 for rank in range(4)]


@pytest.mark.row("8.1")
def test_a_gradient_lies_as_its_tensor():
    def run(mesh):
        rl.manual_seed(0)
        x = distribute_tensor(rl.randn(6, 4), mesh, [Shard(0), Replicate()])
        w = distribute_tensor(rl.randn(4, 5), mesh, [Replicate(), Shard(1)]).requires_grad_()
        b = distribute_tensor(rl.randn(5), mesh, [Replicate(), Replicate()]).requires_grad_()
        for _ in range(2):
            ((x @ w + b).relu() ** 2).mean().backward()
        plain = [value.full_tensor().detach().requires_grad_() for value in (w, b)]
        for _ in range(2):
            ((x.full_tensor() @ plain[0] + plain[1]).relu() ** 2).mean().backward()
        assert w.grad.placements == w.placements
        assert b.grad.placements == b.placements
        for divided, whole in zip((w, b), plain, strict=True):
            np.testing.assert_allclose(divided.grad.full_tensor().numpy(), whole.grad.numpy(), rtol=1e-5, atol=1e-6)

    spawn(run, (2, 2))


@pytest.mark.row("8.1")
def test_partial_values_keep_their_gradient_whatever_way_they_take():
    def run(mesh):
        local = rl.full((2,), float(mesh.get_local_rank() + 1), requires_grad=True)
        partial = DTensor.from_local(local, mesh, [Partial()])
        again = DTensor.from_local(partial.to_local(), mesh, [Partial()])
        (again * 2).redistribute(placements=[Replicate()]).sum().backward()
        return local.grad.tolist()

    assert spawn(run, (3,)) == [[2.0, 2.0]] * 3


def test_run_check_finds_parts_that_do_not_fit_on_all_ranks():
    def run(mesh):
        local = rl.ones(3 if mesh.get_local_rank() == 1 else 2)
        with pytest.raises(DistError, match="rank 0 holds") as caught:
            DTensor.from_local(local, mesh, [Shard(0)], run_check=True)
        assert caught.value.code == "W025"
        x = DTensor.from_local(rl.ones(3 if mesh.get_local_rank() == 0 else 2), mesh, [Shard(0)], run_check=True)
        same = DTensor.from_local(rl.full((2,), float(mesh.get_local_rank())), mesh, [Replicate()], run_check=True)
        return x.shape, same.to_local().tolist()

    assert spawn(run, (2,)) == [((5,), [0.0, 0.0])] * 2


def test_data_that_is_exchanged_is_exchanged_with_how_it_lies():
    def exchange():
        mesh = init_device_mesh("cpu", (2,))
        x = rl.nn.Parameter(distribute_tensor(rl.ones(4, 2), mesh, [Shard(0)]))
        x.data = distribute_tensor(rl.full((4, 2), 3.0, dtype=rl.float64), mesh, [Shard(1)])
        assert x.dtype is x.to_local().dtype is rl.float64 and x.placements == (Shard(1),)
        assert isinstance(x, rl.nn.Parameter) and x.is_leaf and x.to_local().shape == (4, 1)
        with pytest.raises(rl.RushlightError, match="another class") as caught:
            x.data = rl.ones(4, 2)
        return x.full_tensor().tolist(), caught.value.code

    assert dist.spawn(exchange, 2) == [([[3.0, 3.0]] * 4, "A001")] * 2


@pytest.mark.row("8.4")
def test_specs_are_frozen_and_parts_taken_leave_the_tensor_alone():
    def run(mesh):
        x = distribute_tensor(rl.arange(24.0).reshape(4, 6), mesh, [Shard(1)])
        spec = x._spec
        with pytest.raises(AttributeError, match="frozen"):
            spec.placements = (Replicate(),)
        assert DTensorSpec(mesh, [Shard(1)]) is spec
        rows = [x[0], x[1], x[2]]
        assert (x.shape, x.placements, x._spec) == ((4, 6), (Shard(1),), spec)
        assert [row.full_tensor()[0].item() for row in rows] == [0.0, 6.0, 12.0]
        assert copy.deepcopy(spec) is spec

    spawn(run, (2,))


def test_a_divided_tensor_is_saved_with_its_part_and_its_spec():
    def run(mesh):
        x = distribute_tensor(rl.arange(8.0).reshape(4, 2), mesh, [Shard(0)])
        file = io.BytesIO()
        rl.save({"x": x}, file)
        file.seek(0)
        names = rl.serialization.get_unsafe_globals_in_checkpoint(file)
        file.seek(0)
        with rl.serialization.safe_globals([DTensor, DTensorSpec, Shard, restored_mesh]):
            again = rl.load(file)["x"]
        assert [name.rpartition(".")[2] for name in names] == ["DTensor", "DTensorSpec", "restored_mesh", "Shard"]
        assert type(again) is DTensor and again._spec is x._spec
        assert (again + 1).full_tensor().tolist() == (x + 1).full_tensor().tolist()

    spawn(run, (2,))


@pytest.mark.row("8.2")
def test_choices_are_kept_and_new_sizes_make_no_new_rules():
    def run(mesh):
        x = distribute_tensor(rl.ones(8, 4), mesh, [Shard(0)])
        x = x + x
        known = dispatch.cache_sizes()
        for _ in range(20):
            x = x + x
        assert dispatch.cache_sizes() == known
        for size in (6, 10, 12):
            y = distribute_tensor(rl.ones(size, 4), mesh, [Shard(0)])
            _ = y + y
        return dispatch.cache_sizes()[0] - known[0]

    assert spawn(run, (2,)) == [0, 0]


@pytest.mark.row("8.2")
def test_calls_that_were_made_before_are_answered_without_a_rule(monkeypatch):
    def run(mesh):
        x, y = (distribute_tensor(rl.arange(6.0), mesh, [Shard(0)]) for _ in range(2))
        partial = distribute_tensor(rl.ones(6), mesh, [Partial()])
        calls = [lambda: x + y, lambda: x * 2.0, lambda: x * 3, lambda: x.amax(0), lambda: partial + partial]
        first = [call() for call in calls]
        dist.barrier()
        before = prepared.misses[0]
        dist.barrier()
        monkeypatch.setattr(dispatch, "_call", None)
        again = [call() for _ in range(200) for call in calls][-len(calls) :]
        dist.barrier()
        assert prepared.misses[0] == before
        monkeypatch.undo()
        dist.barrier()
        for one, other in zip(first, again, strict=True):
            assert (other.placements, other.shape, other.stride()) == (one.placements, one.shape, one.stride())
            assert other.to_local().tolist() == one.to_local().tolist()
        w = x.detach().requires_grad_()
        (w * w).sum().backward()
        return w.grad.full_tensor().tolist()

    assert spawn(run, (2,)) == [[0.0, 2.0, 4.0, 6.0, 8.0, 10.0]] * 2


@pytest.mark.row("8.2")
def test_prepared_calls_are_forgotten_when_rules_change_and_told_apart_by_attributes():
    def run(mesh):
        x = distribute_tensor(rl.arange(6.0).reshape(2, 3), mesh, [Shard(0)])
        for dim, kept in ((1, False), (1, True), (1, False)):
            assert x.sum(dim, keepdim=kept).shape == ((2, 1) if kept else (2,))
        rows = x.sum(1)
        dist.barrier()
        before = prepared.misses[0]
        dist.barrier()
        record.GENERATION[0] += 1
        _ = x.sum(1)
        dist.barrier()
        assert prepared.misses[0] > before
        return rows.full_tensor().tolist()

    assert spawn(run, (2,)) == [[3.0, 12.0]] * 2


@pytest.mark.row("8.4")
def test_calls_change_nothing_that_tables_hold():
    def run(mesh):
        x = distribute_tensor(rl.arange(24.0).reshape(4, 6), mesh, [Shard(1)])
        calls = [lambda: x[0], lambda: x + x, lambda: x.sum(0), lambda: x.T @ x, lambda: x.reshape(24)]
        wanted = [(call().placements, call().shape) for call in calls]
        dist.barrier()
        known = prepared.contents(), dispatch.contents()
        dist.barrier()
        for _ in range(3):
            assert [(call().placements, call().shape) for call in calls] == wanted
        assert (prepared.contents(), dispatch.contents()) == known

    spawn(run, (2,))


def test_writes_reach_all_ranks_parts():
    def run(mesh):
        x = distribute_tensor(rl.zeros(5, 3), mesh, [Shard(0)])
        x.add_(distribute_tensor(rl.ones(5, 3), mesh, [Shard(1)]))
        x[:, 1].mul_(3)
        partial = distribute_tensor(rl.zeros(2), mesh, [Partial()])
        partial.fill_(4)
        return x.full_tensor().tolist(), partial.full_tensor().tolist()

    assert spawn(run, (2,))[0] == ([[1.0, 3.0, 1.0]] * 5, [4.0, 4.0])


def test_explicit_mode_names_both_placements_and_the_remedy():
    def run(mesh):
        x, y = (distribute_tensor(rl.ones(4, 4), mesh, [Shard(dim)]) for dim in (0, 1))
        with explicit_redistribution():
            _ = x + x
            with pytest.raises(DistError, match=r"lies \[S\(1\)\], and the operator needs \[R\]") as caught:
                _ = x @ y
            assert "redistribute(placements=[Replicate()])" in str(caught.value)
            return (x @ y.redistribute(placements=[Replicate()])).placements

    assert spawn(run, (2,)) == [(Shard(0),)] * 2


def test_an_operator_without_a_rule_is_counted_and_right():
    def run(mesh):
        x = distribute_tensor(rl.arange(6.0), mesh, [Shard(0)])
        return x.flip(0).full_tensor().tolist()

    events.reset()
    assert spawn(run, (2,))[0] == [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]
    assert events.counters()["fallback", "W023"] == 2


def test_plain_tensors_are_refused_unless_they_are_said_to_be_the_same():
    def run(mesh):
        x = distribute_tensor(rl.ones(4), mesh, [Shard(0)])
        with pytest.raises(DistError, match="plain tensor") as caught:
            _ = x + rl.ones(4)
        assert caught.value.code == "W020"
        with implicit_replication():
            return (x + rl.ones(4)).full_tensor().tolist()

    assert spawn(run, (2,)) == [[2.0] * 4] * 2


@pytest.mark.row("8.1")
def test_random_numbers_do_not_depend_on_placements():
    def run(mesh, placements):
        rl.manual_seed(5)
        x = distribute_tensor(rl.ones(6, 5), mesh, placements)
        return [nn.functional.dropout(x, 0.5).full_tensor().tolist(), rl.rand_like(x).full_tensor().tolist()]

    rl.manual_seed(5)
    x = rl.ones(6, 5)
    wanted = [nn.functional.dropout(x, 0.5).tolist(), rl.rand_like(x).tolist()]
    for placements in ([Shard(0)], [Shard(1)], [Replicate()]):
        assert spawn(run, (3,), placements) == [wanted] * 3


def test_a_module_is_distributed_and_trains_as_on_one_rank():
    def model():
        rl.manual_seed(1)
        return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))

    def train(net, x, steps=3):
        optimizer = rl.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(steps):
            optimizer.zero_grad()
            (net(x) ** 2).mean().backward()
            optimizer.step()
        return list(net.parameters())

    x = rl.arange(24.0).reshape(4, 6) / 10
    wanted = [parameter.detach().numpy() for parameter in train(model(), x)]

    def run(mesh):
        def divide(name, part, mesh):
            for key, parameter in list(part.named_parameters(recurse=False)):
                setattr(part, key, nn.Parameter(distribute_tensor(parameter, mesh, [Shard(0)])))

        net = distribute_module(model(), mesh, divide)
        found = train(net, distribute_tensor(x, mesh, [Shard(0)]))
        assert all(parameter.placements == (Shard(0),) for parameter in found)
        return [parameter.full_tensor().detach().numpy() for parameter in found]

    for one, other in zip(spawn(run, (4,))[0], wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_meshes_are_sliced_by_name_and_flattened():
    def run():
        mesh = init_device_mesh("cpu", (2, 3), mesh_dim_names=("dp", "tp"))
        assert mesh.mesh.tolist() == [[0, 1, 2], [3, 4, 5]]
        row, column = mesh["tp"], mesh["dp"]
        assert mesh["dp", "tp"].shape == (2, 3)
        assert mesh["tp", "dp"].shape == (3, 2)
        assert mesh._flatten("all").shape == (6,)
        assert row is mesh["tp"]
        with pytest.raises(RushlightError, match="no axis"):
            _ = mesh["pp"]
        groups = [mesh.get_group("tp").ranks, row.get_group().ranks, column.get_group().ranks]
        return mesh.get_coordinate(), row.ranks, column.ranks, mesh.get_local_rank("tp"), groups

    found = dist.spawn(run, 6)
    assert found[4] == ([1, 1], (3, 4, 5), (1, 4), 1, [(3, 4, 5), (3, 4, 5), (1, 4)])


def test_axes_that_were_flattened_have_a_name_together():
    def run():
        mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("dp", "cp", "tp"))
        flat = mesh["dp", "cp"]._flatten("data")
        assert mesh["data"] is flat and flat.shape == (4,)
        assert mesh["data", "tp"].mesh.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
        assert mesh["tp", "data"].mesh.tolist() == [[0, 2, 4, 6], [1, 3, 5, 7]]
        assert flat.beside(mesh["tp"]) is mesh["data", "tp"] and mesh["tp"].beside(mesh["dp"]) is mesh["tp", "dp"]
        for call, message in (
            (lambda: mesh["data", "cp"], "named twice"),
            (lambda: mesh["dp", "tp"]._flatten("data"), "names other axes"),
            (lambda: mesh["dp", "tp"]._flatten("cp"), "names other axes"),
            (lambda: mesh["dp"].beside(DeviceMesh("cpu", [dist.get_rank()], mesh_dim_names=("ep",))), "rows of one"),
        ):
            with pytest.raises(RushlightError, match=message) as found:
                call()
            assert found.value.code == "A002"
        return flat.ranks, mesh.get_group("data").ranks, mesh.get_local_rank("data")

    found = dist.spawn(run, 8)
    assert found[5] == ((1, 3, 5, 7), (1, 3, 5, 7), 2)


def test_a_sole_row_is_divided_as_several_are() -> None:
    """One rank has it and the others nothing: operators and writes leave it there, and broadcasting does not."""

    def step():
        mesh = init_device_mesh("cpu", (2,))
        row = distribute_tensor(rl.arange(7.0).view(1, 7), mesh, [Shard(0)])
        made = (row * 2 + row).sin()
        kept = row.clone()
        kept.add_(row, alpha=2).mul_(0.5)
        table = distribute_tensor(rl.ones(5, 7), mesh, [Shard(0)])
        return made.placements, made.full_tensor(), kept.placements, kept.full_tensor(), (table + row).full_tensor()

    x = rl.arange(7.0).view(1, 7)
    for placements, made, kept_placements, kept, added in dist.spawn(step, 2):
        assert placements == kept_placements == (Shard(0),)
        assert rl.equal(made, (x * 3).sin()) and rl.equal(kept, x * 1.5) and rl.equal(added, x + rl.ones(5, 7))
