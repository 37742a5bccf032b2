"""Campaigns that go on where they stopped: tests under a setting, and programs compiled in parts."""

import sys

import pytest
from tests.capture import programs_in_parts

from tools import suite

PRINTED = """
tests/sym/test_facts.py::test_bounds[a b] PASSED   [ 33%]
tests/sym/test_facts.py::test_sums FAILED          [ 66%]
tests/sym/test_facts.py::test_gpu SKIPPED (none)   [100%]
FAILED tests/sym/test_facts.py::test_sums - AssertionError: assert 1 == 2
"""


def test_what_pytest_prints_is_counted():
    found = suite.read("tests/sym/test_facts.py", None, PRINTED, True, 1.0)
    assert found.outcomes == {"PASSED": 1, "FAILED": 1, "SKIPPED": 1}
    assert found.failed == {"tests/sym/test_facts.py::test_sums": "AssertionError: assert 1 == 2"}
    assert list(suite.table([found]))[2:] == [
        "| sym | 1 | 3 | 1 | 1 | 1 | 0 |",
        "| all | 1 | 3 | 1 | 1 | 1 | 0 |",
    ]


def test_folders_whose_bodies_stay_as_they_are_are_not_run():
    found = suite.files([], 0)
    assert any(path.startswith("tests/sym/") for path in found)
    assert not any(path.startswith("tests/capture/") for path in found)
    assert sorted(found) == sorted(suite.files([], 1)) and found != suite.files([], 1)
    python_calls = suite.files([], 0, "RUSHLIGHT_EAGER_CALLS=python")
    assert any(path.startswith("tests/capture/") for path in python_calls)
    assert suite.files(["amp/test_autocast.py", "sy"], 0) == ["tests/amp/test_autocast.py"]


def test_a_setting_holds_in_the_process_of_a_file(monkeypatch):
    environments = []

    class Ended:
        returncode = 0

        def __init__(self, line, **named):
            environments.append(named["env"])

        def __enter__(self):
            return self

        def __exit__(self, *ended):
            return None

        def communicate(self, timeout):
            return PRINTED, None

    monkeypatch.setattr(suite.subprocess, "Popen", Ended)
    assert suite.run("tests/sym/test_facts.py", None, 0, 1.0, "RUSHLIGHT_EAGER_CALLS=python").finished
    assert environments[0]["RUSHLIGHT_EAGER_CALLS"] == "python"
    assert "RUSHLIGHT_COMPILE_TESTS" not in environments[0]


def test_a_campaign_ends_where_pytest_cannot_be_started(tmp_path, monkeypatch):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho No module named pytest\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(SystemExit, match="No module named pytest"):
        suite.run("tests/sym/test_facts.py", None, 0, 60.0)


def test_files_with_failures_are_run_again_where_that_is_asked(tmp_path, monkeypatch):
    runs = []

    def run(file, sample, seed, limit, setting):
        runs.append(file)
        failed = {} if len(runs) > 1 else {"tests/sym/test_facts.py::test_sums": ""}
        return suite.FileRun(file, sample, {"FAILED" if failed else "PASSED": 1}, failed, True, 1.0)

    monkeypatch.setattr(suite, "run", run)
    monkeypatch.setattr(suite, "files", lambda folders, seed, setting: ["tests/sym/test_facts.py"])
    for arguments in ([], [], ["--again"], ["--again"]):
        monkeypatch.setattr(sys, "argv", ["suite", "--resume", str(tmp_path / "ledger"), *arguments])
        suite.main()
    assert len(runs) == 2


def test_a_file_in_the_ledger_is_run_again_for_more_tests_alone(tmp_path, monkeypatch, capsys):
    runs = []

    def run(file, sample, seed, limit, setting):
        runs.append(sample)
        return suite.FileRun(file, sample, {"PASSED": 1}, {}, True, 1.0)

    monkeypatch.setattr(suite, "run", run)
    monkeypatch.setattr(suite, "files", lambda folders, seed, setting: ["tests/sym/test_facts.py"])
    for arguments in (["--sample", "2"], ["--sample", "2"], ["--report"], [], ["--sample", "9"], []):
        monkeypatch.setattr(sys, "argv", ["suite", "--resume", str(tmp_path / "ledger"), *arguments])
        suite.main()
        assert "| all | 1 | 1 | 1 | 0 | 0 | 0 |" in capsys.readouterr().out
    assert runs == [2, None]


def test_programs_in_the_ledger_are_not_run_again(tmp_path, monkeypatch, capsys):
    ledger, topic = tmp_path / "ledger", "functions/delegation"
    monkeypatch.setattr(sys, "argv", ["programs_in_parts", topic, "--resume", str(ledger)])
    programs_in_parts.main()
    lines = ledger.read_text().splitlines()
    ledger.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:9] + "\n")  # ended while it wrote
    ran = []
    differing = programs_in_parts.differing
    monkeypatch.setattr(programs_in_parts, "differing", lambda *args, **named: _noting(ran, differing(*args, **named)))
    first = capsys.readouterr().out
    programs_in_parts.main()
    assert len(ran) == 1 and len(programs_in_parts.noted(ledger)) == len(lines)
    assert capsys.readouterr().out.splitlines()[0] == first.splitlines()[0] == f"{len(lines)} programs, 0 differ"


def _noting(ran, differing):
    for pair in differing:
        ran.append(pair)
        yield pair
