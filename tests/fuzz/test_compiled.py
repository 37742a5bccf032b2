"""Compiled functions against eager code, bit for bit: a few hundred of the fuzzer's programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import rushlight as rl
from rushlight.capture import program as capture_program
from rushlight.capture import segmented
from rushlight.support.errors import fail
from tools.fuzz import compiled
from tools.fuzz.program import Input, Program, operands
from tools.fuzz.running import Outcome

PROGRAMS = 300
CHUNK = 30
SEED = 3


@pytest.mark.generated
@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_compiled_programs_have_the_bits_of_eager_ones(first: int) -> None:
    skipped: Counter[str] = Counter()
    programs = [compiled.generate(SEED, number) for number in range(first, first + CHUNK)]
    found = compiled.judge_many(programs, skipped)
    assert not found, "\n\n".join(map(str, found))
    # Neighbours begin with operators of one family, so refusals come together; their mean is a tenth.
    assert skipped.total() < CHUNK / 2, skipped


def test_programs_are_made_again_from_their_seed_and_number() -> None:
    one = compiled.generate(3, 5).script()
    compiled.plan_of.cache_clear()
    assert compiled.generate(3, 5).script() == one


def test_programs_use_values_again_and_leave_results_without_gradients() -> None:
    programs = [compiled.generate(SEED, number) for number in range(40)]
    statements = [statement for program in programs for statement in program.statements]
    assert any(statement.partition(" = ")[2].startswith("[") for statement in statements)
    uses = Counter(name for program in programs for statement in program.statements for name in operands(statement))
    assert max(uses.values()) > 3
    assert any(name in program.parameters for program in programs for name in program.results)


def test_what_tells_a_defect_of_the_compiler_is_a_finding() -> None:
    """As memory that is read unwritten, although its error has a code."""
    assert compiled.is_refused(Outcome((), (), (), error="is traced", code="C002"))
    assert not compiled.is_refused(
        Outcome((), (), (), error="a buffer is read that is not written before", code="C015")
    )


def test_one_pool_of_ten_has_programs_whose_sizes_data_tells() -> None:
    first = 9 * compiled.POOL
    statements = [
        line for number in range(first, first + compiled.POOL) for line in compiled.generate(4, number).statements
    ]
    assert sum(["detach() > 0" in line or "masked_select" in line or "argsort" in line for line in statements]) > 3


def test_an_index_out_of_range_that_compiled_code_takes_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    program, skipped = compiled.generate(43, 700), Counter[str]()
    assert compiled.judge(program, skipped) is None
    monkeypatch.setattr(segmented, "with_index_asserts", lambda graph: graph)
    monkeypatch.setattr(capture_program, "with_asserts_of_dead_calls", lambda graph, _: graph.without_dead_calls())
    rl.compiler.reset()
    finding = compiled.judge(program, skipped)
    assert finding is not None and finding.kind == "accepted"


def test_a_gradient_that_does_not_fit_its_tensor_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    x = Input("float32", (2,), (1,), 0, np.ones(2, np.float32), requires_grad=True)
    program = Program(43, 7, (x,), ("v1 = v0.sin()",), ("v1",))
    late = Outcome((), (), (), "ShapeError", "S009", "the result does not fit", late=True)
    monkeypatch.setattr(compiled, "_alone", lambda program, inputs: late)
    assert compiled.planned(program, ()).misfit == "the result does not fit"
    monkeypatch.setattr(compiled, "_alone", lambda program, inputs: replace(late, late=False))
    assert compiled.planned(program, ()).misfit == ""


def test_what_is_refused_only_with_others_is_counted_and_no_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    x = Input("float32", (2,), (1,), 0, np.ones(2, np.float32), requires_grad=True)
    programs = [Program(0, 1, (x,), (f"v1 = v0.{name}()",), ("v1",)) for name in ("sin", "cos")]
    plans = [compiled.Plan(program, ()) for program in programs]
    run = compiled._on_threads

    def refusing(threads: int, pool: compiled.Pool, row: Sequence[Sequence[Input]]) -> list[Outcome]:
        if len(row) > 1:
            fail("G008", "not together")
        return run(threads, pool, row)

    monkeypatch.setattr(compiled, "_on_threads", refusing)
    skipped: Counter[str] = Counter()
    assert compiled._suspects(plans, skipped) == []
    assert skipped == {"compiled code refuses only with others: G008": 1}
    assert compiled._suspects(plans[:1], skipped) == compiled._suspects(plans[1:], skipped) == []


def test_a_derivative_that_nobody_wants_is_not_missed() -> None:
    """Compiled together with a program that is differentiated, one without a derivative is none."""
    scores = Input("float32", (2, 1, 3), (3, 3, 1), 0, np.linspace(-2, -0.5, 6, dtype=np.float32), requires_grad=True)
    ints = [Input("int64", shape, (1,) * len(shape), 0, np.array([1])) for shape in ((1, 1), (1,), (1,))]
    call = "v4 = torch.ops.OPERATORS['ctc_occupancies'](v0, v1, v2, v3, blank=0)"
    without = Program(0, 0, (scores, *ints), (call, "v5 = [v4]"), ("v5",))
    plans = [compiled.Plan(program, ()) for program in (Program(0, 1, (scores,), ("v1 = v0.sin()",), ("v1",)), without)]
    skipped: Counter[str] = Counter()
    assert compiled._suspects(plans, skipped) == []
    assert not skipped
