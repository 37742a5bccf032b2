"""Breaking any one rule makes the matrix fail: the test of the tests."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from matrix_mutants import MUTANTS
from matrix_questions import QUESTIONS

TREE = Path(__file__).parents[2]


@pytest.mark.generated("question")
@pytest.mark.parametrize(
    ("question", "mutant"), [(mutant.question, mutant) for mutant in MUTANTS], ids=[*map(str, MUTANTS)]
)
def test_broken_rule_is_noticed(question, mutant):
    """No wrong answer before (the matrix itself tests the rest), and at least one after; in a process of its own."""
    path = os.pathsep.join([str(TREE / "src"), str(TREE / "tests" / "harness")])
    command = [sys.executable, "-m", "matrix_mutants", str(mutant)]
    found = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, cwd=TREE, capture_output=True, text=True, timeout=250
    )
    assert found.returncode == 0, found.stderr[-2000:]
    before, after = json.loads(found.stdout)[str(mutant)]
    assert before == 0
    assert after > 0, f"{question} does not notice that {mutant.op} is broken: {mutant.name}"


def test_every_question_can_fail():
    """Each question is put to some mutant."""
    assert {mutant.question for mutant in MUTANTS} == set(QUESTIONS)
