"""Collectives of Python objects."""

import pytest

import rushlight as rl
from rushlight import distributed as dist


@pytest.mark.parametrize("world", [1, 2, 3])
def test_objects_of_all_ranks(world: int):
    def step():
        rank = dist.get_rank()
        everywhere = [None] * world
        dist.all_gather_object(everywhere, {"rank": rank, "text": "x" * rank * 1000})
        gathered = [None] * world if rank == world - 1 else None
        dist.gather_object((rank, None), gathered, dst=world - 1)
        sent = ["first", rl.ones(2)] if rank == 0 else [None, None]
        dist.broadcast_object_list(sent, src=0)
        mine = [None]
        dist.scatter_object_list(mine, [f"to {one}" for one in range(world)] if rank == 0 else None, src=0)
        return everywhere, gathered, sent, mine

    for rank, (everywhere, gathered, sent, mine) in enumerate(dist.spawn(step, world)):
        assert everywhere == [{"rank": one, "text": "x" * one * 1000} for one in range(world)]
        assert gathered == ([(one, None) for one in range(world)] if rank == world - 1 else None)
        assert sent[0] == "first" and sent[1].tolist() == [1, 1]
        assert mine == [f"to {rank}"]


@pytest.mark.parametrize(
    "call",
    [
        lambda: dist.all_gather_object([None], 1),
        lambda: dist.gather_object(1, [None, None], dst=1 - dist.get_rank()),
        lambda: dist.scatter_object_list([], None, src=0),
    ],
)
def test_lists_of_wrong_lengths_are_refused(call):
    with pytest.raises(rl.RushlightError) as found:
        dist.spawn(call, 2)
    assert found.value.code == "A002"
