"""Some of CPython's own tests, with bodies interpreted and compiled; `python -m tools.cpython_tests` runs them all."""

import sys
import unittest

import pytest

from tools.cpython_tests import __main__ as command
from tools.cpython_tests import worker
from tools.cpython_tests.choice import are_installed, reason_left_out
from tools.cpython_tests.worker import MODES

SAMPLE = {
    "bool": ["BoolTest.test_convert_to_bool", "BoolTest.test_blocked", "BoolTest.test_sane_len"],
    "generators": ["ExceptionTest.test_except_throw", "ExceptionTest.test_stopiteration_error"],
    "contextlib": ["TestExitStack.test_exit_exception_chaining", "ContextManagerTestCase.test_contextmanager_except"],
}


@pytest.mark.row("3.1")
@pytest.mark.skipif(not are_installed(), reason="this Python is installed without its tests")
@pytest.mark.parametrize("mode", [mode for mode in MODES if mode not in ("native", "whole")])
@pytest.mark.parametrize("file", SAMPLE)
def test_bodies_of_cpythons_tests_pass_and_are_interpreted(file, mode):
    rows = command.rows_of(mode, file, SAMPLE[file])
    assert list(rows) == SAMPLE[file]
    assert {name: row["text"] for name, row in rows.items()} == dict.fromkeys(rows, "")
    assert all(row["bytecodes"] > 2 * row["rest"] for row in rows.values())


@pytest.mark.skipif(not are_installed(), reason="this Python is installed without its tests")
def test_what_one_graph_can_hold_passes_as_one_and_other_bodies_are_an_error():
    names = ["BoolTest.test_math", "BoolTest.test_isinstance", "BoolTest.test_pickle"]
    rows = command.rows_of("whole", "bool", names)
    assert [row["outcome"] for row in rows.values()] == ["passed", "passed", "failed"]
    assert "B002: A function is called" in rows[names[2]]["text"]


def test_a_body_that_fails_hangs_or_runs_natively_does_not_pass(monkeypatch):
    class Odd(unittest.TestCase):
        def test_fails(self):
            assert self is None

        def test_hangs(self):
            while True:
                pass

        def test_plain(self):
            assert self is not None

    assert worker.outcome(Odd("test_hangs"), MODES["interpreted"], 0.2)[0] == "hung"
    assert worker.row(Odd("test_fails"), "interpreted")["outcome"] == "failed"
    assert worker.row(Odd("test_plain"), "interpreted")["rest"] == 0
    monkeypatch.setitem(MODES, "interpreted", MODES["native"])
    assert worker.row(Odd("test_plain"), "interpreted")["text"] == "NotInterpreted: the body ran as it is"


def test_a_test_that_ends_the_process_is_a_row(monkeypatch):
    monkeypatch.setattr(command, "WORKER", [sys.executable, "-c", CRASHING])
    rows = command.rows_of("interpreted", "odd", ["first", "second", "third"])
    assert {name: row["outcome"] for name, row in rows.items()} == {
        "first": "passed",
        "second": "crashed",
        "third": "passed",
    }


CRASHING = """
import json, os, sys
for name in json.load(sys.stdin):
    print(json.dumps({"begins": name}), flush=True)
    if name == "second":
        os.abort()
    print(json.dumps({"name": name, "outcome": "passed", "text": ""}), flush=True)
"""


def test_tests_that_name_what_is_left_out_are_left_out():
    class Case(unittest.TestCase):
        def test_text(self):
            exec("1")

        def test_plain(self):
            assert self is not None

    assert reason_left_out(Case("test_text")) == "the code under test is compiled from text while the test runs"
    assert reason_left_out(Case("test_plain")) is None
