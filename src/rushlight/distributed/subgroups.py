"""Groups that divide the ranks of another one. PyTorch's names."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.distributed.engine.work import Timeout, seconds
from rushlight.distributed.group import (
    Group,
    GroupMember,
    NoMember,
    ProcessGroup,
    enter,
    get_node_local_size,
    member,
    new_group,
)
from rushlight.support.errors import require

Groups = list[ProcessGroup | NoMember]


def new_subgroups(
    group_size: int | None = None,
    group: Group = None,
    timeout: Timeout = None,
    backend: str | None = None,
    pg_options: object = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup | NoMember, Groups]:
    """Make groups of so many ranks that follow each other; return this rank's, and all.

    Without `group_size` the ranks of each machine are a group. All ranks call this. Errors: A002 where the ranks are
    not a multiple of it.
    """
    ranks = member(group).ranks
    size = get_node_local_size() if group_size is None else group_size
    fits = isinstance(size, int) and 0 < size <= len(ranks) and len(ranks) % size == 0
    require(fits, "A002", f"new_subgroups: {len(ranks)} ranks are no groups of {size}", group_size=group_size)
    parts = [ranks[at : at + size] for at in range(0, len(ranks), size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: Timeout = None,
    backend: str | None = None,
    pg_options: object = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup | NoMember, Groups]:
    """Make a group of each list of ranks; return the one that this rank is in, and all.

    All ranks call this, with the same lists. Errors: A002 for a rank in two of them, or without any list.
    """
    _check_apart("new_subgroups_by_enumeration", ranks_per_subgroup_list)
    made = [new_group(ranks, timeout, backend, pg_options, group_desc=group_desc) for ranks in ranks_per_subgroup_list]
    own = [one for one in made if isinstance(one, ProcessGroup)]
    return (own[0] if own else GroupMember.NON_GROUP_MEMBER), list(made)


def split_group(
    parent_pg: Group = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: Timeout = None,
    pg_options: object = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> ProcessGroup | None:
    """Make groups of the ranks of a group, by their places in it; return this rank's, or None.

    All ranks of the group call this, with the same lists. Errors: A002 for places that are none, or in two lists.
    """
    parent = member(parent_pg)
    lists = [sorted(ranks) for ranks in split_ranks or ()]
    _check_apart("split_group", lists)
    unknown = [rank for ranks in lists for rank in ranks if not 0 <= rank < parent.size]
    require(not unknown, "A002", f"split_group: there is no such rank of {parent.size}", ranks=unknown)
    parent.barrier(f"split_group{lists}").wait()
    parent.made += 1
    own = next((ranks for ranks in lists if parent.rank in ranks), None)
    if own is None:
        return None
    made = ProcessGroup(f"{parent.name}/{parent.made}", parent.engine.split(own), backend or parent.backend)
    made.engine.timeout = seconds(timeout) if timeout is not None else parent.engine.timeout
    enter(made)
    return made


def _check_apart(name: str, lists: Sequence[Sequence[int]]) -> None:
    ranks = [rank for one in lists for rank in one]
    require(bool(lists) and all(lists), "A002", f"{name}: lists of ranks are expected", given=lists)
    require(len(set(ranks)) == len(ranks), "A002", f"{name}: a rank is in one group at most", given=lists)
