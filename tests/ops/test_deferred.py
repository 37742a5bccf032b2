"""Operators whose modules are loaded when a rule of theirs is first asked for."""

import subprocess
import sys
import textwrap
import threading

import pytest

from rushlight.ops.record import OPERATORS, Declaration, defer, undefine
from rushlight.support.errors import RushlightError

MODULE = "deferred_family"
SCHEMA = "deferred_twice(Tensor input) -> Tensor"
TEXT = """
    import time
    from rushlight.ops.record import define

    twice = define("deferred_twice(Tensor input) -> Tensor", "Two of it.")
    time.sleep(0.05)
    STOP

    @twice.decompose
    def twice_decompose(input):
        return input + input
"""


@pytest.fixture
def family(tmp_path, monkeypatch):
    """Write a module of one operator and register it as deferred; returns a function that writes it anew."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(stop: str = "") -> None:
        (tmp_path / f"{MODULE}.py").write_text(textwrap.dedent(TEXT).replace("STOP", stop))

    write()
    defer([(MODULE, (Declaration(SCHEMA, "Two of it.", OPERATORS["exp"].facts, "all", None, "function"),))])
    yield write
    undefine("deferred_twice")
    sys.modules.pop(MODULE, None)


def test_import_loads_no_family_that_it_can_do_without():
    program = "import sys, rushlight; print(*[name for name in sys.modules if name.startswith('rushlight.ops.')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    families = {name.split(".")[2] for name in done.stdout.split()}
    assert families == {
        "control",
        "deferred",
        "dims",
        "index_ranges",
        "math",
        "pointwise",
        "promote",
        "record",
        "schema",
        "segments",  # of the ranges of indices; it has no operators
    }


def test_a_rule_loads_the_module_and_keeps_the_record(family):
    record = OPERATORS["deferred_twice"]
    assert record.schema.parameters[0].name == "input"
    assert MODULE not in sys.modules
    assert record.decompose_rule is not None
    assert record.vjp_rule is None
    assert sys.modules[MODULE].twice is record
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        record.nothing  # noqa: B018


def test_threads_wait_for_the_module(family):
    record, found = OPERATORS["deferred_twice"], []
    threads = [threading.Thread(target=lambda: found.append(record.decompose_rule)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert None not in found


def test_an_interrupted_import_begins_again(family):
    family("raise KeyboardInterrupt")
    record = OPERATORS["deferred_twice"]
    with pytest.raises(KeyboardInterrupt):
        record.decompose_rule  # noqa: B018
    family("")
    sys.modules.pop(MODULE, None)
    assert record.decompose_rule is not None


def test_a_second_definition_elsewhere_is_refused(family):
    assert OPERATORS["deferred_twice"].decompose_rule is not None
    with pytest.raises(RushlightError, match="defined twice"):
        sys.modules[MODULE].define(SCHEMA, "Again.")
