"""Whether kernels and plans keep the rules of `ir.kernel` and `ir.plan`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from rushlight.ir.accesses import buffer_of
from rushlight.ir.dtype import DType, Kind, bool_, float32, int64, real_dtype
from rushlight.ir.kernel import TASK_ARGS, AxisKind, Barrier, Kernel, Loop, Multiply, Statement, Store, loops_in
from rushlight.ir.plan import THREADS, Address, AnyKernel, Launch, Plan, RowBlockKernel
from rushlight.ir.scalar import OPS, REDUCTIONS, SUMS, Buffer, Scalar, bound_axes
from rushlight.ir.verify import broken
from rushlight.sym import Size, SizeExpr, axis_size, format_size, free_symbols, is_axis
from rushlight.term import postorder

COMBINES = (None, *SUMS, "prod", "max", "min")


def verify_kernel(kernel: AnyKernel) -> None:
    """Checks a kernel: its sizes and buffers are arguments, axes are bound where they are used, dtypes agree.

    Errors: C015.
    """
    if isinstance(kernel, Kernel):
        _KernelVerifier(kernel).run()
        return
    if isinstance(kernel, RowBlockKernel):
        _verify_row_blocks(kernel)
        return
    if kernel.tile.b_made is (kernel.prologue is None):
        broken(kernel.name, "a prologue is what makes b")
    for inner in kernel.attached:
        verify_kernel(inner.kernel)
        if inner.buffers < 0 or inner.kernel.buffers[0].scope != "local" or inner.sizes < 0:
            broken(kernel.name, "its first buffer is the product's, and its first sizes say which", role=inner.role)


def _verify_row_blocks(kernel: RowBlockKernel) -> None:
    symbols = {symbol for loop in kernel.loops for symbol in (loop.start, loop.length)}
    available = {*kernel.sizes, *symbols}
    causal_bound = kernel.causal_bound
    if causal_bound is not None:
        for size in (causal_bound.at, causal_bound.near, causal_bound.far):
            _known(size, available, kernel.name)
        available.add(causal_bound.symbol)
    placed = {*kernel.buffers, *[buffer for buffer, _ in kernel.offsets]}
    for launch in kernel.launches:
        for buffer in launch.buffers:
            if buffer not in placed:
                broken(kernel.name, "a buffer is neither an argument nor in the scratch memory", buffer=buffer.name)
        for word in (*launch.arguments, launch.count):
            if not isinstance(word, Buffer):
                _known(word.offset if isinstance(word, Address) else word, available, kernel.name)
    for _, offset in kernel.offsets:
        _known(offset, available - symbols, kernel.name)


class _KernelVerifier:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.buffers = set(kernel.buffers)
        self.sizes = set(kernel.sizes)
        self.checked: set[Scalar] = set()

    def run(self) -> None:
        """Checks the whole nest."""
        for size in self.kernel.sizes:
            if is_axis(size):
                self.fail("a loop axis is an argument", axis=size)
        self.statements(self.kernel.body, frozenset(), outermost=True)

    def fail(self, message: str, /, **values: object) -> NoReturn:
        """Raises C015."""
        broken(self.kernel.name, message, **values)

    def statements(self, body: Iterable[Statement], axes: frozenset[SizeExpr], outermost: bool) -> None:
        """Checks statements below loops over `axes`."""
        body = tuple(body)
        for statement in body:
            if isinstance(statement, Loop):
                self.loop(statement, axes, outermost and len(body) == 1)
            elif isinstance(statement, Store):
                self.store(statement, axes)
            elif isinstance(statement, Multiply):
                self.multiply(statement, axes)
            elif not isinstance(statement, Barrier):
                self.fail("this is no statement", found=type(statement).__name__)

    def loop(self, loop: Loop, axes: frozenset[SizeExpr], outermost: bool) -> None:
        """Checks a loop: parallel ones are the outermost, one axis runs in lanes, extents are known outside of it."""
        axis = loop.axis
        if axis.symbol in axes:
            self.fail("two loops, one inside the other, run over the same axis", axis=axis.symbol)
        parallel = axis.kind.is_parallel
        if parallel and not outermost:
            self.fail("a parallel loop is not outermost", axis=axis.symbol)
        self.lanes(loop)
        for bound in (axis.extent, axis.start):
            if isinstance(bound, Scalar) and bound.type.kind is not Kind.INT:
                self.fail("a loop's bounds are integers", found=bound.type.name)
            self.value(bound, axes)
        self.statements(loop.body, axes | {axis.symbol}, outermost and parallel)

    def lanes(self, loop: Loop) -> None:
        """Checks the vector axis: a loop in lanes has none inside, and stores below parallel loops have one.

        Without a vector axis there are reductions, which take the lanes.
        """
        axis, stores = loop.axis, all(isinstance(statement, Store) for statement in loop.body)
        if axis.kind.is_vector and any(inner.axis.kind.is_vector for inner in loops_in(loop.body)):
            self.fail("a loop in lanes is inside another", axis=axis.symbol)
        if axis.kind is AxisKind.PARALLEL_VECTOR and not stores:
            self.fail("a parallel loop in lanes has more than stores", axis=axis.symbol)
        if axis.kind is AxisKind.PARALLEL and stores:
            values = [store.value for store in loop.body if isinstance(store, Store)]
            if not any(bound_axes(term) for term in postorder(values)):
                self.fail("no axis runs in lanes", axis=axis.symbol)

    def store(self, store: Store, axes: frozenset[SizeExpr]) -> None:
        """Checks a store: the buffer is an argument or local, and holds values of this dtype."""
        self.buffer(store.buffer)
        if store.value.type is not store.buffer.type.dtype:
            stored, wanted = store.value.type.name, store.buffer.type.dtype.name
            self.fail("a value of another dtype is stored", buffer=store.buffer.name, value=stored, dtype=wanted)
        if store.combine not in COMBINES:
            self.fail("there is no such way to combine", combine=store.combine)
        if isinstance(store.offset, Scalar) and store.offset.type is not int64:
            self.fail("an offset is an int64", offset=store.offset.type.name)
        if store.where is not None and store.where.type is not bool_:
            self.fail("a mask is bool", where=store.where.type.name)
        for part in (store.offset, store.value, store.where):
            if part is not None:
                self.value(part, axes)

    def multiply(self, multiply: Multiply, axes: frozenset[SizeExpr]) -> None:
        """Checks a product of a matrix unit: what it multiplies has 16 bits, and lies where the unit reads it."""
        wanted = "shared" if multiply.unit.reads_shared else "register"
        a, b = multiply.a.type.dtype, multiply.b.type.dtype
        if multiply.result.scope != "register" or multiply.a.scope != wanted or multiply.b.scope != wanted:
            self.fail("a matrix unit finds its operands elsewhere", unit=multiply.unit.name, a=multiply.a.scope)
        if multiply.result.type.dtype is not float32 or a is not b or a.bits != 16:
            self.fail("a matrix unit multiplies numbers of 16 bits", unit=multiply.unit.name, a=a.name, b=b.name)
        for offset in (multiply.result_offset, multiply.a_offset, multiply.b_offset):
            self.size(offset, axes)

    def buffer(self, buffer: Buffer) -> None:
        """Checks that memory is there."""
        if buffer not in self.buffers and buffer.scope not in ("local", "shared", "register"):
            self.fail("a buffer is no argument", buffer=buffer.name)

    def value(self, value: Scalar | Size, axes: frozenset[SizeExpr]) -> None:
        """Checks a value below loops over `axes`."""
        if not isinstance(value, Scalar):
            self.size(value, axes)
            return
        bound: dict[Scalar, frozenset[SizeExpr]] = {value: axes}
        for term in reversed(list(postorder([value]))):
            scope = bound[term]
            if term not in self.checked:
                self.checked.add(term)
                self.term(term)
            if term.op is OPS["index"]:
                self.size(term.attr("expr"), scope)
            inner = scope | frozenset(bound_axes(term))
            for axis in bound_axes(term):
                self.size(axis_size(axis), inner - {axis})
            for operand in term.operands:
                # A value that is used twice may stand below the axes of either use only.
                bound[operand] = bound[operand] & inner if operand in bound else inner

    def size(self, size: Size, axes: frozenset[SizeExpr]) -> None:
        """Checks that a size is known where it is used."""
        for symbol in free_symbols(size):
            if symbol not in axes and symbol not in self.sizes:
                message = "an axis is used outside of its loop" if is_axis(symbol) else "a size is no argument"
                self.fail(message, symbol=symbol, size=format_size(size))

    def term(self, term: Scalar) -> None:
        """Checks one term by itself."""
        name, types = term.op.name, [operand.type for operand in term.operands]
        if OPS.get(name) is not term.op:
            self.fail("a term is of another language", op=name)
        if name == "load":
            self.buffer(term.attr("buffer"))
            if types != [int64] or term.type is not term.attr("buffer").type.dtype:
                self.fail("a load has one linear offset, and its buffer's dtype", buffer=term.attr("buffer").name)
        elif name == "keep":
            self.buffer(term.attr("buffer"))
            if types != [term.attr("buffer").type.dtype, int64]:
                self.fail("a value is kept in a buffer of its dtype, at an offset", buffer=term.attr("buffer").name)
        elif name == "reduce":
            self.reduction(term.attr("kind"), types[0], term.type)
        elif name in ("select", "guard") and types[0] is not bool_:
            self.fail(f"the condition of {name} is bool", found=types[0].name)
        elif name == "bitcast" and types[0].bits != term.type.bits:
            self.fail("a bitcast keeps the width", found=types[0].name, result=term.type.name)
        values = types[1:] if name in ("select", "guard") else types
        if name not in _CHANGING and any(type_ is not values[0] for type_ in values):
            self.fail(f"the operands of {name} differ in dtype", found=[type_.name for type_ in values])
        if name not in _CHANGING and values and term.op.result(*types) is not term.type:  # pyright: ignore[reportAttributeAccessIssue] - a ScalarOp
            self.fail(f"{name} has another dtype than its operands give", result=term.type.name)

    def reduction(self, kind: str, element: DType, result: DType) -> None:
        """Checks the kind of a reduction and the dtypes of its elements and of its result."""
        if kind not in REDUCTIONS:
            self.fail("there is no such reduction", kind=kind)
        if result is not element and (
            kind not in SUMS or result.kind is not element.kind or result.bits < element.bits
        ):
            self.fail("only sums are of a wider dtype than their elements", element=element.name, result=result.name)


_CHANGING = ("constant", "index", "load", "keep", "cast", "bitcast", "reduce")


def verify_plan(plan: Plan) -> None:
    """Checks a plan: launches fit their kernels, sizes can be found at the call. For memory there is `verify_memory`.

    Errors: C015.
    """
    if plan.once is not None:
        verify_plan(plan.once)
        if plan.inputs[-len(plan.once.outputs) :] != plan.once.outputs:
            broken("plan", "what is made once is no input")
    for kernel in plan.kernels:
        verify_kernel(kernel)
    available = {THREADS, *[source.symbol for source in plan.symbols]}
    count = len(plan.inputs) + len(plan.outputs)
    for source in plan.symbols:
        if not 0 <= source.descriptor < count or source.field not in ("size", "stride"):
            broken("plan", "a size is looked for where no descriptor is", symbol=source.symbol)
    placed = {slot.buffer for slot in plan.slots}
    for number, launch in enumerate(plan.launches):
        name = f"launch {number}"
        if not 0 <= launch.kernel < len(plan.kernels):
            broken(name, "there is no such kernel", kernel=launch.kernel)
        for buffer in launch.buffers:
            if buffer.scope == "arena" and buffer not in placed:
                broken(name, "a buffer has no place in the arena", buffer=buffer.name)
        _verify_words(plan, launch, name)
        for word in (*launch.arguments, launch.count, launch.grain):
            if isinstance(word, Address):
                _known(word.offset, available, name)
            elif not isinstance(word, Buffer):
                _known(word, available, name)
    for slot in plan.slots:
        _known(slot.size_bytes, available, "arena")
    for assertion in plan.assertions:
        _known(assertion.left, available, "assertion")
        _known(assertion.right, available, "assertion")


def _known(size: Size, defined: set[SizeExpr], where: str) -> None:
    for symbol in free_symbols(size):
        if symbol not in defined:
            broken(where, "a size cannot be found at the call", symbol=symbol, size=format_size(size))


def _verify_words(plan: Plan, launch: Launch, name: str) -> None:
    """That a launch's arguments fit its kernel."""
    kernel = plan.kernels[launch.kernel]
    words = launch.arguments
    if isinstance(kernel, RowBlockKernel):
        if len(words) != 3 + len(kernel.buffers) + len(kernel.sizes) + 2 * len(kernel.loops):
            broken(name, "the number of arguments is not the kernel's", words=len(words), kernel=kernel.name)
        for inner in kernel.launches:
            _verify_words(plan, inner, f"{name} in row blocks")
        return
    if isinstance(kernel, Kernel):
        _verify_given(kernel, kernel.buffers, words, len(kernel.sizes), name)
        return
    if len(words) != len(TASK_ARGS) + sum([inner.buffers + inner.sizes for inner in kernel.attached]):
        broken(name, "the number of arguments is not the product's", words=len(words))
    a, b, c = (buffer_of(word) for word in words[:3])
    if a is None or (b is None) is (kernel.prologue is None) or (c is None) is (kernel.epilogue is None):
        broken(name, "a product has two operands, or a prologue, and a result or an epilogue", words=words[:3])
    sums = buffer_of(words[TASK_ARGS.index("sums")])
    if (sums is None) is kernel.split_k:
        broken(name, "a product has memory for the sums of its parts, or no parts", words=words[: len(TASK_ARGS)])
    for inner in kernel.attached:
        given = words[inner.first_arg : inner.first_arg + inner.buffers + inner.sizes]
        _verify_given(inner.kernel, inner.kernel.buffers[1:], given, inner.sizes, name)


def _verify_given(
    kernel: Kernel, buffers: tuple[Buffer, ...], words: tuple[object, ...], sizes: int, name: str
) -> None:
    if len(words) != len(buffers) + sizes:
        broken(name, "the number of arguments is not the kernel's", words=len(words), kernel=kernel.name)
    for buffer, word in zip(buffers, words, strict=False):
        result = buffer_of(word)
        # Kernels see complex memory as its parts.
        if result is None or buffer.type.dtype is not real_dtype(result.type.dtype):
            broken(name, "an argument is no buffer of the kernel's dtype", argument=word, buffer=buffer.name)
