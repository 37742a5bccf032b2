"""Where code goes: regions of a function that nest like its loops, and the values known in each.

The lines of a loop's body are collected apart and appended to the region around it when the loop is finished. Until
then that region stays open, so a term that is met inside the loop can still be placed before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.codegen.llvm.builder.analysis import ANY_LOAD, Analysis, unguarded
from rushlight.codegen.llvm.builder.target import CodeTarget
from rushlight.codegen.llvm.builder.vector_types import Shape
from rushlight.ir.kernel import Kernel
from rushlight.ir.scalar import Buffer, Scalar
from rushlight.sym import SizeExpr


class Value:
    """A term's value in a function: its text, its lanes, and the region that defines it (None for a constant)."""

    __slots__ = ("lanes", "scope", "text", "wide")

    def __init__(self, text: str, lanes: int, scope: Scope | None) -> None:
        self.text = text
        self.lanes = lanes
        self.scope = scope
        self.wide: dict[int, str] = {}


class Lanes:
    """The axes that run in lanes of vectors: lane l stands for iteration `base + l`. `mask` names the active lanes.

    `uniform` are size expressions that depend on these axes, yet are known to be equal in all lanes. `aligned` says
    that `base` is a multiple of `width`.
    """

    __slots__ = ("aligned", "axes", "base", "mask", "uniform", "width")

    def __init__(self, axes: int, width: int, base: str, mask: str | None, aligned: bool = False) -> None:
        self.uniform: frozenset[SizeExpr] = frozenset()
        self.aligned = aligned
        self.axes = axes
        self.width = width
        self.base = base
        self.mask = mask

    def again(self, width: int) -> Lanes:
        """The same lanes, or the first of them, all active, for a region of their own."""
        found = Lanes(self.axes, width, self.base, None, self.aligned)
        found.uniform = self.uniform
        return found


class Mask:
    """The condition under which a guard's first value is evaluated: a bool of some lanes, known from `scope` on.

    It holds where all of its `factors` do, which may be known in fewer lanes, and further out.
    """

    __slots__ = ("factors", "key", "lanes", "scope", "text")

    def __init__(self, text: str, lanes: int, scope: Scope, key: Any, factors: tuple[Value, ...] = ()) -> None:
        self.text = text
        self.lanes = lanes
        self.scope = scope
        self.key = key
        self.factors = factors or (Value(text, lanes, scope),)


class Names:
    """Fresh names in one function, and what its regions know."""

    __slots__ = ("count", "memos")

    def __init__(self) -> None:
        self.count = 0
        self.memos: list[dict[Any, Value]] = []

    def value(self) -> str:
        """A name for a value."""
        self.count += 1
        return f"%v{self.count}"

    def label(self) -> str:
        """A name for a basic block."""
        self.count += 1
        return f"b{self.count}"


class Scope:
    """A region: its lines so far, the label of its last basic block, and what is known there.

    `axes` are the axes it binds; terms that depend on them stay inside. `hold` are the bits of `Analysis.touched` of
    terms that may not leave: reads of buffers that the region stores to, loads where it may not run at all.
    """

    __slots__ = (
        "axes",
        "depth",
        "first",
        "hold",
        "label",
        "lines",
        "memo",
        "names",
        "parent",
        "pinned",
        "sizes",
        "vector",
    )

    def __init__(
        self,
        names: Names,
        label: str,
        parent: Scope | None,
        axes: int = 0,
        hold: int = 0,
        vector: Lanes | None = None,
    ) -> None:
        self.names = names
        self.lines: list[str] = []
        self.first = self.label = label
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.axes = axes
        self.hold = hold
        self.vector = vector
        self.memo: dict[Any, Value] = {}
        self.pinned: dict[Any, int] = {}
        self.sizes: dict[Any, str] = {}
        names.memos.append(self.memo)

    def inner(self, label: str, axes: int = 0, hold: int = 0, vector: Lanes | None = None) -> Scope:
        """A region inside this one, its first block named `label`."""
        return Scope(self.names, label, self, axes, hold, vector or self.vector)

    def let(self, instruction: str) -> str:
        """Appends an instruction and returns the name of its result."""
        names = self.names
        names.count += 1
        name = f"%v{names.count}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        """Appends an instruction without a result."""
        self.lines.append("  " + instruction)

    def open(self, label: str) -> None:
        """Starts a basic block."""
        self.lines.append(f"{label}:")
        self.label = label

    def jump(self, label: str) -> None:
        """Ends the block."""
        self.lines.append(f"  br label %{label}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        """Ends the block by a choice."""
        self.lines.append(f"  br i1 {condition}, label %{yes}, label %{no}")

    def take(self, inner: Scope) -> None:
        """Appends a finished inner region, its first label included, without a jump to it."""
        lines = self.lines
        lines.extend(inner.lines)
        self.label = inner.label

    def forget(self, buffer_bit: int) -> None:
        """Drops what was read from a buffer that is stored to now, here and further out."""
        scope: Scope | None = self
        while scope is not None:
            if scope.pinned:
                for key in [key for key, touched in scope.pinned.items() if touched & buffer_bit]:
                    del scope.memo[key], scope.pinned[key]
            scope = scope.parent


Handler = Callable[["Context", Scalar, Scope, "Mask | None"], Value]


class Context:
    """What emitting one kernel shares: the kernel, its analysis, the target, the outermost region, the functions by op.

    `certain` are the terms that no guard may leave out; `busy` the reductions whose loops are being written; `streams`
    what tells at run time whether stores to a buffer go past the caches, `rows` where kept rows wait meanwhile.
    """

    __slots__ = (
        "allocations",
        "analysis",
        "busy",
        "certain",
        "entry",
        "handlers",
        "kernel",
        "names",
        "rows",
        "safe",
        "squares",
        "streams",
        "target",
    )

    def __init__(self, kernel: Kernel, target: CodeTarget, handlers: dict[str, Handler]) -> None:
        self.kernel = kernel
        self.target = target
        self.handlers = handlers
        self.analysis = Analysis(kernel)
        self.names = Names()
        self.entry = Scope(self.names, "start", None)
        self.allocations: list[str] = []
        self.safe: dict[str, str] = {}
        self.busy: set[Scalar] = set()
        self.streams: dict[Buffer, str | None] = {}
        self.squares: dict[Scalar, tuple[Scalar, ...]] = {}
        self.rows: dict[Buffer, tuple[str, str]] = {}
        self.certain: set[Scalar] = set()
        if len(self.analysis.reductions) > 1:
            analysis = self.analysis
            self.certain.update(unguarded(analysis.roots) if analysis.has_guards else analysis.reductions)

    def close(self) -> None:
        """Drops what regions know when the function is written: values refer to their region, which refers to them."""
        for memo in self.names.memos:
            memo.clear()

    def allocate(self, llvm_type: str, count: int = 1) -> str:
        """The address of scratch memory of the function, 64-byte aligned."""
        name = self.names.value()
        self.allocations.append(f"  {name} = alloca {llvm_type}, i64 {count}, align 64")
        return name

    def safe_address(self, llvm_type: str = "i64") -> str:
        """The address of zeros that loads read instead where a condition for all their lanes is false."""
        if llvm_type not in self.safe:
            self.safe[llvm_type] = self.allocate(llvm_type)
            self.allocations.append(f"  store {llvm_type} zeroinitializer, ptr {self.safe[llvm_type]}, align 8")
        return self.safe[llvm_type]

    def place(self, free: int, touched: int, scope: Scope, mask: Mask | None = None) -> Scope:
        """The outermost region, from `scope` outwards, in which a term may be computed."""
        floor = mask.scope if mask is not None and touched & ANY_LOAD else None
        while scope is not floor and not (free & scope.axes or touched & scope.hold):
            parent = scope.parent
            if parent is None:
                break
            scope = parent
        return scope

    def base(self, buffer: Buffer) -> str:
        """The address of a buffer's first element."""
        known = self.entry.sizes.get(buffer)
        if known is None:
            if buffer in self.kernel.buffers:
                at = self.argument(self.kernel.buffers.index(buffer))
                known = self.entry.let(f"load ptr, ptr {at}, align 8")
            elif buffer.scope == "local":
                elements = 1
                for size in buffer.type.shape:
                    assert isinstance(size, int), f"local buffer {buffer.name} has no fixed size"
                    elements *= size
                known = self.allocate("i8", max(elements, 1) * buffer.type.dtype.itemsize)
            else:
                raise KeyError(f"kernel {self.kernel.name} has no buffer {buffer.name}")
            self.entry.sizes[buffer] = known
        return known

    def size_symbol(self, symbol: SizeExpr) -> str:
        """The value of a size that is an argument of the kernel."""
        known = self.entry.sizes.get(symbol)
        if known is None:
            if symbol not in self.kernel.sizes:
                raise KeyError(f"kernel {self.kernel.name} has no value for {symbol!r}")
            at = self.argument(len(self.kernel.buffers) + self.kernel.sizes.index(symbol))
            known = self.entry.sizes[symbol] = self.entry.let(f"load i64, ptr {at}, align 8")
        return known

    def argument(self, place: int) -> str:
        """The address of one word of the arguments."""
        return "%args" if place == 0 else self.entry.let(f"getelementptr i64, ptr %args, i64 {place}")


def widen(value: Value, shape: Shape) -> str:
    """A value's text with as many lanes as `shape`, a scalar repeated in all of them (where it is defined)."""
    if value.lanes == shape.lanes:
        return value.text
    if value.scope is None:
        return shape.splat(value.text)
    known = value.wide.get(shape.lanes)
    if known is None:
        known = value.wide[shape.lanes] = splat(value.scope, shape.type, shape.scalar, value.text, shape.lanes)
    return known


def splat(scope: Scope, vector: str, scalar: str, text: str, lanes: int) -> str:
    """A scalar in all lanes of a vector."""
    first = scope.let(f"insertelement {vector} poison, {scalar} {text}, i64 0")
    return scope.let(f"shufflevector {vector} {first}, {vector} poison, <{lanes} x i32> zeroinitializer")
