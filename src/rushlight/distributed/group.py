"""Process groups: made, found by name, asked, destroyed. PyTorch's names."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import ClassVar

from rushlight.distributed.engine.alone import Alone
from rushlight.distributed.engine.call import Call
from rushlight.distributed.engine.engine import Engine, Verbs
from rushlight.distributed.engine.fake import Fake, Ledger
from rushlight.distributed.engine.mpi import connected
from rushlight.distributed.engine.work import Timeout, Work, seconds
from rushlight.eager.dispatch import STATE, State, refuse_in_graphs
from rushlight.ir import process_group
from rushlight.ir.process_group import DEFAULT, find_default, has_own_registry, register, registry, unregister
from rushlight.support import settings
from rushlight.support.errors import fail, require

_GROUPS_CHANGE = "it changes which groups there are"


class _Watchers(threading.local):
    def __init__(self) -> None:
        self.known: list[Callable[[Call], None]] = []


WATCHERS = _Watchers()
"""Functions that are told each call of this thread, which is one rank."""


class ProcessGroup(Verbs):
    """Ranks that call collectives together: an engine and a name, which graphs hold.

    `given` is a default group that a launcher or `spawn` has made: `init_process_group` takes it over.
    """

    def __init__(self, name: str, engine: Engine, backend: str, *, given: bool = False) -> None:
        self.name = name
        self.engine = engine
        self.backend = backend
        self.given = given
        self.made = 0  # groups that were made from this one

    @property
    def rank(self) -> int:
        """The place of this rank in the group."""
        return self.engine.rank

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of the group as numbers of the group of all."""
        return self.engine.ranks

    @property
    def group_name(self) -> str:
        """The name."""
        return self.name

    def set_timeout(self, timeout: Timeout) -> None:
        """Say how long the group's calls wait for other ranks; None for ever."""
        limit = seconds(timeout)
        fits = limit is None or (isinstance(limit, (int, float)) and limit > 0)
        require(fits, "A002", "set_timeout: a time above 0 is expected", timeout=timeout)
        self.engine.timeout = limit

    def issue(self, call: Call) -> Work:
        """Begins a call."""
        require(registry().groups.get(self.name) is self, "W001", f"distributed: group {self.name!r} was destroyed")
        for tell in WATCHERS.known:
            tell(call)
        return self.engine.issue(call)

    def __repr__(self) -> str:
        return f"ProcessGroup({self.name!r}, {self.backend!r}, rank={self.rank}, ranks={list(self.ranks)})"


class NoMember:
    """What `new_group` gives a rank that is not in the group."""

    def __repr__(self) -> str:
        return "GroupMember.NON_GROUP_MEMBER"


_EVERYWHERE = ("fake", "gloo", "self", "threads")
# Variables by which launchers tell the place of a rank among those of its machine.
_LOCAL_RANKS = ("LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")
Group = ProcessGroup | NoMember | None
"""A group as calls name it; None is the default group."""


class _Members(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:  # noqa: N802 - PyTorch's name
        """The group of all ranks; None before `init_process_group`."""
        return current()


class GroupMember(metaclass=_Members):
    """`GroupMember.WORLD`, and what a rank outside of a group has in its place."""

    NON_GROUP_MEMBER: ClassVar[NoMember] = NoMember()


group = GroupMember


def current() -> ProcessGroup | None:
    """The default group, where there is one."""
    found = find_default()
    assert found is None or isinstance(found, ProcessGroup)
    return found


def member(group: object) -> ProcessGroup:
    """The group that a call names, by object, name or mesh of one dim; the default group for None.

    Errors: W001 where there is none, A002 on a rank that is not in it.
    """
    if group is None:
        found = process_group.default()
    else:
        message = "distributed: this rank is not in the group"
        require(not isinstance(group, NoMember), "A002", message, hint="call it on the ranks of the group alone")
        found = process_group.named(group) if isinstance(group, str) else group
        find: Callable[[], object] | None = getattr(found, "get_group", None)
        found = found if find is None else find()
    require(isinstance(found, ProcessGroup), "A001", "distributed: a process group is expected", group=group)
    assert isinstance(found, ProcessGroup)
    return found


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: Timeout = None,
    world_size: int = -1,
    rank: int = -1,
    store: object = None,
    group_name: str = "",
    pg_options: object = None,
    device_id: object = None,
) -> None:
    """Makes the group of all ranks: that of `spawn` or the launcher, or of one rank.

    With `backend="fake"` this is rank `rank`, or the first, of `world_size` ranks that do not run. Errors: A002 where
    `world_size` or `rank` are not what they are; W001 where there is a group already.
    """
    refuse_in_graphs("init_process_group", _GROUPS_CHANGE)
    made = current()
    require(made is None or made.given, "W001", "init_process_group: there is a default process group already")
    if made is None:
        engine = _fake(rank, world_size) if backend == "fake" else _engine(backend)
        made = ProcessGroup(DEFAULT, engine, backend or "self")
    made.given = False
    fits = world_size in (-1, made.size) and rank in (-1, made.rank)
    is_rank = f"this is rank {made.rank} of {made.size}"
    message = f"init_process_group: {is_rank}"
    hint = "start the program with `rushlight launch -n N`, or a function with distributed.spawn"
    require(fits, "A002", message, world_size=world_size, rank=rank, hint=hint)
    made.backend = backend or made.backend
    if timeout is not None:
        made.engine.timeout = seconds(timeout)
    enter(made)


def _engine(backend: str | None) -> Engine:
    """The engine of the process: MPI's where a launcher has started several, else that of one rank."""
    if backend == "self":
        return Alone()
    told = settings.of_launcher()
    if backend == "mpi" or any(name in told for name in ("PMI_SIZE", "PMIX_RANK")):
        return connected()
    others = {name: told[name] for name in ("SLURM_STEP_NUM_TASKS", "WORLD_SIZE") if told.get(name, "1") != "1"}
    if others:
        hint = "rushlight launch -n N script.py, or srun --mpi=pmi2 rushlight run script.py"
        fail("W008", "init_process_group: there are other ranks, and nothing connects them", told=others, hint=hint)
    return Alone()


def _fake(rank: int, world_size: int) -> Engine:
    """One rank of a world without data."""
    require(world_size >= 1, "A002", "init_process_group: a fake group needs its world_size", world_size=world_size)
    rank = max(rank, 0)
    require(rank < world_size, "A002", f"init_process_group: no rank of {world_size}", rank=rank)
    return Fake(rank, tuple(range(world_size)), Ledger())


def enter(made: ProcessGroup) -> None:
    """Makes a group known by its name."""
    register(made)
    _tell_ranks()


def _tell_ranks() -> None:
    """Tells compiled functions, which may depend on ranks and sizes, of the groups that there are now."""
    known = sorted(registry().groups.items())
    texts = [f"{name}: {group.rank} of {list(group.ranks)}" for name, group in known]
    state = STATE if has_own_registry() else State
    state.ranks = sys.intern("; ".join(texts)) if texts else None


def destroy_process_group(group: Group = None) -> None:
    """Forgets a group; without one, all groups."""
    refuse_in_graphs("destroy_process_group", _GROUPS_CHANGE)
    if group is None:
        for made in list(registry().groups.values()):
            destroy_process_group(member(made))
        return
    found = member(group)
    unregister(found)
    _tell_ranks()
    found.engine.close()


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: Timeout = None,
    backend: str | None = None,
    pg_options: object = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: object = None,
) -> ProcessGroup | NoMember:
    """A group of some ranks. All ranks call this, with the same ranks; W002 where they do not.

    With `use_local_synchronization` the ranks of the group alone do.
    """
    refuse_in_graphs("new_group", _GROUPS_CHANGE)
    world = member(None)
    chosen = tuple(sorted(range(world.size) if ranks is None else ranks))
    known = len(set(chosen)) == len(chosen) > 0 and set(chosen) <= set(range(world.size))
    require(known, "A002", f"new_group: different ranks of 0 to {world.size - 1} are expected", ranks=ranks)
    if use_local_synchronization:
        name = f"{group_desc or 'local'}:{','.join(map(str, chosen))}"
        name += f"#{sum(one.startswith(name) for one in registry().groups)}"
    else:
        world.made += 1
        name = f"group{world.made}"
        world.barrier(f"new_group{list(chosen)}").wait()
    if world.rank not in chosen:
        return GroupMember.NON_GROUP_MEMBER
    made = ProcessGroup(name, world.engine.split(chosen), backend or world.backend)
    made.engine.timeout = seconds(timeout) if timeout is not None else world.engine.timeout
    enter(made)
    return made


def is_available() -> bool:
    """Return True."""
    return True


def is_mpi_available() -> bool:
    """Whether mpi4py is installed."""
    return find_spec("mpi4py") is not None


def is_gloo_available() -> bool:
    """Return True: the name means the engine that there is."""
    return True


def is_nccl_available() -> bool:
    """Return False: there are no GPUs."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether `rushlight launch` has started this process."""
    return bool(settings.get().launch_dir)


def is_backend_available(backend: str) -> bool:
    """Whether a name of a backend means an engine that is here."""
    name = backend.lower()
    return is_mpi_available() if name == "mpi" else name in _EVERYWHERE


def get_default_backend_for_device(device: object) -> str:
    """The name of a device's backend: `gloo`, which here means the engine that there is."""
    return "gloo"


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The place of this rank among those of its machine, or `fallback_rank` where no launcher tells it.

    LOCAL_RANK, which torchrun and users set, comes first. Errors: A002 without any.
    """
    told = settings.of_launcher()
    found = next((told[name] for name in _LOCAL_RANKS if name in told), fallback_rank)
    if found is None:
        fail("A002", "get_node_local_rank: no launcher tells it", hint="start with `rushlight launch`")
    return int(found)


def get_node_local_size() -> int:
    """How many ranks this machine has, as a launcher tells; all where none does."""
    told = settings.of_launcher()
    return int(told["LOCAL_WORLD_SIZE"]) if "LOCAL_WORLD_SIZE" in told else get_world_size()


def is_initialized() -> bool:
    """Whether there is a default process group."""
    return current() is not None


def get_rank(group: Group = None) -> int:
    """The place of this rank in a group; -1 if it is not in it."""
    return -1 if isinstance(group, NoMember) else member(group).rank


def get_world_size(group: Group = None) -> int:
    """The number of ranks of a group; -1 for a rank that is not in it."""
    return -1 if isinstance(group, NoMember) else member(group).size


def get_backend(group: Group = None) -> str:
    """The name of a group's backend, as it was asked for."""
    return member(group).backend


def get_process_group_ranks(group: Group = None) -> list[int]:
    """The ranks of a group as numbers of the group of all."""
    return list(member(group).ranks)


def get_global_rank(group: Group, group_rank: int) -> int:
    """The number in the group of all of a group's rank; A002 where there is none."""
    ranks = member(group).ranks
    require(0 <= group_rank < len(ranks), "A002", f"get_global_rank: no rank of {len(ranks)}", group_rank=group_rank)
    return ranks[group_rank]


def get_group_rank(group: Group, global_rank: int) -> int:
    """The place in a group of a rank of the group of all; A002 if it is not in it."""
    ranks = member(group).ranks
    if global_rank not in ranks:
        fail("A002", "get_group_rank: the rank is not in the group", global_rank=global_rank, ranks=list(ranks))
    return ranks.index(global_rank)
