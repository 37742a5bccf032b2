"""Groups that divide the ranks of another one, and timeouts of groups."""

from datetime import timedelta

import pytest

import rushlight as rl
from rushlight import distributed as dist


def total(group):
    x = rl.tensor([float(dist.get_rank())])
    dist.all_reduce(x, group=group)
    return x.item()


@pytest.mark.parametrize(("size", "wanted"), [(1, [0, 1, 2, 3]), (2, [1, 1, 5, 5]), (4, [6] * 4), (None, [6] * 4)])
def test_groups_of_a_size(size, wanted) -> None:
    def run():
        own, every = dist.new_subgroups(size)
        assert len(every) == 4 // (size or 4) and own in every
        return total(own), dist.get_process_group_ranks(own)

    found = dist.spawn(run, 4)
    assert [one for one, _ in found] == wanted
    assert all(rank in ranks for rank, (_, ranks) in enumerate(found))


def test_groups_by_lists_leave_ranks_out() -> None:
    def run():
        own, every = dist.new_subgroups_by_enumeration([[0, 2], [3]])
        assert len(every) == 2
        return total(own) if dist.get_rank(own) >= 0 else own

    assert dist.spawn(run, 4) == [2.0, dist.GroupMember.NON_GROUP_MEMBER, 2.0, 3.0]


def test_a_group_is_split_by_places_in_it() -> None:
    def run():
        odd = dist.new_group([1, 3, 5])
        if dist.get_rank() % 2 == 0:
            return None
        part = dist.split_group(odd, [[0, 2], [1]], timeout=timedelta(seconds=7))
        assert part.engine.timeout == 7 and part.name != odd.name
        again = dist.split_group(odd, [[2]])
        assert (again is None) == (dist.get_rank() != 5)
        return dist.get_process_group_ranks(part), total(part), total(odd)

    assert dist.spawn(run, 6) == [None, ([1, 5], 6.0, 9.0), None, ([3], 3.0, 9.0), None, ([1, 5], 6.0, 9.0)]


def test_a_split_of_the_default_group_is_a_group_of_a_mesh() -> None:
    def run():
        part = dist.split_group(split_ranks=[[0, 1], [2, 3]])
        whole = rl.zeros(2)
        dist.all_gather_into_tensor(whole, rl.tensor([float(dist.get_rank())]), group=part)
        dist.destroy_process_group(part)
        return whole.tolist()

    assert dist.spawn(run, 4) == [[0, 1], [0, 1], [2, 3], [2, 3]]


@pytest.mark.parametrize(
    "call",
    [
        lambda: dist.new_subgroups(3),
        lambda: dist.new_subgroups(0),
        lambda: dist.new_subgroups(8),
        lambda: dist.new_subgroups("two"),
        lambda: dist.new_subgroups_by_enumeration([[0, 1], [1, 2]]),
        lambda: dist.new_subgroups_by_enumeration([]),
        lambda: dist.split_group(None, [[0, 4]]),
        lambda: dist.split_group(None, [[0], []]),
        lambda: dist.split_group(),
        lambda: dist.group.WORLD.set_timeout(0),
    ],
)
def test_misuse_is_said(call) -> None:
    with pytest.raises(rl.RushlightError) as found:
        dist.spawn(call, 4)
    assert found.value.code == "A002"


def test_ranks_that_split_otherwise_are_named() -> None:
    def run():
        dist.split_group(None, [[0], [1]] if dist.get_rank() else [[0, 1]])

    with pytest.raises(rl.DistError, match="disagree in the argument"):
        dist.spawn(run, 2)


def test_the_timeout_of_a_group_is_changed() -> None:
    def run():
        dist.group.WORLD.set_timeout(timedelta(minutes=2))
        later = dist.new_group([0])
        dist.group.WORLD.set_timeout(None)
        return later.engine.timeout, dist.group.WORLD.engine.timeout

    assert dist.spawn(run, 1) == [(120.0, None)]
