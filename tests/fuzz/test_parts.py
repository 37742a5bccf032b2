"""Functions that are compiled in parts against eager code, bit for bit: some of the fuzzer's programs."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from rushlight.capture.backward import CompiledBackward, MergedBackward
from tools.fuzz import parts
from tools.fuzz.program import Input, Program

PROGRAMS = 120
CHUNK = 30
SEED = 3


@pytest.mark.generated
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_programs_in_parts_have_the_bits_of_eager_ones(first: int) -> None:
    skipped: Counter[str] = Counter()
    found = parts.judge_many([parts.generate(SEED, number) for number in range(first, first + CHUNK)], skipped)
    assert not found, "\n\n".join(map(str, found))
    refused = {reason for reason in skipped if reason.startswith("compiled code refuses")}
    assert refused <= {"compiled code refuses: G015"}, skipped


def test_graphs_of_programs_end_at_breaks_reads_and_hooks() -> None:
    statements = [line for number in range(40) for line in parts.generate(SEED, number).statements]
    assert sum(parts.BREAK in line for line in statements) > 10
    assert sum(".item()" in line for line in statements) > 3
    assert sum("register_hook" in line for line in statements) > 10


def test_a_hook_that_does_not_see_all_of_a_gradient_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    x = Input("float32", (3,), (1,), 0, np.linspace(-1, 1, 3, dtype=np.float32), requires_grad=True)
    statements = ("v1 = v0.sin()", "v2 = v1.exp()", parts.BREAK, parts.HOOK.format(v="v1"))
    program = Program(3, 1, (x,), statements, ("v1", "v2"))
    plan = parts.compiled.planned(program, ())
    monkeypatch.setattr(parts, "plan_of", lambda seed, number: plan)
    assert parts.judge(program, Counter()) is None
    monkeypatch.setattr(CompiledBackward, "merged", lambda self, wanted: MergedBackward((self, *self.rest)))
    finding = parts.judge(program, Counter())
    assert finding is not None and finding.kind == "value" and "gradient" in finding.detail
