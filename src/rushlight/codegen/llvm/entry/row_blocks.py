"""Band kernels: several launches that one thread runs one after the other for each band of a batch.

Two functions: `@name(args, begin, end)` deals out bands and lays their words out; `@name_one(words)` runs one band.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.codegen.llvm.builder.scope import Context
from rushlight.codegen.llvm.builder.target import CodeTarget
from rushlight.codegen.llvm.entry.arguments import LaunchArguments
from rushlight.codegen.llvm.gemm.task import plan_name
from rushlight.ir.dtype import uint8
from rushlight.ir.kernel import GemmKernel, Kernel
from rushlight.ir.plan import AnyKernel, CausalBound, Launch, RowBlockKernel
from rushlight.ir.scalar import Buffer
from rushlight.ir.type import TensorType

_DEAL = """\
define void @{name}(ptr noalias %args, i64 %begin, i64 %end) {attributes} {{
entry:
  %words = alloca [{words} x i64], align 64
  %any = icmp slt i64 %begin, %end
  br i1 %any, label %start, label %done
start:
{copies}
  %scratch = load i64, ptr %args, align 8
{shares}
{slot_bytes}
{counts}
  br label %share
share:
  %slot = phi i64 [ %begin, %start ], [ %slot_next, %share_end ]
  %offset = mul i64 %slot, %slot_bytes
  %memory = add i64 %scratch, %offset
  store i64 %memory, ptr %words, align 8
  %some = icmp slt i64 %slot, %bands
  br i1 %some, label %band, label %share_end
band:
  %number = phi i64 [ %slot, %share ], [ %number_next, %band_end ]
{indices}
{run}
  br label %band_end
band_end:
  %number_next = add i64 %number, %shares
  %more = icmp slt i64 %number_next, %bands
  br i1 %more, label %band, label %share_end
share_end:
  %slot_next = add i64 %slot, 1
  %again = icmp slt i64 %slot_next, %end
  br i1 %again, label %share, label %done
done:
  ret void
}}
"""

_RUN = "  call void @{name}_one(ptr %words)"

_RUN_IN_ORDER = """\
  br label %row
row:
  %from{place} = phi i64 [ 0, %band ], [ %from{place}_next, %row ]
{words}
  call void @{name}_one(ptr %words)
  %from{place}_next = add i64 %from{place}, %step{place}
  %more_rows = icmp slt i64 %from{place}_next, %extent{place}
  br i1 %more_rows, label %row, label %rows_end
rows_end:"""

_COUNT = """\
  %over{place} = add i64 %extent{place}, %step{place}
  %last{place} = sub i64 %over{place}, 1
  %count{place} = udiv i64 %last{place}, %step{place}
  %bands{place} = mul i64 {before}, %count{place}"""

_INDEX = """\
  %index{place} = urem i64 {rest}, %count{place}
  %rest{place} = udiv i64 {rest}, %count{place}
  %from{place} = mul i64 %index{place}, %step{place}
{words}"""

_WORDS = """\
  %left{place} = sub i64 %extent{place}, %from{place}
  %length{place} = call i64 @llvm.smin.i64(i64 %left{place}, i64 %step{place})
  %from_at{place} = getelementptr i64, ptr %words, i64 {word}
  store i64 %from{place}, ptr %from_at{place}, align 8
  %length_at{place} = getelementptr i64, ptr %words, i64 {word_after}
  store i64 %length{place}, ptr %length_at{place}, align 8"""


def emit_row_blocks(
    kernel: RowBlockKernel, kernels: Sequence[AnyKernel], functions: Sequence[str], target: CodeTarget, name: str
) -> str:
    """IR of the function `@name` of a band kernel; `functions` names those of the plan's `kernels`."""
    return "\n".join((_emit_one(kernel, kernels, functions, target, f"{name}_one"), _emit_deal(kernel, target, name)))


def _emit_deal(kernel: RowBlockKernel, target: CodeTarget, name: str) -> str:
    given = 1 + len(kernel.buffers) + len(kernel.sizes)
    copies = [_load(f"given{place}", place) + _store(f"given{place}", place) for place in range(1, given)]
    counts: list[str] = []
    indices: list[str] = []
    before = "1"
    last = len(kernel.loops) - 1
    dealt = last if kernel.in_order else last + 1
    for place in range(len(kernel.loops)):
        counts += [_load(f"step{place}", given + 2 + 2 * place), _load(f"extent{place}", given + 3 + 2 * place)]
    for place in range(dealt):
        counts.append(_COUNT.format(place=place, before=before))
        before = f"%bands{place}"
    counts.append(f"  %bands = add i64 {before}, 0")
    rest = "%number"
    words = [
        _WORDS.format(place=place, word=given + 2 * place, word_after=given + 2 * place + 1)
        for place in range(last + 1)
    ]
    for place in reversed(range(dealt)):
        indices.append(_INDEX.format(place=place, rest=rest, words=words[place]))
        rest = f"%rest{place}"
    run = _RUN_IN_ORDER.format(name=name, place=last, words=words[last]) if kernel.in_order else _RUN.format(name=name)
    return _DEAL.format(
        name=name,
        attributes=target.attributes,
        words=given + 2 * len(kernel.loops),
        copies="\n".join(copies),
        shares=_load("shares", given),
        slot_bytes=_load("slot_bytes", given + 1),
        counts="\n".join(counts),
        indices="\n".join(indices),
        run=run,
    )


def _load(name: str, word: int) -> str:
    return f"  %{name}_at = getelementptr i64, ptr %args, i64 {word}\n  %{name} = load i64, ptr %{name}_at, align 8"


def _store(name: str, word: int) -> str:
    return f"\n  %{name}_to = getelementptr i64, ptr %words, i64 {word}\n  store i64 %{name}, ptr %{name}_to, align 8"


def _emit_one(
    kernel: RowBlockKernel, kernels: Sequence[AnyKernel], functions: Sequence[str], target: CodeTarget, name: str
) -> str:
    row_block = _RowBlocks(kernel, target)
    if kernel.causal_bound is not None:
        row_block.bind_causal_bound(kernel.causal_bound)
    most = max([len(launch.arguments) for launch in kernel.launches])
    arguments = row_block.ctx.allocate("i64", most)
    for launch in kernel.launches:
        product = isinstance(kernels[launch.kernel], GemmKernel)
        row_block.launch(launch, functions[launch.kernel], arguments, product)
    lines = [
        f"define internal void @{name}(ptr noalias %args) {target.attributes} {{",
        *row_block.ctx.allocations,
        "  br label %start",
        "start:",
        *row_block.ctx.entry.lines,
        "  ret void",
        "}",
        "",
    ]
    return "\n".join(lines)


class _RowBlocks(LaunchArguments):
    """The launches of one band: their arguments are computed from the band's words."""

    def __init__(self, kernel: RowBlockKernel, target: CodeTarget) -> None:
        self.scratch = Buffer("scratch", TensorType((0,), uint8), "arena")
        self.places = dict(kernel.offsets)
        symbols = [symbol for loop in kernel.loops for symbol in (loop.start, loop.length)]
        words = Kernel(kernel.name, (self.scratch, *kernel.buffers), (*kernel.sizes, *symbols), ())
        super().__init__(Context(words, target, {}))

    def bind_causal_bound(self, causal_bound: CausalBound) -> None:
        """Gives the reach its value."""
        scope = self.scope
        at = scope.let(f"getelementptr i8, ptr {self.address(causal_bound.flags)}, i64 {self.size(causal_bound.at)}")
        flag = scope.let(f"icmp ne i8 {scope.let(f'load i8, ptr {at}, align 1')}, 0")
        near, far = self.size(causal_bound.near), self.size(causal_bound.far)
        scope.sizes[causal_bound.symbol] = scope.let(f"select i1 {flag}, i64 {near}, i64 {far}")

    def address(self, buffer: Buffer) -> str:
        """A buffer's address: an argument, or in the scratch memory."""
        place = self.places.get(buffer)
        if place is None:
            return self.ctx.base(buffer)
        return self.scope.let(f"getelementptr i8, ptr {self.ctx.base(self.scratch)}, i64 {self.size(place)}")

    def launch(self, launch: Launch, function: str, arguments: str, product: bool) -> None:
        """Runs all iterations of one kernel."""
        scope = self.scope
        self.store(arguments, [self.argument(item) for item in launch.arguments])
        count = self.size(launch.count)
        if product:
            count = scope.let(f"call i64 @{plan_name(function)}(ptr {arguments}, i64 {count}, i64 1)")
        scope.do(f"call void @{function}(ptr {arguments}, i64 0, i64 {count})")
