"""Programs, their runs, how they are made smaller, and the ledger."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rushlight as rl
from tools.fuzz.comparing import difference, same_bits
from tools.fuzz.deviations import RULES
from tools.fuzz.ledger import Ledger
from tools.fuzz.program import Input, Program, dense_input, operands, targets
from tools.fuzz.reducing import reduced
from tools.fuzz.running import run


def program(*statements: str, results: tuple[str, ...], requires_grad: bool = False) -> Program:
    dense = dense_input(np.arange(6.0).reshape(2, 3), "float32", requires_grad)
    strided = Input("bfloat16", (3, 2), (1, 3), 2, np.arange(8).astype("float32").astype(rl.bfloat16.numpy))
    return Program(0, 7, (dense, strided), statements, results)


def test_names_of_statements() -> None:
    assert targets("v3, v4 = v1.sort(dim=0)") == ("v3", "v4") and operands("v3, v4 = v1.sort(dim=0)") == ("v1",)
    assert targets("v1[0] = v2") == () and operands("v1[v3 == 1] = v2") == ("v1", "v3", "v2")
    assert operands("v10 = torch.where(v1 == 0, v1, v2)") == ("v1", "v2")


def test_a_run_has_values_storages_and_gradients() -> None:
    outcome = run(program("v2 = v0.t() * (v1 + 0)", "v1.add_(1)", results=("v2", "v1"), requires_grad=True), rl)
    assert outcome.error is None
    assert outcome.values[0].dtype == "float32" and outcome.values[0].shape == (3, 2)
    assert outcome.values[0].array.tolist() == [[0, 15], [3, 24], [8, 35]]
    assert outcome.inputs[1].tolist() == [0, 1, 3, 4, 5, 6, 7, 8]
    gradient, none = outcome.gradients
    assert none is None and gradient is not None and gradient.shape == (2, 3)


def test_a_transformed_run_is_the_same() -> None:
    given = program("v2 = (v0.t() * v1).sum(0)", results=("v2",), requires_grad=True)
    assert difference(run(given, rl, rl.compile), run(given, rl)) is None


def test_errors_have_their_code_and_statement() -> None:
    outcome = run(program("v2 = v0 + 1", "v3 = v2 @ v0", results=("v3",)), rl)
    assert (outcome.error, outcome.code, outcome.line) == ("ShapeError", "S003", 1)
    raw = run(program("v2 = v0 + 1", "v3 = v2.nothing[0", results=("v3",)), rl)
    assert raw.code is None


def test_scripts_run(capsys: pytest.CaptureFixture[str]) -> None:
    text = program("v2 = v0.t() * v1", results=("v2",)).script().replace("import torch, torch.nn.functional as F", "")
    exec(text, {"torch": rl})
    assert "24." in capsys.readouterr().out


def test_nan_is_like_another_and_zeros_have_signs() -> None:
    assert same_bits(np.array([np.nan]), np.array([-np.nan])) and not same_bits(np.array([0.0]), np.array([-0.0]))


def test_failing_programs_are_made_smaller() -> None:
    given = program("v2 = v0 * 2", "v3 = v1.float()", "v4 = v2 + 1", "v5 = v3 * 3", results=("v4", "v5"))
    smallest = reduced(
        given, lambda other: any("* 3" in line for line in other.statements) and "v" in str(other.results)
    )
    assert [line.split(" = ")[1] for line in smallest.statements] in (
        ["v0 * 3"],
        ["v0.float()", "v2 * 3"],
        ["v1.float()", "v2 * 3"],
    )
    assert all(size <= 1 for given in smallest.inputs for size in given.shape)


def test_the_ledger_goes_on_where_it_was(tmp_path) -> None:
    ledger = Ledger(tmp_path / "ledger.json")
    ledger.add("operators", 3, 0, 50)
    ledger.add("operators", 3, 80, 100)
    assert Ledger(ledger.path).next("operators", 3, 100) == (50, 80)
    ledger.add("operators", 3, 50, 80)
    assert ledger.done("operators", 3) == [[0, 100]] and ledger.next("operators", 3, 10) == (100, 110)
    ledger.add("operators", 4, 0, 7)
    assert ledger.total("operators") == 107 and ledger.total("views") == 0


def test_every_rule_has_a_row() -> None:
    rows = (Path(__file__).parents[2] / "docs" / "deviations.md").read_text(encoding="utf-8").splitlines()
    names = [row.split("|")[1].strip() for row in rows if row.startswith("| ")]
    assert names[1:] == sorted(names[1:], key=lambda name: name.strip("`").lower())
    assert {rule.name for rule in RULES} <= set(names)
