"""What every engine does: cases that each rank runs, for any number of ranks, and that check themselves."""

import numpy as np
import pytest

import rushlight as rl
from rushlight import distributed as dist
from rushlight.distributed import _functional_collectives as funcol
from rushlight.support.errors import RushlightError

SHAPES = [(0,), (1,), (7,), (3, 5), (2, 0, 3)]
REAL = [rl.float32, rl.float64, rl.bfloat16, rl.float16]
INTEGERS = [rl.uint8, rl.int8, rl.int16, rl.int32, rl.int64]
DTYPES = [*REAL, *INTEGERS, rl.bool, rl.complex64, rl.complex128]


def _of(rank: int, shape: tuple[int, ...], dtype):
    """The tensor of a rank: small integers, whose reductions every dtype holds."""
    numbers = np.random.default_rng(rank).integers(0, 3, shape)
    return rl.tensor(numbers.tolist(), dtype=dtype).reshape(shape)


def _all(shape: tuple[int, ...], dtype):
    return [_of(rank, shape, dtype) for rank in range(dist.get_world_size())]


def _same(one, other) -> bool:
    return one.dtype is other.dtype and one.shape == other.shape and one.tolist() == other.tolist()


def _folded(tensors, step):
    result = tensors[0]
    for tensor in tensors[1:]:
        result = step(result, tensor)
    return result


STEPS = {
    "sum": lambda x, y: x | y if x.dtype is rl.bool else x + y,
    "product": lambda x, y: x & y if x.dtype is rl.bool else x * y,
    "min": lambda x, y: x & y if x.dtype is rl.bool else rl.minimum(x, y),
    "max": lambda x, y: x | y if x.dtype is rl.bool else rl.maximum(x, y),
    "band": lambda x, y: x & y,
    "bor": lambda x, y: x | y,
    "bxor": lambda x, y: x ^ y,
}


def _takes(op: str, dtype) -> bool:
    if op in ("band", "bor", "bxor"):
        return dtype is rl.bool or dtype in INTEGERS
    return op in ("sum", "product") or not dtype.is_complex


def case_all_reduce_of_every_dtype_and_reduction():
    for dtype in DTYPES:
        for op, step in STEPS.items():
            if not _takes(op, dtype):
                continue
            for shape in SHAPES:
                x = _of(dist.get_rank(), shape, dtype)
                dist.all_reduce(x, op)
                assert _same(x, _folded(_all(shape, dtype), step)), (dtype, op, shape)


def case_average_and_premultiplied_sum():
    world = dist.get_world_size()
    for dtype in (rl.float32, rl.float64, rl.bfloat16):
        x = _of(dist.get_rank(), (5,), dtype)
        dist.all_reduce(x, dist.ReduceOp.AVG)
        total = _folded(_all((5,), rl.float64), STEPS["sum"])
        assert rl.allclose(x.double(), total / world, rtol=1e-2)
        y = _of(dist.get_rank(), (5,), dtype)
        dist.all_reduce(y, dist.ReduceOp("premul_sum", 2.0))
        assert _same(y, (total * 2).to(dtype))


def case_minimum_of_nan_is_nan():
    for op in ("min", "max"):
        x = rl.tensor([1.0, float("nan") if dist.get_rank() == 0 else 2.0])
        dist.all_reduce(x, op)
        assert x[0].item() == 1.0 and x[1].isnan()


def case_large_buffers_are_reduced_in_parts():
    x = rl.arange(2_100_001, dtype=rl.float64) + dist.get_rank()
    dist.all_reduce(x)
    world = dist.get_world_size()
    assert _same(x, rl.arange(2_100_001, dtype=rl.float64) * world + world * (world - 1) // 2)


def case_refused_dtypes():
    wrong = [(rl.ones(2, dtype=rl.complex64), "max"), (rl.ones(2), "band"), (rl.ones(2, dtype=rl.int64), "avg")]
    for x, op in wrong:
        with pytest.raises(RushlightError) as caught:
            dist.all_reduce(x, op)
        assert caught.value.code == "D001"


def case_gathers():
    world = dist.get_world_size()
    for dtype in DTYPES:
        for shape in SHAPES:
            parts = _all(shape, dtype)
            mine = parts[dist.get_rank()]
            whole = rl.zeros(world * shape[0], *shape[1:], dtype=dtype)
            dist.all_gather_into_tensor(whole, mine)
            assert _same(whole, rl.cat(parts))
            listed = [rl.zeros(shape, dtype=dtype) for _ in range(world)]
            dist.all_gather(listed, mine)
            assert all(map(_same, listed, parts))
            root = world - 1
            gathered = [rl.zeros(shape, dtype=dtype) for _ in range(world)] if dist.get_rank() == root else None
            dist.gather(mine, gathered, root)
            assert gathered is None or all(map(_same, gathered, parts))


def case_gather_of_parts_of_other_sizes():
    world = dist.get_world_size()
    sizes = [(3 * rank + 2) % 4 for rank in range(world)]
    listed = [rl.zeros(size) for size in sizes]
    dist.all_gather(listed, _of(dist.get_rank(), (sizes[dist.get_rank()],), rl.float32))
    assert all(_same(one, _of(rank, (sizes[rank],), rl.float32)) for rank, one in enumerate(listed))


def case_broadcast_and_scatter():
    world, rank = dist.get_world_size(), dist.get_rank()
    for root in range(world):
        for dtype in DTYPES:
            x = _of(rank, (4,), dtype)
            dist.broadcast(x, root)
            assert _same(x, _of(root, (4,), dtype))
        part = rl.zeros(3)
        dist.scatter(part, [_of(10 + one, (3,), rl.float32) for one in range(world)] if rank == root else None, root)
        assert _same(part, _of(10 + rank, (3,), rl.float32))


def case_reduce_leaves_the_others_alone():
    world, rank = dist.get_world_size(), dist.get_rank()
    for dtype in (rl.float32, rl.int64, rl.bfloat16):
        x = _of(rank, (6,), dtype)
        dist.reduce(x, world - 1)
        expected = _folded(_all((6,), dtype), STEPS["sum"]) if rank == world - 1 else _of(rank, (6,), dtype)
        assert _same(x, expected)


def case_reduce_scatter():
    world, rank = dist.get_world_size(), dist.get_rank()
    for dtype in (*REAL, rl.int32):
        for op in ("sum", "max", "product"):
            whole = _folded(_all((2 * world, 3), dtype), STEPS[op])
            part = rl.zeros(2, 3, dtype=dtype)
            dist.reduce_scatter_tensor(part, _of(rank, (2 * world, 3), dtype), op)
            assert _same(part, whole[2 * rank : 2 * rank + 2])
    sizes = [rank % 3 for rank in range(world)]
    uneven = rl.zeros(sizes[rank])
    dist.reduce_scatter(uneven, [rl.full((size,), float(at)) for at, size in enumerate(sizes)])
    assert uneven.tolist() == [float(rank * world)] * sizes[rank]


def case_all_to_all():
    world, rank = dist.get_world_size(), dist.get_rank()
    sizes = [[(giver + 2 * taker) % 3 for taker in range(world)] for giver in range(world)]
    for dtype in DTYPES:
        given = _of(rank, (sum(sizes[rank]), 2), dtype)
        out_sizes = [sizes[giver][rank] for giver in range(world)]
        taken = rl.zeros(sum(out_sizes), 2, dtype=dtype)
        dist.all_to_all_single(taken, given, out_sizes, sizes[rank])
        parts = [_of(giver, (sum(sizes[giver]), 2), dtype).split(sizes[giver])[rank] for giver in range(world)]
        assert _same(taken, rl.cat(parts))
    outputs = [rl.zeros(2) for _ in range(world)]
    dist.all_to_all(outputs, [rl.full((2,), float(10 * rank + taker)) for taker in range(world)])
    assert [one[0].item() for one in outputs] == [10.0 * giver + rank for giver in range(world)]


def case_all_to_all_of_parts_that_nobody_takes():
    world, rank = dist.get_world_size(), dist.get_rank()
    for own in (1, 3):  # of which two elements are taken: one would be spread over both
        given, taken = [2] * world, [2] * world
        given[rank] = own
        with pytest.raises(RushlightError, match=f"rank {rank} gives {own} elements to rank {rank}") as caught:
            dist.all_to_all_single(rl.zeros(sum(taken)), rl.ones(sum(given)), taken, given)
        assert caught.value.code == "W002"


def case_tensors_with_gaps():
    base = rl.zeros(4, 3)
    column = base[:, 1]
    column += dist.get_rank() + 1
    dist.all_reduce(column)
    world = dist.get_world_size()
    assert base.tolist() == [[0.0, world * (world + 1) / 2, 0.0]] * 4


def case_messages():
    world, rank = dist.get_world_size(), dist.get_rank()
    if world == 1:
        return
    taken = rl.zeros(3)
    ops = [
        dist.P2POp(dist.isend, rl.full((3,), float(rank)), (rank + 1) % world),
        dist.P2POp(dist.irecv, taken, (rank - 1) % world),
    ]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert taken.tolist() == [float((rank - 1) % world)] * 3
    if rank == 0:
        works = [dist.isend(rl.full((2,), float(tag), dtype=rl.bfloat16), 1, tag=tag) for tag in (5, 6)]
        for work in works:
            work.wait()
    elif rank == 1:
        for tag in (6, 5):
            x = rl.zeros(2, dtype=rl.bfloat16)
            assert dist.recv(x, tag=tag) == 0 and x.tolist() == [float(tag)] * 2


def case_work():
    x = rl.ones(3)
    done: list[int] = []
    work = dist.all_reduce(x, async_op=True)
    work.add_done_callback(lambda: done.append(1))
    while not work.is_completed():
        pass
    assert work.wait() and work.is_success() and work.exception() is None and done == [1]
    assert x.tolist() == [float(dist.get_world_size())] * 3
    dist.barrier()
    dist.monitored_barrier()


def case_objects_between_two_ranks():
    world, rank = dist.get_world_size(), dist.get_rank()
    if world > 1 and rank == 0:
        dist.send_object_list([{"a": 1}, "two"], dst=1)
        dist.send_object_list([3], dst=1)
    elif world > 1 and rank == 1:
        values = [None, None]
        assert dist.recv_object_list(values, src=0) == 0 and values == [{"a": 1}, "two"]
        one = [None]
        assert dist.recv_object_list(one) == 0 and one == [3]


def case_futures_of_work():
    x = rl.ones(3)
    future = dist.all_reduce(x, async_op=True).get_future()
    half = future.then(lambda done: done.value()[0] / 2)
    assert half.wait().tolist() == [dist.get_world_size() / 2] * 3 and future.done()
    (found,) = dist.all_reduce(x, async_op=True).result()
    assert found is x


def case_groups():
    world, rank = dist.get_world_size(), dist.get_rank()
    halves = [list(range(0, world, 2)), list(range(1, world, 2))]
    groups = [dist.new_group(ranks) for ranks in halves if ranks]
    mine = groups[rank % 2]
    assert dist.get_process_group_ranks(mine) == halves[rank % 2]
    x = rl.full((2,), float(rank))
    dist.all_reduce(x, group=mine)
    assert x.tolist() == [float(sum(halves[rank % 2]))] * 2
    y = rl.full((2,), float(rank))
    dist.broadcast(y, halves[rank % 2][-1], group=mine)
    assert y.tolist() == [float(halves[rank % 2][-1])] * 2
    assert dist.get_global_rank(mine, dist.get_rank(mine)) == rank
    dist.destroy_process_group(mine)
    with pytest.raises(RushlightError, match="was destroyed"):
        dist.all_reduce(y, group=mine)


def case_functional_collectives_compile():
    world, rank = dist.get_world_size(), dist.get_rank()

    @rl.compile(fullgraph=True)
    def f(x):
        return funcol.reduce_scatter_tensor(funcol.all_gather_tensor(x, 0) * 2, "sum", 0)

    x = rl.full((2,), float(rank)).requires_grad_()
    out = f(x)
    out.sum().backward()
    assert out.tolist() == [2.0 * world * rank] * 2 and x.grad.tolist() == [2.0 * world] * 2


CASES = {name.removeprefix("case_"): case for name, case in sorted(globals().items()) if name.startswith("case_")}
