"""What capture costs: how it is measured, and what the bars are that no machine is too slow for."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rushlight.bench import capturing, tracing
from rushlight.bench.bytecodes import Meter
from rushlight.bench.contestants import Kind


def spin(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_an_instruction_has_neither_the_time_nor_the_operators_of_those_inside():
    meter, made = Meter(), [0]

    def inner() -> None:
        spin(0.03)
        made[0] += 1

    def outer() -> None:
        meter.measure(inner, (), lambda: made[0])
        spin(0.01)

    meter.measure(outer, (), lambda: made[0])
    assert (len(meter.python), len(meter.calls), meter.operators) == (1, 1, 1)
    assert 0.01e9 <= meter.python[0] < 0.02e9 < 0.03e9 <= meter.calls[0]


def test_bytecodes_operators_and_guards_are_printed(
    rushlight: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(tracing, "frameworks_of", lambda python: {})
    out = tmp_path / "capture.json"
    ended = rushlight("bench", "capture", "pointwise", "--peers", "--json", str(out))
    assert ended.status == 0, ended.err
    whole, parts, torch = json.loads(out.read_text())
    assert (parts["bytecodes"], parts["operators"]) == (12, 5)
    assert 0 < parts["median_us"] < parts["operator_us"]
    assert whole["guards_us"] < whole["call_us"]
    assert torch["status"] == "absent"
    assert "pointwise by torch.compile was not measured: no interpreter here has torch" in ended.out
    assert rushlight("bench", "capture", "nothing").err.startswith("error A002: ")


def test_the_exponent_of_depths_leaves_out_the_deepest():
    def measured(kind: Kind, depth: int) -> capturing.Measured:
        answer = {"status": "ready", "first_s": 1.0, "again_s": 1e-3 * depth**1.05}
        return capturing.Measured(kind, "nested", depth, answer)

    deepest = capturing.Measured(
        capturing.PARTS, "nested", capturing.DEEPEST, {"status": "ready", "first_s": 9.0, "again_s": 9.0}
    )
    late = capturing.Measured(capturing.TORCH, "nested", 80, {"status": "late", "reason": "not done within 1 s"})
    results = [measured(kind, depth) for kind in (capturing.WHOLE, capturing.PARTS) for depth in capturing.DEPTHS]
    table = capturing.depths_table([*results, deepest, late])
    assert [row[0] for row in table.rows] == ["depth", *["10", "20", "40", "80"] * 2, "500"]
    assert table.notes == [
        "nested 80 by torch.compile was not measured: not done within 1 s",
        "rushlight: exponent 1.05",
        "rushlight, in parts: exponent 1.05",
    ]
