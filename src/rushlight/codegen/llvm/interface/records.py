"""The interface of a native package: what a C program passes to it, and where each value goes."""

from __future__ import annotations

from rushlight.codegen.llvm.entry import entry
from rushlight.ir.type import TensorType
from rushlight.support.frozen import frozen
from rushlight.sym import Condition, SizeExpr

STATUS_ARENA, STATUS_CHECK = entry.STATUS_ARENA, entry.STATUS_ASSERTION  # a package returns what its entry returned
STATUS_NULL, STATUS_RANGE, STATUS_PROCESSOR, STATUS_ALIGNMENT = 2, 3, 4, 5
"""What a package's functions return besides 0; `STATUS_CHECK` + n is check n."""

PARALLEL_DATA, PARALLEL_FUNCTION = 9, 10
"""Words of the context that hold the caller's function for parallel loops, and what it is given first."""


@frozen
class SizeParameter:
    """A size that the caller passes, with its range.

    Where a tensor shows it, that is number `tensor` of the interface: its size `dim` is `scale` times it plus `offset`.
    """

    name: str
    symbol: SizeExpr
    lower: int
    upper: int | None
    multiple_of: int
    tensor: int | None
    dim: int
    scale: int
    offset: int


@frozen
class TensorParameter:
    """A tensor of the entry, in the order of its descriptors.

    `kind` says where its address comes from: "input", "argument", "state" and "output" are pointers of the caller;
    "argument", which is the caller's, and "state", which was the program's, are also written to. A "weight" lies
    `offset` bytes behind the weights' address; "size" is the integer `symbol` and "number" a double of the caller.
    `title` is the name in the program.
    """

    kind: str
    name: str
    type: TensorType
    title: str
    offset: int = 0
    symbol: SizeExpr | None = None

    @property
    def is_passed(self) -> bool:
        """Whether it is a parameter of the C function."""
        return self.kind in ("input", "argument", "state", "output", "number")

    @property
    def is_written(self) -> bool:
        """Whether a run writes to it."""
        return self.kind in ("argument", "state", "output")


@frozen
class Interface:
    """A package's interface: `name` begins its symbols. `conditions` are what else is assumed of sizes."""

    name: str
    sizes: tuple[SizeParameter, ...]
    tensors: tuple[TensorParameter, ...]
    conditions: tuple[Condition, ...]

    @property
    def passed(self) -> tuple[TensorParameter, ...]:
        """The tensors and numbers that the caller passes, in order."""
        return tuple([tensor for tensor in self.tensors if tensor.is_passed])

    @property
    def passed_in(self) -> tuple[TensorParameter, ...]:
        """Those that are a call's arguments in the program too."""
        return tuple([tensor for tensor in self.tensors if tensor.kind in ("input", "argument", "number")])

    @property
    def names(self) -> dict[SizeExpr, str]:
        """What the caller calls each size."""
        return {size.symbol: size.name for size in self.sizes}

    @property
    def has_weights(self) -> bool:
        """Whether the caller passes the address of weights."""
        return any(tensor.kind == "weight" for tensor in self.tensors)


@frozen
class Variant:
    """The code for one level of the processor's features; `needs_arena` if it has an arena at all."""

    level: int
    entry: str
    sizing: str
    needs_arena: bool
