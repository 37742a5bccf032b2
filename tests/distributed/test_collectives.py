"""Every collective on tensors of all ranks, against what it means."""

import pytest

import rushlight as rl
from rushlight import distributed as dist

SIZES = (1, 2, 3)


def _own(*shape: int, dtype=rl.float32):
    """This rank's tensor: no two ranks have an equal element."""
    numel = 1
    for size in shape:
        numel *= size
    return (rl.arange(numel).reshape(*shape) + 100 * dist.get_rank()).to(dtype)


@pytest.mark.parametrize("world", SIZES)
@pytest.mark.parametrize("shape", [(0,), (1,), (2, 3)])
def test_all_reduce_sums(world: int, shape: tuple[int, ...]):
    def step():
        x = _own(*shape)
        dist.all_reduce(x)
        return x

    whole = sum(rl.arange(rl.ones(shape).numel()).reshape(shape) + 100 * rank for rank in range(world))
    for x in dist.spawn(step, world):
        assert x.tolist() == whole.tolist()


def test_a_tensor_with_gaps_is_written_where_it_lies():
    def step():
        base = rl.zeros(4, 3)
        column = base[:, 1]
        column += dist.get_rank() + 1
        version = base._version
        dist.all_reduce(column)
        return base.tolist(), base._version > version

    for base, counted in dist.spawn(step, 2):
        assert base == [[0.0, 3.0, 0.0]] * 4 and counted


@pytest.mark.parametrize("world", SIZES)
def test_gathers_and_scatters(world: int):
    def step():
        rank = dist.get_rank()
        whole = rl.zeros(2 * world, 3)
        dist.all_gather_into_tensor(whole, _own(2, 3))
        stacked = rl.zeros(world, 2, 3)
        dist.all_gather_into_tensor(stacked, _own(2, 3))
        assert stacked.reshape(-1, 3).tolist() == whole.tolist()
        listed = [rl.zeros(2, 3) for _ in range(world)]
        dist.all_gather(listed, _own(2, 3))
        assert rl.cat(listed).tolist() == whole.tolist()
        part = rl.zeros(2, 3)
        dist.reduce_scatter_tensor(part, whole)
        assert part.tolist() == (whole[2 * rank : 2 * rank + 2] * world).tolist()
        dist.reduce_scatter(part, listed)
        assert part.tolist() == (whole[2 * rank : 2 * rank + 2] * world).tolist()
        return whole.tolist()

    expected = [[100.0 * rank + 3 * row + column for column in range(3)] for rank in range(world) for row in range(2)]
    assert dist.spawn(step, world) == [expected] * world


def test_all_gather_of_uneven_parts():
    def step():
        rank = dist.get_rank()
        listed = [rl.zeros(size) for size in (2, 0, 3)]
        dist.all_gather(listed, _own((2, 0, 3)[rank]))
        return [one.tolist() for one in listed]

    assert dist.spawn(step, 3) == [[[0.0, 1.0], [], [200.0, 201.0, 202.0]]] * 3


def test_all_to_all_with_sizes():
    sizes = [[0, 2], [1, 3]]  # what rank i gives rank j

    def step():
        rank = dist.get_rank()
        given = _own(sum(sizes[rank]), 2)
        out_sizes = [sizes[giver][rank] for giver in range(2)]
        taken = rl.zeros(sum(out_sizes), 2)
        dist.all_to_all_single(taken, given, out_sizes, sizes[rank])
        back = rl.zeros_like(given)
        dist.all_to_all_single(back, taken, sizes[rank], out_sizes)
        assert back.tolist() == given.tolist()
        return taken[:, 0].tolist()

    assert dist.spawn(step, 2) == [[100.0], [0.0, 2.0, 102.0, 104.0, 106.0]]


def test_rooted_collectives():
    def step():
        rank = dist.get_rank()
        x = _own(2)
        dist.broadcast(x, 2)
        y = _own(2)
        dist.reduce(y, 1)
        parts = [rl.zeros(2) for _ in range(3)] if rank == 0 else None
        dist.gather(_own(2), parts, 0)
        z = rl.zeros(2)
        dist.scatter(z, [rl.full((2,), float(i)) for i in range(3)] if rank == 1 else None, 1)
        return x.tolist(), y.tolist(), parts and rl.cat(parts).tolist(), z.tolist()

    gathered = [0.0, 1.0, 100.0, 101.0, 200.0, 201.0]
    assert dist.spawn(step, 3) == [
        ([200.0, 201.0], [0.0, 1.0], gathered, [0.0, 0.0]),
        ([200.0, 201.0], [300.0, 303.0], None, [1.0, 1.0]),
        ([200.0, 201.0], [200.0, 201.0], None, [2.0, 2.0]),
    ]


def test_messages_keep_their_order_and_tags():
    def step():
        if dist.get_rank() == 0:
            works = [dist.isend(rl.full((2,), float(value)), 1, tag=tag) for value, tag in ((1, 5), (2, 6), (3, 5))]
            for work in works:
                work.wait()
            return None
        x, y, z = rl.zeros(2), rl.zeros(2), rl.zeros(2)
        assert dist.recv(x, 0, tag=6) == 0
        assert dist.recv(y, tag=5) == 0
        dist.recv(z, 0, tag=5)
        return [x.tolist(), y.tolist(), z.tolist()]

    assert dist.spawn(step, 2)[1] == [[2.0, 2.0], [1.0, 1.0], [3.0, 3.0]]


def test_a_ring_of_messages():
    def step():
        rank, size = dist.get_rank(), dist.get_world_size()
        taken = rl.zeros(1)
        ops = [dist.P2POp(dist.isend, _own(1), (rank + 1) % size), dist.P2POp(dist.irecv, taken, (rank - 1) % size)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        return taken.item()

    assert dist.spawn(step, 4) == [300.0, 0.0, 100.0, 200.0]


def test_work_is_complete_after_its_wait():
    def step():
        x = _own(3)
        work = dist.all_reduce(x, async_op=True)
        while not work.is_completed():
            pass
        assert work.wait() and work.is_success() and work.exception() is None
        return x.tolist()

    assert dist.spawn(step, 2) == [[100.0, 102.0, 104.0]] * 2


def test_groups_of_some_ranks():
    def step():
        rank = dist.get_rank()
        even = dist.new_group([0, 2])
        odd = dist.new_group([1, 3])
        mine = odd if rank % 2 else even
        x = rl.full((1,), rank)
        dist.all_reduce(x, group=mine)
        dist.broadcast(y := _own(1), 3 if rank % 2 else 2, group=mine)
        assert dist.get_group_rank(mine, rank) == rank // 2 and dist.get_global_rank(mine, rank // 2) == rank
        assert dist.get_rank(even if rank % 2 else odd) == -1
        return x.item(), y.item(), dist.get_process_group_ranks(mine)

    assert dist.spawn(step, 4) == [
        (2.0, 200.0, [0, 2]),
        (4.0, 300.0, [1, 3]),
        (2.0, 200.0, [0, 2]),
        (4.0, 300.0, [1, 3]),
    ]


def test_one_rank_needs_no_launcher():
    dist.init_process_group("gloo")
    try:
        x = rl.ones(2)
        dist.all_reduce(x)
        assert x.tolist() == [1.0, 1.0] and dist.get_world_size() == 1 and dist.get_backend() == "gloo"
    finally:
        dist.destroy_process_group()
    assert not dist.is_initialized()


def test_the_place_on_a_machine_is_what_the_launcher_tells(monkeypatch: pytest.MonkeyPatch):
    names = ["SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "LOCAL_RANK"]
    for name in [*names, "PMI_RANK"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PMI_RANK", "9")  # its place among all ranks
    assert dist.get_node_local_rank(7) == 7
    with pytest.raises(rl.RushlightError) as found:
        dist.get_node_local_rank()
    assert found.value.code == "A002"
    for place, name in enumerate(names):  # each comes before those before it
        monkeypatch.setenv(name, str(place))
        assert dist.get_node_local_rank(7) == place


def test_what_a_collective_has_overwritten_has_no_gradient():
    """But what it was computed from has, before; and a leaf, or what is detached, may be written to."""

    def step():
        x = rl.ones(3, requires_grad=True)
        y = x * 2
        z = x.exp()
        dist.all_reduce(z[1:])
        loss = y.sum()
        dist.all_reduce(loss.detach())
        loss.backward()
        dist.broadcast(x, 0)
        for lost in (z, z[1:]):
            with pytest.raises(rl.RushlightError) as found:
                lost.sum().backward()
            assert found.value.code == "G008"
        with pytest.raises(rl.RushlightError) as found:
            rl.autograd.grad(z.sum() + x.sum(), x)
        assert found.value.code == "G008"
        return x.grad.tolist(), loss.item()

    assert dist.spawn(step, 2) == [([2, 2, 2], 12)] * 2
