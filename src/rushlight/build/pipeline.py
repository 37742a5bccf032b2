"""The pipeline: named passes from a traced graph to LLVM text. Each stage can be printed, dumped and checked.

Stages that read back from text can be edited: graphs (00 to 02) and the LLVM text (08). The stages between, 03 to 07,
are printed and checked only, because definitions, groups and plans have no parser.

>>> print(*PIPELINE, sep="\\n")
capture -> 00-captured.ir
decompose -> 01-primitives.ir
...
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.build.decompose import merge_equal_calls, to_primitives
from rushlight.build.stages import NO_STAGES, Stages
from rushlight.codegen.llvm.entry.module import emit_module
from rushlight.ir.choice import BLOCKS, Blocks, Choose, ScheduleTarget, by_model
from rushlight.ir.gemm_tile import narrow_products
from rushlight.ir.graph import Call, Graph
from rushlight.ir.graph_parse import parse_graph
from rushlight.ir.kernel_text import plan_text
from rushlight.ir.plan import Plan
from rushlight.ir.target import Target
from rushlight.ir.text import format_graph
from rushlight.ir.verify import broken, verify_graph
from rushlight.ir.verify_kernel import verify_plan
from rushlight.ir.verify_memory import undecided_writes, verify_memory
from rushlight.ops.record import OPERATORS
from rushlight.schedule.loops.grid import to_grid
from rushlight.schedule.memory.filling import fill_first
from rushlight.schedule.passes import fold, fuse, lower, order, tile
from rushlight.schedule.record import Schedule
from rushlight.schedule.text import folded_text, fused_text, lowered_text, ordered_text
from rushlight.schedule.verify import verify_folded, verify_fused, verify_lowered, verify_ordered
from rushlight.support import clock, events, settings
from rushlight.support.errors import RushlightError
from rushlight.support.frozen import frozen


@frozen
class Code:
    """The last stage: LLVM text, the messages of its assertions, and the plan it was written from."""

    text: str
    messages: tuple[str, ...]
    plan: Plan


@frozen
class PassContext:
    """Inputs of passes besides the stage before: the target, the chooser of tiles of matrix products, and blocks."""

    target: Target
    choose: Choose
    blocks: Blocks


@frozen
class Pass:
    """One pass: `run` makes a stage from the one before, `show` prints it under the file name `stage`.

    `verify` checks the stage. `read(text, stage)` is the stage with an edited text, if the stage can be edited.
    """

    name: str
    stage: str
    run: Callable[[Any, PassContext], object]
    show: Callable[[Any], str]
    verify: Callable[[Any], None] | None = None
    read: Callable[[str, Any], object] | None = None

    def __str__(self) -> str:
        return f"{self.name} -> {self.stage}"


def run_passes(
    graph: Graph,
    target: Target,
    stages: Stages = NO_STAGES,
    until: str = "",
    choose: Choose = by_model,
    blocks: Blocks = BLOCKS,
) -> Any:
    """Runs the passes up to the stage named `until`, by default the last one, which is a `Code`.

    `stages` are dumped and, where edited, taken over. `choose` chooses the tiles of matrix products, and
    loops are walked in `blocks`.
    """
    value: object = graph
    context = PassContext(target, choose, blocks)
    for step in PIPELINE:
        before = None if step is PIPELINE[0] else value
        with clock.stage(step.name):
            value = step.run(value, context)
        edited = stages.edited(step.stage) if step.read is not None else None
        if edited is not None and step.read is not None:
            value = _taken_over(step.stage, step.read, edited, value)
        if step.verify is not None and value is not before and (edited is not None or settings.get().verify):
            step.verify(value)
        stages.dump(step.stage, lambda shown=value, show=step.show: show(shown))
        if step.stage == until:
            break
    return value


def _taken_over(stage: str, read: Callable[[str, Any], object], text: str, value: object) -> object:
    try:
        return read(text, value)
    except RushlightError as cause:
        cause.add_note(f"  in the edited stage {stage}")
        raise


def _as_captured(graph: Graph, context: PassContext) -> Graph:
    return graph


def _decompose(graph: Graph, context: PassContext) -> Graph:
    return to_primitives(graph)


def _merge(graph: Graph, context: PassContext) -> Graph:
    return merge_equal_calls(graph)


def _lower(graph: Graph, context: PassContext) -> Schedule:
    target, without = context.target, frozenset(settings.get().without)
    narrow = narrow_products(target)
    return lower(graph, ScheduleTarget(target.vector_bytes, narrow, context.choose, context.blocks, without))


def _fold(schedule: Schedule, context: PassContext) -> Schedule:
    return fold(schedule)


def _fuse(schedule: Schedule, context: PassContext) -> Schedule:
    fused = fuse(schedule)
    for reason, count in Counter([missed.verdict.reason for missed in fused.missed]).items():
        events.record("missed_fusion", "fuse", f"{schedule.graph.name}: {reason} ({count} times)")
    return fused


def _order(schedule: Schedule, context: PassContext) -> Schedule:
    return order(schedule)


def _tile(schedule: Schedule, context: PassContext) -> Plan:
    """The plan. Memory of data-dependent stores is filled first, unless it provably was filled before."""
    plan = tile(schedule)
    undecided = undecided_writes(plan)
    if not all(write.filled for write in undecided):
        plan = fill_first(plan, undecided)
    for write in undecided:
        when = "it was filled before" if write.filled else "it is filled first"
        events.record("undecided_write", write.kernel, f"{write.buffer.name}: {write.reason}; {when}")
    return to_grid(plan, context.blocks.unit) if context.blocks.grid else plan


def _emit(plan: Plan, context: PassContext) -> Code:
    return Code(*emit_module(plan, context.target, grid=context.blocks.grid), plan)


def _graph_text(graph: Graph) -> str:
    return format_graph(graph, facts=True) + "\n"


def _read_graph(text: str, graph: Graph) -> Graph:
    """Return an edited graph; its inputs and results must equal the original's."""
    edited = parse_graph(text, OPERATORS)
    for role, after, before in (
        ("inputs", _kinds(edited.parameters), _kinds(graph.parameters)),
        ("outputs", _kinds(edited.outputs), _kinds(graph.outputs)),
        ("written inputs", [number for number, _ in edited.mutations], [number for number, _ in graph.mutations]),
    ):
        if after != before:
            broken(graph.name, f"the edited graph has other {role}", edited=after, original=before)
    return edited


def _kinds(calls: Sequence[Call]) -> list[str]:
    return [f"{call.type.dtype.name} of {call.type.ndim} dims" for call in calls]


def _code_text(code: Code) -> str:
    return code.text


def _read_code(text: str, code: Code) -> Code:
    return Code(text, code.messages, code.plan)


def _check_plan(plan: Plan) -> None:
    """Checks that a plan is valid and that each launch reads only memory that has been written before.

    A write that is neither proven complete nor known to be incomplete is an event.
    """
    verify_plan(plan)
    for write in verify_memory(plan, strict=False):
        if not write.filled:
            events.record("unproven_write", write.kernel, f"{write.buffer.name}: {write.reason}")


def _check_graph(graph: Graph) -> None:
    """Checks a graph, and that its text reads back equal."""
    verify_graph(graph)
    text = _graph_text(graph)
    again = _read_back(text)
    if again != text:
        lost = [line for line in text.splitlines() if line not in again.splitlines()]
        broken(graph.name, "the text does not read back equal", lost="; ".join(lost[:3]))


PLAN_STAGE = "07-tiled.ir"
"""The stage whose value is a plan."""


# Passes that change nothing, and programs that are compiled again, have graphs of texts that were read before.
@functools.lru_cache(maxsize=256)
def _read_back(text: str) -> str:
    return _graph_text(parse_graph(text, OPERATORS))


PIPELINE: tuple[Pass, ...] = (
    Pass("capture", "00-captured.ir", _as_captured, _graph_text, _check_graph, _read_graph),
    Pass("decompose", "01-primitives.ir", _decompose, _graph_text, _check_graph, _read_graph),
    Pass("merge equal calls", "02-merged.ir", _merge, _graph_text, _check_graph, _read_graph),
    Pass("lower", "03-lowered.ir", _lower, lowered_text, verify_lowered),
    Pass("fold", "04-folded.ir", _fold, folded_text, verify_folded),
    Pass("fuse", "05-fused.ir", _fuse, fused_text, verify_fused),
    Pass("order", "06-ordered.ir", _order, ordered_text, verify_ordered),
    Pass("tile", PLAN_STAGE, _tile, plan_text, _check_plan),
    Pass("emit", "08-kernels.ll", _emit, _code_text, None, _read_code),
)
