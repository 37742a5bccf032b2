"""Blocks and threads: the thread's index, barriers, and the checks of accesses where a processor runs a grid.

An emulated grid runs a block's threads one after the other between two barriers. Each access is checked: it lies in its
buffer, and no other thread of the block touches the same element of shared memory before the next barrier, unless both
read. The first fault is recorded in the module's `faults`: a number of `FAULTS`, the buffer, the byte, the thread.
"""

from __future__ import annotations

from rushlight.codegen.llvm.builder.functions import function_text
from rushlight.codegen.llvm.builder.scope import Context, Names, Scope, fixed_bytes
from rushlight.ir.kernel import multiplies_in
from rushlight.ir.scalar import Buffer
from rushlight.sym import SizeExpr

FAULTS = {1: "reads outside of its buffer", 2: "writes outside of its buffer", 3: "races for shared memory"}
"""What a thread does wrong, by number."""
RECORD = "faults"
"""The symbol of the record: four words, all 0 if there is no fault."""

_MANY = 0xFFFFF
"""The mark of an element that several threads have read since the last barrier."""


def thread_index(ctx: Context) -> str:
    """The index of the thread in its block, on a GPU."""
    short = ctx.entry.once(("thread",), ctx.target.words.thread)
    return ctx.entry.once(("thread", "wide"), f"zext i32 {short} to i64")


def emit_barrier(ctx: Context, scope: Scope) -> None:
    """All threads of a block meet: what each has written before, all read afterwards."""
    if ctx.target.is_gpu:
        if any(multiply.unit.reads_shared for multiply in multiplies_in(ctx.kernel.body)):
            scope.do('call void asm sideeffect "fence.proxy.async.shared::cta;", "~{memory}"() convergent nounwind')
        for line in ctx.target.words.barrier:
            scope.do(line)
        return
    phase = _word(ctx, "phase")
    scope.do(f"store i64 {scope.let(f'add i64 {_load(scope, phase)}, 1')}, ptr {phase}, align 8")


def enter_thread(ctx: Context, scope: Scope, counter: str) -> None:
    """From here on, a thread of this index accesses memory."""
    scope.do(f"store i64 {counter}, ptr {_word(ctx, 'running')}, align 8")


def checked_address(
    ctx: Context, scope: Scope, buffer: Buffer, pointer: str, *, writes: bool, mask: str | None = None
) -> str:
    """The address of an access, or of an unused element if the access is a fault: that is recorded.

    Accesses whose `mask` is off are none.
    """
    base, size = ctx.base(buffer), buffer.type.dtype.itemsize
    number = ctx.kernel.buffers.index(buffer) if buffer in ctx.kernel.buffers else -1
    nbytes = str(fixed_bytes(buffer)) if number < 0 else ctx.size_symbol(_extent(ctx, number))
    where = f"ptr {pointer}, ptr {base}, i64 {nbytes}, i64 {size}, i64 {number}, i64 {2 if writes else 1}"
    name = ctx.functions.add("inside", _emit_inside)
    spare = ctx.entry.sizes.get(("spare",)) or ctx.allocate("i128")
    ctx.entry.sizes["spare",] = spare
    on = mask or "true"
    checked = scope.let(f"call ptr @{name}({where}, ptr {spare}, i1 {on}, i64 {_load(scope, _word(ctx, 'running'))})")
    if buffer.scope == "shared":
        marks = _marks(ctx, buffer)
        follow = ctx.functions.add("alone", _emit_alone)
        phase, running = (_load(scope, _word(ctx, word)) for word in ("phase", "running"))
        where = f"ptr {checked}, ptr {base}, i64 {nbytes}, i64 {size}, ptr {marks}"
        scope.do(
            f"call void @{follow}({where}, i64 {phase}, i64 {running}, i1 {'true' if writes else 'false'}, i1 {on})"
        )
    return checked


def _extent(ctx: Context, number: int) -> SizeExpr:
    return ctx.kernel.sizes[len(ctx.kernel.sizes) - len(ctx.kernel.buffers) + number]


def _load(scope: Scope, address: str) -> str:
    return scope.let(f"load i64, ptr {address}, align 8")


def _word(ctx: Context, name: str) -> str:
    """The address of a word of the function's own: the `phase` between barriers, and the thread that is `running`."""
    address = ctx.entry.sizes.get((name,))
    if address is None:
        address = ctx.entry.sizes[name,] = ctx.allocate("i64")
        ctx.allocations.append(f"  store i64 {1 if name == 'phase' else 0}, ptr {address}, align 8")
    return address


def _marks(ctx: Context, buffer: Buffer) -> str:
    """Two words for each element: the phase and the thread that wrote it last, and that read it last."""
    address = ctx.entry.sizes.get(("marks", buffer))
    if address is None:
        words = 2 * fixed_bytes(buffer) // buffer.type.dtype.itemsize
        address = ctx.entry.sizes["marks", buffer] = ctx.allocate("i64", words)
        ctx.allocations.append(
            f"  call void @llvm.memset.p0.i64(ptr align 8 {address}, i8 0, i64 {8 * words}, i1 false)"
        )
    return address


def _emit_inside(name: str) -> str:
    scope = Scope(Names(), "start", None)
    offset = scope.let("sub i64 %at.word, %first.word")
    room = scope.let("sub i64 %bytes, %size")
    fits = scope.let(f"icmp ule i64 {offset}, {room}")
    some = scope.let("icmp sge i64 %bytes, %size")
    holds = scope.let(f"and i1 {fits}, {some}")
    off = scope.let("xor i1 %on, true")
    good = scope.let(f"or i1 {holds}, {off}")
    scope.branch(good, "good", "bad")
    scope.block("bad")
    scope.do(f"call void @record_fault(i64 %code, i64 %number, i64 {offset}, i64 %thread)")
    scope.do("ret ptr %spare")
    scope.block("good")
    scope.do(f"%chosen = select i1 {holds}, ptr %at, ptr %spare")
    scope.do("ret ptr %chosen")
    header = (
        f"define internal ptr @{name}(ptr %at, ptr %first, i64 %bytes, i64 %size, i64 %number, i64 %code, "
        "ptr %spare, i1 %on, i64 %thread) noinline nounwind"
    )
    words = ["  %at.word = ptrtoint ptr %at to i64", "  %first.word = ptrtoint ptr %first to i64"]
    return "\n".join([_RECORDING, function_text(header, words, scope.lines)])


_RECORDING = f"""@{RECORD} = hidden global [4 x i64] zeroinitializer, align 8
define internal void @record_fault(i64 %code, i64 %number, i64 %byte, i64 %thread) noinline nounwind {{
  %old = load i64, ptr @{RECORD}, align 8
  %first = icmp eq i64 %old, 0
  br i1 %first, label %record, label %done
record:
  %at.1 = getelementptr i64, ptr @{RECORD}, i64 1
  %at.2 = getelementptr i64, ptr @{RECORD}, i64 2
  %at.3 = getelementptr i64, ptr @{RECORD}, i64 3
  store i64 %number, ptr %at.1, align 8
  store i64 %byte, ptr %at.2, align 8
  store i64 %thread, ptr %at.3, align 8
  store i64 %code, ptr @{RECORD}, align 8
  br label %done
done:
  ret void
}}
"""


def _emit_alone(name: str) -> str:
    """Marks an access to shared memory, and records a race with one of another thread in the same phase."""
    return f"""define internal void @{name}(
    ptr %at, ptr %first, i64 %bytes, i64 %size, ptr %marks, i64 %phase, i64 %thread, i1 %writes, i1 %on
) noinline nounwind {{
  %at.word = ptrtoint ptr %at to i64
  %first.word = ptrtoint ptr %first to i64
  %offset = sub i64 %at.word, %first.word
  %inside = icmp ult i64 %offset, %bytes
  %goes = and i1 %inside, %on
  br i1 %goes, label %mark, label %done
mark:
  %element = udiv i64 %offset, %size
  %twice = shl i64 %element, 1
  %writer.at = getelementptr i64, ptr %marks, i64 %twice
  %reader.at = getelementptr i64, ptr %writer.at, i64 1
  %shifted = shl i64 %phase, 20
  %next = add i64 %thread, 1
  %own = or i64 %shifted, %next
  %many = or i64 %shifted, {_MANY}
  %writer = load i64, ptr %writer.at, align 8
  %reader = load i64, ptr %reader.at, align 8
  %writer.phase = lshr i64 %writer, 20
  %reader.phase = lshr i64 %reader, 20
  %writer.now = icmp eq i64 %writer.phase, %phase
  %reader.now = icmp eq i64 %reader.phase, %phase
  %writer.differs = icmp ne i64 %writer, %own
  %reader.differs = icmp ne i64 %reader, %own
  %writer.other = and i1 %writer.now, %writer.differs
  %reader.other = and i1 %reader.now, %reader.differs
  %read.race = and i1 %reader.other, %writes
  %race = or i1 %writer.other, %read.race
  br i1 %race, label %bad, label %note
bad:
  call void @record_fault(i64 3, i64 -1, i64 %offset, i64 %thread)
  br label %note
note:
  %readers = select i1 %reader.other, i64 %many, i64 %own
  %new.writer = select i1 %writes, i64 %own, i64 %writer
  %new.reader = select i1 %writes, i64 %reader, i64 %readers
  store i64 %new.writer, ptr %writer.at, align 8
  store i64 %new.reader, ptr %reader.at, align 8
  br label %done
done:
  ret void
}}
"""
