"""Placements: how a tensor lies on one axis of a mesh of ranks. PyTorch's names and texts."""

from __future__ import annotations

from typing import ClassVar, Final, Self

from rushlight.support.errors import require

REDUCTIONS: Final = ("sum", "avg", "product", "max", "min")
"""What makes one value of partial ones."""


class Placement:
    """One of `Shard`, `Replicate` and `Partial`. Equal placements are one object, compared by identity."""

    __slots__ = ("__weakref__", "_fields")

    _interned: ClassVar[dict[tuple[object, ...], Placement]] = {}
    _fields: tuple[object, ...]

    @classmethod
    def _of(cls, *fields: object) -> Self:
        key = (cls, *fields)
        made = Placement._interned.get(key)
        if made is None:
            fresh = object.__new__(cls)
            object.__setattr__(fresh, "_fields", fields)
            made = Placement._interned.setdefault(key, fresh)
        assert isinstance(made, cls)
        return made

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen: {name} cannot be set")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self._fields

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each rank holds a part along a dim: along `dim`, where one is given."""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """Whether each rank holds all of the tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the ranks hold values that a reduction makes one: by `reduce_op`, where one is given."""
        return isinstance(self, Partial) and (reduce_op is None or self.reduce_op == reduce_op)


class Shard(Placement):
    """Each rank holds a part along `dim`: of ceil(size / ranks) places, and the last ones of what is left.

    `Shard(0).is_shard(0)`.
    """

    __slots__ = ()

    def __new__(cls, dim: int) -> Self:
        """The one object of this dim; A001 unless it is an int."""
        require(type(dim) is int, "A001", "Shard: dim is an int", dim=dim)
        return cls._of(dim)

    @property
    def dim(self) -> int:
        """The dim of the tensor that is divided."""
        dim = self._fields[0]
        assert isinstance(dim, int)
        return dim

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"


class Replicate(Placement):
    """Each rank holds all of the tensor."""

    __slots__ = ()

    def __new__(cls) -> Self:
        """The one object."""
        return cls._of()

    def __repr__(self) -> str:
        return "Replicate()"

    def __str__(self) -> str:
        return "R"


class Partial(Placement):
    """The ranks hold values of the tensor's shape; their sum, or another reduction, is the tensor."""

    __slots__ = ()

    def __new__(cls, reduce_op: str = "sum") -> Self:
        """The one object of this reduction; A002 unless it is one of `REDUCTIONS`."""
        require(reduce_op in REDUCTIONS, "A002", "Partial: there is no such reduction", reduce_op=reduce_op)
        return cls._of(reduce_op)

    @property
    def reduce_op(self) -> str:
        """The name of the reduction."""
        return str(self._fields[0])

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"
