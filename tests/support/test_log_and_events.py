"""The log is quiet unless asked, and goes to standard error; events are counted and the last are kept."""

import logging
import os
import subprocess
import sys
import threading

import pytest

from rushlight.support import events, log, settings
from rushlight.support.errors import FallbackError, SettingError
from rushlight.support.names import nearest_name
from rushlight.support.setting_kinds import LOG_TOPICS


@pytest.fixture(autouse=True)
def _no_events():
    events.reset()
    yield
    events.reset()


def test_log_is_quiet_by_default(capsys: pytest.CaptureFixture[str]):
    log.FUSION.write("fused %s", "a")
    assert not log.FUSION.enabled
    assert capsys.readouterr() == ("", "")


def test_topics_asked_for_go_to_standard_error():
    program = "from rushlight.support import log; log.FUSION.write('fused %s', 'a'); log.GUARDS.write('size %d', 3)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"RUSHLIGHT_LOG": "guards"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("", "rushlight.guards: size 3\n")


def test_programs_may_use_their_own_handlers(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG, logger="rushlight.fusion"):
        assert log.topic("fusion").enabled
        log.FUSION.write("fused %s", "a")
    assert [(record.name, record.getMessage()) for record in caplog.records] == [("rushlight.fusion", "fused a")]
    assert not log.FUSION.enabled


def test_quiet_log_does_not_import_logging():
    program = "import sys; from rushlight.support import log; log.CODE.write('x'); print('logging' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_topics_come_from_one_registry():
    for name in LOG_TOPICS:
        assert log.topic(name) is getattr(log, name.upper())
    with pytest.raises(SettingError, match="fushion is not a topic") as caught:
        log.topic("fushion")
    assert caught.value.hint == "did you mean fusion?"


def test_events_are_counted_and_kept_in_order():
    events.record("cache_miss", "K101", "no entry", hint="run again")
    events.record("cache_hit", "K100", "loaded")
    events.record("cache_hit", "K100", "loaded again")
    assert events.counters() == {("cache_miss", "K101"): 1, ("cache_hit", "K100"): 2}
    assert events.count("cache_hit") == 2 and events.count("recompile") == 0
    assert [event.reason for event in events.events("cache_hit")] == ["loaded", "loaded again"]
    first = events.events()[0]
    assert first.frame is not None and first.frame.function == "test_events_are_counted_and_kept_in_order"
    assert str(first).startswith("cache_miss K101: no entry\n  test_log_and_events.py:")
    assert str(first).endswith("\n  hint: run again")


def test_ring_keeps_the_last_events_and_counts_all():
    for ordinal in range(events.CAPACITY + 5):
        events.record("cache_hit", "K100", str(ordinal))
    kept = events.events()
    assert len(kept) == events.CAPACITY and kept[0].reason == "5"
    assert events.count("cache_hit") == events.CAPACITY + 5


def test_events_of_threads_are_all_counted():
    def record_many() -> None:
        for _ in range(500):
            events.record("recompile", "C101", "guard failed")

    threads = [threading.Thread(target=record_many) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert events.count("recompile") == 2000


def test_events_are_logged_to_their_topic(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.DEBUG, logger="rushlight.recompile"):
        events.record("recompile", "C101", "size of x changed")
    assert "recompile C101: size of x changed" in caplog.text


def test_fallbacks_are_errors_under_strict():
    events.fallback("R003", "softmax: no kernel")
    with settings.override(strict_fallbacks=True), pytest.raises(FallbackError, match="softmax: no kernel"):
        events.fallback("R003", "softmax: no kernel")
    assert events.count("fallback") == 2


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("guard", "guards"), ("fusoin", "fusion"), ("CACHE", "cache"), ("zzz", None), ("", None), ("cod", "code")],
)
def test_nearest_name(name: str, nearest: str | None):
    assert nearest_name(name, LOG_TOPICS) == nearest
