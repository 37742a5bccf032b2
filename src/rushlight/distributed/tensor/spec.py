"""How a tensor lies on a mesh: frozen, and one object for each combination, so that caches compare by identity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Self

from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.tensor.layout import Box, box_of, is_even
from rushlight.eager.symbols import unwrap_size, wrap_size
from rushlight.ir.placement import Partial, Placement, Replicate, Shard
from rushlight.ir.type import TensorType
from rushlight.support.errors import fail, require
from rushlight.sym import Size, eq, evaluate, floordiv, guard, mod
from rushlight.sym.query import symbols_of

_TYPICAL: Final = 1 << 12


class DTensorSpec:
    """A mesh, a placement for each of its axes, and the order in which axes that shard one dim cut it.

    Sizes are no part of it.
    """

    __slots__ = ("__weakref__", "mesh", "order", "placements")

    _interned: ClassVar[dict[tuple[object, ...], DTensorSpec]] = {}
    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    order: tuple[int, ...]

    def __new__(cls, mesh: DeviceMesh, placements: Sequence[Placement], order: Sequence[int] | None = None) -> Self:
        """The one object of these parts. The order is kept where several axes shard one dim."""
        placements = tuple(placements)
        axes = tuple(range(len(placements)))
        dims = [placement.dim for placement in placements if isinstance(placement, Shard)]
        repeats = len(set(dims)) < len(dims)
        order = tuple(order) if order is not None and repeats else axes
        key = (mesh, placements, order)
        made = cls._interned.get(key)
        if made is None:
            fresh = object.__new__(cls)
            for name, value in (("mesh", mesh), ("placements", placements), ("order", order)):
                object.__setattr__(fresh, name, value)
            made = cls._interned.setdefault(key, fresh)
        assert isinstance(made, cls)
        return made

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a DTensorSpec is frozen: {name} cannot be set")

    def __reduce__(self) -> tuple[object, ...]:
        return DTensorSpec, (self.mesh, self.placements, self.order)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def box(self, shape: Sequence[int], coordinate: Sequence[int] | None = None) -> Box:
        """What the rank at a coordinate holds of a tensor of this shape; this rank by default."""
        at = self.mesh.own_coordinate() if coordinate is None else coordinate
        return box_of(shape, self.placements, self.mesh.shape, at, self.order)

    def with_placements(self, placements: Sequence[Placement]) -> DTensorSpec:
        """The spec with other placements, in the same order of axes."""
        return DTensorSpec(self.mesh, placements, self.order)

    @property
    def is_replicated(self) -> bool:
        """Whether each rank holds all of it."""
        return all(placement.is_replicate() for placement in self.placements)

    def __repr__(self) -> str:
        order = "" if self.order == tuple(range(len(self.order))) else f", order={self.order}"
        return f"DTensorSpec({self.mesh}, {text_of(self.placements)}{order})"


def sizes_of(type_: TensorType) -> tuple[Any, ...]:
    """The sizes of a type: ints, and sizes of a trace."""
    return tuple(type_.shape)


def plain_sizes(sizes: Sequence[object]) -> tuple[Any, ...]:
    """Sizes as users have them, as ints and sizes of a trace."""
    return tuple([unwrap_size(size) for size in sizes])


def typical(size: Size) -> int:
    """A number for a size of a trace, which depends on the program alone: by it choices are made that hold for all."""
    return size if isinstance(size, int) else evaluate(size, dict.fromkeys(symbols_of(size), _TYPICAL))


def text_of(placements: Sequence[Placement]) -> str:
    """Placements as messages show them: `[S(0), R]`."""
    return f"[{', '.join(map(str, placements))}]"


def normalized(placements: object, mesh: DeviceMesh, rank: int, name: str) -> tuple[Placement, ...]:
    """Placements of a tensor of `rank` dims, with dims from 0. Errors: A001, A002, S002."""
    if placements is None:
        return tuple([Replicate() for _ in mesh.shape])
    given = (placements,) if isinstance(placements, Placement) else placements
    require(isinstance(given, (tuple, list)), "A001", f"{name}: a list of placements is expected", given=placements)
    assert isinstance(given, (tuple, list))
    message = f"{name}: one placement for each of {mesh.ndim} axes of the mesh is expected"
    require(len(given) == mesh.ndim, "A002", message, given=given)
    return tuple([_normalized(one, rank, name) for one in given])


def _normalized(placement: object, rank: int, name: str) -> Placement:
    require(isinstance(placement, Placement), "A001", f"{name}: a placement is expected", given=placement)
    assert isinstance(placement, Placement)
    if isinstance(placement, Shard):
        if not -rank <= placement.dim < rank:
            fail("S002", f"{name}: {placement} of a tensor of {rank} dims", placement=placement)
        return Shard(placement.dim % rank)
    return placement


def is_evenly_sharded(shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]) -> bool:
    """Whether all ranks hold parts of one shape."""
    return is_even(plain_sizes(shape), normalized(placements, mesh, len(shape), "is_evenly_sharded"), mesh.shape)


def even_local_shape(shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]) -> tuple[Any, ...]:
    """The shape of the part that each rank holds: `even_local_shape((8, 3), mesh, [Shard(0)])` on 4 ranks is (2, 3).

    Errors: W024 where they hold parts of different shapes.
    """
    sizes = list(plain_sizes(shape))
    for axis, placement in enumerate(normalized(placements, mesh, len(shape), "even_local_shape")):
        if isinstance(placement, Shard):
            size, count = sizes[placement.dim], mesh.shape[axis]
            if not guard(eq(mod(size, count), 0)):
                message = f"even_local_shape: {size} places of dim {placement.dim} on {count} ranks of axis {axis}"
                fail("W024", message, shape=tuple(shape), placements=text_of(placements))
            sizes[placement.dim] = floordiv(size, count)
    return tuple(map(wrap_size, sizes))


def reduced_placements(placements: Sequence[Placement]) -> tuple[Placement, ...]:
    """The placements of a gradient of what lies so: a gradient of partial values is whole on each rank."""
    return tuple([Replicate() if isinstance(one, Partial) else one for one in placements])


class Placed:
    """A spec as one rank has it: what a graph of divided tensors is for. One object for each spec and rank."""

    __slots__ = ("rank", "spec")

    _interned: ClassVar[dict[tuple[DTensorSpec, int], Placed]] = {}

    def __init__(self, spec: DTensorSpec, rank: int) -> None:
        self.spec = spec
        self.rank = rank

    @classmethod
    def of(cls, spec: DTensorSpec) -> Placed:
        """The spec as the rank has it that asks."""
        rank = spec.mesh.get_rank()
        return cls._interned.setdefault((spec, rank), cls(spec, rank))
