"""Programs on sizes that nobody knows: no operator asks what cannot be answered, and all sizes give eager's results."""

import pytest

from rushlight.testing import unbacked_fuzz
from rushlight.testing.programs import Of, Step, make_program, sized_operators

PROGRAMS = 10_000
CHUNK = 250
COMPILED = 4  # of so many chunks one is compiled and run; of the others types and asserts are compared with eager
SEED = 20


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_programs_on_unknown_sizes_agree_with_eager(first):
    report = unbacked_fuzz(SEED, CHUNK, first=first, execute=first // CHUNK % COMPILED == 0)
    assert not report.findings, str(report)
    assert report.outcomes["equal"] > 3.5 * CHUNK, str(report)


def test_programs_are_made_again_from_their_seed_and_number():
    ops = sized_operators()
    one, other = (str(make_program(3, 5, ops)) for _ in range(2))
    assert one == other
    assert one != str(make_program(4, 5, ops))


def test_programs_chain_calls_and_give_sizes_on():
    ops = sized_operators()
    programs = [make_program(SEED, number, ops) for number in range(4 * len(ops))]  # some samples do not fit
    found = [[part for part in program.parts if isinstance(part, Step)] for program in programs]
    steps = [step for step in found if step]
    assert {step[0].op.name for step in steps} == {op.name for op in ops}
    assert max(len(step) for step in steps) == 4
    assert sum(len(step) > 1 for step in steps) > len(ops)
    sized = [part for program in programs for part in program.parts if any(isinstance(d, Of) for d in _dims(part))]
    assert len(sized) > len(ops) / 2


def _dims(part):
    if isinstance(part, Step):
        return [item for value in part.attrs.values() for item in (value if isinstance(value, tuple) else (value,))]
    return part.dims
