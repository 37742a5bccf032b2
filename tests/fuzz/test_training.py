"""Whole training scripts, compiled in parts against eager code: some of the fuzzer's, and a fault that is planted."""

from __future__ import annotations

from collections import Counter

import pytest

from rushlight.capture.resume.interpreters import identifying
from tools.fuzz import training
from tools.fuzz.training import Script
from tools.fuzz.training_features import FEATURES
from tools.fuzz.training_pieces import MODELS, OPTIMIZERS, STEPS

SEED = 2


def script_of(*features: str) -> Script:
    beside = tuple([feature for feature in FEATURES if feature.name in features])
    return Script(SEED, 1, MODELS[0], OPTIMIZERS[0], STEPS[0], beside)


@pytest.mark.generated
@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 4])
def test_scripts_in_parts_do_what_eager_ones_do(number: int) -> None:
    found = training.judge(training.generate(SEED, number), Counter())
    assert found is None, str(found)


def test_scripts_are_drawn_from_all_pieces() -> None:
    scripts = [training.generate(SEED, number) for number in range(200)]
    drawn = {piece.name for script in scripts for piece in (script.model, script.optimizer, script.step)}
    drawn |= {feature.name for script in scripts for feature in script.features}
    assert {piece.name for piece in (*MODELS, *OPTIMIZERS, *STEPS, *FEATURES)} <= drawn
    for script in scripts:
        compile(script.script(), "script", "exec")


def test_an_outcome_is_a_result_what_is_printed_and_globals() -> None:
    (first, second) = training.outcomes(script_of("prints", "counters"), compiled=False)
    assert first[0] == second[0] == "result"
    assert first[2].splitlines()[0].startswith("  0 loss=") and first[2] == second[2]
    assert "'COUNT': 11" in first[3] and "'COUNT': 22" in second[3]


def test_a_number_that_is_a_tensor_to_the_program_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identifying, "is_computed", lambda value: False)
    found = training.wrong(script_of("matched"), Counter())
    assert found is not None and found[0] == "value" and "rest" in found[1]
