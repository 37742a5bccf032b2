"""The fake engine: what needs no data is as on any engine, on worlds of 1 to 64 ranks, and bytes are counted."""

from collections.abc import Generator
from contextlib import contextmanager

import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed import _functional_collectives as funcol
from rushlight.distributed.device_mesh import init_device_mesh
from rushlight.distributed.engine.fake import Fake, Ledger
from rushlight.distributed.fsdp import fully_shard
from rushlight.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from rushlight.nn.parallel import DistributedDataParallel
from rushlight.support.errors import RushlightError

WORLDS = [1, 2, 3, 4, 5, 7, 8, 16, 27, 31, 48, 64]


@contextmanager
def fake(world: int, rank: int) -> Generator[Ledger]:
    """One rank of a fake world."""
    dist.init_process_group("fake", rank=rank, world_size=world)
    try:
        engine = dist.group.WORLD.engine
        assert isinstance(engine, Fake)
        yield engine.ledger
    finally:
        dist.destroy_process_group()


def _ranks(world: int) -> list[int]:
    return sorted({0, world // 2, world - 1})


@pytest.mark.row("8.12")
@pytest.mark.parametrize("world", WORLDS)
def test_every_collective_takes_and_gives_its_shapes(world: int):
    for rank in _ranks(world):
        with fake(world, rank) as ledger:
            assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (rank, world, "fake")
            x = rl.arange(6.0).view(3, 2)
            work = dist.all_reduce(x, async_op=True)
            assert work.wait() and work.is_success() and x.tolist() == rl.arange(6.0).view(3, 2).tolist()
            whole = rl.full((3 * world, 2), -1.0)
            dist.all_gather_into_tensor(whole, x)
            assert rl.equal(whole, rl.cat([x] * world))
            part = rl.full((3, 2), -1.0)
            dist.reduce_scatter_tensor(part, rl.arange(6.0 * world).view(3 * world, 2))
            assert part.flatten().tolist() == [6.0 * rank + at for at in range(6)]
            dist.broadcast(x, world - 1)
            dist.reduce(x, 0)
            sizes = [(rank + peer) % 3 for peer in range(world)]
            taken = rl.full((sum(sizes), 2), -1.0)
            dist.all_to_all_single(taken, rl.zeros(sum(sizes), 2), sizes, sizes)
            assert (taken == 0).all()
            gathered = [rl.zeros(2) for _ in range(world)] if rank == 0 else None
            dist.gather(rl.ones(2), gathered, 0)
            dist.scatter(rl.zeros(2), gathered, 0)
            objects: list[object] = [None] * world
            dist.all_gather_object(objects, {"rank": rank})
            assert objects == [{"rank": rank}] * world
            values = ["mine"]
            dist.broadcast_object_list(values, 0)
            assert values == ["mine"]
            if world > 1:
                received = rl.ones(3)
                ops = [
                    dist.P2POp(dist.isend, rl.ones(3), (rank + 1) % world),
                    dist.P2POp(dist.irecv, received, (rank - 1) % world),
                ]
                for work in dist.batch_isend_irecv(ops):
                    work.wait()
                assert received.tolist() == [0.0] * 3
            dist.barrier()
            assert ledger.counts()["all_reduce"] == 1 and (world > 1 or ledger.bytes_sent == 0)


@pytest.mark.parametrize("world", WORLDS)
def test_bytes_are_those_of_closed_forms(world: int):
    with fake(world, 0) as ledger:
        dist.all_reduce(rl.ones(world * 10))
        dist.all_gather_into_tensor(rl.ones(world * 10), rl.ones(10))
        dist.reduce_scatter_tensor(rl.ones(10), rl.ones(world * 10))
        dist.all_to_all_single(rl.ones(world * 10), rl.ones(world * 10))
        dist.broadcast(rl.ones(10), 0)
        ring = (world - 1) * 40
        expected = [2 * ring, ring, ring, ring, ring]
        assert [entry.sent for entry in ledger.entries] == expected
        assert ledger.bytes_sent == sum(expected)
        assert [entry.ranks for entry in ledger.entries] == [tuple(range(world))] * 5
        by_line = ledger.by_line()
        assert list(by_line.values()) == sorted(expected, reverse=True)
        assert "dist.all_reduce(rl.ones(world * 10))" in next(iter(by_line))


@pytest.mark.parametrize("world", [2, 64])
def test_wrong_counts_and_ranks_are_refused_as_elsewhere(world: int):
    with fake(world, 1):
        refused = [
            ("S010", lambda: dist.all_to_all_single(rl.ones(world + 1), rl.ones(world + 1))),
            ("A002", lambda: dist.broadcast(rl.ones(2), world)),
            ("A002", lambda: dist.new_group([0, world])),
            ("D001", lambda: dist.all_reduce(rl.ones(2), "band")),
        ]
        for code, call in refused:
            with pytest.raises(RushlightError) as caught:
                call()
            assert caught.value.code == code


def test_a_fake_group_needs_its_size():
    for arguments in ({}, {"world_size": 4, "rank": 4}):
        with pytest.raises(RushlightError) as caught:
            dist.init_process_group("fake", **arguments)
        assert caught.value.code == "A002" and not dist.is_initialized()


@pytest.mark.parametrize("world", WORLDS)
def test_groups_and_meshes_are_those_of_the_rank(world: int):
    for rank in _ranks(world):
        with fake(world, rank):
            mesh = init_device_mesh("cpu", (world, 1), mesh_dim_names=("dp", "tp"))
            assert mesh.get_coordinate() == [rank, 0]
            assert mesh.get_group("tp").ranks == (rank,)
            group = dist.new_group(range(rank + 1))
            x = rl.ones(2)
            dist.all_reduce(x, group=group)
            assert dist.get_rank(group) == rank
            others = [one for one in range(world) if one != rank]
            if others:
                assert dist.get_rank(dist.new_group(others)) == -1


@pytest.mark.row("8.12")
@pytest.mark.parametrize("world", [1, 2, 3, 8, 64])
def test_compiled_collectives_have_their_shapes_and_gradients(world: int):
    with fake(world, world - 1) as ledger:

        @rl.compile(fullgraph=True)
        def f(x):
            return funcol.reduce_scatter_tensor(funcol.all_gather_tensor(x.sin(), 0) * 2, "sum", 0)

        x = rl.ones(2, 3, requires_grad=True)
        out = f(x)
        out.sum().backward()
        assert out.shape == x.grad.shape == (2, 3)
        assert ledger.counts() == {"all_gather": 2, "reduce_scatter": 2}


@pytest.mark.row("8.12")
@pytest.mark.parametrize("world", [1, 2, 3, 8, 64])
def test_divided_tensors_have_the_shapes_of_their_rank(world: int):
    with fake(world, world - 1):
        mesh = init_device_mesh("cpu", (world,))
        whole = rl.arange(130.0).view(65, 2)
        x = distribute_tensor(whole, mesh, [Shard(0)], src_data_rank=None)
        rows = -(-65 // world)
        assert x.to_local().shape[0] == max(0, min(rows, 65 - rows * (world - 1)))
        for placement in (Replicate(), Shard(1), Partial()):
            moved = x.redistribute(mesh, [placement])
            assert moved.shape == (65, 2)
        compiled = rl.compile(lambda one: (one * 2).sum(0), fullgraph=True)
        assert compiled(x).full_tensor().shape == (2,)


@pytest.mark.parametrize("world", [2, 8, 64])
def test_models_train_under_each_parallelism(world: int):
    with fake(world, world - 1) as ledger:
        for wrap in (DistributedDataParallel, fully_shard):
            model = wrap(rl.nn.Sequential(rl.nn.Linear(4, 8), rl.nn.ReLU(), rl.nn.Linear(8, 1)))
            optimizer = rl.optim.AdamW(model.parameters(), lr=0.1)
            model(rl.ones(2, 4)).sum().backward()
            optimizer.step()
            assert ledger.bytes_sent > 0


def test_groups_are_made_at_each_call_of_a_compiled_function():
    def made(size: int) -> tuple[int, int, bool]:
        dist.init_process_group("fake", world_size=size)
        try:
            pair = dist.new_group([0, 1])
            return dist.get_world_size(), dist.get_world_size(pair), dist.is_initialized()
        finally:
            dist.destroy_process_group()

    compiled = rl.compile(made, backend="eager")
    assert [compiled(size) for size in (4, 8, 4)] == [(4, 2, True), (8, 2, True), (4, 2, True)]
    assert not dist.is_initialized()
