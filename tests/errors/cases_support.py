"""Causes of the errors that the support floor raises itself."""

from pathlib import Path

import pytest

from errorcases import triggers
from rushlight.support import errors, events, log, settings
from rushlight.tune.journal import Journal


@triggers("T001")
def unknown_variable():
    settings.read_environment({"RUSHLIGHT_NUM_THREAD": "2"})


@triggers("T001", "override")
def unknown_setting():
    with settings.override(numeric="fast"):
        pass


@triggers("T002")
def value_not_allowed():
    settings.read_environment({"RUSHLIGHT_NUMERICS": "loose"})


@triggers("T002", "number")
def number_not_allowed():
    settings.update(num_threads=-1)


@triggers("T003")
def unknown_topic():
    settings.read_environment({"RUSHLIGHT_LOG": "guards,fushion"})


@triggers("T004")
def line_of_timings_cannot_be_read(tmp_path: Path):
    (tmp_path / "timings.txt").write_text("a race | a choice | fast\n")
    Journal(str(tmp_path / "timings.txt"))


@triggers("T003", "topic")
def unknown_logger():
    log.topic("caches")


@triggers("A004")
def settings_are_not_assigned():
    settings.get().num_threads = 4


@triggers("A002", "event")
def unknown_kind_of_event():
    events.events("fallbacks")


@triggers("R003")
def fallback_under_strict(request: pytest.FixtureRequest):
    request.addfinalizer(events.reset)
    with settings.override(strict_fallbacks=True):
        events.fallback("R003", "softmax: no kernel for device foo", hint="register one, or leave rl.strict()")


@triggers("X001")
def code_without_entry():
    errors.fail("S999", "matmul: inner sizes differ")


@triggers("X001", "warned")
def error_given_as_a_warning():
    errors.warn("S001", "matmul: shapes do not broadcast")
