"""`rushlight explain SCRIPT`: runs a script and says what was compiled for it, and why."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rushlight import capture
from rushlight.capture import function as compiled_function
from rushlight.compiler import shape_report
from rushlight.compiler.explanation import explanation
from rushlight.support import clock, events, settings
from rushlight.support.errors import require
from rushlight.torch.program import run_script, show

MOST_REASONS = 12
TOLD: dict[events.Kind, str] = {
    "missed_fusion": "not fused",
    "undecided_write": "written where data says, after it was filled",
    "unproven_write": "writes not proven to be complete",
    "fallback": "slower ways taken",
    "specialization": "sizes or values fixed",
    "pass_through": "accepted and passed through",
}


def explain(
    context: typer.Context,
    script: Annotated[Path, typer.Argument(help="A Python script; what follows it are its own arguments.")],
    shapes: Annotated[
        bool, typer.Option("--shapes", help="List sizes, guards, asserts, and what further promises would unlock.")
    ] = False,
    page: Annotated[
        Path | None, typer.Option("--html", help="Write graphs, breaks and recompiles to a page of HTML.")
    ] = None,
) -> None:
    """Run a script, then list what was compiled, where graphs end, and why more were made."""
    require(script.is_file(), "A002", "explain: there is no such script", script=str(script))
    capture.reset()
    events.reset()
    clock.reset()
    with settings.override(cache_captured=False):  # what is told is told of traces
        status, namespace = _run(script, context.args)
    console = Console(stderr=True)
    for line in [*account(), *(sizes() if shapes else ())]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if page is not None:
        page.write_text(explanation(compiled_function.compiled_functions()).html(), encoding="utf-8")
    del namespace  # kept until here: compiled functions are known while they live
    raise typer.Exit(status)


def _run(script: Path, arguments: list[str]) -> tuple[int, dict[str, object]]:
    """Runs a script as Python would; its exit status and its globals."""
    try:
        return 0, run_script([str(script), *arguments])
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None), {}
    except Exception as problem:  # noqa: BLE001 - shown as Python would, and then what was compiled
        show(problem)
        return 1, {}


def account() -> list[str]:
    """What happened in this process, as lines of text."""
    lines = ["", *explanation(compiled_function.compiled_functions()).lines()]
    for kind, title in TOLD.items():
        lines += _reasons(title, [str(event.reason) for event in events.events(kind)])
    hits, misses, bypasses = (events.count(kind) for kind in ("cache_hit", "cache_miss", "cache_bypass"))
    lines.append(f"cache: {hits} hits, {misses} misses{f', {bypasses} times not asked' if bypasses else ''}")
    spent = clock.spent_ms()
    if spent:
        lines.append(f"CPU time by stage, in ms: {', '.join([f'{name} {ms:.1f}' for name, ms in spent.items()])}")
    return lines


def sizes() -> list[str]:
    """What the compiled functions of this process know and ask of sizes, as lines of text."""
    return [
        "",
        *str(
            shape_report(*sorted(compiled_function.compiled_functions(), key=lambda function: function.name))
        ).splitlines(),
    ]


def _reasons(title: str, reasons: list[str]) -> list[str]:
    if not reasons:
        return []
    counted = Counter(reasons).most_common(MOST_REASONS)
    rest = len(set(reasons)) - len(counted)
    lines = [f"{title}:", *[f"  {count}x {reason}" for reason, count in counted]]
    return [*lines, f"  and {rest} more"] if rest else lines
