"""A kernel as the LLVM function `void @name(args, begin, end)`.

Input: a `Kernel`. Output: text. The function runs the iterations [begin, end) of the flattened parallel axes, so that
the thread pool divides the work without knowing the kernel.
"""

from __future__ import annotations

from rushlight.codegen.llvm.builder.functions import KERNEL_PARAMETERS, Functions
from rushlight.codegen.llvm.builder.scope import Context, Handler, Scope
from rushlight.codegen.llvm.builder.target import CodeTarget
from rushlight.codegen.llvm.kernel.emulated_units import in_memory
from rushlight.codegen.llvm.kernel.loads import emit_load
from rushlight.codegen.llvm.kernel.loops import bound_text, emit_range, emit_statements
from rushlight.codegen.llvm.kernel.nontemporal import fence_nontemporal
from rushlight.codegen.llvm.kernel.reductions import emit_reduction
from rushlight.codegen.llvm.kernel.stores import emit_spill
from rushlight.codegen.llvm.math.minmax import emit_minmax
from rushlight.codegen.llvm.math.scaling import emit_scale
from rushlight.codegen.llvm.math.terms import TERM_HANDLERS
from rushlight.ir.kernel import Axis, Barrier, Kernel, Loop, Statement

_HANDLERS: dict[str, Handler] = {
    **TERM_HANDLERS,
    "load": emit_load,
    "keep": emit_spill,
    "scale": emit_scale,
    "minimum": emit_minmax,
    "maximum": emit_minmax,
    "reduce": emit_reduction,
    "contract": emit_reduction,
}


def emit_kernel(kernel: Kernel, target: CodeTarget, function_name: str, functions: Functions | None = None) -> str:
    """The function of a kernel; `args` holds the buffers' addresses, then the sizes, as 64-bit words.

    What it calls is added to `functions`, or is in the text too. Intrinsics need no declarations.
    """
    ctx = Context(in_memory(kernel) if target.emulates else kernel, target, _HANDLERS, functions)
    try:
        text = _function_text(ctx, ctx.kernel, target, function_name)
    finally:
        ctx.close()
    return "\n".join([*ctx.functions.texts, text]) if functions is None else text


def _function_text(ctx: Context, kernel: Kernel, target: CodeTarget, function_name: str) -> str:
    axes = kernel.parallel_axes
    body = kernel.body
    for _ in axes:
        assert isinstance(body[0], Loop)
        body = body[0].body
    if target.emulates:
        body = (Barrier(), *body)  # blocks run one after the other here, and none races with the next
    if not axes:
        emit_statements(ctx, body, ctx.entry)
    else:
        _emit_parallel(ctx, axes, body)
    fence_nontemporal(ctx)
    linkage, attributes = "", target.attributes
    if target.is_gpu:
        linkage, attributes = "internal ", f"{attributes} alwaysinline"
    lines = [
        f"define {linkage}void @{function_name}({KERNEL_PARAMETERS}) {attributes} {{",
        "entry:",
        *ctx.allocations,
        "  %any = icmp slt i64 %begin, %end",
        "  br i1 %any, label %start, label %done",
        "start:",
        *ctx.entry.lines,
        "  br label %done",
        "done:",
        "  ret void",
        "}",
        "",
    ]
    return "\n".join(lines)


def _emit_parallel(ctx: Context, axes: tuple[Axis, ...], body: tuple[Statement, ...]) -> None:
    last = axes[-1]
    scope = ctx.entry
    in_lanes = last.kind.is_vector
    start = bound_text(ctx, last.start, scope)
    if len(axes) == 1:
        bounds = ("%begin", "%end")
        if start != "0":
            bounds = (scope.let(f"add i64 {start}, %begin"), scope.let(f"add i64 {start}, %end"))
        emit_range(ctx, last.symbol, body, scope, bounds, True, None, in_lanes)
        return
    _emit_nested_parallel(ctx, axes, body, start, in_lanes)


def _emit_nested_parallel(
    ctx: Context, axes: tuple[Axis, ...], body: tuple[Statement, ...], start: str, in_lanes: bool
) -> None:
    """Emits the loop over several parallel axes: one inner loop for each step of the outer axes.

    The outer indices are divided out of `%begin` once; after that each row increments them, since a division takes tens
    of cycles.
    """
    scope, names = ctx.entry, ctx.names
    extents = [bound_text(ctx, axis.extent, scope) for axis in axes]
    rest = "%begin"
    firsts: list[str] = []
    for extent in reversed(extents[1:]):
        firsts.append(scope.let(f"urem i64 {rest}, {extent}"))
        rest = scope.let(f"udiv i64 {rest}, {extent}")
    firsts.append(rest)
    firsts.reverse()
    bits = 0
    for axis in axes[:-1]:
        bits |= ctx.analysis.axis_bits[axis.symbol]
    row = scope.inner(names.label(), bits, ctx.analysis.stored_in(body))
    position, following = names.value(), names.value()
    indices = [names.value() for _ in axes]
    nexts = [names.value() for _ in axes]
    for axis, index in zip(axes[:-1], indices, strict=False):
        first = bound_text(ctx, axis.start, scope)
        row.sizes[axis.symbol] = index if first == "0" else row.let(f"add i64 {index}, {first}")
    left = row.let(f"sub i64 {extents[-1]}, {indices[-1]}")
    remaining = row.let(f"sub i64 %end, {position}")
    length = row.let(f"call i64 @llvm.smin.i64(i64 {left}, i64 {remaining})")
    low = indices[-1] if start == "0" else row.let(f"add i64 {indices[-1]}, {start}")
    high = row.let(f"add i64 {low}, {length}")
    emit_range(ctx, axes[-1].symbol, body, row, (low, high), True, None, in_lanes)
    before, after = scope.label, names.label()
    scope.jump(row.first)
    scope.block(row.first)
    scope.do(f"{position} = phi i64 [ %begin, %{before} ], [ {following}, %{row.label} ]")
    for index, first, later in zip(indices, firsts, nexts, strict=True):
        scope.do(f"{index} = phi i64 [ {first}, %{before} ], [ {later}, %{row.label} ]")
    scope.append(row)
    scope.do(f"{following} = add i64 {position}, {length}")
    _increment(scope, indices[:-1], nexts, extents)
    scope.branch(scope.let(f"icmp slt i64 {following}, %end"), row.first, after)
    scope.block(after)


def _increment(scope: Scope, indices: list[str], nexts: list[str], extents: list[str]) -> None:
    """The next row's indices: the innermost restarts at 0, the others increment with carry."""
    scope.do(f"{nexts[-1]} = add i64 0, 0")
    carry = "1"
    for axis in range(len(indices) - 1, -1, -1):
        raised = scope.let(f"add i64 {indices[axis]}, {carry}")
        full = scope.let(f"icmp eq i64 {raised}, {extents[axis]}")
        scope.do(f"{nexts[axis]} = select i1 {full}, i64 0, i64 {raised}")
        carry = scope.let(f"zext i1 {full} to i64")
