"""Programs on sizes that nobody knows: no operator asks what cannot be answered, and all sizes give eager's results."""

import itertools

import numpy as np
import pytest

from rushlight.eager.tracing import tracer
from rushlight.ops import OPERATORS
from rushlight.testing import fuzz, traced, unbacked_fuzz
from rushlight.testing.making import make_program, sized_operators
from rushlight.testing.programs import Gradient, Input, Of, Own, Program, Ref, Step

PROGRAMS = 10_000
CHUNK = 250
# Of so many chunks one is compiled and run, which takes ten times as long; of the others types and asserts are compared
# with eager. The first calls of those that run are all operators.
COMPILED = 18
SEED = 20


@pytest.mark.generated
@pytest.mark.slow
@pytest.mark.usefixtures("quick_code")
@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_programs_on_unknown_sizes_agree_with_eager(first):
    report = unbacked_fuzz(SEED, CHUNK, first=first, execute=first // CHUNK % COMPILED == 0)
    assert not report.findings, str(report)
    assert report.outcomes["equal"] > 3.5 * CHUNK, str(report)


def test_programs_that_run_begin_with_every_operator():
    first_numbers = range(0, PROGRAMS, CHUNK * COMPILED)
    places = {(first + number) % len(sized_operators()) for first in first_numbers for number in range(CHUNK)}
    assert places == set(range(len(sized_operators())))


def test_programs_are_made_again_from_their_seed_and_number():
    ops = sized_operators()
    one, other = (str(make_program(3, 5, ops)) for _ in range(2))
    assert one == other
    assert one != str(make_program(4, 5, ops))


def calls(program):
    """The calls of a program, without copies that are made to be written to."""
    steps = [part for part in program.parts if isinstance(part, Step)]
    copied = [step.op.name == "clone" and after.writes for step, after in itertools.pairwise(steps)]
    return [step for step, is_copy in zip(steps, (*copied, False), strict=False) if not is_copy]


def test_programs_chain_calls_and_give_sizes_on():
    ops = sized_operators()
    programs = [make_program(SEED, number, ops) for number in range(6 * len(ops))]  # some samples do not fit
    steps = [found for program in programs if (found := calls(program))]
    assert {step[0].op.name for step in steps} == {op.name for op in ops}
    assert max(len(step) for step in steps) == 4
    assert sum(len(step) > 1 for step in steps) > len(ops)
    sized = [part for program in programs for part in program.parts if any(isinstance(d, Of) for d in _dims(part))]
    assert len(sized) > len(ops) / 2


def _begins_with_an_array(op):
    """An operator whose samples hold a number first, where it has no derivative, has nothing to write to."""
    samples = op.samples_rule(np.random.default_rng(0))
    return any(isinstance(op.bind(sample.args, sample.kwargs)[0][0], np.ndarray) for sample in samples)


def test_programs_write_in_place_and_end_with_gradients():
    ops = sized_operators()
    programs = [make_program(SEED, number, ops) for number in range(12000)]
    steps = [part for program in programs for part in program.parts if isinstance(part, Step)]
    writes = [step for step in steps if step.writes]
    assert len(steps) / 10 < len(writes) < len(steps) / 5
    written = {step.op.name for step in writes}
    assert written == {op.name for op in ops if "inplace" in op.variants and _begins_with_an_array(op)}
    ends = [program.parts[-1] for program in programs if program.gradients]
    assert 1200 < len(ends) < 3000 and all(isinstance(end, Gradient) for end in ends)
    assert any(len(end.values) > 1 for end in ends) and any(len(end.inputs) > 2 for end in ends)
    assert sum(None in end.starts for end in ends) > 5
    assert sum(program.writes and program.gradients > 0 for program in programs) > 50
    functional = [make_program(SEED, number, ops, functional=True) for number in range(300)]
    assert not any(program.writes or program.gradients for program in functional)


def pair():
    """An input that requires gradients, and its value's gradient."""
    sample = np.array([0.5, -2.0], np.float32)
    return Input((Own(0, 2),), sample, "row-major", False, None), Input((Of(((0, 0),)),), sample, "spread", True, None)


def ran(monkeypatch, *parts):
    """The report on one program."""
    program = Program("by hand", parts, (Own(0, 2),))
    monkeypatch.setattr(fuzz, "make_program", lambda seed, number, ops: program)
    return unbacked_fuzz(0, 1)


def call(name, *operands, writes=False):
    return Step(OPERATORS[name], tuple([Ref(value) for value in operands]), {}, 1, writes)


def test_errors_of_writes_have_to_agree(monkeypatch):
    leaf, start = pair()
    for parts, code in [
        ((call("relu", 0, writes=True), start, Gradient((1,), (0,), (2,))), "G002"),
        ((call("alias", 0), call("relu", 1, writes=True), start, Gradient((2,), (0,), (3,))), "G006"),
        ((call("exp", 0), call("neg", 1, writes=True), start, Gradient((2,), (0,), (3,))), "G003"),
        ((call("sign", 0), call("gt", 0, 1), start, Gradient((2,), (0,), (3,))), "G005"),
    ]:
        report = ran(monkeypatch, leaf, *parts)
        assert report.outcomes == {"raised": 5}, f"{code}: {report}"
        monkeypatch.setattr(fuzz, "run_eagerly", lambda program, name: fuzz.Outcome((), "G001", ()))
        assert [item.kind for item in ran(monkeypatch, leaf, *parts).findings] == ["refused"]
        monkeypatch.undo()


def test_a_write_that_is_not_carried_back_is_noticed(monkeypatch):
    x, _ = pair()
    parts = x, call("clone", 0), call("alias", 1), call("exp", 2, writes=True)
    assert ran(monkeypatch, *parts).outcomes == {"equal": 5}
    monkeypatch.setattr(tracer, "carried_back", lambda tracer, binding, target, value: binding.cell.node)
    assert {item.kind for item in ran(monkeypatch, *parts).findings} == {"wrong"}


@pytest.mark.parametrize("wrong", [lambda grad: grad * 2, lambda grad: grad.double(), lambda grad: None])
def test_wrong_gradients_are_noticed(monkeypatch, wrong):
    leaf, start = pair()
    parts = leaf, call("exp", 0), start, Gradient((1,), (0,), (2,))
    assert ran(monkeypatch, *parts).outcomes == {"equal": 5}
    run = traced.applied

    def applied(part, values, size):
        found = run(part, values, size)
        return tuple([wrong(item) for item in found]) if isinstance(part, Gradient) else found

    monkeypatch.setattr(traced, "applied", applied)
    assert {item.kind for item in ran(monkeypatch, *parts).findings} == {"wrong"}


def test_an_index_that_the_graph_alone_refuses_is_noticed_and_stops_no_other_program(monkeypatch):
    rows = Input((Own(0, 2),), np.array([0.5, -2.0], np.float32), "row-major", False, None)
    index = Input((3,), np.array([1, 0, 1]), "row-major", False, None)
    picked = Program(
        "picked", (rows, index, Step(OPERATORS["index_select"], (Ref(0), Ref(1)), {"dim": 0}, 1, False)), (Own(0, 2),)
    )
    other = Program("other", (rows, call("exp", 0)), (Own(0, 2),))
    monkeypatch.setattr(fuzz, "make_program", lambda seed, number, ops: (picked, other)[number])
    assert not unbacked_fuzz(0, 2).findings
    monkeypatch.setattr("rushlight.eager.execution.kernels.run_checks", lambda op, checks, operands: None)
    report = unbacked_fuzz(0, 2)
    assert {(item.kind, item.program.name) for item in report.findings} == {("refused", "picked")}


def _dims(part):
    if isinstance(part, Gradient):
        return []
    if isinstance(part, Step):
        return [item for value in part.attrs.values() for item in (value if isinstance(value, tuple) else (value,))]
    return part.dims
