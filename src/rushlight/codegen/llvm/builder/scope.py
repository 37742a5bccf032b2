"""Regions of a function under construction: nested like its loops, each with the values it has computed.

A `Scope` collects the LLVM lines of one loop body. When the loop is finished, its lines are appended to the enclosing
scope. Until then the enclosing scope stays open, so loop-invariant terms that are met inside the body are still hoisted
before the loop: no second pass is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from rushlight.codegen.llvm.builder.analysis import ANY_LOAD, Analysis, unguarded
from rushlight.codegen.llvm.builder.blocks import BasicBlocks
from rushlight.codegen.llvm.builder.functions import Functions
from rushlight.codegen.llvm.builder.target import CodeTarget
from rushlight.codegen.llvm.builder.vector_types import Shape
from rushlight.ir.kernel import Kernel
from rushlight.ir.scalar import Buffer, Scalar
from rushlight.sym import SizeExpr

TermKey: TypeAlias = Scalar | tuple[object, ...]
"""A term; a term that loads with the key of its mask; or what says which memory a load reads, and how."""
SizeKey: TypeAlias = SizeExpr | Buffer | tuple[object, ...]
"""A size; a buffer, for its address; or texts with the operation on them."""


class Value:
    """An SSA value of a term: its text, its lanes, and the scope that defines it (None for a constant)."""

    __slots__ = ("lanes", "scope", "text", "wide")

    def __init__(self, text: str, lanes: int, scope: Scope | None) -> None:
        self.text = text
        self.lanes = lanes
        self.scope = scope
        self.wide: dict[int, str] = {}


class Lanes:
    """The vectorised axes of a scope: lane l is iteration `base + l`; `mask` names the active lanes.

    Where the active lanes are the first ones, `count` is their number as an i64. `uniform` are size expressions that
    depend on these axes but have one value in all lanes. If `aligned`, `base` is a multiple of `width`.
    """

    __slots__ = ("aligned", "axes", "base", "count", "mask", "uniform", "width")

    def __init__(self, axes: int, width: int, base: str, mask: str | None, aligned: bool = False) -> None:
        self.uniform: frozenset[SizeExpr] = frozenset()
        self.aligned = aligned
        self.axes = axes
        self.width = width
        self.base = base
        self.mask = mask
        self.count: str | None = None

    def with_width(self, width: int) -> Lanes:
        """The first `width` lanes, all active, for a scope of their own."""
        lanes = Lanes(self.axes, width, self.base, None, self.aligned)
        lanes.uniform = self.uniform
        return lanes


class Mask:
    """The condition under which a guard's first value is evaluated: one bool, or one for each lane.

    `scope` defines it. It is the conjunction of its `factors`, which may have fewer lanes and be defined further out.
    It narrows the mask `outer`, if there is one.
    """

    __slots__ = ("factors", "key", "lanes", "outer", "scope", "text")

    def __init__(
        self,
        text: str,
        lanes: int,
        scope: Scope,
        key: object,
        factors: tuple[Value, ...] = (),
        outer: Mask | None = None,
    ) -> None:
        self.text = text
        self.lanes = lanes
        self.scope = scope
        self.key = key
        self.factors = factors or (Value(text, lanes, scope),)
        self.outer = outer


class Names:
    """Fresh names in one function, and the value tables of all its scopes."""

    __slots__ = ("count", "memos")

    def __init__(self) -> None:
        self.count = 0
        self.memos: list[dict[TermKey, Value]] = []

    def value(self) -> str:
        """A name for a value."""
        self.count += 1
        return f"%v{self.count}"

    def label(self) -> str:
        """A name for a basic block."""
        self.count += 1
        return f"b{self.count}"


class Scope(BasicBlocks):
    """A region of code: its lines, the label of its current basic block, and its computed values.

    `axes` are the axes that it binds: terms that depend on them cannot be hoisted out of it. `hold` are bits of
    `Analysis.touched` that forbid hoisting too: reads of buffers that the region stores to, and loads if the region may
    run no iteration. `memo` maps terms to values, `sizes` maps sizes and addresses to their texts. `pinned` are the
    entries of `memo` that a store to a buffer invalidates.
    """

    __slots__ = (
        "axes",
        "depth",
        "first",
        "hold",
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
        self.memo: dict[TermKey, Value] = {}
        self.pinned: dict[TermKey, int] = {}
        self.sizes: dict[SizeKey, str] = {}
        names.memos.append(self.memo)

    def inner(self, label: str, axes: int = 0, hold: int = 0, vector: Lanes | None = None) -> Scope:
        """A nested scope whose first block is named `label`."""
        return Scope(self.names, label, self, axes, hold, vector or self.vector)

    def let(self, instruction: str) -> str:
        """Appends an instruction and returns the name of its result."""
        names = self.names
        names.count += 1
        name = f"%v{names.count}"
        self.lines.append(f"  {name} = {instruction}")
        return name

    def once(self, key: tuple[object, ...], instruction: str) -> str:
        """The result that `sizes` has under a key, or else that of an instruction that is appended."""
        name = self.sizes.get(key)
        if name is None:
            name = self.sizes[key] = self.let(instruction)
        return name

    def append(self, inner: Scope) -> None:
        """Appends the lines of a finished inner scope; neither its first label nor a jump is added."""
        lines = self.lines
        lines.extend(inner.lines)
        self.label = inner.label

    def forget(self, buffer_bit: int) -> None:
        """Invalidates the values that were read from a buffer, here and in enclosing scopes: it is stored to."""
        scope: Scope | None = self
        while scope is not None:
            if scope.pinned:
                for key in [key for key, touched in scope.pinned.items() if touched & buffer_bit]:
                    del scope.memo[key], scope.pinned[key]
            scope = scope.parent


Handler = Callable[["Context", Scalar, Scope, "Mask | None"], Value]


class Context:
    """The state of emitting one kernel.

    `handlers` map an op to the function that emits it. `functions` are the module's, of which a kernel may call some.
    `unconditional` are the terms that no guard skips. `in_progress` are the reductions whose loops are being emitted.
    `cached_bits` tell at run time whether stores to a buffer are nontemporal (`kernel/nontemporal.py`); `row_scratch`
    is where spilled rows lie meanwhile (`kernel/row_scratch.py`). `transposed` maps a load to the neighbours that are
    loaded with it (`kernel/transposed_loads.py`).
    """

    __slots__ = (
        "allocations",
        "analysis",
        "cached_bits",
        "entry",
        "functions",
        "handlers",
        "in_progress",
        "kernel",
        "names",
        "row_scratch",
        "target",
        "transposed",
        "unconditional",
        "zeros",
    )

    def __init__(
        self, kernel: Kernel, target: CodeTarget, handlers: dict[str, Handler], functions: Functions | None = None
    ) -> None:
        self.functions = Functions() if functions is None else functions
        self.kernel = kernel
        self.target = target
        self.handlers = handlers
        self.analysis = Analysis(kernel)
        self.names = Names()
        self.entry = Scope(self.names, "start", None)
        self.allocations: list[str] = []
        self.zeros: dict[str, str] = {}
        self.in_progress: set[Scalar] = set()
        self.cached_bits: dict[Buffer, str | None] = {}
        self.transposed: dict[Scalar, tuple[Scalar, ...]] = {}
        self.row_scratch: dict[Buffer, tuple[str, str]] = {}
        self.unconditional: set[Scalar] = set()
        if len(self.analysis.reductions) > 1:
            analysis = self.analysis
            self.unconditional.update(unguarded(analysis.roots) if analysis.has_guards else analysis.reductions)

    def close(self) -> None:
        """Clears the value tables once the text is finished: values and scopes refer to each other."""
        for memo in self.names.memos:
            memo.clear()

    def allocate(self, llvm_type: str, count: int = 1) -> str:
        """The address of scratch memory of the function, 64-byte aligned."""
        name = self.names.value()
        space = self.target.words.private if self.target.is_gpu else 0
        if not space:
            self.allocations.append(f"  {name} = alloca {llvm_type}, i64 {count}, align 64")
            return name
        self.allocations.append(f"  {name}.own = alloca {llvm_type}, i64 {count}, align 64, addrspace({space})")
        self.allocations.append(f"  {name} = addrspacecast ptr addrspace({space}) {name}.own to ptr")
        return name

    def zeros_address(self, llvm_type: str = "i64") -> str:
        """The address of zeros that a load reads instead if the condition for all its lanes is false."""
        if llvm_type not in self.zeros:
            self.zeros[llvm_type] = self.allocate(llvm_type)
            self.allocations.append(f"  store {llvm_type} zeroinitializer, ptr {self.zeros[llvm_type]}, align 8")
        return self.zeros[llvm_type]

    def hoist(self, free: int, touched: int, scope: Scope, mask: Mask | None = None) -> Scope:
        """Returns the outermost scope, from `scope` outwards, that may compute a loop-invariant term."""
        floor = mask.scope if mask is not None and touched & ANY_LOAD else None
        while scope is not floor and not (free & scope.axes or touched & scope.hold):
            parent = scope.parent
            if parent is None:
                break
            scope = parent
        return scope

    def base(self, buffer: Buffer) -> str:
        """The address of a buffer's first element."""
        address = self.entry.sizes.get(buffer)
        if address is None:
            if buffer in self.kernel.buffers:
                at = self.argument(self.kernel.buffers.index(buffer))
                address = self.entry.let(f"load ptr, ptr {at}, align 8")
            elif buffer.scope == "shared" and self.target.is_gpu:
                address = self.shared_memory(len(self.entry.sizes), fixed_bytes(buffer))
            elif buffer.scope in ("local", "shared", "register"):
                address = self.allocate("i8", fixed_bytes(buffer))
            else:
                raise KeyError(f"kernel {self.kernel.name} has no buffer {buffer.name}")
            self.entry.sizes[buffer] = address
        return address

    def shared_memory(self, number: int, nbytes: int) -> str:
        """The address of memory of a block; that of each `number` is another."""
        name = self.functions.add(
            "shared",
            lambda name: f"@{name} = internal addrspace(3) global [{nbytes} x i8] undef, align 16 ; {number}",
        )
        return f"addrspacecast (ptr addrspace(3) @{name} to ptr)"

    def size_symbol(self, symbol: SizeExpr) -> str:
        """The value of a size that is an argument of the kernel."""
        text = self.entry.sizes.get(symbol)
        if text is None:
            if symbol not in self.kernel.sizes:
                raise KeyError(f"kernel {self.kernel.name} has no value for {symbol!r}")
            at = self.argument(len(self.kernel.buffers) + self.kernel.sizes.index(symbol))
            text = self.entry.sizes[symbol] = self.entry.let(f"load i64, ptr {at}, align 8")
        return text

    def argument(self, index: int) -> str:
        """The address of one 64-bit word of the arguments."""
        return "%args" if index == 0 else self.entry.let(f"getelementptr i64, ptr %args, i64 {index}")


def fixed_bytes(buffer: Buffer) -> int:
    """The bytes of a buffer of a fixed size, at least one element."""
    elements = 1
    for size in buffer.type.shape:
        assert isinstance(size, int), f"buffer {buffer.name} has no fixed size"
        elements *= size
    return max(elements, 1) * buffer.type.dtype.itemsize


def widen(value: Value, shape: Shape) -> str:
    """A value's text with the lanes of `shape`; a scalar is broadcast in the scope that defines it."""
    if value.lanes == shape.lanes:
        return value.text
    if value.scope is None:
        return shape.splat(value.text)
    text = value.wide.get(shape.lanes)
    if text is None:
        text = value.wide[shape.lanes] = splat(value.scope, shape.type, shape.scalar, value.text, shape.lanes)
    return text


def splat(scope: Scope, vector: str, scalar: str, text: str, lanes: int) -> str:
    """Broadcasts a scalar to all lanes of a vector."""
    first = scope.let(f"insertelement {vector} poison, {scalar} {text}, i64 0")
    return scope.let(f"shufflevector {vector} {first}, {vector} poison, <{lanes} x i32> zeroinitializer")
