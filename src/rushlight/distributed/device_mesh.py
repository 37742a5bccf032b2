"""Meshes of ranks: an array of ranks with named axes, and a process group for each of its rows. PyTorch's names.

A mesh is a value: equal meshes are one object, which all ranks of a process share. Groups belong to the rank that asks;
each is made when it is first needed, by the ranks that are in it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import numpy as np

from rushlight.distributed.group import ProcessGroup, init_process_group, member, new_group
from rushlight.eager.creation import tensor as make_tensor
from rushlight.eager.tensor import Tensor
from rushlight.ir.process_group import find_default, registry
from rushlight.support.errors import fail, require

_PREFIX = "mesh"
Names = tuple[str, ...]


def restored_mesh(device_type: str, ranks: object, names: Names | None) -> DeviceMesh:
    """The mesh that a file or another process describes."""
    return DeviceMesh(device_type, ranks, mesh_dim_names=names)


class DeviceMesh:
    """Ranks in an array: `DeviceMesh("cpu", [[0, 1], [2, 3]], mesh_dim_names=("dp", "tp"))`.

    `mesh["tp"]` is the row of this rank along an axis, `mesh["dp", "tp"]` one of several axes. Axes that were flattened
    have a name together. `cut_from` are the meshes that have given this one as a row.
    """

    _interned: ClassVar[dict[tuple[object, ...], DeviceMesh]] = {}
    device_type: str
    shape: tuple[int, ...]
    ranks: tuple[int, ...]
    mesh_dim_names: Names | None
    cut_from: list[DeviceMesh]
    _flattened: dict[str, tuple[int, ...]]

    def __new__(
        cls, device_type: str, mesh: object, *, mesh_dim_names: Sequence[str] | None = None, _init_backend: bool = True
    ) -> DeviceMesh:
        """The mesh of these ranks; A002 where they repeat or are no ranks."""
        array = np.asarray(mesh.tolist() if isinstance(mesh, Tensor) else mesh)
        require(array.dtype.kind in "iu" and array.ndim > 0, "A002", "DeviceMesh: an array of ranks is expected")
        names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        fits = names is None or len(names) == array.ndim == len(set(names))
        require(fits, "A002", "DeviceMesh: one name for each axis is expected, no two alike", names=names)
        ranks = tuple(map(int, array.reshape(-1)))
        require(len(set(ranks)) == len(ranks) > 0, "A002", "DeviceMesh: each rank stands in it once", ranks=ranks)
        key = (device_type, array.shape, ranks, names)
        made = cls._interned.get(key)
        if made is None:
            made = object.__new__(cls)
            made.device_type, made.shape, made.ranks, made.mesh_dim_names = device_type, array.shape, ranks, names
            made.cut_from, made._flattened = [], {}
            made = cls._interned.setdefault(key, made)
        if _init_backend and find_default() is None:
            init_process_group()
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return restored_mesh, (self.device_type, self._array.tolist(), self.mesh_dim_names)

    def __copy__(self) -> DeviceMesh:
        return self

    def __deepcopy__(self, memo: object) -> DeviceMesh:
        return self

    @property
    def _array(self) -> Any:
        return np.array(self.ranks).reshape(self.shape)

    @property
    def mesh(self) -> Tensor:
        """The ranks, as a tensor."""
        return make_tensor(self._array.tolist())

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def size(self, mesh_dim: int | str | None = None) -> int:
        """The number of ranks; of those along an axis."""
        return len(self.ranks) if mesh_dim is None else self.shape[self.axis(mesh_dim)]

    def axis(self, axis: int | str) -> int:
        """The number of an axis, given by number or name. Errors: A002."""
        if isinstance(axis, str):
            if axis not in (self.mesh_dim_names or ()):
                fail("A002", f"DeviceMesh: there is no axis {axis!r}", names=self.mesh_dim_names)
            return (self.mesh_dim_names or ()).index(axis)
        fits = isinstance(axis, int) and -self.ndim <= axis < self.ndim
        require(fits, "A002", f"DeviceMesh: there is no axis {axis}", shape=self.shape)
        return axis % self.ndim

    def get_rank(self) -> int:
        """The rank that asks, of all."""
        return member(None).rank

    def get_coordinate(self) -> list[int] | None:
        """Where this rank stands; None if it is not in the mesh."""
        rank = self.get_rank()
        return list(self.coordinate_of(rank)) if rank in self.ranks else None

    def coordinate_of(self, rank: int) -> tuple[int, ...]:
        """Where a rank stands."""
        place, coordinate = self.ranks.index(rank), list[int]()
        for size in reversed(self.shape):
            place, last = divmod(place, size)
            coordinate.insert(0, last)
        return tuple(coordinate)

    def own_coordinate(self) -> tuple[int, ...]:
        """Where this rank stands; A002 if it is not in the mesh."""
        rank = self.get_rank()
        if rank not in self.ranks:
            fail("A002", f"DeviceMesh: rank {rank} is not in the mesh", mesh=self)
        return self.coordinate_of(rank)

    def rank_at(self, coordinate: Sequence[int]) -> int:
        """The rank that stands somewhere."""
        place = 0
        for index, size in zip(coordinate, self.shape, strict=True):
            place = place * size + index
        return self.ranks[place]

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """The place of this rank along an axis, which a mesh of one axis need not name."""
        if mesh_dim in self._flattened:
            return self[str(mesh_dim)].get_local_rank()
        return self.own_coordinate()[self._only(mesh_dim)]

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The group of this rank's row along an axis, which a mesh of one axis need not name."""
        return self.group_along(self._axes_of(mesh_dim))

    def get_all_groups(self) -> list[ProcessGroup]:
        """The groups of this rank's rows along all axes."""
        return [self.get_group(axis) for axis in range(self.ndim)]

    def _only(self, axis: int | str | None) -> int:
        if axis is not None:
            return self.axis(axis)
        require(self.ndim == 1, "A002", f"DeviceMesh: name one of its {self.ndim} axes", mesh=self)
        return 0

    def _axes_of(self, name: int | str | None) -> tuple[int, ...]:
        """The numbers of the axes that a name stands for: several where these were flattened."""
        known = self._flattened.get(name) if isinstance(name, str) else None
        return (self._only(name),) if known is None else known

    def row(self, axes: Sequence[int]) -> list[tuple[int, ...]]:
        """The coordinates that differ from this rank's along some axes alone, outermost axis first."""
        own = self.own_coordinate()
        spans = [range(size) if axis in axes else (own[axis],) for axis, size in enumerate(self.shape)]
        return list(itertools.product(*spans))

    def group_along(self, axes: Sequence[int]) -> ProcessGroup:
        """The group of the ranks in `row(axes)`; each of them calls this."""
        return _group_of(tuple(sorted(map(self.rank_at, self.row(axes)))))

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        """The ranks that differ from this one along the named axes alone, as a mesh of these axes."""
        chosen = (names,) if isinstance(names, str) else names
        parts = [self._axes_of(name) for name in chosen]
        axes = [axis for part in parts for axis in part]
        require(len(set(axes)) == len(axes), "A002", "DeviceMesh: an axis is named twice", names=names)
        own: list[Any] = list(self.own_coordinate())
        for axis in axes:
            own[axis] = slice(None)
        kept = sorted(axes)
        row = self._array[tuple(own)].transpose([kept.index(axis) for axis in axes])
        sizes = [math.prod([self.shape[axis] for axis in part]) for part in parts]
        made = DeviceMesh(self.device_type, row.reshape(sizes), mesh_dim_names=chosen)
        if self not in made.cut_from:
            made.cut_from.append(self)
        return made

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """The same ranks along one axis, whose name the meshes know then that this one was cut from."""
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ("ranks",))
        for whole in [*self.cut_from, self]:
            axes = tuple([axis for own in self.mesh_dim_names or () for axis in whole._axes_of(own)])
            is_new = name not in (whole.mesh_dim_names or ()) and whole._flattened.get(name, axes) == axes
            require(is_new or self.ndim == 1, "A002", f"DeviceMesh: {name!r} names other axes already", mesh=whole)
            if is_new and axes:
                whole._flattened[name] = axes
        made = DeviceMesh(self.device_type, list(self.ranks), mesh_dim_names=(name,))
        made.cut_from += [whole for whole in self.cut_from if whole not in made.cut_from]
        return made

    def beside(self, other: DeviceMesh) -> DeviceMesh:
        """The mesh of this one's axes and then another's, in a mesh that both are rows of. Errors: A002 without one."""
        names = (*(self.mesh_dim_names or ()), *(other.mesh_dim_names or ()))
        rank = self.get_rank()
        wholes = [one for one in self.cut_from if rank in one.ranks and one in other.cut_from]
        found = list(dict.fromkeys([whole[names] for whole in wholes]))
        if len(found) != 1:
            hint = 'mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp")), then mesh["dp"] and mesh["tp"]'
            fail("A002", "DeviceMesh: two meshes are not rows of one", one=self, other=other, hint=hint)
        return found[0]

    @staticmethod
    def from_group(
        group: ProcessGroup | list[ProcessGroup],
        device_type: str,
        mesh: object = None,
        *,
        mesh_dim_names: Sequence[str] | None = None,
    ) -> DeviceMesh:
        """The mesh of a group's ranks; of several groups, `mesh` says how their ranks stand."""
        ranks = mesh if isinstance(group, list) else list(member(group).ranks)
        require(ranks is not None, "A001", "DeviceMesh: several groups need `mesh`", groups=group)
        return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)

    def __repr__(self) -> str:
        names = "" if self.mesh_dim_names is None else f", mesh_dim_names={self.mesh_dim_names}"
        return f"DeviceMesh({self.device_type!r}, {self._array.tolist()}{names})"


def _group_of(ranks: tuple[int, ...]) -> ProcessGroup:
    """This rank's group of these ranks: the default one, one that was made before, or a new one."""
    world = member(None)
    if ranks == world.ranks:
        return world
    for group in registry().groups.values():
        if group.name.startswith(_PREFIX) and group.ranks == ranks:
            return cast(ProcessGroup, group)
    made = new_group(ranks, use_local_synchronization=True, group_desc=_PREFIX)
    assert isinstance(made, ProcessGroup)
    return made


def init_device_mesh(
    device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: Sequence[str] | None = None
) -> DeviceMesh:
    """The mesh of all ranks, in their order: `init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))`.

    Errors: A002 unless it has as many places as there are ranks.
    """
    if find_default() is None:
        init_process_group()
    world, shape = member(None).size, tuple(mesh_shape)
    count = int(np.prod(shape))
    require(count == world, "A002", f"init_device_mesh: {count} places for {world} ranks", shape=shape)
    return DeviceMesh(device_type, np.arange(world).reshape(shape), mesh_dim_names=mesh_dim_names)
