"""Products of matrix units as inline PTX: `mma` on fragments in registers, `wgmma` on shared memory.

A thread's elements of the result are read from its registers, handed to the instruction, and written back; LLVM keeps
them in registers all the time. `wgmma` runs beside other instructions: it is waited for where it stands.
"""

from __future__ import annotations

from rushlight.codegen.llvm.builder import sizes
from rushlight.codegen.llvm.builder.scope import Context, Scope
from rushlight.ir.dtype import DType, float16
from rushlight.ir.grid.matrix_unit import CORE
from rushlight.ir.kernel import Multiply
from rushlight.ir.scalar import Buffer
from rushlight.sym import Size


def emit_multiply(ctx: Context, multiply: Multiply, scope: Scope) -> None:
    """The instruction of this thread's group."""
    elements = multiply.unit.result_elements
    places = [_address(ctx, multiply.result, multiply.result_offset + number, scope) for number in range(elements)]
    before = [scope.let(f"load float, ptr {place}, align 4") for place in places]
    operands, text = _wgmma(ctx, multiply, scope) if multiply.unit.reads_shared else _mma(ctx, multiply, scope)
    results = f"{{ {', '.join(['float'] * elements)} }}"
    constraints = [*["=f"] * elements, *[kind for kind, _ in operands], *map(str, range(elements)), "~{memory}"]
    given = [*[f"{'i64' if kind == 'l' else 'i32'} {value}" for kind, value in operands]]
    given += [f"float {value}" for value in before]
    made = scope.let(
        f'call {results} asm sideeffect "{text}", "{",".join(constraints)}"({", ".join(given)}) convergent nounwind'
    )
    for number, place in enumerate(places):
        value = scope.let(f"extractvalue {results} {made}, {number}")
        scope.do(f"store float {value}, ptr {place}, align 4")
    scope.forget(ctx.analysis.buffer_bits[multiply.result])


def _address(ctx: Context, buffer: Buffer, offset: Size, scope: Scope) -> str:
    nbytes = offset * buffer.type.dtype.itemsize
    return scope.let(f"getelementptr i8, ptr {ctx.base(buffer)}, i64 {sizes.size_text(ctx, nbytes, scope)}")


def _numbers(first: int, count: int) -> str:
    return f"{{{', '.join([f'${number}' for number in range(first, first + count)])}}}"


def _letters(dtype: DType) -> str:
    return "f16" if dtype is float16 else "bf16"


def _mma(ctx: Context, multiply: Multiply, scope: Scope) -> tuple[list[tuple[str, str]], str]:
    """The fragments, two elements in a register, and the text of the instruction."""
    unit, kind = multiply.unit, _letters(multiply.a.type.dtype)
    registers: list[tuple[str, str]] = []
    counts: list[int] = []
    for buffer, offset, width in (
        (multiply.a, multiply.a_offset, unit.rows),
        (multiply.b, multiply.b_offset, unit.columns),
    ):
        counts.append(unit.fragment_elements(width) // 2)
        for number in range(counts[-1]):
            place = _address(ctx, buffer, offset + 2 * number, scope)
            registers.append(("r", scope.let(f"load i32, ptr {place}, align 4")))
    results = _numbers(0, unit.result_elements)
    a = _numbers(unit.result_elements, counts[0])
    b = _numbers(unit.result_elements + counts[0], counts[1])
    shape = f"m{unit.rows}n{unit.columns}k{unit.depth}"
    return registers, f"mma.sync.aligned.{shape}.row.col.f32.{kind}.{kind}.f32 {results}, {a}, {b}, {results};"


def _wgmma(ctx: Context, multiply: Multiply, scope: Scope) -> tuple[list[tuple[str, str]], str]:
    """The descriptors of both operands, and the text of the instructions, the last of which waits."""
    unit, kind = multiply.unit, _letters(multiply.a.type.dtype)
    a = _descriptor(ctx, multiply.a, multiply.a_offset, multiply.a_step, scope)
    b = _descriptor(ctx, multiply.b, multiply.b_offset, multiply.b_step, scope)
    results, first = _numbers(0, unit.result_elements), unit.result_elements
    shape = f"m{unit.rows}n{unit.columns}k{unit.depth}"
    lines = (
        "{ .reg .pred adds; setp.eq.u32 adds, 0, 0;",
        "wgmma.fence.sync.aligned;",
        f"wgmma.mma_async.sync.aligned.{shape}.f32.{kind}.{kind} {results}, ${first}, ${first + 1}, adds, 1, 1, 0, 0;",
        "wgmma.commit_group.sync.aligned;",
        "wgmma.wait_group.sync.aligned 0; }",
    )
    return [("l", a), ("l", b)], " ".join(lines)


def _descriptor(ctx: Context, buffer: Buffer, offset: Size, step: int, scope: Scope) -> str:
    """What tells `wgmma` where core matrices lie: the first one, and the bytes to the next along depth and index."""
    place = _address(ctx, buffer, offset, scope)
    narrow = scope.let(f"addrspacecast ptr {place} to ptr addrspace(3)")
    word = scope.let(f"ptrtoint ptr addrspace(3) {narrow} to i64")
    first = scope.let(f"lshr i64 {scope.let(f'and i64 {word}, {0x3FFFF}')}, 4")
    itemsize = buffer.type.dtype.itemsize
    steps = (step * itemsize >> 4) << 16 | (CORE * CORE * itemsize >> 4) << 32
    return scope.let(f"or i64 {first}, {steps}")
