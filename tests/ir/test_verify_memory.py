"""Plans are proven to read nothing that is not written: whatever is taken out of one of them is found."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rushlight.build import pipeline
from rushlight.build.decompose import merge_equal_calls, to_primitives
from rushlight.build.pipeline import run_passes
from rushlight.ir.choice import ScheduleTarget
from rushlight.ir.coverage import Piece, covers, runs_of
from rushlight.ir.dtype import float32
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.kernel import AxisKind, Kernel, Loop, Statement
from rushlight.ir.plan import Launch, Plan, RowBlockKernel
from rushlight.ir.scalar import Buffer, Scalar
from rushlight.ir.target import Target
from rushlight.ir.type import TensorType
from rushlight.ir.verify_memory import Undecided, undecided_writes, verify_memory
from rushlight.ops.record import OPERATORS
from rushlight.schedule import launches as making
from rushlight.schedule.loops.row_blocks import row_block_launch
from rushlight.schedule.memory.filling import fill_first
from rushlight.support import events, settings
from rushlight.support.errors import CompileError
from rushlight.sym import Scope, Size, axis_symbol, ceildiv, eq, floordiv, minimum, product
from rushlight.testing.making import single_calls
from rushlight.testing.traced import Pool
from scheduling import schedule

LIMITS = (Path(__file__).parents[2] / "docs" / "limits.md").read_text(encoding="utf-8")
LISTED = re.findall(r"`(\w+)`", LIMITS.split("write where data says")[1].split("Where a plan")[0])
TARGET = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64)

PROGRAMS = {
    "chain of products": """g(%x: f32[s0, s0]) {
  %0 = matmul(%x, %x) : f32[s0, s0]
  %1 = matmul(%0, %x) : f32[s0, s0]
  %2 = matmul(%1, %x) : f32[s0, s0]
  %3 = matmul(%2, %0) : f32[s0, s0]
  return %3
}""",
    "rows": """g(%x: f32[s0, s1], %w: f32[s1, s1]) {
  %0 = matmul(%x, %w) : f32[s0, s1]
  %1 = softmax(%0) {dim=-1} : f32[s0, s1]
  %2 = sum(%1) {dim=[0], keepdim=false} : f32[s1]
  return %1, %2
}""",
    "attention": """g(%q: f32[s0, s1, s2, 64], %k: f32[s0, s1, s3, 64], %v: f32[s0, s1, s3, 64]) {
  %0 = transpose(%k) {dim0=-2, dim1=-1} : f32[s0, s1, 64, s3] strides [s1*s3*64, s3*64, 1, 64]
  %1 = matmul(%q, %0) : f32[s0, s1, s2, s3]
  %2 = softmax(%1) {dim=-1} : f32[s0, s1, s2, s3]
  %3 = matmul(%2, %v) : f32[s0, s1, s2, 64]
  return %3
}""",
    "scatter and row blocks": """g(%x: f32[s0, s1], %at: i64[1], %other: i64[1], %g: f32[1]) {
  %0 = full(0) {size=[`s0`], dtype=f32, device=device cpu -1} : f32[s0]
  %1 = scatter_add(%0, %at, %g) {dim=0} : f32[s0]
  %2 = scatter_add(%0, %other, %g) {dim=0} : f32[s0]
  %3 = add(%1, %2, none) : f32[s0]
  %4 = reshape(%3) {shape=[`s0`, 1, 1]} : f32[s0, 1, 1]
  %5 = reshape(%x) {shape=[`s0`, `s1`, 1]} : f32[s0, s1, 1]
  %6 = transpose(%5) {dim0=-2, dim1=-1} : f32[s0, 1, s1] strides [s1, 1, 1]
  %7 = matmul(%4, %6) : f32[s0, 1, s1]
  %8 = exp(%x) : f32[s0, s1]
  %9 = reshape(%8) {shape=[`s0`, 1, `s1`]} : f32[s0, 1, s1]
  %10 = transpose(%9) {dim0=-2, dim1=-1} : f32[s0, s1, 1] strides [s1, 1, s1]
  %11 = matmul(%10, %4) : f32[s0, s1, 1]
  %12 = reshape(%11) {shape=[`s0`, `s1`]} : f32[s0, s1]
  %13 = reshape(%7) {shape=[`s0`, `s1`]} : f32[s0, s1]
  %14 = add(%12, %13, none) : f32[s0, s1]
  return %14
}""",
    "transposed and running": """g(%x: f32[s0, s1]) {
  %0 = transpose(%x) {dim0=0, dim1=1} : f32[s1, s0] strides [1, s1]
  %1 = cumsum(%0) {dim=0} : f32[s1, s0]
  %2 = reshape(%1) {shape=[`s0*s1`]} : f32[s0*s1]
  %3 = cumsum(%2) {dim=0} : f32[s0*s1]
  return %3
}""",
    "packed": """g(%x: f32[4000, 700], %w: f32[700, 30]) {
  %0 = exp(%x) : f32[4000, 700]
  %1 = exp(%w) : f32[700, 30]
  %2 = matmul(%0, %1) : f32[4000, 30]
  return %2
}""",
    "convolution in groups": """g(%x: f32[s0, s1, s2], %w: f32[s3, s4, 3], %b: f32[s3]) {
  given s3 - 2*(s3//2) == 0
  given s1 - 2*s4 == 0
  %0 = convolution(%x, %w, %b) {stride=[2], padding=[1], dilation=[1], groups=2} : f32[s0, s3, (s2 - 3)//2 + 2]
  return %0
}""",
    "long sums": """g(%x: f32[s0, s1]) {
  %0 = sum(%x) {dim=[0], keepdim=false} : f32[s1]
  %1 = sum(%x) {dim=[0, 1], keepdim=false} : f32[]
  return %0, %1
}""",
    "complex": """g(%x: c64[s0, 7], %y: c64[s0, 7]) {
  %0 = mul(%x, %y) : c64[s0, 7]
  %1 = sum(%0) {dim=[0], keepdim=false} : c64[7]
  return %1, %0
}""",
}


@pytest.fixture(autouse=True)
def _products_of_one_step_stay_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs below have row blocks by their products, some of which have one step."""
    monkeypatch.setattr("rushlight.schedule.gemm.recognition._without_single_steps", lambda body: body)


def planned(name: str) -> Plan:
    """The plan of a program."""
    graph = merge_equal_calls(to_primitives(parse_graph(PROGRAMS[name], OPERATORS)))
    return schedule(graph, ScheduleTarget(64))


def message_of(plan: Plan) -> str:
    """What is said of a plan that reads what is not written."""
    with pytest.raises(CompileError) as caught:
        verify_memory(plan)
    assert caught.value.code == "C015"
    return str(caught.value)


@pytest.fixture(params=list(PROGRAMS))
def plan(request: pytest.FixtureRequest) -> Plan:
    return planned(request.param)


def test_sound_plans_are_proven(plan: Plan) -> None:
    """All that is left open is written where data says, to memory that is filled."""
    for write in verify_memory(plan):
        assert write.filled
        assert "depends on data" in write.reason


def first_writers(plan: Plan) -> Iterator[int]:
    """The launches after which something is written that was not before: what others need of them."""
    seen = set(plan.inputs)
    for number, launch in enumerate(plan.launches):
        kernel = plan.kernels[launch.kernel]
        if isinstance(kernel, Kernel):
            stored = {store.buffer for store in kernel.stores() if store.combine is None}
            made = {outer for inner, outer in zip(kernel.buffers, launch.buffers, strict=False) if inner in stored}
        else:
            made = set(launch.buffers)
        if made - seen:
            yield number
        seen |= made


def test_a_launch_that_is_missing_is_found(plan: Plan) -> None:
    numbers = list(first_writers(plan))
    assert numbers
    for number in numbers:
        message = message_of(replace(plan, launches=plan.launches[:number] + plan.launches[number + 1 :]))
        assert "not written before" in message or "not filled before" in message


def test_launches_in_the_wrong_order_are_found() -> None:
    """Of two launches the second of which reads what the first is first to write."""
    found = 0
    for name in PROGRAMS:
        plan = planned(name)
        for number in first_writers(plan):
            made = set(plan.launches[number].buffers) - set(plan.inputs)
            for later in range(number + 1, len(plan.launches)):
                earlier = {buffer for launch in plan.launches[:number] for buffer in launch.buffers}
                if not (made - earlier) & set(plan.launches[later].buffers):
                    continue
                order = list(plan.launches)
                order[number], order[later] = order[later], order[number]
                assert "before" in message_of(replace(plan, launches=tuple(order)))
                found += 1
    assert found > 10


def shorter(kernel: Kernel, launch: Launch) -> Iterator[tuple[Kernel, Launch]]:
    """The kernel with each of its loops one iteration short, and a launch of it."""

    def shortened(body: tuple[Statement, ...], which: list[int]) -> tuple[Statement, ...]:
        made: list[Statement] = []
        for statement in body:
            if isinstance(statement, Loop):
                which[0] -= 1
                axis = statement.axis
                if which[0] == -1:
                    axis = replace(axis, extent=axis.extent - 1)
                made.append(Loop(axis, shortened(statement.body, which)))
            else:
                made.append(statement)
        return tuple(made)

    for place in range(16):
        which = [place]
        new = replace(kernel, body=shortened(kernel.body, which))
        if which[0] >= 0:
            return
        extents = [axis.extent for axis in new.parallel_axes]
        yield new, replace(launch, count=product([extent for extent in extents if not isinstance(extent, Scalar)]))


def test_a_loop_that_ends_too_early_is_found() -> None:
    found = 0
    for name in PROGRAMS:
        plan = planned(name)
        for number in first_writers(plan):
            kernel = plan.kernels[plan.launches[number].kernel]
            if not isinstance(kernel, Kernel) or any(axis.kind is AxisKind.SERIAL for axis in axes_of(kernel.body)):
                continue
            if [launch.kernel for launch in plan.launches].count(plan.launches[number].kernel) > 1:
                continue
            for changed, launch in shorter(kernel, plan.launches[number]):
                kernels = tuple([changed if other is kernel else other for other in plan.kernels])
                launches = tuple([launch if other is plan.launches[number] else other for other in plan.launches])
                message_of(replace(plan, kernels=kernels, launches=launches))
                found += 1
    assert found > 8


def axes_of(body: tuple[Statement, ...]) -> Iterator[Any]:
    """The axes of all loops."""
    for statement in body:
        if isinstance(statement, Loop):
            yield statement.axis
            yield from axes_of(statement.body)


def test_a_launch_of_fewer_iterations_is_found() -> None:
    plan = planned("long sums")
    first = replace(plan.launches[0], count=plan.launches[0].count - 1)
    assert "other iterations" in message_of(replace(plan, launches=(first, *plan.launches[1:])))


def test_values_that_share_memory_at_the_same_time_are_found() -> None:
    plan = planned("chain of products")
    assert len(plan.slots) == 3
    moved = tuple([replace(slot, after=()) for slot in plan.slots])
    assert "two values that are needed at once share memory" in message_of(replace(plan, slots=moved))
    short = (replace(plan.slots[0], size_bytes=plan.slots[0].size_bytes - 64), *plan.slots[1:])
    assert "another size than the value" in message_of(replace(plan, slots=short))
    lent = tuple([replace(slot, within=plan.outputs[0]) for slot in plan.slots])
    assert "an output that is in use" in message_of(
        replace(plan, slots=lent, launches=(*plan.launches, plan.launches[-2]))
    )


def with_row_blocks(plan: Plan, change: Callable[[RowBlockKernel], RowBlockKernel]) -> Plan:
    """The plan with another kernel of row blocks."""
    return replace(
        plan,
        kernels=tuple([change(kernel) if isinstance(kernel, RowBlockKernel) else kernel for kernel in plan.kernels]),
    )


@pytest.mark.parametrize("name", ["attention", "scatter and row blocks"])
def test_what_is_missing_in_a_band_is_found(name: str) -> None:
    plan = planned(name)
    (row_blocks,) = (kernel for kernel in plan.kernels if isinstance(kernel, RowBlockKernel))
    for number in range(len(row_blocks.launches)):
        rest = row_blocks.launches[:number] + row_blocks.launches[number + 1 :]
        assert "before" in message_of(with_row_blocks(plan, lambda kernel, rest=rest: replace(kernel, launches=rest)))
    backwards = with_row_blocks(plan, lambda kernel: replace(kernel, launches=kernel.launches[::-1]))
    assert "before" in message_of(backwards)
    small = with_row_blocks(plan, lambda kernel: replace(kernel, slot_bytes=1))
    assert "beyond its scratch memory" in message_of(small)


def test_values_of_a_row_block_at_one_offset_are_found() -> None:
    plan = planned("attention")
    there = with_row_blocks(
        plan, lambda kernel: replace(kernel, offsets=tuple([(one, 0) for one, _ in kernel.offsets]))
    )
    assert "share memory" in message_of(there)


def test_the_memory_of_a_row_block_is_new_in_each_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value of the program that a chain takes for memory of its own: nobody has written it there."""
    graph = merge_equal_calls(to_primitives(parse_graph(PROGRAMS["scatter and row blocks"], OPERATORS)))

    def band_launch_without(name: str, local: Any, launches: Any, outside: set[Buffer]) -> Any:
        return row_block_launch(name, local, launches, {buffer for buffer in outside if buffer.name != "v1"})

    with monkeypatch.context() as patch:
        patch.setattr(making, "row_block_launch", band_launch_without)
        broken = schedule(graph, ScheduleTarget(64))
    assert "v1" in message_of(broken)
    verify_memory(schedule(graph, ScheduleTarget(64)))


def without_zeros() -> Plan:
    """A program that has lost the zeros that a scatter starts from, which stores rather than adds."""
    plan = planned("scatter and row blocks")
    scattered = next(launch for launch in plan.launches if launch.count == 1 and len(launch.buffers) == 3)
    kernel = plan.kernels[scattered.kernel]
    assert isinstance(kernel, Kernel)
    plain = replace(kernel, body=tuple([replace(store, combine=None) for store in kernel.stores()]))
    kernels = tuple([plain if other is kernel else other for other in plan.kernels])
    first = next(number for number, launch in enumerate(plan.launches) if scattered.buffers[-1] in launch.buffers)
    return replace(plan, kernels=kernels, launches=plan.launches[:first] + plan.launches[first + 1 :])


def test_what_lacks_a_proof_is_filled_first() -> None:
    """What is written where data says, as well as what is written in part."""
    unfilled = without_zeros()
    assert "depends on data" in message_of(unfilled)
    undecided = verify_memory(unfilled, strict=False)
    assert not all(write.filled for write in undecided)
    filled = fill_first(unfilled, undecided)
    assert len(filled.launches) == len(unfilled.launches) + 1
    assert all(write.filled for write in verify_memory(filled))


@pytest.mark.parametrize("verify", [True, False])
def test_every_compilation_fills_what_data_writes(monkeypatch: pytest.MonkeyPatch, verify: bool) -> None:
    """Whether passes are verified or not; and says what was left open."""
    graph = parse_graph(PROGRAMS["scatter and row blocks"], OPERATORS)
    before = events.count("undecided_write")
    with settings.override(verify=verify):
        plan = run_passes(graph, TARGET, until="07-tiled.ir")
        assert events.count("undecided_write") == before + 2
        assert len(plan.launches) == len(planned("scatter and row blocks").launches)
        unfilled = without_zeros()
        monkeypatch.setattr(pipeline, "tile", lambda _: unfilled)
        filled = run_passes(graph, TARGET, until="07-tiled.ir")
    assert len(filled.launches) == len(unfilled.launches) + 1
    assert any("it is filled first" in str(event.reason) for event in events.events("undecided_write"))
    assert all(write.filled for write in verify_memory(filled))


@pytest.mark.parametrize("name", LISTED)
def test_operators_that_write_where_data_says_are_listed(name: str) -> None:
    """And they start from memory that is filled."""
    found: list[Undecided] = []
    for program in single_calls(OPERATORS[name]):
        pool = Pool()
        graph = pool.graph([pool.trace(program)])
        found += undecided_writes(run_passes(graph, TARGET, until="07-tiled.ir"))
    assert found
    assert all(write.filled for write in found)


def test_plans_that_read_what_nobody_wrote_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned("long sums")
    broken = replace(plan, launches=plan.launches[1:])
    monkeypatch.setattr(pipeline, "tile", lambda _: broken)
    with pytest.raises(CompileError, match="not written before"):
        run_passes(parse_graph(PROGRAMS["long sums"], OPERATORS), TARGET, until="07-tiled.ir")


def test_the_quick_look_sees_what_the_whole_proof_sees(plan: Plan) -> None:
    by_data = [write for write in verify_memory(plan) if "depends on data" in write.reason]
    assert {write.buffer for write in undecided_writes(plan)} == {write.buffer for write in by_data}


# Coverage by itself: the elements that pieces are together.

SCOPE = Scope()
N = SCOPE.symbol("n", optimization_hint=10)
M = SCOPE.symbol("m", optimization_hint=10)


def blocks(total: Size, width: int) -> tuple[Size, list[tuple[Any, Size]]]:
    """An axis in blocks: its position, and the loops."""
    count = ceildiv(total, width)
    block = axis_symbol(count, "block")
    length = minimum(width, total - block * width)
    within = axis_symbol(length, "within")
    return block * width + within, [(block, count), (within, length)]


def test_blocks_cover_an_axis() -> None:
    position, loops = blocks(N, 64)
    assert covers([Piece.of(position, loops)], [(1, N)])
    assert not covers([Piece.of(position, loops)], [(1, N + 1)])
    assert not covers([Piece.of(position + 1, loops)], [(1, N)])
    assert not covers([Piece.of(position * 2, loops)], [(1, N)])
    assert not covers([Piece(0, length=N * N)], [(1, N)])


def test_a_rest_covers_what_whole_turns_leave() -> None:
    whole, rest = axis_symbol(floordiv(N, 4), "whole"), axis_symbol(N - 4 * floordiv(N, 4), "rest")
    pieces = [Piece.of(4 * whole + place, [(whole, floordiv(N, 4))]) for place in range(4)]
    pieces.append(Piece.of(4 * floordiv(N, 4) + rest, [(rest, N - 4 * floordiv(N, 4))]))
    assert covers(pieces, [(1, N)])
    for missing in range(5):
        assert not covers(pieces[:missing] + pieces[missing + 1 :], [(1, N)])


@pytest.mark.parametrize("length", [N, 7, 8])
def test_remainders_cover_an_axis(length: Size) -> None:
    counts = [ceildiv(length - place, 3) for place in range(3)]
    axes = [axis_symbol(count, "p") for count in counts]
    pieces = [Piece.of(3 * axis + place, [(axis, counts[place])]) for place, axis in enumerate(axes)]
    assert covers(pieces, [(1, length)])
    assert not covers(pieces[1:], [(1, length)])
    assert not covers(pieces[:-1], [(1, length)])


def test_a_size_that_is_known_to_divide_is_its_quotient() -> None:
    """Four times a quarter, in a product with a sum: a convolution's padded rows, in groups of channels."""
    scope = Scope()
    channels, width = scope.symbol("c", optimization_hint=8), scope.symbol("w", optimization_hint=5)
    group, of_groups = axis_symbol(4, "group"), floordiv(channels, 4)
    piece = Piece.of(
        (width + 3) * of_groups * group + (place := axis_symbol((width + 3) * of_groups, "place")),
        [(group, 4), (place, (width + 3) * of_groups)],
    )
    assert not covers([piece], [(1, channels * (width + 3))])
    scope.learn(eq(channels - 4 * of_groups, 0))
    assert covers([piece], [(1, channels * (width + 3))])


def test_an_axis_that_offsets_divide_is_parted() -> None:
    flat = axis_symbol(N * M, "flat")
    row, column = floordiv(flat, M), flat - M * floordiv(flat, M)
    assert covers([Piece.of(column * N + row, [(flat, N * M)])], [(1, N * M)])


def test_panels_may_lack_their_last_elements_only() -> None:
    position, ((block, count), (within, length)) = blocks(M, 6)
    step = axis_symbol(N, "k")
    offset = 6 * N * block + 6 * step + within
    piece = Piece.of(offset, [(block, count), (step, N), (within, length)])
    assert covers([piece], [(1, 6 * N * ceildiv(M, 6))], width=6)
    assert not covers([piece], [(1, 6 * N * ceildiv(M, 6))])
    assert position is not None
    short = Piece.of(offset, [(block, count), (step, N - 1), (within, length)])
    assert not covers([short], [(1, 6 * N * ceildiv(M, 6))], width=6)


def test_elements_of_a_layout_are_its_runs() -> None:
    assert runs_of(TensorType((N, M), float32)) == ((1, N * M),)
    assert runs_of(TensorType((N, M), float32, strides=(1, N))) == ((1, N * M),)
    assert runs_of(TensorType((N, 1, M), float32, strides=(2 * M, 5, 1))) == ((1, M), (2 * M, N))
    assert runs_of(TensorType((N, M), float32, strides=(0, 1))) == ((1, M),)
    assert runs_of(TensorType((N,), float32), complex_parts=True) == ((1, 2 * N),)
