"""Programs by chance as exported programs: the same text after parsing and exporting again, and eager's results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl
from rushlight.export import ExportedProgram, export
from rushlight.export.parse import parse_program
from rushlight.support.errors import RushlightError
from rushlight.testing.making import make_program, sized_operators
from rushlight.testing.programs import Input, Program, product_of
from rushlight.testing.running import SEED as DRAWS
from rushlight.testing.running import SETS, applied, difference, run_eagerly

COUNT = 600
CHUNK = 100
SEED = 5


def function_of(program: Program) -> Callable[..., Any]:
    """The program as a function of its inputs, which gives the results of all its calls."""

    def function(*inputs: Any) -> Any:
        given = iter(inputs)
        values: list[Any] = []
        results: list[Any] = []
        for part in program.parts:
            if isinstance(part, Input):
                values.append(next(given))
                continue
            shapes = [tuple(value.shape) for value in values]
            made = applied(part, values, lambda dim, shapes=shapes: product_of(dim, shapes))
            values.extend(made)
            results.extend(made)
        return results

    return function


def split(program: Program, values: Any) -> tuple[tuple[Any, ...], list[Any]]:
    """The inputs and the results among the values of a run."""
    inputs: list[Any] = []
    results: list[Any] = []
    place = 0
    for part in program.parts:
        count = 1 if isinstance(part, Input) else part.results
        (inputs if isinstance(part, Input) else results).extend(values[place : place + count])
        place += count
    return tuple(inputs), results


def run(exported: ExportedProgram, inputs: Any) -> Any:
    """What it gives; None where it does not take sizes like these."""
    rl.manual_seed(DRAWS)
    try:
        return exported.module()(*inputs)
    except RushlightError as error:
        if error.code != "C022":
            raise
        return None


@pytest.mark.generated
@pytest.mark.slow
@pytest.mark.usefixtures("quick_code")
@pytest.mark.parametrize("first", range(0, COUNT, CHUNK))
def test_programs_survive_being_written_down(first: int):
    ops = sized_operators()
    outcomes: Counter[str] = Counter()
    for number in range(first, first + CHUNK):
        program = make_program(SEED, number, ops, functional=True)
        known = run_eagerly(program, SETS[0])
        if known.error is not None:
            outcomes["no example"] += 1
            continue
        inputs, _ = split(program, known.values)
        exported = export(function_of(program), inputs)
        text, constants = str(exported), exported.state.constants
        parsed = parse_program(text, {}, constants)
        assert str(parsed) == text, program
        assert str(export(parsed.module(), inputs, dynamic_shapes=parsed.spec)) == text, program
        undefined = any(item in ("empty", "empty_like") for item in program.operators)
        for name in SETS:
            outcome = run_eagerly(program, name)
            if outcome.error is not None:
                continue
            inputs, wanted = split(program, outcome.values)
            found = run(parsed, inputs)
            outcomes["refused" if found is None else "equal"] += 1
            for one, other in zip(found or (), wanted if found else (), strict=True):
                text = None if undefined else difference(one, other)
                assert text is None, f"{name}: {text}\n{program}\n{parsed}"
    assert outcomes["equal"] > 3 * CHUNK, outcomes
    assert outcomes["no example"] < CHUNK / 10, outcomes
